package runapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/runtime/schedule"
	"github.com/actlog/actlog/record"
)

// scheduleJSON is a schedule as it stands.
type scheduleJSON struct {
	Name           string               `json:"name"`
	Source         string               `json:"source"`
	Cron           string               `json:"cron"`
	Timezone       string               `json:"timezone"`
	Jitter         define.Span          `json:"jitter"`
	Overlap        define.OverlapPolicy `json:"overlap"`
	CatchUp        define.CatchUpPolicy `json:"catchUp"`
	Window         define.Span          `json:"window"`
	Paused         bool                 `json:"paused"`
	Executor       string               `json:"executor"`
	RunName        *string              `json:"runName"`
	Input          json.RawMessage      `json:"input"`
	ConversationID *string              `json:"conversationId"`
	Project        *string              `json:"project"`
	UserID         *string              `json:"userId"`
	Tags           []string             `json:"tags"`
	Limits         *define.Limits       `json:"limits"`
	placeJSON
	NextTicks []time.Time `json:"nextTicks"`
	LastTick  *time.Time  `json:"lastTick"`
	Error     *string     `json:"error"`
}

// shownTicks is how many of the next ticks of a schedule are shown.
const shownTicks = 10

func (s *Server) toSchedule(of *runstore.Schedule) (scheduleJSON, error) {
	d, err := engine.ScheduleOf(of)
	if err != nil {
		return scheduleJSON{}, err
	}
	next, err := engine.NextTicks(of, shownTicks)
	if err != nil {
		return scheduleJSON{}, fmt.Errorf("the next ticks of schedule %s: %w", of.Name, err)
	}

	input := d.Input
	if redact := s.config.Redact; redact != nil {
		if input = json.RawMessage(redact(string(input))); !json.Valid(input) {
			input = json.RawMessage(`{}`)
		}
	}

	place := placeJSON{runstore.DefaultPriority, optional.Pointer(d.ConcurrencyKey)}
	if d.Priority != nil {
		place.Priority = int64(*d.Priority)
	}
	return scheduleJSON{
		Name: of.Name, Source: of.Source, Cron: d.Cron, Timezone: d.Timezone, Jitter: d.Jitter, Overlap: d.Overlap,
		CatchUp: d.CatchUp, Window: d.Window, Paused: d.Paused, Executor: d.Executor, RunName: optional.Pointer(d.Start.Name),
		Input: input, ConversationID: optional.Pointer(d.ConversationID), Project: optional.Pointer(d.Project),
		UserID: optional.Pointer(d.UserID), Tags: orEmpty(d.Tags), Limits: d.Limits, placeJSON: place,
		NextTicks: next, LastTick: of.LastAt, Error: of.Error,
	}, nil
}

const schedulesList = "schedules"

// schedules lists the schedules, in the order of their names.
func (s *Server) schedules(c echo.Context) error {
	q := httpd.QueryOf(c, "limit", "cursor")
	limit, at := q.Limit(), q.Cursor(schedulesList)
	if q.Err != nil {
		return q.Err
	}

	found, err := s.reader(c).Schedules(c.Request().Context(), optional.Value(at).ID, limit+1)
	if err != nil {
		return err
	}
	out := struct {
		Items      []scheduleJSON `json:"items"`
		NextCursor *string        `json:"nextCursor"`
	}{Items: make([]scheduleJSON, min(len(found), limit))}

	for i := range out.Items {
		if out.Items[i], err = s.toSchedule(&found[i]); err != nil {
			return err
		}
	}
	if len(found) > limit {
		out.NextCursor = new(httpd.Cursor{ID: found[limit-1].Name}.Format(schedulesList))
	}
	return c.JSON(http.StatusOK, out)
}

func (s *Server) schedule(c echo.Context) error {
	q := httpd.QueryOf(c)
	name := q.ID("name")
	if q.Err != nil {
		return q.Err
	}
	return s.sendSchedule(c, http.StatusOK, name)
}

// sendSchedule answers with a schedule as it stands.
func (s *Server) sendSchedule(c echo.Context, status int, name string) error {
	found, err := s.reader(c).Schedule(c.Request().Context(), name)
	if err != nil {
		return err
	}
	out, err := s.toSchedule(found)
	if err != nil {
		return err
	}
	return c.JSON(status, out)
}

// putSchedule defines a schedule.
func (s *Server) putSchedule(c echo.Context) error {
	q := httpd.QueryOf(c)
	name := q.ID("name")
	if q.Err == nil && len(name) > record.MaxIDBytes {
		q.Err = httpd.BadField("name", fmt.Sprintf("must not be longer than %d bytes", record.MaxIDBytes))
	}
	if q.Err != nil {
		return q.Err
	}

	_, m, err := s.readBody(c)
	if err != nil {
		return err
	}
	d, err := scheduleFrom(m)
	if err != nil {
		return refused(err)
	}

	isNew, err := s.starter.PutSchedule(c.Request().Context(), name, d, httpd.KeyOf(c))
	if err != nil {
		return scheduleProblem(notStarted(err))
	}

	status := http.StatusOK
	if isNew {
		status = http.StatusCreated
	}
	return s.sendSchedule(c, status, name)
}

// scheduleMembers are those of a schedule, beside those of what it starts.
var scheduleMembers = []string{"cron", "timezone", "jitter", "overlap", "catchUp", "window", "paused"}

// scheduleFrom reads a schedule.
func scheduleFrom(m members) (define.Schedule, error) {
	o := objectOf(m, "", append(slices.Clone(scheduleMembers), "executor", "name", "input", "conversationId", "project",
		"userId", "tags", "limits", "priority", "concurrencyKey")...)
	d := define.NewSchedule()
	text := func(name string, to *string) {
		if o.given(name) {
			*to = o.id(name)
		}
	}

	text("cron", &d.Cron)
	text("timezone", &d.Timezone)
	text("overlap", (*string)(&d.Overlap))
	text("catchUp", (*string)(&d.CatchUp))

	if d.Jitter = o.span("jitter"); o.given("window") {
		d.Window = o.span("window")
	}
	o.value("paused", &d.Paused, "true or false")

	if o.err == nil && d.Cron == "" {
		return d, missing("cron")
	}
	if o.err != nil {
		return d, o.err
	}
	if _, err := schedule.NewTiming("", d); err != nil {
		return d, err
	}

	start := maps.Clone(m)
	maps.DeleteFunc(start, func(name string, _ json.RawMessage) bool { return slices.Contains(scheduleMembers, name) })
	r, err := requestOf(start)
	if err != nil {
		return d, err
	}
	d.Start = define.Start{
		Executor: r.Executor, Name: r.Name, Input: r.Input, ConversationID: r.ConversationID, Project: r.Project,
		UserID: r.UserID, Tags: r.Tags, Limits: (*define.Limits)(r.Limits), Priority: r.Priority,
		ConcurrencyKey: r.ConcurrencyKey,
	}
	return d, nil
}

// scheduleProblem turns an error about a schedule into a problem.
func scheduleProblem(err error) error {
	if errors.Is(err, runstore.ErrOfFile) {
		return httpd.Refused(http.StatusConflict, runstore.ErrOfFile.Error())
	}
	return err
}

func (s *Server) deleteSchedule(c echo.Context) error {
	q := httpd.QueryOf(c)
	name := q.ID("name")
	if q.Err != nil {
		return q.Err
	}
	if err := s.store.DeleteSchedule(c.Request().Context(), name); err != nil {
		return scheduleProblem(err)
	}
	return c.NoContent(http.StatusNoContent)
}

// pauseSchedule pauses a schedule, or lets it tick again.
func (s *Server) pauseSchedule(paused bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		name, by, err := s.asksOfSchedule(c)
		if err != nil {
			return err
		}
		if err := s.starter.PauseSchedule(c.Request().Context(), name, paused); err != nil {
			return err
		}
		s.server.Log().Info("a schedule was paused or resumed", "schedule", name, "paused", paused,
			"by", cmp.Or(by.Claim, by.Name))
		return s.sendSchedule(c, http.StatusOK, name)
	}
}

// runSchedule starts what a schedule starts, beside its ticks.
func (s *Server) runSchedule(c echo.Context) error {
	name, by, err := s.asksOfSchedule(c)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(c)
	if err != nil {
		return err
	}

	started, err := s.starter.RunSchedule(c.Request().Context(), name, by, key)
	if err != nil {
		return notStarted(err)
	}
	return s.sendStarted(c, started)
}

// asksOfSchedule reads which schedule is asked for something, and by whom.
func (s *Server) asksOfSchedule(c echo.Context) (name string, by runstore.Who, err error) {
	q := httpd.QueryOf(c)
	if name = q.ID("name"); q.Err != nil {
		return "", by, q.Err
	}
	_, m, err := s.readBody(c)
	if err != nil {
		return "", by, err
	}

	o := objectOf(m, "", "by")
	by = runstore.Who{Name: httpd.KeyOf(c), Claim: o.id("by")}
	if o.err != nil {
		return "", by, refused(o.err)
	}
	return name, by, nil
}

// RunSchedule starts what a schedule starts, as POST /api/v1/schedules/{name}/run does for a starter.
func (s *Server) RunSchedule(ctx context.Context, name, starter string) (planID string, err error) {
	started, err := s.starter.RunSchedule(ctx, name, runstore.Who{Name: starter}, "")
	if err != nil {
		return "", notStarted(err)
	}
	return started.PlanID, nil
}

// PauseSchedule pauses a schedule, or lets it tick again.
func (s *Server) PauseSchedule(ctx context.Context, name string, paused bool) error {
	return s.starter.PauseSchedule(ctx, name, paused)
}

type tickJSON struct {
	Tick    time.Time `json:"tick"`
	Outcome string    `json:"outcome"`
	PlanID  *string   `json:"planId"`
}

const ticksList = "ticks"

// ticks lists what came of the ticks of a schedule, the newest first.
func (s *Server) ticks(c echo.Context) error {
	q := httpd.QueryOf(c, "limit", "cursor")
	limit, at := q.Limit(), q.Cursor(ticksList)
	name := q.ID("name")
	if q.Err != nil {
		return q.Err
	}

	before := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	if at != nil {
		before = at.Time
	}
	found, err := s.reader(c).Ticks(c.Request().Context(), name, before, limit+1)
	if err != nil {
		return err
	}

	out := struct {
		Items      []tickJSON `json:"items"`
		NextCursor *string    `json:"nextCursor"`
	}{Items: make([]tickJSON, min(len(found), limit))}
	for i := range out.Items {
		out.Items[i] = tickJSON{found[i].At.UTC(), found[i].Outcome, found[i].PlanID}
	}
	if len(found) > limit {
		out.NextCursor = new(httpd.Cursor{Time: found[limit-1].At}.Format(ticksList))
	}
	return c.JSON(http.StatusOK, out)
}

// maxCronTimes bounds how many ticks of an expression are asked for at once.
const maxCronTimes = 1000

// cron answers with the next ticks that an expression means.
func (s *Server) cron(c echo.Context) error {
	q := httpd.QueryOf(c, "cron", "timezone", "from", "n")
	from, n := q.Time("from"), q.Number("n", shownTicks, 1, maxCronTimes)
	if q.Err != nil {
		return q.Err
	}

	ticks, err := schedule.NewTicks(q.Text("cron"), q.Text("timezone"))
	if bad := new(record.InvalidError); errors.As(err, &bad) {
		return httpd.BadField(bad.Field, bad.Reason)
	}
	if err != nil {
		return err
	}

	if from == nil {
		from = new(time.Now())
	}
	if from.Year() < record.MinYear || from.Year() > record.MaxYear {
		return httpd.BadField("from", fmt.Sprintf("must lie in the years %d to %d", record.MinYear, record.MaxYear))
	}
	return c.JSON(http.StatusOK, map[string]any{"times": ticks.After(*from, n)})
}
