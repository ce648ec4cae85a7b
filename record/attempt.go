package record

import "time"

// Attempt is one attempt at a step, a cycle or a tool call: how it went.
type Attempt struct {
	Number int64 // from 1
	State  State
	// StartTime and EndTime are nil if they were not reported. Those of a cycle are the start of
	// its thinking and the latest of its ends.
	StartTime, EndTime      *time.Time
	ErrorMessage, ErrorKind *string
	// Truncated names the fields that were cut to their limit, never nil. The error is bounded
	// by [MaxAttemptTextBytes].
	Truncated []string
}
