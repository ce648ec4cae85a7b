package upkeep

import (
	"context"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

// reading is the time of the database, and when this process read it. The second one has the
// monotonic clock, which nobody sets.
type reading struct{ clock, at time.Time }

func (u *Upkeep) readClock(ctx context.Context, conn db.DBTX) (reading, error) {
	clock, err := u.clock(ctx, conn)
	return reading{clock, u.now()}, pg.Wrap(err, "read the clock of the database")
}

// agrees reports whether as much time has passed by both clocks between two readings. The clock of
// the database may be a quarter of the silence of a dead run off, or a second: runs whose heartbeats
// come as often as they should are not dead then.
func (r reading) agrees(earlier reading, silent time.Duration) bool {
	off := r.clock.Sub(earlier.clock) - r.at.Sub(earlier.at)
	return off.Abs() <= max(time.Second, silent/4)
}

// listening says since when this server would have noticed every sign of life, on a clock of the
// database that was not set. The zero value starts to listen.
type listening struct {
	since, last reading
	givenUp     uint64
}

// full reports whether that is at least as long as a dead run is silent. It is called often. It
// starts again if it was not called for a while, since this process, or its machine, may have been
// stopped; if writes were given up, which may have been signs of life; and if the clock of the
// database was set.
func (l *listening) full(now reading, givenUp uint64, often, silent time.Duration) bool {
	if now.at.Sub(l.last.at) > 2*often || givenUp != l.givenUp || !now.agrees(l.since, silent) {
		l.since = now
	}
	l.last, l.givenUp = now, givenUp
	return now.at.Sub(l.since.at) >= silent
}
