package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// shownInNights returns the moments at which a clock on the wall shows 1:30 and 2:30, or has just skipped it. What it
// shows twice counts once.
func shownInNights(zone *time.Location, from, to time.Time) (moments []time.Time) {
	const step = 30 * time.Minute
	wall := func(at time.Time) time.Time {
		l := at.In(zone)
		return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
	}

	latest := wall(from.Add(-step))
	for at := from; at.Before(to); at = at.Add(step) {
		ticked := false
		for latest.Before(wall(at)) {
			latest = latest.Add(step)
			ticked = ticked || latest.Minute() == 30 && (latest.Hour() == 1 || latest.Hour() == 2)
		}
		if ticked {
			moments = append(moments, at)
		}
	}
	return moments
}

// TestYearOfTicks plays a year in which the clocks change twice, weeks at a time. Three processes, each killed again
// and again, decide about each tick once and as its schedule says.
func TestYearOfTicks(t *testing.T) {
	t.Parallel()
	h := timed(t)
	from := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	const jump, jumps = 20 * 24 * time.Hour, 19

	shiftClock(h, time.Until(from))
	another := func() *runstore.Store { return runstore.New(storetest.OpenURL(t, h.DB.URL)) }
	h.Runs = another()
	h.Engine = h.NewEngine(nil)

	zones := map[string]*time.Location{}
	add := func(name, zone string, overlap define.OverlapPolicy, catchUp define.CatchUpPolicy) {
		put(h, name, minutely(func(d *define.Schedule) {
			d.Cron, d.Timezone = "30 1,2 * * *", zone
			d.Overlap, d.CatchUp = overlap, catchUp
			d.Window = define.MaxWindow
		}))
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		zones[name] = location
	}
	add("berlin", "Europe/Berlin", define.OverlapQueue, define.CatchUpAll)
	add("new-york", "America/New_York", define.OverlapQueue, define.CatchUpAll)
	add("last", "Europe/Berlin", define.OverlapQueue, define.CatchUpLast)
	add("skip", "America/New_York", define.OverlapSkip, define.CatchUpAll)

	ctx, cancel := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	for i := range 3 {
		runs := another()
		looking.Go(func() {
			lives := time.Duration(i+1) * 10 * time.Millisecond
			for ; ctx.Err() == nil; lives = (lives + 17*time.Millisecond) % (200 * time.Millisecond) {
				dies, kill := context.WithTimeout(ctx, lives) // in the middle of whatever it does
				h.NewEngine(func(c *engine.Config) { c.Store = runs }).KeepTime(dies)
				kill()
			}
		})
	}

	for range jumps {
		sql(h, "UPDATE shifted.clock SET ahead = ahead + $1", jump)
		for name := range zones {
			storetest.Until(t, "the ticks of "+name+" are decided about", func() bool {
				s := scheduled(h, name)
				return s.NextAt.After(s.Now)
			})
		}
	}
	cancel()
	looking.Wait()

	for name, zone := range zones {
		s := scheduled(h, name)
		ticks := shownInNights(zone, from, *s.NextAt)
		started := len(ticks)
		want := fmt.Sprintf("%d started, 0 skipped, 0 missed", started)
		switch name {
		case "last": // of each jump
			started = jumps
			want = fmt.Sprintf("%d started, 0 skipped, %d missed", jumps, len(ticks)-jumps)
		case "skip": // its only run never ends
			started = 1
			want = fmt.Sprintf("1 started, %d skipped, 0 missed", len(ticks)-1)
		}

		if got := fmt.Sprintf("%d started, %d skipped, %d missed", s.Started, s.Skipped, s.Missed); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}

		got := storetest.Query[[]time.Time](t, h.Store, `SELECT array_agg(tick_at ORDER BY tick_at) FROM actlog.run
			WHERE schedule = $1`, name)
		if len(got) != started || started == len(ticks) && !slices.EqualFunc(got, ticks, time.Time.Equal) {
			t.Errorf("%s: the runs are of %d ticks, which are not those of a clock on the wall", name, len(got))
		}
	}
}
