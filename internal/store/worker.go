package store

import (
	"context"
	"fmt"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/pg"
)

// Worker is a process that carries runs.
type Worker struct {
	ID       string
	Host     string
	Release  string
	Provides []string // what runs may need of it
	Slots    int      // how many runs it carries at once
}

// AddWorker registers a worker, whose runs are its own for as long as the lease.
func (s *Store) AddWorker(ctx context.Context, w Worker, lease time.Duration) error {
	err := s.queries.WorkerAdd(ctx, s.db, db.WorkerAddParams{
		WorkerID: w.ID, Host: w.Host, Release: w.Release, Provides: w.Provides, Slots: int32(w.Slots), LeaseSeconds: lease.Seconds(),
	})
	if err == nil {
		err = s.queries.WorkerForget(ctx, s.db)
	}
	if err != nil {
		return fmt.Errorf("register worker %s: %w", w.ID, pg.Translate(err))
	}
	return nil
}

// Wanted is what a run should do that a worker holds.
type Wanted struct {
	RootPlanID, PlanID string
	Epoch              int64
	Desired            Desired
}

// Beat extends the lease of a worker, and returns which of its runs should do other than run. The
// error is [ErrLeaseLost] if the lease is over.
func (s *Store) Beat(ctx context.Context, w Worker, lease time.Duration) ([]Wanted, error) {
	beaten, err := s.queries.WorkerBeat(ctx, s.db, db.WorkerBeatParams{WorkerID: w.ID, Provides: w.Provides, LeaseSeconds: lease.Seconds()})
	if err != nil {
		return nil, fmt.Errorf("extend the lease of worker %s: %w", w.ID, pg.Translate(err))
	}
	if beaten == 0 {
		return nil, ErrLeaseLost
	}
	return s.Wanted(ctx, w.ID)
}

// Wanted returns which runs of a worker should do other than run.
func (s *Store) Wanted(ctx context.Context, workerID string) ([]Wanted, error) {
	rows, err := s.queries.RunWanted(ctx, s.db, workerID)
	if err != nil {
		return nil, fmt.Errorf("look what worker %s should stop: %w", workerID, pg.Translate(err))
	}
	wanted := make([]Wanted, len(rows))
	for i, r := range rows {
		wanted[i] = Wanted{RootPlanID: r.RootPlanID, PlanID: r.PlanID, Epoch: r.Epoch, Desired: Desired(r.Desired)}
	}
	return wanted, nil
}

// StopWorker hands back the runs of a worker, so that others go on with them at once, and ends its
// lease.
func (s *Store) StopWorker(ctx context.Context, workerID string) error {
	err := s.queries.RunHandBack(ctx, s.db, workerID)
	if err == nil {
		err = s.queries.WorkerStop(ctx, s.db, workerID)
	}
	if err != nil {
		return fmt.Errorf("stop worker %s: %w", workerID, pg.Translate(err))
	}
	s.runs.RingNow()
	return nil
}
