package engine

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/record"
)

// Result is how a run ended.
type Result struct {
	Summary             string // what the run answers; one that failed may say here how far it came
	ConversationWritten bool   // the executor itself added the messages to the conversation
}

// RunError ends a step or a run before its time.
type RunError struct {
	Kind    string // a short class of the error, to count by
	Message string
	// State is that of the step, such as SKIPPED, or of the run, such as CANCELLED; empty: FAILED.
	State record.State
}

func (f *RunError) Error() string { return f.Message }

// state is how what the error ends has ended.
func (f *RunError) state() record.State { return cmp.Or(f.State, record.Failed) }

// Fail returns the error that ends a step or a run with a message.
func Fail(kind, format string, args ...any) *RunError {
	return &RunError{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// OfRun reports whether an error ends the whole run, and not one step: one of the handle, or a limit of the run.
func OfRun(err error) bool {
	failure, ok := errors.AsType[*RunError](err)
	return !ok || strings.HasPrefix(failure.Kind, "limit_")
}

// Error kinds.
const (
	modelError = "model"    // of a model that failed in a way of its own, or whose answer cannot be kept
	internal   = "internal" // of a run whose executor failed by itself
)

// isException reports whether a failure is one of the model or the program, and not a way in which runs may end.
func isException(kind string) bool {
	switch model.Kind(kind) {
	case model.KindRateLimit, model.KindOverloaded, model.KindTimeout, model.KindNetwork, model.KindServer,
		model.KindQuota, model.KindAuth,
		model.KindNotFound, model.KindInvalidRequest, model.KindContextLength, model.KindContentFilter, modelError, internal:
		return true
	}
	return false
}
