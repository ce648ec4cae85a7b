package api

import (
	"github.com/labstack/echo/v4"
)

func (s *Server) step(c echo.Context) error {
	id, err := nativeID(c, "stepId")
	if err != nil {
		return err
	}
	q := queryOf(c, "root")
	root := q.text("root")
	if q.err != nil {
		return q.err
	}
	return s.sendStep(c, root, id)
}

func (s *Server) sendStep(c echo.Context, root, id string) error {
	st, err := s.store.StepDetail(c.Request().Context(), root, id)
	if err != nil {
		return err
	}
	o := &object{make([]byte, 0, stepSize(st))}
	addStep(o, st)
	return sendTagged(c, o.b)
}
