package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

// attachedLists are the lists of records that are attached to a plan.
var attachedLists = []string{"thoughts", "artifacts", "sources", "waits"}

// attached reads a list page by page.
func (c *client) attached(planID, list, member string, limit int) (ids []string, pages int) {
	c.T.Helper()
	for next := ""; pages == 0 || next != ""; pages++ {
		page := c.Read(fmt.Sprintf("/api/v1/plans/%s/%s?limit=%d&cursor=%s", planID, list, limit, next))
		items := lookup(c.T, page, "items").([]any)
		if len(items) > limit {
			c.T.Errorf("%d items of %d", len(items), limit)
		}
		for _, item := range items {
			ids = append(ids, item.(obj)[member].(string))
		}
		next, _ = lookup(c.T, page, "nextCursor").(string)
	}
	return ids, pages
}

// TestListsBesideAPlan: each item is read once and in order, whatever the size of a page.
func TestListsBesideAPlan(t *testing.T) {
	t.Parallel()
	c := serve(t)

	c.Write(plan("p"), subPlan("p", "sub", "p", "t"), plan("empty"),
		thought("p", "p", "e"), thought("p", "p", "d", obj{"iteration": 9}), thought("p", "p", "z", obj{"iteration": -1}),
		thought("p", "p", "y", obj{"time": at(1)}), thought("p", "p", "x", obj{"time": at(1), "iteration": 2}),
		thought("p", "p", "w", obj{"time": at(1), "iteration": 2}),
		thought("p", "p", "last of all times", obj{"time": "2262-12-31T23:59:59.999999Z"}),
		thought("p", "p", "first", obj{"time": "1970-01-01T00:00:00Z", "iteration": 2147483646}),
		thought("p", "sub", "of the sub-plan"),
		artifact("p", "p", "b"), artifact("p", "p", "a b/c"), artifact("p", "p", "B"), artifact("p", "sub", "s"),
		source("p", "p", "2"), source("p", "p", "10"), source("p", "p", "ж"), source("p", "sub", "s"),
		wait("p", "p", "b"), wait("p", "p", "a"), wait("p", "p", "d", obj{"startTime": at(5)}),
		wait("p", "p", "c", obj{"startTime": at(5)}), wait("p", "sub", "s"),
	)

	for _, tt := range []struct {
		list, member string
		want         []string
		ofSub        string
	}{
		{"thoughts", "thoughtId", []string{"first", "w", "x", "y", "last of all times", "z", "d", "e"}, "of the sub-plan"},
		{"artifacts", "name", []string{"B", "a b/c", "b"}, "s"},
		{"sources", "sourceId", []string{"10", "2", "ж"}, "s"},
		{"waits", "waitId", []string{"c", "d", "a", "b"}, "s"},
	} {
		for _, limit := range []int{1, 2, len(tt.want), 500} {
			got, pages := c.attached("p", tt.list, tt.member, limit)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s by %d (-want +got):\n%s", tt.list, limit, diff)
			}
			if want := (len(tt.want) + limit - 1) / limit; pages != want {
				t.Errorf("%s by %d: %d pages, want %d", tt.list, limit, pages, want)
			}
		}

		if got, _ := c.attached("sub", tt.list, tt.member, 50); !slices.Equal(got, []string{tt.ofSub}) {
			t.Errorf("%s of the sub-plan: %q", tt.list, got)
		}

		expect(t, c.Read("/api/v1/plans/empty/"+tt.list), obj{"items": []any{}, "nextCursor": nil})
		wantProblem(t, c.Get("/api/v1/plans/unknown/"+tt.list), http.StatusNotFound, nil)
		wantProblem(t, c.Get("/api/v1/plans/%20/"+tt.list), http.StatusBadRequest, "planId")
		wantProblem(t, c.Get("/api/v1/plans/%ff/"+tt.list), http.StatusNotFound, nil)
		tag := c.Get("/api/v1/plans/p/" + tt.list).Header.Get("ETag")
		wantStatus(t, c.Get("/api/v1/plans/p/"+tt.list, "If-None-Match", tag), http.StatusNotModified)
	}
}

// TestEveryFieldBesideAPlanIsReturned as it was written.
func TestEveryFieldBesideAPlanIsReturned(t *testing.T) {
	t.Parallel()
	c := serve(t)
	written := map[string]obj{
		"thoughts": thought("p/1", "p/1", "x",
			obj{"stepId": "s", "agentId": "a", "role": "r", "iteration": 3, "type": "decision", "content": "c <&>",
				"relatedOperations": []any{"o", ""}, "confidence": 0.25, "time": at(7),
				"forkedFrom": "thought:o"}),
		"artifacts": artifact("p/1", "p/1", "x", obj{
			"stepId": "s", "toolCallId": "t", "type": "table", "value": []any{1.5, nil, obj{"z": "", "a": true}},
			"forkedFrom": "artifact:o",
		}),
		"sources": source("p/1", "p/1", "x",
			obj{"stepId": "s", "toolCallId": "t", "uri": "file:///x", "type": "FILE", "lineStart": 1, "lineEnd": 2,
				"snippet": "sn", "description": "d", "relevanceScore": 0.5, "metadata": obj{"k": []any{}},
				"forkedFrom": "source:o"}),
		"waits": wait("p/1", "p/1", "x",
			obj{"stepId": "s", "toolCallId": "t", "type": "PLAN_VALIDATION", "title": "ti", "formDescription": "f",
				"formInputs": []any{obj{"label": "l"}}, "state": "APPROVED", "decision": "yes", "decidedBy": "u", "by": "U",
				"decisionText": "why", "subject": obj{"name": "n"}, "subjectSha256": "h", "startTime": at(1), "endTime": at(2),
				"expiresAt": at(9), "forkedFrom": "wait:o"}),
	}

	least := map[string]obj{
		"thoughts": thought("p/1", "p/1", "y"), "artifacts": artifact("p/1", "p/1", "y"),
		"sources": source("p/1", "p/1", "y"), "waits": wait("p/1", "p/1", "y"),
	}

	for _, list := range attachedLists {
		kind := record.Kind(written[list]["kind"].(string))
		for _, f := range field.Fields(kind) {
			if f.Name != "rev" && written[list][f.Name] == nil {
				t.Errorf("this test leaves %s.%s out", kind, f.Name)
			}
		}

		c.Write(written[list], least[list])
		got := c.Read("/api/v1/plans/p%2F1/" + list)
		want := obj{}
		for name, v := range written[list] {
			if name != "kind" {
				want["items.0."+name] = v
			}
		}
		expect(t, got, want)

		defaults := obj{"thoughts": obj{"relatedOperations": []any{}}, "artifacts": obj{"value": nil},
			"sources": obj{"metadata": nil},
			"waits":   obj{"type": "USER_INPUT", "state": "WAITING", "formInputs": []any{}}}[list].(obj)
		for name, v := range defaults {
			expect(t, got, obj{"items.1." + name: v})
		}
	}
}

// TestAPageOfLargeItems ends early: items of megabytes must not become a page of gigabytes.
func TestAPageOfLargeItems(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is read, and how much of it")
	t.Parallel()
	c := serve(t)
	large := strings.Repeat("x", 4<<20)
	for i := range 5 {
		c.Write(thought("p", "p", fmt.Sprint(i), obj{"content": large}))
	}

	got, pages := c.attached("p", "thoughts", "thoughtId", 500)
	if !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) || pages != 2 {
		t.Errorf("%q in %d pages", got, pages)
	}
}

// TestDelete deletes a tree for good, and nothing else.
func TestDelete(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, root := range []string{"p", "q"} {
		c.Write(plan(root), step(root, root, root+"-s"), cycle(root, root+"-s", 0), tool(root, root+"-s", 0, root+"-t"),
			subPlan(root, root+"-sub", root, root+"-t"),
			thought(root, root, "x"), artifact(root, root, "x"), source(root, root, "x"), wait(root, root, "x"))
	}

	a := c.Do(http.MethodDelete, "/api/v1/plans/p-sub", nil)
	wantProblem(t, a, http.StatusBadRequest, "planId")
	if !strings.Contains(string(a.Body), "sub-plan of p;") {
		t.Errorf("a.Body = %s", a.Body)
	}
	wantProblem(t, c.Do(http.MethodDelete, "/api/v1/plans/nobody", nil), http.StatusNotFound, nil)
	wantProblem(t, c.Do(http.MethodDelete, "/api/v1/plans/%20", nil), http.StatusBadRequest, "planId")
	wantStatus(t, c.Get(details+"p"), http.StatusOK)

	wantStatus(t, c.Do(http.MethodDelete, "/api/v1/plans/p", nil), http.StatusNoContent)
	wantProblem(t, c.Do(http.MethodDelete, "/api/v1/plans/p", nil), http.StatusNotFound, nil)
	for _, path := range []string{details + "p", details + "p-sub", agentExecution + "p-s", "/api/v1/plans/p/thoughts"} {
		wantStatus(t, c.Get(path), http.StatusNotFound)
	}
	for _, path := range []string{details + "q", details + "q-sub", agentExecution + "q-s"} {
		wantStatus(t, c.Get(path), http.StatusOK)
	}

	for _, list := range attachedLists {
		expect(t, c.Read("/api/v1/plans/q/"+list), obj{"items.#": 1})
	}
	if ids, _ := c.page(""); !slices.Equal(ids, []string{"q"}) {
		t.Errorf("listed %q", ids)
	}
}
