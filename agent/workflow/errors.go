package workflow

import "errors"

var (
	// ErrFailed says that what a facade ran did not succeed.
	ErrFailed = errors.New("failed")
	// ErrUnknown says that nobody can tell whether a call took effect: its worker was lost, or it took too long. It is no
	// ErrFailed. A function that returns an error which wraps it does not fail: the run asks a person whether the call is
	// done, to be tried again, or to be skipped, and calls the function again with the answer. A function may also look
	// for itself what became of the call, and go on.
	ErrUnknown = errors.New("the outcome is unknown")
	// ErrTimedOut says that an event was not sent in time. It is no ErrFailed.
	ErrTimedOut = errors.New("the time is over")
	// ErrInterrupted says that the run does not go on now: it waits for a human, an event or a time, is stopped or
	// paused, or
	// its worker ends. The function is called again when it goes on.
	ErrInterrupted = errors.New("the run does not go on now")
)
