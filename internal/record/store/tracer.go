package store

import (
	"fmt"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/trace/spans"
	"github.com/actlog/actlog/record"
)

// tracer stores spans, and the rows that they mean.
type tracer struct {
	writer   *writer
	queries  *db.Queries
	project  func(traceID string) Projection // nil: the store takes no traces
	quiet    time.Duration                   // see Config.TraceQuiet
	retryFor time.Duration
	memory   traceMemory
	turns    chan struct{} // holds a token for each transaction
}

// incomingTrace is one trace's part of a request. Without chunks it only has the trace's rows
// made, if they are due.
type incomingTrace struct {
	id     string
	chunks [][]byte
	fresh  [][]spans.Span
	spans  int
	bytes  int
}

// trace is a trace while its rows are replaced.
type trace struct {
	in      *incomingTrace
	state   db.TraceStatesRow // as it was read; what becomes of it is stored
	earlier [][]byte          // chunks that are stored already
	before  int               // how many of them its rows were made of
	known   *remembered
	// projection has all spans, if the rows were made of it. goesOn says that it was remembered: then
	// earlier are the chunks behind what it knew, and rows are only those that differ.
	projection Projection
	goesOn     bool
	root       string // of the tree that its rows are in from now on; empty: none
	later      bool   // its rows are not made now
	isNew      bool   // nothing of it is on record
	live       bool   // something of it has not ended
	rows       map[record.Key]*field.Row
	gone       []record.Key        // rows that are to be deleted
	shared     []record.Key        // rows that native records wrote to as well
	skipped    map[record.Key]bool // rows that stay as they are
}

func (t *trace) notDue() bool { return len(t.in.chunks) == 0 && t.state.DueSeconds > 0 }

type badTraceError struct {
	id  string
	err error
}

func (e *badTraceError) Error() string { return fmt.Sprintf("trace %s: %v", e.id, e.err) }
func (e *badTraceError) Unwrap() error { return e.err }
