package runstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// What came of a tick.
const (
	TickStarted = "started"
	TickSkipped = "skipped" // a run of the schedule went on
	TickMissed  = "missed"  // it was too late
)

// DueAtOnce bounds how many schedules [Store.DueSchedules] returns.
const DueAtOnce = 100

// DueSchedules returns some schedules of which a tick is due, the longest due first: those of requests, and those of
// some names, which a file has. after is the last one of those before; zero: these are the first.
func (s *Store) DueSchedules(ctx context.Context, names []string, after Schedule) ([]Schedule, error) {
	rows, err := queries.ScheduleDue(ctx, s.DB(), db.ScheduleDueParams{
		Names: append([]string{}, names...), AfterDueAt: optional.Value(after.DueAt), AfterName: after.Name,
		Most: DueAtOnce,
	})
	if err != nil {
		return nil, fmt.Errorf("look which schedules are due: %w", pg.Translate(err))
	}
	return all(rows, func(row db.ScheduleDueRow) Schedule { return scheduleOf(row.ActlogSchedule, time.Time{}) }), nil
}

// ticksAtOnce bounds the ticks that one transaction decides about.
const ticksAtOnce = 10_000

// decided is what came of ticks that were due.
type decided struct {
	ticks           []time.Time
	outcomes        []string
	plans           []string // of the runs that were started; empty: none was
	skipped, missed int64
	next            time.Time
}

func (d *decided) add(tick time.Time, outcome, planID string) {
	d.ticks, d.outcomes = append(d.ticks, tick), append(d.outcomes, outcome)
	d.plans = append(d.plans, planID)
	switch outcome {
	case TickSkipped:
		d.skipped++
	case TickMissed:
		d.missed++
	}
}

// decide decides about the ticks that are due, in their order, until one starts a run; without a run, until one would.
func decide(timing Timing, first, now time.Time, skips bool, planID string) (d decided, starts bool) {
	d.next = first
	for !starts && !d.next.IsZero() && len(d.ticks) < ticksAtOnce && !timing.DueAt(d.next).After(now) {
		switch tick := d.next; {
		case timing.IsMissed(tick, now):
			d.add(tick, TickMissed, "")
		case skips:
			d.add(tick, TickSkipped, "")
		case planID == "":
			return d, false
		default:
			d.add(tick, TickStarted, planID)
			starts = true
		}
		d.next = timing.Next(d.next)
	}
	return d, starts
}

// Tick decides about ticks of a schedule that are due, in one transaction: those that were missed or are skipped, and
// the first one that starts a run, which begins with changes to the record. A run without an id cannot be started: then
// that tick stays due. Tick reports whether it decided about any: then more may be due. If the schedule was changed
// meanwhile, or another process decides about its ticks, it does nothing.
func (s *Store) Tick(
	ctx context.Context, of Schedule, timing Timing, run NewRun, changes []record.Change,
) (decidedAny bool, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		decidedAny = false
		at, err := queries.ScheduleTake(ctx, tx, db.ScheduleTakeParams{Name: of.Name, Version: of.Version})
		if errors.Is(err, pgx.ErrNoRows) || err == nil && at.NextAt == nil {
			return nil
		}
		if err != nil {
			return err
		}

		// Only now is it known what others have started.
		open, err := queries.ScheduleOpen(ctx, tx, of.Name)
		if err != nil {
			return err
		}
		d, starts := decide(timing, *at.NextAt, at.Now, open && at.Overlap == "skip", run.PlanID)
		if len(d.ticks) == 0 {
			return nil
		}

		last := d.ticks[len(d.ticks)-1]
		fresh, err := addTicks(ctx, tx, of.Name, d)
		if err != nil {
			return err
		}
		starts = starts && slices.ContainsFunc(fresh, last.Equal)
		if starts {
			r := run
			r.Schedule, r.TickAt = of.Name, last
			r.queued = open
			if err := addRun(ctx, tx, r, changes); err != nil {
				return err
			}
		}

		params := db.ScheduleAdvanceParams{
			Name: of.Name, NextAt: optional.Pointer(d.next), DueAt: dueOf(timing, optional.Pointer(d.next)), LastAt: last,
			Skipped: d.skipped, Missed: d.missed,
		}
		if starts {
			params.Started = 1
		}

		decidedAny = true
		return queries.ScheduleAdvance(ctx, tx, params)
	})
	if err != nil {
		return false, fmt.Errorf("start what schedule %s says: %w", of.Name, err)
	}

	if decidedAny {
		s.bell.RingNow()
	}
	return decidedAny, nil
}

// addTicks puts the last ticks that were decided about on record, and returns those of which that was not known.
func addTicks(ctx context.Context, tx *store.Tx, name string, d decided) ([]time.Time, error) {
	from := max(len(d.ticks)-keptTicks, 0)
	return queries.ScheduleTickAdd(ctx, tx, db.ScheduleTickAddParams{
		Name: name, Ticks: d.ticks[from:], Outcomes: d.outcomes[from:], PlanIds: d.plans[from:],
	})
}

// addRun puts a root run on record.
func addRun(ctx context.Context, tx *store.Tx, r NewRun, changes []record.Change) error {
	if err := tx.WriteOwned(ctx, changes); err != nil {
		return err
	}

	var q pgx.Batch
	added := false
	r.queue(&q).Exec(func(tag pgconn.CommandTag) error {
		added = tag.RowsAffected() > 0
		return nil
	})

	if err := tx.SendBatch(ctx, &q).Close(); err != nil {
		return err
	}
	if !added {
		return errNotAdded
	}
	return nil
}

// ScheduleFailed notes why a process cannot start a tick of a schedule that has been due for some time, and reports
// whether that is new. Another process may start it.
func (s *Store) ScheduleFailed(ctx context.Context, of Schedule, why string) (isNew bool, err error) {
	n, err := queries.ScheduleFailed(ctx, s.DB(), db.ScheduleFailedParams{Error: why, Name: of.Name, Version: of.Version})
	if err != nil {
		return false, fmt.Errorf("note why schedule %s starts nothing: %w", of.Name, pg.Translate(err))
	}
	return n > 0, nil
}

// TakeTurns lets runs begin that waited until others of their schedules have ended, and stops those that newer ones are
// to replace.
func (s *Store) TakeTurns(ctx context.Context) error {
	queues, err := queries.ScheduleQueues(ctx, s.DB())
	if err != nil {
		return fmt.Errorf("look which runs wait for others of their schedules: %w", pg.Translate(err))
	}
	if !queues {
		return nil
	}

	overtaken, err := queries.ScheduleOvertaken(ctx, s.DB())
	if err != nil {
		return fmt.Errorf("look which runs are to be replaced: %w", pg.Translate(err))
	}
	for _, r := range overtaken {
		err := s.Control(ctx, r.PlanID, Stop, "schedule "+r.Name)
		if err != nil && !errors.Is(err, ErrEnded) && !errors.Is(err, record.ErrNotFound) {
			return err
		}
	}

	names, err := queries.ScheduleWaits(ctx, s.DB())
	if err != nil {
		return fmt.Errorf("look which runs wait for others of their schedules: %w", pg.Translate(err))
	}
	for _, name := range names {
		if err := s.takeTurn(ctx, name); err != nil {
			return fmt.Errorf("let the next run of schedule %s begin: %w", name, err)
		}
	}
	if len(names) > 0 {
		s.bell.RingNow()
	}
	return nil
}

// takeTurn lets the next run of a schedule begin, also if the schedule is not there any more.
func (s *Store) takeTurn(ctx context.Context, name string) error {
	return s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := queries.ScheduleHold(ctx, tx, name)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		_, err = queries.ScheduleTurn(ctx, tx, name)
		return err
	})
}
