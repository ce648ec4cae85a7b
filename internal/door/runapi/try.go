package runapi

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/modelcall"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/record"
)

// try makes a model call of a plan again, and answers with what came of it when the run that does so has ended.
func (s *Server) try(c echo.Context) error {
	asked, o, err := s.askedAgain(c, "at", "model", "changes", "by")
	if err != nil {
		return err
	}

	r := engine.TryRequest{
		PlanID: asked.planID, At: o.text("at", maxAddress), Model: o.id("model"), By: asked.by, Starter: httpd.KeyOf(c),
		Changes:        o.changes("changes", "systemPrompt", "temperature", "maxTokens", "tools"),
		IdempotencyKey: asked.key, Body: asked.body,
	}
	switch {
	case o.err != nil:
		return refused(o.err)
	case r.At == "":
		return refused(missing("at"))
	}

	started, err := s.starter.Try(c.Request().Context(), r)
	if err != nil {
		return notTried(err)
	}
	return s.sendTried(c, started)
}

// sendTried answers when a model call that is made again has ended.
func (s *Server) sendTried(c echo.Context, started engine.Started) error {
	d, err := s.awaitEnd(c, started)
	switch {
	case err != nil:
		return err
	case d.State != record.Completed:
		return &httpd.Problem{
			Status: http.StatusInternalServerError, Detail: "The run failed: " + why(d), PlanID: started.PlanID,
			ErrorKind: optional.Value(d.Plan.ErrorKind),
		}
	}

	tried, err := runs.ReadTried(c.Request().Context(), s.reader(c), d)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, tried)
}

// notTried turns an error of a model call that is not made again into a problem.
func notTried(err error) error {
	for _, conflict := range []error{modelcall.ErrNoInput, modelcall.ErrTooLong} {
		if errors.Is(err, conflict) {
			return httpd.Refused(http.StatusConflict, conflict.Error())
		}
	}
	if failed, ok := errors.AsType[*engine.RunError](err); ok {
		return &httpd.Problem{Status: http.StatusInternalServerError, Detail: failed.Message, ErrorKind: failed.Kind}
	}
	return notAgain(err)
}
