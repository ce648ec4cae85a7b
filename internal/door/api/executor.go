package api

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
)

// The executor API is the contract of source 001, exactly: its clients receive plain texts and
// empty bodies instead of some problem documents.

const blankPlanID = "Plan ID cannot be null or empty"

// executorDetails serves the hierarchy of a plan, but first, once, an exception that waits. Who follows a link sees the
// hierarchy: the exception is for who asks for it.
func (s *Server) executorDetails(c echo.Context) error {
	id, err := httpd.PathID(c, "planId")
	if err != nil {
		return err
	}
	if strings.TrimSpace(id) == "" {
		return c.String(http.StatusBadRequest, blankPlanID)
	}

	q := httpd.KnownQueryOf(c, "root", "maxDepth")
	root, maxDepth := q.Text("root"), maxDepthOf(q)
	if q.Err != nil {
		return q.Err
	}

	ctx := c.Request().Context()
	p, exceptionWaits, err := s.lookup.Reader(c).PlanTree(ctx, root, id)
	if err != nil {
		return err
	}

	if exceptionWaits && c.Request().Method != http.MethodHead && httpd.MayAct(c) { // a reader of the head does not see it
		message, found, err := s.store.ServeException(ctx, p.Record.RootPlanID, id)
		if err != nil {
			return err
		}
		if found {
			return sendJSON(c, http.StatusInternalServerError, map[string]string{"error": message})
		}
	}
	return sendPlan(c, p, maxDepth)
}

// executorDelete deletes nothing: the original's UI calls it after every run.
func (s *Server) executorDelete(c echo.Context) error {
	id, err := httpd.PathID(c, "planId")
	if err != nil {
		return err
	}
	if strings.TrimSpace(id) == "" {
		return c.String(http.StatusBadRequest, blankPlanID)
	}

	if _, _, err := s.store.PlanPlace(c.Request().Context(), "", id); err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, map[string]string{
		"message": "Execution record found (no deletion needed)", "planId": id,
	})
}

// executorStep serves a step with its cycles.
func (s *Server) executorStep(c echo.Context) error {
	id, err := httpd.PathID(c, "stepId")
	if err != nil {
		return err
	}
	if strings.TrimSpace(id) == "" {
		return c.NoContent(http.StatusNotFound)
	}

	q := httpd.KnownQueryOf(c, "root", "contents")
	root, once := q.Text("root"), onceOf(q)
	if q.Err != nil {
		return q.Err
	}
	return s.sendStep(c, root, id, once)
}
