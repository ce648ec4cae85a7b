package store

import (
	"sync/atomic"
	"time"
)

// Stats is what a store has done since it was opened, and its present state.
type Stats struct {
	// Rows and their estimated bytes that are queued or being written, and callers of Write
	// that wait for room.
	QueueRows, QueueBytes, QueueWaiting int

	Batches uint64 // transactions that were committed
	Rows    uint64 // rows in them, placeholders included, changed or not
	Folded  uint64 // changes that met another one to the same row in their transaction
	Retries uint64 // tries of a transaction after the first
	Refused uint64 // changes that were answered with a rejection
	GivenUp uint64 // changes that were answered with an error: not written within RetryFor

	// LastErrorAt is when a transaction last failed; zero: never.
	LastErrorAt time.Time
	// BatchSeconds is how long committed transactions took, without retries.
	BatchSeconds Histogram

	Pool PoolStats
	// Replica is zero if there is none.
	Replica ReplicaStats

	TreesDeleted uint64
	// TracesWithoutRows is how many times all spans of a trace together meant no rows.
	TracesWithoutRows uint64
	// TraceFailures is how many times the rows of due traces could not be made.
	TraceFailures uint64
}

// PoolStats is the state of the connections to Postgres.
type PoolStats struct {
	Acquired, Idle, Max int // connections
	// Waits is how often a connection was waited for, WaitDuration how long it took in all.
	Waits        int64
	WaitDuration time.Duration
}

// Histogram counts observations by size.
type Histogram struct {
	Bounds []float64 // upper ones, inclusive, rising
	Counts []uint64  // by bound, not cumulative; one more for what is above all bounds
	Count  uint64
	Sum    float64
}

// batchBounds are those of BatchSeconds.
var batchBounds = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// counters is what Stats is read from. The zero value is ready.
type counters struct {
	batches, rows, folded, retries, refused        atomic.Uint64
	treesDeleted, tracesWithoutRows, traceFailures atomic.Uint64
	lastError                                      atomic.Int64 // Unix nanoseconds
	batchNanos                                     atomic.Int64
	batchCounts                                    [len(batchBounds) + 1]atomic.Uint64
}

func (c *counters) committed(rows, folded int, took time.Duration) {
	c.batches.Add(1)
	c.rows.Add(uint64(rows))
	c.folded.Add(uint64(folded))
	c.batchNanos.Add(int64(took))

	i := 0
	for i < len(batchBounds) && took.Seconds() > batchBounds[i] {
		i++
	}
	c.batchCounts[i].Add(1)
}

func (c *counters) failed() { c.lastError.Store(time.Now().UnixNano()) }

// failedAt is when a transaction last failed; zero: never.
func (c *counters) failedAt() time.Time {
	if at := c.lastError.Load(); at != 0 {
		return time.Unix(0, at).UTC()
	}
	return time.Time{}
}

func (c *counters) stats() Stats {
	st := Stats{
		Batches: c.batches.Load(), Rows: c.rows.Load(), Folded: c.folded.Load(), Retries: c.retries.Load(),
		Refused:      c.refused.Load(),
		LastErrorAt:  c.failedAt(),
		BatchSeconds: Histogram{Bounds: batchBounds[:], Sum: time.Duration(c.batchNanos.Load()).Seconds()},
		TreesDeleted: c.treesDeleted.Load(), TracesWithoutRows: c.tracesWithoutRows.Load(),
		TraceFailures: c.traceFailures.Load(),
	}

	for i := range c.batchCounts {
		n := c.batchCounts[i].Load()
		st.BatchSeconds.Counts = append(st.BatchSeconds.Counts, n)
		st.BatchSeconds.Count += n
	}
	return st
}
