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
	err := untilDone(func() (more bool, err error) { // false if another server is at it
		err = u.inTurn(ctx, taskSearch, func(tx pgx.Tx) (err error) {
			more, err = u.store.IndexFresh(ctx, tx, store.FreshTexts)
			return err
		})
		return more, err
	})
	return pg.Wrap(err, "index texts")
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
	var slice int32
	err := untilDone(func() (more bool, err error) {
		err = u.inTurn(ctx, taskSearch, func(tx pgx.Tx) (err error) {
			slice, err = u.store.SweepSlices(ctx, tx, slice)
			more = slice > 0 // false if another server is at it
			return err
		})
		return more, err
	})
	return pg.Wrap(err, "sweep the index of the search")
}
