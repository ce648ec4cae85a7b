package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

// CutOff is the error kind of what was cut at the limit of tokens: a call whose arguments were, and a step whose model was cut again and again.
const CutOff = string(model.FinishLength)

// maxCut is how many answers in a row may be cut.
const maxCut = 3

// maxRefusal bounds what an error repeats of a refusal, in bytes.
const maxRefusal = 2 << 10

// refusalOf returns the failure of a step whose model refused to answer, or was kept from it; nil: it answered.
func refusalOf(r *model.Response) *RunError {
	var what string
	switch r.Finish {
	case model.FinishRefusal:
		what = "The model refused to answer"
	case model.FinishContentFilter:
		what = "A content filter stopped the answer of the model"
	default:
		return nil
	}

	if words := strings.TrimSpace(r.Message.Text()); words != "" {
		return &RunError{Kind: string(r.Finish), Message: what + ": " + tool.Cut(words, maxRefusal)}
	}
	return &RunError{Kind: string(r.Finish), Message: what + "."}
}

// tokens names the limit of an answer.
func (t Thinking) tokens() string {
	if t.MaxTokens > 0 {
		return fmt.Sprintf("the limit of %d tokens", t.MaxTokens)
	}
	return "the limit of tokens"
}

// TellCut returns what a model is told whose answer was cut.
func (t Thinking) TellCut() model.Message {
	return model.User("Your answer was cut at " + t.tokens() + ". Answer in fewer words, or do less at once.")
}

// callCut is the result of a call whose arguments are incomplete.
func (t Thinking) callCut() string {
	return "This call was not made: your answer was cut at " + t.tokens() + " in its arguments. Write shorter arguments, or do less at once."
}

// cutError is the failure of a step whose model was cut so many times in a row.
func (t Thinking) cutError(times int) *RunError {
	message := "The answer of the model was cut at " + t.tokens() + "."
	if times > 1 {
		message = fmt.Sprintf("%d answers of the model in a row were cut at %s.", times, t.tokens())
	}
	if t.MaxTokens > 0 {
		return &RunError{Kind: CutOff, Message: message + " Raise maxTokens of the model."}
	}
	return &RunError{Kind: CutOff, Message: message + " It is the model's own limit: maxTokens is not set."}
}

// notMade returns why the calls of an answer are not made; empty: they are.
func (t Thinking) notMade(refused *RunError) string {
	switch {
	case refused != nil:
		return "The answer of the model ended before this call was made."
	case t.Tools == nil:
		return "No tool was offered, so this call was not made."
	}
	return ""
}

// Whole returns the text of an answer, or the failure of one that was cut.
func (t Thinking) Whole(answer *model.Response) (string, error) {
	if answer.Finish == model.FinishLength {
		return "", t.cutError(1)
	}
	return answer.Message.Text(), nil
}

// Append adds what was said to a conversation, unless it is nothing: providers refuse an empty message.
func Append(talk []model.Message, said model.Message) []model.Message {
	if len(said.Parts) == 0 {
		return talk
	}
	return append(talk, said)
}

// Follow makes the calls of an answer, if it has any, see [Step.Act], and reports whether it was cut, see [Step.Cut].
func (s *Step) Follow(ctx context.Context, seq int64, calls []model.ToolCall, t Thinking) (results []tool.Result, cut bool, err error) {
	if len(calls) > 0 {
		if results, err = s.Act(ctx, seq, calls, t); err != nil {
			return nil, false, err
		}
	}
	cut, err = s.Cut(seq, t)
	return results, cut, err
}

// Cut reports whether the answer of a cycle was cut at the limit of tokens, in its text or in the arguments of a call. Its calls have been
// made. The error is a [*RunError] if so many in a row were.
func (s *Step) Cut(seq int64, t Thinking) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := 0
	for s.cycles[seq-int64(times)].isCut() {
		if times++; times == maxCut {
			return true, t.cutError(times)
		}
	}
	return times > 0, nil
}

// isCut reports whether the answer of the cycle was cut.
func (c *cycle) isCut() bool {
	if c == nil || textOf(c.record.FinishReason) != string(model.FinishLength) {
		return false
	}

	for _, call := range c.calls {
		if textOf(call.ErrorKind) == CutOff {
			return true
		}
	}
	answer, err := recorded(&c.record)
	return err == nil && len(answer.Message.Calls()) == 0 // the calls may be the executor's own
}

// isCut reports whether the arguments of the call are incomplete because the answer was cut. No arguments at all are none yet, if nothing
// comes after them.
func (c *calling) isCut() bool {
	s := c.step
	s.mu.Lock()
	defer s.mu.Unlock()
	if textOf(s.cycles[c.seq].record.FinishReason) != string(model.FinishLength) {
		return false
	}

	last := c.index == c.of-1
	return isIncomplete(c.call.Arguments) || last && slices.Contains([]string{"", "{}"}, c.call.Arguments)
}

// isIncomplete reports whether a text is the beginning of JSON, and not all of it.
func isIncomplete(text string) bool {
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	_, err := d.ReadValue()
	return errors.Is(err, io.ErrUnexpectedEOF)
}

// internal is the error kind of a run whose executor failed by itself.
const internal = "internal"

// isException reports whether a failure is one of the model or the program, and not a way in which runs may end.
func isException(kind string) bool {
	switch model.Kind(kind) {
	case model.KindRateLimit, model.KindOverloaded, model.KindTimeout, model.KindNetwork, model.KindServer, model.KindQuota, model.KindAuth,
		model.KindNotFound, model.KindInvalidRequest, model.KindContextLength, model.KindContentFilter, unkept, internal:
		return true
	}
	return false
}

// noteException notes how a step failed, if that was an exception.
func (r *Run) noteException(kind, message string) {
	if isException(kind) {
		r.mu.Lock()
		r.thrown = cmp.Or(r.thrown, message)
		r.mu.Unlock()
	}
}

// exception returns the exception of a run that fails, which may be that of a step; nil: there was none.
func (r *Run) exception(failure *RunError) *string {
	if failure.state() != record.Failed {
		return nil
	}
	r.noteException(failure.Kind, failure.Message)
	r.mu.Lock()
	defer r.mu.Unlock()
	return some(r.redact(r.thrown))
}
