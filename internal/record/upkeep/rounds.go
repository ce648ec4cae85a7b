package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
)

// Start adds the partitions that are missing, and goes on with that and with the upkeep until
// it is closed.
func Start(ctx context.Context, s *store.Store, config Config) (*Upkeep, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("start upkeep: %w", err)
	}
	u := newUpkeep(s, config)
	if n := u.keptPartitions(); config.DetailDays > 0 && n > maxPartitions {
		u.log.Warn("these settings keep more partitions than Postgres reads fast: set --detail-days lower",
			"DetailDays", config.DetailDays, "PartitionDays", s.PartitionDays(), "partitions", n, "most", maxPartitions)
	}

	done := u.addPartitions(ctx)
	ctx, u.stop = context.WithCancel(context.WithoutCancel(ctx))
	u.tasks.Go(func() { u.maintainPartitions(ctx, done) })
	u.tasks.Go(func() { u.tidyHourly(ctx) })
	if config.InterruptAfter > 0 {
		u.tasks.Go(func() { u.markSilentRuns(ctx) })
	}

	u.tasks.Go(func() { u.maintainIndex(ctx) })
	u.tasks.Go(func() { u.maintainTextIndexes(ctx) })
	u.tasks.Go(func() { u.maintainCauses(ctx) })
	u.tasks.Go(func() { u.maintainRecent(ctx) })
	return u, nil
}

// tidyHourly tidies each hour until ctx ends, and after a minute if something failed.
func (u *Upkeep) tidyHourly(ctx context.Context) {
	pause := time.Duration(0)
	if u.config.DetailDays == 0 && u.config.KeepDays == 0 && u.config.InterruptAfter == 0 {
		pause = time.Minute // nothing is pressing
	}

	for pg.Pause(ctx, pause) == nil {
		pause = time.Hour
		if !u.done(ctx, u.tidy(ctx)) {
			pause = time.Minute
		}
	}
}

// markSilentRuns looks for dead runs each minute until ctx ends, or more often if InterruptAfter is
// shorter. It has a goroutine of its own, because it has to be called as often to know that this
// process was not stopped.
func (u *Upkeep) markSilentRuns(ctx context.Context) {
	often := max(time.Second, min(time.Minute, u.config.InterruptAfter/2))
	var heard listening
	for {
		u.done(ctx, u.interruptSilent(ctx, &heard, often))
		if pg.Pause(ctx, often) != nil {
			return
		}
	}
}

// maintainTextIndexes makes indexes for the search in texts each hour, until ctx ends.
func (u *Upkeep) maintainTextIndexes(ctx context.Context) {
	for pause := time.Minute; pg.Pause(ctx, pause) == nil; {
		pause = time.Hour
		if !u.done(ctx, u.indexTexts(ctx)) {
			pause = time.Minute
		}
	}
}

// done reports whether some upkeep was done. If it failed, and not because ctx ended, that is noted.
func (u *Upkeep) done(ctx context.Context, err error) bool {
	if err != nil && ctx.Err() == nil {
		u.counters.failures.Add(1)
		u.log.Warn("upkeep failed; it is tried again later", "error", err)
	}
	return err == nil
}

// interruptSilent marks dead runs, once this server has listened for as long as they were silent:
// after its start, an outage or a pause, live processes can send a sign of life first.
func (u *Upkeep) interruptSilent(ctx context.Context, heard *listening, often time.Duration) error {
	silent := u.config.InterruptAfter
	now, err := u.readClock(ctx, u.db)
	if err == nil && heard.full(now, u.store.Stats().GivenUp, often, silent) {
		err = u.interruptDead(ctx, heard.since, silent)
	}
	if err != nil {
		*heard = listening{}
	}
	return err
}

// Run does at once what goes on each hour by itself: it marks dead runs as interrupted, closes days, drops
// detail, spans, trees, vectors and events that are too old, sweeps the change feed, adds to the index of the
// search what is missing there, makes the indexes for the search in texts, finds the causes of failures, and keeps the
// texts of recent runs.
func (u *Upkeep) Run(ctx context.Context) error {
	err := errors.Join(u.tidy(ctx), u.indexFresh(ctx), u.indexMissing(ctx), u.indexTexts(ctx))
	if u.config.InterruptAfter > 0 {
		now, clockErr := u.readClock(ctx, u.db)
		if clockErr == nil {
			clockErr = u.interruptDead(ctx, now, u.config.InterruptAfter)
		}
		err = errors.Join(clockErr, err)
	}

	err = errors.Join(err, u.makeAllCauses(ctx), u.makeAllRecent(ctx))
	return pg.Wrap(pg.Translate(err), "upkeep")
}

func (u *Upkeep) tidy(ctx context.Context) error {
	done := []error{
		u.closeDays(ctx), // before detail is dropped
		u.dropDetail(ctx, u.config.DetailDays), u.deleteOutdated(ctx, u.config.KeepDays),
		u.sweepChanges(ctx, u.config.ChangeHours),
		u.forgetVectors(ctx, vectorDays), u.forgetEvents(ctx),
	}
	if u.config.TraceDays > 0 {
		done = append(done, u.dropSpans(ctx, u.config.TraceDays))
	}

	var errs []error
	for _, err := range done {
		if errors.Is(err, errNotOwner) || pg.Denied(err) { // a server that owns the tables will do it
			u.log.Debug("not allowed to do some upkeep", "error", err)
			err = nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (u *Upkeep) sweepChanges(ctx context.Context, hours int) error {
	last, err := u.queries.ChangeSweepable(ctx, u.db, int32(hours))
	if err != nil {
		return fmt.Errorf("look for old rows of the change feed: %w", err)
	}
	if err := u.queries.RecentStop(ctx, u.db, last); err != nil { // nobody could tell any more what has changed
		return fmt.Errorf("sweep the change feed: %w", err)
	}

	err = untilDone(func() (more bool, err error) {
		n, err := u.queries.ChangeSweep(ctx, u.db, last)
		return n > 0, err
	})
	return pg.Wrap(err, "sweep the change feed")
}
