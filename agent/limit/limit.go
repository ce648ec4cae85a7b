// Package limit bounds what begins: how much of it goes on at the same time, and how much begins in a minute.
package limit

import (
	"context"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits bound what shares a [Limiter]. 0 means no limit.
type Limits struct {
	Concurrent int // at the same time
	PerMinute  int // that begin within any 60 seconds
}

// Limiter keeps limits. It is safe for concurrent use.
type Limiter struct {
	first *semaphore.Weighted // held by what begins next; the others follow in order
	slots *semaphore.Weighted

	// starts are the times of the latest beginnings, in a ring. Only the next has them.
	starts []time.Time
	oldest int
}

// New returns a Limiter.
func New(limits Limits) *Limiter {
	slots := int64(limits.Concurrent)
	if slots <= 0 {
		slots = math.MaxInt64
	}
	return &Limiter{
		first:  semaphore.NewWeighted(1),
		slots:  semaphore.NewWeighted(slots),
		starts: make([]time.Time, max(limits.PerMinute, 0)),
	}
}

// Begin waits until the limits let something begin, in the order in which it is called. The caller calls end, once,
// when that has ended. The error is that of ctx if it ends before: then nothing began, and nothing counts.
func (l *Limiter) Begin(ctx context.Context) (end func(), err error) {
	if err := l.first.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer l.first.Release(1)
	if err := l.slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}

	end = func() { l.slots.Release(1) }
	if len(l.starts) == 0 {
		return end, nil
	}

	if wait := time.Until(l.starts[l.oldest].Add(time.Minute)); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			end()
			return nil, ctx.Err()
		}
	}

	l.starts[l.oldest] = time.Now()
	l.oldest = (l.oldest + 1) % len(l.starts)
	return end, nil
}

// Group has limiters by name. What has the same name and the same limits shares one. The zero value has none. It is
// safe for concurrent use.
type Group struct {
	mu       sync.Mutex
	limiters map[named]*Limiter
}

type named struct {
	name   string
	limits Limits
}

// Begin is [Limiter.Begin] of the limiter that has a name.
func (g *Group) Begin(ctx context.Context, name string, limits Limits) (end func(), err error) {
	return g.limiter(named{name, limits}).Begin(ctx)
}

func (g *Group) limiter(of named) *Limiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limiters == nil {
		g.limiters = map[named]*Limiter{}
	}
	if g.limiters[of] == nil {
		g.limiters[of] = New(of.limits)
	}
	return g.limiters[of]
}
