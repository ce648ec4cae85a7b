package recorder

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/actlog/actlog/record"
)

// reporter sends what one handle reports. Changes that the sink fails to take stay with the
// handle, and go ahead of the next changes from it or from a handle below it. So the record is
// complete again as soon as the sink is back. A handle reports few things about itself, so it
// keeps little, and nothing once it is out of use.
type reporter struct {
	rec     *Recorder
	parent  *reporter
	handle  named // whose reporter it is
	refused error // why the handle was not allowed to start; nothing of it goes on record
	attempt int64 // at what the handle stands for; 0: there is only one
	life    *life // of what the handle stands for; nil: it is not shared

	mu     sync.Mutex
	unsent []record.Change
	ended  bool
}

// life is what the handles of one step, cycle or tool call share: the highest attempt that has ended.
type life struct{ ended atomic.Int64 }

func (l *life) end(attempt int64) {
	for {
		if old := l.ended.Load(); old >= attempt || l.ended.CompareAndSwap(old, attempt) {
			return
		}
	}
}

// lives has the lives of the cycles of a step, or of the tool calls of a cycle. Most have few, and
// take no memory beside that of their owner.
type lives[K comparable] struct {
	few [4]struct {
		key  K
		life life
	}
	used  int // of few
	more  map[K]*life
	spare []life // for more: they are made by the dozen
}

// of returns the life of a key.
func (l *lives[K]) of(key K) *life {
	for i := range l.used {
		if l.few[i].key == key {
			return &l.few[i].life
		}
	}

	if l.used < len(l.few) {
		l.used++
		l.few[l.used-1].key = key
		return &l.few[l.used-1].life
	}

	if l.more[key] == nil {
		if l.more == nil {
			l.more = map[K]*life{}
		}
		if len(l.spare) == 0 {
			l.spare = make([]life, 12)
		}
		l.more[key], l.spare = &l.spare[0], l.spare[1:]
	}
	return l.more[key]
}

// action names what a call does, for its error. The text is built only if there is an error.
type action struct {
	verb string
	on   named
}

type named interface{ name() string }

func (a action) String() string { return a.verb + " " + a.on.name() }

// report writes changes in one go, and keeps them if the sink fails. A handle that has ended is
// rarely called again, so its changes go to the handle above. Without changes, report only
// retries what failed before.
func (r *reporter) report(ctx context.Context, what action, changes ...record.Change) error {
	concluded, err := r.write(ctx, what, changes)
	if !concluded {
		r.mu.Lock()
		r.unsent = append(r.unsent, changes...)
		ended := r.ended
		r.mu.Unlock()
		if ended {
			r.handUp(ctx)
		}
	}
	return err
}

// send writes changes as report does, but does not keep them.
func (r *reporter) send(ctx context.Context, what action, changes ...record.Change) error {
	_, err := r.write(ctx, what, changes)
	return err
}

// write writes everything unsent from here and above, then the changes. concluded reports whether
// the sink has decided on all of them.
func (r *reporter) write(ctx context.Context, what action, changes []record.Change) (concluded bool, err error) {
	batch := changes
	for up := r; up != nil; up = up.parent {
		if up.refused != nil {
			return true, fmt.Errorf("%s: %w", what, up.refused)
		}

		up.mu.Lock()
		if len(up.unsent) > 0 {
			batch = slices.Concat(up.unsent, batch)
		}
		up.mu.Unlock()
	}
	if len(batch) == 0 {
		return true, nil
	}

	concluded, err = r.rec.write(ctx, batch)
	if unsent := batch[:len(batch)-len(changes)]; concluded && len(unsent) > 0 {
		r.forget(unsent)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return concluded, err
}

// forget removes sent changes. Another goroutine may have sent some of them or added others in
// the meantime, so each change is looked up.
func (r *reporter) forget(sent []record.Change) {
	set := make(map[record.Change]bool, len(sent))
	for _, c := range sent {
		set[c] = true
	}

	for up := r; up != nil; up = up.parent {
		up.mu.Lock()
		up.unsent = slices.DeleteFunc(up.unsent, func(c record.Change) bool { return set[c] })
		up.mu.Unlock()
	}
}

// admit lets a new handle start, unless what it stands for has ended, or a handle above it: what is
// live in something that has ended would stay live for ever. What such a handle reports later is
// refused as well, even its end, because nothing of it began.
func (r *reporter) admit(what action) error {
	if r.refused == nil {
		r.refused = r.open()
	}
	if r.refused != nil {
		return fmt.Errorf("%s: %w", what, r.refused)
	}
	return nil
}

// open returns an error that wraps [record.ErrEnded] if what the handle stands for has ended, or what
// is above it.
func (r *reporter) open() error {
	for up := r; up != nil; up = up.parent {
		if up.hasEnded() {
			return fmt.Errorf("%s %w", up.handle.name(), record.ErrEnded)
		}
	}
	return nil
}

// setState sends a change of state. It refuses a state that ends: an end carries more than a state.
func (r *reporter) setState(ctx context.Context, on named, state record.State, change record.Change) error {
	what := action{"set the state of", on}
	if state == "" || state.Terminal() {
		return invalidState(what, "must be one that does not end, not %q", state)
	}
	if err := r.open(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return r.send(ctx, what, change)
}

// end reports how the handle ended, once. A second end only retries what failed before. It goes
// on after ctx was cancelled. given is the state that the caller chose, if any.
func (r *reporter) end(
	ctx context.Context, what action, given record.State, cause error, change func(outcome) record.Change,
) error {
	if given != "" && !given.Terminal() { // the row would stay open for ever
		return invalidState(what, "must be one that ends, not %q", given)
	}

	ctx, cancel := r.rec.endContext(ctx)
	defer cancel()
	if !r.markEnded() {
		return r.report(ctx, what)
	}
	return r.report(ctx, what, change(outcomeOf(given, cause)))
}

// markEnded reports whether this is the first end of the handle.
func (r *reporter) markEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.ended
	r.ended = true
	if r.life != nil && r.refused == nil {
		r.life.end(r.attempt)
	}
	return first
}

// hasEnded reports whether the handle has ended, or another one of this attempt or a later one.
func (r *reporter) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended || r.life != nil && r.life.ended.Load() >= r.attempt
}

// maxUnsent bounds what a handle keeps for ended handles below it.
const maxUnsent = 1000

// handUp moves what is unsent to the nearest handle above that has not ended, or to the plan if
// all have. The next call there sends it.
func (r *reporter) handUp(ctx context.Context) {
	if r.parent == nil {
		return
	}
	r.mu.Lock()
	unsent := r.unsent
	r.unsent = nil
	r.mu.Unlock()

	up := r.parent
	up.mu.Lock()
	for up.ended && up.parent != nil {
		up.mu.Unlock()
		up = up.parent
		up.mu.Lock()
	}
	up.unsent = append(up.unsent, unsent...)
	over := max(0, len(up.unsent)-maxUnsent)
	up.unsent = slices.Delete(up.unsent, 0, over)
	up.mu.Unlock()

	if over > 0 {
		r.rec.options.Logger.ErrorContext(ctx,
			"recorder: the sink was away for too long and changes are lost; a Buffer would have kept them", "changes", over)
	}
}

// stamp is what every change of a step, cycle or tool call carries. It lies in one allocation with
// the change.
type stamp struct {
	rev, attempt int64
	state        record.State
}

func (r *reporter) stamp(attempt int64, state record.State) stamp {
	return stamp{rev: r.rec.nextRev(), attempt: attempt, state: state}
}

func (s *stamp) pointers() (rev, attempt *int64, state *record.State) {
	if s.state != "" {
		state = &s.state
	}
	return &s.rev, &s.attempt, state
}

// close ends a handle that was not ended, and lets a panic go on.
func (r *reporter) close(ctx context.Context, panicked any, end func(context.Context, error) error) error {
	if panicked == nil {
		return end(ctx, errNotEnded)
	}
	if err := end(ctx, &panicError{panicked}); err != nil {
		r.rec.options.Logger.ErrorContext(ctx, "recorder: a panic is not on record", "panic", panicked, "err", err)
	}
	panic(panicked)
}
