package runapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/plan"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// planner starts tasks, and carries them.
type planner struct{ *engine.Engine }

func (planner) Models() []engine.ModelInfo { return nil }

func (planner) Startables() []engine.Startable { return nil }

func (planner) Tool(string, map[string]string) (engine.Request, string, error) {
	panic("no tool is asked for")
}

// planning serves tasks whose model answers with a text.
func planning(t *testing.T, answer string) *client {
	t.Helper()
	scripted, err := scriptmodel.Start(scriptmodel.Script{
		Scenes: []scriptmodel.Scene{{Name: "plan", Turns: []scriptmodel.Turn{{Content: answer}}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { scripted.Close() })

	m, err := openai.New(openai.Config{Model: "scripted", BaseURL: scripted.URL()})
	if err != nil {
		t.Fatal(err)
	}

	produce, err := tool.SchemaFunc("words.produce", "Produces.", json.RawMessage(`{"type":"object"}`),
		func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Text: "made", Artifacts: []tool.Artifact{{Name: "thing", Value: json.RawMessage(`["a"]`)}}}, nil
		})
	if err != nil {
		t.Fatal(err)
	}

	fail := tool.Func("words.fail", "Fails.", func(context.Context, struct{}) (string, error) {
		return "", http.ErrNotSupported
	})
	set, err := tool.NewSet(produce, fail)
	if err != nil {
		t.Fatal(err)
	}

	role := define.Role{Tools: []string{"words.*"}}.Definition(
		"DEVELOPER", define.DefinitionModel{Name: "default"}, nil, nil,
	)
	parts := &enginetest.Parts{DefaultModel: m, Set: set, Definitions: map[string]any{"role.DEVELOPER": role}}

	var e *engine.Engine
	c := &client{apitest.ServeWith(t, apitest.Options{Runtime: func(s *runstore.Store) (runapi.Starter, runapi.Catalog) {
		e, err = engine.New(engine.Config{Store: s, Executors: []engine.Executor{plan.Executor{}},
			Parts: func() (engine.Parts, func()) {
				return parts, func() {}
			}})
		if err != nil {
			t.Fatal(err)
		}
		return planner{e}, planner{e}
	}})}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.Work(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

// A2, A3, A7, A9, A23: the result of a task, each field of it on every path.
func TestAgentResult(t *testing.T) {
	t.Parallel()
	const steps = `{"steps":[{"tool":"words","operation":"produce","params":{"n":1}},{"tool":"words","operation":"fail"}]}`
	for name, tt := range map[string]struct {
		answer      string
		constraints obj
		want        obj
		thoughts    int
	}{
		"succeeds": {`{"steps":[{"tool":"words","operation":"produce","params":{"n":1}}]}`, nil, obj{
			"state": "COMPLETED", "result.success": true, "result.error": nil, "result.artifacts.thing.0": "a",
			"result.audit_trail":            []any{},
			"result.operations.0.tool_name": "words", "result.operations.0.operation": "produce",
			"result.operations.0.success":  true,
			"result.operations.0.params.n": 1.0, "result.operations.0.result": "made", "result.operations.0.error": nil,
			"result.reasoning_log.0.thought_type": "analysis", "result.reasoning_log.0.iteration": 0.0,
			"result.reasoning_log.0.role":       "DEVELOPER",
			"result.reasoning_log.0.confidence": nil, "result.reasoning_log.0.related_operations": []any{},
			"result.reasoning_log.1.related_operations.0": "words.produce",
			"result.reasoning_log.4.thought_type":         "conclusion", "result.reasoning_log.4.confidence": 1.0,
		}, 5},
		"aborts": {steps, nil, obj{
			"state": "FAILED", "result.success": false, "result.error": "Step 2 failed: feature not supported",
			"result.operations.1.success": false, "result.operations.1.result": nil, "result.operations.1.params": obj{},
			"result.reasoning_log.5.confidence": 0.0,
		}, 6},
		"goes on": {
			steps, obj{"abort_on_error": false},
			obj{"state": "FAILED", "errorKind": "operations_failed", "result.success": false, "result.error": nil}, 7,
		},
		"no plan": {"Sorry.", nil, obj{
			"state": "FAILED", "result.success": false, "result.operations": []any{}, "result.artifacts": obj{},
			"result.audit_trail": []any{},
			"result.error": "Failed to parse JSON response: invalid character 'S' looking for beginning " +
				"of value",
			"result.reasoning_log.1.iteration": -1.0,
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := planning(t, tt.answer)

			a := c.post("/api/v1/runs", obj{"executor": "plan", "input": obj{"task": "Do it", "constraints": tt.constraints}},
				"Prefer", "wait=60")
			wantStatus(t, a, http.StatusOK)
			got := a.JSON(t).(obj)
			expect(t, got, tt.want)
			if n := len(got["result"].(obj)["reasoning_log"].([]any)); n != tt.thoughts {
				t.Errorf("%d thoughts, want %d", n, tt.thoughts)
			}
			expect(t, c.run(got["planId"].(string)), tt.want)
		})
	}
}

// A35: the operations of a result by tool, operation and success, its thoughts by type, iteration and the last
// ones. The lengths of the lists are the counts. What a filter has wrong is named.
func TestTaskFilters(t *testing.T) {
	t.Parallel()
	c := planning(t, `{"steps":[{"tool":"words","operation":"produce","params":{}},{"tool":"words","operation":"fail"}]}`)
	id := c.post("/api/v1/runs", obj{"executor": "plan", "input": obj{"task": "Do it"}}, "Prefer",
		"wait=60").JSON(t).(obj)["planId"].(string)

	for query, want := range map[string][2]int{
		"": {2, 6}, "tool=words": {2, 6}, "tool=x": {0, 6}, "operation=fail": {1, 6}, "success=true": {1, 6},
		"tool=words&operation=fail&success=true": {0, 6},
		"thoughtType=action":                     {2, 2}, "iteration=2": {2, 2}, "iteration=-1": {2, 0}, "last=4": {2, 4},
		"last=0": {2, 0}, "last=99": {2, 6},
		"iteration=1&thoughtType=observation&last=1&success=false": {1, 1},
	} {
		a := c.Get("/api/v1/runs/" + id + "?" + query)
		wantStatus(t, a, http.StatusOK)
		r := a.JSON(t).(obj)["result"].(obj)
		if got := [2]int{len(r["operations"].([]any)), len(r["reasoning_log"].([]any))}; got != want {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}

	for query, field := range map[string]string{
		"success=yes": "success", "thoughtType=x": "thoughtType", "iteration=-2": "iteration", "iteration=a": "iteration",
		"last=-1": "last", "last=1000001": "last",
		"tool=a&tool=b": "tool", "tools=a": "tools", "operation=%00": "operation",
	} {
		wantProblem(t, c.Get("/api/v1/runs/"+id+"?"+query), http.StatusBadRequest, field)
	}
}
