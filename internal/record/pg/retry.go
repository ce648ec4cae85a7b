package pg

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Backoff is how long to wait before a try: from 20 ms to 1 s, with jitter, so that writers
// that met do not meet again.
func Backoff(attempt int) time.Duration {
	ceiling := min(time.Second, 20*time.Millisecond<<min(attempt, 10))
	return ceiling/2 + rand.N(ceiling/2)
}

// Pause waits. The error is that of ctx, if it ends first.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Seldom limits log lines that could come all the time. The zero value is ready.
type Seldom struct{ last atomic.Int64 }

// Due reports whether the line may be logged: the first, then one every ten seconds.
func (l *Seldom) Due() bool {
	now, last := time.Now().UnixNano(), l.last.Load()
	return now-last >= int64(10*time.Second) && l.last.CompareAndSwap(last, now)
}
