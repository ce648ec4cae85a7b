package upkeep

import (
	"context"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/store"
)

// Idle returns an Upkeep that does nothing by itself.
var Idle = newUpkeep

// Parts of the upkeep.
var (
	CloseDays      = (*Upkeep).closeDays
	DropDetail     = (*Upkeep).dropDetail
	DeleteOutdated = (*Upkeep).deleteOutdated
	SweepChanges   = (*Upkeep).sweepChanges
	DropSpans      = (*Upkeep).dropSpans
	IndexTexts     = (*Upkeep).indexTexts
	KeepRecent     = (*Upkeep).makeAllRecent
)

// InterruptDead marks the runs that were silent for so long, without listening first.
func InterruptDead(ctx context.Context, u *Upkeep, silent time.Duration) error {
	now, err := u.readClock(ctx, u.db)
	if err != nil {
		return err
	}
	return u.interruptDead(ctx, now, silent)
}

// SetClocks lets an Upkeep read other clocks: so far beyond that of the database, and beyond that of
// this process.
func SetClocks(u *Upkeep, database, process func() time.Duration) {
	u.clock = func(ctx context.Context, conn db.DBTX) (time.Time, error) {
		now, err := u.queries.Clock(ctx, conn)
		return now.Add(database()), err
	}
	u.now = func() time.Time { return time.Now().Add(process()) }
}

// BeforeMarks lets f run after the trees are locked and before they are marked.
func BeforeMarks(u *Upkeep, f func()) {
	u.clock = func(ctx context.Context, conn db.DBTX) (time.Time, error) {
		now, err := u.queries.Clock(ctx, conn)
		if _, locked := conn.(*store.Tx); locked {
			f()
		}
		return now, err
	}
}

// SetPause lets an Upkeep call pause where it would rest.
func SetPause(u *Upkeep, pause func(context.Context, time.Duration) error) { u.pause = pause }

// Listening is what an Upkeep remembers between the rounds of [InterruptSilent].
type Listening = listening

// InterruptSilent is one round of looking for dead runs.
var InterruptSilent = (*Upkeep).interruptSilent

// SetSlice lets an Upkeep put so few recent runs into a slice of their index.
func SetSlice(u *Upkeep, runs int) { u.runsOfSlice = runs }

// PartitionedTables hold the detail.
var PartitionedTables = partitionedTables

// PartitionsAhead is how many periods beyond the present one have partitions.
const PartitionsAhead = partitionsAhead
