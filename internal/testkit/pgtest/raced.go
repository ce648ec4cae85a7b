package pgtest

import "testing"

// NotRaced skips a long test under the race detector, which would find nothing in it. The reason says why: it starts no
// goroutines, or others in the package run the same code at the same time. `make test RACE=1` then runs
// it without the detector.
func NotRaced(t testing.TB, reason string) {
	t.Helper()
	if raced {
		t.Skip("not raced: " + reason)
	}
}
