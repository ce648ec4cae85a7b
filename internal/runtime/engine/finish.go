package engine

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
)

// CutOff is the error kind of what was cut at the limit of tokens: a call whose arguments were, and a step whose model
// was cut again and again.
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
		return Fail(string(r.Finish), "%s: %s", what, tool.Cut(words, maxRefusal))
	}
	return Fail(string(r.Finish), "%s.", what)
}

// limitOfTokens names the limit of an answer, which is not known if it is 0.
func limitOfTokens(most int64) string {
	if most > 0 {
		return fmt.Sprintf("the limit of %d tokens", most)
	}
	return "the limit of tokens"
}

// callCut is the result of a call whose arguments are incomplete.
func callCut(most int64) string {
	return "This call was not made: your answer was cut at " + limitOfTokens(most) +
		" in its arguments. Write shorter arguments, or do less at once."
}

// cutError is the failure of a step whose model was cut so many times in a row.
func cutError(times int, most int64) *RunError {
	message := "The answer of the model was cut at " + limitOfTokens(most) + "."
	if times > 1 {
		message = fmt.Sprintf("%d answers of the model in a row were cut at %s.", times, limitOfTokens(most))
	}
	return &RunError{Kind: CutOff, Message: message + " Set or raise maxTokens of the model."}
}

// isIncomplete reports whether a text is the beginning of JSON, and not all of it.
func isIncomplete(text string) bool {
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	_, err := d.ReadValue()
	return errors.Is(err, io.ErrUnexpectedEOF)
}
