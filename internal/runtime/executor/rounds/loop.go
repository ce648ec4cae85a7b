// Package rounds lets an agent work on a step in rounds: the model answers, its calls are made, it reads what came of
// them, errors too, and goes on until it is done.
package rounds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/engine"
)

const (
	// MaxSilent is how many answers in a row may call no tool.
	MaxSilent = 3
	// maxSame is how many answers in a row may call the same, with the same results, before the agent starts from a
	// summary.
	maxSame = 3
	// maxContext is how many characters a conversation may have before the agent starts from a summary.
	maxContext = 400_000
)

// OutOfRounds is the error kind of a step whose agent used all of its rounds, and then gave no answer that fits.
const OutOfRounds = "max_rounds"

// UsedUp is why a step failed whose agent used its rounds without an answer.
func UsedUp(rounds int) error {
	if rounds == 1 {
		return engine.Fail(OutOfRounds, "The agent used its only round, and then gave no answer that fits.")
	}
	return engine.Fail(OutOfRounds, "The agent used all of its %d rounds, and then gave no answer that fits.", rounds)
}

// Work is what an agent does in a step.
type Work struct {
	Step *engine.Step
	// Rounds is how often the agent may act. After them it is asked for its answer.
	Rounds int
	// Thinking is what is asked each time, but for the messages.
	Thinking engine.Thinking
	// Base is what the conversation begins with: the system prompt first, the task last.
	Base []model.Message
}

// Ending says when an agent is done. The error of a method is a [*engine.RunError] that ends the step.
type Ending interface {
	// Silent takes a whole answer that calls no tool, the nth in a row. The agent is told what is returned, unless it
	// is done with a result.
	Silent(l *Loop, text string, n int) (result string, done bool, tell string, err error)
	// Acted takes the calls of a round, and what came of them.
	Acted(l *Loop, calls []model.ToolCall, results []tool.Result) (result string, done bool, err error)
	// Last ends the work of an agent that has used its rounds.
	Last(ctx context.Context, l *Loop) (result string, err error)
}

// Loop is the work of an agent on its step, while it is under way.
type Loop struct {
	Work

	ending Ending
	seq    int64           // of the next cycle
	talk   []model.Message // so far
	silent int             // answers in a row without a tool call
	same   int             // answers in a row that called the same, with the same results
	last   []string        // what the answer before called, with the results
}

// Carry lets the agent think and act until it is done, and returns the result of the step, which the caller ends.
func (w Work) Carry(ctx context.Context, e Ending) (string, error) {
	l := &Loop{Work: w, ending: e, talk: w.Base}
	for range w.Step.Copied() + w.Rounds {
		answer, err := l.Think(ctx, l.Thinking)
		if tooLong(err) {
			err = l.compact(ctx)
		}
		if err != nil {
			return "", err
		}

		if answer == nil { // the conversation begins again
			continue
		}
		if result, done, err := l.follow(ctx, answer); done || err != nil {
			return result, err
		}
	}
	return l.conclude(ctx)
}

// conclude ends the work of an agent that has used its rounds.
func (l *Loop) conclude(ctx context.Context) (string, error) {
	for {
		result, err := l.ending.Last(ctx, l)
		if err != nil {
			return "", err
		}
		if ended, err := l.ends(ctx); ended || err != nil {
			return result, err
		}
	}
}

// ends reports whether the agent, which is done, is not asked once more because of a message.
func (l *Loop) ends(ctx context.Context) (bool, error) {
	more, err := l.Step.OnceMore(ctx, l.seq)
	l.silent = 0
	return !more, err
}

// follow does what an answer asks for. done reports that it ends the work.
func (l *Loop) follow(ctx context.Context, answer *model.Response) (result string, done bool, err error) {
	result, done, err = l.take(ctx, answer)
	if done && err == nil {
		done, err = l.ends(ctx)
	}
	return result, done, err
}

// take does what an answer asks for. done reports that the agent is done.
func (l *Loop) take(ctx context.Context, answer *model.Response) (result string, done bool, err error) {
	calls := answer.Message.Calls()
	results, cut, err := l.Act(ctx, calls, l.Thinking)
	if err != nil {
		return "", false, err
	}
	if len(calls) == 0 {
		return l.hear(answer.Message.Text(), cut)
	}

	l.silent = 0
	if result, done, err := l.ending.Acted(l, calls, results); done || err != nil {
		return result, done, err
	}
	if l.stuck(calls, results) || length(l.talk) > maxContext {
		return "", false, l.compact(ctx)
	}
	return "", false, nil
}

// hear takes an answer that called no tool, or was cut before it could.
func (l *Loop) hear(text string, cut bool) (result string, done bool, err error) {
	l.last = nil // no answers in a row
	if cut {
		l.silent = 0
		l.talk = append(l.talk, l.Thinking.TellCut())
		return "", false, nil
	}

	l.silent++
	result, done, tell, err := l.ending.Silent(l, text, l.silent)
	if err == nil && !done {
		l.Tell(tell)
	}
	return result, done, err
}

// Tell adds what the agent is told.
func (l *Loop) Tell(text string) { l.talk = append(l.talk, model.User(text)) }

// Think asks the model in the next cycle.
func (l *Loop) Think(ctx context.Context, t engine.Thinking) (*model.Response, error) {
	t.Messages = slices.Clone(l.talk)
	answer, err := l.Step.Think(ctx, l.seq, t)
	if err == nil {
		l.talk = engine.Append(l.talk, answer.Message)
	}
	l.seq++
	return answer, err
}

// Act makes the calls of the last answer, if there are any, and adds their results to the conversation. cut reports
// whether the answer was cut.
func (l *Loop) Act(
	ctx context.Context, calls []model.ToolCall, t engine.Thinking,
) (results []tool.Result, cut bool, err error) {
	results, cut, err = l.Step.Follow(ctx, l.seq-1, calls, t)
	if err == nil && len(calls) > 0 {
		l.talk = append(l.talk, engine.ResultsMessage(calls, results))
	}
	return results, cut, err
}

// stuck reports whether the agent is in a loop: its last answers called the same tools with the same arguments, which
// returned the same. How often an answer repeats a call, and in which order, does not matter.
func (l *Loop) stuck(calls []model.ToolCall, results []tool.Result) bool {
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

// compact asks the model for a summary, from which the conversation begins again.
func (l *Loop) compact(ctx context.Context) error {
	before := l.talk
	l.talk = append(slices.Clone(l.Base[:1]), model.User(summariseFor(l.Base, before)))
	t := l.Thinking
	t.Tools = nil
	answer, err := l.Think(ctx, t)
	if err != nil {
		return err
	}

	summary := answer.Message.Text()
	if strings.TrimSpace(summary) == "" { // such as one that only calls tools
		summary = workSoFar(l.Base, before, maxUnsummarised)
	}
	l.talk = append(slices.Clone(l.Base), model.User(goOnFrom(summary)))
	l.last = nil
	return nil
}

// tooLong reports whether the conversation is too long for the model.
func tooLong(err error) bool {
	failure, ok := errors.AsType[*engine.RunError](err)
	return ok && failure.Kind == string(model.KindContextLength)
}

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
