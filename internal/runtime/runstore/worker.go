package runstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

// Worker is a process that carries runs.
type Worker struct {
	ID       string
	Host     string
	Release  string
	Provides []string // what runs may need of it
	Slots    int      // how many runs it carries at once
	// Age is how long its program has run, by a clock that nobody sets. Only differences count.
	Age time.Duration
}

// AddWorker registers a worker, whose runs are its own for as long as the lease. It returns the time of the
// database.
func (s *Store) AddWorker(ctx context.Context, w Worker, lease time.Duration) (now time.Time, err error) {
	now, err = queries.WorkerAdd(ctx, s.DB(), db.WorkerAddParams{
		WorkerID: w.ID, Host: w.Host, Release: w.Release, Provides: w.Provides, Slots: int32(w.Slots),
		Age: w.Age.Seconds(), LeaseSeconds: lease.Seconds(),
	})

	if err == nil {
		err = queries.WorkerForget(ctx, s.DB())
	}
	if err == nil {
		err = queries.GrantForgetOld(ctx, s.DB())
	}
	if err != nil {
		return now, fmt.Errorf("register worker %s: %w", w.ID, pg.Translate(err))
	}
	return now, nil
}

// LiveWorker is a worker whose lease has not ended.
type LiveWorker struct {
	Worker
	StartedAt time.Time
}

// maxLiveWorkers bounds the workers that are listed.
const maxLiveWorkers = 1_000

// LiveWorkers returns the workers that live, the oldest first, 1,000 of them at most.
func (s *Store) LiveWorkers(ctx context.Context) ([]LiveWorker, error) {
	rows, err := read(ctx, s.Reader.DB(), queries.WorkerLive, maxLiveWorkers)
	if err != nil {
		return nil, fmt.Errorf("read the live workers: %w", err)
	}

	return all(rows, func(row db.WorkerLiveRow) LiveWorker {
		return LiveWorker{Worker{ID: row.WorkerID, Host: row.Host, Release: row.Release, Provides: row.Provides,
			Slots: int(row.Slots)}, row.StartedAt}
	}), nil
}

// Wanted is what a run should do that a worker holds.
type Wanted struct {
	RootPlanID, PlanID string
	Epoch              int64
	Desired            Desired
	Unread             bool        // messages to it wait
	Interrupts         []Interrupt // those of them that cancel a model call
}

// Interrupt is a message that cancels the model call under way.
type Interrupt struct {
	MessageID string
	StepID    string // whose call it is; empty: any of the run
}

// Beat extends the lease of a worker, and returns the time of the database, and which of its runs should do
// other than run, see [Store.Wanted]. The error is [ErrLeaseLost] if another worker has declared this one dead.
func (s *Store) Beat(
	ctx context.Context, w Worker, below []string, lease time.Duration,
) (now time.Time, wanted []Wanted, err error) {
	now, err = queries.WorkerBeat(ctx, s.DB(), db.WorkerBeatParams{
		WorkerID: w.ID, Provides: w.Provides, Age: w.Age.Seconds(), LeaseSeconds: lease.Seconds(),
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return now, nil, ErrLeaseLost
	case err != nil:
		return now, nil, fmt.Errorf("extend the lease of worker %s: %w", w.ID, pg.Translate(err))
	}
	wanted, err = s.Wanted(ctx, w.ID, below)
	return now, wanted, err
}

// Holder is a worker that holds runs, or a part of a limit.
type Holder struct {
	WorkerID   string
	LeaseUntil time.Time // changes at each heartbeat
	Stopped    bool      // it has stopped, or was declared dead
}

// Holders returns the workers that hold runs, or a part of a limit.
func (s *Store) Holders(ctx context.Context) ([]Holder, error) {
	rows, err := queries.WorkerHolders(ctx, s.DB())
	if err != nil {
		return nil, fmt.Errorf("look which workers hold runs: %w", pg.Translate(err))
	}

	return all(rows, func(r db.WorkerHoldersRow) Holder { return Holder(r) }), nil
}

// Bury declares a worker dead, unless it sent a heartbeat since it was seen as h, and lets go of its runs, so
// that others can claim them. It returns how many. Runs that are being written are left for the next time.
func (s *Store) Bury(ctx context.Context, h Holder) (runs int, err error) {
	n, err := queries.WorkerBury(ctx, s.DB(), db.WorkerBuryParams{WorkerID: h.WorkerID, LeaseUntil: h.LeaseUntil})
	if err != nil {
		return 0, fmt.Errorf("take over the runs of worker %s: %w", h.WorkerID, pg.Translate(err))
	}
	if n > 0 {
		s.bell.RingNow()
	}
	return int(n), nil
}

// ClockSetBack makes runs due that were due before the clock of the database was set back. before is the
// time that it would show otherwise.
func (s *Store) ClockSetBack(ctx context.Context, before time.Time) error {
	if _, err := queries.RunMendDue(ctx, s.DB(), before); err != nil {
		return fmt.Errorf("wake runs after the clock was set back: %w", pg.Translate(err))
	}
	s.bell.RingNow()
	return nil
}

// Wanted returns which runs of a worker should do other than run. below are the plans of those that it carries below
// others, which may have ended with these.
func (s *Store) Wanted(ctx context.Context, workerID string, below []string) ([]Wanted, error) {
	params := db.RunWantedParams{WorkerID: workerID, Kept: append([]string{}, below...)}
	rows, err := queries.RunWanted(ctx, s.DB(), params)
	if err != nil {
		return nil, fmt.Errorf("look what worker %s should stop: %w", workerID, pg.Translate(err))
	}

	return all(rows, func(r db.RunWantedRow) Wanted {
		w := Wanted{
			RootPlanID: r.RootPlanID, PlanID: r.PlanID, Epoch: r.Epoch, Desired: Desired(r.Desired), Unread: r.Unread,
		}
		for i, id := range r.Interrupts {
			w.Interrupts = append(w.Interrupts, Interrupt{id, r.Interrupted[i]})
		}
		return w
	}), nil
}

// HandBack hands back the runs of a worker but those of some plans, so that others go on with them at once.
func (s *Store) HandBack(ctx context.Context, workerID string, kept []string) error {
	// A null would keep all.
	params := db.RunHandBackParams{WorkerID: workerID, Kept: append([]string{}, kept...)}
	if err := queries.RunHandBack(ctx, s.DB(), params); err != nil {
		return fmt.Errorf("hand back runs of worker %s: %w", workerID, pg.Translate(err))
	}
	s.bell.RingNow()
	return nil
}

// StopWorker hands back all runs of a worker, and ends its lease.
func (s *Store) StopWorker(ctx context.Context, workerID string) error {
	if err := s.HandBack(ctx, workerID, nil); err != nil {
		return err
	}
	if err := queries.WorkerStop(ctx, s.DB(), workerID); err != nil {
		return fmt.Errorf("stop worker %s: %w", workerID, pg.Translate(err))
	}
	return nil
}
