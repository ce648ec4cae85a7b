package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// WriteOwned writes changes to the tree of a root plan for who owns it, in one transaction and one round trip. locked
// queues what comes once the root plan is locked and before any row: it fails unless the caller is the owner. written
// queues what comes after all rows. Both may be called again.
//
// The error is a [*record.InvalidError] if a change is not valid: then nothing is written. It is that of Postgres if a
// statement of the caller fails, else one of [Store.Write]. After an error of the last kind it is not known whether it
// was written; to do the same again does no harm.
func (s *Store) WriteOwned(
	ctx context.Context, rootPlanID string, changes []record.Change, locked, written func(*pgx.Batch),
) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.goroutines.Done()

	entries, _ := s.prepare(changes)
	result, err := s.result(entries)
	switch {
	case err != nil:
		return err
	case len(result.Rejected) > 0:
		return result.Rejected[0].Err
	}

	b := newBatch(entries)
	if len(entries) == 0 {
		b.placeholder(rootKey(rootPlanID))
		b.touched.Add(rootPlanID, record.KindPlan)
	}
	b.locked, b.written = locked, written

	err = s.ladder.try(ctx, retryFor(s.config.RetryFor), func(g givenUp) error { return s.sender.send(ctx, b, g, 0) })
	if ctx.Err() != nil {
		return err
	}
	return pg.Translate(err)
}
