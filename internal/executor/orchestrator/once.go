package orchestrator

import (
	"cmp"
	"context"
	"slices"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/record"
)

// Runs that an earlier release began go on as it carried them: a step is one call of one tool.

// maxSelections is how often an agent may choose, until it chooses a tool that there is.
const maxSelections = 3

// once lets an agent choose a tool for a step, and calls it. An agent without tools does the step itself.
func once(ctx context.Context, on *engine.Step, agent string, t engine.Thinking, base []model.Message) (string, error) {
	t.Refuse = oneTool
	talk := base
	for seq := range int64(maxSelections) {
		t.Messages = slices.Clone(talk)
		response, err := on.Think(ctx, seq, t)
		if err != nil {
			return "", err
		}
		output, again, err := call(ctx, on, seq, response, t)
		if again == nil || err != nil {
			return output, err
		}
		talk = append(engine.Append(talk, response.Message), *again)
	}
	return "", &engine.RunError{Kind: "no_tool", Message: noTool(agent)}
}

// call calls the tool that an agent chose, and returns its output; again is what the agent is told if it has to choose
// again.
func call(ctx context.Context, on *engine.Step, seq int64, response *model.Response, t engine.Thinking) (output string,
	again *model.Message, err error) {
	calls := response.Message.Calls()
	results, cut, err := on.Follow(ctx, seq, calls, t)
	switch state, kind := on.Called(seq, 0); {
	case err != nil:
		return "", nil, err
	case len(calls) == 0 && cut:
		return "", new(t.TellCut()), nil
	case len(calls) == 0 && len(t.Tools.Names()) == 0:
		return response.Message.Text(), nil, nil
	case len(calls) == 0:
		return "", new(model.User(chooseATool)), nil
	case slices.Contains([]string{engine.Refused, engine.NoSuchTool, engine.CutOff}, kind):
		return "", new(engine.Told(calls, results)), nil
	case state == record.Skipped:
		err = &engine.RunError{Kind: cmp.Or(kind, "rejected"), Message: results[0].Text, State: record.Skipped}
	case results[0].Failed:
		err = &engine.RunError{Kind: "tool", Message: results[0].Text}
	}
	return results[0].Text, nil, err
}

// oneTool refuses the calls of an agent that chose several tools.
func oneTool(_ model.ToolCall, of int) string {
	if of > 1 {
		return chooseATool
	}
	return ""
}
