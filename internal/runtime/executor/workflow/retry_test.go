package workflow_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

func (r *releases) retry(id string) {
	r.T.Helper()
	if err := r.Engine.Retry(r.T.Context(), engine.RetryRequest{PlanID: id}); err != nil {
		r.T.Fatal(err)
	}
}

// TestRetryOfFunctions: a retry calls the function again. What its code went on without is not tried again, although it
// failed: the code has decided what follows. What failed last is.
func TestRetryOfFunctions(t *testing.T) {
	t.Parallel()
	pay, ship := tools("pay", object{"text": "A"}), tools("ship", object{"text": "B"})
	for name, tt := range map[string]struct {
		steps   func(h *releases) []one
		effects string
	}{
		"an error of the code": {func(h *releases) []one { return []one{pay, h.sound, ship} }, "pay A, ship B"},
		"a tool":               {func(*releases) []one { return []one{pay, ship, pay} }, "pay A, ship B, ship B, pay A"},
		"a tool that the code does without": {
			func(h *releases) []one { return []one{despite(ship), pay, h.sound, ship} }, "ship B, pay A, ship B",
		},
		"a tool of an inner function": {
			func(*releases) []one { return []one{pay, flows("inner", "A")} }, "pay A, ship inner, ship inner",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := builds(t)
			h.sinks.Store(true)
			h.work("1.4", doing(tt.steps(h)...))
			id := h.start()
			h.Await(id, record.Failed)

			h.sinks.Store(false)
			h.retry(id)
			if h.Await(id, record.Completed); h.done() != tt.effects {
				t.Errorf("effects: %s, want %s", h.done(), tt.effects)
			}
		})
	}
}

// sound fails while ships sink.
func (r *releases) sound(context.Context, workflow.Facade) (any, error) {
	if r.sinks.Load() {
		return nil, errors.New("ships sink")
	}
	return "sound", nil
}

// despite goes on although a step failed.
func despite(step one) one {
	return func(ctx context.Context, f workflow.Facade) (any, error) {
		out, err := step(ctx, f)
		if errors.Is(err, workflow.ErrFailed) {
			return "instead", nil
		}
		return out, err
	}
}

// TestRetryAsksForWhatIsAnother: a call that is made anew with other arguments than were approved is approved before.
func TestRetryAsksForWhatIsAnother(t *testing.T) {
	t.Parallel()
	h := builds(t, tool.Policy{Approval: true, Writes: true})
	approve := func() {
		t.Helper()
		storetest.Until(t, "it asks", func() bool {
			return len(h.Waits()) == 1 && *h.Waits()[0].Type == record.WaitActionValidation
		})
		if err := h.Decide(h.Waits()[0], record.Approved, "approve", ""); err != nil {
			t.Fatal(err)
		}
	}

	stop := h.work("1.4", doing(tools("wire", object{"text": "A"}), asks))
	id := h.start()
	approve()
	storetest.Until(t, "the form is shown", func() bool {
		return h.done() == "wire A" && len(h.Waits()) == 1 && !h.held()
	})
	stop()

	h.work("1.5", doing(tools("wire", object{"text": "B"}), asks))
	h.answers()
	h.parked(id)
	h.retry(id)
	approve()
	h.answers()
	if h.Await(id, record.Completed); h.done() != "wire A, wire B" {
		t.Errorf("effects: %s", h.done())
	}
}

// TestRetryAsksAgain: a run that failed because nobody answered in time asks again: what became of a call, and whether
// one may be made.
func TestRetryAsksAgain(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]tool.Policy{
		"what became of it": {Writes: true, WaitTimeout: 50 * time.Millisecond},
		"may it run":        {Approval: true, WaitTimeout: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := builds(t, p)
			h.breaks.Store(1)
			h.work("1", doing(wires))
			id := h.start()
			h.Await(id, record.Failed)

			h.retry(id)
			const timedOut = "SELECT count(*) FROM actlog.wait_state WHERE state = 'TIMED_OUT'"
			storetest.Until(t, "it asks again", func() bool { return storetest.Query[int64](t, h.Store, timedOut) == 2 })
			if p := h.Await(id, record.Failed); text(p.Record.ErrorKind) != engine.WaitTimedOut {
				t.Errorf("it failed as %s", text(p.Record.ErrorKind))
			}
		})
	}
}
