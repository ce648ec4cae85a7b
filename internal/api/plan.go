package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

// planJSON is a plan with all beneath it. Every member is always there.
type planJSON struct {
	ID                      int64           `json:"id"`
	CurrentPlanID           string          `json:"currentPlanId"`
	RootPlanID              string          `json:"rootPlanId"`
	ParentPlanID            *string         `json:"parentPlanId"`
	ToolCallID              *string         `json:"toolCallId"`
	Title                   *string         `json:"title"`
	UserRequest             *string         `json:"userRequest"`
	StartTime               *time.Time      `json:"startTime"`
	EndTime                 *time.Time      `json:"endTime"`
	CurrentStepIndex        int             `json:"currentStepIndex"`
	Completed               bool            `json:"completed"`
	Summary                 *string         `json:"summary"`
	AgentExecutionSequence  []*stepJSON     `json:"agentExecutionSequence"`
	UserInputWaitState      *waitJSON       `json:"userInputWaitState"`
	ModelName               *string         `json:"modelName"`
	ParentActToolCall       *toolCallJSON   `json:"parentActToolCall"`
	StructureResult         *string         `json:"structureResult"`
	State                   record.State    `json:"state"`
	ErrorMessage            *string         `json:"errorMessage"`
	ErrorKind               *string         `json:"errorKind"`
	Project                 string          `json:"project"`
	Executor                *string         `json:"executor"`
	Name                    *string         `json:"name"`
	UserID                  *string         `json:"userId"`
	Tags                    []string        `json:"tags"`
	Environment             *string         `json:"environment"`
	Release                 *string         `json:"release"`
	ConversationID          *string         `json:"conversationId"`
	TraceID                 *string         `json:"traceId"`
	Metadata                json.RawMessage `json:"metadata"`
	Link                    *tree.Link      `json:"link"`
	Figures                 figuresJSON     `json:"figures"`
	Total                   figuresJSON     `json:"total"`
	SubPlanExecutionRecords []*planJSON     `json:"subPlanExecutionRecords"`
	Truncated               []string        `json:"truncated"`
}

type figuresJSON struct {
	ModelCalls               int64    `json:"modelCalls"`
	ToolCalls                int64    `json:"toolCalls"`
	Failures                 int64    `json:"failures"`
	InputTokens              int64    `json:"inputTokens"`
	OutputTokens             int64    `json:"outputTokens"`
	CacheReadInputTokens     int64    `json:"cacheReadInputTokens"`
	CacheCreationInputTokens int64    `json:"cacheCreationInputTokens"`
	ReasoningTokens          int64    `json:"reasoningTokens"`
	CostUSD                  *float64 `json:"costUsd"`
	ThinkMs                  int64    `json:"thinkMs"`
	ToolMs                   int64    `json:"toolMs"`
	DurationMs               *int64   `json:"durationMs"`
}

// waitJSON is the form that a run waits for.
type waitJSON struct {
	PlanID          string          `json:"planId"`
	Title           string          `json:"title"`
	Waiting         bool            `json:"waiting"`
	FormDescription *string         `json:"formDescription"`
	FormInputs      json.RawMessage `json:"formInputs"`
	WaitID          string          `json:"waitId"`
	Type            record.WaitType `json:"type"`
}

// defaultProject is where plans belong that name none.
const defaultProject = "default"

// defaultWaitTitle stands where a wait was given none.
const defaultWaitTitle = "Awaiting user input."

func toPlan(p *tree.Plan) *planJSON {
	r := &p.Record
	out := &planJSON{
		ID: p.ID, CurrentPlanID: r.CurrentPlanID, RootPlanID: r.RootPlanID, ParentPlanID: r.ParentPlanID, ToolCallID: r.ToolCallID,
		Title: r.Title, UserRequest: r.UserRequest, StartTime: r.StartTime, EndTime: r.EndTime,
		CurrentStepIndex: p.CurrentStepIndex(), Completed: r.State.Terminal(), Summary: r.Summary, ModelName: r.ModelName,
		StructureResult: compactJSON(p.StructureResult),
		State:           *r.State, ErrorMessage: r.ErrorMessage, ErrorKind: r.ErrorKind,
		Project: orDefault(r.Project, defaultProject), Executor: r.Executor, Name: r.Name, UserID: r.UserID, Tags: orEmpty(r.Tags),
		Environment: r.Environment, Release: r.Release, ConversationID: r.ConversationID, TraceID: r.TraceID, Metadata: orNull(r.Metadata),
		Figures: toFigures(&p.Figures), Total: toFigures(&p.Total), Truncated: orEmpty(p.Truncated),
		AgentExecutionSequence:  make([]*stepJSON, len(p.Steps)),
		SubPlanExecutionRecords: toPlans(p.SubPlans),
	}
	if p.Link != "" {
		out.Link = &p.Link
	}
	if p.ToolCall != nil {
		out.ParentActToolCall = toToolCall(p.ToolCall)
	}
	if w := p.Wait; w != nil {
		out.UserInputWaitState = &waitJSON{
			PlanID: r.RootPlanID, Title: orDefault(w.Title, defaultWaitTitle), Waiting: true, FormDescription: w.FormDescription,
			FormInputs: w.FormInputs, WaitID: w.WaitID, Type: orDefault(w.Type, record.WaitUserInput),
		}
		if !bytes.HasPrefix(w.FormInputs, []byte("[")) { // none, or what is left of one that was cut
			out.UserInputWaitState.FormInputs = json.RawMessage("[]")
		}
	}
	for i, st := range p.Steps {
		step := toStep(st)
		if recovered(st) {
			step.ErrorMessage = nil
		}
		out.AgentExecutionSequence[i] = step
	}
	return out
}

func toPlans(plans []*tree.Plan) []*planJSON {
	out := make([]*planJSON, len(plans))
	for i, p := range plans {
		out[i] = toPlan(p)
	}
	return out
}

// recovered tells of a step that met a passing error on the way to its result.
func recovered(st *tree.Step) bool {
	r := &st.Record
	return r.ErrorMessage != nil && strings.HasPrefix(*r.ErrorMessage, "System execution error at step") &&
		r.State.Status() == record.StatusFinished && r.Result != nil && *r.Result != ""
}

func toFigures(f *tree.Figures) figuresJSON {
	out := figuresJSON{
		ModelCalls: f.ModelCalls, ToolCalls: f.ToolCalls, Failures: f.Failures, InputTokens: f.InputTokens,
		OutputTokens: f.OutputTokens, CacheReadInputTokens: f.CacheReadInputTokens, CacheCreationInputTokens: f.CacheCreationInputTokens,
		ReasoningTokens: f.ReasoningTokens, ThinkMs: f.ThinkMs, ToolMs: f.ToolMs, DurationMs: f.DurationMs,
	}
	if f.CostUSD != nil { // sums of doubles: show dollars, not rounding
		out.CostUSD = new(math.Round(*f.CostUSD*1e12) / 1e12)
	}
	return out
}

// compactJSON compacts a text that is JSON, keeping its order; any other text
// stays as it is.
func compactJSON(s *string) *string {
	if s == nil {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(*s)); err != nil {
		return s
	}
	return new(b.String())
}

func orDefault[T any](p *T, d T) T {
	if p == nil {
		return d
	}
	return *p
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

func (s *Server) plan(c echo.Context) error {
	id, err := pathID(c, "planId")
	if err != nil {
		return err
	}
	if strings.TrimSpace(id) == "" {
		return &problem{Status: http.StatusBadRequest, Detail: "planId must not be blank", Field: "planId"}
	}
	p, _, err := s.store.PlanTree(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return sendTagged(c, toPlan(p))
}

// planItemJSON is a root plan in a list, with the figures of its whole tree.
type planItemJSON struct {
	ID             int64        `json:"id"`
	RootPlanID     string       `json:"rootPlanId"`
	Name           *string      `json:"name"`
	Title          *string      `json:"title"`
	Project        string       `json:"project"`
	UserID         *string      `json:"userId"`
	Tags           []string     `json:"tags"`
	ConversationID *string      `json:"conversationId"`
	TraceID        *string      `json:"traceId"`
	State          record.State `json:"state"`
	Completed      bool         `json:"completed"`
	StartTime      *time.Time   `json:"startTime"`
	EndTime        *time.Time   `json:"endTime"`
	ErrorMessage   *string      `json:"errorMessage"`
	ErrorKind      *string      `json:"errorKind"`
	Steps          int64        `json:"steps"`
	Total          figuresJSON  `json:"total"`
	Truncated      []string     `json:"truncated"`
}

type planListJSON struct {
	Items      []planItemJSON `json:"items"`
	NextCursor *string        `json:"nextCursor"`
}

const (
	defaultPageSize = 50
	maxPageSize     = 500
)

func (s *Server) listPlans(c echo.Context) error {
	filter := store.PlanFilter{State: record.State(c.QueryParam("state")), Project: c.QueryParam("project"), Limit: defaultPageSize}
	if filter.State != "" && !slices.Contains(record.States(record.KindPlan), filter.State) {
		return &problem{Status: http.StatusBadRequest, Detail: "state must be a state of plans", Field: "state"}
	}
	if !storable(filter.Project) {
		return &problem{Status: http.StatusBadRequest, Detail: "project must be valid UTF-8 without NUL", Field: "project"}
	}
	if limit := c.QueryParam("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > maxPageSize {
			return &problem{Status: http.StatusBadRequest, Detail: "limit must be a number from 1 to " + strconv.Itoa(maxPageSize), Field: "limit"}
		}
		filter.Limit = n
	}
	if cursor := c.QueryParam("cursor"); cursor != "" {
		before, err := parseCursor(cursor)
		if err != nil {
			return &problem{Status: http.StatusBadRequest, Detail: "cursor must be a nextCursor of this list", Field: "cursor"}
		}
		filter.Before = before
	}
	page := filter.Limit
	filter.Limit++ // one more tells whether there is a next page
	plans, err := s.store.Plans(c.Request().Context(), filter)
	if err != nil {
		return err
	}
	out := planListJSON{Items: []planItemJSON{}}
	if len(plans) > page {
		plans = plans[:page]
		out.NextCursor = new(formatCursor(plans[page-1].Cursor))
	}
	for i := range plans {
		p := &plans[i]
		r := &p.Record
		out.Items = append(out.Items, planItemJSON{
			ID: p.ID, RootPlanID: r.RootPlanID, Name: r.Name, Title: r.Title, Project: orDefault(r.Project, defaultProject), UserID: r.UserID,
			Tags: orEmpty(r.Tags), ConversationID: r.ConversationID, TraceID: r.TraceID, State: *r.State, Completed: r.State.Terminal(),
			StartTime: r.StartTime, EndTime: r.EndTime, ErrorMessage: r.ErrorMessage, ErrorKind: r.ErrorKind, Steps: p.Steps,
			Total: toFigures(&p.Total), Truncated: orEmpty(p.Truncated),
		})
	}
	return sendJSON(c, http.StatusOK, out)
}

// A cursor is opaque to clients: the place of the last plan of a page.

func formatCursor(c store.PlanCursor) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.FirstSeenAt.UnixMicro(), 10) + " " + c.RootPlanID))
}

func parseCursor(s string) (*store.PlanCursor, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, err
	}
	micros, id, found := strings.Cut(string(raw), " ")
	n, err := strconv.ParseInt(micros, 10, 64)
	if err != nil {
		return nil, err
	}
	at := time.UnixMicro(n).UTC()
	if !found || !storable(id) || at.Year() < 1 || at.Year() > 9999 {
		return nil, errors.New("not a cursor of ours")
	}
	return &store.PlanCursor{FirstSeenAt: at, RootPlanID: id}, nil
}
