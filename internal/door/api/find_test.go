package api_test

import (
	"cmp"
	"net/http"
	"net/url"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
)

// TestFind: texts of a run that have what is looked for, in the order of the tree, in pages.
func TestFind(t *testing.T) {
	t.Parallel()
	c := serve(t)

	c.Write(obj{"kind": "plan", "rootPlanId": "p", "currentPlanId": "p", "title": "Find a needle", "state": "RUNNING"},
		obj{"kind": "agentExecution", "rootPlanId": "p", "planId": "p", "stepId": "b", "stepIndex": 1, "agentName": "second"},
		obj{
			"kind": "agentExecution", "rootPlanId": "p", "planId": "p", "stepId": "a", "stepIndex": 0, "agentName": "first",
			"result": "no NEEDLE",
		},
		obj{
			"kind": "actTool", "rootPlanId": "p", "stepId": "b", "seq": 0, "toolCallId": "x", "name": "look", "state": "FAILED",
			"parameters": "needle", "result": "a\nneedle",
		},
		obj{
			"kind": "plan", "rootPlanId": "p", "currentPlanId": "s", "parentPlanId": "p", "toolCallId": "x",
			"title": "deep needle",
		},
		obj{
			"kind": "thought", "rootPlanId": "p", "planId": "p", "thoughtId": "t", "stepId": "b",
			"content": "Where is the needle?",
		},
		obj{"kind": "wait", "rootPlanId": "p", "planId": "s", "waitId": "w", "title": "Needle or pin?"})

	const path = "/api/v1/plans/p/search?q=Needle"
	apitest.Expect(t, c.Read(path), obj{
		"planId": "p", "rootPlanId": "p", "nextCursor": nil, "incomplete": false, "searched": 7, "rows": 7, "items.#": 7,
		"items.0.at": "plan:p", "items.0.kind": "plan", "items.0.textOf": "plan", "items.0.textId": nil,
		"items.0.field": "title", "items.0.name": "Find a needle", "items.0.state": "RUNNING",
		"items.0.before": "Find a ", "items.0.match": "needle", "items.0.after": "",
		"items.1.at": "step:b", "items.1.textOf": "thought", "items.1.textId": "t", "items.1.field": "content",
		"items.2.at": "step:a", "items.2.match": "NEEDLE",
		"items.3.at": "call:b/0/x", "items.3.field": "parameters", "items.4.field": "result", "items.4.before": "a ",
		"items.5.at": "plan:s", "items.6.at": "wait:w", "items.6.kind": "wait", "items.6.state": "WAITING",
	})

	next, first := "", ""
	for page := range 7 {
		body := c.Read(path + "&limit=1" + next)
		apitest.Expect(t, body, obj{"items.#": 1, "incomplete": false})
		if cursor, _ := apitest.Lookup(t, body, "nextCursor").(string); page < 6 {
			next = "&cursor=" + url.QueryEscape(cursor)
			first = cmp.Or(first, next)
		} else if cursor != "" {
			t.Errorf("after the last page comes %q", cursor)
		}
	}

	apitest.Expect(t, c.Read("/api/v1/plans/s/search?root=p&q=Needle"), obj{"planId": "s", "items.#": 2})
	apitest.WantStatus(t, c.Get("/api/v1/plans/nobody/search?q=a"), http.StatusNotFound)
	apitest.WantProblem(t, c.Get("/api/v1/plans/p/search"), http.StatusBadRequest, "q")
	apitest.WantProblem(t, c.Get(path+"&cursor=wrong"), http.StatusBadRequest, "cursor")
	apitest.WantProblem(t, c.Get("/api/v1/plans/s/search?root=p&q=Needle"+first), http.StatusBadRequest, "cursor")
}
