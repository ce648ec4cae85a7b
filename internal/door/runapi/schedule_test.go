package runapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

func nightly(set obj) obj {
	r := request()
	r["cron"] = "0 3 * * *"
	for name, value := range set {
		r[name] = value
	}
	return r
}

func (c *client) put(path string, body any) apitest.Answer {
	c.T.Helper()
	raw := string(apitest.JSON(c.T, body))
	return c.Do(http.MethodPut, path, strings.NewReader(raw), "Content-Type", "application/json")
}

// TestSchedules: a schedule from its definition to its end.
func TestSchedules(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	expect(t, c.Read("/api/v1/schedules"), obj{"items.#": 0, "nextCursor": nil})
	const at = "/api/v1/schedules/nightly"
	wantProblem(t, c.Get(at), http.StatusNotFound, nil)

	a := c.put(at, nightly(nil))
	wantStatus(t, a, http.StatusCreated)
	expect(t, a.JSON(t), obj{
		"name": "nightly", "source": "api", "cron": "0 3 * * *", "timezone": "UTC", "jitter": "0s", "overlap": "skip",
		"catchUp": "last", "window": "1h", "paused": false, "executor": "agent", "runName": nil, "input.request": "Read.",
		"conversationId": nil, "project": nil, "userId": nil, "tags.#": 0, "limits": nil, "nextTicks.#": 10, "lastTick": nil,
		"priority": 5, "concurrencyKey": nil,
		"error": nil,
	})

	a = c.put(at, nightly(obj{
		"timezone": "Europe/Berlin", "jitter": "5m", "overlap": "queue", "catchUp": "all", "window": "90m", "paused": true,
		"conversationId": "c", "project": "shop", "userId": "ann", "tags": []string{"x"}, "limits": obj{"tokens": 5},
		"priority": 0, "concurrencyKey": "nights",
	}))
	wantStatus(t, a, http.StatusOK)
	all := obj{
		"timezone": "Europe/Berlin", "jitter": "5m", "overlap": "queue", "catchUp": "all", "window": "1h30m", "paused": true,
		"conversationId": "c", "project": "shop", "userId": "ann", "tags": []string{"x"}, "limits.tokens": 5, "nextTicks.#": 0,
		"priority": 0, "concurrencyKey": "nights",
	}
	expect(t, a.JSON(t), all)
	expect(t, c.Read(at), all)

	a = c.post(at+"/resume", obj{"by": "ann"})
	wantStatus(t, a, http.StatusOK)
	expect(t, a.JSON(t), obj{"paused": false, "nextTicks.#": 10})
	a = c.post(at+"/pause", "")
	wantStatus(t, a, http.StatusOK)
	expect(t, a.JSON(t), obj{"paused": true, "nextTicks.#": 0})

	a = c.post(at+"/run", obj{"by": "ann"}, "Idempotency-Key", "k")
	wantStatus(t, a, http.StatusAccepted)
	id := a.JSON(t).(obj)["planId"].(string)
	expect(t, c.post(at+"/run", "", "Idempotency-Key", "k").JSON(t), obj{"planId": id})

	of := obj{"planId": id, "schedule.name": "nightly", "schedule.tick": nil, "priority": 0, "concurrencyKey": "nights"}
	expect(t, c.run(id), of)
	expect(t, c.Read("/api/v1/runs?schedule=nightly").(obj)["items"].([]any)[0], of)
	expect(t, c.Read("/api/v1/runs?schedule=other"), obj{"items.#": 0})
	expect(t, c.run(c.started()), obj{"schedule": nil})
	if got := storetest.Query[string](t, c.Store, "SELECT string_agg(concat_ws(' by ', action, claimed_by), ', ') "+
		"FROM actlog.control_request"); got != "RUN by ann" {
		t.Errorf("on record: %s", got)
	}

	wantStatus(t, c.Do(http.MethodDelete, at, nil), http.StatusNoContent)
	wantProblem(t, c.Do(http.MethodDelete, at, nil), http.StatusNotFound, nil)
	for _, what := range []string{"/pause", "/resume", "/run"} {
		wantProblem(t, c.post(at+what, ""), http.StatusNotFound, nil)
	}
	wantProblem(t, c.Get(at+"/ticks"), http.StatusNotFound, nil)
}

// TestScheduleNames: whatever a name is, it is that of one schedule, and lists have pages.
func TestScheduleNames(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	names := []string{`<img src=x onerror=alert(1)>`, `a/b?c#d`, "ünï \u202e", strings.Repeat("n", 255)}
	for _, name := range names {
		at := "/api/v1/schedules/" + url.PathEscape(name)
		wantStatus(t, c.put(at, nightly(obj{"input": obj{"agent": "reader", "request": name}})), http.StatusCreated)
		expect(t, c.Read(at), obj{"name": name, "input.request": name})
	}
	wantProblem(t, c.put("/api/v1/schedules/"+strings.Repeat("n", 256), nightly(nil)), http.StatusBadRequest, "name")
	wantProblem(t, c.put("/api/v1/schedules/%00", nightly(nil)), http.StatusNotFound, nil)

	seen, path := 0, "/api/v1/schedules?limit=3"
	for path != "" {
		page := c.Read(path).(obj)
		seen += len(page["items"].([]any))
		path = ""
		if next, ok := page["nextCursor"].(string); ok {
			path = "/api/v1/schedules?limit=3&cursor=" + next
		}
	}
	if seen != len(names) {
		t.Errorf("%d of %d schedules on all pages", seen, len(names))
	}
}

// TestWrongSchedules: a mistake is refused with its member.
func TestWrongSchedules(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	for _, bad := range []struct {
		field string
		set   obj
	}{
		{"cron", obj{"cron": nil}}, {"cron", obj{"cron": "x"}}, {"cron", obj{"cron": "0 0 31 2 *"}}, {"cron", obj{"cron": 5}},
		{"cron", obj{"cron": "@daily"}}, {"timezone", obj{"timezone": "Berlin"}}, {"timezone", obj{"timezone": "Local"}},
		{"jitter", obj{"jitter": "-1s"}}, {"jitter", obj{"jitter": "48h"}}, {"jitter", obj{"jitter": 5}},
		{"overlap", obj{"overlap": "all"}}, {"overlap", obj{"overlap": ""}}, {"catchUp", obj{"catchUp": "some"}},
		{"window", obj{"window": "0s"}}, {"window", obj{"window": "1000h"}}, {"window", obj{"window": "1 day"}},
		{"paused", obj{"paused": "yes"}}, {"executor", obj{"executor": nil}}, {"input", obj{"input": nil}},
		{"limits.tokens", obj{"limits": obj{"tokens": -1}}}, {"startAt", obj{"startAt": "2026-01-01T00:00:00Z"}},
		{"expiresAt", obj{"expiresAt": "2026-01-01T00:00:00Z"}}, {"every", obj{"every": "5m"}},
		{"priority", obj{"priority": 10}}, {"priority", obj{"priority": "high"}},
		{"concurrencyKey", obj{"concurrencyKey": 5}},
		{"name", obj{"input": obj{"agent": "nobody", "request": "r"}}},
	} {
		wantProblem(t, c.put("/api/v1/schedules/s", nightly(bad.set)), http.StatusUnprocessableEntity, bad.field)
	}
	wantProblem(t, c.Get("/api/v1/schedules/s"), http.StatusNotFound, nil)

	wantStatus(t, c.put("/api/v1/schedules/s", nightly(nil)), http.StatusCreated)
	for _, what := range []string{"pause", "resume", "run"} {
		wantProblem(t, c.post("/api/v1/schedules/s/"+what, obj{"x": 1}), http.StatusUnprocessableEntity, "x")
		wantProblem(t, c.post("/api/v1/schedules/s/"+what+"?x=1", ""), http.StatusBadRequest, "x")
	}
}

// TestScheduleOfFile: what a file defines cannot be put or deleted, but paused.
func TestScheduleOfFile(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	const at = "/api/v1/schedules/s"
	wantStatus(t, c.put(at, nightly(nil)), http.StatusCreated)
	c.Exec("UPDATE actlog.schedule SET source = 'file', seen_at = now()")

	expect(t, c.Read(at), obj{"source": "file"})
	wantProblem(t, c.put(at, nightly(nil)), http.StatusConflict, nil)
	wantProblem(t, c.Do(http.MethodDelete, at, nil), http.StatusConflict, nil)
	wantStatus(t, c.post(at+"/pause", ""), http.StatusOK)
}

// TestTicksOfSchedule: what came of ticks, the newest first, page by page.
func TestTicksOfSchedule(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	wantStatus(t, c.put("/api/v1/schedules/s", nightly(nil)), http.StatusCreated)
	c.Exec(`INSERT INTO actlog.schedule_tick (schedule, tick, outcome, plan_id)
		SELECT 's', '2026-01-01T03:00:00Z'::timestamptz + n * interval '1 day', (ARRAY['started', 'skipped', 'missed'])[n % 3 + 1],
			CASE WHEN n % 3 = 0 THEN 'plan-' || n END FROM generate_series(0, 6) AS n`)

	page := c.Read("/api/v1/schedules/s/ticks?limit=5").(obj)
	expect(t, page, obj{
		"items.#": 5, "items.0.tick": "2026-01-07T03:00:00Z", "items.0.outcome": "started", "items.0.planId": "plan-6",
		"items.1.outcome": "missed", "items.1.planId": nil, "items.2.outcome": "skipped",
	})
	page = c.Read(fmt.Sprint("/api/v1/schedules/s/ticks?limit=5&cursor=", page["nextCursor"])).(obj)
	expect(t, page, obj{"items.#": 2, "items.1.tick": "2026-01-01T03:00:00Z", "nextCursor": nil})
	wantProblem(t, c.Get("/api/v1/schedules/s/ticks?cursor=x"), http.StatusBadRequest, "cursor")
}

// TestCron: when an expression ticks.
func TestCron(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	expect(t, c.Read("/api/v1/cron?cron=30+2+*+*+*&timezone=Europe/Berlin&from=2026-03-28T12:00:00Z&n=2"), obj{
		"times": []string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
	})
	expect(t, c.Read("/api/v1/cron?cron=*+*+*+*+*+*"), obj{"times.#": 10})
	for query, field := range map[string]string{
		"": "cron", "cron=x": "cron", "cron=0+0+30+2+*": "cron", "cron=*+*+*+*+*&timezone=x": "timezone",
		"cron=*+*+*+*+*&n=0": "n", "cron=*+*+*+*+*&n=1001": "n", "cron=*+*+*+*+*&from=x": "from",
		"cron=0+0+29+2+*&n=1000&from=9990-01-01": "from", "x=1": "x",
	} {
		wantProblem(t, c.Get("/api/v1/cron?"+query), http.StatusBadRequest, field)
	}
}
