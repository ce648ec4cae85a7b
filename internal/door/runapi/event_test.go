package runapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// TestSendEvent checks the request that sends an event.
func TestSendEvent(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	const path = "/api/v1/events"
	for field, body := range map[string]obj{
		"key": {}, "data": {"key": "k", "data": strings.Repeat("x", 256<<10)}, "project": {"key": "k", "project": 7},
		"by": {"key": "k", "by": "\x00"}, "x": {"key": "k", "x": 1},
	} {
		wantProblem(t, c.post(path, body), http.StatusUnprocessableEntity, field)
	}

	wantProblem(t, c.post(path, obj{"key": strings.Repeat("k", 256)}), http.StatusUnprocessableEntity, "key")
	wantProblem(t, c.post(path, obj{"key": "k"}, "Idempotency-Key", strings.Repeat("k", 256)), http.StatusBadRequest,
		"Idempotency-Key")

	for range 2 {
		a := c.post(path, obj{"key": "paid:17", "data": obj{"amount": 42}, "by": "ada"}, "Idempotency-Key", "k")
		wantStatus(t, a, http.StatusAccepted)
		expect(t, a.JSON(t), obj{"key": "paid:17", "woken": 0})
	}
	wantProblem(t, c.post(path, obj{"key": "paid:18"}, "Idempotency-Key", "k"), http.StatusUnprocessableEntity,
		"Idempotency-Key")
	wantStatus(t, c.post(path, obj{"key": "k", "data": nil, "project": "shop"}), http.StatusAccepted)

	if got := storetest.Query[string](t, c.Store, `SELECT string_agg(
		concat_ws(' ', project, key, data, claimed_by), ', ' ORDER BY event_id) FROM actlog.event`); got !=
		`default paid:17 {"amount":42} ada, shop k null` {
		t.Errorf("on record are %s", got)
	}
}
