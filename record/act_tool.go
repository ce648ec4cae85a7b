package record

import (
	"encoding/json"
	"time"
)

// ActTool is one tool call of a cycle. ToolCallID is unique in its root plan. The id that the
// model gave the call goes to ProviderCallID.
type ActTool struct {
	RootPlanID     string          `record:"rootPlanId,key"`
	StepID         string          `record:"stepId,key"`
	Seq            int64           `record:"seq,key,small"`
	ToolCallID     string          `record:"toolCallId,key"`
	Rev            *int64          `record:"rev,revision"`
	CallIndex      *int64          `record:"callIndex,small"`
	ProviderCallID *string         `record:"providerCallId,id"`
	ServerName     *string         `record:"serverName,name"`
	Name           *string         `record:"name,name,searched"`
	Parameters     *string         `record:"parameters,text,anyJSON"`
	Result         *string         `record:"result,text,anyJSON"`
	State          *State          `record:"state,state,scoped,column=told_state,shown=state"`
	Attempt        *int64          `record:"attempt,attempt,min=1,small"`
	ErrorMessage   *string         `record:"errorMessage,text,scoped,searched"`
	ErrorKind      *string         `record:"errorKind,name,scoped,searched"`
	StartTime      *time.Time      `record:"startTime,least,scoped"`
	EndTime        *time.Time      `record:"endTime,greatest,scoped"`
	SpanID         *string         `record:"spanId,id"`
	Metadata       json.RawMessage `record:"metadata,object"`

	// Inferred marks a call that is known from the model's output only. Code that derives
	// records from traces sets it; it is not accepted on the wire.
	Inferred *bool `record:"inferred,derived"`

	// Policy is what held for the call: whether a human approves it, and what follows if nobody can
	// say how it ended.
	Policy json.RawMessage `record:"policy,object"`

	// Progress is how far a call that takes long had come when it last said so, as a [Progress].
	Progress json.RawMessage `record:"progress,object"`

	// ForkedFrom is the tool call of another run that this one is a copy of, as call:STEP/SEQ/CALL; nil: it is none. A
	// copy counts in no figure.
	ForkedFrom *string `record:"forkedFrom,address"`
}

// Progress is how far a tool call has come. What is nil is not known.
type Progress struct {
	Done    *float64 `json:"done"`
	Total   *float64 `json:"total"`
	Message *string  `json:"message"`
}

// MaxProgressMessage is the most characters that the message of a [Progress] has of a call of the runtime.
const MaxProgressMessage = 500

// Kind implements [Change].
func (t *ActTool) Kind() Kind { return KindActTool }

// Key implements [Change].
func (t *ActTool) Key() Key {
	return Key{Kind: KindActTool, Root: t.RootPlanID, Parent: t.StepID, Seq: t.Seq, ID: t.ToolCallID}
}

// Revision implements [Change].
func (t *ActTool) Revision() *int64 { return t.Rev }
