package runapi

import (
	"cmp"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/httpd"
)

// maxDepth is how many levels of sub-plans a trace shows, as a tree does if no other number is asked for.
const maxDepth = 50

// trace serves how a run went, as JSON or as Markdown.
func (s *Server) trace(c echo.Context) error {
	id, err := httpd.NativeID(c, "planId")
	if err != nil {
		return err
	}
	q := httpd.QueryOf(c, "format")
	format := cmp.Or(q.Text("format"), "json")
	if q.Err == nil && format != "json" && format != "markdown" {
		q.Err = httpd.BadField("format", "must be json or markdown")
	}
	if q.Err != nil {
		return q.Err
	}
	ctx := c.Request().Context()
	done, err := s.long.Take(ctx, httpd.ClientOf(c))
	if err != nil {
		return err
	}
	defer done()
	reader := s.reader(c)
	d, err := reader.RunDetail(ctx, id)
	if err != nil {
		return err
	}
	plan, _, err := reader.PlanTree(ctx, d.Plan.RootPlanID, id)
	if err != nil {
		return err
	}
	plan.Cut(maxDepth)
	b := newTracer(httpd.AnswerTo(c).Take)
	if err := b.read(ctx, reader, d.Plan.RootPlanID); err != nil {
		return err
	}
	out := b.plan(plan)
	if format == "markdown" {
		return c.Blob(http.StatusOK, "text/markdown; charset=UTF-8", markdown(&out))
	}
	return c.JSON(http.StatusOK, out)
}
