package thinkact

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/engine"
)

const (
	// maxSilent is how many answers in a row may call no tool.
	maxSilent = 3
	// maxSame is how many results in a row may be the same before the agent starts from a summary.
	maxSame = 3
	// maxContext is how many characters a conversation may have before the agent starts from a summary.
	maxContext = 400_000
)

// loop is the work of an agent on its step.
type loop struct {
	step     *engine.Step
	agent    config.Definition
	thinking engine.Thinking
	base     []model.Message // with which the conversation begins

	seq    int64           // of the next cycle
	talk   []model.Message // so far
	silent int             // answers in a row without a tool call
	same   int             // results in a row that are the same
	last   tool.Result     // the result before
}

// run thinks and acts until the agent is done, and returns its answer.
func (l *loop) run(ctx context.Context) (string, error) {
	l.talk = l.base
	for range l.agent.MaxSteps {
		answer, err := l.think(ctx, l.thinking)
		if tooLong(err) {
			err = l.compact(ctx)
		}
		if err != nil {
			return "", err
		}
		if answer == nil { // the conversation begins anew
			continue
		}
		calls := answer.Message.Calls()
		if len(calls) == 0 {
			if l.silent++; l.silent == maxSilent {
				return "", &engine.RunError{Kind: "no_tool_call", Message: "The agent answered three times without calling a tool."}
			}
			l.talk = append(l.talk, model.User(callATool))
			continue
		}
		l.silent = 0
		results, err := l.act(ctx, calls, l.thinking)
		if err != nil {
			return "", err
		}
		if summary, done := terminated(calls, results); done {
			return summary, nil
		}
		if l.stuck(results) || length(l.talk) > maxContext {
			if err := l.compact(ctx); err != nil {
				return "", err
			}
		}
	}
	return l.summarise(ctx)
}

// think asks the model in the next cycle.
func (l *loop) think(ctx context.Context, t engine.Thinking) (*model.Response, error) {
	t.Messages = slices.Clone(l.talk)
	answer, err := l.step.Think(ctx, l.seq, t)
	if err == nil {
		l.talk = append(l.talk, answer.Message)
	}
	l.seq++
	return answer, err
}

// act makes the calls of the cycle before, and tells the model their results.
func (l *loop) act(ctx context.Context, calls []model.ToolCall, t engine.Thinking) ([]tool.Result, error) {
	results, err := l.step.Act(ctx, l.seq-1, calls, t)
	if err != nil {
		return nil, err
	}
	l.talk = append(l.talk, engine.Told(calls, results))
	return results, nil
}

// terminated returns the answer of the agent, if it said that it is done.
func terminated(calls []model.ToolCall, results []tool.Result) (answer string, done bool) {
	if len(calls) != 1 || calls[0].Name != terminateTool || results[0].Failed {
		return "", false
	}
	return message(json.RawMessage(calls[0].Arguments)), true // whole, however long it is
}

// stuck reports whether tools return the same again and again.
func (l *loop) stuck(results []tool.Result) bool {
	for _, r := range results {
		if l.same++; r.Text != l.last.Text || r.Failed != l.last.Failed {
			l.same = 1
		}
		l.last = r
	}
	return l.same >= maxSame
}

// compact asks the model for a summary, from which the conversation begins anew.
func (l *loop) compact(ctx context.Context) error {
	l.talk = append(slices.Clone(l.base[:1]), model.User(summariseFor(l.base, l.talk)))
	t := l.thinking
	t.Tools = nil
	summary, err := l.think(ctx, t)
	if err != nil {
		return err
	}
	l.talk = append(slices.Clone(l.base), model.User(goOnFrom(summary.Message.Text())))
	l.same, l.last = 0, tool.Result{}
	return nil
}

// summarise ends the work of an agent that has used its rounds: what it has found is its answer.
func (l *loop) summarise(ctx context.Context) (string, error) {
	l.talk = append(l.talk, model.User(outOfRounds))
	t := l.thinking
	var err error
	if t.Tools, err = l.thinking.Tools.Select(terminateTool); err != nil {
		return "", err
	}
	answer, err := l.think(ctx, t)
	if err != nil {
		return "", err
	}
	calls := answer.Message.Calls()
	if len(calls) != 1 || calls[0].Name != terminateTool { // it wrote its summary as a text
		calls = []model.ToolCall{terminateWith(answer.Message.Text(), l.agent.ResponseSchema)}
	}
	results, err := l.act(ctx, calls, t)
	if err != nil {
		return "", err
	}
	if summary, done := terminated(calls, results); done {
		return summary, nil
	}
	return "", &engine.RunError{Kind: "no_answer", Message: "The agent used all of its rounds and gave no answer that fits."}
}

// tooLong reports whether the conversation is too long for the model.
func tooLong(err error) bool {
	var failure *engine.RunError
	return errors.As(err, &failure) && failure.Kind == string(model.KindContextLength)
}

// length returns the characters of a conversation.
func length(talk []model.Message) (n int) {
	for _, m := range talk {
		for _, p := range m.Parts {
			n += len(p.Text)
			if p.Result != nil {
				n += len(p.Result.Text)
			}
			if p.Call != nil {
				n += len(p.Call.Arguments)
			}
		}
	}
	return n
}
