package engine

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// addLater adds changes to the next write.
func (r *Run) addLater(changes ...record.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.later.ends) > 0 { // it may follow from the end of a step
		r.later.ending = append(r.later.ending, changes...)
		return
	}
	r.later.changes = append(r.later.changes, changes...)
}

// addEnd adds the end of a step to the next write that is more than results.
func (r *Run) addEnd(s stepEnd, changes ...record.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.later.ends, r.later.ending = append(r.later.ends, s), append(r.later.ending, changes...)
}

// addResult adds changes with which a result is on record. They are written with what begins at once after it, or else
// by themselves.
func (r *Run) addResult(changes ...record.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.later.results = true
	r.addSoonLocked(changes...)
}

// addSoon adds changes that are written as results are, but are none.
func (r *Run) addSoon(changes ...record.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addSoonLocked(changes...)
}

func (r *Run) addSoonLocked(changes ...record.Change) {
	r.later.changes = append(r.later.changes, changes...)
	if r.later.soon {
		return
	}

	r.later.soon = true
	r.flushAfter(r.engine.grace)
}

// flushAfter flushes after a time. The caller holds r.mu.
func (r *Run) flushAfter(d time.Duration) {
	if r.flushing == nil {
		r.flushing = time.AfterFunc(d, r.flush)
		return
	}
	r.flushing.Reset(d)
}

// flush writes what is due that nothing takes along. The run does not go on if that fails.
func (r *Run) flush() {
	r.writes.Lock()
	defer r.writes.Unlock()
	r.mu.Lock()
	due := r.later.soon && len(r.beginnings) == 0 && !r.over
	r.mu.Unlock()

	if !due {
		return
	}
	if err := r.writeLater(r.takeLater(false), nil); err != nil {
		r.stop(err)
	}
}

// close ends the writes of a run that the worker has let go of.
func (r *Run) close() {
	r.writes.Lock()
	defer r.writes.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.flushing != nil {
		r.flushing.Stop()
	}
}

// Save puts on record what was left for the next write, so that those who watch see it. The executor returns
// its error as it is.
func (r *Run) Save() error {
	r.writes.Lock()
	defer r.writes.Unlock()
	r.mu.Lock()
	saved := len(r.later.changes)+len(r.later.messages)+len(r.later.ending) == 0
	r.mu.Unlock()

	if saved {
		return nil
	}
	return r.writeNow(nil)
}

// goesOn puts on record what was left for the next write, and returns why the run should not go on, if it should not.
// What it was asked for until now counts.
func (r *Run) goesOn(ctx context.Context) error {
	if err := r.Save(); err != nil {
		return err
	}
	return r.boundary(ctx)
}

// write writes changes to the tree of the run, with those that were left for the next write. It tries for
// as long as the worker has its lease, although the run may have been stopped: what was done is to be on
// record.
func (r *Run) write(changes []record.Change, ops ...runstore.RunOp) error {
	r.writes.Lock()
	defer r.writes.Unlock()
	return r.writeNow(changes, ops...)
}

// writeResult writes changes with which a result is on record.
func (r *Run) writeResult(changes []record.Change) error {
	r.writes.Lock()
	defer r.writes.Unlock()
	r.mu.Lock()
	r.later = r.later.before(pending{changes: changes, results: true, soon: true})
	r.mu.Unlock()
	return r.writeNow(nil)
}

// begin writes changes as write does, before a call begins, in one transaction with what else of the run begins at the
// same time.
func (r *Run) begin(changes ...record.Change) error { return r.beginAll(beginning{changes: changes}) }

// beginAll is begin, which may also read messages.
func (r *Run) beginAll(mine beginning) error {
	mine.written = make(chan error, 1)
	r.mu.Lock()
	r.beginnings = append(r.beginnings, mine)
	first := len(r.beginnings) == 1
	r.mu.Unlock()

	if first { // it writes for all that come before it can
		runtime.Gosched()
		r.writeBeginnings()
	}
	return <-mine.written
}

func (r *Run) writeBeginnings() {
	r.writes.Lock()
	defer r.writes.Unlock()
	r.mu.Lock()
	all := r.beginnings
	r.beginnings = nil
	r.mu.Unlock()

	var changes []record.Change
	var reads []runstore.Reading
	for _, each := range all {
		changes, reads = append(changes, each.changes...), append(reads, each.reads...)
	}
	err := r.beginNow(changes, reads)

	for _, each := range all {
		if len(all) > 1 && isInvalid(err) { // one of them costs no other
			each.written <- r.beginNow(each.changes, each.reads)
			continue
		}
		each.written <- err
	}
}

// beginNow is writeNow of what begins, if the run should go on.
func (r *Run) beginNow(changes []record.Change, reads []runstore.Reading) error {
	ops := append(r.fits(), runstore.GoesOn())
	if len(reads) > 0 {
		ops = append(ops, runstore.Read(reads...))
	}
	err := r.writeNow(changes, ops...)
	if err == nil {
		r.noteFits()
	}
	return err
}

// writeNow is write. The caller holds r.writes.
func (r *Run) writeNow(changes []record.Change, ops ...runstore.RunOp) error {
	return r.writeLater(r.takeLater(true), changes, ops...)
}

// writeLater is writeNow, with what was taken of what was left. The caller holds r.writes.
func (r *Run) writeLater(later pending, changes []record.Change, ops ...runstore.RunOp) error {
	with := r.opsOf(later)
	err := r.send(slices.Concat(later.all(), changes), slices.Concat(with, ops))
	asked := errors.Is(err, runstore.ErrAsked)
	if asked { // nothing begins any more, but what was done is to be on record
		err = nil
		if len(later.all())+len(with) > 0 {
			err = r.send(later.all(), with)
		}
	}
	if isInvalid(err) {
		later, err = r.salvage(later, err)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && later.results:
		r.lost = 0
	case errors.Is(err, runstore.ErrUnread): // the run is carried again, and its agent is asked once more
		r.later = later.withoutEnds().before(r.later)
		r.stopLocked(err)
	case err != nil && !errors.Is(err, runstore.ErrLeaseLost): // the next write has them, too
		r.later = later.before(r.later)
		if r.later.soon {
			r.flushAfter(flushAgain)
		}
	}
	if asked && err == nil {
		return r.halt
	}
	return err
}

// opsOf returns what else a write does that has what was left for it.
func (r *Run) opsOf(later pending) []runstore.RunOp {
	r.mu.Lock()
	defer r.mu.Unlock()
	with := slices.Clone(later.messages)
	if later.results && r.lost > 0 { // the workers that the run lost before do not count any more
		with = append(with, runstore.Gain())
	}
	if !r.hearing.isDeaf() {
		with = append(with, later.heard()...)
	}
	return with
}

// takeLater takes what was left for the next write; ends says whether that may end steps.
func (r *Run) takeLater(ends bool) (later pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	later, r.later = r.later, pending{}
	if !ends {
		r.later.ends, r.later.ending = later.ends, later.ending
		later.ends, later.ending = nil, nil
	}
	if r.flushing != nil {
		r.flushing.Stop()
	}
	return later
}

// send writes changes in a transaction. The caller holds r.writes.
func (r *Run) send(changes []record.Change, ops []runstore.RunOp) error {
	var asked runstore.Desired
	var unread bool
	ops = append(ops, runstore.Asked(&asked), runstore.Unread(&unread))
	err := r.engine.config.Write(r.leased, r.lease, changes, ops...)
	switch {
	case err == nil:
		r.engine.metrics.writes.Inc()
		r.heed(asked)
		r.hearing.noteUnread(unread)
	case errors.Is(err, runstore.ErrAsked):
		r.heed(asked)
	case errors.Is(err, runstore.ErrLeaseLost):
		r.stop(err)
	}
	return err
}

// salvage writes the changes of a write that was refused one by one, so that one that cannot be on record costs no
// other. It returns what is left for the next write, and why: the error of the change that cannot be, or that of the
// write if it is none of these.
func (r *Run) salvage(p pending, refused error) (left pending, err error) {
	left.messages = p.messages
	var wrong error
	changes := p.all()
	for i, change := range changes {
		switch err := r.send([]record.Change{change}, nil); {
		case isInvalid(err):
			wrong = cmp.Or(wrong, err)
		case err != nil:
			left.changes = changes[i:]
			left.results, left.soon = p.results, p.soon
			return left, err
		}
	}
	return left, cmp.Or(wrong, refused)
}
