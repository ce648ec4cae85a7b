package rounds

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/record"
)

// Answering ends the work of an agent that answers without a call: the answer is the result of the step. The zero value
// is ready.
//
// The step fails if each call that the agent made failed, or if the answer begins with "FAILED:". It is SKIPPED if a
// human rejects a call, or nobody approves it in time: then the agent is not asked again. An agent that has tools must
// call one before its answer counts.
type Answering struct {
	called    bool   // a tool that there is
	succeeded bool   // a call did
	failure   string // of the last call that failed
}

// The error kinds of steps.
const (
	noTool   = "no_tool"   // the agent has tools and called none
	noAnswer = "no_answer" // the agent said nothing
	notDone  = "not_done"  // the agent says that it could not do the step
	toolKind = "tool"      // every call failed
	rejected = "rejected"
)

// notMade are the error kinds of calls that are not made.
var notMade = []string{engine.Refused, engine.NoSuchTool, engine.CutOff}

// Silent implements [Ending].
func (a *Answering) Silent(l *Loop, text string, n int) (result string, done bool, tell string, err error) {
	text = strings.TrimSpace(text)
	switch {
	case !a.mayAnswer(l) && n == MaxSilent:
		return "", false, "", calledNone()
	case !a.mayAnswer(l):
		return "", false, chooseATool, nil
	case text == "" && n == MaxSilent:
		return "", false, "", &engine.RunError{Kind: noAnswer, Message: "The agent gave no answer."}
	case text == "":
		return "", false, giveAnswer, nil
	}

	result, err = a.end(text)
	return result, true, "", err
}

// mayAnswer reports whether an answer without a call counts.
func (a *Answering) mayAnswer(l *Loop) bool {
	return a.called || l.Thinking.Tools == nil || len(l.Thinking.Tools.Names()) == 0
}

func calledNone() error { return engine.Fail(noTool, "The agent called no tool that there is.") }

// end returns the result of the step, or why it failed.
func (a *Answering) end(text string) (string, error) {
	if why, failed := strings.CutPrefix(text, failedPrefix); failed {
		return "", engine.Fail(notDone, "%s", cmp.Or(strings.TrimSpace(why), "The agent could not do the step."))
	}
	if a.called && !a.succeeded {
		return "", &engine.RunError{Kind: toolKind, Message: a.failure}
	}
	return text, nil
}

// Acted implements [Ending].
func (a *Answering) Acted(
	l *Loop, calls []model.ToolCall, results []tool.Result,
) (result string, done bool, err error) {
	for i := range calls {
		state, kind := l.Step.Called(l.seq-1, i)
		switch {
		case state == record.Skipped:
			return "", false, &engine.RunError{Kind: cmp.Or(kind, rejected), Message: results[i].Text, State: record.Skipped}
		case slices.Contains(notMade, kind):
		case results[i].Failed:
			a.called, a.failure = true, results[i].Text
		default:
			a.called, a.succeeded = true, true
		}
	}
	return "", false, nil
}

// maxLast is how often an agent is asked for its answer that has used its rounds.
const maxLast = 2

// Last implements [Ending]. The agent still sees its tools, because providers refuse a conversation with calls of tools
// that are not offered, but no call is made.
func (a *Answering) Last(ctx context.Context, l *Loop) (string, error) {
	if !a.mayAnswer(l) {
		return "", calledNone()
	}

	t := l.Thinking
	t.Refuse = func(model.ToolCall, int) string { return noRoundLeft }
	for range maxLast {
		l.Tell(noRoundLeft)
		answer, err := l.Think(ctx, t)
		if err != nil {
			return "", err
		}
		if _, _, err := l.Act(ctx, answer.Message.Calls(), t); err != nil {
			return "", err
		}
		if text := strings.TrimSpace(answer.Message.Text()); text != "" {
			return a.end(text)
		}
	}
	return "", UsedUp(l.Rounds)
}
