package record

import "context"

// StartedBy names the tool call that started something, such as a program of its own record.
type StartedBy struct{ PlanID, ToolCallID string }

type startedByKey struct{}

// ContextWithStartedBy returns a context that says which tool call the work in it belongs to.
func ContextWithStartedBy(ctx context.Context, by StartedBy) context.Context {
	return context.WithValue(ctx, startedByKey{}, by)
}

// StartedByFrom returns the tool call that the work in a context belongs to.
func StartedByFrom(ctx context.Context) (StartedBy, bool) {
	by, ok := ctx.Value(startedByKey{}).(StartedBy)
	return by, ok
}
