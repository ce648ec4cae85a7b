package runapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/testkit/apitest"
)

// TestStartLater: a run that begins later says when, and times that cannot be are refused.
func TestStartLater(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	expect(t, c.run(c.started()), obj{"startAt": nil, "expiresAt": nil})

	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	start, end := at.Format(time.RFC3339), at.Add(time.Hour).Format(time.RFC3339)
	r := request()
	r["startAt"], r["expiresAt"] = at.In(time.FixedZone("", 7200)).Format(time.RFC3339), end

	id := c.post("/api/v1/runs", r).JSON(t).(obj)["planId"].(string)
	times := obj{"state": "PENDING", "startAt": start, "expiresAt": end, "planId": id}
	expect(t, c.Read("/api/v1/runs").(obj)["items"].([]any)[0], times)
	times["waitingFor"], times["dueAt"] = []string{"time:" + start}, start
	expect(t, c.run(id), times)

	for _, bad := range []struct {
		field string
		set   obj
	}{
		{"expiresAt", obj{"startAt": start, "expiresAt": start}},
		{"expiresAt", obj{"startAt": end, "expiresAt": start}},
		{"expiresAt", obj{"expiresAt": "tomorrow"}},
		{"expiresAt", obj{"expiresAt": 1}},
		{"startAt", obj{"startAt": "0001-01-01T00:00:00Z"}},
		{"startAt", obj{"startAt": "9999-12-31T23:59:59-01:00"}},
		{"startAt", obj{"startAt": "2026-11-20"}},
	} {
		r := request()
		for name, value := range bad.set {
			r[name] = value
		}
		wantProblem(t, c.post("/api/v1/runs", r), http.StatusUnprocessableEntity, bad.field)
	}
}
