package runapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// The executor API is the contract of source 001, exactly: errors are in its own words, and members that it
// does not know are ignored. Only what every API refuses is a problem document.

// submitInput answers the form that a run waits for. The values are keyed by name or by label.
func (s *Server) submitInput(c echo.Context) error {
	id, err := httpd.PathID(c, "planId")
	if err != nil {
		return err
	}
	_, values, err := s.readBody(c)
	if err != nil {
		return err
	}

	refuse := func(text string) error {
		return c.JSON(http.StatusBadRequest, map[string]string{"error": text, "planId": id})
	}
	const notWaiting = "No plan is currently waiting for user input."

	form, err := s.openForm(c, id)
	if err != nil {
		return err
	}
	if form == nil {
		had, err := s.reader(c).RunHadForm(c.Request().Context(), id)
		switch {
		case err != nil:
			return err
		case had:
			return refuse(notWaiting)
		}
		return refuse("FormInputTool not found for planId: " + id)
	}

	_, err = s.decideAt(c, form.Key(), func(w *record.Wait) (decision.Decision, error) {
		fields, err := decision.ReadForm(w.FormInputs)
		return decision.Decision{Decision: decision.Submit, Values: fields.ByLabel(values), By: httpd.KeyOf(c)}, err
	})
	bad := new(record.InvalidError)
	switch {
	case errors.Is(err, runstore.ErrDecided):
		return refuse(notWaiting)
	case errors.As(err, &bad):
		return refuse(bad.Field + " " + bad.Reason)
	case err != nil:
		return err
	}
	return c.JSON(http.StatusOK, map[string]string{"message": "Input submitted successfully", "planId": id})
}

// openForm returns the oldest form that a run, or a run below it, waits for; nil if there is none.
func (s *Server) openForm(c echo.Context, planID string) (*record.Wait, error) {
	d, err := s.reader(c).RunDetail(c.Request().Context(), planID)
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is no form
	}
	if err != nil {
		return nil, err
	}

	for _, w := range d.Waits {
		if slices.Contains(decision.Decisions(w), decision.Submit) {
			return w, nil
		}
	}
	return nil, nil //nolint:nilnil // there is no form
}

type stoppedJSON struct {
	Status            string `json:"status"`
	PlanID            string `json:"planId"`
	Message           string `json:"message"`
	TaskMarkedForStop bool   `json:"taskMarkedForStop"`
	WasRunning        bool   `json:"wasRunning"`
}

func (s *Server) stopTask(c echo.Context) error {
	id, err := httpd.PathID(c, "planId")
	if err != nil {
		return err
	}

	ctx := c.Request().Context()
	d, err := s.reader(c).RunDetail(ctx, id)
	if err == nil {
		err = s.store.Control(ctx, id, runstore.Stop, httpd.KeyOf(c))
	}
	switch {
	case errors.Is(err, record.ErrNotFound), errors.Is(err, runstore.ErrEnded):
		return c.JSON(http.StatusBadRequest, map[string]string{
			"error": "No active task found for the given plan ID", "planId": id,
		})
	case err != nil:
		return err
	}

	return c.JSON(http.StatusOK, stoppedJSON{
		Status: "stopped", PlanID: id, Message: "Task stop request processed successfully", TaskMarkedForStop: true,
		WasRunning: d.Desired == runstore.DesiredRun,
	})
}

type taskStatusJSON struct {
	PlanID       string     `json:"planId"`
	IsRunning    bool       `json:"isRunning"`
	Exists       bool       `json:"exists"`
	DesiredState *string    `json:"desiredState"`
	StartTime    *time.Time `json:"startTime"`
	EndTime      *time.Time `json:"endTime"`
	LastUpdated  *time.Time `json:"lastUpdated"`
	TaskResult   *string    `json:"taskResult"`
}

func (s *Server) taskStatus(c echo.Context) error {
	id, err := httpd.PathID(c, "planId")
	if err != nil {
		return err
	}
	d, err := s.reader(c).RunDetail(c.Request().Context(), id)
	if errors.Is(err, record.ErrNotFound) {
		return c.JSON(http.StatusOK, taskStatusJSON{PlanID: id})
	}
	if err != nil {
		return err
	}

	p := &d.Plan
	return c.JSON(http.StatusOK, taskStatusJSON{
		PlanID: id, Exists: true, IsRunning: !d.Done && d.Desired == runstore.DesiredRun, DesiredState: new(desiredState(d)),
		StartTime: cmp.Or(p.StartTime, d.CreatedAt), EndTime: p.EndTime, LastUpdated: d.UpdatedAt,
		TaskResult: cmp.Or(p.Summary, p.ErrorMessage),
	})
}

// desiredState is in the words of the original, for which a run that ended well is to stop, and one that
// failed is to be cancelled.
func desiredState(d *runstore.RunDetail) string {
	switch {
	case d.Done && d.State != record.Completed && d.Desired != runstore.DesiredCancel:
		return "CANCEL"
	case d.Done || d.Desired == runstore.DesiredCancel:
		return "STOP"
	case d.Desired == runstore.DesiredPause:
		return "PAUSE"
	}
	return "START"
}

// toolCall is what a client asks the executor API to run.
type toolCall struct {
	tool           string
	parameters     map[string]string
	conversationID string
	templateID     string // of a plan template; empty: it is an agent
}

// textError is an error in the words of the executor API.
type textError string

func (e textError) Error() string { return string(e) }

func (s *Server) readToolCall(c echo.Context) (t toolCall, err error) {
	_, m, err := s.readBody(c)
	if err != nil {
		return t, err
	}

	o := &object{members: m}
	t = toolCall{tool: strings.TrimSpace(o.text("toolName", maxBodyBytes)), conversationID: o.id("conversationId")}
	t.parameters = texts(o.object("replacementParams"))
	if o.err != nil {
		return t, executorError(o.err)
	}
	return t, nil
}

// texts returns values as texts: those that are none as JSON.
func texts(values members) map[string]string {
	out := map[string]string{}
	for name, raw := range values {
		var s string
		switch {
		case string(raw) == "null":
		case json.Unmarshal(raw, &s) == nil:
			out[name] = s
		default:
			out[name] = string(raw)
		}
	}
	return out
}

// executorError returns an error of a member in the words of the executor API, and others as they are.
func executorError(err error) error {
	if bad := new(record.InvalidError); errors.As(err, &bad) {
		return textError(strings.TrimSpace(bad.Field + " " + bad.Reason))
	}
	return err
}

// startTool starts the agent or the plan template that has the name of a tool. The error is a [textError]
// if the client is at fault.
func (s *Server) startTool(c echo.Context, t *toolCall) (engine.Started, error) {
	if t.tool == "" {
		return engine.Started{}, textError("Tool name cannot be empty")
	}

	notFound := textError("Tool not found with name: " + t.tool)
	r, templateID, err := s.catalog.Tool(t.tool, t.parameters)
	if errors.Is(err, record.ErrNotFound) {
		return engine.Started{}, notFound
	}
	if err != nil {
		return engine.Started{}, executorError(err)
	}

	r.Starter, r.ConversationID = httpd.KeyOf(c), t.conversationID
	t.templateID = templateID
	started, err := s.starter.Start(c.Request().Context(), r)
	if errors.Is(err, record.ErrNotFound) {
		return engine.Started{}, notFound
	}
	return started, executorError(err)
}

func refuseTool(c echo.Context, err error) error {
	var text textError
	if errors.As(err, &text) {
		return c.JSON(http.StatusBadRequest, map[string]string{"error": string(text)})
	}
	return err
}

type processingJSON struct {
	PlanID         string  `json:"planId"`
	Status         string  `json:"status"`
	Message        string  `json:"message"`
	ConversationID *string `json:"conversationId"`
	ToolName       string  `json:"toolName"`
	PlanTemplateID *string `json:"planTemplateId"`
}

func (s *Server) executeAsync(c echo.Context) error {
	var started engine.Started
	t, err := s.readToolCall(c)
	if err == nil {
		started, err = s.startTool(c, &t)
	}
	if err != nil {
		return refuseTool(c, err)
	}
	return c.JSON(http.StatusOK, processingJSON{
		PlanID: started.PlanID, Status: "processing", Message: "Task submitted, processing",
		ConversationID: optional.Pointer(t.conversationID),
		ToolName:       t.tool, PlanTemplateID: optional.Pointer(t.templateID),
	})
}

type executedJSON struct {
	Status         string  `json:"status"`
	Result         *string `json:"result"`
	ConversationID *string `json:"conversationId"`
}

func (s *Server) executeSync(c echo.Context) error {
	t, err := s.readToolCall(c)
	if err != nil {
		return refuseTool(c, err)
	}
	return s.execute(c, t)
}

// executeByGet takes the parameters as JSON in allParams, or as members of the query of their own.
func (s *Server) executeByGet(c echo.Context) error {
	if c.Request().Method != http.MethodGet {
		return echo.ErrMethodNotAllowed
	}

	name, err := httpd.PathID(c, "toolName")
	if err != nil {
		return refuseTool(c, textError("Tool not found with name: "+c.Param("toolName")))
	}

	query, _ := url.ParseQuery(c.Request().URL.RawQuery) // what cannot be read is no member
	m := members{}
	if all := query.Get("allParams"); all != "" && (json.Unmarshal([]byte(all), &m) != nil || !httpd.Storable(all)) {
		return refuseTool(c, textError("allParams must be a JSON object"))
	}

	t := toolCall{tool: strings.TrimSpace(name), parameters: texts(m), conversationID: query.Get("conversationId")}
	for name := range query {
		if name != "allParams" && name != "serviceGroup" && name != "conversationId" {
			t.parameters[name] = query.Get(name)
		}
	}

	if len(t.conversationID) > record.MaxIDBytes || !httpd.Storable(t.conversationID) {
		return refuseTool(c, textError("conversationId is no id"))
	}
	return s.execute(c, t)
}

// forever is longer than any client waits.
const forever = 365 * 24 * time.Hour

// execute runs a tool and answers when it has ended.
func (s *Server) execute(c echo.Context, t toolCall) error {
	started, err := s.startTool(c, &t)
	if err != nil {
		return refuseTool(c, err)
	}
	d, err := s.await(c, started, forever, answered)
	if err != nil {
		return err
	}

	switch {
	case runs.Parked(d):
		return parked(d)
	case d.State == record.Completed:
		return c.JSON(http.StatusOK, executedJSON{
			Status: "completed", Result: d.Plan.Summary, ConversationID: optional.Pointer(t.conversationID),
		})
	case d.State.Terminal():
		why := *cmp.Or(d.Plan.ErrorMessage, new(string(d.State)))
		return c.JSON(http.StatusInternalServerError, map[string]string{
			"error": "Execution failed: " + why, "status": "failed",
		})
	}
	return record.ErrClosed
}
