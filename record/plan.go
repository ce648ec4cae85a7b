package record

import (
	"encoding/json"
	"time"
)

// Plan is one run of anything: a root plan (RootPlanID and CurrentPlanID are the
// same) or a sub-plan, which a tool call of ParentPlanID started. TraceID is the trace of the run in
// OpenTelemetry: 32 hex digits. A higher Attempt opens a run again that has ended: its state, its end and its error
// start from scratch, and those of the earlier attempts stay on record as [Attempt]. Its start stays.
type Plan struct {
	RootPlanID     string          `record:"rootPlanId,key"`
	CurrentPlanID  string          `record:"currentPlanId,key"`
	Rev            *int64          `record:"rev,revision"`
	ParentPlanID   *string         `record:"parentPlanId,id"`
	ToolCallID     *string         `record:"toolCallId,id"`
	Executor       *string         `record:"executor,name"`
	Name           *string         `record:"name,name"`
	Title          *string         `record:"title,text,searched"`
	UserRequest    *string         `record:"userRequest,text,searched"`
	Project        *string         `record:"project,name"`
	UserID         *string         `record:"userId,id"`
	Tags           []string        `record:"tags,name"`
	Environment    *string         `record:"environment,name"`
	Release        *string         `record:"release,name"`
	ConversationID *string         `record:"conversationId,id"`
	TraceID        *string         `record:"traceId,trace"`
	State          *State          `record:"state,state,scoped,column=told_state,shown=state"`
	StartTime      *time.Time      `record:"startTime,least"`
	EndTime        *time.Time      `record:"endTime,greatest,scoped"`
	Summary        *string         `record:"summary,text,searched"`
	ModelName      *string         `record:"modelName,name"`
	ErrorMessage   *string         `record:"errorMessage,text,scoped,searched"`
	ErrorKind      *string         `record:"errorKind,name,scoped,searched"`
	Exception      *string         `record:"exception,text,once"`
	Metadata       json.RawMessage `record:"metadata,object"`
	// LastSeenAt is a sign of life of the process that runs the plan, by its own clock, which
	// must not go back while it runs. A process that sends one goes on sending them until the
	// plan ends. If they stop, the run is marked INTERRUPTED, until the next sign of life
	// (--interrupt-after).
	LastSeenAt *time.Time `record:"lastSeenAt,greatest,heartbeat"`
	// StartedBy is a [StartedBy] in JSON, of a root plan only.
	StartedBy json.RawMessage `record:"startedBy,startedBy"`
	Attempt   *int64          `record:"attempt,attempt,min=1,small"`

	// ForkedFrom is the plan of another run that this one is a copy of, as plan:PLAN; nil: it is none. A copied sub-plan
	// counts in no figure; a root plan does, with what is its own.
	ForkedFrom *string `record:"forkedFrom,address"`
}

// Kind implements [Change].
func (p *Plan) Kind() Kind { return KindPlan }

// Key implements [Change].
func (p *Plan) Key() Key { return Key{Kind: KindPlan, Root: p.RootPlanID, ID: p.CurrentPlanID} }

// Revision implements [Change].
func (p *Plan) Revision() *int64 { return p.Rev }

// IsRoot reports whether the plan is the root of its tree.
func (p *Plan) IsRoot() bool { return p.RootPlanID == p.CurrentPlanID }
