package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/internal/enginetest"
	"github.com/actlog/actlog/internal/executor/dag"
	"github.com/actlog/actlog/internal/scriptmodel"
	"github.com/actlog/actlog/record"
)

// TestDagKilledAtEveryWrite kills the worker before and after each write of a graph whose nodes run at the
// same time, and lets each write fail. The answer and the steps stay the same.
func TestDagKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	scenes := []scriptmodel.Scene{
		{Name: "plan", Match: scriptmodel.Match{System: "acyclic graph"}, Turns: []scriptmodel.Turn{{Content: `{"nodes":[
			{"id":"a","name":"A","provider":"default"},{"id":"b","name":"B","provider":"default","dependencies":["a"]},
			{"id":"c","name":"C","provider":"default","dependencies":["a"]},{"id":"d","name":"D","provider":"default","dependencies":["b","c"]}]}`}}},
		{Name: "node", Match: scriptmodel.Match{System: "carry out"}, Turns: []scriptmodel.Turn{{Content: "done"}}},
	}
	carry := func(t *testing.T, disturb func(h *enginetest.House) func() int) (outline string, writes int) {
		t.Helper()
		h := enginetest.Build(t, enginetest.Plans{Scenes: scenes, Executors: []engine.Executor{dag.Executor{}}})
		written := disturb(h)
		h.Work(h.Engine)
		started, err := h.Engine.Start(t.Context(), engine.Request{Executor: "dag", Input: json.RawMessage(`{"prompt":"Go."}`)})
		if err != nil {
			t.Fatal(err)
		}
		p := h.Await(started.PlanID, record.Completed)
		var b strings.Builder
		b.WriteString(strings.ReplaceAll(text(p.Record.Summary), started.PlanID, "ID"))
		for _, st := range p.Steps {
			if st.Record.StepIndex == nil {
				t.Fatalf("a step has no index: %+v", st.Record)
			}
			fmt.Fprintf(&b, "\n%d %s %s %q", *st.Record.StepIndex, text(st.Record.AgentName), *st.Record.State, text(st.Record.Result))
		}
		return b.String(), written()
	}
	want, writes := carry(t, func(h *enginetest.House) func() int { return engine.Fail(h.Engine, 0) })
	t.Logf("%d writes:\n%s", writes, want)
	kill := func(n int, before bool) func(h *enginetest.House) func() int {
		return func(h *enginetest.House) func() int {
			return engine.Kill(h.Engine, n, before, func(planID string) {
				if _, err := h.DB.Pool.Exec(context.Background(), "UPDATE actlog.run SET worker_id = NULL, due_at = now() WHERE plan_id = $1 AND NOT done", planID); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for n := 1; n <= writes; n++ {
		for name, way := range map[string]func(h *enginetest.House) func() int{
			"killed before": kill(n, true), "killed after": kill(n, false),
			"failed": func(h *enginetest.House) func() int { return engine.Fail(h.Engine, n) },
		} {
			t.Run(fmt.Sprintf("%s %d", name, n), func(t *testing.T) {
				t.Parallel()
				if got, _ := carry(t, way); got != want {
					t.Errorf("it came to another end:\n%s", got)
				}
			})
		}
	}
}
