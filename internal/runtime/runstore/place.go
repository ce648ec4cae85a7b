package runstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

// DefaultPriority is that of runs that name none.
const DefaultPriority = 5

// Most says how many root runs go on at once, of those that a worker takes. Nothing is limited that it does not name.
type Most struct {
	// Places are agents and projects by their places: agent:NAME and project:NAME. There is none of [BudgetPlace] once
	// the budget is spent; otherwise it is left out.
	Places map[string]int
	// PerOwner and PerKey are for each owner, and each concurrency key of a project; 0: no limit.
	PerOwner, PerKey int
}

// arrays returns the places, and how many there are of each.
func (m Most) arrays() (places []string, most []int32) {
	places = append([]string{}, slices.Sorted(maps.Keys(m.Places))...)
	for _, place := range places {
		most = append(most, int32(m.Places[place]))
	}
	return places, most
}

// LookAtPlaces lets the next claim look at all that waits for a place. There may be more of them than before, or
// another worker that can take what waits. Trees in which nothing goes on give theirs back.
func (s *Store) LookAtPlaces(ctx context.Context) error {
	q := &pgx.Batch{}
	q.Queue(db.PlaceTurn)
	q.Queue(db.PlaceIdle)
	q.Queue(db.PlaceForget)
	q.Queue(db.PlaceLook)

	if err := s.DB().Send(ctx, q); err != nil {
		return fmt.Errorf("look at the places of runs: %w", pg.Translate(err))
	}
	s.bell.RingNow()
	return nil
}
