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
