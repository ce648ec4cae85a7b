package api

import (
	"github.com/labstack/echo/v4"
)

func (s *Server) step(c echo.Context) error {
	id, err := nativeID(c, "stepId")
	if err != nil {
		return err
	}
	return s.sendStep(c, id)
}

func (s *Server) sendStep(c echo.Context, id string) error {
	st, err := s.store.StepDetail(c.Request().Context(), id)
	if err != nil {
		return err
	}
	o := &object{make([]byte, 0, stepSize(st))}
	addStep(o, st)
	return sendTagged(c, o.b)
}
