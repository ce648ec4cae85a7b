package runapi

import (
	"cmp"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// trace serves how a run went, as JSON or as Markdown.
func (s *Server) trace(c echo.Context) error {
	q := httpd.QueryOf(c, "format")
	format := cmp.Or(q.Text("format"), "json")
	if q.Err == nil && format != "json" && format != "markdown" {
		q.Err = httpd.BadField("format", "must be json or markdown")
	}
	id := q.ID("planId")
	if q.Err != nil {
		return q.Err
	}

	d, err := s.reader(c).RunDetail(c.Request().Context(), id)
	if err != nil {
		return err
	}
	out, err := s.traceOf(c, d)
	if err != nil {
		return err
	}

	if format == "markdown" {
		return c.Blob(http.StatusOK, "text/markdown; charset=UTF-8", markdown(&out))
	}
	return c.JSON(http.StatusOK, out)
}

// traceOf reads how a run went. Only so many are read at once.
func (s *Server) traceOf(c echo.Context, d *runstore.RunDetail) (traceJSON, error) {
	ctx := c.Request().Context()
	done, err := s.long.Take(ctx, httpd.ClientOf(c))
	if err != nil {
		return traceJSON{}, err
	}
	defer done()
	return readTrace(ctx, s.reader(c), httpd.AnswerTo(c).Take, d.Plan.RootPlanID, d.Plan.CurrentPlanID)
}
