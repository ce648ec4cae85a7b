package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

var wires = tools("wire", object{"text": "A"})

// decides answers the only question what became of a call.
func (r *releases) decides(decision string) {
	r.T.Helper()
	storetest.Until(r.T, "it is asked what became of the call", func() bool { return len(r.Waits()) == 1 })
	w := r.Waits()[0]
	if *w.Type != record.WaitActionValidation {
		r.T.Fatalf("it asks for %s", *w.Type)
	}
	state := map[string]record.State{"done": record.Approved, "retry": record.Approved, "skip": record.Rejected}[decision]
	if err := r.Decide(w, state, decision, ""); err != nil {
		r.T.Fatal(err)
	}
}

// TestUnknownIsAsked checks that a function which returns that the outcome of a call is unknown does not fail: a person
// decides, and it is called again with the answer.
func TestUnknownIsAsked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		code      workflow.Func
		breaks    int64
		decisions []string
		state     record.State
		output    string
		effects   string
	}{
		"done": {doing(wires, asks, tools("ship", object{"text": "B"})), 1, []string{"done"}, record.Completed,
			`["","{\"city\":\"Oslo\"}","did ship B"]`, "wire A, ship B"},
		"retry": {doing(wires, asks), 1, []string{"retry"}, record.Completed,
			`["did wire A","{\"city\":\"Oslo\"}"]`, "wire A, wire A"},
		"retry, retry, done": {doing(wires, asks), 3, []string{"retry", "retry", "done"}, record.Completed,
			`["","{\"city\":\"Oslo\"}"]`, "wire A, wire A, wire A"},
		"skip": {doing(wires), 1, []string{"skip"}, record.Failed, `null`, "wire A"},
		"in an inner one": {doing(flows("inner", "wire"), asks), 1, []string{"done"}, record.Completed,
			`["","{\"city\":\"Oslo\"}"]`, "wire inner"},
		"wrapped": {func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
			out, err := wires(ctx, f)
			if err != nil {
				return nil, fmt.Errorf("pay the bill: %w", err)
			}
			return out, nil
		}, 1, []string{"retry"}, record.Completed, `"did wire A"`, "wire A, wire A"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := builds(t)
			h.breaks.Store(tt.breaks)
			stop := h.work("1", tt.code)
			id := h.start()
			h.Await(id, record.Waiting)

			if step := h.Step(h.Plan(id)); *step.Record.State != record.Waiting ||
				*step.Cycles[0].ToolCalls[0].Record.State != record.Unknown {
				t.Errorf("the step is %s", *step.Record.State)
			}
			for _, decision := range tt.decisions {
				h.decides(decision)
			}

			if strings.Contains(tt.output, "Oslo") { // the rest is done by another worker, from the record
				storetest.Until(t, "the form is shown", func() bool { return len(h.Waits()) == 1 })
				stop()
				h.work("1", tt.code)
				h.answers()
			}

			p := h.Ended(id)
			var r workflow.Result
			if err := json.Unmarshal([]byte(text(p.Record.Summary)), &r); err != nil {
				t.Fatal(err)
			}
			if output, _ := json.Marshal(r.FinalOutput); *p.Record.State != tt.state || string(output) != tt.output {
				t.Errorf("it is %s with %q, want %q: %s", *p.Record.State, output, tt.output, text(p.Record.ErrorMessage))
			}
			if h.done() != tt.effects {
				t.Errorf("effects: %s, want %s", h.done(), tt.effects)
			}
		})
	}
}

// TestUnknownIsTyped checks what a function gets of a call whose outcome is unknown, and that it may go on by itself.
func TestUnknownIsTyped(t *testing.T) {
	t.Parallel()
	h := builds(t)
	h.breaks.Store(1)
	code := func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
		out, err := wires(ctx, f)
		if !errors.Is(err, workflow.ErrUnknown) || errors.Is(err, workflow.ErrFailed) ||
			errors.Is(err, workflow.ErrInterrupted) || out != "" {
			return nil, fmt.Errorf("it got %q, %w", out, err)
		}
		if _, err := tools("pay", object{"text": "instead"})(ctx, f); err != nil {
			return nil, err
		}
		return asks(ctx, f)
	}

	stop := h.work("1", code)
	id := h.start()
	h.Await(id, record.Waiting)
	stop()

	h.work("1", code)
	h.answers()
	p := h.Await(id, record.Completed)
	if h.done() != "wire A, pay instead" {
		t.Errorf("effects: %s", h.done())
	}

	step := p.Steps[0].Record
	if *step.State != record.Unknown || text(step.ErrorKind) != "unknown" {
		t.Errorf("the step of the call is %s, %s", *step.State, text(step.ErrorKind))
	}
	calls := storetest.StepDetail(t, h.Store, step.StepID).Cycles[0].ToolCalls
	const unknown = "The outcome of this call is unknown"
	if c := calls[0].Record; *c.State != record.Unknown || !strings.HasPrefix(text(c.Result), unknown) {
		t.Errorf("the call is %s: %s", *c.State, text(c.Result))
	}
}

// TestUnknownOfALostWorker checks the same for a call whose worker was lost.
func TestUnknownOfALostWorker(t *testing.T) {
	t.Parallel()
	h := builds(t)
	h.breaks.Store(1)
	stop := h.work("1", doing(wires))
	id := h.start()
	h.Await(id, record.Waiting)
	stop()

	// As if the worker had been lost during the call.
	storetest.Exec(t, h.Store, "DELETE FROM actlog.wait_state")
	storetest.Exec(t, h.Store, "UPDATE actlog.act_tool_info SET told_state = 'RUNNING', result = NULL, error_kind = NULL, "+
		"error_message = NULL, end_time = NULL")
	storetest.Exec(t, h.Store, "UPDATE actlog.run SET due_at = now()")
	h.work("1", doing(wires))
	h.decides("done")

	p := h.Await(id, record.Completed)
	call := h.Step(p).Cycles[0].ToolCalls[0].Record
	if *call.Attempt != 2 || *call.State != record.Completed || text(call.Result) != "" || h.done() != "wire A" {
		t.Errorf("attempt %d is %s with %q; effects: %s", *call.Attempt, *call.State, text(call.Result), h.done())
	}
}

// TestUnknownIsNotAnswered checks that a run ends if nobody says in time what became of a call.
func TestUnknownIsNotAnswered(t *testing.T) {
	t.Parallel()
	h := builds(t, tool.Policy{Writes: true, WaitTimeout: 50 * time.Millisecond})
	h.breaks.Store(1)
	h.work("1", doing(wires))

	p := h.Ended(h.start())
	if *p.Record.State != record.Failed || text(p.Record.ErrorKind) != "wait_timed_out" {
		t.Errorf("it is %s, %s: %s", *p.Record.State, text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
	}
	if got := storetest.Query[string](t, h.Store, "SELECT state FROM actlog.wait_state"); got != "TIMED_OUT" {
		t.Errorf("the wait is %s", got)
	}
}

// TestNobodyAnswersAFunction checks the error kind of a run that cannot go on without a form, or an approval, which
// nobody answered in time.
func TestNobodyAnswersAFunction(t *testing.T) {
	t.Parallel()
	h := builds(t, tool.Policy{Approval: true, WaitTimeout: 50 * time.Millisecond})
	h.work("1", doing(wires))
	p := h.Ended(h.start())
	if *p.Record.State != record.Failed || text(p.Record.ErrorKind) != "wait_timed_out" || h.done() != "" {
		t.Errorf("it is %s, %s: %s", *p.Record.State, text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
	}

	call := h.Step(p).Cycles[0].ToolCalls[0].Record
	wait := storetest.Query[string](t, h.Store, "SELECT state FROM actlog.wait_state")
	if text(call.ErrorKind) != "wait_timed_out" || wait != "TIMED_OUT" {
		t.Errorf("the call is %s, the wait %s", text(call.ErrorKind), wait)
	}
}
