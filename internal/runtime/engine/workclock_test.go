package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
)

// TestAClockThatCannotBeStoppedRunsOn checks that a clock runs on here as long as its stop cannot be put on record.
func TestAClockThatCannotBeStoppedRunsOn(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	failure := away
	c := &workClock{
		write: func(...runstore.RunOp) error { return failure }, age: func() time.Duration { return 0 }, end: func(error) {},
		runs: true, left: time.Hour, since: time.Now(), timer: time.AfterFunc(time.Hour, func() {}),
	}

	done, err := c.work()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.hold(); !errors.Is(err, away) {
		t.Errorf("a failed write says %v", err)
	}
	if !c.runs || c.left != time.Hour || !c.timer.Stop() {
		t.Errorf("the clock runs: %t, with %v left", c.runs, c.left)
	}

	failure = nil
	done()
	if c.runs {
		t.Error("the clock runs although all that is done waits for people")
	}
	done()
	if c.busy != 0 {
		t.Errorf("%d calls are under way", c.busy)
	}
}
