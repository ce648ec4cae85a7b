package store

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/record"
)

// ownedTimeout is how long writes of owners to several trees wait for a lock. It is short, because all wait for one: a
// tree that is locked for longer is put aside.
const ownedTimeout = 100 * time.Millisecond

// ownedWriters is how many transactions write for owners at once: while one is large, or waits for a lock or for the
// disk, there is another one.
const ownedWriters = 2

// ownedBytes bounds what owners write in one transaction. A larger write is alone in it.
const ownedBytes = 1 << 20

// OwnedWrite is what the owner of a tree writes to it, in one piece. Its functions may be called again.
type OwnedWrite struct {
	RootPlanID string
	Hold       *Hold // nil: the write begins the tree
	Fence      Fence // the same of all writes to a store
	Changes    []record.Change
	// Asks queues what is asked once the changes are written, and Then returns the changes that follow from the answers.
	// They are written in the same transaction. Its error is that of the write. nil: nothing follows.
	Asks func(*pgx.Batch)
	Then func() ([]record.Change, error)
	// Last queues what comes after all rows. nil: nothing.
	Last func(*pgx.Batch)
	// Err is why it cannot be written, if a statement of its own finds that, and fails for that reason.
	Err error
}

// Hold says for whom a plan is written: who holds it, and since which claim.
type Hold struct {
	PlanID   string
	HolderID string
	Epoch    int64
	Wanted   string // what the plan should do, or the write fails; empty: anything
	Desired  string // what the plan should do; the fence sets it
	Quiet    bool   // the write fails if messages to the plan wait
	Unread   bool   // messages to the plan wait; the fence sets it
}

// Fence queues one statement for writes that share a transaction, once their root plans are locked and before any row.
// It locks what is held in the order of the writes, which is that of the ids, and sets what each plan should do. If
// some are not held it sets Err of these writes, and fails.
type Fence func(q *pgx.Batch, writes []*OwnedWrite)
