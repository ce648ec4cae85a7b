package main

import (
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/actlog/actlog/recorder"
)

// TestRunsAreInterruptedByDefault checks the defaults of heartbeats on both sides: a killed run does not
// stay RUNNING, and a live one is far from being taken for dead.
//
// N9: a killed run stayed RUNNING for ever by default.
func TestRunsAreInterruptedByDefault(t *testing.T) {
	t.Parallel()
	var c cli
	parser, err := kong.New(&c, kong.Vars{"version": "", "server": defaultServer})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"serve"}); err != nil {
		t.Fatal(err)
	}

	if after := c.Serve.InterruptAfter; after != 15*time.Minute || after < 10*recorder.HeartbeatDefault {
		t.Errorf("runs are interrupted after %v, heartbeats come every %v", after, recorder.HeartbeatDefault)
	}
}

// TestClosingHasTime: queue and Postgres can close, too, when requests and runs took all the time to stop.
func TestClosingHasTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ took, want time.Duration }{
		{0, drainTimeout},
		{20 * time.Second, 10 * time.Second},
		{time.Minute, leastToClose},
	} {
		before := time.Now()
		ctx, cancel := closing(before.Add(-tt.took))
		after := time.Now()

		deadline, _ := ctx.Deadline()
		if deadline.Before(before.Add(tt.want)) || deadline.After(after.Add(tt.want)) {
			t.Errorf("after %v: %v, want %v", tt.took, deadline.Sub(before), tt.want)
		}
		cancel()
	}
}
