package runapi_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// TestWithAWorker runs an agent over HTTP, with a worker of its own: a form of its sub-agent, an approval, the
// result and the trace.
func TestWithAWorker(t *testing.T) {
	t.Parallel()
	type arguments struct {
		Amount int `json:"amount"`
	}
	pay := tool.Func("pay", "Pays.", func(context.Context, arguments) (string, error) {
		return "paid", nil
	}, tool.WithPolicy(tool.Policy{Approval: true}))

	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{
			{Name: "asker", Match: scriptmodel.Match{System: "Asker."},
				Turns: enginetest.Calls([]scriptmodel.ToolCall{enginetest.Call("form", obj{
					"title": "How much?", "inputs": []obj{{"label": "Amount", "name": "amount", "type": "number", "required": true}},
				})}, enginetest.Terminate("7"))},
			{Name: "reader", Turns: enginetest.Calls(
				[]scriptmodel.ToolCall{enginetest.Call("agent.asker", obj{"request": "Ask."})},
				[]scriptmodel.ToolCall{enginetest.Call("pay", obj{"amount": 7})},
				enginetest.Terminate("Paid 7."),
			)},
		},
		Definitions: map[string]any{
			"agent.reader": define.Definition{
				Model: define.DefinitionModel{Name: "default"}, EnableWrite: true, Tools: []string{"agent.asker", "pay"},
			},
			"agent.asker": define.Definition{
				Model: define.DefinitionModel{Name: "default"}, EnableWrite: true, SystemPrompt: "Asker.", Tools: []string{"form"},
			},
		},
		Tools:     []tool.Tool{pay},
		Executors: []engine.Executor{thinkact.Executor{}},
	})
	h.Work(h.Engine)
	c := apitest.ServeWith(t, apitest.Options{DB: h.DB, Runtime: func(*runstore.Store) (runapi.Starter, runapi.Catalog) {
		return h.Engine, runtime{}
	}})
	r := &client{c}

	// The same request again waits for the same run.
	settled := func() any {
		t.Helper()
		a := r.post("/api/v1/runs", request(), "Idempotency-Key", "one", "Prefer", "wait=60")
		wantStatus(t, a, http.StatusOK)
		return a.JSON(t)
	}
	answer := func(run any, body obj) {
		t.Helper()
		id, wait := apitest.Lookup(t, run, "planId").(string), apitest.Lookup(t, run, "waits.0.waitId").(string)
		wantStatus(t, r.post("/api/v1/runs/"+id+"/waits/"+wait, body), http.StatusOK)
	}

	run := settled()
	expect(t, run, obj{"state": "WAITING", "waits.#": 1, "waits.0.type": "USER_INPUT", "waits.0.title": "How much?"})
	if root, asked := apitest.Lookup(t, run, "planId"), apitest.Lookup(t, run, "waits.0.planId"); root == asked {
		t.Error("the sub-agent does not wait")
	}

	answer(run, obj{"decision": "submit", "values": obj{"amount": 7}})
	run = settled()
	expect(t, run, obj{
		"state": "WAITING", "waits.#": 1, "waits.0.type": "ACTION_VALIDATION", "waits.0.name": "pay",
		"waits.0.parameters.amount": 7,
	})

	answer(run, obj{"decision": "approve", "by": "ann"})
	run = settled()
	expect(t, run, obj{"state": "COMPLETED", "result": "Paid 7.", "waits.#": 0, "total.modelCalls": 5})
	expect(t, r.Read("/api/v1/runs/"+apitest.Lookup(t, run, "planId").(string)+"/trace"), obj{
		"finalState": "COMPLETED", "stepTraces.#": 1, "stepTraces.0.subTraces.#": 1, "metrics.totalLLMCalls": 5,
	})
}
