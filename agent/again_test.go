package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

// TestAgain: a program retries a run, and runs it again with another input.
func TestAgain(t *testing.T) {
	t.Parallel()
	a := open(t, pgtest.New(t).URL)
	var mended atomic.Bool
	register(t, a, agent.Parts{Workflows: map[string]agent.Workflow{"w": {Run: func(
		_ context.Context, _ workflow.Facade, in json.RawMessage, _ string,
	) (any, error) {
		if !mended.Load() {
			return nil, errors.New("a bug")
		}
		return in, nil
	}}}})
	go func() { _ = a.Work(t.Context()) }()

	asked := agent.Flow{Workflow: "w", Input: map[string]string{"name": "Ann"}}
	id := start(t, a, agent.Job{Work: asked, Tags: []string{"x"}})
	finished(t, a, id, record.Failed)
	mended.Store(true)
	for range 2 { // the same request does nothing twice
		if err := a.Retry(t.Context(), id, agent.RetryOptions{By: "ada", IdempotencyKey: "k"}); err != nil {
			t.Fatal(err)
		}
		if run := finished(t, a, id, record.Completed); run.Attempt != 2 {
			t.Errorf("attempt %d", run.Attempt)
		}
	}

	again, err := a.Again(t.Context(), id, agent.AgainOptions{
		Input: map[string]any{"input": map[string]string{"name": "Bo"}}, Starter: "bo",
	})
	if err != nil {
		t.Fatal(err)
	}
	if run := finished(t, a, again, record.Completed); run.AgainOf != id || run.Attempt != 1 ||
		run.Result == finished(t, a, id, record.Completed).Result {
		t.Errorf("again: %+v", run)
	}

	for _, err := range []error{
		a.Retry(t.Context(), id, agent.RetryOptions{}), a.Retry(t.Context(), "none", agent.RetryOptions{}),
		a.Retry(t.Context(), id, agent.RetryOptions{By: "\x00"}),
	} {
		if !errors.Is(err, agent.ErrCompleted) && !errors.Is(err, record.ErrNotFound) &&
			!errors.As(err, new(*record.InvalidError)) {
			t.Errorf("a retry: %v", err)
		}
	}
	if _, err := a.Again(t.Context(), id, agent.AgainOptions{Input: 7}); !errors.As(err, new(*record.InvalidError)) {
		t.Errorf("an input that is no object: %v", err)
	}
}
