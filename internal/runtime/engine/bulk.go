package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// watchBulk asks the runs of jobs, as they are due, until ctx ends.
func (e *Engine) watchBulk(ctx context.Context) {
	for {
		if pg.Pause(ctx, bulkScans*e.config.Scan) != nil {
			return
		}
		for e.bulkTurn(ctx) {
			continue
		}
	}
}

const (
	// bulkScans is how many times a worker looks for runs before it looks for jobs again.
	bulkScans = 2
	// bulkAtOnce is how many runs of a job are asked side by side.
	bulkAtOnce = 8
)

// bulkTurn asks the next runs of a job that is due, and reports whether there was one.
func (e *Engine) bulkTurn(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, e.config.Lease)
	defer cancel()
	turn, err := e.store.TakeBulk(limited, bulkAtOnce)
	if err == nil && turn.ID == "" {
		return false
	}

	if err == nil {
		err = e.askAll(ctx, turn)
	}
	if err == nil {
		err = e.store.EndBulk(ctx, turn.ID)
	}
	if err != nil && ctx.Err() == nil { // a later turn has what remains
		e.config.Logger.Warn("a job cannot go on now; it is tried again", "job", turn.ID, "error", err)
	}
	return err == nil
}

// askAll asks the runs of a turn. The error is one that says nothing about a run: those that were not asked are left.
func (e *Engine) askAll(ctx context.Context, turn runstore.BulkTurn) error {
	var limits NewLimits
	if turn.Limits != nil {
		if err := json.Unmarshal(turn.Limits, &limits); err != nil {
			return fmt.Errorf("read the limits of job %s: %w", turn.ID, err)
		}
	}

	errs := make([]error, len(turn.Runs))
	next := make(chan int)
	var asking sync.WaitGroup

	for range min(bulkAtOnce, len(turn.Runs)) {
		asking.Go(func() {
			for i := range next {
				errs[i] = e.askOne(ctx, turn, turn.Runs[i], limits)
			}
		})
	}
	for i := range turn.Runs {
		next <- i
	}

	close(next)
	asking.Wait()
	return errors.Join(errs...)
}

// askOne asks a run of a job, once, and notes what came of it.
func (e *Engine) askOne(ctx context.Context, turn runstore.BulkTurn, run runstore.BulkRun, limits NewLimits) error {
	by := runstore.Who{Name: turn.Starter, Claim: turn.Claim}
	key := derive(turn.ID+"-", run.PlanID)
	var err error
	switch turn.Action {
	case runstore.BulkRetry:
		err = e.Retry(ctx, RetryRequest{PlanID: run.PlanID, Limits: limits, By: by, IdempotencyKey: key})
	case runstore.BulkAgain:
		_, err = e.Again(ctx, AgainRequest{
			PlanID: run.PlanID, Limits: limits, By: by, Starter: turn.Starter, IdempotencyKey: key,
		})
	case runstore.BulkStop:
		err = e.store.ControlBy(ctx, run.PlanID, runstore.Stop, by)
		if errors.Is(err, runstore.ErrEnded) { // perhaps because it was asked before
			err = nil
		}
	}

	if errors.Is(err, record.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	refused := ""
	if err != nil {
		refused = err.Error()
	}
	return e.store.HandledBulk(ctx, turn.ID, run.Place, refused)
}
