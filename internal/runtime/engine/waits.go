package engine

import "errors"

// Waits reports whether an error of a handle says that the run waits, for a human or for another run.
func Waits(err error) bool {
	_, ok := errors.AsType[*parkedError](err)
	return ok
}

// Worst returns the error to act on of work that was done side by side: any but that the run waits, else that it waits,
// until the earliest of its times.
func Worst(errs ...error) error { return worst(errs) }
