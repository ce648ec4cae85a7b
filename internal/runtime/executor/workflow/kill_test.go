package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	executor "github.com/actlog/actlog/internal/runtime/executor/workflow"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// journey is a custom workflow with everything in it: an agent with two calls, a chain, a tool that needs an
// approval, a step that fails and is caught. It returns its result, and what is on record.
func journey(t *testing.T, disturb func(*enginetest.House)) string {
	t.Helper()
	var mu sync.Mutex
	done := map[string]int{}
	effect := func(name string, p tool.Policy) tool.Tool {
		return tool.CallFunc(name, "Has an effect.", func(_ context.Context, c tool.Call, _ struct{}) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			done[name+" "+c.ID]++
			return name + " done", nil
		}, tool.WithPolicy(p))
	}

	calls := functions{"own": func(ctx context.Context, f workflow.Facade, in json.RawMessage, _ string) (any, error) {
		a, err := f.RunAgent(ctx, "a", string(in))
		if err != nil {
			return nil, err
		}

		_, err = f.RunAgent(ctx, "lost", "Try.") // it fails, and the workflow goes on
		failed := fmt.Sprint(err)
		paid, err := f.CallTool(ctx, "pay", struct{}{})
		if err != nil {
			return nil, err
		}
		r, err := f.RunWorkflow(ctx, "chain", a.Text())
		return []any{a.Text(), failed, paid, r.FinalOutput}, err
	}}

	agent := func(name string) define.Definition {
		return define.Definition{
			Agent: name, SystemPrompt: "You are " + name + ".", Model: define.DefinitionModel{Name: "default"},
			Tools: []string{"once", "again"}, EnableWrite: true, IncludeHistory: true, MaxSteps: 2,
		}
	}

	once, again := call("once", object{}), call("again", object{})
	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{
			scene("a", callsTo(again, again), says("from a")), scene("b", callsTo(once), says("from b")),
			scene("lost", callsTo(again), callsTo(again)),
		},
		Definitions: map[string]any{
			"agent.a": agent("a"), "agent.b": agent("b"), "agent.lost": agent("lost"),
			"simple_workflow.chain": define.Workflow{
				Steps: []define.WorkflowStep{{Name: "b", Type: define.AgentStep}, {Name: "a", Type: define.AgentStep}},
			},
			"custom_workflow.own": define.Flow{
				Agents: []string{"a", "lost"}, Workflows: []string{"chain"}, Tools: []string{"pay"},
			},
		},
		Tools: []tool.Tool{
			effect("once", tool.Policy{Writes: true}), effect("again", tool.Policy{OnUnknown: tool.Retry}),
			effect("pay", tool.Policy{Approval: true, OnUnknown: tool.Retry}),
		},
		Executors: []engine.Executor{executor.Executor{Functions: calls.of}},
	})

	disturb(h)
	h.Work(h.Engine)
	id := start(t, h, object{"workflow": "own", "input": "Go."}, in("s"))
	var answered sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	answered.Go(func() {
		for ctx.Err() == nil {
			for _, w := range h.Waits() {
				if err := h.Decide(w, record.Approved, "approve", ""); err != nil &&
					!strings.Contains(err.Error(), "decided before") {
					t.Error(err)
				}
			}
		}
	})

	p := h.Ended(id)
	cancel()
	answered.Wait()

	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n", *p.Record.State, text(p.Record.ErrorMessage), text(p.Record.Summary))
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "step %s %s %s %q\n", text(s.Record.AgentName), *s.Record.State, text(s.Record.ErrorMessage),
			text(s.Record.Result))
	}
	for _, session := range []string{"s", "s-0", "s-1", "s-3-0", "s-3-1"} {
		said, err := h.Runs.Messages(t.Context(), session, 100, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range said {
			fmt.Fprintf(&b, "%s %s %q %s\n", session, m.Role, m.Text, m.Message)
		}
	}

	for id, times := range done {
		if times > 1 && strings.HasPrefix(id, "once ") {
			t.Errorf("call %s was made %d times", id, times)
		}
	}
	return b.String()
}

// TestKilledAtEveryWrite kills the worker before and after each write, and lets each write fail. It checks that the
// workflow comes to the same end: the same answer, steps and sessions, no effect twice. D8, D17, D20.
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	want := enginetest.AtEveryWrite(t, journey, func(t *testing.T, got, want string) {
		t.Helper()
		const lost = "Error executing tool 'once': The outcome of this call is unknown"
		if got != want && !strings.Contains(got, lost) { // it is not made again, and the model is told
			t.Errorf("it came to another end:\n%s", got)
		}
	})

	if !strings.Contains(want, "COMPLETED") ||
		!strings.Contains(
			want, `["from a","Agent stopped after reaching the maximum of 2 iterations.","pay done","from a"]`,
		) {
		t.Fatalf("undisturbed:\n%s", want)
	}
}
