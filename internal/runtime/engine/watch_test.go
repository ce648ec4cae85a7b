package engine

import (
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
)

// TestLookout checks that a worker is dead when it sent no heartbeat for a lease of the time that passes here,
// whatever the clock of the database shows, and that time in which the database was away does not count.
func TestLookout(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	start := time.Now()
	holder := func(lease time.Duration, stopped bool) runstore.Holder {
		return runstore.Holder{WorkerID: "w", LeaseUntil: start.Add(lease), Stopped: stopped}
	}

	for _, tt := range []struct {
		name string
		see  []any // a time since the start and what is seen then, or nil: the database is away
		dead bool
	}{
		{"seen for the first time, long over", []any{time.Hour, holder(-time.Hour, false)}, false},
		{
			"no heartbeat for a lease", []any{
				0 * time.Second, holder(0, false), 2 * time.Second, holder(0, false), 3 * time.Second, holder(0, false),
			}, true,
		},
		{
			"a heartbeat in time", []any{
				0 * time.Second, holder(0, false), 2 * time.Second, holder(time.Second, false), 4 * time.Second,
				holder(time.Second, false),
			}, false,
		},
		{
			"the clock was set back", []any{
				0 * time.Second, holder(0, false), 2 * time.Second, holder(-time.Hour, false), 4 * time.Second,
				holder(-time.Hour, false),
			}, false,
		},
		{
			"the clock was set forward", []any{
				0 * time.Second, holder(0, false), 2 * time.Second, holder(time.Hour, false), 4 * time.Second,
				holder(time.Hour, false),
			}, false,
		},
		{
			"the database was away", []any{
				0 * time.Second, holder(0, false), time.Second, nil, 60 * time.Second, holder(0, false), 62 * time.Second,
				holder(0, false),
			}, false,
		},
		{"it stopped", []any{0 * time.Second, holder(0, true)}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var l lookout
			var dead []runstore.Holder
			for i := 0; i < len(tt.see); i += 2 {
				h, ok := tt.see[i+1].(runstore.Holder)
				if !ok {
					l.blind()
					continue
				}
				dead = l.dead([]runstore.Holder{h}, start.Add(tt.see[i].(time.Duration)), lease)
			}
			if (len(dead) > 0) != tt.dead {
				t.Errorf("dead: %+v", dead)
			}
		})
	}
}

// TestClock checks that the clock shows the time of the database, and that the wall clock of this machine does
// not matter.
func TestClock(t *testing.T) {
	t.Parallel()
	var c clock
	if d := time.Since(c.now()).Abs(); d > time.Minute {
		t.Errorf("before it is set it is wrong by %s", d)
	}

	database := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	c.set(time.Now(), database)
	if d := c.now().Sub(database); d < 0 || d > time.Minute {
		t.Errorf("after it was set it is wrong by %s", d)
	}

	if before := c.set(time.Now(), database.Add(-time.Hour)); before.Sub(database) < 0 ||
		before.Sub(database) > time.Minute {
		t.Errorf("it showed %s before", before)
	}
	if d := c.now().Sub(database); d > -time.Hour+time.Minute {
		t.Errorf("it was not set back: %s", d)
	}
}
