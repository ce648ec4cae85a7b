package store

import (
	"context"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

// Position is the place of an item in the list of what stands beside a plan. The
// zero value is before the first. Lists that are not in order of time use ID only.
type Position struct {
	Time   time.Time
	Number int64
	ID     string
}

// Item is something that stands beside a plan.
type Item[T any] struct {
	ID        int64
	Record    T
	Truncated []string
	Position  Position
}

// pageBytes bounds the texts of a page: items may hold megabytes each.
const pageBytes = 16 << 20

// Nothing that is told is later, or of a higher number: see the queries.
var untold = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

const unnumbered = 1<<31 - 1

// page reads up to limit items behind a position; more says that others follow.
// [record.ErrNotFound] where there is no such plan.
func page[R, T any](ctx context.Context, s *Store, limit int, query func(conn db.DBTX, size int32) ([]R, error), item func(*R) (_ Item[T], found int64)) (items []Item[T], more bool, err error) {
	rows, err := read(ctx, s, func(conn db.DBTX) ([]R, error) { return query(conn, int32(limit)+1) })
	switch {
	case err != nil:
		return nil, false, err
	case len(rows) == 0:
		return nil, false, record.ErrNotFound
	}
	for i := range rows {
		it, found := item(&rows[i])
		if found == 0 { // the plan alone
			return nil, false, nil
		}
		if len(items) == limit {
			return items, true, nil
		}
		items = append(items, it)
		more = found > int64(len(items))
	}
	return items, more, nil
}
