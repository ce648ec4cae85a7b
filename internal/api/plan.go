package api

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"slices"
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
	LastSeenAt              *time.Time      `json:"lastSeenAt"`
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
		Environment: r.Environment, Release: r.Release, ConversationID: r.ConversationID, TraceID: r.TraceID, Metadata: orNull(r.Metadata), LastSeenAt: r.LastSeenAt,
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
			FormInputs: form(w.FormInputs), WaitID: w.WaitID, Type: orDefault(w.Type, record.WaitUserInput),
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

// size is about how many bytes the plan takes, rather more: the body of a large tree
// that grew by and by would be copied, and lie about, several times.
func (p *planJSON) size() int {
	n := 2_048 + texts(p.UserRequest, p.Summary, p.StructureResult, p.ErrorMessage) + len(p.Metadata)
	for _, st := range p.AgentExecutionSequence {
		n += 1_280 + texts(st.AgentDescription, st.AgentRequest, st.Result, st.ErrorMessage, st.LatestMethodArgs) + len(st.Metadata)
		for _, sub := range st.SubPlanExecutionRecords {
			n += sub.size()
		}
	}
	for _, sub := range p.SubPlanExecutionRecords {
		n += sub.size()
	}
	return n
}

// texts is how long some texts are together.
func texts(all ...*string) (n int) {
	for _, s := range all {
		n += len(orDefault(s, ""))
	}
	return n
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
	return new(string(compacted(json.RawMessage(*s))))
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
	return compacted(raw)
}

// compacted leaves out the spaces that JSON was told with, and keeps its order. What
// is not JSON stays as it is.
func compacted(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return raw
	}
	return b.Bytes()
}

func (s *Server) plan(c echo.Context) error {
	id, err := nativeID(c, "planId")
	if err != nil {
		return err
	}
	p, _, err := s.store.PlanTree(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return sendTagged(c, toPlan(p))
}

// deletePlan deletes the tree of a root plan, for good.
func (s *Server) deletePlan(c echo.Context) error {
	id, err := nativeID(c, "planId")
	if err != nil {
		return err
	}
	if err := s.store.DeletePlan(c.Request().Context(), id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
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
	Environment    *string      `json:"environment"`
	Release        *string      `json:"release"`
	ConversationID *string      `json:"conversationId"`
	TraceID        *string      `json:"traceId"`
	State          record.State `json:"state"`
	Completed      bool         `json:"completed"`
	StartTime      *time.Time   `json:"startTime"`
	EndTime        *time.Time   `json:"endTime"`
	LastSeenAt     *time.Time   `json:"lastSeenAt"`
	ErrorMessage   *string      `json:"errorMessage"`
	ErrorKind      *string      `json:"errorKind"`
	Steps          int64        `json:"steps"`
	Total          figuresJSON  `json:"total"`
	Truncated      []string     `json:"truncated"`
}

func toPlanItem(p *store.PlanSummary) planItemJSON {
	r := &p.Record
	return planItemJSON{
		ID: p.ID, RootPlanID: r.RootPlanID, Name: r.Name, Title: r.Title, Project: orDefault(r.Project, defaultProject), UserID: r.UserID,
		Tags: orEmpty(r.Tags), Environment: r.Environment, Release: r.Release, ConversationID: r.ConversationID, TraceID: r.TraceID,
		State: *r.State, Completed: r.State.Terminal(), StartTime: r.StartTime, EndTime: r.EndTime,
		LastSeenAt: r.LastSeenAt, ErrorMessage: r.ErrorMessage, ErrorKind: r.ErrorKind, Steps: p.Steps, Total: toFigures(&p.Total),
		Truncated: orEmpty(p.Truncated),
	}
}

func (s *Server) listPlans(c echo.Context) error {
	q := queryOf(c, "project", "state", "name", "agent", "userId", "conversationId", "tag", "q", "since", "until", "limit", "cursor")
	filter := store.PlanFilter{
		Project: q.text("project"), State: record.State(q.text("state")), Name: q.text("name"), Agent: q.text("agent"), UserID: q.text("userId"),
		ConversationID: q.text("conversationId"), Tag: q.text("tag"), Query: q.text("q"), Since: q.time("since"), Until: q.time("until"),
		Limit: q.limit(), Timeout: s.config.ListTimeout,
	}
	before := q.cursor("plans")
	if q.err == nil && filter.State != "" && !slices.Contains(record.States(record.KindPlan), filter.State) {
		q.err = badField("state", "must be a state of plans: %s", joined(record.States(record.KindPlan)))
	}
	if q.err != nil {
		return q.err
	}
	if before != nil {
		filter.Before = &store.PlanCursor{FirstSeenAt: before.Time, RootPlanID: before.ID}
	}
	page := filter.Limit
	filter.Limit++ // one more tells whether there is a next page
	plans, err := s.store.Plans(c.Request().Context(), filter)
	if err != nil {
		return err
	}
	out := pageJSON[planItemJSON]{Items: []planItemJSON{}}
	if len(plans) > page {
		plans = plans[:page]
		last := plans[page-1].Cursor
		out.NextCursor = new(formatCursor("plans", store.Position{Time: last.FirstSeenAt, ID: last.RootPlanID}))
	}
	for i := range plans {
		out.Items = append(out.Items, toPlanItem(&plans[i]))
	}
	return sendTagged(c, out)
}

func joined(states []record.State) string {
	texts := make([]string, len(states))
	for i, s := range states {
		texts[i] = string(s)
	}
	return strings.Join(texts, ", ")
}
