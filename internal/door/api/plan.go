package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/lookup"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/record"
)

func (s *Server) plan(c echo.Context) error {
	q := httpd.QueryOf(c, "root", "maxDepth")
	root, maxDepth := q.Text("root"), maxDepthOf(q)
	id := q.ID("planId")
	if q.Err != nil {
		return q.Err
	}

	p, _, err := s.lookup.Reader(c).PlanTree(c.Request().Context(), root, id)
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
	q := httpd.QueryOf(c)
	id := q.ID("planId")
	if q.Err != nil {
		return q.Err
	}

	if err := s.store.DeletePlan(c.Request().Context(), id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// itemView is a root plan in a list: without what a list does not read.
var itemView = viewOf(record.KindPlan, []string{
	"currentPlanId", "parentPlanId", "toolCallId", "executor", "userRequest", "summary", "modelName", "metadata",
	"startedBy", "attempt",
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

func (s *Server) listPlans(c echo.Context) error {
	page, err := s.lookup.PlanPage(c, httpd.QueryOf(c, lookup.PlanQuery...))
	if err != nil {
		return err
	}
	return sendTagged(c, func(o *object) { addPlans(o, page.Plans, page.Next, page.Incomplete) })
}

// addPlans adds a page of the list of plans. incomplete says that a search may have missed some.
func addPlans(o *object, plans []store.PlanSummary, next *store.Position, incomplete bool) {
	addPage(o, lookup.PlanCursors, plans, next, addItem, func(o *object) { o.bool("incomplete", incomplete) })
}
