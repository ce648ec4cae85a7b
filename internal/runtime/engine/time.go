package engine

import (
	"context"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// timeScans is how many times a worker looks for runs before it looks what the time has come for.
const timeScans = 4

// KeepTime does what the time has come for, by the clock of the database, until ctx ends: it starts what schedules say,
// ends runs that nobody began in time, and wakes runs for events whose senders were lost. [Engine.Work] does so, too;
// one call of an engine is at work at a time.
func (e *Engine) KeepTime(ctx context.Context) {
	for !e.timekeeper.TryLock() {
		if pg.Pause(ctx, timeScans*e.config.Scan) != nil {
			return
		}
	}
	defer e.timekeeper.Unlock()

	for ctx.Err() == nil {
		e.expire(ctx)
		e.wakeForEvents(ctx)
		more := e.keepSchedules(ctx)
		if !more && pg.Pause(ctx, timeScans*e.config.Scan) != nil {
			return
		}
	}
}

// expire ends runs that nobody began in time.
func (e *Engine) expire(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, e.config.Lease)
	defer cancel()
	ended, err := e.store.Expire(limited)
	for _, executor := range ended {
		e.metrics.ended.WithLabelValues(executor, string(record.Cancelled)).Inc()
	}
	if err != nil && ctx.Err() == nil { // it looks again
		e.config.Logger.Debug("runs that nobody began in time cannot be ended; it is tried again", "error", err)
	}
}
