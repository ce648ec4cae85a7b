package flow

import (
	"errors"

	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/engine"
)

// failed is what did not succeed, with its error kind.
type failed struct {
	kind, message string
}

func (f *failed) Error() string { return f.message }

func (f *failed) Unwrap() error { return workflow.ErrFailed }

// timedOutError is an event that was not sent in time.
type timedOutError struct{ key string }

func (e *timedOutError) Error() string { return "event " + e.key + ": " + workflow.ErrTimedOut.Error() }

func (*timedOutError) Unwrap() error { return workflow.ErrTimedOut }

// unknown is a call whose outcome nobody can tell.
type unknown struct{ *engine.UndecidedError }

func (*unknown) Unwrap() error { return workflow.ErrUnknown }

// kindOf returns the error kind of a function that returned an error.
func kindOf(err error) string {
	if failure, ok := errors.AsType[*failed](err); ok {
		return failure.kind
	}
	if errors.Is(err, workflow.ErrTimedOut) {
		return engine.WaitTimedOut
	}
	return "workflow"
}
