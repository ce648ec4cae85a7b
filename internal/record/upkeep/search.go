package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
)

// indexEvery is how often it is looked whether there are texts to be indexed.
const indexEvery = 2 * time.Second

// maintainIndex keeps the index of the search up to date until ctx ends.
func (u *Upkeep) maintainIndex(ctx context.Context) {
	var due time.Time
	for {
		pause, err := indexEvery, u.indexFresh(ctx)
		if now := time.Now(); err == nil && !now.Before(due) {
			if err = u.indexMissing(ctx); err == nil {
				due = now.Add(time.Hour)
			}
		}

		if err != nil && ctx.Err() == nil {
			u.counters.failures.Add(1)
			u.log.Warn("indexing for the search failed; it is tried again in a minute", "error", err)
			pause = time.Minute
		}
		if pg.Pause(ctx, pause) != nil {
			return
		}
	}
}

// indexFresh moves texts that were written lately into the index, if there are many. A search reads
// them one by one until then.
func (u *Upkeep) indexFresh(ctx context.Context) error {
	for more := true; more; {
		more = false // another server may be at it
		err := u.inTurn(ctx, taskSearch, func(tx pgx.Tx) (err error) {
			more, err = u.store.IndexFresh(ctx, tx, store.FreshTexts)
			return err
		})
		if err != nil {
			return fmt.Errorf("index texts: %w", err)
		}
	}
	return nil
}

// indexMissing adds the runs to the index that the search does not know, and removes what is left of
// deleted ones. It rests as long as it works, to leave room for others, and goes on with fresh texts
// meanwhile.
func (u *Upkeep) indexMissing(ctx context.Context) error {
	for after := new(store.Beginning()); after != nil; {
		next, start := (*store.PlanCursor)(nil), u.now() // another server may be at it
		err := u.inTurn(ctx, taskSearch, func(tx pgx.Tx) (err error) {
			next, err = u.store.IndexMissing(ctx, tx, *after)
			return err
		})
		if err != nil {
			return fmt.Errorf("index runs from before: %w", err)
		}

		if after = next; after == nil {
			break
		}
		if err := u.pause(ctx, u.now().Sub(start)); err != nil {
			return err
		}
		if err := u.indexFresh(ctx); err != nil {
			return err
		}
	}
	return u.sweepIndex(ctx)
}

// sweepIndex deletes what is in the index of deleted runs only.
func (u *Upkeep) sweepIndex(ctx context.Context) error {
	for slice, more := int32(0), true; more; more = slice > 0 {
		next := int32(0) // another server may be at it
		err := u.inTurn(ctx, taskSearch, func(tx pgx.Tx) (err error) {
			next, err = u.store.SweepSlices(ctx, tx, slice)
			return err
		})
		if err != nil {
			return fmt.Errorf("sweep the index of the search: %w", err)
		}
		slice = next
	}
	return nil
}
