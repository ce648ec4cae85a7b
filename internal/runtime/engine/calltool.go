package engine

import (
	"context"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
)

// CallTool makes one call, of a tool that a definition may use, in a step of its own. The error is an [*UndecidedError]
// if nobody can tell whether it took effect: then the step goes on until the code does.
func (r *Run) CallTool(
	ctx context.Context, index int, call model.ToolCall, uses define.Definition, policies tool.Rules,
) (tool.Result, error) {
	step, err := r.Step(ctx, index, StepInfo{Description: "Calls " + call.Name + ".", Request: call.Arguments})
	if err != nil {
		return tool.Result{}, err
	}

	t := Thinking{Policies: policies, Undecided: true}
	if t.Tools, err = r.ToolsOf(ctx, uses); err != nil {
		return tool.Result{}, err
	}
	results, err := step.Act(ctx, 0, []model.ToolCall{call}, t)
	if err != nil {
		return tool.Result{}, err
	}

	var failure *RunError
	if results[0].Failed {
		failure = &RunError{Kind: "tool", Message: results[0].Text}
	}
	step.End(results[0].Text, failure)
	return results[0], nil
}
