package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
)

var errDeadline = errors.New("the run has reached its limit of time")

// workClock ends the context of a run that has worked for as long as its limit of time, or that of a run above it,
// allows. It is stopped while all that the run does waits for people or for limits, and while no worker holds the run:
// what it shows is on record. Its zero value never ends anything.
type workClock struct {
	write func(ops ...runstore.RunOp) error // puts on record; nil: there is no limit
	age   func() time.Duration              // of the program
	end   context.CancelCauseFunc

	mu    sync.Mutex
	runs  bool
	left  time.Duration // when it was started, or last stopped
	since time.Time
	timer *time.Timer
	busy  int // calls of models and tools that are under way
	held  int // how many of them wait for a person, or for limits
}

// start starts the clock. The error is that of the run if its time is over.
func (c *workClock) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.startLocked()
}

func (c *workClock) startLocked() error {
	if c.write == nil || c.runs {
		return nil
	}

	var left *time.Duration
	if err := c.write(runstore.ClockStart(c.age(), &left)); err != nil {
		return err
	}
	if left == nil {
		return nil
	}

	c.runs, c.left = true, *left
	c.since = time.Now()
	if c.left <= 0 {
		c.end(errDeadline)
		return errDeadline
	}
	c.timer = time.AfterFunc(c.left, func() { c.end(errDeadline) })
	return nil
}

// stopped returns what puts on record that the clock is stopped, with the write that lets go of the run.
func (c *workClock) stopped() []runstore.RunOp {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.runs {
		return nil
	}

	c.timerStop()
	return []runstore.RunOp{runstore.ClockStop(c.age())}
}

func (c *workClock) timerStop() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// remaining returns how much time is left; 0: there is no limit.
func (c *workClock) remaining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.write == nil {
		return 0
	}

	left := c.left
	if c.runs {
		left -= time.Since(c.since)
	}
	return max(left, time.Millisecond)
}

// work notes that a call of a model or tool begins. done notes its end, once: if that cannot be put on record, the
// clock runs on.
func (c *workClock) work() (done func(), err error) {
	return sync.OnceFunc(func() { _ = c.note(-1, 0) }), c.note(1, 0)
}

// hold notes that a call waits for a person, or for limits. done notes that it goes on.
func (c *workClock) hold() (done func() error, err error) {
	return func() error { return c.note(0, -1) }, c.note(0, 1)
}

// note notes how many calls are under way, and how many of them wait. The clock is stopped while all do.
func (c *workClock) note(busy, held int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.write == nil {
		return nil
	}

	c.busy, c.held = c.busy+busy, c.held+held
	if waits := c.held > 0 && c.held >= c.busy; !waits {
		return c.startLocked()
	}
	if !c.runs {
		return nil
	}

	if err := c.write(runstore.ClockStop(c.age())); err != nil {
		return err // it runs on: so does the one on record
	}
	c.timerStop()
	c.runs, c.left = false, c.left-time.Since(c.since)
	return nil
}
