package engine

import (
	"sync"
	"time"
)

// clock shows the time of the database, by which waits and limits of time are due, and which all workers
// share. Between two looks at the database it goes by the time that passes, so that nobody who sets the clock
// of this machine changes it.
type clock struct {
	mu sync.Mutex
	at time.Time // when it was set, with the monotonic reading of this machine; zero: never
	is time.Time // what it showed then
}

// now returns the time of the database, or of this machine as long as it is not known.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return time.Now()
	}
	return c.is.Add(time.Since(c.at))
}

// set sets the clock to what the database showed between the time that it was asked and now. It returns what
// the clock showed before.
func (c *clock) set(asked, is time.Time) (before time.Time) {
	before = c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.is = asked.Add(time.Since(asked)/2), is
	return before
}
