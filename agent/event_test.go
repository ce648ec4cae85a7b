package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestEvent: a program sends an event to a run that waits for it.
func TestEvent(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)
	register(t, a, agent.Parts{Workflows: map[string]agent.Workflow{"w": {Run: func(
		ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string,
	) (any, error) {
		return f.Event(ctx, "paid:17", 0)
	}}}})
	go func() { _ = a.Work(t.Context()) }()

	id := start(t, a, agent.Job{Work: agent.Flow{Workflow: "w", Input: 1}, Project: "shop"})
	storetest.Until(t, "the run waits", func() bool {
		run, err := a.Read(t.Context(), id)
		return err == nil && run.State == record.Waiting && slices.Equal(run.WaitingFor, []string{"event:paid:17"})
	})

	how := agent.EventOptions{Project: "shop", By: "ada", IdempotencyKey: "k"}
	for range 2 { // the same event is sent once
		woken, err := a.Event(t.Context(), "paid:17", map[string]int{"amount": 42}, how)
		if err != nil || woken != 1 {
			t.Errorf("it woke %d, %v", woken, err)
		}
	}
	var result workflow.Result
	if err := a.Result(t.Context(), id, &result); err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal(result.FinalOutput); string(got) != `{"amount":42}` {
		t.Errorf("it returned %s", got)
	}

	for field, err := range map[string]error{
		"key":            sent(a.Event(t.Context(), "", nil, agent.EventOptions{})),
		"data":           sent(a.Event(t.Context(), "k", math.NaN(), how)),
		"idempotencyKey": sent(a.Event(t.Context(), "k", 1, how)),
		"project":        sent(a.Event(t.Context(), "k", 1, agent.EventOptions{Project: "\xff"})),
	} {
		if bad := new(record.InvalidError); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// sent returns why an event was not sent.
func sent(_ int, err error) error { return err }
