package runapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// retry lets a run go on that has ended.
func (s *Server) retry(c echo.Context) error {
	asked, o, err := s.askedAgain(c, "limits", "by")
	if err != nil {
		return err
	}

	limits := o.newLimits("limits")
	if o.err != nil {
		return refused(o.err)
	}

	ctx := c.Request().Context()
	err = s.RetryRun(ctx, engine.RetryRequest{
		PlanID: asked.planID, Limits: limits, By: asked.by, IdempotencyKey: asked.key, Body: asked.body,
	})
	if err != nil {
		return err
	}

	d, err := s.reader(c).RunDetail(ctx, asked.planID)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, map[string]any{"planId": asked.planID, "state": d.State})
}

// RetryRun lets a run go on that has ended, as POST /api/v1/runs/{planId}/retry does. The error is as there.
func (s *Server) RetryRun(ctx context.Context, r engine.RetryRequest) error {
	if err := s.starter.Retry(ctx, r); err != nil {
		return notAgain(err)
	}
	return nil
}

// RunAgain starts a run with the input of another one, as POST /api/v1/runs/{planId}/again does. The error is as there.
func (s *Server) RunAgain(ctx context.Context, r engine.AgainRequest) (planID string, err error) {
	started, err := s.starter.Again(ctx, r)
	if err != nil {
		return "", notAgain(err)
	}
	return started.PlanID, nil
}

// again starts a run with the input of another one.
func (s *Server) again(c echo.Context) error {
	asked, o, err := s.askedAgain(c, "input", "limits", "by")
	if err != nil {
		return err
	}

	r := engine.AgainRequest{
		PlanID: asked.planID, Limits: o.newLimits("limits"), By: asked.by, Starter: httpd.KeyOf(c),
		IdempotencyKey: asked.key, Body: asked.body,
	}
	if o.object("input") != nil {
		r.Input = o.members["input"]
	}
	if o.err != nil {
		return refused(o.err)
	}

	started, err := s.starter.Again(c.Request().Context(), r)
	if err != nil {
		return notAgain(err)
	}
	return s.sendStarted(c, started)
}

// askedAgain is a request about a run that was started before.
type askedAgain struct {
	planID, key string
	body        []byte
	by          runstore.Who
}

// askedAgain reads a request about a run whose body may have some members.
func (s *Server) askedAgain(c echo.Context, members ...string) (a askedAgain, o *object, err error) {
	q := httpd.QueryOf(c)
	a.planID = q.ID("planId")
	if q.Err != nil {
		return a, nil, q.Err
	}
	if a.key, err = idempotencyKey(c); err != nil {
		return a, nil, err
	}

	raw, m, err := s.readBody(c)
	if err != nil {
		return a, nil, err
	}
	a.body, o = raw, objectOf(m, "", members...)
	a.by = runstore.Who{Name: httpd.KeyOf(c), Claim: o.id("by")}
	if o.err != nil {
		return a, nil, refused(o.err)
	}
	return a, o, nil
}

// newLimits reads limits that replace others. The object has their first mistake.
func (o *object) newLimits(name string) (n engine.NewLimits) {
	limits := o.object(name)
	if limits == nil {
		return n
	}

	l := limitsOf(limits, o.prefix+name)
	for name, to := range map[string]**int64{"rounds": &n.Rounds, "toolCalls": &n.ToolCalls, "tokens": &n.Tokens} {
		if l.has(name) {
			*to = new(l.count(name))
		}
	}
	for name, to := range map[string]**float64{"costUsd": &n.CostUSD, "seconds": &n.Seconds} {
		if l.has(name) {
			*to = new(l.number(name))
		}
	}

	if o.err == nil {
		o.err = l.err
	}
	return n
}

// has reports whether a member is there, and not null.
func (o *object) has(name string) bool {
	raw := o.members[name]
	return len(raw) > 0 && string(raw) != "null"
}

// notAgain turns an error of a request about a run that was started before into a problem.
func notAgain(err error) error {
	if below, ok := errors.AsType[*runstore.NotRootError](err); ok {
		return httpd.BadField("planId", below.Error())
	}
	for _, conflict := range []error{runstore.ErrGoesOn, runstore.ErrCompleted, runstore.ErrDropped} {
		if errors.Is(err, conflict) {
			return httpd.Refused(http.StatusConflict, conflict.Error())
		}
	}
	if errors.Is(err, runstore.ErrKeyUsed) {
		return refused(invalid(idempotencyHeader, runstore.ErrKeyUsed.Error()))
	}
	return notStarted(err)
}
