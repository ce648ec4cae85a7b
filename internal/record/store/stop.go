package store

import (
	"context"
	"fmt"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// DeletePlan deletes the whole tree of a root plan, live or not, and nothing else. Its runs are stopped first: once
// DeletePlan returns, no worker that lives does anything for them. Later changes to the tree make it again, as a
// placeholder. The error is [record.ErrNotFound] if there is no such plan, a [*record.InvalidError] if it is a
// sub-plan, and [record.ErrUnavailable] after RetryFor, also if a worker is not done with a run by then.
func (s *Store) DeletePlan(ctx context.Context, rootPlanID string) error {
	if err := s.stopTree(ctx, rootPlanID); err != nil {
		return fmt.Errorf("delete plan %s: %w", rootPlanID, err)
	}
	return s.deletePlan(ctx, rootPlanID)
}

// stopEvery is how often it is looked whether the runs of a tree have stopped.
const stopEvery = 50 * time.Millisecond

// stopTree asks the runs of a tree to stop, and returns when no worker holds any of them. One that is claimed later
// is only ended.
func (s *Store) stopTree(ctx context.Context, rootPlanID string) error {
	for deadline := time.Now().Add(s.config.RetryFor); ; {
		runs, err := s.cancelTree(ctx, rootPlanID)
		if err != nil || runs.Held == 0 {
			return err
		}
		if !time.Now().Before(deadline) {
			return fmt.Errorf("%w: a worker is not done with %d runs of the tree, which are to stop", record.ErrUnavailable,
				runs.Held)
		}
		if err := pg.Pause(ctx, stopEvery); err != nil {
			return err
		}
	}
}

// cancelTree asks the runs of a tree to stop, also those that began since it was last called, and returns how many
// have not ended.
func (s *Store) cancelTree(ctx context.Context, rootPlanID string) (runs db.RunHeldRow, err error) {
	runs, err = pg.Read(ctx, s.db, func() (db.RunHeldRow, error) { return s.queries.RunHeld(ctx, s.db, rootPlanID) })
	if err != nil || runs.Open == 0 {
		return runs, err
	}

	cancelled := int64(0)
	err = s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		if _, err := tx.Exec(ctx, db.PlanLock, []string{rootPlanID}); err != nil {
			return err
		}
		if cancelled, err = s.queries.RunCancelTree(ctx, tx, rootPlanID); err != nil {
			return err
		}
		runs, err = s.queries.RunHeld(ctx, tx, rootPlanID)
		return err
	})
	if err == nil && cancelled > 0 {
		s.runs.RingNow()
	}
	return runs, err
}
