package thinkact

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/rounds"
)

// terminating ends the work of an agent that calls terminate. Its message is the result.
type terminating struct {
	schema json.RawMessage // of the message; nil: a text
}

// Silent implements [rounds.Ending].
func (terminating) Silent(_ *rounds.Loop, _ string, n int) (result string, done bool, tell string, err error) {
	if n == rounds.MaxSilent {
		return "", false, "", engine.Fail("no_tool_call", "The agent answered three times without calling a tool.")
	}
	return "", false, callATool, nil
}

// Acted implements [rounds.Ending].
func (terminating) Acted(
	_ *rounds.Loop, calls []model.ToolCall, results []tool.Result,
) (result string, done bool, err error) {
	if len(calls) != 1 || calls[0].Name != terminateTool || results[0].Failed {
		return "", false, nil
	}
	return message(json.RawMessage(calls[0].Arguments)), true, nil // whole, however long it is
}

// Last implements [rounds.Ending]: what the agent has found is its answer. It can only terminate. Whatever else it
// calls is no tool that there is.
func (e terminating) Last(ctx context.Context, l *rounds.Loop) (string, error) {
	l.Tell(outOfRounds)
	t := l.Thinking
	t.Refuse = nil // terminate may be called beside others
	var err error
	if t.Tools, err = l.Thinking.Tools.Select(terminateTool); err != nil {
		return "", err
	}

	answer, err := l.Think(ctx, t)
	if err != nil {
		return "", err
	}

	calls := answer.Message.Calls()
	written := strings.TrimSpace(answer.Message.Text())
	terminates := func(c model.ToolCall) bool { return c.Name == terminateTool }
	if !slices.ContainsFunc(calls, terminates) && written != "" { // it wrote its summary as a text
		calls = append(calls, terminateWith(answer.Message.Text(), e.schema))
	}

	results, _, err := l.Act(ctx, calls, t)
	if err != nil {
		return "", err
	}
	for i, call := range calls {
		if terminates(call) && !results[i].Failed {
			return message(json.RawMessage(call.Arguments)), nil
		}
	}
	return "", rounds.UsedUp(l.Rounds)
}
