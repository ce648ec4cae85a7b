package model

import (
	"context"
	"math"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits bound the requests to a model. 0 means no limit.
type Limits struct {
	Concurrent int // requests at the same time
	PerMinute  int // requests that start within any 60 seconds
}

// Limit returns m within limits. Requests that must wait start in the order in which they came. One
// whose context ends while it waits was not sent, and does not count.
func Limit(m Model, limits Limits) Model {
	slots := int64(limits.Concurrent)
	if slots <= 0 {
		slots = math.MaxInt64
	}
	return &limited{
		Model:  m,
		first:  semaphore.NewWeighted(1),
		slots:  semaphore.NewWeighted(slots),
		starts: make([]time.Time, max(limits.PerMinute, 0)),
	}
}

type limited struct {
	Model
	first *semaphore.Weighted // held by the request that starts next; the others follow in order
	slots *semaphore.Weighted

	// starts are the times of the latest requests, in a ring. Only the next has them.
	starts []time.Time
	oldest int
}

// Generate implements Model.
func (l *limited) Generate(ctx context.Context, req Request, onDelta func(Delta)) (*Response, error) {
	if err := l.start(ctx); err != nil {
		return nil, &Error{
			Kind: KindCancelled, Provider: l.Provider(), Model: l.Name(),
			Message: "while waiting for the limits of the model: " + err.Error(), Err: err,
		}
	}
	defer l.slots.Release(1)
	return l.Model.Generate(ctx, req, onDelta)
}

// start waits until a request may start, and takes a slot for it.
func (l *limited) start(ctx context.Context) error {
	if err := l.first.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.first.Release(1)
	if err := l.slots.Acquire(ctx, 1); err != nil {
		return err
	}

	if len(l.starts) == 0 {
		return nil
	}
	if wait := time.Until(l.starts[l.oldest].Add(time.Minute)); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			l.slots.Release(1)
			return ctx.Err()
		}
	}

	l.starts[l.oldest] = time.Now()
	l.oldest = (l.oldest + 1) % len(l.starts)
	return nil
}
