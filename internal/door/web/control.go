package web

import (
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

// actions are what may be asked of a run that goes on, by the words of the page.
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

// controls reads how the run stands, and whether the reader may ask it for something, if it is one of the runtime.
func (s *Server) controls(c echo.Context, v *runView) error {
	p := &v.Plan.Record
	if p.Executor == nil { // each run of the runtime has one
		return nil
	}

	is, err := runstore.NewReader(s.lookup.Reader(c)).RunStands(c.Request().Context(), p.RootPlanID, p.CurrentPlanID)
	if errors.Is(err, record.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	v.stands, v.mayAsk = &is, httpd.May(c, httpd.ScopeRun)
	v.key = rand.Text()
	return nil
}

// parked reads what the run waits for, or one below it, that is no question to a person.
func (s *Server) parked(c echo.Context, v *runView) error {
	isPaused := func(r outline.Row) bool { return r.Shown() == record.Paused }
	if v.ended() || !v.pending() && !slices.ContainsFunc(v.Rows, isPaused) {
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

// pending reports whether nobody has begun the run.
func (v *runView) pending() bool { return v.Rows[0].Shown() == record.Pending }

// control asks a run for something: one that goes on, and all below it, to stop, to pause or to go on; one that has
// ended to go on, or to be run again; or for a new one that continues from a row.
func (s *Server) control(c echo.Context) error {
	sent, err := s.form(c)
	if err != nil {
		return err
	}
	v, err := s.view(c, fresh, pageNames...)
	if err != nil {
		return err
	}

	planID, to := v.Plan.Record.CurrentPlanID, v.here("")
	action, goesOn := actions[sent.Get("action")]
	err = s.controls(c, v)
	switch what := sent.Get("action"); {
	case err != nil:
	case v.stands == nil:
		err = httpd.Refused(http.StatusConflict, "Whoever runs this agent has to do that: it is not run by Actlog.")
	case goesOn:
		err = s.store.Control(c.Request().Context(), planID, action, httpd.KeyOf(c))
	case what == "retry":
		err = s.retry(c, v, sent.Get("limit"))
	case what == "again":
		to, err = s.runAgain(c, planID, sent.Get("key"))
	case what == "say":
		_, err = s.runtime.Starter.Say(c.Request().Context(), engine.SayRequest{
			PlanID: planID, Text: sent.Get("text"), By: runstore.Who{Name: httpd.KeyOf(c)}, IdempotencyKey: sent.Get("key"),
			Body: []byte(sent.Get("text")),
		})
	case what == "fork":
		to, err = s.fork(c, v, sent)
	default:
		return httpd.BadField("action", "must be stop, pause, resume, say, retry, again or fork")
	}

	p := new(httpd.Problem)
	switch {
	case errors.Is(err, runstore.ErrEnded):
		return s.sendRun(c, v, reply{status: http.StatusConflict, wrong: "The run had ended before."})
	case errors.As(err, &p):
		return s.sendRun(c, v, reply{status: p.Status, wrong: p.Detail})
	case err != nil:
		return err
	}
	return c.Redirect(http.StatusSeeOther, to)
}

// retry lets the run go on that has ended, with another limit in place of the one that ended it.
func (s *Server) retry(c echo.Context, v *runView, limit string) error {
	r := engine.RetryRequest{
		PlanID: v.Plan.Record.CurrentPlanID, By: runstore.Who{Name: httpd.KeyOf(c)},
	}
	if raised := v.limit(); raised != nil && limit != "" {
		n, err := strconv.ParseFloat(limit, 64)
		if err != nil || n < 0 || n > record.MaxCount {
			return httpd.Refused(http.StatusUnprocessableEntity, raised.label+" must be a number.")
		}
		raised.set(&r.Limits, n)
	}
	return s.runtime.Starter.RetryRun(c.Request().Context(), r)
}

// runAgain starts a run with the input of another one, and returns the address of its page. What is asked twice with
// a key starts one.
func (s *Server) runAgain(c echo.Context, planID, key string) (to string, err error) {
	started, err := s.runtime.Starter.RunAgain(c.Request().Context(), engine.AgainRequest{
		PlanID: planID, Starter: httpd.KeyOf(c), By: runstore.Who{Name: httpd.KeyOf(c)}, IdempotencyKey: key,
	})
	return runPath(started), err
}

// raisable is a limit that may have ended a run.
type raisable struct {
	label string
	set   func(l *engine.NewLimits, n float64)
}

var limits = map[string]*raisable{
	engine.LimitRounds:    {"Limit of rounds", func(l *engine.NewLimits, n float64) { l.Rounds = new(int64(n)) }},
	engine.LimitToolCalls: {"Limit of tool calls", func(l *engine.NewLimits, n float64) { l.ToolCalls = new(int64(n)) }},
	engine.LimitTokens:    {"Limit of tokens", func(l *engine.NewLimits, n float64) { l.Tokens = new(int64(n)) }},
	engine.LimitCost:      {"Limit of US dollars", func(l *engine.NewLimits, n float64) { l.CostUSD = &n }},
	engine.LimitTime:      {"Limit of seconds", func(l *engine.NewLimits, n float64) { l.Seconds = &n }},
}

// limit returns the limit that ended the run; nil: none did.
func (v *runView) limit() *raisable { return limits[optional.Value(v.Plan.Record.ErrorKind)] }

// here returns the address of the page as it is, or of a piece of it.
func (v *runView) here(piece string) string {
	var chosen *outline.Row
	if v.chosen {
		chosen = &v.Rows[v.open]
	}
	return v.address(piece, chosen, v.fold)
}
