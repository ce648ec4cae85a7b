package runapi_test

import (
	"net/http"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/record"
)

// TestBulk checks the requests that ask many runs for something.
func TestBulk(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	for range 12 {
		c.end(c.claimed(), record.Plan{State: new(record.Failed), ErrorKind: new("overloaded")})
	}
	open := c.started()

	for field, body := range map[string]obj{
		"filter": {"action": "retry"}, "action": {"action": "delete", "filter": obj{"state": "FAILED"}},
		"filter.state": {"action": "retry", "filter": obj{"state": "BROKEN"}}, "filter.x": {"action": "retry", "filter": obj{"x": 1}},
		"filter.since": {"action": "retry", "filter": obj{"since": "soon"}},
		"rate":         {"action": "retry", "filter": obj{"state": "FAILED"}, "rate": 1e-300},
		"limits":       {"action": "stop", "filter": obj{"state": "RUNNING"}, "limits": obj{"tokens": 1}},
		"dryRun":       {"action": "retry", "filter": obj{"state": "FAILED"}, "dryRun": "yes"}, "x": {"x": 1},
	} {
		wantProblem(t, c.post("/api/v1/bulk", body), http.StatusUnprocessableEntity, field)
	}

	filter := obj{"state": "FAILED", "errorKind": "overloaded", "since": "1h", "agent": nil}
	dry := c.post("/api/v1/bulk", obj{"action": "retry", "filter": filter, "dryRun": true})
	wantStatus(t, dry, http.StatusOK)
	expect(t, dry.JSON(t), obj{"matches": 12, "items.#": 10, "items.0.state": "FAILED", "items.0.errorKind": "overloaded"})

	none := c.post("/api/v1/bulk", obj{"action": "retry", "filter": obj{"project": "other"}, "dryRun": true})
	expect(t, none.JSON(t), obj{"matches": 0, "items.#": 0})

	asked := obj{"action": "retry", "filter": filter, "rate": 2.5, "by": "ada"}
	job := c.post("/api/v1/bulk", asked, "Idempotency-Key", "k")
	wantStatus(t, job, http.StatusAccepted)

	expect(t, job.JSON(t), obj{
		"action": "retry", "state": "RUNNING", "matches": 12, "done": 0, "failed": 0, "rate": 2.5, "endedAt": nil,
	})
	id := job.JSON(t).(obj)["bulkId"].(string)
	expect(t, c.post("/api/v1/bulk", asked, "Idempotency-Key", "k").JSON(t), obj{"bulkId": id})
	wantProblem(t, c.post("/api/v1/bulk", obj{"action": "retry", "filter": obj{"tag": "x"}}, "Idempotency-Key", "k"),
		http.StatusUnprocessableEntity, "Idempotency-Key")

	expect(t, c.Read("/api/v1/bulk/"+id), obj{"bulkId": id, "state": "RUNNING"})
	stopped := c.post("/api/v1/bulk/"+id+"/stop", nil)
	wantStatus(t, stopped, http.StatusAccepted)
	expect(t, stopped.JSON(t), obj{"state": "CANCELLED", "done": 0})
	wantProblem(t, c.post("/api/v1/bulk/"+id+"/stop", nil), http.StatusConflict, nil)
	wantProblem(t, c.Get("/api/v1/bulk/none"), http.StatusNotFound, nil)
	wantProblem(t, c.post("/api/v1/bulk/none/stop", nil), http.StatusNotFound, nil)

	waiting := c.post("/api/v1/bulk", obj{"action": "stop", "filter": obj{"state": "PENDING"}, "dryRun": true})
	expect(t, waiting.JSON(t), obj{"matches": 1, "items.0.planId": open})
}
