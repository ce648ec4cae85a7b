package runapi_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestFork checks the request that goes on from a row of another run.
func TestFork(t *testing.T) {
	t.Parallel()
	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{{Name: "s", Turns: []scriptmodel.Turn{
			{Content: "Hm."}, {Content: "Hm."}, {ToolCalls: enginetest.Terminate("Done.")},
		}}},
		Definitions: map[string]any{"agent.a": define.Definition{Agent: "a", Model: define.DefinitionModel{Name: "default"}}},
		Executors:   []engine.Executor{thinkact.Executor{}},
	})
	h.Work(h.Engine)
	s := chatStarter{Engine: h.Engine}
	c := &client{apitest.ServeWith(t, apitest.Options{
		DB: h.DB, Runtime: func(*runstore.Store) (runapi.Starter, runapi.Catalog) { return s, s },
	})}

	id := h.Start("a", "Go.", func(r *engine.Request) { r.Priority = new(7) })
	step := h.Step(h.Await(id, record.Completed)).Record.StepID
	path, at := "/api/v1/runs/"+id+"/fork", fmt.Sprintf("cycle:%s/1", step)
	answer := obj{fmt.Sprintf("cycle:%s/0", step): obj{"thinkOutput": "Let me see."}}

	for field, body := range map[string]obj{
		"at": {}, "x": {"at": at, "x": 1}, "changes": {"at": at, "changes": 7},
		"changes.x":             {"at": at, "changes": obj{"x": 1}},
		"changes.tools":         {"at": at, "changes": obj{"tools": "all"}},
		"changes.temperature":   {"at": at, "changes": obj{"temperature": 3}},
		"changes.maxTokens":     {"at": at, "changes": obj{"maxTokens": 0}},
		"changes.limits.tokens": {"at": at, "changes": obj{"limits": obj{"tokens": "x"}}},
		"changes.model":         {"at": at, "changes": obj{"model": "none"}},
		"changes.rows":          {"at": at, "changes": obj{"rows": obj{at: obj{"thinkOutput": "x"}}}},
	} {
		wantProblem(t, c.post(path, body), http.StatusUnprocessableEntity, field)
	}

	wantProblem(t, c.post(path, obj{"at": at + "0"}), http.StatusUnprocessableEntity, "at")
	wantProblem(t, c.post(path, obj{"at": at, "changes": obj{"rows": obj{at: 7}}}), http.StatusUnprocessableEntity,
		"changes.rows")

	wantProblem(t, c.post("/api/v1/runs/nobody/fork", obj{"at": at}), http.StatusNotFound, nil)
	storetest.Write(t, h.Store, &record.Plan{RootPlanID: "recorded", CurrentPlanID: "recorded"})
	wantProblem(t, c.post("/api/v1/runs/recorded/fork", obj{"at": at}), http.StatusConflict, nil)

	body := obj{"at": at, "changes": obj{"systemPrompt": "Be brief.", "rows": answer, "limits": nil}, "by": "ada"}
	first := c.post(path, body, "Idempotency-Key", "k").JSON(t).(obj)
	expect(t, first, obj{"executor": "agent"})
	expect(t, c.post(path, body, "Idempotency-Key", "k").JSON(t), obj{"planId": first["planId"]})
	wantProblem(t, c.post(path, obj{"at": at}, "Idempotency-Key", "k"), http.StatusUnprocessableEntity, "Idempotency-Key")

	forked := first["planId"].(string)
	h.Await(forked, record.Completed)
	expect(t, c.run(forked), obj{
		"forkedFrom.planId": id, "forkedFrom.at": at, "priority": 7.0, "figures.modelCalls": 2.0, "againOf": nil,
	})
	expect(t, c.run(id), obj{"forkedFrom": nil, "figures.modelCalls": 3.0})

	details := c.Get("/api/executor/details/" + forked).JSON(t).(obj)
	expect(t, details, obj{"forkedFrom": "plan:" + id})
}
