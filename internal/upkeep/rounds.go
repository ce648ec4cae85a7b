package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/actlog/actlog/internal/pg"
	"github.com/actlog/actlog/internal/store"
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
	u.tasks.Go(func() { u.keepPartitions(ctx, done) })
	u.tasks.Go(func() { u.keepUp(ctx) })
	u.tasks.Go(func() { u.keepIndex(ctx) })
	return u, nil
}

// keepUp does each hour what Run does, and after a minute if something failed. Dead runs are
// looked for each minute, or more often if InterruptAfter is shorter.
func (u *Upkeep) keepUp(ctx context.Context) {
	often := time.Minute
	if after := u.config.InterruptAfter; after > 0 {
		often = max(time.Second, min(often, after/2))
	}
	if u.config.DetailDays == 0 && u.config.KeepDays == 0 && u.config.InterruptAfter == 0 {
		if pg.Pause(ctx, often) != nil {
			return
		}
	}
	// After an outage the server waits one full interval before it marks any run dead, so that
	// live processes can send a sign of life first.
	listening := time.Now()
	var due time.Time
	for {
		now := time.Now()
		if failed := u.store.Stats().LastErrorAt; failed.After(listening) {
			listening = failed
		}
		var err error
		if now.Sub(listening) >= u.config.InterruptAfter {
			err = u.interruptDead(ctx, u.config.InterruptAfter)
		}
		if !now.Before(due) {
			err = errors.Join(err, u.tidy(ctx))
			if due = now.Add(time.Hour); err != nil {
				due = now.Add(time.Minute)
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			u.counters.failures.Add(1)
			u.log.Warn("upkeep failed; it is tried again later", "error", err)
			listening = time.Now()
		}
		asleep := time.Now().Round(0) // by the wall clock: the monotonic one stops while the machine sleeps
		if pg.Pause(ctx, often) != nil {
			return
		}
		if time.Since(asleep) > 2*often {
			listening = time.Now()
		}
	}
}

// Run does at once what goes on each hour by itself: it marks dead runs as interrupted, drops
// detail, spans and trees that are too old, sweeps the change feed, and adds to the index of the
// search what is missing there.
func (u *Upkeep) Run(ctx context.Context) error {
	if err := errors.Join(u.interruptDead(ctx, u.config.InterruptAfter), u.tidy(ctx), u.indexFresh(ctx), u.indexMissing(ctx)); err != nil {
		return fmt.Errorf("upkeep: %w", pg.Translate(err))
	}
	return nil
}

// tidy removes what is too old.
func (u *Upkeep) tidy(ctx context.Context) error {
	done := []error{
		u.dropDetail(ctx, u.config.DetailDays), u.deleteOutdated(ctx, u.config.KeepDays), u.sweepChanges(ctx, u.config.ChangeHours),
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
	for {
		n, err := u.queries.ChangeSweep(ctx, u.db, int32(hours))
		if err != nil {
			return fmt.Errorf("sweep the change feed: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
}
