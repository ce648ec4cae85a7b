package api

import (
	"encoding/json"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

// stepJSON is an agent execution: in a tree with its sub-plans, alone with its
// cycles. Every member is always there.
type stepJSON struct {
	ID                          int64           `json:"id"`
	StepID                      string          `json:"stepId"`
	RootPlanID                  string          `json:"rootPlanId"`
	PlanID                      string          `json:"planId"`
	ConversationID              *string         `json:"conversationId"`
	AgentName                   *string         `json:"agentName"`
	AgentDescription            *string         `json:"agentDescription"`
	StartTime                   *time.Time      `json:"startTime"`
	EndTime                     *time.Time      `json:"endTime"`
	MaxSteps                    int64           `json:"maxSteps"`
	CurrentStep                 int64           `json:"currentStep"`
	Status                      record.Status   `json:"status"`
	AgentRequest                *string         `json:"agentRequest"`
	Result                      *string         `json:"result"`
	ErrorMessage                *string         `json:"errorMessage"`
	ModelName                   *string         `json:"modelName"`
	ThinkActSteps               []*cycleJSON    `json:"thinkActSteps"`
	SubPlanExecutionRecords     []*planJSON     `json:"subPlanExecutionRecords"`
	Completed                   bool            `json:"completed"`
	Running                     bool            `json:"running"`
	Idle                        bool            `json:"idle"`
	SubPlanCount                int             `json:"subPlanCount"`
	CompletedThinkActStepsCount int64           `json:"completedThinkActStepsCount"`
	LatestMethodName            *string         `json:"latestMethodName"`
	LatestMethodArgs            *string         `json:"latestMethodArgs"`
	LatestRoundNumber           int64           `json:"latestRoundNumber"`
	State                       record.State    `json:"state"`
	StepIndex                   *int64          `json:"stepIndex"`
	Attempt                     int64           `json:"attempt"`
	AgentVersion                *string         `json:"agentVersion"`
	ErrorKind                   *string         `json:"errorKind"`
	Metadata                    json.RawMessage `json:"metadata"`
	Figures                     figuresJSON     `json:"figures"`
	Truncated                   []string        `json:"truncated"`
}

// cycleJSON is a think-act cycle.
type cycleJSON struct {
	ID                       int64           `json:"id"`
	ParentExecutionID        int64           `json:"parentExecutionId"`
	ThinkStartTime           *time.Time      `json:"thinkStartTime"`
	ThinkEndTime             *time.Time      `json:"thinkEndTime"`
	ActStartTime             *time.Time      `json:"actStartTime"`
	ActEndTime               *time.Time      `json:"actEndTime"`
	ThinkInput               *string         `json:"thinkInput"`
	ThinkOutput              *string         `json:"thinkOutput"`
	ActionNeeded             bool            `json:"actionNeeded"`
	ActionDescription        *string         `json:"actionDescription"`
	ActionResult             *string         `json:"actionResult"`
	Status                   record.Status   `json:"status"`
	ErrorMessage             *string         `json:"errorMessage"`
	InputCharCount           *int64          `json:"inputCharCount"`
	OutputCharCount          *int64          `json:"outputCharCount"`
	ToolName                 *string         `json:"toolName"`
	ToolParameters           *string         `json:"toolParameters"`
	ActToolInfoList          []*toolCallJSON `json:"actToolInfoList"`
	Seq                      int64           `json:"seq"`
	State                    record.State    `json:"state"`
	Provider                 *string         `json:"provider"`
	ModelName                *string         `json:"modelName"`
	InputTokens              *int64          `json:"inputTokens"`
	OutputTokens             *int64          `json:"outputTokens"`
	CacheReadInputTokens     *int64          `json:"cacheReadInputTokens"`
	CacheCreationInputTokens *int64          `json:"cacheCreationInputTokens"`
	ReasoningTokens          *int64          `json:"reasoningTokens"`
	CostUSD                  *float64        `json:"costUsd"`
	FirstTokenTime           *time.Time      `json:"firstTokenTime"`
	FinishReason             *string         `json:"finishReason"`
	ErrorKind                *string         `json:"errorKind"`
	Attempt                  int64           `json:"attempt"`
	Metadata                 json.RawMessage `json:"metadata"`
	Truncated                []string        `json:"truncated"`
}

// toolCallJSON is a tool call.
type toolCallJSON struct {
	Name           *string         `json:"name"`
	Parameters     *string         `json:"parameters"`
	Result         *string         `json:"result"`
	ID             string          `json:"id"`
	State          record.State    `json:"state"`
	ErrorMessage   *string         `json:"errorMessage"`
	ErrorKind      *string         `json:"errorKind"`
	StartTime      *time.Time      `json:"startTime"`
	EndTime        *time.Time      `json:"endTime"`
	ProviderCallID *string         `json:"providerCallId"`
	ServerName     *string         `json:"serverName"`
	CallIndex      *int64          `json:"callIndex"`
	Attempt        int64           `json:"attempt"`
	Inferred       bool            `json:"inferred"`
	Metadata       json.RawMessage `json:"metadata"`
	Truncated      []string        `json:"truncated"`
}

func toStep(st *tree.Step) *stepJSON {
	r := &st.Record
	status := r.State.Status()
	out := &stepJSON{
		ID: st.ID, StepID: r.StepID, RootPlanID: r.RootPlanID, PlanID: r.PlanID, ConversationID: r.ConversationID,
		AgentName: r.AgentName, AgentDescription: r.AgentDescription, StartTime: r.StartTime, EndTime: r.EndTime,
		MaxSteps: orDefault(r.MaxSteps, 0), CurrentStep: orDefault(r.CurrentStep, 0), Status: status,
		AgentRequest: r.AgentRequest, Result: r.Result, ErrorMessage: r.ErrorMessage, ModelName: r.ModelName,
		ThinkActSteps: make([]*cycleJSON, len(st.Cycles)), SubPlanExecutionRecords: toPlans(st.SubPlans),
		Completed: status == record.StatusFinished, Running: status == record.StatusRunning, Idle: status == record.StatusIdle,
		SubPlanCount: len(st.SubPlans), CompletedThinkActStepsCount: st.CompletedCycles,
		LatestMethodName: st.LatestToolName, LatestMethodArgs: st.LatestToolArgs, LatestRoundNumber: st.LatestRound,
		State: *r.State, StepIndex: r.StepIndex, Attempt: orDefault(r.Attempt, 1), AgentVersion: r.AgentVersion, ErrorKind: r.ErrorKind,
		Metadata: orNull(r.Metadata), Figures: toFigures(&st.Figures), Truncated: orEmpty(st.Truncated),
	}
	for i, c := range st.Cycles {
		out.ThinkActSteps[i] = toCycle(c, st.ID)
	}
	return out
}

func toCycle(c *tree.Cycle, stepID int64) *cycleJSON {
	r := &c.Record
	out := &cycleJSON{
		ID: c.ID, ParentExecutionID: stepID, ThinkStartTime: r.ThinkStartTime, ThinkEndTime: r.ThinkEndTime,
		ActStartTime: r.ActStartTime, ActEndTime: r.ActEndTime, ThinkInput: r.ThinkInput, ThinkOutput: r.ThinkOutput,
		ActionNeeded: len(c.ToolCalls) > 0, ActionDescription: r.ActionDescription, ActionResult: r.ActionResult,
		Status: r.State.Status(), ErrorMessage: r.ErrorMessage, InputCharCount: r.InputCharCount, OutputCharCount: r.OutputCharCount,
		ActToolInfoList: make([]*toolCallJSON, len(c.ToolCalls)),
		Seq:             r.Seq, State: *r.State, Provider: r.Provider, ModelName: r.ModelName, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
		CacheReadInputTokens: r.CacheReadInputTokens, CacheCreationInputTokens: r.CacheCreationInputTokens, ReasoningTokens: r.ReasoningTokens,
		CostUSD: r.CostUSD, FirstTokenTime: r.FirstTokenTime, FinishReason: r.FinishReason, ErrorKind: r.ErrorKind,
		Attempt: orDefault(r.Attempt, 1), Metadata: orNull(r.Metadata), Truncated: orEmpty(c.Truncated),
	}
	for i, t := range c.ToolCalls {
		out.ActToolInfoList[i] = toToolCall(t)
	}
	if len(c.ToolCalls) > 0 {
		out.ToolName, out.ToolParameters = c.ToolCalls[0].Record.Name, c.ToolCalls[0].Record.Parameters
	}
	return out
}

func toToolCall(t *tree.ToolCall) *toolCallJSON {
	r := &t.Record
	return &toolCallJSON{
		Name: r.Name, Parameters: r.Parameters, Result: r.Result, ID: r.ToolCallID, State: *r.State,
		ErrorMessage: r.ErrorMessage, ErrorKind: r.ErrorKind, StartTime: r.StartTime, EndTime: r.EndTime,
		ProviderCallID: r.ProviderCallID, ServerName: r.ServerName, CallIndex: r.CallIndex, Attempt: orDefault(r.Attempt, 1),
		Inferred: t.Inferred, Metadata: orNull(r.Metadata), Truncated: orEmpty(t.Truncated),
	}
}

func (s *Server) step(c echo.Context) error {
	id, err := nativeID(c, "stepId")
	if err != nil {
		return err
	}
	st, err := s.store.StepDetail(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return sendTagged(c, toStep(st))
}
