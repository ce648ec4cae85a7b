package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent/limit"
)

// starter begins things and notes in which second each began.
type starter struct {
	t     *testing.T
	l     *limit.Limiter
	from  time.Time
	began []int
}

func start(t *testing.T, l *limit.Limiter) *starter {
	t.Helper()
	return &starter{t: t, l: l, from: time.Now()}
}

// begin begins something that takes some time and uses tokens. It returns at once.
func (s *starter) begin(takes time.Duration, expected, used limit.Tokens) {
	i := len(s.began)
	s.began = append(s.began, -1)
	go func() {
		end, err := s.l.Begin(s.t.Context(), expected)
		if err != nil {
			return
		}
		s.began[i] = int(time.Since(s.from) / time.Second)
		time.Sleep(takes)
		end(used)
	}()
	synctest.Wait()
}

func (s *starter) check(after time.Duration, want ...int) {
	s.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	if diff := cmp.Diff(want, s.began); diff != "" {
		s.t.Errorf("began %s", diff)
	}
}

// TestTokens checks that what goes on counts as expected, and what has ended as used: what went in for a minute from
// the beginning, what came out for a minute from the end. Time is fake.
func TestTokens(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		expected, used limit.Tokens
		want           []int // each takes 10 s
	}{
		"as expected":                {limit.Tokens{In: 40, Out: 10}, limit.Tokens{In: 40, Out: 10}, []int{0, 0, 60, 70}},
		"fewer than expected":        {limit.Tokens{In: 60, Out: 40}, limit.Tokens{In: 20, Out: 10}, []int{0, 70, 140, 210}},
		"more than expected":         {limit.Tokens{In: 10}, limit.Tokens{In: 10, Out: 90}, []int{0, 0, 0, 0}},
		"more than there are":        {limit.Tokens{In: 1000}, limit.Tokens{}, []int{0, 10, 20, 30}},
		"more used than there are":   {limit.Tokens{In: 100}, limit.Tokens{Out: 1 << 62}, []int{0, 70, 140, 210}},
		"what no honest model says":  {limit.Tokens{In: 100}, limit.Tokens{In: -1, Out: -1 << 62}, []int{0, 10, 20, 30}},
		"nothing expected, all used": {limit.Tokens{}, limit.Tokens{Out: 200}, []int{0, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := start(t, limit.New(limit.Limits{TokensPerMinute: 100}))
				for range tt.want {
					s.begin(10*time.Second, tt.expected, tt.used)
				}
				s.check(10*time.Minute, tt.want...)
			})
		})
	}
}

// TestUsedCounts checks that what was used beyond what was expected keeps others waiting.
func TestUsedCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, limit.New(limit.Limits{TokensPerMinute: 100}))
		for range 3 {
			s.begin(time.Second, limit.Tokens{In: 1}, limit.Tokens{In: 50, Out: 20})
		}
		time.Sleep(2 * time.Second)
		s.begin(time.Second, limit.Tokens{In: 1}, limit.Tokens{})
		s.check(10*time.Minute, 0, 0, 0, 60)
	})
}

// TestGivenUp checks that what is given up while it waits did not begin, and lets others pass that need less.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Limits{TokensPerMinute: 100})
		s := start(t, l)
		s.begin(time.Second, limit.Tokens{In: 60}, limit.Tokens{In: 60})

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		given := make(chan error)
		go func() {
			_, err := l.Begin(ctx, limit.Tokens{In: 90})
			given <- err
		}()
		synctest.Wait()
		s.begin(time.Second, limit.Tokens{In: 30}, limit.Tokens{In: 30})

		if err := <-given; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up: %v", err)
		}
		s.check(time.Minute, 0, 5)
	})
}

// TestTryBegin checks that what cannot begin at once begins nothing, and leaves no place in the queue.
func TestTryBegin(t *testing.T) {
	t.Parallel()
	l := limit.New(limit.Limits{Concurrent: 1})
	end, began := l.TryBegin(limit.Tokens{})
	if !began {
		t.Fatal("the first one did not begin")
	}
	if _, began := l.TryBegin(limit.Tokens{}); began || l.Waits() {
		t.Errorf("the second one began: %t; one waits: %t", began, l.Waits())
	}

	end(limit.Tokens{})
	if _, began := l.TryBegin(limit.Tokens{}); !began {
		t.Error("the third one did not begin, although nothing goes on")
	}
}

// grant does what is granted: as much as is asked for, of a limit of which others have nothing.
func grant(l *limit.Limiter) {
	for _, a := range l.Ask() {
		l.Grant(a.Kind, max(a.Keep, a.Wanted), a.Wanted)
	}
}

// TestShared checks that a limiter begins nothing that it was not granted, asks for as much as it needs, for one limit
// after the other, and gives back what it needs no more.
func TestShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var excess, short int
		l := limit.NewShared(func(tooMuch bool) {
			if tooMuch {
				excess++
			} else {
				short++
			}
		})
		l.SetLimits(limit.Limits{Concurrent: 2, PerMinute: 9})
		asks := func(want ...limit.Ask) {
			t.Helper()
			if diff := cmp.Diff(want, l.Ask()); diff != "" {
				t.Errorf("it asks %s", diff)
			}
		}

		s := start(t, l)
		for range 3 {
			s.begin(20*time.Second, limit.Tokens{}, limit.Tokens{})
		}
		if short == 0 || excess > 0 || !l.Waits() {
			t.Errorf("it was short %d times, and had too much %d times", short, excess)
		}
		asks(limit.Ask{Kind: limit.PerMinute, Limit: 9, Wanted: 3, Liked: 3, Lasting: true})

		l.Grant(limit.PerMinute, 3, 3)
		asks(
			limit.Ask{Kind: limit.PerMinute, Limit: 9, Keep: 3, Wanted: 3, Liked: 3, Lasting: true},
			limit.Ask{Kind: limit.Concurrent, Limit: 2, Wanted: 3, Liked: 3},
		)
		s.check(time.Second, -1, -1, -1)

		l.Grant(limit.Concurrent, 2, 2)
		s.check(0, 1, 1, -1)
		asks(
			limit.Ask{Kind: limit.PerMinute, Limit: 9, Keep: 3, Wanted: 3, Liked: 3, Lasting: true},
			limit.Ask{Kind: limit.Concurrent, Limit: 2, Keep: 2, Wanted: 3, Liked: 3},
		)

		l.Grant(limit.Concurrent, 2, 1) // another one waits
		s.check(21*time.Second, 1, 1, 21)
		if excess == 0 || l.Waits() {
			t.Errorf("it had too much %d times", excess)
		}
		asks(
			limit.Ask{Kind: limit.PerMinute, Limit: 9, Keep: 3, Wanted: 3, Liked: 3, Lasting: true},
			limit.Ask{Kind: limit.Concurrent, Limit: 2, Keep: 1, Wanted: 1, Liked: 2},
		)

		time.Sleep(50 * time.Second) // the first two count no more
		asks(
			limit.Ask{Kind: limit.PerMinute, Limit: 9, Keep: 3, Wanted: 1, Liked: 1, Lasting: true},
			limit.Ask{Kind: limit.Concurrent, Limit: 2, Keep: 1},
		)

		grant(l)
		grant(l)
		time.Sleep(time.Minute)
		grant(l)
		grant(l)
		asks()
	})
}

// TestLimitsChange checks that a limit holds as it was set last, and that one that is none any more keeps nobody
// waiting.
func TestLimitsChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limit.NewShared(func(bool) {})
		l.SetLimits(limit.Limits{Concurrent: 1})
		s := start(t, l)
		s.begin(time.Hour, limit.Tokens{}, limit.Tokens{})
		s.begin(time.Hour, limit.Tokens{}, limit.Tokens{})
		l.Grant(limit.Concurrent, 1, 1)
		s.check(time.Second, 0, -1)

		l.SetLimits(limit.Limits{})
		s.check(0, 0, 1)
		want := []limit.Ask{{Kind: limit.Concurrent, Keep: 2}}
		if diff := cmp.Diff(want, l.Ask()); diff != "" {
			t.Errorf("it asks %s", diff)
		}

		s.check(2*time.Hour, 0, 1)
		l.Ask()
		l.Grant(limit.Concurrent, 0, 0)
		if asks := l.Ask(); len(asks) > 0 {
			t.Errorf("it asks %+v", asks)
		}
	})
}
