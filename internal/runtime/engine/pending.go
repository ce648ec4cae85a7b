package engine

import (
	"errors"
	"slices"
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
	// ends are steps that end, unless messages wait for them, and ending is what follows from that.
	ends   []stepEnd
	ending []record.Change
	// results says that the changes have results of calls.
	results bool
	// soon says that the changes do not wait for long, although nothing may begin: results do not.
	soon bool
}

// stepEnd is a step that ends.
type stepEnd struct {
	stepID string
	// askAgain lets its agent be asked once more instead; nil: the executor does.
	askAgain []record.Change
}

// before returns both, in their order.
func (p pending) before(next pending) pending {
	return pending{
		changes: append(p.changes, next.changes...), messages: append(p.messages, next.messages...),
		ends: append(p.ends, next.ends...), ending: append(p.ending, next.ending...),
		results: p.results || next.results, soon: p.soon || next.soon,
	}
}

// all returns all changes, in their order.
func (p pending) all() []record.Change { return slices.Concat(p.changes, p.ending) }

// heard returns what keeps the write from ending steps for which messages wait.
func (p pending) heard() []runstore.RunOp {
	if len(p.ends) == 0 {
		return nil
	}
	ids := make([]string, len(p.ends))
	for i, s := range p.ends {
		ids[i] = s.stepID
	}
	return []runstore.RunOp{runstore.Heard(ids...)}
}

// withoutEnds returns what is left if the steps do not end.
func (p pending) withoutEnds() pending {
	p.changes = slices.Clip(p.changes)
	for _, s := range p.ends {
		p.changes = append(p.changes, s.askAgain...)
	}
	p.ends, p.ending = nil, nil
	return p
}

// beginning is what is to be put on record before a call begins. It shares a transaction with others of its run that
// are due at the same time.
type beginning struct {
	changes []record.Change
	reads   []runstore.Reading // what it reads of the messages to the run
	written chan error
}

// isInvalid reports whether a write was refused because of what it writes.
func isInvalid(err error) bool {
	_, ok := errors.AsType[*record.InvalidError](err)
	return ok
}
