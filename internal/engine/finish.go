package engine

import (
	"cmp"
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

// MaxCut is how many answers in a row may be cut.
const MaxCut = 3

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

// CutError is the failure of a step whose model was cut so many times in a row.
func (t Thinking) CutError(times int) *RunError {
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
		return "", t.CutError(1)
	}
	return answer.Message.Text(), nil
}

// WasCut reports whether the answer of a cycle was cut at the limit of tokens, in its text or in the arguments of a call. The calls have
// been made.
func (s *Step) WasCut(seq int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cycles[seq]
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

// isCut reports whether the arguments of a call are incomplete because the answer was cut. No arguments at all are none yet, if nothing
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
