package web

import (
	"errors"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

// actions are what may be asked of a run, by the words of the page.
var actions = map[string]runstore.Action{"stop": runstore.Stop, "pause": runstore.Pause, "resume": runstore.Resume}

// top reads what stands above the tree beside what follows from its rows.
func (s *Server) top(c echo.Context, v *runView) error {
	if err := s.controls(c, v); err != nil {
		return err
	}
	if err := s.parked(c, v); err != nil {
		return err
	}
	return v.graph(c.Request().Context(), s.lookup.Reader(c))
}

// controls reads what the run should do, if the reader may ask for something else: a run of the runtime that has not
// ended.
func (s *Server) controls(c echo.Context, v *runView) (err error) {
	if v.ended() || !httpd.May(c, httpd.ScopeRun) {
		return nil
	}

	p := &v.Plan.Record
	v.desired, err = runstore.NewReader(s.lookup.Reader(c)).RunStands(c.Request().Context(), p.RootPlanID, p.CurrentPlanID)
	if errors.Is(err, record.ErrNotFound) || errors.Is(err, runstore.ErrEnded) {
		return nil
	}
	return err
}

// parked reads what the run waits for, or one below it, that is no question to a person.
func (s *Server) parked(c echo.Context, v *runView) error {
	isPaused := func(r outline.Row) bool { return r.Shown() == record.Paused }
	if v.ended() || !slices.ContainsFunc(v.Rows, isPaused) {
		return nil
	}

	d, err := runstore.NewReader(s.lookup.Reader(c)).RunDetail(c.Request().Context(), v.Plan.Record.CurrentPlanID)
	switch {
	case errors.Is(err, record.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	v.waitsFor, v.dueAt = d.WaitingFor, d.DueAt
	return nil
}

// control asks a run, and all below it, to stop, to pause or to go on.
func (s *Server) control(c echo.Context) error {
	sent, err := s.form(c)
	if err != nil {
		return err
	}
	v, err := s.view(c, fresh, pageNames...)
	if err != nil {
		return err
	}

	action, ok := actions[sent.Get("action")]
	if !ok {
		return httpd.BadField("action", "must be stop, pause or resume")
	}

	p := &v.Plan.Record
	_, err = runstore.NewReader(s.lookup.Reader(c)).RunStands(c.Request().Context(), p.RootPlanID, p.CurrentPlanID)
	if err == nil {
		err = s.store.Control(c.Request().Context(), p.CurrentPlanID, action, httpd.KeyOf(c))
	}
	switch {
	case errors.Is(err, record.ErrNotFound):
		return s.sendRun(c, v, reply{
			status: http.StatusConflict, wrong: "Whoever runs this agent has to do that: it is not run by Actlog.",
		})
	case errors.Is(err, runstore.ErrEnded):
		return s.sendRun(c, v, reply{status: http.StatusConflict, wrong: "The run had ended before."})
	case err != nil:
		return err
	}
	return c.Redirect(http.StatusSeeOther, v.here(""))
}

// here returns the address of the page as it is, or of a piece of it.
func (v *runView) here(piece string) string {
	var chosen *outline.Row
	if v.chosen {
		chosen = &v.Rows[v.open]
	}
	return v.address(piece, chosen, v.fold)
}
