package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/record"
)

// A transaction holds at most this much.
const (
	maxBatchRows  = 2_000
	maxBatchBytes = 8 << 20
)

// entry is a change on its way into the record. err is what became of it, set
// before its request is answered.
type entry struct {
	row  *record.Row
	size int
	err  error
}

// request is what one call tells of one tree: at most a batch.
type request struct {
	call     *call
	root     string
	entries  []*entry
	bytes    int
	answered bool
}

// call is what one caller waits for: requests that the queue has room for.
type call struct {
	requests    []*request
	rows, bytes int
	left        int           // requests that are not answered
	timer       *time.Timer   // ends it when the queue's patience does
	done        chan struct{} // closed when it has ended
	ended       bool
	err         error // why not all of it is known to be on record
}

func newCall(requests []*request) *call {
	c := &call{requests: requests, left: len(requests), done: make(chan struct{})}
	for _, r := range requests {
		r.call = c
		c.rows += len(r.entries)
		c.bytes += r.bytes
	}
	return c
}

// queue holds requests until a writer takes them, several callers' at a time.
// What is taken counts until it is released, so memory is bounded. Who finds it
// full waits in line, so that a large call is not passed by small ones forever.
// A call ends after the queue's patience, whatever keeps it.
type queue struct {
	maxRows, maxBytes int
	patience          time.Duration
	givenUp           atomic.Uint64 // changes

	mu          sync.Mutex
	line        []*call
	pending     []*request
	held        map[string]*heldTree
	rows, bytes int
	trouble     error // why nothing could be written the last time; nil: it could
	closed      bool
	work        *sync.Cond    // something is pending, or the queue is closed
	heldWork    chan struct{} // holds a token when held may have changed
}

func newQueue(maxRows, maxBytes int, patience time.Duration) *queue {
	q := &queue{
		maxRows: maxRows, maxBytes: maxBytes, patience: patience,
		held: map[string]*heldTree{}, heldWork: make(chan struct{}, 1),
	}
	q.work = sync.NewCond(&q.mu)
	return q
}

// cut cuts requests into calls that the queue has room for.
func (q *queue) cut(requests []*request) (calls []*call) {
	for len(requests) > 0 {
		n := fitting(requests, q.maxRows, q.maxBytes)
		calls = append(calls, newCall(requests[:n]))
		requests = requests[n:]
	}
	return calls
}

// fitting tells how many of the first requests fit: at least one.
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

// wait puts a call into the queue and waits for its end. A caller who leaves
// before there was room is forgotten; else the call stays to be written.
func (q *queue) wait(ctx context.Context, c *call) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return record.ErrClosed
	}
	c.timer = time.AfterFunc(q.patience, func() { q.expire(c) })
	q.line = append(q.line, c)
	q.admit()
	q.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if slices.Contains(q.line, c) {
		q.end(c, ctx.Err())
		q.drop(c) // it may have stood before smaller ones
	}
	return ctx.Err()
}

// admit lets in those at the head of the line for whom there is room. A call that
// is larger than the queue has it to itself.
func (q *queue) admit() {
	n := 0
	for _, c := range q.line {
		if q.rows > 0 && (q.rows+c.rows > q.maxRows || q.bytes+c.bytes > q.maxBytes) {
			break
		}
		q.rows += c.rows
		q.bytes += c.bytes
		for _, r := range c.requests {
			if h := q.held[r.root]; h != nil {
				q.holdBack(h, r)
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

// take waits for requests and gives as many as fit a batch; none when the queue
// is closed and empty.
func (q *queue) take() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.pending) == 0 {
		if q.closed && q.rows == 0 { // what is held may yet come back
			return nil
		}
		q.work.Wait()
	}
	n := fitting(q.pending, maxBatchRows, maxBatchBytes)
	taken := slices.Clone(q.pending[:n])
	q.pending = slices.Delete(q.pending, 0, n) // lets go of them
	if len(q.pending) > 0 {
		q.work.Signal()
	}
	return taken
}

// awaited gives those of taken requests whose calls have not ended, and releases
// the others.
func (q *queue) awaited(taken []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken = q.without(slices.Clone(taken), func(r *request) bool { return r.call.ended })
	q.admit()
	return taken
}

// answer releases requests, and ends calls that have all their answers. What was
// written is held by nobody, so what waits of the same trees need not any more.
func (q *queue) answer(taken []*request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range taken {
		q.release(r)
		q.letGo(r.root)
		r.answered = true
		if r.call.left--; r.call.left == 0 {
			q.end(r.call, nil)
		}
	}
	q.admit()
}

// halve makes two requests of a taken one.
func (q *queue) halve(r *request) (first, second *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	part := func(entries []*entry) *request {
		p := &request{call: r.call, root: r.root, entries: entries}
		for _, e := range entries {
			p.bytes += e.size
		}
		return p
	}
	r.call.left++
	half := len(r.entries) / 2
	return part(r.entries[:half]), part(r.entries[half:])
}

// note keeps what became of the last transaction, for those who are to be told
// why they waited in vain.
func (q *queue) note(trouble error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.trouble = trouble
}

// expire ends a call that has waited for long enough. What is just being written
// of it may yet be on record; the rest never will be.
func (q *queue) expire(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.ended {
		return
	}
	for _, r := range c.requests {
		if !r.answered {
			q.givenUp.Add(uint64(len(r.entries)))
		}
	}
	q.end(c, q.reason(c))
	q.drop(c)
}

// reason tells why a call has not all its answers.
func (q *queue) reason(c *call) error {
	for _, r := range c.requests {
		if h := q.held[r.root]; h != nil && h.tries > 0 && !r.answered {
			return &LockedError{RootPlanID: r.root}
		}
	}
	if q.trouble != nil {
		return q.trouble
	}
	return fmt.Errorf("%w: not written within %v", record.ErrUnavailable, q.patience)
}

// end gives a call its answer, once.
func (q *queue) end(c *call, err error) {
	if c.ended {
		return
	}
	c.ended, c.err = true, err
	c.timer.Stop()
	close(c.done)
}

// drop takes what is left of a call out of the queue, what is being written apart.
func (q *queue) drop(c *call) {
	q.line = slices.DeleteFunc(q.line, func(o *call) bool { return o == c })
	ofCall := func(r *request) bool { return r.call == c }
	q.pending = q.without(q.pending, ofCall)
	q.dropHeld(ofCall)
	q.admit()
}

// without releases some of the requests and gives the others.
func (q *queue) without(requests []*request, some func(*request) bool) []*request {
	return slices.DeleteFunc(requests, func(r *request) bool {
		if !some(r) {
			return false
		}
		q.release(r)
		return true
	})
}

// release makes the room of a request free.
func (q *queue) release(r *request) {
	q.rows -= len(r.entries)
	q.bytes -= r.bytes
	if q.closed && q.rows == 0 {
		q.work.Broadcast()
		q.stirHeld()
	}
}

// close refuses what comes and those who wait for room; what is pending stays.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	for _, c := range q.line {
		q.end(c, record.ErrClosed)
	}
	q.line = nil
	q.work.Broadcast()
	q.stirHeld()
}
