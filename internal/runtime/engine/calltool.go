package engine

import (
	"context"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
)

// CallTool makes one call, of a tool that a definition may use, in a step of its own. failed is the error kind of one
// that failed. The error is an [*UndecidedError] if nobody can tell whether it took effect: then the step goes on until
// the code does.
func (r *Run) CallTool(
	ctx context.Context, index int, call model.ToolCall, uses define.Definition, policies tool.Rules,
) (result tool.Result, failed string, err error) {
	step, err := r.Step(ctx, index, StepInfo{Description: "Calls " + call.Name + ".", Request: call.Arguments})
	if err != nil {
		return tool.Result{}, "", err
	}

	t := Thinking{Policies: policies, Undecided: true}
	if t.Tools, err = r.ToolsOf(ctx, uses); err != nil {
		return tool.Result{}, "", err
	}
	results, err := step.Act(ctx, 0, []model.ToolCall{call}, t)
	if err != nil {
		return tool.Result{}, "", err
	}

	var failure *RunError
	if results[0].Failed {
		failed = "tool"
		if _, kind := step.Called(0, 0); kind == WaitTimedOut {
			failed = kind
		}
		failure = &RunError{Kind: failed, Message: results[0].Text}
	}
	step.End(results[0].Text, failure)
	return results[0], failed, nil
}
