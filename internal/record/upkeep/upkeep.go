// Package upkeep owns what keeps the record within its bounds: partitions are added ahead of
// time, old detail, spans and trees are dropped, the change feed is swept, dead runs are marked, the
// index of the search is filled, past periods have an index for the search in texts, recent runs have their texts in
// one, and the causes of failures are found.
package upkeep

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
)

// Config says what is kept for how long. Zero values mean the defaults named here.
type Config struct {
	// Logger receives what fails and what is dropped. Default: nothing is logged.
	Logger *slog.Logger
	// DetailDays is how long cycles and tool calls are kept after the period of their
	// partition. Steps keep their figures. 0: for ever.
	DetailDays int
	// KeepDays is how long a whole tree is kept after it was first seen, once it has ended. 0:
	// for ever.
	KeepDays int
	// ChangeHours is how long rows of the change feed are kept. Default 24.
	ChangeHours int
	// InterruptAfter is how long a run that sent heartbeats may send no other, by the clock of the
	// database, before it is marked INTERRUPTED. A later sign of life undoes that. 0: for ever.
	InterruptAfter time.Duration
	// TraceDays is how long the spans of a trace are kept after the last of them came. 0: this
	// process takes no traces, and leaves them to others.
	TraceDays int
}

func (c Config) validate() error {
	if c.DetailDays < 0 || c.KeepDays < 0 || c.ChangeHours < 0 || c.InterruptAfter < 0 || c.TraceDays < 0 {
		return errors.New("detail days, keep days, change hours, interrupt after and trace days must not be negative")
	}
	return nil
}

// Upkeep works on the record of a store. It is safe for concurrent use. Several servers may
// work on one record: each part is then done by one of them.
type Upkeep struct {
	config  Config
	store   *store.Store
	db      *pg.DB
	queries *db.Queries
	log     *slog.Logger
	clock   func(context.Context, db.DBTX) (time.Time, error) // of the database
	now     func() time.Time                                  // of this process
	pause   func(context.Context, time.Duration) error        // see pg.Pause

	runsOfSlice int // see store.SliceRecentTexts

	counters         counters
	loggedNoTrigrams atomic.Bool // it is logged once
	stop             context.CancelFunc
	tasks            sync.WaitGroup
}

// Stats is what an Upkeep has done since it was started.
type Stats struct {
	PartitionsAdded, PartitionsDropped uint64
	// PartitionsUntil is the day from which on only the default partitions receive detail, as
	// of the last hour; zero: there are no others.
	PartitionsUntil time.Time
	RunsInterrupted uint64
	Failures        uint64 // rounds that failed, and tries to add partitions
}

type counters struct {
	partitionsAdded, partitionsDropped, runsInterrupted, failures atomic.Uint64
	partitionsUntil                                               atomic.Int64 // Unix seconds; 0: not known
}

func newUpkeep(s *store.Store, config Config) *Upkeep {
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	config.ChangeHours = cmp.Or(config.ChangeHours, 24)
	queries := db.New()
	return &Upkeep{
		config: config, store: s, db: s.DB(), queries: queries, log: config.Logger, clock: queries.Clock, now: time.Now,
		pause: pg.Pause, runsOfSlice: store.RunsOfSlice,
	}
}

// Close ends the upkeep. What it is doing is done again by the next one.
func (u *Upkeep) Close() {
	u.stop()
	u.tasks.Wait()
}

// Stats returns a snapshot, without asking the database.
func (u *Upkeep) Stats() Stats {
	c := &u.counters
	st := Stats{
		PartitionsAdded: c.partitionsAdded.Load(), PartitionsDropped: c.partitionsDropped.Load(),
		RunsInterrupted: c.runsInterrupted.Load(), Failures: c.failures.Load(),
	}

	if until := c.partitionsUntil.Load(); until > 0 { // the year 1 stands for none
		st.PartitionsUntil = time.Unix(until, 0).UTC()
	}
	return st
}

// The tasks that one server does at a time.
const (
	taskPartitions = "actlog.add_partition"
	taskRetention  = "actlog.retention"
	taskSearch     = "actlog.search"
	taskTexts      = "actlog.texts"
	taskCauses     = "actlog.causes"
	taskRecent     = "actlog.recent"
	taskForget     = "actlog.forget"
	taskDays       = "actlog.days"
)

// inTurn runs f in a transaction, unless another server does the task: then it runs nothing.
// Locks give way to long reports: a statement that waits for one would block every writer
// behind it.
func (u *Upkeep) inTurn(ctx context.Context, task string, f func(pgx.Tx) error) error {
	return u.db.Transact(ctx, func(tx pgx.Tx) error {
		// The bounds of partitions are read as texts. A pooler may drop the setting of the connection.
		if _, err := tx.Exec(ctx, store.LockPatience+"; SET LOCAL datestyle = 'ISO'"); err != nil {
			return err
		}
		mine, err := u.queries.TurnTake(ctx, tx, task)
		if err != nil || !mine {
			return err
		}
		return f(tx)
	})
}

var errNotOwner = errors.New("not the owner of the tables")
