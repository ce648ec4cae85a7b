package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
)

func (s *Server) plan(c echo.Context) error {
	id, err := httpd.NativeID(c, "planId")
	if err != nil {
		return err
	}
	q := httpd.QueryOf(c, "root", "maxDepth")
	root, maxDepth := q.Text("root"), maxDepthOf(q)
	if q.Err != nil {
		return q.Err
	}
	p, _, err := s.reader(c).PlanTree(c.Request().Context(), root, id)
	if err != nil {
		return err
	}
	return sendPlan(c, p, maxDepth)
}

func sendPlan(c echo.Context, p *tree.Plan, maxDepth int) error {
	p.Cut(maxDepth)
	return sendTagged(c, func(o *object) { addPlan(o, p) })
}

// deletePlan deletes the tree of a root plan for good.
func (s *Server) deletePlan(c echo.Context) error {
	id, err := httpd.NativeID(c, "planId")
	if err != nil {
		return err
	}
	if q := httpd.QueryOf(c); q.Err != nil {
		return q.Err
	}
	if err := s.store.DeletePlan(c.Request().Context(), id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// itemView is a root plan in a list: without what a list does not read.
var itemView = viewOf(record.KindPlan, []string{
	"currentPlanId", "parentPlanId", "toolCallId", "executor", "userRequest", "summary", "modelName", "metadata", "startedBy",
}, nil)

// addItem appends a root plan in a list, with the figures of its whole tree.
func addItem(o *object, p store.PlanSummary) {
	o.b = append(o.b, '{')
	o.int("id", p.ID)
	o.fields(itemView, &p.Record)
	o.bool("completed", p.Record.State.Terminal())
	o.bool("placeholder", p.Placeholder)
	o.value("lastSignOfLife", p.LastSignOfLife)
	o.text("agent", p.Agent)
	o.int("steps", p.Steps)
	o.value("total", wire.FiguresOf(&p.Total))
	o.int("failed", p.Failed)
	o.value("cause", causeOf(&p))
	o.truncated(p.Truncated)
	o.b = append(o.b, '}')
}

// PlanPage is a page of a list of root plans.
type PlanPage struct {
	Plans []store.PlanSummary
	Next  *store.Position // of the next page; nil: this is the last one
	// Incomplete says that a search may have missed some.
	Incomplete bool
	Filter     store.PlanFilter
}

func (s *Server) listPlans(c echo.Context) error {
	page, err := s.PlanPage(c)
	if err != nil {
		return err
	}
	return sendTagged(c, func(o *object) { addPlans(o, page.Plans, page.Next, page.Incomplete) })
}

// PlanPage reads the page of the list of root plans for which the query of a request asks.
func (s *Server) PlanPage(c echo.Context) (page PlanPage, err error) {
	return s.planPageOf(c, httpd.QueryOf(c, append(planQuery, "cursor")...))
}

// FindPlans is [Server.PlanPage] for values that did not come in the query of the request.
func (s *Server) FindPlans(c echo.Context, values url.Values) (PlanPage, error) {
	return s.planPageOf(c, httpd.QueryFrom(values, append(planQuery, "cursor")...))
}

func (s *Server) planPageOf(c echo.Context, q *httpd.Query) (PlanPage, error) {
	filter := planFilter(q)
	filter.Before = planCursor(q.Cursor(PlanCursors))
	return s.planPage(c, q, filter)
}

// NewerPlans reads the root plans that are newer than one in the list for which the query of a request asks. The member after
// has the place of that one.
func (s *Server) NewerPlans(c echo.Context) (PlanPage, error) {
	q := httpd.QueryOf(c, append(planQuery, "after")...)
	filter := planFilter(q)
	filter.After = planCursor(q.CursorAt("after", PlanCursors))
	return s.planPage(c, q, filter)
}

// PlanCursors are the cursors of the list of root plans. Those of a list in another order have another name, so they are refused:
// the list was in the order in which plans were first seen, before.
const PlanCursors = "began"

func planCursor(at *httpd.Cursor) *store.PlanCursor {
	if at == nil {
		return nil
	}
	return &store.PlanCursor{BeganAt: at.Time, RootPlanID: at.ID}
}

// conversationRuns is how many runs of a conversation stand on a page.
const conversationRuns = 20

// ConversationPage reads the page of the root plans of a conversation for which the query of a request asks, newest first.
func (s *Server) ConversationPage(c echo.Context, id string) (PlanPage, error) {
	q := httpd.QueryOf(c, "cursor")
	filter := store.PlanFilter{ConversationID: id, Limit: conversationRuns, Before: planCursor(q.Cursor(PlanCursors))}
	return s.planPage(c, q, filter)
}

// planQuery are the members of a query that narrow the list of root plans.
var planQuery = []string{
	"project", "state", "name", "agent", "userId", "conversationId", "startedBy", "tag", "q", "since", "until", "failed", "minCost", "maxCost", "minDuration", "maxDuration",
	"model", "tool", "limit",
}

func planFilter(q *httpd.Query) store.PlanFilter {
	filter := store.PlanFilter{
		Project: q.Text("project"), State: record.State(q.Text("state")), Name: q.Text("name"), Agent: q.Text("agent"), UserID: q.Text("userId"),
		ConversationID: q.Text("conversationId"), StartedBy: q.Text("startedBy"), Tag: q.Text("tag"), Query: q.Text("q"), Since: q.Time("since"), Until: q.Time("until"),
		Failed: q.Choice("failed"), MinCostUSD: q.Amount("minCost"), MaxCostUSD: q.Amount("maxCost"),
		MinDuration: q.Duration("minDuration"), MaxDuration: q.Duration("maxDuration"), Model: q.Text("model"), Tool: q.Text("tool"),
		Limit: q.Limit(),
	}
	if q.Err == nil && filter.State != "" && !slices.Contains(record.States(record.KindPlan), filter.State) {
		q.Err = httpd.BadField("state", fmt.Sprintf("must be a state of plans: %s", joined(record.States(record.KindPlan))))
	}
	return filter
}

func (s *Server) planPage(c echo.Context, q *httpd.Query, filter store.PlanFilter) (page PlanPage, err error) {
	if q.Err != nil {
		return page, q.Err
	}
	page.Filter = filter
	filter.Limit++ // one more shows whether there is a next page
	page.Plans, page.Incomplete, err = s.searchPlans(c, filter)
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
	return &httpd.Problem{Status: http.StatusServiceUnavailable, Detail: err.Error() + "; narrow it down, with since and until or other filters", RetryAfter: 10}
}

// addPlans adds a page of the list of plans. incomplete says that a search may have missed some.
func addPlans(o *object, plans []store.PlanSummary, next *store.Position, incomplete bool) {
	addPage(o, PlanCursors, plans, next, addItem, func(o *object) { o.bool("incomplete", incomplete) })
}

// searchPlans reads a page of a list, in turn if it has to look for its plans. The time of the
// list begins here: to wait for the turn, or for a connection, is part of it. incomplete says that a
// search may have missed some.
func (s *Server) searchPlans(c echo.Context, filter store.PlanFilter) (plans []store.PlanSummary, incomplete bool, err error) {
	ctx, end := c.Request().Context(), time.Now().Add(s.config.ListTimeout)
	if filter.Narrows() {
		done, err := s.searches.Take(ctx, httpd.ClientOf(c))
		if err != nil {
			return nil, false, err
		}
		defer done()
	}
	err = s.relaxed(c, func(ctx context.Context, r *store.Reader) (err error) {
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
