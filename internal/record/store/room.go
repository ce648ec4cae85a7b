package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/pg"
)

// Room is asked for the memory that rows take while they are read, in bytes. An error ends the
// read and is its error.
type Room func(bytes int64) error

const (
	// roomStep is how much is asked for at once.
	roomStep = 64 << 10
	// rowOverhead is what the structs of a row take in addition to its values.
	rowOverhead = 640
)

// counted runs a query whose rows ask for room.
func counted(ctx context.Context, d *pg.DB, room Room, sql string, args ...any) (*countedRows, error) {
	ctx, cancel := context.WithCancel(ctx)
	rows, err := d.Query(ctx, sql, args...)
	if err != nil {
		cancel()
		return nil, err
	}
	return &countedRows{Rows: rows, cancel: cancel, room: room, overhead: rowOverhead}, nil
}

// countedRows are [pgx.Rows] that ask for the room that they take. Rows that were refused room are not read to their
// end.
type countedRows struct {
	pgx.Rows
	cancel   context.CancelFunc
	room     Room
	overhead int64 // what a row takes in addition to its values
	pending  int64 // not asked for yet
	err      error // of room
}

func (r *countedRows) Next() bool {
	if r.err != nil || !r.Rows.Next() {
		return false
	}
	if r.room == nil {
		return true
	}

	r.pending += r.overhead
	for _, value := range r.RawValues() {
		r.pending += int64(len(value))
	}
	if r.pending >= roomStep {
		r.err = r.room(r.pending)
		r.pending = 0
	}
	return r.err == nil
}

func (r *countedRows) Close() {
	if r.err != nil {
		r.cancel()
	}
	r.Rows.Close()
	r.cancel()
}

func (r *countedRows) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.Rows.Err()
}
