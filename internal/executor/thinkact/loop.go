package thinkact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/engine"
)

const (
	// maxSilent is how many answers in a row may call no tool.
	maxSilent = 3
	// maxSame is how many answers in a row may call the same, with the same results, before the agent starts from a summary.
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
	same   int             // answers in a row that called the same, with the same results
	last   []string        // what the answer before called, with the results
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
		if summary, done, err := l.follow(ctx, answer); done || err != nil {
			return summary, err
		}
	}
	return l.lastRound(ctx)
}

// follow does what an answer asks for. done reports that it ends the work, with the answer of the agent.
func (l *loop) follow(ctx context.Context, answer *model.Response) (summary string, done bool, err error) {
	calls := answer.Message.Calls()
	results, cut, err := l.act(ctx, calls, l.thinking)
	if err != nil {
		return "", false, err
	}
	if len(calls) == 0 {
		return "", false, l.askForCall(cut)
	}

	l.silent = 0
	if summary, done := terminated(calls, results); done {
		return summary, true, nil
	}
	if l.stuck(calls, results) || length(l.talk) > maxContext {
		return "", false, l.compact(ctx)
	}
	return "", false, nil
}

// askForCall tells the model that its answer called no tool, or was cut before it could.
func (l *loop) askForCall(cut bool) error {
	l.last = nil // no answers in a row
	if cut {
		l.silent = 0
		l.talk = append(l.talk, l.thinking.TellCut())
		return nil
	}

	if l.silent++; l.silent == maxSilent {
		return &engine.RunError{Kind: "no_tool_call", Message: "The agent answered three times without calling a tool."}
	}
	l.talk = append(l.talk, model.User(callATool))
	return nil
}

// think asks the model in the next cycle.
func (l *loop) think(ctx context.Context, t engine.Thinking) (*model.Response, error) {
	t.Messages = slices.Clone(l.talk)
	answer, err := l.step.Think(ctx, l.seq, t)
	if err == nil {
		l.talk = engine.Append(l.talk, answer.Message)
	}
	l.seq++
	return answer, err
}

// act makes the calls of the last answer, if there are any, and adds their results to the talk. cut reports whether the
// answer was cut.
func (l *loop) act(ctx context.Context, calls []model.ToolCall, t engine.Thinking) (results []tool.Result, cut bool, err error) {
	results, cut, err = l.step.Follow(ctx, l.seq-1, calls, t)
	if err == nil && len(calls) > 0 {
		l.talk = append(l.talk, engine.Told(calls, results))
	}
	return results, cut, err
}

// terminated returns the answer of the agent, if it said that it is done.
func terminated(calls []model.ToolCall, results []tool.Result) (answer string, done bool) {
	if len(calls) != 1 || calls[0].Name != terminateTool || results[0].Failed {
		return "", false
	}
	return message(json.RawMessage(calls[0].Arguments)), true // whole, however long it is
}

// stuck reports whether the agent is in a loop: its last answers called the same tools with the same arguments, which returned the same. How often
// an answer repeats a call, and in which order, does not matter.
func (l *loop) stuck(calls []model.ToolCall, results []tool.Result) bool {
	made := make([]string, len(calls))
	for i, call := range calls {
		made[i] = fmt.Sprintf("%q %q %t %q", call.Name, engine.Comparable(call.Arguments), results[i].Failed, results[i].Text)
	}
	slices.Sort(made)
	made = slices.Compact(made)

	if l.same++; !slices.Equal(made, l.last) {
		l.same = 1
	}
	l.last = made
	return l.same >= maxSame
}

// compact asks the model for a summary, from which the conversation begins anew.
func (l *loop) compact(ctx context.Context) error {
	before := l.talk
	l.talk = append(slices.Clone(l.base[:1]), model.User(summariseFor(l.base, before)))
	t := l.thinking
	t.Tools = nil
	answer, err := l.think(ctx, t)
	if err != nil {
		return err
	}

	summary := answer.Message.Text()
	if strings.TrimSpace(summary) == "" { // such as one that only calls tools
		summary = workSoFar(l.base, before, maxUnsummarised)
	}
	l.talk = append(slices.Clone(l.base), model.User(goOnFrom(summary)))
	l.last = nil
	return nil
}

// lastRound ends the work of an agent that has used its rounds: what it has found is its answer. It can only terminate. Whatever else it calls
// is no tool that there is.
func (l *loop) lastRound(ctx context.Context) (string, error) {
	l.talk = append(l.talk, model.User(outOfRounds))
	t := l.thinking
	t.Refuse = nil // terminate may be called beside others
	var err error
	if t.Tools, err = l.thinking.Tools.Select(terminateTool); err != nil {
		return "", err
	}
	answer, err := l.think(ctx, t)
	if err != nil {
		return "", err
	}

	calls := answer.Message.Calls()
	written := strings.TrimSpace(answer.Message.Text())
	terminates := func(c model.ToolCall) bool { return c.Name == terminateTool }
	if !slices.ContainsFunc(calls, terminates) && written != "" { // it wrote its summary as a text
		calls = append(calls, terminateWith(answer.Message.Text(), l.agent.ResponseSchema))
	}
	results, _, err := l.act(ctx, calls, t)
	if err != nil {
		return "", err
	}
	for i, call := range calls {
		if terminates(call) && !results[i].Failed {
			return message(json.RawMessage(call.Arguments)), nil
		}
	}
	return "", &engine.RunError{Kind: engine.LimitRounds, Message: usedUp(l.agent.MaxSteps)}
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
