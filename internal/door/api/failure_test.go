package api_test

import (
	"net/http"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
)

// TestFailures: what failed in a plan, the cause first, with the way to it.
func TestFailures(t *testing.T) {
	t.Parallel()
	c := serve(t)

	c.Write(obj{"kind": "plan", "rootPlanId": "p", "currentPlanId": "p", "title": "Find", "state": "FAILED"},
		obj{
			"kind": "agentExecution", "rootPlanId": "p", "planId": "p", "stepId": "a/1", "stepIndex": 0, "agentName": "first",
			"state": "COMPLETED",
		},
		obj{
			"kind": "actTool", "rootPlanId": "p", "stepId": "a/1", "seq": 0, "toolCallId": "x", "name": "look",
			"state": "FAILED", "errorMessage": "early",
		},
		obj{"kind": "agentExecution", "rootPlanId": "p", "planId": "p", "stepId": "b", "stepIndex": 1, "state": "FAILED"},
		obj{
			"kind": "actTool", "rootPlanId": "p", "stepId": "b", "seq": 2, "toolCallId": "y", "name": "run", "state": "FAILED",
			"errorKind": "timeout", "startTime": "2026-11-20T12:00:20Z",
		},
		obj{
			"kind": "plan", "rootPlanId": "p", "currentPlanId": "s", "parentPlanId": "p", "toolCallId": "gone",
			"state": "COMPLETED",
		})

	path := "/api/v1/plans/p/failures"
	apitest.Expect(t, c.Read(path), obj{
		"planId": "p", "rootPlanId": "p", "recovered": false, "cause": "call:b/2/y", "items.#": 2,
		"items.0.at": "call:b/2/y", "items.0.kind": "actTool", "items.0.name": "run", "items.0.state": "FAILED",
		"items.0.errorKind": "timeout", "items.0.errorMessage": nil, "items.0.text": nil, "items.0.tool": "run",
		"items.0.startTime": "2026-11-20T12:00:20Z", "items.0.endTime": nil, "items.0.path.#": 3,
		"items.0.path.0.at": "plan:p", "items.0.path.0.name": "Find",
		"items.0.path.1.at": "step:b", "items.0.path.1.name": nil, "items.0.path.2.at": "cycle:b/2",
		"items.0.path.2.kind": "thinkAct",
		"items.1.at":          "call:a%2F1/0/x", "items.1.errorMessage": "early", "items.1.text": "early",
		"items.1.tool": "look",
	})

	apitest.Expect(t, c.Read("/api/v1/plans/s/failures?root=p"), obj{
		"planId": "s", "rootPlanId": "p", "recovered": false, "cause": nil, "items.#": 0,
	})
	apitest.WantStatus(t, c.Get("/api/v1/plans/nobody/failures"), http.StatusNotFound)
	apitest.WantProblem(t, c.Get(path+"?limit=1"), http.StatusBadRequest, "limit")
}
