package record

import (
	"errors"
	"fmt"
)

// ErrNotFound means that nothing with that id is on record.
var ErrNotFound = errors.New("not found")

// ErrUnavailable means that the record cannot be reached right now. The same call may succeed
// later. The write may or may not have been committed; repeating it does no harm.
var ErrUnavailable = errors.New("record unavailable")

// ErrDiskFull means that the database has no room for more. It wraps [ErrUnavailable]:
// writes go on when there is room.
var ErrDiskFull = fmt.Errorf("%w: the database's disk is full", ErrUnavailable)

// ErrTooSlow means that a write was not on record in time, although the database may be well: it, or
// the server, has much to do. It wraps [ErrUnavailable].
var ErrTooSlow = fmt.Errorf("%w: it took too long", ErrUnavailable)

// ErrStarting means that the database takes no connections yet, or none any more: it starts, recovers or stops. It
// wraps [ErrUnavailable].
var ErrStarting = fmt.Errorf("%w: the database is starting or stopping", ErrUnavailable)

// ErrTooManyClients means that the database gives out no more connections, and that none that is held became free in
// time. It wraps [ErrUnavailable].
var ErrTooManyClients = fmt.Errorf("%w: the database has too many clients", ErrUnavailable)

// LockedError means that another session of the database holds a row of a plan's tree. It
// wraps [ErrUnavailable]: writes go on when the row is released.
type LockedError struct {
	// RootPlanID is the plan; empty if it is not known which.
	RootPlanID string
}

func (e *LockedError) Error() string {
	if e.RootPlanID == "" {
		return "another session of the database holds a lock on what is needed"
	}
	return fmt.Sprintf("a row of plan %s is locked by another session of the database", e.RootPlanID)
}

// Unwrap returns [ErrUnavailable].
func (e *LockedError) Unwrap() error { return ErrUnavailable }

// ErrEnded means that something was to start, or to change its state, in a plan, step, cycle or
// tool call that has ended. The error that wraps it names which.
var ErrEnded = errors.New("has ended")

// ErrClosed means that the record was closed by its owner.
var ErrClosed = errors.New("record closed")

// Code is the reason why a record was refused.
type Code string

// The codes, as on the wire.
const (
	CodeMalformed       Code = "malformed"
	CodeUnknownKind     Code = "unknown_kind"
	CodeMissingField    Code = "missing_field"
	CodeUnknownField    Code = "unknown_field"
	CodeInvalidValue    Code = "invalid_value"
	CodeInvalidRelation Code = "invalid_relation"
	// CodeOwnedByRuntime means that a record names a plan that the runtime runs. Only the runtime writes to
	// the tree of such a plan.
	CodeOwnedByRuntime Code = "owned_by_runtime"
)

// InvalidError says which field of a record is at fault and why. Field is empty if no single
// field is.
type InvalidError struct {
	Code   Code
	Field  string
	Reason string
}

func (e *InvalidError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s: %s", e.Code, e.Reason)
	}
	return fmt.Sprintf("%s: %s %s", e.Code, e.Field, e.Reason)
}

// Result says how many changes of a list are on record, and which were refused.
type Result struct {
	Accepted int
	Rejected []Rejection
}

// Rejection names a refused change by its index in the list.
type Rejection struct {
	Index int
	Err   *InvalidError
}
