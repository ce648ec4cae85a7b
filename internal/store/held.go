package store

import (
	"context"
	"slices"
	"time"
)

const (
	// heldPoll is how often trees that are held are looked at.
	heldPoll = 20 * time.Millisecond
	// heldFor is how long a tree is known to be held when nobody writes to it.
	heldFor = time.Minute
)

// heldTree is a tree of which another session holds a row, or may. What is told
// of it waits here, in nobody's way.
type heldTree struct {
	root     string
	requests []*request
	tries    int       // how often it was found held; 0: it was in a batch that met a lock
	due      time.Time // when it is tried again, or forgotten
}

// hold puts requests that met a lock back, each to those of its tree. alone says
// that the lock was theirs.
func (q *queue) hold(taken []*request, alone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken = q.without(taken, func(r *request) bool { return r.call.ended })
	back := map[string][]*request{}
	fresh := map[string]bool{}
	for _, r := range taken {
		back[r.root] = append(back[r.root], r)
	}
	for root, requests := range back {
		h := q.held[root]
		if h == nil {
			h = &heldTree{root: root, due: time.Now()}
			q.held[root], fresh[root] = h, true
		}
		if alone {
			h.due = time.Now().Add(backoff(h.tries))
			h.tries++
		}
		h.requests = append(requests, h.requests...)
	}
	if len(fresh) > 0 {
		q.pending = slices.DeleteFunc(q.pending, func(r *request) bool {
			if !fresh[r.root] {
				return false
			}
			h := q.held[r.root]
			h.requests = append(h.requests, r)
			return true
		})
	}
	q.stirHeld()
	q.admit()
}

// holdBack has a request that comes wait with those of its tree.
func (q *queue) holdBack(h *heldTree, r *request) {
	if len(h.requests) == 0 {
		h.due = time.Now()
	}
	h.requests = append(h.requests, r)
	q.stirHeld()
}

// letGo gives what waits of a tree to the writers.
func (q *queue) letGo(root string) {
	h := q.held[root]
	if h == nil {
		return
	}
	delete(q.held, root)
	if len(h.requests) > 0 {
		q.pending = append(h.requests, q.pending...)
		q.work.Signal()
	}
}

// takeHeld waits for trees that are to be tried again, and gives as many of their
// requests as fit a batch: of all that were never tried alone, or of one that was
// found held. None when the queue is closed and empty. When ctx has ended, all of
// them are due.
func (q *queue) takeHeld(ctx context.Context) []*request {
	ended := ctx.Done()
	for {
		q.mu.Lock()
		if q.closed && q.rows == 0 {
			q.mu.Unlock()
			return nil
		}
		taken := q.dueHeld(time.Now(), ctx.Err() != nil)
		var again <-chan time.Time
		if len(q.held) > 0 {
			again = time.After(heldPoll)
		}
		q.mu.Unlock()
		if len(taken) > 0 {
			return taken
		}
		select {
		case <-q.heldWork:
		case <-again:
		case <-ended:
			ended = nil
		}
	}
}

// dueHeld takes what is due, and forgets trees that are due without anyone who
// writes to them.
func (q *queue) dueHeld(now time.Time, all bool) []*request {
	var due []*heldTree // that were never tried alone
	var known *heldTree // of the others, the one that has waited for longest
	for root, h := range q.held {
		switch {
		case h.due.After(now) && !all:
		case len(h.requests) == 0:
			delete(q.held, root)
		case h.tries == 0:
			due = append(due, h)
		case known == nil || h.due.Before(known.due):
			known = h
		}
	}
	if len(due) == 0 && known != nil {
		due = append(due, known)
	}
	slices.SortFunc(due, func(a, b *heldTree) int { return a.due.Compare(b.due) })
	var requests []*request
	for _, h := range due {
		requests = append(requests, h.requests...)
	}
	taken := requests[:fitting(requests, maxBatchRows, maxBatchBytes)]
	for _, r := range taken {
		h := q.held[r.root]
		if h.requests = h.requests[1:]; len(h.requests) == 0 {
			h.due = now.Add(heldFor)
		}
	}
	return taken
}

// dropHeld takes what is left of a call out. A tree is known to be held for longer
// than anyone waits for it, or each who comes would cost a writer.
func (q *queue) dropHeld(ofCall func(*request) bool) {
	for _, h := range q.held {
		waited := len(h.requests)
		h.requests = q.without(h.requests, ofCall)
		if waited > 0 && len(h.requests) == 0 && h.tries > 0 {
			h.due = time.Now().Add(heldFor)
		}
	}
}

// stirHeld wakes who looks after held trees.
func (q *queue) stirHeld() {
	select {
	case q.heldWork <- struct{}{}:
	default:
	}
}
