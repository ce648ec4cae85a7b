package record

import (
	"encoding/json"
	"time"
)

// AgentExecution is a step: one agent working on one step of a plan. A higher Attempt opens
// it again: state, times and error start from scratch, and those of the earlier attempts stay
// on record as [Attempt].
type AgentExecution struct {
	RootPlanID       string          `record:"rootPlanId,key"`
	StepID           string          `record:"stepId,key"`
	Rev              *int64          `record:"rev,revision"`
	PlanID           string          `record:"planId,id,required,shown=shown_plan_id"`
	StepIndex        *int64          `record:"stepIndex,small"`
	ConversationID   *string         `record:"conversationId,id"`
	AgentName        *string         `record:"agentName,name,searched"`
	AgentVersion     *string         `record:"agentVersion,name"`
	AgentDescription *string         `record:"agentDescription,text"`
	AgentRequest     *string         `record:"agentRequest,text"`
	MaxSteps         *int64          `record:"maxSteps,small"`
	CurrentStep      *int64          `record:"currentStep,small"`
	Attempt          *int64          `record:"attempt,attempt,min=1,small"`
	State            *State          `record:"state,state,scoped,column=told_state,shown=state"`
	StartTime        *time.Time      `record:"startTime,least,scoped"`
	EndTime          *time.Time      `record:"endTime,greatest,scoped"`
	Result           *string         `record:"result,text"`
	ErrorMessage     *string         `record:"errorMessage,text,scoped,searched"`
	ErrorKind        *string         `record:"errorKind,name,scoped,searched"`
	ModelName        *string         `record:"modelName,name"`
	SpanID           *string         `record:"spanId,id"`
	Metadata         json.RawMessage `record:"metadata,object"`

	// ForkedFrom is the step of another run that this one is a copy of, as step:STEP; nil: it is none. A copy
	// counts in no figure.
	ForkedFrom *string `record:"forkedFrom,address"`
}

// Kind implements [Change].
func (a *AgentExecution) Kind() Kind { return KindAgentExecution }

// Key implements [Change].
func (a *AgentExecution) Key() Key {
	return Key{Kind: KindAgentExecution, Root: a.RootPlanID, ID: a.StepID}
}

// Revision implements [Change].
func (a *AgentExecution) Revision() *int64 { return a.Rev }
