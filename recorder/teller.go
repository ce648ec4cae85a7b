package recorder

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/actlog/actlog/record"
)

// teller tells about one handle. What the sink failed to take stays with the
// handle, and goes before what it or a handle below it tells next: so a record is
// whole again as soon as the sink is back. A handle tells few things about
// itself, so it holds little, and nothing once it is out of use.
type teller struct {
	rec    *Recorder
	parent *teller

	mu     sync.Mutex
	untold []record.Change
	ended  bool
}

// doing says what a call does, for its error: it is made into text only where there
// is one.
type doing struct {
	verb string
	what interface{ name() string }
}

func (d doing) String() string { return d.verb + " " + d.what.name() }

// tell writes changes in one go, and keeps them where the sink fails: here, or above
// where the handle has ended, since hardly anyone calls it again. Without any it is a
// repeat of what failed.
func (t *teller) tell(ctx context.Context, what doing, changes ...record.Change) error {
	settled, err := t.write(ctx, what, changes)
	if !settled {
		t.mu.Lock()
		t.untold = append(t.untold, changes...)
		ended := t.ended
		t.mu.Unlock()
		if ended {
			t.handUp(ctx)
		}
	}
	return err
}

// send writes changes as tell does, and does not keep them.
func (t *teller) send(ctx context.Context, what doing, changes ...record.Change) error {
	_, err := t.write(ctx, what, changes)
	return err
}

// write writes all that is untold here and above, then the changes. settled tells
// whether the sink has decided on all of them.
func (t *teller) write(ctx context.Context, what doing, changes []record.Change) (settled bool, err error) {
	batch := changes
	for up := t; up != nil; up = up.parent {
		up.mu.Lock()
		if len(up.untold) > 0 {
			batch = slices.Concat(up.untold, batch)
		}
		up.mu.Unlock()
	}
	if len(batch) == 0 {
		return true, nil
	}
	settled, err = t.rec.write(ctx, batch)
	if untold := batch[:len(batch)-len(changes)]; settled && len(untold) > 0 {
		t.forget(untold)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return settled, err
}

// forget drops what has been told. Another goroutine may have told or added some
// of it in the meantime, so each change is looked for.
func (t *teller) forget(told []record.Change) {
	set := make(map[record.Change]bool, len(told))
	for _, c := range told {
		set[c] = true
	}
	for up := t; up != nil; up = up.parent {
		up.mu.Lock()
		up.untold = slices.DeleteFunc(up.untold, func(c record.Change) bool { return set[c] })
		up.mu.Unlock()
	}
}

// end tells how the handle ended, once; a second end tells nothing but what of
// the first was not taken. It goes on after ctx was cancelled.
func (t *teller) end(ctx context.Context, what doing, changes func() []record.Change) error {
	ctx, cancel := t.rec.endContext(ctx)
	defer cancel()
	t.mu.Lock()
	first := !t.ended
	t.ended = true
	t.mu.Unlock()
	var told []record.Change
	if first {
		told = changes()
	}
	return t.tell(ctx, what, told...)
}

// maxUntold bounds what a handle keeps for those below it that have ended.
const maxUntold = 1000

// handUp leaves what is untold to the next handle above that has not ended, whose
// next call tells it; to the plan, where all have.
func (t *teller) handUp(ctx context.Context) {
	if t.parent == nil {
		return
	}
	t.mu.Lock()
	untold := t.untold
	t.untold = nil
	t.mu.Unlock()
	up := t.parent
	up.mu.Lock()
	for up.ended && up.parent != nil {
		up.mu.Unlock()
		up = up.parent
		up.mu.Lock()
	}
	up.untold = append(up.untold, untold...)
	over := max(0, len(up.untold)-maxUntold)
	up.untold = slices.Delete(up.untold, 0, over)
	up.mu.Unlock()
	if over > 0 {
		t.rec.options.Logger.ErrorContext(ctx, "recorder: the sink has been away for too long, changes are lost; a Buffer would have made them wait", "changes", over)
	}
}

func (t *teller) hasEnded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// close ends what was not ended, and lets a panic go on.
func (t *teller) close(ctx context.Context, panicked any, end func(context.Context, error) error) error {
	if panicked == nil {
		return end(ctx, errNotEnded)
	}
	if err := end(ctx, &panicError{panicked}); err != nil {
		t.rec.options.Logger.ErrorContext(ctx, "recorder: a panic is not on record", "panic", panicked, "err", err)
	}
	panic(panicked)
}
