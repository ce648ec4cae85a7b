package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/runtime/schedule"
)

// ScheduleOf returns what defines a schedule that is on record.
func ScheduleOf(s *runstore.Schedule) (define.Schedule, error) {
	d := define.Schedule{
		Cron: s.Cron, Timezone: s.Timezone, Jitter: define.Span(s.Jitter), Window: define.Span(s.Window),
		Overlap: define.OverlapPolicy(s.Overlap), CatchUp: define.CatchUpPolicy(s.CatchUp), Paused: s.Paused,
	}
	if err := json.Unmarshal(s.Start, &d.Start); err != nil {
		return d, fmt.Errorf("read what schedule %s starts: %w", s.Name, err)
	}
	return d, nil
}

// NextTicks returns the next ticks of a schedule; none while it is paused.
func NextTicks(s *runstore.Schedule, n int) ([]time.Time, error) {
	ticks, err := schedule.NewTicks(s.Cron, s.Timezone)
	if err != nil || s.NextAt == nil {
		return []time.Time{}, err
	}

	after := s.NextAt.Add(-time.Second)
	if s.Now.After(after) {
		after = s.Now
	}
	return ticks.After(after, n), nil
}

// PutSchedule defines a schedule for somebody, and reports whether it is new. The error is a [*record.InvalidError]
// that names the field, an [*UnknownError], or one of [runstore.Store.PutSchedule].
func (e *Engine) PutSchedule(
	ctx context.Context, name string, d define.Schedule, starter string,
) (isNew bool, err error) {
	parts, release := e.config.Parts()
	defer release()
	if _, err := e.prepare(ctx, parts, requestOf(name, d.Start, starter)); err != nil {
		return false, err
	}
	return e.putSchedule(ctx, parts, name, d, runstore.ScheduleDefinition{Source: runstore.SourceAPI, Starter: starter})
}

// putSchedule writes what defines a schedule, but for what must not be on record. by has who defines it.
func (e *Engine) putSchedule(
	ctx context.Context, parts Parts, name string, d define.Schedule, by runstore.ScheduleDefinition,
) (isNew bool, err error) {
	timing, err := schedule.NewTiming(name, d)
	if err != nil {
		return false, err
	}
	d.Input = json.RawMessage(parts.Redact(string(d.Input)))
	start, err := json.Marshal(d.Start)
	if err != nil {
		return false, BadInput("input", "cannot be written as JSON")
	}

	return e.store.PutSchedule(ctx, runstore.ScheduleDefinition{
		Name: name, Source: by.Source, Cron: d.Cron, Timezone: d.Timezone, Jitter: time.Duration(d.Jitter),
		Window: time.Duration(d.Window), Overlap: string(d.Overlap), CatchUp: string(d.CatchUp), Start: start,
		Starter: by.Starter, Paused: d.Paused, FileHash: by.FileHash,
	}, timing)
}

// PauseSchedule pauses a schedule, or lets it tick again. The error is one of [runstore.Store.PauseSchedule].
func (e *Engine) PauseSchedule(ctx context.Context, name string, paused bool) error {
	s, err := e.store.Reader.Schedule(ctx, name)
	if err != nil {
		return err
	}
	_, timing, err := timingOf(s)
	if err != nil {
		return err
	}
	return e.store.PauseSchedule(ctx, name, paused, timing)
}

// RunSchedule starts what a schedule starts, now and for somebody, beside its ticks.
func (e *Engine) RunSchedule(
	ctx context.Context, name string, by runstore.Who, idempotencyKey string,
) (Started, error) {
	s, err := e.store.Reader.Schedule(ctx, name)
	if err != nil {
		return Started{}, err
	}
	d, err := ScheduleOf(s)
	if err != nil {
		return Started{}, err
	}

	r := requestOf(name, d.Start, by.Name)
	r.By = by
	r.IdempotencyKey, r.Body = idempotencyKey, []byte("schedule "+name)
	return e.Start(ctx, r)
}

func timingOf(s *runstore.Schedule) (define.Schedule, *schedule.Timing, error) {
	d, err := ScheduleOf(s)
	if err != nil {
		return d, nil, err
	}
	timing, err := schedule.NewTiming(s.Name, d)
	return d, timing, err
}

// requestOf returns the request for a run of a schedule.
func requestOf(name string, s define.Start, starter string) Request {
	return Request{
		Executor: s.Executor, Name: s.Name, Input: s.Input, ConversationID: s.ConversationID, Project: s.Project,
		UserID: s.UserID, Tags: s.Tags, Limits: (*Limits)(s.Limits), Priority: s.Priority,
		ConcurrencyKey: s.ConcurrencyKey, Starter: starter, Schedule: name,
	}
}

const (
	// startsAtOnce bounds how many runs a schedule starts before others have their turn.
	startsAtOnce = 20
	// forgetEvery is how often old ticks are deleted.
	forgetEvery = 10 * time.Minute
)

// keepSchedules starts what schedules say. It reports whether there may be more to start.
func (e *Engine) keepSchedules(ctx context.Context) (more bool) {
	failed := func(err error) bool {
		if err != nil && ctx.Err() == nil { // it looks again
			e.config.Logger.Debug("it is not known what schedules say; it is tried again", "error", err)
		}
		return err != nil
	}

	names, err := e.fileSchedules(ctx)
	if failed(err) {
		return false
	}
	var last runstore.Schedule
	for n := runstore.DueAtOnce; n == runstore.DueAtOnce; { // those behind many that cannot start have their turn
		due, err := e.store.DueSchedules(ctx, names, last)
		if failed(err) {
			return false
		}
		for i := range due {
			more = e.tick(ctx, &due[i]) || more
			last = due[i]
		}
		n = len(due)
	}

	if failed(e.store.TakeTurns(ctx)) {
		return false
	}
	if time.Since(e.timekeeper.forgotten) > forgetEvery {
		e.timekeeper.forgotten = time.Now()
		failed(e.store.ForgetTicks(ctx))
	}
	return more
}

// fileSchedules puts the schedules of the configuration on record that have changed there, or are not on record any
// more. It returns the names of all.
func (e *Engine) fileSchedules(ctx context.Context) (names []string, err error) {
	parts, release := e.config.Parts()
	defer release()
	before := e.timekeeper.filed
	now, hashes, err := e.filed(parts)
	if err != nil {
		return nil, err
	}
	if len(now) == 0 {
		e.timekeeper.filed = nil
		return nil, nil
	}

	lost, err := e.store.SeeSchedules(ctx, hashes)
	if err != nil {
		return nil, err
	}
	names = slices.Sorted(maps.Keys(now))
	for _, name := range names {
		d := now[name]
		if before[name].hash == d.hash && !slices.Contains(lost, name) {
			continue
		}

		if _, err := e.prepare(ctx, parts, requestOf(name, d.Start, "")); err != nil {
			e.config.Logger.Warn("a schedule of the configuration cannot start anything here", "schedule", name, "error", err)
		}
		by := runstore.ScheduleDefinition{Source: runstore.SourceFile, FileHash: d.hash}
		if _, err := e.putSchedule(ctx, parts, name, d.Schedule, by); err != nil {
			return nil, err
		}
	}

	e.timekeeper.filed = now
	return names, nil
}

// filed returns the schedules of the configuration, and their hashes: of what can be on record of them.
func (e *Engine) filed(parts Parts) (all map[string]filedSchedule, hashes map[string]string, err error) {
	all, hashes = map[string]filedSchedule{}, map[string]string{}
	for name, d := range parts.Schedules() {
		of, ok := e.timekeeper.filed[name]
		if !ok || !reflect.DeepEqual(of.Schedule, d) {
			of.Schedule = d
			d.Input = json.RawMessage(parts.Redact(string(d.Input)))
			text, err := json.Marshal(d)
			if err != nil {
				return nil, nil, fmt.Errorf("write schedule %s as JSON: %w", name, err)
			}
			of.hash = hash(text)
		}
		all[name], hashes[name] = of, of.hash
	}
	return all, hashes, nil
}

// tick decides about the ticks of a schedule that are due. It reports whether more may be.
func (e *Engine) tick(ctx context.Context, s *runstore.Schedule) (more bool) {
	for range startsAtOnce {
		decided, err := e.tickOnce(ctx, s)
		switch {
		case err != nil:
			e.noteFailed(ctx, s, err)
			return false
		case !decided:
			return false
		}
	}
	return true
}

// tickOnce is tick until a run is started.
func (e *Engine) tickOnce(ctx context.Context, s *runstore.Schedule) (decided bool, err error) {
	d, timing, err := timingOf(s)
	if err != nil {
		return false, err
	}

	run, begins, cannot := e.newRoot(ctx, requestOf(s.Name, d.Start, s.Starter))
	if cannot != nil { // another process may; until then, ticks may be missed
		run, begins = runstore.NewRun{}, nil
	}
	if decided, err = e.store.Tick(ctx, *s, timing, run, begins); err != nil {
		return false, err
	}
	if !decided {
		err = cannot
	}
	return decided, err
}

// noteFailed notes why the tick of a schedule that is due cannot be started. It is tried again.
func (e *Engine) noteFailed(ctx context.Context, s *runstore.Schedule, why error) {
	isNew, err := e.store.ScheduleFailed(ctx, *s, why.Error())
	switch {
	case ctx.Err() != nil:
	case err != nil:
		e.config.Logger.Debug("a schedule starts nothing", "schedule", s.Name, "error", why)
	case isNew:
		e.config.Logger.Warn("a schedule cannot start its run; it is tried again", "schedule", s.Name, "error", why)
	}
}
