package runapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// startedJSON says which run a request started.
type startedJSON struct {
	PlanID     string       `json:"planId"`
	RootPlanID string       `json:"rootPlanId"`
	Executor   string       `json:"executor"`
	State      record.State `json:"state"`
}

// runJSON is a run as it stands.
type runJSON struct {
	PlanID       string       `json:"planId"`
	RootPlanID   string       `json:"rootPlanId"`
	ParentPlanID *string      `json:"parentPlanId"`
	Executor     string       `json:"executor"`
	Name         *string      `json:"name"`
	Title        *string      `json:"title"`
	State        record.State `json:"state"`
	Result       any          `json:"result"` // as the executor gives it
	Error        *string      `json:"error"`
	ErrorKind    *string      `json:"errorKind"`
	Waits        []waitJSON   `json:"waits"`
	WaitingFor   []string     `json:"waitingFor"`
	DueAt        *time.Time   `json:"dueAt"`
	StartAt      *time.Time   `json:"startAt"`
	ExpiresAt    *time.Time   `json:"expiresAt"`
	Schedule     *ofTickJSON  `json:"schedule"`
	Takeovers    int64        `json:"takeovers"`
	// Attempt counts from 1: each retry is another. Attempts are all of them, if there are several.
	Attempt  int64         `json:"attempt"`
	Attempts []attemptJSON `json:"attempts"`
	AgainOf  *string       `json:"againOf"`
	// ForkedFrom is the row of another run from which it goes on; null: of none.
	ForkedFrom *forkedJSON `json:"forkedFrom"`
	placeJSON
	Figures   wire.Figures `json:"figures"`
	Total     wire.Figures `json:"total"`
	CreatedAt *time.Time   `json:"createdAt"`
	StartTime *time.Time   `json:"startTime"`
	EndTime   *time.Time   `json:"endTime"`
}

// placeJSON is what decides when a run begins.
type placeJSON struct {
	Priority       int64   `json:"priority"`
	ConcurrencyKey *string `json:"concurrencyKey"`
}

// ofTickJSON is what started a run: a schedule, at a tick of it; null: somebody ran it.
type ofTickJSON struct {
	Name string     `json:"name"`
	Tick *time.Time `json:"tick"`
}

func ofTick(schedule *string, tick *time.Time) *ofTickJSON {
	if schedule == nil {
		return nil
	}
	return &ofTickJSON{*schedule, tick}
}

// forkedJSON says from where a run goes on.
type forkedJSON struct {
	PlanID string `json:"planId"`
	At     string `json:"at"`
}

func forked(planID, at *string) *forkedJSON {
	if planID == nil || at == nil {
		return nil
	}
	return &forkedJSON{*planID, *at}
}

func toRun(d *runstore.RunDetail) runJSON {
	waits := make([]waitJSON, len(d.Waits))
	for i, w := range d.Waits {
		waits[i] = toWait(w)
	}

	p := &d.Plan
	attempt, attempts := attemptsOf(d)
	return runJSON{
		PlanID: p.CurrentPlanID, RootPlanID: p.RootPlanID, ParentPlanID: p.ParentPlanID, Executor: d.Executor, Name: d.Name,
		Title: p.Title,
		State: d.State, Result: answerOf(d), Error: p.ErrorMessage, ErrorKind: p.ErrorKind, Waits: waits,
		WaitingFor: orEmpty(d.WaitingFor), DueAt: d.DueAt, StartAt: d.StartAt, ExpiresAt: d.ExpiresAt,
		Schedule:  ofTick(d.Schedule, d.TickAt),
		Takeovers: d.Takeovers, Attempt: attempt, Attempts: attempts, AgainOf: d.AgainOf,
		ForkedFrom: forked(d.RunForkedFrom, d.RunForkedAt),
		placeJSON:  placeJSON{d.Priority, d.ConcurrencyKey},
		Figures:    wire.FiguresOf(&d.Figures), Total: wire.FiguresOf(&d.Total),
		CreatedAt: d.CreatedAt, StartTime: p.StartTime, EndTime: p.EndTime,
	}
}

// maxPreferred is how long a request may wait for its run, in seconds.
const maxPreferred = 60

// start starts a run. With Prefer: wait=N it answers with the whole run, if that ends, or parks, in time.
func (s *Server) start(c echo.Context) error {
	if q := httpd.QueryOf(c); q.Err != nil {
		return q.Err
	}

	raw, m, err := s.readBody(c)
	if err != nil {
		return err
	}
	started, err := s.startAs(c.Request().Context(), httpd.KeyOf(c), raw, m, c.Request().Header.Get(idempotencyHeader))
	if err != nil {
		return err
	}
	return s.sendStarted(c, started)
}

// sendStarted answers with a run that was started, as the request prefers.
func (s *Server) sendStarted(c echo.Context, started engine.Started) (err error) {
	out := startedJSON{
		PlanID: started.PlanID, RootPlanID: started.RootPlanID, Executor: started.Executor, State: record.Pending,
	}
	seconds := preferredWait(c.Request().Header)
	var d *runstore.RunDetail
	switch {
	case seconds > 0:
		d, err = s.await(c, started, time.Duration(seconds)*time.Second, stands)
	case started.Before:
		d, err = s.reader(c).RunDetail(c.Request().Context(), started.PlanID)
	default:
		return c.JSON(http.StatusAccepted, out)
	}
	if err != nil {
		return err
	}

	if seconds > 0 && stands(d) {
		return s.sendRun(c, d, taskQuery{})
	}
	out.State = d.State
	return c.JSON(http.StatusAccepted, out)
}

// startAs starts the run that a body asks for.
func (s *Server) startAs(
	ctx context.Context, starter string, raw []byte, m members, idempotencyKey string,
) (engine.Started, error) {
	r, err := requestOf(m)
	if err != nil {
		return engine.Started{}, refused(err)
	}

	r.Starter, r.Body = starter, raw
	r.IdempotencyKey = idempotencyKey
	if err := checkIdempotencyKey(idempotencyKey); err != nil {
		return engine.Started{}, err
	}

	started, err := s.starter.Start(ctx, r)
	if err != nil {
		return engine.Started{}, notStarted(err)
	}
	return started, nil
}

// StartRun starts a run as POST /api/v1/runs does for a starter, with a body, which is JSON, and an Idempotency-Key.
// The error is as there: a
// [*httpd.Problem] names the member that is at fault.
func (s *Server) StartRun(
	ctx context.Context, starter string, body []byte, idempotencyKey string,
) (planID string, err error) {
	m, err := membersOf(body)
	if err != nil {
		return "", err
	}
	started, err := s.startAs(ctx, starter, body, m, idempotencyKey)
	return started.PlanID, err
}

// idempotencyHeader names the header with which a client asks again for the run that it started.
const idempotencyHeader = "Idempotency-Key"

// idempotencyKey returns what a client sent in it.
func idempotencyKey(c echo.Context) (string, error) {
	key := c.Request().Header.Get(idempotencyHeader)
	return key, checkIdempotencyKey(key)
}

func checkIdempotencyKey(key string) error {
	if len(key) > record.MaxIDBytes || !httpd.Storable(key) {
		return httpd.BadField(idempotencyHeader, fmt.Sprintf("must be UTF-8 of at most %d bytes", record.MaxIDBytes))
	}
	return nil
}

// stopUnbegun stops a run that nobody would ask for again. It may have ended meanwhile.
func (s *Server) stopUnbegun(ctx context.Context, c echo.Context, d *runstore.RunDetail) error {
	err := s.store.Control(ctx, d.Plan.CurrentPlanID, runstore.Stop, httpd.KeyOf(c))
	if errors.Is(err, runstore.ErrEnded) {
		return nil
	}
	return err
}

// notStarted turns an error of a start into a problem.
func notStarted(err error) error {
	if unknown, ok := errors.AsType[*engine.UnknownError](err); ok {
		return &httpd.Problem{Status: http.StatusUnprocessableEntity, Detail: "name: " + unknown.Error(), Field: "name"}
	}
	return refused(err)
}

// stands reports whether nobody who waits for a run should wait any longer: it has ended, or is parked or idle.
func stands(d *runstore.RunDetail) bool { return runs.Idle(d) || runs.Parked(d) }

// answered reports whether a request for an answer is to be answered: the run has ended, or is parked.
func answered(d *runstore.RunDetail) bool { return d.State.Terminal() || runs.Parked(d) }

// parkedFor is when to ask again about a run that is parked, in seconds, if nobody knows when it goes on.
const parkedFor = 30

// parked says what a run waits for, such as a model that is away, and that it goes on without the request.
func parked(d *runstore.RunDetail) *httpd.Problem {
	in := parkedFor
	if due := optional.Value(d.DueAt); due.After(time.Now()) {
		in = int(math.Ceil(time.Until(due).Seconds()))
	}
	p := httpd.Later(in, "The run waits: "+strings.Join(d.WaitingFor, "; ")+". It goes on by itself when that is over: "+
		"GET /api/v1/runs/"+d.Plan.CurrentPlanID+" says how it stands.")
	p.PlanID = d.Plan.CurrentPlanID
	return p
}

// await reads a run, and again when its tree changes, until it is as wanted or the time is over.
func (s *Server) await(
	c echo.Context, run engine.Started, most time.Duration, wanted func(*runstore.RunDetail) bool,
) (d *runstore.RunDetail, err error) {
	ctx, cancel := context.WithTimeout(c.Request().Context(), most)
	defer cancel()
	err = s.watch.Wait(ctx, run.RootPlanID, func() (bool, error) {
		httpd.AnswerTo(c).Release() // what was read before
		d, err = s.reader(c).RunDetail(c.Request().Context(), run.PlanID)
		return err == nil && wanted(d), err
	})
	return d, err
}

// preferredWait returns how many seconds a client would wait; 0: it would not. What cannot be read is no
// preference.
func preferredWait(h http.Header) int {
	for _, line := range h["Prefer"] {
		for preference := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value, _, _ = strings.Cut(value, ";")
			if n, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`)); err == nil && n > 0 {
				return min(n, maxPreferred)
			}
		}
	}
	return 0
}

func requestOf(m members) (engine.Request, error) {
	o := objectOf(m, "", "executor", "name", "input", "conversationId", "project", "userId", "tags", "limits",
		"priority", "concurrencyKey", "startAt", "expiresAt")
	r := engine.Request{
		Executor: o.id("executor"), Name: o.id("name"), ConversationID: o.id("conversationId"), Project: o.id("project"),
		UserID: o.id("userId"),
		Tags:   o.texts("tags"),

		ConcurrencyKey: o.id("concurrencyKey"), StartAt: o.time("startAt"), ExpiresAt: o.time("expiresAt"),
	}
	if priority := 0; o.value("priority", &priority, "a whole number") {
		r.Priority = &priority
	}

	o.object("input")
	limits := o.object("limits")
	switch {
	case o.err != nil:
		return r, o.err
	case r.Executor == "":
		return r, missing("executor")
	case len(m["input"]) == 0 || string(m["input"]) == "null":
		return r, missing("input")
	}

	r.Input = m["input"]
	if limits == nil {
		return r, nil
	}

	l := limitsOf(limits, "limits")
	r.Limits = &engine.Limits{
		Rounds: l.count("rounds"), ToolCalls: l.count("toolCalls"), Tokens: l.count("tokens"), CostUSD: l.number("costUsd"),
		Seconds: l.number("seconds"),
	}
	return r, l.err
}

// limitsOf reads the limits of a member.
func limitsOf(m members, name string) *object {
	return objectOf(m, name+".", "rounds", "toolCalls", "tokens", "costUsd", "seconds")
}

func (s *Server) run(c echo.Context) error {
	id, err := httpd.NativeID(c, "planId")
	if err != nil {
		return err
	}
	q, err := taskQueryOf(c)
	if err != nil {
		return err
	}

	d, err := s.reader(c).RunDetail(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return s.sendRun(c, d, q)
}

// sendRun answers with a run as it stands, with the result as its executor gives it.
func (s *Server) sendRun(c echo.Context, d *runstore.RunDetail, q taskQuery) error {
	if q.given != "" && d.Executor != runs.TaskExecutor {
		return httpd.BadField(q.given, "is for runs of executor plan; this one is of "+d.Executor)
	}

	out := toRun(d)
	if read := results[d.Executor]; read != nil {
		var err error
		if out.Result, err = read(s, c, d, q); err != nil {
			return err
		}
	}
	return c.JSON(http.StatusOK, out)
}

// runItemJSON is a root run in a list.
type runItemJSON struct {
	PlanID     string       `json:"planId"`
	RootPlanID string       `json:"rootPlanId"`
	Executor   string       `json:"executor"`
	Name       *string      `json:"name"`
	Title      *string      `json:"title"`
	State      record.State `json:"state"`
	Error      *string      `json:"error"`
	ErrorKind  *string      `json:"errorKind"`
	Takeovers  int64        `json:"takeovers"`
	placeJSON
	CreatedAt *time.Time  `json:"createdAt"`
	StartAt   *time.Time  `json:"startAt"`
	ExpiresAt *time.Time  `json:"expiresAt"`
	Schedule  *ofTickJSON `json:"schedule"`
	StartTime *time.Time  `json:"startTime"`
	EndTime   *time.Time  `json:"endTime"`
}

func toRunItem(r *runstore.RunSummary) runItemJSON {
	p := &r.Plan
	return runItemJSON{
		PlanID: p.CurrentPlanID, RootPlanID: p.RootPlanID, Executor: r.Executor, Name: r.Name, Title: p.Title,
		State: r.State,
		Error: p.ErrorMessage, ErrorKind: p.ErrorKind, Takeovers: r.Takeovers, CreatedAt: r.CreatedAt,
		placeJSON: placeJSON{r.Priority, r.ConcurrencyKey}, StartAt: r.StartAt, ExpiresAt: r.ExpiresAt,
		Schedule: ofTick(r.Schedule, r.TickAt), StartTime: p.StartTime, EndTime: p.EndTime,
	}
}

type runListJSON struct {
	Items      []runItemJSON `json:"items"`
	NextCursor *string       `json:"nextCursor"`
}

const runsList = "runs"

// list serves root runs, newest first.
func (s *Server) list(c echo.Context) error {
	q := httpd.QueryOf(c, "state", "executor", "name", "project", "errorKind", "concurrencyKey", "schedule", "limit", "cursor")
	filter := runstore.RunFilter{
		State: record.State(q.Text("state")), Executor: q.Text("executor"), Name: q.Text("name"), Limit: q.Limit(),
		Project: q.Text("project"), ErrorKind: q.Text("errorKind"),
		ConcurrencyKey: q.Text("concurrencyKey"), Schedule: q.Text("schedule"),
	}

	before := q.Cursor(runsList)
	if states := record.States(record.KindPlan); q.Err == nil && filter.State != "" &&
		!slices.Contains(states, filter.State) {
		q.Err = httpd.BadField("state", fmt.Sprintf("must be a state of plans: %s", strings.Trim(fmt.Sprint(states), "[]")))
	}
	if q.Err != nil {
		return q.Err
	}
	if before != nil {
		filter.Before = &runstore.RunCursor{CreatedAt: before.Time, PlanID: before.ID}
	}

	found, err := s.searchRuns(c, filter)
	if errors.Is(err, store.ErrSlow) {
		return httpd.Later(10, err.Error())
	}
	if err != nil {
		return err
	}

	out := runListJSON{Items: make([]runItemJSON, min(len(found), filter.Limit))}
	for i := range out.Items {
		out.Items[i] = toRunItem(&found[i])
	}

	if len(found) > filter.Limit {
		last := &found[filter.Limit-1]
		out.NextCursor = new(httpd.Cursor{Time: *last.CreatedAt, ID: last.Plan.CurrentPlanID}.Format(runsList))
	}
	return c.JSON(http.StatusOK, out)
}

// searchRuns reads a page of a list, and one run more if there is one. With a filter it may have to look
// through all runs, so such lists have their turns. To wait for one is part of the time of a list.
func (s *Server) searchRuns(c echo.Context, filter runstore.RunFilter) ([]runstore.RunSummary, error) {
	ctx, end := c.Request().Context(), time.Now().Add(s.config.ListTimeout)
	if filter.Narrows() {
		done, err := s.long.Take(ctx, httpd.ClientOf(c))
		if err != nil {
			return nil, err
		}
		defer done()
	}

	filter.Limit++ // one more shows whether there is a next page
	filter.Timeout = time.Until(end)
	return s.reader(c).Runs(ctx, filter)
}

// control asks a run to stop, to pause or to go on.
func (s *Server) control(action runstore.Action) echo.HandlerFunc {
	return func(c echo.Context) error {
		q := httpd.QueryOf(c)
		id := q.ID("planId")
		if q.Err != nil {
			return q.Err
		}
		_, m, err := s.readBody(c)
		if err != nil {
			return err
		}

		o := objectOf(m, "", "by")
		by := runstore.Who{Name: httpd.KeyOf(c), Claim: o.id("by")}
		if o.err != nil {
			return refused(o.err)
		}

		ctx := c.Request().Context()
		if err := s.store.ControlBy(ctx, id, action, by); errors.Is(err, runstore.ErrEnded) {
			return httpd.Refused(http.StatusConflict, runstore.ErrEnded.Error())
		} else if err != nil {
			return err
		}

		d, err := s.reader(c).RunDetail(ctx, id)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusAccepted, map[string]any{"planId": id, "state": d.State})
	}
}
