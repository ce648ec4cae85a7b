package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestFork: a program goes on from a row of a run: of the calls of a function those before are not made again, and one
// has another result.
func TestFork(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	a := open(t, url)
	var mu sync.Mutex
	var made []string
	register(t, a, agent.Parts{
		Tools: []tool.Tool{tool.Func("add", "Adds.", func(_ context.Context, in struct {
			To string `json:"to"`
		}) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			made = append(made, in.To)
			return in.To + "+", nil
		})},
		Workflows: map[string]agent.Workflow{"w": {Tools: []string{"add"}, Run: addsThrice}},
	})
	go func() { _ = a.Work(t.Context()) }()

	id := start(t, a, agent.Job{Work: agent.Flow{Workflow: "w", Input: 1}})
	finished(t, a, id, record.Completed)
	s := storetest.OpenURL(t, url)
	var calls []string
	for _, step := range storetest.PlanTree(t, s, id).Steps {
		detail, err := s.StepDetail(t.Context(), id, step.Record.StepID)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range detail.Cycles[0].ToolCalls {
			calls = append(calls, fmt.Sprintf("call:%s/0/%s", c.Record.StepID, c.Record.ToolCallID))
		}
	}

	how := agent.ForkOptions{
		Changes: agent.Changes{Rows: map[string]agent.RowChange{calls[1]: {Result: new("y")}}}, IdempotencyKey: "k",
	}
	forked, err := a.Fork(t.Context(), id, calls[2], how)
	if err != nil {
		t.Fatal(err)
	}
	again, err := a.Fork(t.Context(), id, calls[2], how)
	if err != nil || again != forked {
		t.Errorf("the same request started %s and %s: %v", forked, again, err)
	}

	run := finished(t, a, forked, record.Completed)
	if !strings.Contains(run.Result, `"final_output":"y+"`) || run.ForkedFrom != id || run.ForkedAt != calls[2] || run.Total.ToolCalls != 1 {
		t.Errorf("it ended as %+v", run)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"x", "x+", "x++", "y"}; !slices.Equal(made, want) {
		t.Errorf("made are %q, not %q", made, want)
	}

	if _, err := a.Fork(t.Context(), "none", calls[0], agent.ForkOptions{}); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("no run: %v", err)
	}
	var invalid *record.InvalidError
	_, err = a.Fork(t.Context(), id, "call:x", agent.ForkOptions{})
	if !errors.As(err, &invalid) || invalid.Field != "at" {
		t.Errorf("no row: %v", err)
	}
}

func addsThrice(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
	text := "x"
	for range 3 {
		more, err := f.CallTool(ctx, "add", map[string]string{"to": text})
		if err != nil {
			return nil, err
		}
		text = more
	}
	return text, nil
}
