package engine

import (
	"cmp"
	"errors"
	"strings"

	"github.com/actlog/actlog/record"
)

// Result is how a run ended.
type Result struct {
	Summary string // what the run answers; one that failed may say here how far it came
	Said    bool   // the executor itself added what was said to the conversation
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

// OfRun reports whether an error ends the whole run, and not one step: one of the handle, or a limit of the run.
func OfRun(err error) bool {
	failure, ok := errors.AsType[*RunError](err)
	return !ok || strings.HasPrefix(failure.Kind, "limit_") || failure.Kind == recordMismatch
}

// recordMismatch is the error kind of a run whose code does other things than are on record.
const recordMismatch = "record_mismatch"
