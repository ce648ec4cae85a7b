package store

import (
	"github.com/actlog/actlog/internal/trace/spans"
	"github.com/actlog/actlog/record"
)

// Projection makes the rows of one trace while its spans arrive. Rows are of the root plan that the
// trace's id names.
type Projection interface {
	// Add adds spans: of chunks that were kept, and some that came just now. It must not change them.
	// After an error the projection is of no more use.
	Add(stored [][]byte, fresh [][]spans.Span) error
	// Changes returns the rows that differ from those that it returned before, and the keys of those
	// that are gone. The first time, all rows differ.
	Changes() (changed []record.Change, gone []record.Key)
	// Close says that nothing more is expected: the next Changes take that into account.
	Close()
	// Live reports whether some row has not ended.
	Live() bool
	// Size estimates the memory that the projection takes, in bytes.
	Size() int
}

// Projecting makes a [Config.Project] of a function that returns projections of one type.
func Projecting[P Projection](projection func(traceID string) P) func(traceID string) Projection {
	return func(traceID string) Projection { return projection(traceID) }
}
