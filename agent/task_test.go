package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/plan"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// A1, A2, A3, A4: a Go program gives a task, its context, its constraints and whether it may write, and gets a
// result however the run ends, with each field set. What is wrong with a request is the only error.
func TestTask(t *testing.T) {
	t.Parallel()
	m, stop := scripted(scriptmodel.Turn{
		Content: `{"steps":[{"tool":"files","operation":"note","params":{}},{"tool":"files","operation":"fail"},{"tool":"files","operation":"note"}]}`,
	})
	t.Cleanup(stop)
	bad, stopBad := scripted(scriptmodel.Turn{Content: "No."})
	t.Cleanup(stopBad)

	open := func(m model.Model) *agent.Runtime {
		a, err := agent.Open(t.Context(), pgtest.New(t).URL, agent.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close(context.Background()) })

		err = a.Register(agent.Parts{Models: map[string]model.Model{"default": m}, Tools: []tool.Tool{
			tool.Func("files.note", "Notes.", func(context.Context, struct{}) (string, error) {
				return "noted", nil
			}, tool.WithPolicy(tool.Policy{Writes: true})),
			tool.Func("files.fail", "Fails.", func(context.Context, struct{}) (string, error) { return "", errors.New("no") }),
		}})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = a.Work(t.Context()) }()
		return a
	}

	good := open(m)
	for name, tt := range map[string]struct {
		on         *agent.Runtime
		job        agent.Job
		operations int
		error      string
	}{
		"defaults": {good, agent.Job{Work: agent.Task{Task: "x"}}, 2, "Step 2 failed: no"},
		"read only": {
			good, agent.Job{Work: agent.Task{Task: "x", ReadOnly: true}}, 1,
			"Step 1 failed: write operations are not allowed in read-only mode",
		},
		"goes on":     {good, agent.Job{Work: agent.Task{Task: "x", GoOn: true}}, 3, ""},
		"at most one": {good, agent.Job{Work: agent.Task{Task: "x", Context: "c", MaxOperations: 1, Role: "QA"}}, 1, ""},
		"an answer, wrong": {
			open(bad), agent.Job{Work: agent.Task{Task: "x", Iterative: true, MaxIterations: 3}}, 0,
			"Failed to parse JSON response: invalid character 'N' looking for beginning of value",
		},
	} {
		planID, err := tt.on.Start(t.Context(), tt.job)
		if err != nil {
			t.Fatalf("name = %v, %v", name, err)
		}

		var r plan.Result
		if err := tt.on.Result(t.Context(), planID, &r); err != nil {
			t.Fatalf("name = %v, %v", name, err)
		}
		if len(r.Operations) != tt.operations || (r.Error == nil) != (tt.error == "") || r.Error != nil &&
			*r.Error != tt.error || r.Success != (name == "at most one") {
			t.Errorf("%s: %+v", name, r)
		}

		b, err := json.Marshal(r)
		if err != nil || r.Operations == nil || r.Artifacts == nil || r.ReasoningLog == nil ||
			!strings.Contains(string(b), `"audit_trail":[]`) {
			t.Errorf("%s: %s %v", name, b, err)
		}
	}

	for field, job := range map[string]agent.Job{
		"task": {Work: agent.Task{}}, "context": {Work: agent.Task{Task: "x", Context: "\xff"}},
		"role":                       {Work: agent.Task{Task: "x", Role: "a b"}},
		"constraints.max_operations": {Work: agent.Task{Task: "x", MaxOperations: -1}},
		"tags":                       {Work: agent.Task{Task: "x"}, Tags: slices.Repeat([]string{"t"}, 100_000)},
		"name":                       {Work: agent.Template{}},
		"x":                          {Work: agent.Template{Name: "n", Values: map[string]string{"x": "\x00"}}},
	} {
		_, err := good.Start(t.Context(), job)
		if bad := new(record.InvalidError); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}

	if _, err := good.Start(t.Context(), agent.Job{Work: agent.Template{Name: "none"}}); !errors.Is(err,
		record.ErrNotFound) {
		t.Error(err)
	}
	if err := good.Result(t.Context(), "none", new(plan.Result)); !errors.Is(err, record.ErrNotFound) {
		t.Error(err)
	}
}
