package runapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// The execution API is the contract of source 003: errors are in its own words. Only what every API refuses is
// a problem document.

// The types of workflows, as the input of a run names them.
const (
	simpleWorkflow = "simple_workflow"
	customWorkflow = "custom_workflow"
)

type facadeErrorJSON struct {
	Error facadeProblem `json:"error"`
}

type facadeProblem struct {
	Message   string            `json:"message"`
	ErrorType string            `json:"error_type"`
	Details   map[string]string `json:"details"`
}

func facadeError(c echo.Context, status int, kind, message, field string) error {
	details := map[string]string{}
	if field != "" {
		details["field"] = field
	}
	return c.JSON(status, facadeErrorJSON{facadeProblem{message, kind, details}})
}

// refuseFacade answers an error in the words of the execution API, or returns it.
func refuseFacade(c echo.Context, err error) error {
	if unknown, ok := errors.AsType[*engine.UnknownError](err); ok {
		kind := strings.ToUpper(unknown.Kind[:1]) + unknown.Kind[1:]
		return facadeError(c, http.StatusNotFound, "ConfigurationError",
			fmt.Sprintf("%s configuration '%s' not found.", kind, shown(unknown.Name)), "")
	}

	bad, invalid := errors.AsType[*record.InvalidError](err)
	problem, read := errors.AsType[*httpd.Problem](err)
	switch {
	case invalid:
		field := strings.TrimPrefix(bad.Field, "input.")
		if field == "input" { // of a workflow
			field = "initial_input"
		}
		return facadeError(c, http.StatusBadRequest, "ValidationError", strings.TrimSpace(field+" "+bad.Reason), field)
	case read && problem.Status == http.StatusBadRequest:
		return facadeError(c, problem.Status, "ValidationError", problem.Detail, problem.Field)
	case errors.Is(err, record.ErrNotFound):
		return facadeError(c, http.StatusNotFound, "NotFoundError", "There is no such agent, workflow, session or run.", "")
	}
	return err
}

// facadeStart starts the agent or the workflow that a path names. members are those of the body that may be
// there, beside session_id.
func (s *Server) facadeStart(c echo.Context, input map[string]any, known ...string) (engine.Started, error) {
	name, err := httpd.NativeID(c, "name")
	if err != nil {
		return engine.Started{}, err
	}
	raw, m, err := s.readBody(c)
	if err != nil {
		return engine.Started{}, err
	}

	o := objectOf(m, "", append(known, "session_id")...)
	r := engine.Request{
		Executor: "workflow", Starter: httpd.KeyOf(c), ConversationID: o.id("session_id"),
		Body: append([]byte(name+"\n"), raw...),
	}
	if o.err != nil {
		return engine.Started{}, o.err
	}

	for _, member := range known {
		if value, there := m[member]; there && string(value) != "null" {
			to := member
			if member == "initial_input" {
				to = "input"
			}
			input[to] = value
		}
	}
	for what := range input {
		if what == "agent" || what == "workflow" {
			input[what] = name
		}
	}

	if r.Input, err = json.Marshal(input); err != nil {
		return engine.Started{}, err
	}
	if r.IdempotencyKey, err = idempotencyKey(c); err != nil {
		return engine.Started{}, err
	}
	return s.starter.Start(c.Request().Context(), r)
}

var agentMembers = []string{"user_message", "messages", "system_prompt", "force_include_history"}

// runAgent runs an agent to its end.
func (s *Server) runAgent(c echo.Context) error {
	started, err := s.facadeStart(c, map[string]any{"agent": nil}, agentMembers...)
	return s.facadeResult(c, started, err, func(d *runstore.RunDetail) any {
		return workflow.AgentResult{
			AgentName: optional.Value(d.Name), Status: workflow.Error, ErrorMessage: new(why(d)),
			SessionID: d.Plan.ConversationID,
		}
	})
}

// runWorkflow runs a workflow of a type to its end.
func (s *Server) runWorkflow(kind string) echo.HandlerFunc {
	return func(c echo.Context) error {
		started, err := s.facadeStart(c, map[string]any{"workflow": nil, "type": kind}, "initial_input")
		return s.facadeResult(c, started, err, func(d *runstore.RunDetail) any {
			return workflow.Result{
				WorkflowName: optional.Value(d.Name), Status: workflow.Failed, StepResults: []workflow.StepResult{},
				Error: new(why(d)), SessionID: d.Plan.ConversationID,
			}
		})
	}
}

// why says why a run has no result of its own.
func why(d *runstore.RunDetail) string {
	if d.Plan.ErrorMessage != nil {
		return *d.Plan.ErrorMessage
	}
	return "The run is " + string(d.State) + "."
}

// facadeResult answers with the result of a run when it has ended. One that failed is 200: its status says so.
func (s *Server) facadeResult(
	c echo.Context, started engine.Started, err error, without func(*runstore.RunDetail) any,
) error {
	if err != nil {
		return refuseFacade(c, err)
	}

	c.Response().Header().Set("Actlog-Plan-Id", started.PlanID)
	d, err := s.await(c, started, forever, answered)
	switch {
	case err != nil:
		return err
	case runs.Parked(d):
		return parked(d)
	case !d.State.Terminal():
		return record.ErrClosed
	case d.Plan.Summary != nil && json.Valid([]byte(*d.Plan.Summary)):
		return c.JSONBlob(http.StatusOK, []byte(*d.Plan.Summary))
	}
	return c.JSON(http.StatusOK, without(d))
}

// streamAgent runs an agent and sends what happens. With Last-Event-ID it goes on with the run of that event.
func (s *Server) streamAgent(c echo.Context) error {
	format, err := formatOf(c)
	if err != nil {
		return refuseFacade(c, err)
	}

	var run engine.Started
	var after int
	if last := c.Request().Header.Get("Last-Event-ID"); last != "" {
		run, after, err = s.resumed(c, last)
	} else {
		run, err = s.facadeStart(c, map[string]any{"agent": nil}, agentMembers...)
	}
	if err != nil {
		return refuseFacade(c, err)
	}

	c.Response().Header().Set("Connection", "keep-alive")
	c.Response().Header().Set("Actlog-Plan-Id", run.PlanID)
	if err := beginEvents(c); err != nil {
		return err
	}

	talk := runs.Talk{
		Watch: s.watch, Deltas: s.store.Deltas(), Reader: func() runs.TalkReader {
			return runstore.NewReader(s.store.Within(func(int64) error { return nil }))
		},
		RootPlanID: run.RootPlanID, PlanID: run.PlanID, After: after, Silence: silence,
	}
	return talk.Follow(c.Request().Context(), func(e runs.Event) error {
		for _, each := range format(e) {
			if err := sendEvent(c, run.PlanID, each); err != nil {
				return err
			}
		}
		return nil
	})
}

// formatOf returns a function that turns an event into those that a client gets, in the format of the query.
func formatOf(c echo.Context) (format func(runs.Event) []runs.Event, err error) {
	q := httpd.QueryOf(c, "format")
	switch name := q.Text("format"); {
	case q.Err != nil:
		return nil, q.Err
	case name == "aurite":
		return new(aurite).of, nil
	case name != "":
		return nil, httpd.BadField("format", "must be aurite, or not be there")
	}
	return func(e runs.Event) []runs.Event { return []runs.Event{e} }, nil
}

// sendEvent sends an event, or a comment if it has no type.
func sendEvent(c echo.Context, planID string, e runs.Event) error {
	head := ""
	if e.Number > 0 {
		head = fmt.Sprintf("id: %s/%d\n", planID, e.Number)
	}
	if e.Type == "" {
		return flushText(c, head+stillOpen)
	}
	return sendData(c, head, e)
}

// resumed returns the run that a client has seen up to an event.
func (s *Server) resumed(c echo.Context, last string) (run engine.Started, after int, err error) {
	planID, number, _ := strings.Cut(last, "/")
	name, err := httpd.NativeID(c, "name")
	if err != nil {
		return run, 0, err
	}
	if after, err = strconv.Atoi(number); err != nil || after < 0 || !httpd.Storable(planID) {
		return run, 0, invalid("Last-Event-ID", "must be the id of an event of this stream")
	}

	d, err := s.reader(c).RunDetail(c.Request().Context(), planID)
	if err != nil {
		return run, 0, err
	}

	if d.Starter != httpd.KeyOf(c) && !httpd.May(c, httpd.ScopeRead) {
		return run, 0, fmt.Errorf("run %s: %w", planID, record.ErrNotFound) // as one that does not exist
	}
	if d.Executor != "workflow" || optional.Value(d.Name) != name {
		return run, 0, invalid("Last-Event-ID", "is of another run than of this agent")
	}
	return engine.Started{RootPlanID: d.Plan.RootPlanID, PlanID: planID, Executor: d.Executor}, after, nil
}

type sessionJSON struct {
	SessionID     string    `json:"session_id"`
	AgentName     *string   `json:"agent_name"`
	WorkflowName  *string   `json:"workflow_name"`
	BaseSessionID *string   `json:"base_session_id"`
	UserID        *string   `json:"user_id"`
	CreatedAt     time.Time `json:"created_at"`
	LastUpdated   time.Time `json:"last_updated"`
	MessageCount  int64     `json:"message_count"`
	Starter       *string   `json:"starter"`
	Project       string    `json:"project"`
}

func toSession(s *runstore.Session) sessionJSON {
	return sessionJSON{
		s.ID, optional.Pointer(s.AgentName), optional.Pointer(s.WorkflowName), optional.Pointer(s.BaseID),
		optional.Pointer(s.UserID), s.CreatedAt.UTC(), s.UpdatedAt.UTC(), s.Messages, optional.Pointer(s.Starter), s.Project,
	}
}

// sessionNames are what a query may say about whose sessions are meant.
var sessionNames = []string{"starter", "project"}

// sessionsFor returns which sessions a client may see: its own, and with scope admin those of all. The query narrows
// them.
func sessionsFor(c echo.Context, q *httpd.Query) runstore.SessionFilter {
	f := runstore.SessionFilter{Starter: optional.Pointer(q.Text("starter")), Project: q.Text("project")}
	if httpd.May(c, httpd.ScopeAdmin) {
		return f
	}

	own := httpd.KeyOf(c)
	if f.Starter != nil && *f.Starter != own && q.Err == nil {
		q.Err = &httpd.Problem{
			Status: http.StatusForbidden, Detail: "the sessions of others need the scope " + string(httpd.ScopeAdmin),
			Field: "starter",
		}
	}
	f.Starter = &own
	return f
}

// session finds the session that a path names, among those that the client may see.
func (s *Server) session(c echo.Context, q *httpd.Query) (*runstore.Session, error) {
	filter := sessionsFor(c, q)
	if q.Err != nil {
		return nil, q.Err
	}
	id, err := httpd.NativeID(c, "sessionId")
	if err != nil {
		return nil, err
	}
	return s.store.Session(c.Request().Context(), id, filter, httpd.KeyOf(c))
}

type sessionsJSON struct {
	Sessions []sessionJSON `json:"sessions"`
	Total    int64         `json:"total"`
	Limit    int           `json:"limit"`
	Offset   int           `json:"offset"`
}

type historyJSON struct {
	SessionID string             `json:"session_id"`
	History   []workflow.Message `json:"history"`
	Metadata  sessionJSON        `json:"metadata"`
	Total     int64              `json:"total"`
	Limit     int                `json:"limit"`
	Offset    int                `json:"offset"`
}

const (
	sessionsPage = 50
	historyPage  = 1_000
)

func (s *Server) sessions(c echo.Context) error {
	q := httpd.QueryOf(c, append(sessionNames, "agent_name", "workflow_name", "limit", "offset")...)
	out := sessionsJSON{
		Limit: q.Number("limit", sessionsPage, 0, historyPage), Offset: q.Number("offset", 0, 0, math.MaxInt32),
	}

	filter := sessionsFor(c, q)
	filter.Agent, filter.Workflow = q.Text("agent_name"), q.Text("workflow_name")
	if q.Err != nil {
		return refuseFacade(c, q.Err)
	}
	page, total, err := s.store.Sessions(c.Request().Context(), filter, out.Limit, out.Offset)
	if err != nil {
		return err
	}

	out.Sessions, out.Total = make([]sessionJSON, len(page)), total
	for i := range page {
		out.Sessions[i] = toSession(&page[i])
	}
	return c.JSON(http.StatusOK, out)
}

func (s *Server) history(c echo.Context) error {
	q := httpd.QueryOf(c, append(sessionNames, "limit", "offset")...)
	out := historyJSON{
		Limit: q.Number("limit", historyPage, 0, historyPage), Offset: q.Number("offset", 0, 0, math.MaxInt32),
	}
	found, err := s.session(c, q)
	if err != nil {
		return refuseSession(c, err)
	}

	messages, err := s.store.Messages(c.Request().Context(), found.Key, out.Limit, out.Offset)
	if err != nil {
		return err
	}

	out.SessionID, out.Metadata = found.ID, toSession(found)
	out.Total, out.History = found.Messages, []workflow.Message{}
	for _, each := range messages {
		if err := httpd.AnswerTo(c).Take(int64(len(each.Text) + len(each.Message))); err != nil {
			return err
		}

		m := model.Message{Role: model.Role(each.Role), Parts: []model.Part{{Text: each.Text}}}
		if each.Message != nil {
			if err := json.Unmarshal(each.Message, &m); err != nil {
				return fmt.Errorf("read a message of session %s: %w", found.ID, err)
			}
		}
		out.History = append(out.History, workflow.MessagesOf([]model.Message{m})...)
	}
	return c.JSON(http.StatusOK, out)
}

func refuseSession(c echo.Context, err error) error {
	if errors.Is(err, record.ErrNotFound) {
		id, _ := httpd.NativeID(c, "sessionId") // it was read before
		return facadeError(c, http.StatusNotFound, "SessionNotFoundError", fmt.Sprintf("Session '%s' not found.", shown(id)),
			"")
	}
	return refuseFacade(c, err)
}

func (s *Server) deleteSession(c echo.Context) error {
	found, err := s.session(c, httpd.QueryOf(c, sessionNames...))
	if err == nil {
		err = s.store.DeleteSession(c.Request().Context(), found.Key)
	}
	if err != nil {
		return refuseSession(c, err)
	}
	return c.NoContent(http.StatusNoContent)
}

// cleanUp deletes old sessions: days and max_sessions stand in the query or in the body.
func (s *Server) cleanUp(c echo.Context) error {
	q := httpd.QueryOf(c, "days", "max_sessions")
	days, most := q.Number("days", 30, 0, 36_500), q.Number("max_sessions", 50, 0, math.MaxInt32)
	if q.Err != nil {
		return refuseFacade(c, q.Err)
	}

	_, m, err := s.readBody(c)
	if err != nil {
		return refuseFacade(c, err)
	}

	o := objectOf(m, "", "days", "max_sessions")
	if _, there := m["days"]; there {
		days = int(min(o.count("days"), 36_500))
	}
	if _, there := m["max_sessions"]; there {
		most = int(min(o.count("max_sessions"), math.MaxInt32))
	}
	if o.err != nil {
		return refuseFacade(c, o.err)
	}

	deleted, err := s.store.CleanUpSessions(c.Request().Context(), days, most)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, struct {
		Message string `json:"message"`
		Deleted int64  `json:"deleted"`
	}{
		fmt.Sprintf("Deleted %d sessions: those older than %d days, and all but the newest %d.", deleted, days, most),
		deleted,
	})
}

func (s *Server) facadeStatus(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "active"})
}
