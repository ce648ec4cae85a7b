package command

import (
	"context"

	"github.com/actlog/actlog/record"
)

// The variables that say to a command which tool call started it. What it records itself can name that call.
const (
	planIDVariable     = "ACTLOG_PLAN_ID"
	toolCallIDVariable = "ACTLOG_TOOL_CALL_ID"
)

// startedBy returns these variables; none if no call of a run starts the command.
func startedBy(ctx context.Context) []string {
	by, ok := record.StartedByFrom(ctx)
	if !ok {
		return nil
	}
	return []string{planIDVariable + "=" + by.PlanID, toolCallIDVariable + "=" + by.ToolCallID}
}
