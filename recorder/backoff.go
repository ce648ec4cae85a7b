package recorder

import (
	"context"
	"math/rand/v2"
	"time"
)

// Delays before another try double from firstDelay to maxDelay.
const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 10 * time.Second
)

// backoff returns the delay after a number of failed attempts, from 1. Half of it is random, so
// that many agents do not come back at the same moment.
func backoff(attempts int) time.Duration {
	d := maxDelay
	if shift := attempts - 1; shift < 10 {
		d = min(d, firstDelay<<shift)
	}
	return d/2 + rand.N(d/2)
}

// pause waits for d. It ends early when ctx ends, with its error, and when hurry, which may be
// nil, has a value.
func pause(ctx context.Context, d time.Duration, hurry <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-hurry:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
