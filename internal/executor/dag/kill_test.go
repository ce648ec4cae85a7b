package dag_test

import (
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

// TestKilledAtEveryWrite kills the worker before and after each write of a graph whose nodes run at the
// same time, and lets each write fail. The answer and the steps stay the same.
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	scenes := []scriptmodel.Scene{
		{Name: "plan", Match: scriptmodel.Match{System: "acyclic graph"}, Turns: []scriptmodel.Turn{{Content: `{"nodes":[
			{"id":"a","name":"A","provider":"default"},{"id":"b","name":"B","provider":"default","dependencies":["a"]},
			{"id":"c","name":"C","provider":"default","dependencies":["a"]},{"id":"d","name":"D","provider":"default","dependencies":["b","c"]}]}`}}},
		{Name: "node", Match: scriptmodel.Match{System: "carry out"}, Turns: []scriptmodel.Turn{{Content: "done"}}},
	}
	carry := func(t *testing.T, disturb func(*enginetest.House)) string {
		t.Helper()
		h := enginetest.Build(t, enginetest.Plans{Scenes: scenes, Executors: []engine.Executor{dag.Executor{}}})
		disturb(h)
		h.Work(h.Engine)
		started, err := h.Engine.Start(t.Context(), engine.Request{Executor: "dag", Input: json.RawMessage(`{"prompt":"Go."}`)})
		if err != nil {
			t.Fatal(err)
		}
		p := h.Await(started.PlanID, record.Completed)
		var b strings.Builder
		b.WriteString(strings.ReplaceAll(*p.Record.Summary, started.PlanID, "ID"))
		for _, st := range p.Steps {
			if st.Record.StepIndex == nil {
				t.Fatalf("a step has no index: %+v", st.Record)
			}
			fmt.Fprintf(&b, "\n%d %s %s %q", *st.Record.StepIndex, *st.Record.AgentName, *st.Record.State, *st.Record.Result)
		}
		return b.String()
	}
	want := enginetest.AtEveryWrite(t, carry, func(t *testing.T, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("it came to another end:\n%s", got)
		}
	})
	if !strings.Contains(want, `4 d COMPLETED "done"`) {
		t.Fatalf("undisturbed:\n%s", want)
	}
}
