// Package schedule owns when something that happens again and again happens: the times that a cron expression means in
// a time zone, and what becomes of those that were missed.
package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/actlog/actlog/record"
)

// Ticks are the times that a cron expression means in a time zone. They are whole seconds.
//
// A time of day that the clock skips ticks at the first moment after the gap, and one that comes twice ticks the first
// time. Where the field of hours is *, ticks go by elapsed time: all moments whose time of day matches.
type Ticks struct {
	// wall steps through times of day. It knows no zone: its times are in UTC.
	wall    *cron.SpecSchedule
	zone    *time.Location
	elapsed bool
}

const (
	maxCronBytes = 255
	// searchYears is how far apart two ticks can be: there are eight years between two 29ths of February around 2100.
	searchYears = 12
	fields      = cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom
)

// NewTicks reads a cron expression of 5 fields, or of 6 with seconds first, and the name of a time zone; empty: UTC.
// The error is a [*record.InvalidError] whose field is cron or timezone.
func NewTicks(expression, timezone string) (*Ticks, error) {
	zone, err := zoneOf(timezone)
	if err != nil {
		return nil, err
	}

	given := strings.Fields(expression)
	options := fields
	switch {
	case len(expression) > maxCronBytes:
		return nil, invalid("cron", fmt.Sprintf("must not be longer than %d bytes", maxCronBytes))
	case len(given) == 6:
		options |= cron.Second
	case len(given) != 5:
		return nil, invalid("cron", "must have 5 fields (minute, hour, day of month, month, day of week), or 6 with seconds "+
			"first")
	}

	// The library reads a zone before the fields, and dates that only it knows.
	if strings.ContainsAny(expression, "=@") {
		return nil, invalid("cron", "must be numbers, names, and * , - / in each field")
	}
	parser, err := cron.TryNewParser(options)
	if err != nil {
		return nil, fmt.Errorf("read a cron expression: %w", err)
	}

	parsed, err := parser.WithMaxSearchYears(searchYears).Parse(strings.Join(given, " "))
	if err != nil {
		return nil, invalid("cron", "cannot be read: "+err.Error())
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, invalid("cron", "cannot be read")
	}

	spec.Location = time.UTC
	t := &Ticks{wall: spec, zone: zone, elapsed: given[len(given)-4] == "*"}
	if spec.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, invalid("cron", "means no day that there is")
	}
	return t, nil
}

func zoneOf(name string) (*time.Location, error) {
	const must = "must be the name of a time zone, such as Europe/Berlin or UTC"
	if name == "Local" { // that of this machine, and others differ
		return nil, invalid("timezone", must)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, invalid("timezone", must)
	}
	return zone, nil
}

func invalid(field, reason string) error {
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: field, Reason: reason}
}

// Next returns the first tick after a moment; zero: there is none.
func (t *Ticks) Next(after time.Time) time.Time {
	if t.elapsed {
		return t.nextElapsed(after)
	}
	return t.reached(t.wall.Next(t.latest(after)))
}

// After returns the first n ticks after a moment.
func (t *Ticks) After(after time.Time, n int) []time.Time {
	ticks := []time.Time{}
	for len(ticks) < n {
		if after = t.Next(after); after.IsZero() {
			break
		}
		ticks = append(ticks, after)
	}
	return ticks
}

// nextElapsed returns the first moment whose time of day matches.
func (t *Ticks) nextElapsed(after time.Time) time.Time {
	at, from := after, t.clock(after)
	for range 2 * 2 * searchYears { // a zone changes its clock at most so often, as a rule
		wall := t.wall.Next(from)
		if wall.IsZero() {
			return wall
		}

		_, end := at.In(t.zone).ZoneBounds()
		if tick := wall.Add(-t.offset(at)); end.IsZero() || tick.Before(end) {
			return tick
		}
		at, from = end, t.clock(end).Add(-time.Second)
	}
	return time.Time{}
}

func (t *Ticks) offset(at time.Time) time.Duration {
	_, seconds := at.In(t.zone).Zone()
	return time.Duration(seconds) * time.Second
}

// clock returns what the clock shows at a moment, as a time in UTC.
func (t *Ticks) clock(at time.Time) time.Time { return at.UTC().Add(t.offset(at)) }

// unsettled is longer than a clock is set back by, and than any offset from UTC.
const unsettled = 36 * time.Hour

// latest returns the latest that the clock has shown until a moment: later than at the moment itself if the clock was
// set back a short time ago.
func (t *Ticks) latest(until time.Time) time.Time {
	latest := t.clock(until)
	start, _ := until.In(t.zone).ZoneBounds()
	for !start.IsZero() && until.Sub(start) < unsettled {
		before := start.Add(-time.Second) // the last one before the clock was set
		if shown := t.clock(before); shown.After(latest) {
			latest = shown
		}
		start, _ = before.In(t.zone).ZoneBounds()
	}
	return latest
}

// reached returns the first moment at which the clock shows a time, or a later one.
func (t *Ticks) reached(wall time.Time) time.Time {
	if wall.IsZero() {
		return wall
	}

	at := wall.Add(-unsettled)
	for {
		start, end := at.In(t.zone).ZoneBounds()
		tick := wall.Add(-t.offset(at))
		switch {
		case !start.IsZero() && tick.Before(start):
			return start.UTC()
		case end.IsZero() || tick.Before(end):
			return tick
		}
		at = end
	}
}
