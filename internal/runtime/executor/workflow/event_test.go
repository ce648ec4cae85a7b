package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	executor "github.com/actlog/actlog/internal/runtime/executor/workflow"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// waiting is a house whose workflow is a function.
func waiting(t *testing.T, f workflow.Func) *enginetest.House {
	t.Helper()
	return enginetest.Build(t, enginetest.Plans{
		Scenes:      []scriptmodel.Scene{scene("nobody", says("Nothing."))},
		Definitions: map[string]any{"custom_workflow.own": define.Flow{}},
		Executors:   []engine.Executor{executor.Executor{Functions: functions{"own": f}.of}},
	})
}

func send(t *testing.T, h *enginetest.House, key, data string) {
	t.Helper()
	r := engine.EventRequest{Key: key, Data: json.RawMessage(data)}
	if _, err := h.Engine.SendEvent(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// sleepy is a workflow that sleeps and waits for events.
func sleepy(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
	if err := f.Sleep(ctx, 10*time.Millisecond); err != nil {
		return nil, err
	}
	if err := f.Sleep(ctx, -time.Second); err != nil {
		return nil, err
	}

	_, err := f.Event(ctx, "paid:17", 10*time.Millisecond)
	if !errors.Is(err, workflow.ErrTimedOut) || errors.Is(err, workflow.ErrFailed) {
		return nil, fmt.Errorf("the time is not over: %w", err)
	}

	var all []json.RawMessage
	for _, timeout := range []time.Duration{0, time.Hour} {
		data, err := f.Event(ctx, "paid:17", timeout)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// TestEventsKilledAtEveryWrite: a workflow sleeps and waits for events, wherever its worker is killed. What a sender
// calls a time-out is none.
func TestEventsKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	want := enginetest.AtEveryWrite(t, func(t *testing.T, disturb func(*enginetest.House)) string {
		t.Helper()
		h := waiting(t, sleepy)
		disturb(h)
		h.Work(h.Engine)
		id := start(t, h, object{"workflow": "own", "input": "x"}, in("s"))
		for _, data := range []string{`{"timedOut": true}`, `{"amount": 42}`} {
			storetest.Until(t, "it waits for an event", func() bool {
				return storetest.Query[bool](t, h.Store, `SELECT
					EXISTS (SELECT FROM actlog.act_tool_info WHERE state = 'WAITING')
					AND EXISTS (SELECT FROM actlog.agent_execution_record WHERE step_index >= 3)
					AND NOT EXISTS (SELECT FROM actlog.event WHERE event_id NOT IN (SELECT event_id FROM actlog.event_taken))`)
			})
			send(t, h, "paid:17", data)
		}

		p := h.Ended(id)
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s %s\n", *p.Record.State, text(p.Record.ErrorMessage), text(p.Record.Summary))
		for _, s := range p.Steps {
			fmt.Fprintf(&b, "step %s %q %q\n", *s.Record.State, text(s.Record.AgentRequest), text(s.Record.Result))
		}
		return b.String()
	}, func(t *testing.T, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("it came to another end:\n%s", got)
		}
	})

	if !strings.Contains(want, "COMPLETED") || !strings.Contains(want, `[{"timedOut":true},{"amount":42}]`) ||
		strings.Count(want, "step COMPLETED") != 4 || strings.Count(want, "step FAILED") != 1 {
		t.Fatalf("undisturbed:\n%s", want)
	}
}

// TestRetryOfWait: a workflow that failed because an event was not sent in time waits for it again when it is retried.
func TestRetryOfWait(t *testing.T) {
	t.Parallel()
	h := waiting(t, func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
		return f.Event(ctx, "paid:17", 200*time.Millisecond)
	})
	h.Work(h.Engine)
	id := start(t, h, object{"workflow": "own", "input": "x"})
	if p := h.Ended(id); *p.Record.State != record.Failed || text(p.Record.ErrorKind) != engine.WaitTimedOut {
		t.Fatalf("it is %s, %s", *p.Record.State, text(p.Record.ErrorKind))
	}

	send(t, h, "paid:17", `"late"`)
	if err := h.Engine.Retry(t.Context(), engine.RetryRequest{PlanID: id}); err != nil {
		t.Fatal(err)
	}
	if p := h.Ended(id); *p.Record.State != record.Completed || !strings.Contains(text(p.Record.Summary), `"late"`) {
		t.Errorf("it is %s: %s", *p.Record.State, text(p.Record.Summary))
	}
}

// TestEventTimesOut: a workflow that returns that the time is over fails, and says so; wrong arguments fail it, too.
func TestEventTimesOut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		call func(context.Context, workflow.Facade) error
		says string
	}{
		"it is over": {func(ctx context.Context, f workflow.Facade) error {
			_, err := f.Event(ctx, "paid:17", time.Millisecond)
			return err
		}, "event paid:17: the time is over"},
		"without a key": {func(ctx context.Context, f workflow.Facade) error {
			_, err := f.Event(ctx, "", 0)
			return err
		}, "an event needs a key"},
		"negative": {func(ctx context.Context, f workflow.Facade) error {
			_, err := f.Event(ctx, "e", -time.Second)
			return err
		}, "the timeout of event e is negative"},
		"for ever": {func(ctx context.Context, f workflow.Facade) error {
			return f.Sleep(ctx, 100*365*24*time.Hour)
		}, "seconds: must be from 0 to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := waiting(t, func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
				return nil, tt.call(ctx, f)
			})
			h.Work(h.Engine)
			p := h.Ended(start(t, h, object{"workflow": "own", "input": "x"}))
			if *p.Record.State != record.Failed || !strings.Contains(text(p.Record.ErrorMessage), tt.says) {
				t.Errorf("it is %s: %s", *p.Record.State, text(p.Record.ErrorMessage))
			}
		})
	}
}
