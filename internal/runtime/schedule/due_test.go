package schedule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/schedule"
	"github.com/actlog/actlog/record"
)

func timing(t *testing.T, cron string, set func(*define.Schedule)) *schedule.Timing {
	t.Helper()
	s := define.NewSchedule()
	s.Cron = cron
	if set != nil {
		set(&s)
	}

	timing, err := schedule.NewTiming("s", s)
	if err != nil {
		t.Fatal(err)
	}
	return timing
}

// TestJitter: a tick is late by less than the jitter, and than the time until the next one; the same each time; and by
// other times than other ticks, and those of other schedules.
func TestJitter(t *testing.T) {
	t.Parallel()
	of := func(jitter time.Duration) *schedule.Timing {
		return timing(t, "*/10 * * * *", func(s *define.Schedule) { s.Jitter = define.Span(jitter) })
	}
	small, again := of(time.Minute), of(time.Minute)
	large, none := of(24*time.Hour), of(0)

	late := map[time.Duration]bool{}
	for _, tick := range small.After(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), 500) {
		offset := small.DueAt(tick).Sub(tick)
		late[offset] = true
		if offset < 0 || offset >= time.Minute || again.DueAt(tick).Sub(tick) != offset {
			t.Fatalf("tick %s is late by %s, then by %s", tick, offset, again.DueAt(tick).Sub(tick))
		}
		if !large.DueAt(tick).Before(tick.Add(10*time.Minute)) || !none.DueAt(tick).Equal(tick) {
			t.Fatalf("tick %s is late by %s, without jitter by %s", tick, large.DueAt(tick).Sub(tick),
				none.DueAt(tick).Sub(tick))
		}
	}
	if len(late) < 400 {
		t.Errorf("500 ticks are late by only %d times", len(late))
	}
}

// TestIsMissed: what was missed, by what is to be made up for.
func TestIsMissed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		catchUp define.CatchUpPolicy
		ago     time.Duration // of a tick each minute
		want    bool
	}{
		{define.CatchUpNone, 5 * time.Second, false}, {define.CatchUpNone, 30 * time.Second, true},
		{define.CatchUpLast, 5 * time.Second, false}, {define.CatchUpLast, 30 * time.Second, false},
		{define.CatchUpLast, 90 * time.Second, true}, {define.CatchUpAll, 59 * time.Minute, false},
		{define.CatchUpAll, 61 * time.Minute, true}, {define.CatchUpLast, 2 * time.Hour, true},
	} {
		s := timing(t, "* * * * *", func(s *define.Schedule) { s.CatchUp = c.catchUp })
		if got := s.IsMissed(at, at.Add(c.ago)); got != c.want {
			t.Errorf("%s, %s ago: missed %t", c.catchUp, c.ago, got)
		}
	}

	hourly := timing(t, "0 * * * *", nil)
	if hourly.IsMissed(at, at.Add(50*time.Minute)) {
		t.Error("the last tick is not made up for")
	}
	short := timing(t, "* * * * *", func(s *define.Schedule) { s.Window = define.Span(2 * time.Second) })
	if short.IsMissed(at, at.Add(3*time.Second)) {
		t.Error("a tick that is on time is missed, because its window is smaller")
	}
	if !short.IsMissed(at, at.Add(11*time.Second)) {
		t.Error("a tick is started after its window")
	}
}

// TestBadTiming: what cannot be is refused, with the field.
func TestBadTiming(t *testing.T) {
	t.Parallel()
	for field, set := range map[string]func(*define.Schedule){
		"cron": func(s *define.Schedule) { s.Cron = "x" }, "timezone": func(s *define.Schedule) { s.Timezone = "x" },
		"jitter": func(s *define.Schedule) { s.Jitter = -1 }, "window": func(s *define.Schedule) { s.Window = 0 },
		"overlap": func(s *define.Schedule) { s.Overlap = "x" }, "catchUp": func(s *define.Schedule) { s.CatchUp = "x" },
	} {
		s := define.NewSchedule()
		s.Cron = "* * * * *"
		set(&s)
		_, err := schedule.NewTiming("s", s)
		if bad := new(record.InvalidError); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestSpan: the shortest form of a time.
func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 10 * time.Second: "10s", 10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m",
		3601 * time.Second: "1h0m1s", 20 * time.Hour: "20h", 1500 * time.Millisecond: "1.5s",
	} {
		if got := define.Span(d).String(); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
