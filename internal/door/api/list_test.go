package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// page returns the ids of a page of plans and the cursor of the next.
func (c *client) page(query string) (ids []string, next string) {
	c.T.Helper()
	list := c.Read("/api/v1/plans?" + query)
	for _, item := range lookup(c.T, list, "items").([]any) {
		ids = append(ids, item.(obj)["rootPlanId"].(string))
	}
	next, _ = lookup(c.T, list, "nextCursor").(string)
	return ids, next
}

// TestPagesHaveEachPlanOnce reads page by page while other plans come in.
func TestPagesHaveEachPlanOnce(t *testing.T) {
	t.Parallel()
	c := serve(t)

	const plans = 23
	var want []string
	for i := range plans / 2 { // two of a transaction, so of one time
		a, b := fmt.Sprintf("plan-%02d-a", i), fmt.Sprintf("plan-%02d-b", i)
		c.Write(plan(a), plan(b), subPlan(a, a+"-sub", a, "t"))
		want = append(want, a, b)
	}
	c.Write(plan("plan with space, last"))
	want = append(want, "plan with space, last")
	slices.Reverse(want)

	for _, limit := range []int{1, 5, 23, 24} {
		var got []string
		for pages, next := 0, ""; pages == 0 || next != ""; pages++ {
			var ids []string
			ids, next = c.page(fmt.Sprintf("limit=%d&project=default&cursor=%s", limit, next))
			if len(ids) > limit {
				t.Errorf("%d plans of %d", len(ids), limit)
			}
			got = append(got, ids...)
			c.Write(plan(fmt.Sprintf("new-%d-%d", limit, pages)), plan(want[plans-1], obj{"title": fmt.Sprint(pages)}))
		}

		// Those that came in before the first page are part of it.
		got = slices.DeleteFunc(got, func(id string) bool { return id[0] == 'n' })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

// TestListOrder: runs stand where they began, whenever that is told; where none is told, where they were first seen.
// Pages have each run once whose start does not change meanwhile.
func TestListOrder(t *testing.T) {
	t.Parallel()
	c := serve(t)
	year := time.Now().Year()
	start := func(year, second int) obj {
		return obj{"title": "a run", "startTime": fmt.Sprintf("%d-01-01T00:00:%02dZ", year, second)}
	}

	c.Write(plan("future", start(year+2, 0)))
	c.Write(plan("untold", obj{"title": "a run"}))
	c.Write(plan("late", obj{"title": "a run"}))
	c.Write(plan("imported-b", start(year-1, 1)), plan("imported-a", start(year-1, 1)))
	c.Write(plan("imported-c", start(year-1, 0)))

	for _, query := range []string{"", "q=run"} {
		if ids, _ := c.page(query); !slices.Equal(ids,
			[]string{"future", "late", "untold", "imported-b", "imported-a", "imported-c"}) {
			t.Errorf("%q lists %q", query, ids)
		}
	}

	c.Write(plan("late", start(year-2, 0)))
	all := []string{"future", "untold", "imported-b", "imported-a", "imported-c", "late"}
	for _, query := range []string{"limit=1", "limit=1&q=run"} {
		var got []string
		for page, next := 0, ""; page == 0 || next != ""; page++ {
			var ids []string
			ids, next = c.page(query + "&cursor=" + next)
			got = append(got, ids...)
			id := fmt.Sprint("moves ", query, page) // from the end of the list, over all pages, to its beginning
			c.Write(plan(id, obj{"title": "a run"}))
			c.Write(plan(id, start(year+2, 1)))
		}

		got = slices.DeleteFunc(got, func(id string) bool { return strings.HasPrefix(id, "moves") })
		if !slices.Equal(got, all) {
			t.Errorf("%q lists %q", query, got)
		}
	}

	before, _ := time.Parse(time.RFC3339, fmt.Sprintf("%d-06-01T00:00:00Z", year-1))
	if ids, _ := c.page("q=run&limit=2&until=" +
		before.Format(time.RFC3339)); !slices.Equal(ids, []string{"imported-b", "imported-a"}) {
		t.Errorf("until: %q", ids)
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	c := serve(t)

	c.Write(plan("a", state("RUNNING"), obj{
		"name": "report", "userId": "u", "startTime": at(0), "title": "100% of_it", "tags": []string{"x", "y"},
	}),
		subPlan("a", "a-sub", "a", "t"), step("a", "a-sub", "a-s", obj{"agentName": "reader"}))
	c.Write(plan("b", state("RUNNING"), obj{
		"project": "sales", "conversationId": "talk", "startTime": at(60), "userRequest": "Sum UP the quarter",
	}),
		step("b", "b", "b-s", obj{"agentName": "writer"}))
	// first seen now, as far as is known
	c.Write(plan("c", obj{
		"summary": "All summed up", "tags": []string{}, "startedBy": obj{"planId": "a", "toolCallId": "t"},
	}))

	all := []string{"c", "b", "a"}
	for query, want := range map[string][]string{
		"":                            all,
		"state=RUNNING":               {"b", "a"},
		"state=PENDING":               {"c"},
		"state=FAILED":                nil,
		"project=sales":               {"b"},
		"project=default":             {"c", "a"},
		"project=sales&state=RUNNING": {"b"},
		"project=nobody":              nil,
		"name=report":                 {"a"},
		"name=Report":                 nil,
		"agent=reader":                {"a"}, // at work in a sub-plan
		"agent=writer":                {"b"},
		"agent=nobody":                nil,
		"userId=u":                    {"a"},
		"conversationId=talk":         {"b"},
		"startedBy=a":                 {"c"},
		"startedBy=t":                 nil,
		"tag=x":                       {"a"},
		"tag=y":                       {"a"},
		"tag=x,y":                     nil,
		"q=SUM+UP":                    {"c", "b"}, // all words, also inside of others
		"q=sum":                       {"c", "b"},
		"q=%25":                       {"a"},
		"q=f_i":                       {"a"},
		"q=f_":                        {"a"},
		"q=f%25":                      nil,
		"q=%5C":                       nil,
		"since=" + at(0):              all,
		"since=" + at(1):              {"c", "b"},
		"since=" + at(61):             {"c"},
		"until=" + at(60):             {"a"},
		"until=" + at(61):             {"b", "a"},
		"until=2026-11-20":            nil,
		"since=2026-11-20":            all,
		"since=2026-11-20T13:00:30%2B01:00&until=2100-01-01":                                        {"c", "b"},
		"since=" + at(0) + "&until=" + at(60):                                                       {"a"},
		"tag=x&agent=reader&q=of&userId=u&name=report&state=RUNNING&project=default&until=" + at(9): {"a"},
		"tag=x&agent=writer": nil,
		"since=1h":           {"c"},
		"until=1h":           {"b", "a"},
		"failed=true":        nil,
		"failed=false":       all,
	} {
		if ids, next := c.page(query); !slices.Equal(ids, want) || next != "" {
			t.Errorf("%q lists %q, %q", query, ids, next)
		}
	}
}

// TestListFiltersByFigures: by what failed, by cost and duration, and by the models and tools that were used, anywhere
// in a tree.
func TestListFiltersByFigures(t *testing.T) {
	t.Parallel()
	c := serve(t)

	c.Write(plan("a", state("COMPLETED"), obj{"startTime": at(0), "endTime": at(90)}), subPlan("a", "a-sub", "a", "t"),
		step("a", "a-sub", "a-s"),
		cycle("a", "a-s", 0, obj{"modelName": "small", "costUsd": 0.25}),
		tool("a", "a-s", 0, "a-t", state("FAILED"), obj{"name": "search"}))

	c.Write(plan("b", state("FAILED"), obj{"startTime": at(0), "endTime": at(30)}),
		step("b", "b", "b-s", obj{"modelName": "large"}),
		cycle("b", "b-s", 0, obj{"costUsd": 0.5}), cycle("b", "b-s", 1, obj{"costUsd": 0.5}))
	c.Write(plan("c", state("RUNNING"), obj{"startTime": at(0)}), step("c", "c", "c-s", state("INTERRUPTED")))
	c.Write(plan("d"))

	for query, want := range map[string][]string{
		"failed=true": {"c", "b", "a"}, "failed=false": {"d"}, "failed=true&state=COMPLETED": {"a"},
		"minCost=0.5": {"b"}, "maxCost=0.5": {"a"}, "minCost=0.25&maxCost=1": {"b", "a"}, "minCost=1.01": nil,
		"minCost=0":       {"b", "a"},
		"minDuration=30s": {"b", "a"}, "minDuration=30001": {"a"}, "maxDuration=1m": {"b"},
		"minDuration=1m&maxDuration=1.5m": {"a"}, "minDuration=1h": nil,
		"model=small": {"a"}, "model=large": {"b"}, "model=none": nil, "tool=search": {"a"}, "tool=sear": nil,
		"tool=search&model=small&failed=true&minCost=0.1&maxDuration=2m": {"a"},
	} {
		if ids, next := c.page(query); !slices.Equal(ids, want) || next != "" {
			t.Errorf("%q lists %q, %q", query, ids, next)
		}
	}
}

// TestListSaysWhy: a run that failed has its cause, and one that waits what it asks.
func TestListSaysWhy(t *testing.T) {
	t.Parallel()
	c := serve(t)

	c.Write(plan("a", state("FAILED")), step("a", "a", "s", state("FAILED"), obj{"errorMessage": "of the step"}),
		cycle("a", "s", 0, obj{"state": "COMPLETED"}),
		tool("a", "s", 0, "t/1", state("FAILED"), obj{
			"name": "run_sql", "errorKind": "timeout", "errorMessage": strings.Repeat("é", 400), "startTime": at(1),
			"endTime": at(2),
		}))
	c.Write(plan("b", state("COMPLETED")),
		step("b", "b", "s", state("FAILED"), obj{"agentName": "writer", "errorMessage": "of the step"}),
		cycle("b", "s", 0, state("FAILED")))

	c.Write(plan("c", state("WAITING")), step("c", "c", "s", state("FAILED")), obj{
		"kind": "wait", "rootPlanId": "c", "planId": "c", "waitId": "late", "startTime": at(9),
	},
		obj{"kind": "wait", "rootPlanId": "c", "planId": "c", "waitId": "w 1", "title": "refund?", "startTime": at(5)},
		obj{"kind": "wait", "rootPlanId": "c", "planId": "c", "waitId": "done", "startTime": at(1), "state": "SUBMITTED"})
	c.Write(plan("d", state("COMPLETED")))

	expect(t, c.Read("/api/v1/plans"), obj{
		"items.3.failed": 1,
		"items.3.cause": obj{
			"at": "call:s/0/t%2F1", "kind": "actTool", "name": "run_sql", "errorKind": "timeout",
			"errorMessage": strings.Repeat("é", 300), "text": strings.Repeat("é", 300), "tool": "run_sql", "recovered": false,
			"state": "FAILED", "startTime": at(1), "endTime": at(2),
		},
		"items.2.failed": 1,
		"items.2.cause": obj{
			"at": "cycle:s/0", "kind": "thinkAct", "name": nil, "errorKind": nil, "errorMessage": "of the step",
			"text": "of the step", "tool": nil, "recovered": true, "state": "FAILED", "startTime": nil, "endTime": nil,
		},
		"items.1.failed": 1,
		"items.1.cause": obj{
			"at": "wait:w%201", "kind": "wait", "name": "refund?", "errorKind": nil, "errorMessage": nil, "text": nil,
			"tool": nil, "recovered": false, "state": "WAITING", "startTime": at(5), "endTime": nil,
		},
		"items.0.failed": 0,
		"items.0.cause":  nil,
	})
}

// N15: q finds words anywhere in a tree, in pages, and an answer says if some runs cannot be found yet.
func TestListSearch(t *testing.T) {
	t.Parallel()
	c := serve(t)

	c.Write(plan("a", obj{"title": "Weather of Zürich"}), step("a", "a", "a-s", obj{"agentName": "collector"}),
		tool("a", "a-s", 0, "a-t", obj{
			"name": "get_weather", "errorMessage": "connect ECONNREFUSED 10.0.0.1:80", "errorKind": "TimeoutError",
		}))
	c.Write(plan("b", obj{"userRequest": "查询天气 in src/main.go:42"}),
		cycle("b", "b-s", 0, obj{"errorMessage": "disk_full"}))
	c.Write(plan("c", obj{"summary": "weather report"}))

	for query, want := range map[string][]string{
		"weather": {"c", "a"}, "get_weather": {"a"}, "WEATHER+zürich": {"a"}, "weather+ZÜRICH+collector": {"a"},
		"econnrefused": {"a"}, "10.0.0.1": {"a"}, "timeout": {"a"},
		"disk_full": {"b"}, "%E5%A4%A9%E6%B0%94": {"b"}, "main.go:42": {"b"}, "42": {"b"}, "nothing": nil, "'%22%3B--": nil,
		"weather+disk": nil,
	} {
		if ids, next := c.page("q=" +
			strings.ReplaceAll(strings.ReplaceAll(query, "ü", "%C3%BC"), "Ü", "%C3%9C")); !slices.Equal(ids, want) ||
			next != "" {
			t.Errorf("%q lists %q, %q", query, ids, next)
		}
	}

	first, next := c.page("q=weather&limit=1")
	second, last := c.page("q=weather&limit=1&cursor=" + next)
	if !slices.Equal(slices.Concat(first, second), []string{"c", "a"}) || last != "" {
		t.Errorf("the pages are %q, %q, then %q", first, second, last)
	}

	expect(t, c.Read("/api/v1/plans?q=weather"), obj{"incomplete": false})
	c.Exec("INSERT INTO actlog.search_backfill DEFAULT VALUES")
	expect(t, c.Read("/api/v1/plans?q=weather"), obj{"incomplete": true})
	expect(t, c.Read("/api/v1/plans"), obj{"incomplete": false})
}

// N15: a search says that it may have missed runs if they were still being added when it began.
func TestListSearchIncompleteWhileItBegan(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("a", obj{"title": "weather"}))
	c.Exec("INSERT INTO actlog.search_backfill DEFAULT VALUES")

	tx, err := c.DB.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE actlog.search_slice"); err != nil { // the search waits
		t.Fatal(err)
	}

	answer := make(chan any)
	go func() { defer close(answer); expect(t, c.Read("/api/v1/plans?q=weather"), obj{"incomplete": true}) }()
	storetest.Until(t, "the search waits", func() (waits bool) {
		if err := c.DB.Pool.QueryRow(t.Context(),
			"SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'actlog.search_slice'::regclass)").Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits
	})

	c.Exec("DELETE FROM actlog.search_backfill")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-answer
}

// TestListItems: long texts are cut.
func TestListItems(t *testing.T) {
	t.Parallel()
	c := serve(t)

	c.Write(plan("p", state("FAILED"), obj{
		"title": strings.Repeat("é", 2000), "errorMessage": strings.Repeat("x", 2000), "startTime": at(0), "endTime": at(2),
		"lastSeenAt": at(1), "environment": "test", "release": "r1",
	}),
		step("p", "p", "s"), cycle("p", "s", 0, obj{"inputTokens": 5, "costUsd": 0.5}))

	expect(t, c.Read("/api/v1/plans"), obj{
		"items.0.title": strings.Repeat("é", 1000), "items.0.errorMessage": strings.Repeat("x", 1000),
		"items.0.state": "FAILED", "items.0.steps": 1,
		"items.0.total.durationMs": 2000, "items.0.total.inputTokens": 5, "items.0.lastSeenAt": at(1),
		"items.0.environment": "test", "items.0.release": "r1",
	})
	expect(t, c.Details("p"), obj{"lastSeenAt": at(1)})
}

func TestListRefusesBadQueries(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("a"))
	cursor := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

	for _, tt := range []struct{ field, value string }{
		{"limit", "0"}, {"limit", "-1"}, {"limit", "501"}, {"limit", "x"}, {"limit", "1.5"},
		{"limit", "99999999999999999999"},
		{"cursor", "x"}, {"cursor", "%%%"}, {"cursor", cursor("began soon 0 a")},
		{"cursor", cursor("began 1763640000000000")}, {"cursor", cursor("began 9223372036854775807 0 a")},
		{"cursor", cursor("began -9223372036854775808 0 a")}, {"cursor", cursor("began 1763640000000000 0 \x00")},
		{"cursor", cursor("began 1763640000000000 0 \xff")},
		{"cursor", cursor("began 1763640000000000 9223372036854775807 a")},
		{"cursor", cursor("thoughts 1763640000000000 0 a")},
		{"cursor", cursor("plans 1763640000000000 0 a")}, // of the order before
		{"since", "yesterday"}, {"since", "1763640000"}, {"until", "2026-13-01"}, {"until", "2026-11-20T12:00:00 01:00"},
		{"since", "0000-01-01"}, {"since", "\x00"}, {"since", "24"}, {"since", "-1h"}, {"since", "1e9h"}, {"until", "70000d"},
		{"failed", "maybe"}, {"minCost", "-1"}, {"minCost", "$1"}, {"maxCost", "NaN"}, {"maxCost", "1e99"},
		{"minDuration", "-5"}, {"minDuration", "soon"}, {"minDuration", "1h30"}, {"maxDuration", "99999999999999999"},
		{"model", "\x00"}, {"tool", "\xff"},
		{"name", "\xff"}, {"agent", "\x00"}, {"userId", "\xff"}, {"conversationId", "\xff"}, {"tag", "\x00"}, {"q", "\xff"},
		{"q", "\x00"}, {"q", " "}, {"q", strings.Repeat("x", 4096)}, {
			"q", strings.Repeat("a ", 17) + strings.Join(strings.Split("bcdefghijklmnopqr", ""), " "),
		},
		{"sort", "name"}, {"State", "RUNNING"}, {"offset", ""},
		{"state", "running"}, {"state", "IDLE"}, {"state", "\x00"}, {"project", "\x00"}, {"project", "\xff"},
	} {
		wantProblem(t, c.Get("/api/v1/plans?"+url.Values{tt.field: {tt.value}}.Encode()), http.StatusBadRequest, tt.field)
	}

	wantProblem(t, c.Get("/api/v1/plans?state=RUNNING&state=FAILED"), http.StatusBadRequest, "state")
	for _, query := range []string{"q=%zz", "=x", "state;x"} {
		wantProblem(t, c.Get("/api/v1/plans?"+query), http.StatusBadRequest, nil)
	}

	for _, list := range attachedLists {
		path := "/api/v1/plans/a/" + list
		wantProblem(t, c.Get(path+"?offset=5"), http.StatusBadRequest, "offset")
		wantProblem(t, c.Get(path+"?limit=0"), http.StatusBadRequest, "limit")
		for _, other := range []string{
			"x", cursor("plans 0 0 a"), cursor(list + " 0 0"), cursor(list + " 9223372036854775807 0 a"),
			cursor(list + " 0 99999999999 a"), cursor(list + " 0 0 \x00"),
		} {
			wantProblem(t, c.Get(path+"?cursor="+other), http.StatusBadRequest, "cursor")
		}
	}
}

// TestAListThatTakesTooLong ends with an error that says what to do.
func TestAListThatTakesTooLong(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(c *apitest.Config) { c.Lookup.ListTimeout = time.Millisecond }})
	c.Exec(`INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, title)
		SELECT i::text, i::text, DATE '2026-11-16', repeat('x', 1000) FROM generate_series(1, 20000) AS i`)

	a := c.Get("/api/v1/plans?agent=nobody")
	wantProblem(t, a, http.StatusServiceUnavailable, nil)
	if !strings.Contains(string(a.Body), "since and until") {
		t.Errorf("a.Body = %s", a.Body)
	}

	c.Exec(`INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part)
		SELECT '1', 'sub-' || i, DATE '2026-11-16' FROM generate_series(1, 20000) AS i`)
	a = c.Get("/api/v1/ids?prefix=su") // no root plan begins so
	wantProblem(t, a, http.StatusServiceUnavailable, nil)
	if !strings.Contains(string(a.Body), "give more of one") {
		t.Errorf("a.Body = %s", a.Body)
	}
}
