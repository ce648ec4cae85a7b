package runs

import (
	"context"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/record/feed"
)

// Watch wakes those who wait for a run whenever its tree changes, whichever process wrote to it. It
// follows the feed as long as somebody waits.
type Watch struct {
	feed   *feed.Feed
	ctx    context.Context //nolint:containedctx // it ends the waiting
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]map[chan struct{}]bool // by root plan
	stop    context.CancelFunc                // of the following; nil: there is none
}

// NewWatch returns a watch of a feed. The caller closes it.
func NewWatch(f *feed.Feed) *Watch {
	w := &Watch{feed: f, waiting: map[string]map[chan struct{}]bool{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Close ends all waiting.
func (w *Watch) Close() {
	w.cancel()
	w.tasks.Wait()
}

// Wait calls check now and after each change of the tree, at most once per interval, until check returns true or an
// error. It also returns, with nil, when ctx ends or the watch is closed: the caller asks ctx.Err(). A watch that is
// closed is noticed after the interval.
func (w *Watch) Wait(ctx context.Context, rootPlanID string, check func() (bool, error)) error {
	wake, stop := w.subscribe(rootPlanID)
	defer stop()
	for {
		if end, err := check(); end || err != nil {
			return err
		}

		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil
		case <-w.ctx.Done():
			return nil
		}
	}
}

// subscribe returns a channel that receives after each change of the tree. The caller calls stop.
func (w *Watch) subscribe(rootPlanID string) (wake chan struct{}, stop func()) {
	wake = make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[rootPlanID] == nil {
		w.waiting[rootPlanID] = map[chan struct{}]bool{}
	}
	w.waiting[rootPlanID][wake] = true

	if w.stop == nil {
		var ctx context.Context
		ctx, w.stop = context.WithCancel(w.ctx)
		// What is committed before the first delivery is not delivered: that wakes everybody.
		first := true
		w.tasks.Go(func() {
			w.feed.Follow(ctx, func(c feed.Changes) {
				w.wake(c, first)
				first = false
			})
		})
	}
	return wake, func() { w.remove(rootPlanID, wake) }
}

// interval is the least time between two looks at a tree that changes all the time.
const interval = 50 * time.Millisecond

func (w *Watch) remove(rootPlanID string, wake chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting[rootPlanID], wake)

	if len(w.waiting[rootPlanID]) == 0 {
		delete(w.waiting, rootPlanID)
	}
	if len(w.waiting) == 0 {
		w.stop()
		w.stop = nil
	}
}

// wake wakes the callers that wait for a run of the changes. It wakes all of them on the first delivery, because
// earlier commits are not delivered, and after a gap in the feed.
func (w *Watch) wake(c feed.Changes, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first || c.Lost {
		for _, of := range w.waiting {
			wakeAll(of)
		}
		return
	}

	for _, change := range c.Committed {
		wakeAll(w.waiting[change.RootPlanID])
	}
}

func wakeAll(waiting map[chan struct{}]bool) {
	for wake := range waiting {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}
