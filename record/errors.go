package record

import (
	"errors"
	"fmt"
)

// ErrNotFound says that nothing of that id is on record.
var ErrNotFound = errors.New("not found")

// ErrUnavailable says that the record cannot be reached right now; the same call
// may succeed later. Nothing that it was given is known to be on record.
var ErrUnavailable = errors.New("record unavailable")

// ErrClosed says that the record was closed by its owner.
var ErrClosed = errors.New("record closed")

// Code names why a record was refused.
type Code string

// The codes, as they stand on the wire.
const (
	CodeMalformed       Code = "malformed"
	CodeUnknownKind     Code = "unknown_kind"
	CodeMissingField    Code = "missing_field"
	CodeUnknownField    Code = "unknown_field"
	CodeInvalidValue    Code = "invalid_value"
	CodeInvalidRelation Code = "invalid_relation"
)

// InvalidError says which field of a record is at fault and why. Field is empty
// where the record as a whole is.
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

// Result says what became of a list of changes: how many are on record, and
// which were refused.
type Result struct {
	Accepted int
	Rejected []Rejection
}

// Rejection names a refused change by its index in the list.
type Rejection struct {
	Index int
	Err   *InvalidError
}
