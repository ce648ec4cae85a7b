package schedule_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/schedule"
	"github.com/actlog/actlog/record"
)

// field is what a field of a cron expression of the tests allows: *, */n, numbers and ranges. It shares no code with
// what is tested.
type field map[int]bool

func fieldOf(t *testing.T, text string, least, most int) field {
	t.Helper()
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	f := field{}
	for part := range strings.SplitSeq(text, ",") {
		part, every, stepped := strings.Cut(part, "/")
		from, to, isRange := strings.Cut(part, "-")
		low, high := least, most
		if part != "*" {
			low = number(from)
			high = low
		}
		if isRange {
			high = number(to)
		}

		step := 1
		if stepped {
			step = number(every)
		}
		for n := low; n <= high; n += step {
			f[n] = true
		}
	}
	return f
}

// wallClock is what a clock on a wall shows at each step of the time, as times in UTC. The first steps are before the
// time that is looked at.
type wallClock struct {
	from  time.Time
	step  time.Duration
	shows []time.Time
}

// earlier is how much earlier than the time that is looked at a clock begins.
const earlier = 48 * time.Hour

func clockOf(zone *time.Location, from, to time.Time, step time.Duration) (c wallClock) {
	c.from, c.step = from.Add(-earlier), step
	for at := c.from; at.Before(to); at = at.Add(step) {
		l := at.In(zone)
		c.shows = append(c.shows, time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC))
	}
	return c
}

// oracle looks at the clock at each step.
func (c wallClock) oracle(t *testing.T, expression string) (ticks []time.Time) {
	t.Helper()
	parts := strings.Fields(expression)
	if len(parts) == 5 {
		parts = append([]string{"0"}, parts...)
	}
	second, minute := fieldOf(t, parts[0], 0, 59), fieldOf(t, parts[1], 0, 59)
	hour, day := fieldOf(t, parts[2], 0, 23), fieldOf(t, parts[3], 1, 31)
	month, weekday := fieldOf(t, parts[4], 1, 12), fieldOf(t, parts[5], 0, 6)

	matches := func(wall time.Time) bool {
		onDay := day[wall.Day()] && weekday[int(wall.Weekday())]
		if parts[3] != "*" && parts[5] != "*" {
			onDay = day[wall.Day()] || weekday[int(wall.Weekday())]
		}
		return second[wall.Second()] && minute[wall.Minute()] && hour[wall.Hour()] && onDay && month[int(wall.Month())]
	}

	latest := c.shows[0] // that it has shown
	for i, shown := range c.shows {
		ticked := parts[2] == "*" && matches(shown)
		for ; latest.Before(shown); latest = latest.Add(c.step) {
			ticked = ticked || parts[2] != "*" && matches(latest.Add(c.step))
		}
		if at := c.from.Add(time.Duration(i) * c.step); ticked && at.Sub(c.from) >= earlier {
			ticks = append(ticks, at)
		}
	}
	return ticks
}

func ticksOf(t *testing.T, expression, zone string) *schedule.Ticks {
	t.Helper()
	ticks, err := schedule.NewTicks(expression, zone)
	if err != nil {
		t.Fatalf("%s in %s: %v", expression, zone, err)
	}
	return ticks
}

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// TestYear: the ticks of a year are those of a clock on a wall, with both changes of the clock.
func TestYear(t *testing.T) {
	t.Parallel()
	expressions := []string{
		"*/15 * * * *", "7 * * * *", "30 2 * * *", "0 2 * * *", "0 3 * * *", "*/20 1-3 * * *", "0 */2 * * *", "0 0 * * *",
		"59 23 * * *", "15 1 1 * *", "0 2 * 3,10,11 0", "0 9 13 * 5", "45 2 29 2 *",
	}
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	to := from.AddDate(1, 0, 0)

	zones := []string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago",
	}
	for _, zone := range zones {
		clock := clockOf(zoneOf(t, zone), from, to, time.Minute)
		for _, expression := range expressions {
			t.Run(zone+" "+expression, func(t *testing.T) {
				t.Parallel()
				want := clock.oracle(t, expression)
				ticks := ticksOf(t, expression, zone)
				got := ticks.After(from.Add(-time.Second), len(want))
				if !slices.EqualFunc(got, want, time.Time.Equal) {
					t.Fatalf("%d ticks, first difference: %s", len(want), difference(got, want))
				}

				after := from // behind the last one
				if len(want) > 0 {
					after = want[len(want)-1]
				}
				if next := ticks.Next(after); next.Before(to) {
					t.Errorf("after %s there is %s, and should be none in the year", after, next)
				}
			})
		}
	}
}

func difference(got, want []time.Time) string {
	for i := range want {
		if i >= len(got) || !got[i].Equal(want[i]) {
			return "want " + want[i].String() + ", got " + append(got, time.Time{})[min(i, len(got))].String()
		}
	}
	return "none"
}

// TestSeconds: expressions with seconds, second by second over both nights of two zones.
func TestSeconds(t *testing.T) {
	t.Parallel()
	for zone, nights := range map[string][]time.Time{
		"Europe/Berlin":    {time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)},
		"America/New_York": {time.Date(2026, 3, 8, 5, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 4, 0, 0, 0, time.UTC)},
	} {
		for _, night := range nights {
			clock := clockOf(zoneOf(t, zone), night, night.Add(6*time.Hour), time.Second)
			for _, expression := range []string{"*/10 * * * * *", "30 59 * * * *", "5,10 */30 1-3 * * *", "59 59 2 * * *"} {
				want := clock.oracle(t, expression)
				got := ticksOf(t, expression, zone).After(night.Add(-time.Nanosecond), len(want))
				if len(want) == 0 || !slices.EqualFunc(got, want, time.Time.Equal) {
					t.Errorf("%s in %s from %s: %d ticks, first difference: %s", expression, zone, night, len(want),
						difference(got, want))
				}
			}
		}
	}
}

// TestNights has both nights in words.
func TestNights(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, zone, after, want string }{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "03-29 03:00 CEST, 03-30 02:30 CEST"},
		{"0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "03-29 03:00 CEST, 03-30 02:00 CEST"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "10-25 02:30 CEST, 10-26 02:30 CET"},
		{"30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "10-25 02:30 CEST, 10-25 02:30 CET"},
		{"30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "03-29 01:30 CET, 03-29 03:30 CEST"},
		{"30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "03-08 03:00 EDT, 03-09 02:30 EDT"},
		{"30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "11-01 01:30 EDT, 11-02 01:30 EST"},
		{"30 * * * *", "America/New_York", "2026-11-01T05:00:00Z", "11-01 01:30 EDT, 11-01 01:30 EST"},
		{"0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", "02-29 00:00 UTC, 02-29 00:00 UTC"},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tick := range ticksOf(t, c.expression, c.zone).After(after, 2) {
			got = append(got, tick.In(zoneOf(t, c.zone)).Format("01-02 15:04 MST"))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s in %s after %s: %s, want %s", c.expression, c.zone, c.after, strings.Join(got, ", "), c.want)
		}
	}
}

// TestBadTicks: what cannot be is refused, with the field.
func TestBadTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, zone, field string }{
		{"", "", "cron"}, {"* * * *", "", "cron"}, {"* * * * * * *", "", "cron"}, {"@daily", "", "cron"},
		{"TZ=UTC 0 3 * * *", "", "cron"}, {"60 * * * *", "", "cron"}, {"* * 30 2 *", "", "cron"}, {"x * * * *", "", "cron"},
		{"H * * * *", "", "cron"}, {"* * L * *", "", "cron"}, {strings.Repeat("0,", 200) + "0 * * * *", "", "cron"},
		{"*/0 * * * *", "", "cron"}, {"0 3 * * *\x00", "", "cron"}, {"0 0 31 2,4,6 *", "", "cron"},
		{"0 3 * * *", "Europe/Nowhere", "timezone"}, {"0 3 * * *", "Local", "timezone"},
		{"0 3 * * *", "../../etc/passwd", "timezone"}, {"0 3 * * *", "/etc/localtime", "timezone"},
		{"0 3 * * *", "Europe/Berlin\x00", "timezone"},
	} {
		_, err := schedule.NewTicks(c.expression, c.zone)
		if bad := new(record.InvalidError); !errors.As(err, &bad) || bad.Field != c.field {
			t.Errorf("%q in %q: %v, want a mistake of %s", c.expression, c.zone, err, c.field)
		}
	}
	ticksOf(t, "0 9 * JAN-MAR,dec MON-FRI", "")
}

// FuzzTicks: whatever is read has ticks that follow each other.
func FuzzTicks(f *testing.F) {
	for _, seed := range []string{"*/15 * * * *", "30 2 * * *", "5,10 */30 1-3 * * *", "0 9 13 * 5", "0 0 29 2 *"} {
		f.Add(seed, "Europe/Berlin", int64(1_790_000_000))
	}
	f.Fuzz(func(t *testing.T, expression, zone string, from int64) {
		ticks, err := schedule.NewTicks(expression, zone)
		if err != nil {
			return
		}
		after := time.Unix(from%8_000_000_000, 0)
		for range 20 {
			next := ticks.Next(after)
			if !next.After(after) {
				t.Fatalf("%q in %q: after %s comes %s", expression, zone, after, next)
			}
			after = next
		}
	})
}
