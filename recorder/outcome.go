package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/actlog/actlog/record"
)

// The error kinds. An error with a method ErrorKind() string, anywhere in its chain, names its own
// kind instead.
const (
	// ErrorKindCanceled: the error is [context.Canceled]; the state is CANCELLED.
	ErrorKindCanceled = "canceled"
	// ErrorKindTimeout: the error is [context.DeadlineExceeded], or its method Timeout() bool
	// returns true; the state is FAILED.
	ErrorKindTimeout = "timeout"
	// ErrorKindPanic: Close found its goroutine panicking; the state is FAILED.
	ErrorKindPanic = "panic"
	// ErrorKindNotEnded: Close found that nobody had recorded the end; the state is INTERRUPTED.
	ErrorKindNotEnded = "not_ended"
	// ErrorKindOther: any other error; the state is FAILED.
	ErrorKindOther = "error"
)

var errNotEnded = errors.New("closed before its end was recorded")

type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// outcome is how something ended, as its row shows it.
type outcome struct {
	state         record.State
	message, kind *string
}

// outcomeOf judges an end: by the given state if there is one, else by the error.
func outcomeOf(given record.State, err error) outcome {
	if err == nil {
		return outcome{state: cmp.Or(given, record.Completed)}
	}
	state, kind := judge(err)
	return outcome{state: cmp.Or(given, state), message: new(errorText(err)), kind: &kind}
}

// errorText returns the text of a caller's error. If its method panics, as that of a nil pointer
// may, fmt says so: no agent breaks because it is recorded.
func errorText(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprint(err)
		}
	}()
	return err.Error()
}

func judge(err error) (state record.State, kind string) {
	defer func() { _ = recover() }() // see errorText; what was found before the panic stands
	var panicked *panicError
	var kinded interface{ ErrorKind() string }
	var timeout interface{ Timeout() bool }

	state, kind = record.Failed, ErrorKindOther
	switch {
	case errors.As(err, &panicked):
		return record.Failed, ErrorKindPanic
	case errors.Is(err, errNotEnded):
		return record.Interrupted, ErrorKindNotEnded
	case errors.Is(err, context.Canceled):
		state, kind = record.Cancelled, ErrorKindCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		kind = ErrorKindTimeout
	}

	if errors.As(err, &kinded) && kinded.ErrorKind() != "" {
		kind = kinded.ErrorKind()
	}
	return state, kind
}

func invalidState(what action, reason string, state record.State) error {
	return fmt.Errorf("%s: %w", what, &record.InvalidError{
		Code: record.CodeInvalidValue, Field: "state", Reason: fmt.Sprintf(reason, string(state)),
	})
}

// failState makes a Fail without an error a failure all the same.
func failState(err error) record.State {
	if err == nil {
		return record.Failed
	}
	return ""
}

// failed is what Fail returns: the error that it was given, joined by the recorder's own.
func failed(err, recording error) error {
	if recording == nil {
		return err
	}
	return errors.Join(err, recording)
}
