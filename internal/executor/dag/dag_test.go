package dag_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/internal/enginetest"
	"github.com/actlog/actlog/internal/executor/dag"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/scriptmodel"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const diamond = `{"title":"Three topics","nodes":[
{"id":"n0","name":"Context","description":"Gather.","provider":"default"},
{"id":"n1","name":"X","description":"Do X.","provider":"default","dependencies":["n0"]},
{"id":"n2","name":"Y","description":"Do Y.","provider":"scripted","dependencies":["n0"]},
{"id":"n3","name":"Z","description":"Do Z.","provider":"default","model":"scripted","dependencies":["n0"]},
{"id":"n4","name":"Sum","description":"Add up.","provider":"default","dependencies":["n1","n2","n3"]}]}`

func scene(system string, turn scriptmodel.Turn) scriptmodel.Scene {
	return scriptmodel.Scene{Name: system, Match: scriptmodel.Match{System: system}, Turns: []scriptmodel.Turn{turn}}
}

func run(t *testing.T, scenes ...scriptmodel.Scene) *tree.Plan {
	t.Helper()
	h := enginetest.Build(t, enginetest.Plans{Scenes: scenes, Executors: []engine.Executor{dag.Executor{}}})
	h.Work(h.Engine)
	started, err := h.Engine.Start(t.Context(), engine.Request{Executor: "dag", Input: json.RawMessage(`{"prompt":"Compare X, Y and Z."}`)})
	if err != nil {
		t.Fatal(err)
	}
	return h.Ended(started.PlanID)
}

// E9, E10, E11, E15, E16: waves 1-3-1; the nodes of the second are under way at the same time, and the last
// is told what they found.
func TestWaves(t *testing.T) {
	t.Parallel()
	var together sync.WaitGroup
	together.Add(3)
	meet := func(answer string) scriptmodel.Turn {
		return scriptmodel.Turn{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
			together.Done()
			together.Wait() // returns only when all three are under way
			return scriptmodel.Turn{Content: answer}, nil
		}}
	}
	told := make(chan string, 1)
	p := run(t, scene("acyclic graph", scriptmodel.Turn{Content: diamond}), scene(`"Context"`, scriptmodel.Turn{Content: " context \n"}),
		scene(`"X"`, meet("x")), scene(`"Y"`, meet("y")), scene(`"Z"`, meet("z")),
		scene(`"Sum"`, scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
			told <- r.Question()
			return scriptmodel.Turn{Content: "sum"}, nil
		}}))
	if *p.Record.State != record.Completed {
		t.Fatalf("%s: %s", *p.Record.State, enginetest.Text(p.Record.ErrorMessage))
	}
	if question, want := <-told, "From X (n1):\nx\n\nFrom Y (n2):\ny\n\nFrom Z (n3):\nz\n\nExecute"; !strings.Contains(question, want) {
		t.Errorf("the last node was told %q", question)
	}
	var got struct {
		Status  string            `json:"status"`
		Results map[string]string `json:"node_results"`
		Logs    []string          `json:"execution_logs"`
	}
	if err := json.Unmarshal([]byte(enginetest.Text(p.Record.Summary)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Status != "completed" || len(got.Results) != 5 || got.Results["n0"] != "context" || !slices.Contains(got.Logs, "Executing 3 nodes in parallel: [n1, n2, n3]") {
		t.Errorf("%+v", got)
	}
}

// E13, E14: a node that fails stops what depends on it, and nothing else.
func TestDependencyFailure(t *testing.T) {
	t.Parallel()
	p := run(t, scene("acyclic graph", scriptmodel.Turn{Content: diamond}),
		scene(`"X"`, scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 400, Message: "no"}}), scene("carry out", scriptmodel.Turn{Content: "done"}))
	if *p.Record.State != record.Failed || enginetest.Text(p.Record.ErrorMessage) != "3 of 5 nodes completed." || len(p.Steps) != 5 {
		t.Errorf("%s %q, %d steps", *p.Record.State, enginetest.Text(p.Record.ErrorMessage), len(p.Steps))
	}
}

// E8: a node whose provider is not there fails the run before any node runs.
func TestUnknownProvider(t *testing.T) {
	t.Parallel()
	p := run(t, scene("acyclic graph", scriptmodel.Turn{Content: `{"nodes":[{"id":"a","provider":"moon"}]}`}))
	if got := enginetest.Text(p.Record.ErrorMessage); got != "Node a uses unavailable provider 'moon'. Available: default" || len(p.Steps) != 1 {
		t.Errorf("%q, %d steps", got, len(p.Steps))
	}
}
