// Package limit bounds what begins: how much of it goes on at the same time, how much begins in a minute, and how many
// tokens it uses in a minute.
package limit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Limits bound what shares a [Limiter]. 0 means no limit.
type Limits struct {
	Concurrent int // at the same time
	PerMinute  int // that begin within any 60 seconds
	// TokensPerMinute are those that are used within any 60 seconds. What goes on counts as it is expected to. What it
	// used beyond that counts as well: others wait for as long.
	TokensPerMinute int64
}

// Tokens are what something uses, or is expected to use. In counts for a minute from its beginning, Out from its end.
type Tokens struct{ In, Out int64 }

// Kind is one of the limits, as a configuration calls it.
type Kind string

// The limits.
const (
	Concurrent      Kind = "maxConcurrent"
	PerMinute       Kind = "maxPerMinute"
	TokensPerMinute Kind = "tokensPerMinute"
)

const minute = time.Minute

// Limiter keeps limits. It is safe for concurrent use.
type Limiter struct {
	changed func(excess bool) // see NewShared; nil: it has all there is

	mu     sync.Mutex
	queue  []*waiting // in the order in which they came
	places share
	starts share
	tokens share
	timer  *time.Timer // serves the queue when something spent counts no more; nil: there was none
	recent recent
}

// waiting is what has not begun.
type waiting struct {
	tokens int64 // that it is expected to use
	begun  chan struct{}
}

// New returns a Limiter that has all that the limits allow.
func New(limits Limits) *Limiter {
	l := &Limiter{}
	for s, most := range l.of(limits) {
		*s = share{limit: most, units: most, aim: most}
	}
	return l
}

// of returns the shares of a limiter, with their limits.
func (l *Limiter) of(limits Limits) map[*share]int64 {
	return map[*share]int64{
		&l.places: int64(limits.Concurrent), &l.starts: int64(limits.PerMinute), &l.tokens: limits.TokensPerMinute,
	}
}

// Begin waits until the limits let something begin, in the order in which it is called. The caller calls end, once,
// with what was used, when that has ended. The error is that of ctx if it ends before: then nothing began, and nothing
// counts.
func (l *Limiter) Begin(ctx context.Context, expected Tokens) (end func(used Tokens), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	w := l.join(expected)
	select {
	case <-w.begun:
	case <-ctx.Done():
		if l.leave(w) {
			return nil, ctx.Err()
		}
	}
	return l.ending(w), nil
}

// TryBegin is like Begin, but does not wait: began reports whether the limits let it begin at once.
func (l *Limiter) TryBegin(expected Tokens) (end func(used Tokens), began bool) {
	w := l.join(expected)
	select {
	case <-w.begun:
	default:
		if l.leave(w) {
			return nil, false
		}
	}
	return l.ending(w), true
}

// join puts something that is to begin at the end of the queue.
func (l *Limiter) join(expected Tokens) *waiting {
	w := &waiting{tokens: expected.In + expected.Out, begun: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens.limit > 0 {
		w.tokens = min(w.tokens, l.tokens.limit) // else it would never begin
	}

	l.queue = append(l.queue, w)
	l.serve()
	return w
}

// ending returns what ends something that begins now.
func (l *Limiter) ending(w *waiting) func(used Tokens) {
	began := time.Now()
	return func(used Tokens) { l.end(w, began, used) }
}

// leave takes something out of the queue. It reports whether it was still there.
func (l *Limiter) leave(w *waiting) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, w)
	if i < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	l.serve() // what is behind it may need less
	return true
}

func (l *Limiter) end(w *waiting, began time.Time, used Tokens) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.recent.note(l.places.held, now)
	l.places.held--
	l.tokens.held -= w.tokens

	l.tokens.spend(used.In, began.Add(minute))
	l.tokens.spend(used.Out, now.Add(minute))
	l.serve()
}

// serve lets begin what may. The caller holds l.mu.
func (l *Limiter) serve() {
	now := time.Now()
	l.expire(now)
	for len(l.queue) > 0 {
		w := l.queue[0]
		if l.places.free() < 1 || l.starts.free() < 1 || l.tokens.free() < w.tokens {
			break
		}

		l.places.held++
		l.tokens.held += w.tokens
		l.starts.spend(1, now.Add(minute))
		l.recent.note(l.places.held, now)
		l.queue = l.queue[1:]
		close(w.begun)
	}

	l.wake(now)
	if l.changed == nil {
		return
	}
	if l.places.tooLarge() || l.starts.tooLarge() || l.tokens.tooLarge() {
		l.changed(true)
	}
	if len(l.queue) > 0 {
		l.changed(false)
	}
}

// wake serves the queue again when what was spent first counts no more.
func (l *Limiter) wake(now time.Time) {
	if l.timer != nil {
		l.timer.Stop()
	}
	if len(l.queue) == 0 {
		return
	}

	var first time.Time
	for _, s := range []*share{&l.starts, &l.tokens} {
		if len(s.spent) > 0 && (first.IsZero() || s.spent[0].until.Before(first)) {
			first = s.spent[0].until
		}
	}
	if !first.IsZero() {
		l.timer = time.AfterFunc(first.Sub(now), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.serve()
		})
	}
}

func (l *Limiter) expire(now time.Time) {
	l.starts.expire(now)
	l.tokens.expire(now)
}
