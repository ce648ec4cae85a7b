package runstore

import (
	"context"
	"fmt"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// DeletePlan is [store.Store.DeletePlan] of a tree whose runs are stopped first: once it returns, no worker that lives
// does anything for them. The error is [record.ErrUnavailable], too, if a worker is not done with a run after RetryFor.
func (s *Store) DeletePlan(ctx context.Context, rootPlanID string) error {
	if err := s.stopTree(ctx, rootPlanID); err != nil {
		return fmt.Errorf("delete plan %s: %w", rootPlanID, err)
	}
	return s.Store.DeletePlan(ctx, rootPlanID)
}

// stopEvery is how often it is looked whether the runs of a tree have stopped.
const stopEvery = 50 * time.Millisecond

// stopTree asks the runs of a tree to stop, and returns when no worker holds any of them. One that is claimed later
// is only ended.
func (s *Store) stopTree(ctx context.Context, rootPlanID string) error {
	for deadline := time.Now().Add(s.RetryFor()); ; {
		runs, err := s.cancelTree(ctx, rootPlanID)
		if err != nil || runs.Held == 0 {
			return err
		}
		if !time.Now().Before(deadline) {
			return fmt.Errorf("%w: a worker is not done with %d runs of the tree, which are to stop",
				record.ErrUnavailable, runs.Held)
		}
		if err := pg.Pause(ctx, stopEvery); err != nil {
			return err
		}
	}
}

// cancelTree asks the runs of a tree to stop, also those that began since it was last called, and returns how many
// have not ended.
func (s *Store) cancelTree(ctx context.Context, rootPlanID string) (runs db.RunHeldRow, err error) {
	runs, err = read(ctx, s.DB(), queries.RunHeld, rootPlanID)
	if err != nil || runs.Open == 0 {
		return runs, err
	}

	cancelled := int64(0)
	err = s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.Lock(ctx, rootPlanID); err != nil {
			return err
		}
		if cancelled, err = queries.RunCancelTree(ctx, tx, rootPlanID); err != nil {
			return err
		}
		runs, err = queries.RunHeld(ctx, tx, rootPlanID)
		return err
	})
	if err == nil && cancelled > 0 {
		s.bell.RingNow()
	}
	return runs, err
}
