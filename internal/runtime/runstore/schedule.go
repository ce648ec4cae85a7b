package runstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
)

// Who defines a schedule.
const (
	SourceFile = "file"
	SourceAPI  = "api"
)

// ErrOfFile means that a schedule is of a configuration file, which alone may change what defines it.
var ErrOfFile = errors.New("the schedule is of a configuration file: change it there")

// ScheduleDefinition is what defines a schedule.
type ScheduleDefinition struct {
	Name           string
	Source         string // SourceFile or SourceAPI
	Cron           string
	Timezone       string
	Jitter, Window time.Duration
	Overlap        string // skip, queue or cancel
	CatchUp        string // none, last or all
	Start          json.RawMessage
	Starter        string // who defined it; empty: not known
	Paused         bool
	FileHash       string // of what the file says of it; empty: no file does
}

// Schedule is a schedule as it stands.
type Schedule struct {
	ScheduleDefinition
	NextAt                   *time.Time // nil: there is no next tick
	DueAt                    *time.Time // when that is started
	LastAt                   *time.Time // nil: there was none
	Started, Skipped, Missed int64
	// Error is why the tick that is due could not be started; nil: that is not so.
	Error   *string
	Version int64
	// Now is the time of the database when it was read.
	Now time.Time
}

// Timing says when a schedule ticks.
type Timing interface {
	// Next returns the first tick after a moment; zero: there is none.
	Next(after time.Time) time.Time
	// DueAt returns when a tick is started.
	DueAt(tick time.Time) time.Time
	// IsMissed reports whether a tick that is due is not started any more.
	IsMissed(tick, now time.Time) bool
}

func scheduleOf(row db.ActlogSchedule, now time.Time) Schedule {
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	return Schedule{
		ScheduleDefinition: ScheduleDefinition{
			Name: row.Name, Source: row.Source, Cron: row.Cron, Timezone: row.Timezone,
			Jitter: seconds(row.JitterSeconds), Window: seconds(row.WindowSeconds), Overlap: row.Overlap, CatchUp: row.CatchUp,
			Start: row.Start, Starter: row.Starter, Paused: row.Paused,
			FileHash: optional.Value(row.FileHash),
		},
		NextAt: row.NextAt, DueAt: row.DueAt, LastAt: row.LastAt, Started: row.Started, Skipped: row.Skipped,
		Missed: row.Missed, Error: row.Error, Version: row.Version, Now: now,
	}
}

// Schedule returns a schedule. The error is [record.ErrNotFound] if there is none of the name; one of a file that no
// process has had for a minute is none.
func (r *Reader) Schedule(ctx context.Context, name string) (*Schedule, error) {
	row, err := read(ctx, r.DB(), queries.ScheduleFind, name)
	if err != nil {
		return nil, fmt.Errorf("read schedule %s: %w", name, err)
	}
	return new(scheduleOf(row.ActlogSchedule, row.Now)), nil
}

// Schedules returns schedules in the order of their names, behind one.
func (r *Reader) Schedules(ctx context.Context, after string, limit int) ([]Schedule, error) {
	rows, err := read(ctx, r.DB(), queries.ScheduleList, db.ScheduleListParams{After: after, Most: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	return all(rows, func(row db.ScheduleListRow) Schedule { return scheduleOf(row.ActlogSchedule, row.Now) }), nil
}

// PutSchedule writes what defines a schedule, and reports whether it is new. One whose times are as before goes on from
// its next tick. One of a file is paused or goes on, as somebody asked for, until the file says something else of that.
// The error is [ErrOfFile] if a request would change what a file defines.
func (s *Store) PutSchedule(ctx context.Context, d ScheduleDefinition, timing Timing) (isNew bool, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		now, err := queries.ScheduleNow(ctx, tx)
		if err != nil {
			return err
		}
		held, err := queries.ScheduleHold(ctx, tx, d.Name)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if held.OfFile && d.Source != SourceFile {
			return ErrOfFile
		}

		before, ofFile := held.ActlogSchedule, d.Source == SourceFile
		params := db.SchedulePutParams{
			Name: d.Name, Source: d.Source, Cron: d.Cron, Timezone: d.Timezone, JitterSeconds: d.Jitter.Seconds(),
			Overlap: d.Overlap, CatchUp: d.CatchUp, WindowSeconds: d.Window.Seconds(), Start: d.Start, Starter: d.Starter,
			Paused: d.Paused, FileHash: optional.Pointer(d.FileHash),
		}
		if ofFile {
			params.FilePaused = &d.Paused
		}
		if ofFile && before.FilePaused != nil && *before.FilePaused == d.Paused {
			params.Paused = before.Paused
		}

		goesOn := before.NextAt != nil && before.Cron == d.Cron && before.Timezone == d.Timezone
		if params.NextAt = before.NextAt; !goesOn {
			params.NextAt = firstTick(timing, now, before.LastAt)
		}
		if params.Paused {
			params.NextAt = nil
		}
		params.DueAt = dueOf(timing, params.NextAt)

		isNew, err = queries.SchedulePut(ctx, tx, params)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("put schedule %s: %w", d.Name, err)
	}
	return isNew, nil
}

// firstTick returns the tick with which a schedule begins: none that has passed.
func firstTick(timing Timing, now time.Time, last *time.Time) *time.Time {
	if before := optional.Value(last); before.After(now) {
		now = before
	}
	return optional.Pointer(timing.Next(now))
}

func dueOf(timing Timing, tick *time.Time) *time.Time {
	if tick == nil {
		return nil
	}
	return new(timing.DueAt(*tick))
}

// PauseSchedule pauses a schedule, or lets it tick again, from now on. The error is [record.ErrNotFound] if there is
// none of the name.
func (s *Store) PauseSchedule(ctx context.Context, name string, paused bool, timing Timing) error {
	err := s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		now, err := queries.ScheduleNow(ctx, tx)
		if err != nil {
			return err
		}
		held, err := queries.ScheduleHold(ctx, tx, name)
		if err != nil {
			return pg.Translate(err)
		}
		if held.ActlogSchedule.Paused == paused {
			return nil
		}

		params := db.SchedulePauseParams{Name: name, Paused: paused}
		if !paused {
			params.NextAt = firstTick(timing, now, held.ActlogSchedule.LastAt)
			params.DueAt = dueOf(timing, params.NextAt)
		}
		return queries.SchedulePause(ctx, tx, params)
	})
	if err != nil {
		return fmt.Errorf("pause or resume schedule %s: %w", name, err)
	}
	return nil
}

// DeleteSchedule deletes a schedule and its ticks. Its runs go on, but those that wait for others are stopped. The
// error is [record.ErrNotFound], or [ErrOfFile].
func (s *Store) DeleteSchedule(ctx context.Context, name string) error {
	err := s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		held, err := queries.ScheduleHold(ctx, tx, name)
		if err != nil {
			return pg.Translate(err)
		}
		if held.OfFile {
			return ErrOfFile
		}

		if err := queries.ScheduleUnqueue(ctx, tx, name); err != nil {
			return err
		}
		_, err = queries.ScheduleDelete(ctx, tx, name)
		return err
	})
	if err != nil {
		return fmt.Errorf("delete schedule %s: %w", name, err)
	}
	s.bell.RingNow()
	return nil
}

// SeeSchedules notes that this process has schedules in its file, with the hashes of what that says of them. It returns
// the names of those that it has to put, also if it did before: what is on record is neither its own nor that of
// another process.
func (s *Store) SeeSchedules(ctx context.Context, hashes map[string]string) (lost []string, err error) {
	params := db.ScheduleSeenParams{}
	for name, hash := range hashes {
		params.Names, params.Hashes = append(params.Names, name), append(params.Hashes, hash)
	}
	lost, err = queries.ScheduleSeen(ctx, s.DB(), params)
	if err != nil {
		return nil, fmt.Errorf("note which schedules are in a file: %w", pg.Translate(err))
	}
	return lost, nil
}

// keptTicks is how many ticks of each schedule stay on record.
const keptTicks = 1000

// ForgetTicks deletes ticks but the last 1,000 of each schedule, and schedules that no process has had in its file for
// 30 days.
func (s *Store) ForgetTicks(ctx context.Context) error {
	if err := queries.ScheduleForget(ctx, s.DB(), keptTicks); err != nil {
		return fmt.Errorf("delete old ticks: %w", pg.Translate(err))
	}
	return nil
}

// Tick is what came of a tick.
type Tick struct {
	At      time.Time // before jitter
	Outcome string    // started, skipped or missed
	PlanID  *string   // of the run that it started; nil: none
}

// Ticks returns ticks of a schedule, the newest first, before one. The error is [record.ErrNotFound] if there is no
// such schedule.
func (r *Reader) Ticks(ctx context.Context, name string, before time.Time, limit int) ([]Tick, error) {
	if _, err := r.Schedule(ctx, name); err != nil {
		return nil, err
	}

	rows, err := read(ctx, r.DB(), queries.ScheduleTicks, db.ScheduleTicksParams{
		Name: name, Before: before, Most: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("read the ticks of schedule %s: %w", name, err)
	}
	return all(rows, func(row db.ScheduleTicksRow) Tick { return Tick{row.Tick, row.Outcome, row.PlanID} }), nil
}
