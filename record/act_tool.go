package record

import (
	"encoding/json"
	"time"
)

// ActTool is one tool call of a cycle. ToolCallID is ours and unique in its root
// plan; the model's own id goes to ProviderCallID.
type ActTool struct {
	RootPlanID     string          `record:"rootPlanId,key"`
	StepID         string          `record:"stepId,key"`
	Seq            int64           `record:"seq,key"`
	ToolCallID     string          `record:"toolCallId,key"`
	Rev            *int64          `record:"rev"`
	CallIndex      *int64          `record:"callIndex"`
	ProviderCallID *string         `record:"providerCallId,id"`
	ServerName     *string         `record:"serverName,name"`
	Name           *string         `record:"name,name"`
	Parameters     *string         `record:"parameters,text,anyJSON"`
	Result         *string         `record:"result,text,anyJSON"`
	State          *State          `record:"state,state,scoped,column=told_state"`
	Attempt        *int64          `record:"attempt,attempt,min=1"`
	ErrorMessage   *string         `record:"errorMessage,text,scoped"`
	ErrorKind      *string         `record:"errorKind,name,scoped"`
	StartTime      *time.Time      `record:"startTime,least"`
	EndTime        *time.Time      `record:"endTime,greatest,scoped"`
	SpanID         *string         `record:"spanId,id"`
	Metadata       json.RawMessage `record:"metadata,object"`

	// Inferred says that the call is known from the model's output only. It is for
	// those who derive records from something else, and not told on the wire.
	Inferred *bool `record:"inferred,derived"`
}

// Kind implements [Change].
func (t *ActTool) Kind() Kind { return KindActTool }

// Key implements [Change].
func (t *ActTool) Key() Key {
	return Key{Kind: KindActTool, Root: t.RootPlanID, Parent: t.StepID, Seq: t.Seq, ID: t.ToolCallID}
}

// Revision implements [Change].
func (t *ActTool) Revision() *int64 { return t.Rev }
