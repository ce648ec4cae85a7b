package store

import (
	"sync/atomic"
	"time"
)

// Stats is what a store has done since it was opened, and how it is now.
type Stats struct {
	// On their way into the record: rows and their estimated bytes, queued or being
	// written, and callers of Write that wait for room.
	QueueRows, QueueBytes, QueueWaiting int

	Batches uint64 // transactions that were committed
	Rows    uint64 // rows told or made as placeholders in them, changed or not
	Folded  uint64 // changes that met another one to the same row in their transaction
	Retries uint64 // tries of a transaction after the first
	Refused uint64 // changes answered with a rejection
	GivenUp uint64 // changes answered with an error: they could not be written within RetryFor

	// LastErrorAt is when a transaction last failed; zero: never.
	LastErrorAt time.Time
	// BatchSeconds is how long committed transactions took, retries apart.
	BatchSeconds Histogram

	Pool PoolStats

	PartitionsAdded, PartitionsDropped uint64 // by this store
	// PartitionsUntil is the day from which on only the default partitions catch
	// detail, as of the last hour; zero: there are no others.
	PartitionsUntil time.Time
	TreesDeleted    uint64
	RunsInterrupted uint64
	// TracesWithoutRows is how many times all spans of a trace meant no rows.
	TracesWithoutRows uint64
	UpkeepFailures    uint64 // rounds of upkeep, and tries to add partitions, that failed
}

// PoolStats is the state of the connections to Postgres.
type PoolStats struct {
	Acquired, Idle, Max int // connections
	// Waits is how often a connection had to be waited for, WaitDuration how long
	// acquiring took in all.
	Waits        int64
	WaitDuration time.Duration
}

// Histogram counts observations by size.
type Histogram struct {
	Bounds []float64 // upper ones, inclusive, rising
	Counts []uint64  // by bound, not cumulated; one more for what is beyond them
	Count  uint64
	Sum    float64
}

// batchBounds are those of BatchSeconds.
var batchBounds = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// counters is what Stats is read from. The zero value is ready.
type counters struct {
	batches, rows, folded, retries, refused            atomic.Uint64
	partitionsAdded, partitionsDropped, treesDeleted   atomic.Uint64
	runsInterrupted, upkeepFailures, tracesWithoutRows atomic.Uint64
	lastError                                          atomic.Int64 // Unix nanoseconds
	partitionsUntil                                    atomic.Int64 // Unix seconds; 0: not known
	batchNanos                                         atomic.Int64
	batchCounts                                        [len(batchBounds) + 1]atomic.Uint64
}

func (c *counters) committed(b *batch, took time.Duration) {
	c.batches.Add(1)
	c.rows.Add(uint64(len(b.rows)))
	c.folded.Add(uint64(b.folded))
	c.batchNanos.Add(int64(took))
	i := 0
	for i < len(batchBounds) && took.Seconds() > batchBounds[i] {
		i++
	}
	c.batchCounts[i].Add(1)
}

// failedAt gives when a transaction last failed; zero: never.
func (c *counters) failedAt() time.Time {
	if at := c.lastError.Load(); at != 0 {
		return time.Unix(0, at).UTC()
	}
	return time.Time{}
}

// Stats gives a snapshot, without asking the database. It is cheap.
func (s *Store) Stats() Stats {
	c, pool := &s.counters, s.pool.Stat()
	st := Stats{
		Batches: c.batches.Load(), Rows: c.rows.Load(), Folded: c.folded.Load(), Retries: c.retries.Load(),
		Refused: c.refused.Load(), GivenUp: s.queue.givenUp.Load(),
		BatchSeconds: Histogram{Bounds: batchBounds[:], Sum: time.Duration(c.batchNanos.Load()).Seconds()},
		Pool: PoolStats{
			Acquired: int(pool.AcquiredConns()), Idle: int(pool.IdleConns()), Max: int(pool.MaxConns()),
			Waits: pool.EmptyAcquireCount(), WaitDuration: pool.AcquireDuration(),
		},
		PartitionsAdded: c.partitionsAdded.Load(), PartitionsDropped: c.partitionsDropped.Load(), TreesDeleted: c.treesDeleted.Load(),
		RunsInterrupted: c.runsInterrupted.Load(), UpkeepFailures: c.upkeepFailures.Load(), TracesWithoutRows: c.tracesWithoutRows.Load(),
	}
	for i := range c.batchCounts {
		n := c.batchCounts[i].Load()
		st.BatchSeconds.Counts = append(st.BatchSeconds.Counts, n)
		st.BatchSeconds.Count += n
	}
	st.LastErrorAt = c.failedAt()
	if until := c.partitionsUntil.Load(); until > 0 { // the year 1 stands for none
		st.PartitionsUntil = time.Unix(until, 0).UTC()
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	st.QueueRows, st.QueueBytes, st.QueueWaiting = s.queue.rows, s.queue.bytes, len(s.queue.line)
	return st
}
