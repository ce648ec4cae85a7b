package engine

import (
	"errors"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// resultGrace is how long a result waits for what begins at once after it, so that one transaction has both. The
// timers of an idle program are late by up to a millisecond.
const resultGrace = 500 * time.Microsecond

// flushAgain is when results are written again that could not be written.
const flushAgain = time.Second

// pending is what the next write of a run adds.
type pending struct {
	changes  []record.Change
	messages []runstore.RunOp // of conversations
	// results says that the changes have results of calls.
	results bool
	// soon says that the changes do not wait for long, although nothing may begin: results do not.
	soon bool
}

// before returns both, in their order.
func (p pending) before(next pending) pending {
	return pending{
		changes: append(p.changes, next.changes...), messages: append(p.messages, next.messages...),
		results: p.results || next.results, soon: p.soon || next.soon,
	}
}

// beginning is what is to be put on record before a call begins. It shares a transaction with others of its run that
// are due at the same time.
type beginning struct {
	changes []record.Change
	written chan error
}

// isInvalid reports whether a write was refused because of what it writes.
func isInvalid(err error) bool {
	_, ok := errors.AsType[*record.InvalidError](err)
	return ok
}
