package runstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

// Ask is what a worker asks of a limit that all workers share.
type Ask struct {
	Limit string // its name
	Most  int64  // of all workers together
	// Keep is how many units the worker keeps, if it is granted no more: what it has beyond them is given back.
	Keep int64
	// Wanted is how many it needs now, Liked how many it would like to have at hand.
	Wanted, Liked int64
	// Lasting says that what is used counts for a minute, also when the worker is gone.
	Lasting bool
	// Whole says that a part of what it wants is of no use.
	Whole bool
}

// Grant is how much of a limit is a worker's own until it asks again, or is declared dead. It gives back what it has
// beyond Aim when it can.
type Grant struct {
	Limit      string
	Units, Aim int64
}

// Grants asks for parts of limits, in one message to Postgres. round counts how often a worker has asked: what it asked
// earlier and arrives later changes nothing. Nothing is granted to a worker that was declared dead.
func (s *Store) Grants(ctx context.Context, workerID string, round int64, asks []Ask) ([]Grant, error) {
	names := make([]string, len(asks))
	lasting, whole := make([]bool, len(asks)), make([]bool, len(asks))
	most, keep := make([]int64, len(asks)), make([]int64, len(asks))
	wanted, liked := make([]int64, len(asks)), make([]int64, len(asks))
	for i, a := range asks {
		names[i] = a.Limit
		lasting[i], whole[i] = a.Lasting, a.Whole
		most[i], keep[i] = a.Most, a.Keep
		wanted[i], liked[i] = a.Wanted, a.Liked
	}

	var granted []Grant
	q := &pgx.Batch{}
	q.Queue(db.GrantTurn)
	asked := q.Queue(db.GrantRound, names, most, keep, wanted, liked, lasting, whole, workerID, round)
	asked.Query(func(rows pgx.Rows) (err error) {
		granted, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Grant])
		return err
	})

	if err := s.DB().Send(ctx, q); err != nil {
		return nil, fmt.Errorf("ask for parts of the limits of all workers: %w", pg.Translate(err))
	}
	return granted, nil
}

// GrantsOfGone returns the workers that are gone and have used what counts for a minute.
func (s *Store) GrantsOfGone(ctx context.Context) ([]string, error) {
	workers, err := queries.GrantGone(ctx, s.DB())
	if err != nil {
		return nil, fmt.Errorf("read what workers used that are gone: %w", pg.Translate(err))
	}
	return workers, nil
}

// ForgetGrants deletes what workers had that are gone. What counts for a minute stays, but for those of whom that is
// over.
func (s *Store) ForgetGrants(ctx context.Context, over []string) error {
	if err := queries.GrantForget(ctx, s.DB(), append([]string{}, over...)); err != nil {
		return fmt.Errorf("forget what workers had that are gone: %w", pg.Translate(err))
	}
	return nil
}
