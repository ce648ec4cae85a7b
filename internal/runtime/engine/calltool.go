package engine

import (
	"context"
	"encoding/json"
	"time"

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

// NoEnd makes [Run.WaitFor] wait for as long as it takes.
const NoEnd time.Duration = -1

// WaitFor waits for an event, or for some time, in a step of its own; an empty key: for no event. timedOut reports that
// the event was not sent in time. The error says that the run waits.
func (r *Run) WaitFor(
	ctx context.Context, index int, key string, d time.Duration,
) (data string, timedOut bool, err error) {
	args := waitForArguments{Event: key}
	if d != NoEnd {
		args.Seconds = new(d.Seconds())
	}
	raw, err := json.Marshal(args)
	if err == nil {
		_, err = readWaitFor(raw)
	}
	if err != nil {
		return "", false, Fail("configuration", "%v", err)
	}

	step, err := r.Step(ctx, index, StepInfo{Description: "Calls " + define.WaitForTool + ".", Request: string(raw)})
	if err != nil {
		return "", false, err
	}

	t := Thinking{Undecided: true}
	if t.Tools, err = Set(r.played(newWaitFor())); err != nil {
		return "", false, err
	}
	results, err := step.Act(ctx, 0, []model.ToolCall{{Name: define.WaitForTool, Arguments: string(raw)}}, t)
	if err != nil {
		return "", false, err
	}

	var failure *RunError
	if timedOut = results[0].Failed; timedOut {
		failure = &RunError{Kind: WaitTimedOut, Message: results[0].Text}
	}
	step.End(results[0].Text, failure)
	return results[0].Text, timedOut, nil
}
