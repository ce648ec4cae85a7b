package runapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/record"
)

// TestSay checks the requests by which something is said to a run, and what was said is read.
func TestSay(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	id := c.post("/api/v1/runs", request()).JSON(t).(obj)["planId"].(string)
	path := "/api/v1/runs/" + id + "/messages"
	expect(t, c.Get(path).JSON(t), obj{"items.#": 0, "nextCursor": nil})

	for field, body := range map[string]obj{
		"text": {}, "when": {"text": "x", "when": "later"}, "to": {"text": "x", "to": "step-none"},
		"x": {"text": "x", "x": 1}, "by": {"text": "x", "by": strings.Repeat("b", 256)},
	} {
		wantProblem(t, c.post(path, body), http.StatusUnprocessableEntity, field)
	}
	for _, text := range []any{"", " ", strings.Repeat("x", 16<<10+1), "a\x00", 7} {
		wantProblem(t, c.post(path, obj{"text": text}), http.StatusUnprocessableEntity, "text")
	}
	wantProblem(t, c.post("/api/v1/runs/nobody/messages", obj{"text": "x"}), http.StatusNotFound, nil)
	wantStatus(t, c.Get("/api/v1/runs/nobody/messages"), http.StatusNotFound)

	for range 2 {
		a := c.post(path, obj{"text": "<b>Hello", "when": "interrupt", "by": "ada"}, "Idempotency-Key", "k")
		wantStatus(t, a, http.StatusAccepted)
		expect(t, a.JSON(t), obj{
			"planId": id, "to": nil, "text": "<b>Hello", "by": "ada", "when": "interrupt", "state": "PENDING", "readAt": nil,
			"stepId": nil, "seq": nil,
		})
	}
	wantProblem(t, c.post(path, obj{"text": "y"}, "Idempotency-Key", "k"), http.StatusUnprocessableEntity,
		"Idempotency-Key")
	wantStatus(t, c.post(path, obj{"text": "Second."}), http.StatusAccepted)

	first := c.Get(path + "?limit=1").JSON(t).(obj)
	expect(t, first, obj{"items.#": 1, "items.0.text": "<b>Hello"})
	expect(t, c.Get(path+"?limit=1&cursor="+first["nextCursor"].(string)).JSON(t),
		obj{"items.#": 1, "items.0.text": "Second.", "items.0.when": "next", "nextCursor": nil})

	c.end(c.claim(id), record.Plan{State: new(record.Failed)})
	wantProblem(t, c.post(path, obj{"text": "x"}), http.StatusConflict, nil)
	expect(t, c.Get(path).JSON(t), obj{"items.0.state": "UNREAD", "items.1.state": "UNREAD"})
}
