// Package when owns how people say a time: as a moment, as a day, or as how long ago it was. Commands, the API and the
// page read them alike. Pure functions.
package when

import (
	"regexp"
	"strconv"
	"time"
)

// Forms says what a time may be, for messages.
const Forms = "a time such as 2026-11-20T13:53:00Z (RFC 3339), a day such as 2026-11-20, or how long ago, such as " +
	"90m, 24h, 3d or 2w"

// maxSpan bounds the spans of time that people name.
const maxSpan = 100 * 365 * 24 * time.Hour

// Time reads a moment: a time of RFC 3339, a day, which is its beginning at a place, or how long before now it was.
func Time(s string, now time.Time, place *time.Location) (at time.Time, ok bool) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		at, err := time.ParseInLocation(layout, s, place)
		if year := at.UTC().Year(); err == nil && year >= 1 && year <= 9999 {
			return at, true
		}
	}
	ago, ok := Span(s)
	return now.Add(-ago), ok
}

var units = map[string]time.Duration{
	"w": 7 * 24 * time.Hour, "d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second,
	"ms": time.Millisecond, "us": time.Microsecond, "µs": time.Microsecond, "ns": time.Nanosecond,
}

var (
	span  = regexp.MustCompile(`^(?:[0-9]+(?:\.[0-9]+)?(?:ms|us|µs|ns|[wdhms]))+$`)
	piece = regexp.MustCompile(`([0-9.]+)([^0-9.]+)`)
)

// Span reads a span of time of numbers with their units, such as 90s, 1h30m, 1.5d or 2w. A day has 24 hours.
func Span(s string) (d time.Duration, ok bool) {
	if !span.MatchString(s) {
		return 0, false
	}

	total := 0.0
	for _, p := range piece.FindAllStringSubmatch(s, -1) {
		n, err := strconv.ParseFloat(p[1], 64)
		if err != nil {
			return 0, false
		}
		total += n * float64(units[p[2]])
	}
	return time.Duration(total), total <= float64(maxSpan)
}
