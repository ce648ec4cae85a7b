package when

import (
	"testing"
	"time"
)

var now = time.Date(2026, 11, 20, 13, 53, 0, 0, time.UTC)

// F4: a time is read alike wherever one is given.
func TestTime(t *testing.T) {
	t.Parallel()
	place := time.FixedZone("east", 2*3600)
	day := 24 * time.Hour
	for text, want := range map[string]time.Time{
		"90s": now.Add(-90 * time.Second), "5m": now.Add(-5 * time.Minute), "24h": now.Add(-day), "3d": now.Add(-3 * day),
		"2w":    now.Add(-14 * day),
		"1d12h": now.Add(-36 * time.Hour), "1.5h": now.Add(-90 * time.Minute), "0s": now,
		"1w2d3h":                    now.Add(-9*day - 3*time.Hour),
		"2026-11-19":                time.Date(2026, 11, 18, 22, 0, 0, 0, time.UTC),
		"2026-11-19T10:00:00Z":      time.Date(2026, 11, 19, 10, 0, 0, 0, time.UTC),
		"2026-11-19T10:00:00+02:00": time.Date(2026, 11, 19, 8, 0, 0, 0, time.UTC),
		"2026-11-19T10:00:00.5Z":    time.Date(2026, 11, 19, 10, 0, 0, 500_000_000, time.UTC),
	} {
		if at, ok := Time(text, now, place); !ok || !at.Equal(want) {
			t.Errorf("%q is %v %v, want %v", text, at.UTC(), ok, want)
		}
	}

	for _, text := range []string{
		"", "3", "d", "3 d", "-3d", "3D", "3y", "3d4", "yesterday", "2026-13-01", "2026-11-19T10:00:00", "0000-01-01",
		"200000d", "1e3h", "1..5h", "99999999999999999999w",
	} {
		if at, ok := Time(text, now, place); ok {
			t.Errorf("%q is %v, want no time", text, at)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "10us": 10 * time.Microsecond, "1w": 7 * 24 * time.Hour,
	} {
		if d, ok := Span(text); !ok || d != want {
			t.Errorf("%q takes %v %v, want %v", text, d, ok, want)
		}
	}
}
