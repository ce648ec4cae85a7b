package lookup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// PlanPage is a page of a list of root plans.
type PlanPage struct {
	Plans []store.PlanSummary
	Next  *store.Position // of the next page; nil: this is the last one
	// Incomplete says that a search may have missed some.
	Incomplete bool
	Filter     store.PlanFilter
}

// PlanQuery are the members of the query of [Lookup.PlanPage].
var PlanQuery = append(slices.Clip(planQuery), "cursor")

// PlanPage reads the page of the list of root plans for which a query asks.
func (l *Lookup) PlanPage(c echo.Context, q *httpd.Query) (PlanPage, error) {
	filter := planFilter(q)
	filter.Before = planCursor(q.Cursor(PlanCursors))
	return l.planPage(c, q, filter)
}

// NewerPlans reads the root plans that are newer than one in the list for which the query of a request asks. The member
// after has the place of that one.
func (l *Lookup) NewerPlans(c echo.Context) (PlanPage, error) {
	q := httpd.QueryOf(c, append(planQuery, "after")...)
	filter := planFilter(q)
	filter.After = planCursor(q.CursorAt("after", PlanCursors))
	return l.planPage(c, q, filter)
}

// PlanCursors are the cursors of the list of root plans. Those of a list in another order have another name, so they
// are refused: the list was in the order in which plans were first seen, before.
const PlanCursors = "began"

func planCursor(at *httpd.Cursor) *store.PlanCursor {
	if at == nil {
		return nil
	}
	return &store.PlanCursor{BeganAt: at.Time, RootPlanID: at.ID}
}

// conversationRuns is how many runs of a conversation stand on a page.
const conversationRuns = 20

// ConversationPage reads the page of the root plans of a conversation for which the query of a request asks, newest
// first.
func (l *Lookup) ConversationPage(c echo.Context, id string) (PlanPage, error) {
	q := httpd.QueryOf(c, "cursor")
	filter := store.PlanFilter{ConversationID: id, Limit: conversationRuns, Before: planCursor(q.Cursor(PlanCursors))}
	return l.planPage(c, q, filter)
}

// planQuery are the members of a query that narrow the list of root plans.
var planQuery = []string{
	"project", "state", "name", "agent", "userId", "conversationId", "startedBy", "tag", "q", "since", "until", "failed",
	"minCost", "maxCost", "minDuration", "maxDuration", "model", "tool", "limit",
}

func planFilter(q *httpd.Query) store.PlanFilter {
	filter := store.PlanFilter{
		Project: q.Text("project"), State: record.State(q.Text("state")), Name: q.Text("name"), Agent: q.Text("agent"),
		UserID: q.Text("userId"), ConversationID: q.Text("conversationId"), StartedBy: q.Text("startedBy"),
		Tag: q.Text("tag"), Query: q.Text("q"), Since: q.Time("since"), Until: q.Time("until"),
		Failed: q.Choice("failed"), MinCostUSD: q.Amount("minCost"), MaxCostUSD: q.Amount("maxCost"),
		MinDuration: q.Duration("minDuration"), MaxDuration: q.Duration("maxDuration"),
		Model: q.Text("model"), Tool: q.Text("tool"),
		Limit: q.Limit(),
	}

	states := record.States(record.KindPlan)
	if q.Err == nil && filter.State != "" && !slices.Contains(states, filter.State) {
		q.Err = httpd.BadField("state", "must be a state of plans: "+joined(states))
	}
	return filter
}

func (l *Lookup) planPage(c echo.Context, q *httpd.Query, filter store.PlanFilter) (page PlanPage, err error) {
	if q.Err != nil {
		return page, q.Err
	}

	page.Filter = filter
	filter.Limit++ // one more shows whether there is a next page
	page.Plans, page.Incomplete, err = l.searchPlans(c, filter)
	if errors.Is(err, store.ErrSlow) {
		return page, tooSlow(err)
	}

	if most := page.Filter.Limit; len(page.Plans) > most {
		page.Plans = page.Plans[:most]
		last := page.Plans[most-1].Cursor
		page.Next = &store.Position{Time: last.BeganAt, ID: last.RootPlanID}
	}
	return page, err
}

// tooSlow is the answer to a request that takes longer than it may.
func tooSlow(err error) *httpd.Problem {
	return httpd.Later(10, err.Error()+"; narrow it down, with since and until or other filters")
}

// searchPlans reads a page of a list, in turn if it has to look for its plans. The time of the
// list begins here: to wait for the turn, or for a connection, is part of it. incomplete says that a
// search may have missed some.
func (l *Lookup) searchPlans(
	c echo.Context, filter store.PlanFilter,
) (plans []store.PlanSummary, incomplete bool, err error) {
	ctx, end := c.Request().Context(), l.ListEnd()
	if filter.Narrows() {
		done, err := l.TurnToSearch(ctx, c)
		if err != nil {
			return nil, false, err
		}
		defer done()
	}

	err = l.Relaxed(c, func(ctx context.Context, r *store.Reader) (err error) {
		if filter.Query != "" { // before the search: the missing runs may be added while it goes on
			if incomplete, err = r.SearchIncomplete(ctx); err != nil {
				return err
			}
		}
		filter.Timeout = time.Until(end)
		plans, err = r.Plans(ctx, filter)
		return err
	})
	return plans, incomplete, err
}

func joined[T ~string](names []T) string {
	texts := make([]string, len(names))
	for i, s := range names {
		texts[i] = string(s)
	}
	return strings.Join(texts, ", ")
}
