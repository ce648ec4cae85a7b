package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// page gives the ids of a page of plans and the cursor of the next.
func (c *client) page(query string) (ids []string, next string) {
	c.t.Helper()
	list := c.read("/api/v1/plans?" + query)
	for _, item := range lookup(c.t, list, "items").([]any) {
		ids = append(ids, item.(obj)["rootPlanId"].(string))
	}
	next, _ = lookup(c.t, list, "nextCursor").(string)
	return ids, next
}

// TestPagesHoldEachPlanOnce reads page by page while other plans come in.
func TestPagesHoldEachPlanOnce(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const plans = 23
	var want []string
	for i := range plans / 2 { // two of a transaction, so of one time
		a, b := fmt.Sprintf("plan-%02d-a", i), fmt.Sprintf("plan-%02d-b", i)
		c.write(plan(a), plan(b), subPlan(a, a+"-sub", a, "t"))
		want = append(want, a, b)
	}
	c.write(plan("plan with space, last"))
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
			c.write(plan(fmt.Sprintf("new-%d-%d", limit, pages)), plan(want[plans-1], obj{"title": fmt.Sprint(pages)}))
		}
		// Those that came in before the first page are part of it.
		got = slices.DeleteFunc(got, func(id string) bool { return id[0] == 'n' })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.write(plan("a", state("RUNNING")))
	c.write(plan("b", state("RUNNING"), obj{"project": "sales"}))
	c.write(plan("c"))
	for query, want := range map[string][]string{
		"":                            {"c", "b", "a"},
		"state=RUNNING":               {"b", "a"},
		"state=PENDING":               {"c"},
		"state=FAILED":                nil,
		"project=sales":               {"b"},
		"project=default":             {"c", "a"},
		"project=sales&state=RUNNING": {"b"},
		"project=nobody":              nil,
	} {
		if ids, next := c.page(query); !slices.Equal(ids, want) || next != "" {
			t.Errorf("%q gives %q, %q", query, ids, next)
		}
	}
}

func TestListRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.write(plan("a"))
	cursor := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, tt := range []struct{ field, value string }{
		{"limit", "0"}, {"limit", "-1"}, {"limit", "501"}, {"limit", "x"}, {"limit", "1.5"}, {"limit", "99999999999999999999"},
		{"cursor", "x"}, {"cursor", "%%%"}, {"cursor", cursor("soon a")}, {"cursor", cursor("1763640000000000")}, {"cursor", cursor("9223372036854775807 a")},
		{"cursor", cursor("-9223372036854775808 a")}, {"cursor", cursor("1763640000000000 \x00")}, {"cursor", cursor("1763640000000000 \xff")},
		{"state", "running"}, {"state", "IDLE"}, {"state", "\x00"}, {"project", "\x00"}, {"project", "\xff"},
	} {
		wantProblem(t, c.get("/api/v1/plans?"+url.Values{tt.field: {tt.value}}.Encode()), http.StatusBadRequest, tt.field)
	}
}
