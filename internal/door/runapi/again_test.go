package runapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestRetry checks the request that lets a run go on which has ended.
func TestRetry(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	r := request()
	r["limits"] = obj{"tokens": 5, "rounds": 9}
	id := c.post("/api/v1/runs", r).JSON(t).(obj)["planId"].(string)
	path := "/api/v1/runs/" + id + "/retry"
	wantProblem(t, c.post(path, obj{}), http.StatusConflict, nil)

	c.end(c.claim(id), record.Plan{
		State: new(record.Failed), ErrorMessage: new("too many"), ErrorKind: new("limit_tokens"),
	})
	for field, body := range map[string]obj{
		"limits.tokens": {}, "limits.more": {"limits": obj{"more": 1}}, "limits": {"limits": 7}, "x": {"x": 1},
		"limits.rounds": {"limits": obj{"rounds": -1, "tokens": 9}},
	} {
		wantProblem(t, c.post(path, body), http.StatusUnprocessableEntity, field)
	}
	wantProblem(t, c.post("/api/v1/runs/nobody/retry", obj{}), http.StatusNotFound, nil)
	wantProblem(t, c.post(path, obj{}, "Idempotency-Key", strings.Repeat("k", 256)), http.StatusBadRequest,
		"Idempotency-Key")

	raised := obj{"limits": obj{"tokens": 100}, "by": "ada"}
	for range 2 {
		a := c.post(path, raised, "Idempotency-Key", "k")
		wantStatus(t, a, http.StatusAccepted)
		expect(t, a.JSON(t), obj{"planId": id, "state": "PENDING"})
	}
	wantProblem(t, c.post(path, obj{"limits": obj{"tokens": 0}}, "Idempotency-Key", "k"), http.StatusUnprocessableEntity,
		"Idempotency-Key")

	expect(t, c.run(id), obj{
		"state": "PENDING", "error": nil, "errorKind": nil, "attempt": 2, "attempts.#": 2, "attempts.0.state": "FAILED",
		"attempts.0.errorKind": "limit_tokens", "attempts.0.errorMessage": "too many", "attempts.1.state": "PENDING",
		"endTime": nil,
	})

	if got := storetest.Query[string](t, c.Store, `SELECT r.limits::jsonb || jsonb_build_object('by', q.claimed_by)
		FROM actlog.run AS r JOIN actlog.control_request AS q USING (root_plan_id, plan_id)`); got !=
		`{"by": "ada", "rounds": 9, "tokens": 100}` {
		t.Errorf("on record are %s", got)
	}

	c.end(c.claim(id), record.Plan{State: new(record.Completed), Attempt: new(int64(2)), Summary: new("done")})
	wantProblem(t, c.post(path, obj{}), http.StatusConflict, nil)
	expect(t, c.run(id), obj{"state": "COMPLETED", "result": "done", "attempts.1.state": "COMPLETED"})
}

// TestAgain checks the request that starts a run with the input of another.
func TestAgain(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	r := request()
	r["limits"], r["tags"] = obj{"tokens": 5, "rounds": 9}, []string{"nightly"}
	r["conversationId"], r["project"] = "talk", "p"
	r["priority"], r["concurrencyKey"] = 7, "shop"

	r["input"].(obj)["history"] = []obj{{"role": "user", "content": "Hello."}}
	id := c.post("/api/v1/runs", r).JSON(t).(obj)["planId"].(string)
	path := "/api/v1/runs/" + id + "/again"

	for field, body := range map[string]obj{
		"input": {"input": "x"}, "input.request": {"input": obj{"request": nil}},
		"limits.tokens": {"limits": obj{"tokens": "x"}}, "x": {"x": 1}, "by": {"by": 1},
	} {
		wantProblem(t, c.post(path, body), http.StatusUnprocessableEntity, field)
	}
	wantProblem(t, c.post("/api/v1/runs/nobody/again", obj{}), http.StatusNotFound, nil)

	changed := obj{"input": obj{"request": "Another.", "history": nil}, "limits": obj{"tokens": 7}, "by": "bo"}
	first := c.post(path, changed, "Idempotency-Key", "k").JSON(t).(obj)
	expect(t, first, obj{"executor": "agent", "state": "PENDING"})
	expect(t, c.post(path, changed, "Idempotency-Key", "k").JSON(t), obj{"planId": first["planId"]})
	wantProblem(t, c.post(path, obj{}, "Idempotency-Key", "k"), http.StatusUnprocessableEntity, "Idempotency-Key")

	again := first["planId"].(string)
	expect(t, c.run(again), obj{
		"againOf": id, "attempt": 1, "attempts.#": 0, "priority": 7, "concurrencyKey": "shop", "startAt": nil, "schedule": nil,
	})
	expect(t, c.run(id), obj{"againOf": nil})

	const row = `SELECT jsonb_build_object('input', r.input, 'limits', r.limits, 'tags', p.tags, 'talk', p.conversation_id,
			'project', p.project, 'by', q.claimed_by, 'action', q.action)
		FROM actlog.run AS r
		JOIN actlog.plan_execution_record AS p ON p.current_plan_id = r.plan_id
		LEFT JOIN actlog.control_request AS q ON q.plan_id = r.plan_id WHERE r.plan_id = $1`

	if got, want := storetest.Query[string](t, c.Store, row, again), `{"by": "bo", "tags": ["nightly"], "talk": "talk", `+
		`"input": {"agent": "reader", "request": "Another."}, "action": "AGAIN", "limits": {"rounds": 9, "tokens": 7}, `+
		`"project": "p"}`; got != want {
		t.Errorf("on record are\n%s, not\n%s", got, want)
	}
}

// TestAgainIsOfRoots: a run below another one is neither retried nor started again.
func TestAgainIsOfRoots(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	root := c.claimed()
	below := runstore.NewRun{Needs: []string{}, Run: runstore.Run{
		RootPlanID: root.RootPlanID, PlanID: "below", Executor: "agent", Input: []byte(`{}`),
		Parent: &runstore.ParentCall{PlanID: root.PlanID},
	}}
	c.work(root, []record.Change{&record.Plan{
		RootPlanID: root.RootPlanID, CurrentPlanID: "below", ParentPlanID: &root.PlanID, ToolCallID: new("call"),
		State: new(record.Pending),
	}}, runstore.Begin(below))

	for _, action := range []string{"retry", "again"} {
		a := c.post("/api/v1/runs/below/"+action, obj{})
		wantProblem(t, a, http.StatusBadRequest, "planId")
		if detail := a.JSON(t).(obj)["detail"]; detail !=
			"planId is a run below another one: ask its root, "+root.RootPlanID {
			t.Errorf("%s: %v", action, detail)
		}
	}
}
