package runapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
)

// TestPriorityAndKey checks that a start takes a priority and a concurrency key, that both are read again, and that
// runs of a key are found.
func TestPriorityAndKey(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	with := func(name string, value any) obj {
		r := request()
		r[name] = value
		return r
	}

	keyed := with("concurrencyKey", "ticket-7")
	keyed["priority"] = 0
	a := c.post("/api/v1/runs", keyed)
	wantStatus(t, a, http.StatusAccepted)
	id := a.JSON(t).(obj)["planId"].(string)
	expect(t, c.run(id), obj{"priority": 0, "concurrencyKey": "ticket-7"})
	wantStatus(t, c.post("/api/v1/runs", with("priority", nil)), http.StatusAccepted)

	expect(t, c.Get("/api/v1/runs?concurrencyKey=ticket-7").JSON(t), obj{
		"items.#": 1, "items.0.planId": id, "items.0.priority": 0, "items.0.concurrencyKey": "ticket-7",
	})
	expect(t, c.Get("/api/v1/runs").JSON(t), obj{"items.#": 2, "items.0.priority": 5, "items.0.concurrencyKey": nil})

	for name, values := range map[string][]any{
		"priority": {10, -1, 1.5, "9", true}, "concurrencyKey": {7, strings.Repeat("k", 256), "\x00"},
	} {
		for _, value := range values {
			wantProblem(t, c.post("/api/v1/runs", with(name, value)), http.StatusUnprocessableEntity, name)
		}
	}
}
