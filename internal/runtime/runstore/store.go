// Package runstore owns the runtime's tables and their queries: runs, the workers that hold them, what was asked of
// them, definitions and conversations. What a run did is in the record, which it uses as its neighbour: it writes to
// the tree of a run as the owner of that tree.
package runstore

import (
	"context"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
)

// Store is the record, and the runtime's tables beside it in the same database. It is safe for concurrent use.
type Store struct {
	*store.Store
	// Reader reads runs, and the record, without a bound of memory.
	Reader *Reader

	bell *pg.Bell // rings when a run may be due, or should stop
}

// queries are those of sqlc. They have no state.
var queries = db.New()

// New returns the runtime's tables beside a record, with which it is closed. A process needs one.
func New(s *store.Store) *Store {
	return &Store{Store: s, Reader: NewReader(s.Reader), bell: s.Bell("actlog_run")}
}

// Reader reads runs with what is on record of them, each time in one statement, and the record itself.
type Reader struct{ *store.Reader }

// NewReader returns a reader of runs that reads as a reader of the record does, within the same room.
func NewReader(r *store.Reader) *Reader { return &Reader{r} }

// read asks a query of sqlc, see [pg.Read].
func read[P, R any](
	ctx context.Context, d *pg.DB, query func(context.Context, db.DBTX, P) (R, error), params P,
) (R, error) {
	return pg.Read(ctx, d, func() (R, error) { return query(ctx, d, params) })
}

// all returns what each row is.
func all[Row, T any](rows []Row, of func(Row) T) []T {
	out := make([]T, len(rows))
	for i, row := range rows {
		out[i] = of(row)
	}
	return out
}
