package web

import (
	"errors"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

// forkView is the form with which a new run continues from a row.
type forkView struct {
	at     string
	agent  *define.Definition // of the step of the row; nil: it has none
	models []string           // that there are
}

// forking reads the form of the open row; nil: nothing can continue from it, or not by the reader.
func (s *Server) forking(c echo.Context, v *runView) (*forkView, error) {
	r := &v.Rows[v.open]
	if r.Step == nil && r.Cycle == nil && r.Call == nil || !httpd.May(c, httpd.ScopeRun) {
		return nil, nil
	}
	if v.stands == nil {
		if err := s.controls(c, v); err != nil || v.stands == nil {
			return nil, err
		}
	}

	f := &forkView{at: r.At}
	var err error
	if f.agent, err = s.agentOf(c, v, r); err != nil {
		return nil, err
	}
	if s.runtime.Runnable == nil || f.agent == nil {
		return f, nil
	}

	models, err := s.runtime.Runnable.Models(c.Request().Context())
	for _, m := range models {
		f.models = append(f.models, m.Name)
	}
	return f, err
}

// agentOf reads the definition of the agent in whose step a row is; nil: it has none.
func (s *Server) agentOf(c echo.Context, v *runView, r *outline.Row) (*define.Definition, error) {
	agent, plan := "", r
	for plan.Plan == nil {
		if plan.Step != nil {
			agent = optional.Value(plan.Step.Record.AgentName)
		}
		plan = &v.Rows[plan.Parent]
	}

	p := &plan.Plan.Record
	pinned, err := runstore.NewReader(s.lookup.Reader(c)).RunDefinition(c.Request().Context(), p.RootPlanID,
		p.CurrentPlanID)
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return engine.AgentIn(pinned.Body, pinned.Changes, agent)
}

// fork starts a run that continues from a row, and returns the address where both are compared.
func (s *Server) fork(c echo.Context, v *runView, sent url.Values) (to string, err error) {
	at, ok := v.Find(sent.Get("at"))
	if !ok {
		return "", httpd.Refused(422, "The row is not on record any more.")
	}
	agent, err := s.agentOf(c, v, &v.Rows[at])
	if err != nil {
		return "", err
	}

	var changes engine.Changes
	if prompt := strings.ReplaceAll(sent.Get("systemPrompt"), "\r\n", "\n"); agent != nil && prompt != agent.SystemPrompt {
		changes.SystemPrompt = &prompt
	}
	if name := strings.TrimSpace(sent.Get("model")); agent != nil && name != "" && name != agent.Model.Name {
		changes.Model = &name
	}

	original := v.Plan.Record.RootPlanID
	started, err := s.runtime.Starter.ForkRun(c.Request().Context(), engine.ForkRequest{
		PlanID: original, At: v.Rows[at].At, Changes: changes, Starter: httpd.KeyOf(c),
		By: runstore.Who{Name: httpd.KeyOf(c)}, IdempotencyKey: sent.Get("key"), Body: []byte(sent.Encode()),
	})
	return comparePath(original, started), err
}
