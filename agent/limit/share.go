package limit

import (
	"math"
	"slices"
	"time"
)

// share is what a limiter may use of one limit, and what it uses.
type share struct {
	limit int64   // 0: there is none
	units int64   // that are its own
	aim   int64   // how many should be: nothing begins beyond that
	held  int64   // by what goes on
	spent []spent // what has begun or ended, the first to count no more first
	sum   int64   // of what is spent
}

// spent are units that count until a time.
type spent struct {
	units int64
	until time.Time
}

func (s *share) used() int64 { return s.held + s.sum }

// free returns how many units may be used now.
func (s *share) free() int64 {
	if s.limit == 0 {
		return math.MaxInt64
	}
	return min(s.units, s.aim) - s.used()
}

// kept returns how many of its units it does not give back.
func (s *share) kept() int64 { return max(s.used(), min(s.units, s.aim)) }

// tooLarge reports whether it has units to give back.
func (s *share) tooLarge() bool { return s.units > s.kept() }

// spend counts units until a time, but no more than there are of all.
func (s *share) spend(units int64, until time.Time) {
	units = min(units, s.limit)
	if units <= 0 || !until.After(time.Now()) {
		return
	}

	at, _ := slices.BinarySearchFunc(s.spent, until, func(e spent, t time.Time) int {
		if e.until.After(t) {
			return 1
		}
		return -1
	})
	s.spent = slices.Insert(s.spent, at, spent{units, until})
	s.sum += units
}

func (s *share) expire(now time.Time) {
	for len(s.spent) > 0 && !s.spent[0].until.After(now) {
		s.sum -= s.spent[0].units
		s.spent = s.spent[1:]
	}
}

// recent is the most that went on at the same time not long ago.
type recent struct {
	since       time.Time
	now, before int64
}

// longAgo is for how long, at least, a limiter likes to keep the places that it used.
const longAgo = 5 * time.Second

func (r *recent) note(held int64, now time.Time) {
	for range 2 {
		if now.Sub(r.since) >= longAgo {
			r.since = later(r.since.Add(longAgo), now.Add(-longAgo))
			r.before, r.now = r.now, 0
		}
	}
	r.now = max(r.now, held)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// NewShared returns a Limiter that has nothing of its limits until it is granted some. Others have the rest. changed is
// called when it has more than it should have, which is an excess, and when something waits. It returns at once and
// calls no method of the limiter.
func NewShared(changed func(excess bool)) *Limiter { return &Limiter{changed: changed} }

// SetLimits sets the limits in which a limiter has its share.
func (l *Limiter) SetLimits(limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s, most := range l.of(limits) {
		s.limit = most
	}
	for _, w := range l.queue {
		if l.tokens.limit > 0 {
			w.tokens = min(w.tokens, l.tokens.limit)
		}
	}
	l.serve()
}

// Ask is what a limiter asks of those with whom it shares a limit.
type Ask struct {
	Kind  Kind
	Limit int64 // of all together; 0: it is none any more
	// Keep is how many units it keeps, if it is granted no more. What it had beyond them it does not use any more.
	Keep int64
	// Wanted is how many it needs now, Liked how many it would like to have at hand.
	Wanted, Liked int64
	// Lasting says that units that are used stay so for a minute.
	Lasting bool
	// Whole says that a part of what it wants is of no use.
	Whole bool
}

// Waits reports whether something waits.
func (l *Limiter) Waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0
}

// Ask returns what a limiter asks for: nothing of a limit of which it has and needs nothing.
func (l *Limiter) Ask() (asks []Ask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.expire(now)
	l.recent.note(l.places.held, now)

	// Each waits for one limit after the other, so that no two workers have what the other one needs.
	queue := l.queue
	starts := l.starts.used() + int64(len(queue))
	queue = queue[:min(int64(len(queue)), max(l.starts.free(), 0))]

	tokens := l.tokens.used()
	if len(queue) > 0 {
		tokens += queue[0].tokens
	}

	free, ready := l.tokens.free(), int64(0)
	for ready < int64(len(queue)) && queue[ready].tokens <= free {
		free -= queue[ready].tokens
		ready++
	}
	places := l.places.held + ready

	add := func(kind Kind, s *share, wanted, liked int64) {
		if s.limit == 0 && s.units == 0 || wanted == 0 && liked == 0 && s.units == 0 {
			return
		}
		if s.limit == 0 {
			wanted, liked = 0, 0
			s.aim = 0
		}
		s.units = s.kept()
		asks = append(asks, Ask{kind, s.limit, s.units, wanted, liked, kind != Concurrent, kind == TokensPerMinute})
	}
	add(PerMinute, &l.starts, starts, starts)
	add(TokensPerMinute, &l.tokens, tokens, tokens)
	add(Concurrent, &l.places, places, max(places, l.recent.now, l.recent.before))
	return asks
}

// Grant says how many units of a limit are a limiter's own from now on, at least those that it kept, and how many
// should be: it gives back what it has beyond that as soon as it is not used.
func (l *Limiter) Grant(kind Kind, units, aim int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := map[Kind]*share{Concurrent: &l.places, PerMinute: &l.starts, TokensPerMinute: &l.tokens}[kind]
	s.units, s.aim = units, aim
	l.serve()
}
