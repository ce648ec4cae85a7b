package store

import (
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/internal/record/pg"
)

// replica is where reads are made that need not see the latest.
type replica struct {
	*pg.Replica
	reader *Reader
	reads  atomic.Uint64 // that were made there
	passed atomic.Uint64 // that were made at the primary instead
}

// newReplica connects to a replica; nil: there is none.
func newReplica(primary *pg.DB, reads *Reader, config pg.ReplicaConfig) (*replica, error) {
	if config.URL == "" {
		return nil, nil
	}

	of, err := pg.OpenReplica(primary, config)
	if err != nil {
		return nil, err
	}
	reader := *reads
	reader.db = of.DB()
	return &replica{Replica: of, reader: &reader}, nil
}

// ReplicaStats is what the replica did.
type ReplicaStats struct {
	Used   bool          // now
	Lag    time.Duration // at the last look
	Reads  uint64        // that were made there
	Passed uint64        // that were made at the primary instead
}

func (r *replica) stats() (s ReplicaStats) {
	if r != nil {
		lag, err := r.Standing()
		s = ReplicaStats{Used: err == nil, Lag: lag, Reads: r.reads.Load(), Passed: r.passed.Load()}
	}
	return s
}

func (r *replica) close() {
	if r != nil {
		r.Close()
	}
}
