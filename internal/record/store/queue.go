package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// ticket is what one caller waits for: requests that the queue has room for.
type ticket struct {
	requests    []*request
	rows, bytes int
	left        int           // requests that are not answered
	forgets     bool          // what is not being sent is forgotten when the caller leaves
	timer       *time.Timer   // ends it when the queue's patience does
	done        chan struct{} // closed when it has ended
	ended       bool
	err         error // why it is not known that all of it is on record
}

func newTicket(requests []*request) *ticket {
	t := &ticket{requests: requests, left: len(requests), done: make(chan struct{})}
	for _, r := range requests {
		r.ticket = t
		t.rows += len(r.entries)
		t.bytes += r.bytes
	}
	return t
}

// end gives the caller its answer, once.
func (t *ticket) end(err error) {
	if t.ended {
		return
	}
	t.ended, t.err = true, err
	t.timer.Stop()
	close(t.done)
}

// request is what one caller writes to one tree: at most a batch.
type request struct {
	ticket   *ticket
	root     string
	entries  []*entry
	bytes    int
	owned    *OwnedWrite // nil: it comes from outside
	unsure   bool        // it may be on record: the connection was lost when it was sent
	answered bool
}

// fail notes why a request is not on record.
func (r *request) fail(err error) {
	for _, e := range r.entries {
		e.err = err
	}
}

// queue keeps requests until a writer takes them, those of several callers at a time. What is
// taken counts until it is released, so memory is bounded. A caller that finds the queue full
// waits in line, so that small calls do not overtake a large one forever. A call ends after
// the queue's patience at the latest.
type queue struct {
	maxRows, maxBytes int
	batchBytes        int // of what is taken at once
	writers           int // how many may write at once, writers and callers together
	patience          time.Duration
	givenUp           atomic.Uint64 // changes

	mu          sync.Mutex
	line        []*ticket
	pending     []*request
	locked      map[string]*lockedTree // by root
	rows, bytes int
	writing     int   // how many write
	trouble     error // why the last transaction failed; nil: it did not
	closed      bool
	work        *sync.Cond    // something is pending, or the queue is closed
	asideWork   chan struct{} // holds a token if locked may have changed
}

func newQueue(maxRows, maxBytes int, patience time.Duration) *queue {
	q := &queue{
		maxRows: maxRows, maxBytes: maxBytes, batchBytes: maxBatchBytes, writers: math.MaxInt, patience: patience,
		locked: map[string]*lockedTree{}, asideWork: make(chan struct{}, 1),
	}
	q.work = sync.NewCond(&q.mu)
	return q
}

// cut cuts requests into tickets that the queue has room for.
func (q *queue) cut(requests []*request) (tickets []*ticket) {
	for len(requests) > 0 {
		n := fitting(requests, q.maxRows, q.maxBytes)
		tickets = append(tickets, newTicket(requests[:n]))
		requests = requests[n:]
	}
	return tickets
}

// fitting returns how many of the first requests fit: at least one.
func fitting(requests []*request, maxRows, maxBytes int) int {
	rows, bytes := 0, 0
	for n, r := range requests {
		rows += len(r.entries)
		bytes += r.bytes
		if n > 0 && (rows > maxRows || bytes > maxBytes) {
			return n
		}
	}
	return len(requests)
}

func (q *queue) open(f func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	f()
	return true
}

// wait queues a ticket and waits for its end. A caller that leaves before there was room is
// forgotten; else the requests stay to be written, unless the ticket forgets them.
func (q *queue) wait(ctx context.Context, t *ticket) error {
	if !q.open(func() {
		t.timer = time.AfterFunc(q.patience, func() { q.expire(t) })
		q.line = append(q.line, t)
		q.admit()
	}) {
		return record.ErrClosed
	}

	return q.await(ctx, t)
}

// await waits for the end of a ticket that is queued, or put aside.
func (q *queue) await(ctx context.Context, t *ticket) error {
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
	}

	q.mu.Lock()
	defer q.mu.Unlock()
	if t.forgets || slices.Contains(q.line, t) {
		t.end(ctx.Err())
		q.drop(t) // it may have stood before smaller ones
	}
	return ctx.Err()
}

// alone reports whether the caller of a ticket with one request writes it itself, because nothing waits and somebody
// may write. The caller calls wrote when it has answered it, or put it aside.
func (q *queue) alone(t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	full := q.rows > 0 && (q.rows+t.rows > q.maxRows || q.bytes+t.bytes > q.maxBytes)
	busy := len(q.line)+len(q.pending) > 0 || q.writing >= q.writers || q.locked[t.requests[0].root] != nil
	if q.closed || full || busy {
		return false
	}

	t.timer = time.AfterFunc(q.patience, func() { q.expire(t) })
	q.rows += t.rows
	q.bytes += t.bytes
	q.writing++
	return true
}

// wrote notes that somebody writes no more.
func (q *queue) wrote() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writing--
	if len(q.pending) > 0 {
		q.work.Signal()
	}
}

// admit lets in those at the head of the line for which there is room. A ticket that is larger
// than the queue has it for itself.
func (q *queue) admit() {
	n := 0
	for _, t := range q.line {
		if q.rows > 0 && (q.rows+t.rows > q.maxRows || q.bytes+t.bytes > q.maxBytes) {
			break
		}

		q.rows += t.rows
		q.bytes += t.bytes
		for _, r := range t.requests {
			if locked := q.locked[r.root]; locked != nil {
				q.join(locked, r)
			} else {
				q.pending = append(q.pending, r)
			}
		}
		n++
	}

	if n > 0 {
		q.line = slices.Delete(q.line, 0, n)
		q.work.Signal()
	}
}

// take waits for requests and returns as many as fit a batch; none when the queue is closed
// and empty. Who has written them calls wrote.
func (q *queue) take() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()

	for len(q.pending) == 0 || q.writing >= q.writers {
		if q.closed && q.rows == 0 { // requests of locked trees may yet come back
			return nil
		}
		q.work.Wait()
	}
	q.writing++

	n := fitting(q.pending, maxBatchRows, q.batchBytes)
	taken := slices.Clone(q.pending[:n])
	q.pending = slices.Delete(q.pending, 0, n) // releases the memory
	if len(q.pending) > 0 {
		q.work.Signal()
	}
	return taken
}

// awaited returns those of taken requests whose callers still wait, and releases the others.
func (q *queue) awaited(taken []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken = q.without(slices.Clone(taken), func(r *request) bool { return r.ticket.ended })
	q.admit()
	return taken
}

// answer releases requests and ends tickets that have all their answers. Nobody holds a lock
// on the trees that were written, so requests that wait for them go on.
func (q *queue) answer(taken []*request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range taken {
		q.release(r)
		q.unlock(r.root)
		r.answered = true
		if r.ticket.left--; r.ticket.left == 0 {
			r.ticket.end(nil)
		}
	}
	q.admit()
}

func (q *queue) halve(r *request) (first, second *request) {
	half := len(r.entries) / 2
	return q.split(r, r.entries[:half], r.entries[half:])
}

// split makes two requests of a taken one, each with a part of its entries.
func (q *queue) split(r *request, a, b []*entry) (first, second *request) {
	q.mu.Lock()
	defer q.mu.Unlock()

	requestOf := func(entries []*entry) *request {
		p := &request{ticket: r.ticket, root: r.root, entries: entries}
		for _, e := range entries {
			p.bytes += e.size
		}
		return p
	}
	r.ticket.left++
	return requestOf(a), requestOf(b)
}

// note keeps why the last transaction failed, for callers that wait in vain.
func (q *queue) note(trouble error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.trouble = trouble
}

// expire ends a ticket that has waited for too long. What is being written of it may yet be on
// record; the rest never will be.
func (q *queue) expire(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.ended {
		return
	}

	for _, r := range t.requests {
		if !r.answered {
			q.givenUp.Add(uint64(len(r.entries)))
		}
	}
	t.end(q.reason(t))
	q.drop(t)
}

// reason says why a ticket has not all its answers.
func (q *queue) reason(t *ticket) error {
	for _, r := range t.requests {
		if locked := q.locked[r.root]; locked != nil && locked.tries > 0 && !r.answered {
			return &record.LockedError{RootPlanID: r.root}
		}
	}

	if q.trouble != nil {
		return q.trouble
	}
	return fmt.Errorf("%w: not written within %v", record.ErrTooSlow, q.patience)
}

// drop takes what is left of a ticket out of the queue, unless it is being written.
func (q *queue) drop(t *ticket) {
	q.line = slices.DeleteFunc(q.line, func(o *ticket) bool { return o == t })
	ofTicket := func(r *request) bool { return r.ticket == t }
	q.pending = q.without(q.pending, ofTicket)
	q.dropAside(ofTicket)
	q.admit()
}

// without releases some of the requests and returns the others.
func (q *queue) without(requests []*request, some func(*request) bool) []*request {
	return slices.DeleteFunc(requests, func(r *request) bool {
		if !some(r) {
			return false
		}
		q.release(r)
		return true
	})
}

func (q *queue) release(r *request) {
	q.rows -= len(r.entries)
	q.bytes -= r.bytes
	if q.closed && q.rows == 0 {
		q.wakeAll()
	}
}

func (q *queue) wakeAll() {
	q.work.Broadcast()
	pg.Signal(q.asideWork)
}

// close refuses new tickets and those that wait for room; what is pending stays.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}

	q.closed = true
	for _, t := range q.line {
		t.end(record.ErrClosed)
	}
	q.line = nil
	q.wakeAll()
}

// size returns the rows and bytes that are on their way, and how many callers wait for room.
func (q *queue) size() (rows, bytes, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rows, q.bytes, len(q.line)
}

const (
	// asidePoll is how often locked trees are looked at.
	asidePoll = 20 * time.Millisecond
	// lockedFor is how long a tree counts as locked while nobody writes to it.
	lockedFor = time.Minute
)

// lockedTree is a tree of which another session holds a row, or may. Requests to it wait here
// without keeping others waiting.
type lockedTree struct {
	root     string
	requests []*request
	tries    int       // how often it was found locked; 0: it was in a batch that met a lock
	due      time.Time // when it is tried again, or forgotten
}

// putAside puts requests that met a lock back, each to those of its tree. alone says that the
// tree was tried alone, so that the lock was on it.
func (q *queue) putAside(taken []*request, alone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()

	taken = q.without(taken, func(r *request) bool { return r.ticket.ended })
	back := map[string][]*request{}
	for _, r := range taken {
		back[r.root] = append(back[r.root], r)
	}

	fresh := map[string]bool{}
	for root, requests := range back {
		locked := q.locked[root]
		if locked == nil {
			locked = &lockedTree{root: root, due: time.Now()}
			q.locked[root], fresh[root] = locked, true
		}
		if alone {
			locked.due = time.Now().Add(pg.Backoff(locked.tries))
			locked.tries++
		}
		locked.requests = append(requests, locked.requests...)
	}

	q.pending = slices.DeleteFunc(q.pending, func(r *request) bool {
		if !fresh[r.root] {
			return false
		}
		q.locked[r.root].requests = append(q.locked[r.root].requests, r)
		return true
	})
	pg.Signal(q.asideWork)
	q.admit()
}

// join adds a request to those that wait for a locked tree.
func (q *queue) join(locked *lockedTree, r *request) {
	if len(locked.requests) == 0 {
		locked.due = time.Now()
	}
	locked.requests = append(locked.requests, r)
	pg.Signal(q.asideWork)
}

// unlock passes what waits for a tree on to the writers.
func (q *queue) unlock(root string) {
	locked := q.locked[root]
	if locked == nil {
		return
	}

	delete(q.locked, root)
	if len(locked.requests) > 0 {
		q.pending = append(locked.requests, q.pending...)
		q.work.Signal()
	}
}

// waitForDue waits for locked trees that are due and returns as many of their requests as fit a
// batch: those of all trees that were never tried alone, or of one that was found locked. It
// returns none when the queue is closed and empty. When ctx has ended, all trees are due.
func (q *queue) waitForDue(ctx context.Context) []*request {
	ended := ctx.Done()
	for {
		q.mu.Lock()
		if q.closed && q.rows == 0 {
			q.mu.Unlock()
			return nil
		}

		taken := q.takeDue(time.Now(), ctx.Err() != nil)
		var again <-chan time.Time
		if len(q.locked) > 0 {
			again = time.After(asidePoll)
		}
		q.mu.Unlock()
		if len(taken) > 0 {
			return taken
		}

		select {
		case <-q.asideWork:
		case <-again:
		case <-ended:
			ended = nil
		}
	}
}

// takeDue removes and returns the requests of locked trees that are due for another attempt, up to one batch. All trees
// that were not yet tried alone go together; otherwise the one tried tree that has been due longest goes alone. Due
// trees without requests are dropped from q.locked.
func (q *queue) takeDue(now time.Time, ignoreTimes bool) []*request {
	var untried []*lockedTree   // never tried alone
	var oldestTried *lockedTree // of the others, the one that is due for longest
	for root, locked := range q.locked {
		if !ignoreTimes && locked.due.After(now) {
			continue
		}

		switch {
		case len(locked.requests) == 0:
			delete(q.locked, root)
		case locked.tries == 0:
			untried = append(untried, locked)
		case oldestTried == nil || locked.due.Before(oldestTried.due):
			oldestTried = locked
		}
	}

	if len(untried) == 0 && oldestTried != nil {
		untried = append(untried, oldestTried)
	}
	slices.SortFunc(untried, func(a, b *lockedTree) int { return a.due.Compare(b.due) })

	var requests []*request
	for _, locked := range untried {
		requests = append(requests, locked.requests...)
	}

	taken := requests[:fitting(requests, maxBatchRows, q.batchBytes)]
	for _, r := range taken {
		locked := q.locked[r.root]
		locked.requests = locked.requests[1:] // the requests of each tree are taken in their order
		if len(locked.requests) == 0 {
			locked.due = now.Add(lockedFor)
		}
	}
	return taken
}

// dropAside takes some requests out. A tree stays known as locked for longer than a caller
// waits, or each new caller would cost a writer.
func (q *queue) dropAside(some func(*request) bool) {
	for _, locked := range q.locked {
		waited := len(locked.requests)
		locked.requests = q.without(locked.requests, some)
		if waited > 0 && len(locked.requests) == 0 && locked.tries > 0 {
			locked.due = time.Now().Add(lockedFor)
		}
	}
}
