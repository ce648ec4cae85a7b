package workflow

import "errors"

var (
	// ErrFailed says that what a facade ran did not succeed.
	ErrFailed = errors.New("failed")
	// ErrInterrupted says that the run does not go on now: it waits for a human, is stopped or paused, or
	// its worker ends. The function is called again when it goes on.
	ErrInterrupted = errors.New("the run does not go on now")
)
