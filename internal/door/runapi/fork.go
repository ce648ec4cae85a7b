package runapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// fork starts a run that goes on from a row of another one.
func (s *Server) fork(c echo.Context) error {
	asked, o, err := s.askedAgain(c, "at", "changes", "by")
	if err != nil {
		return err
	}

	r := engine.ForkRequest{
		PlanID: asked.planID, At: o.text("at", maxAddress), Changes: o.changes("changes", changes...), By: asked.by,
		Starter: httpd.KeyOf(c), IdempotencyKey: asked.key, Body: asked.body,
	}
	switch {
	case o.err != nil:
		return refused(o.err)
	case r.At == "":
		return refused(missing("at"))
	}

	started, err := s.starter.Fork(c.Request().Context(), r)
	if err != nil {
		return notForked(err)
	}
	return s.sendStarted(c, started)
}

// ForkRun starts a run that goes on from a row of another one, as POST /api/v1/runs/{planId}/fork does. The error is
// as there.
func (s *Server) ForkRun(ctx context.Context, r engine.ForkRequest) (planID string, err error) {
	started, err := s.starter.Fork(ctx, r)
	if err != nil {
		return "", notForked(err)
	}
	return started.PlanID, nil
}

// maxAddress bounds the address of a row, in bytes: its ids are those of the runtime.
const maxAddress = 1000

// changes are what a fork can have otherwise.
var changes = []string{"systemPrompt", "model", "temperature", "maxTokens", "tools", "limits", "request", "rows"}

// changes reads what is changed, of what can be. The object has the first mistake.
func (o *object) changes(name string, known ...string) (c engine.Changes) {
	raw := o.object(name)
	if raw == nil {
		return c
	}

	in := objectOf(raw, name+".", known...)
	for member, to := range map[string]**string{
		"systemPrompt": &c.SystemPrompt, "model": &c.Model, "request": &c.Request,
	} {
		if in.has(member) {
			*to = new("")
			in.value(member, *to, "a text")
		}
	}

	if in.has("temperature") {
		c.Temperature = new(in.number("temperature"))
	}
	if in.has("maxTokens") {
		c.MaxTokens = new(in.count("maxTokens"))
	}
	if in.has("tools") {
		c.Tools = new(in.texts("tools"))
	}

	c.Limits, c.Rows = in.newLimits(), in.rows("rows")
	if o.err == nil {
		o.err = in.err
	}
	return c
}

// rows reads changes of rows, by their addresses.
func (o *object) rows(name string) map[string]engine.RowChange {
	all := map[string]engine.RowChange{}
	for address, raw := range o.object(name) {
		var change struct {
			ThinkOutput, Result *string
		}
		members := objectOf(membersOrNone(raw), "", "thinkOutput", "result")
		if members.err != nil || json.Unmarshal(raw, &change) != nil {
			o.fail(name, "must have objects with thinkOutput or result, which are texts, by addresses of rows")
			return nil
		}
		all[address] = engine.RowChange(change)
	}
	return all
}

func membersOrNone(raw json.RawMessage) (m members) {
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// notForked turns an error of a fork into a problem.
func notForked(err error) error {
	var unended *runstore.NotEndedError
	switch {
	case errors.As(err, &unended):
		return httpd.Refused(http.StatusConflict, unended.Error())
	case errors.Is(err, runstore.ErrNoRun):
		return httpd.Refused(http.StatusConflict, runstore.ErrNoRun.Error())
	}
	return notAgain(err)
}
