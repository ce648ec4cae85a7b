package record

import (
	"context"
	"encoding/json"
)

// StartedBy names the tool call that started a root plan, and the plan of that call. It is what the writer
// claims: it links the two plans and puts neither into the other's tree.
type StartedBy struct {
	PlanID     string `json:"planId"`
	ToolCallID string `json:"toolCallId,omitempty"`
}

// JSON returns the link as [Plan] holds it.
func (s StartedBy) JSON() json.RawMessage {
	b, _ := json.Marshal(s) // texts
	return b
}

type startedByKey struct{}

// ContextWithStartedBy returns a context in which root plans are started by a tool call.
func ContextWithStartedBy(ctx context.Context, by StartedBy) context.Context {
	return context.WithValue(ctx, startedByKey{}, by)
}

// StartedByFrom returns the tool call that starts root plans in a context, if one does.
func StartedByFrom(ctx context.Context) (StartedBy, bool) {
	by, ok := ctx.Value(startedByKey{}).(StartedBy)
	return by, ok
}
