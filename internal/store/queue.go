package store

import (
	"context"
	"slices"
	"sync"

	"github.com/actlog/actlog/record"
)

// A transaction holds at most this much.
const (
	maxBatchRows  = 2_000
	maxBatchBytes = 8 << 20
)

// entry is a change on its way into the record. err is what became of it, set
// before its request is done.
type entry struct {
	row  *record.Row
	size int
	err  error
}

// request is what one caller waits for: at most a batch.
type request struct {
	entries []*entry
	bytes   int
	done    chan struct{}
}

// queue holds requests until a writer takes them, several callers' at a time.
// What is taken counts until it is released, so memory is bounded. Who finds it
// full waits in line, so that a large request is not passed by small ones forever.
type queue struct {
	maxRows, maxBytes int

	mu          sync.Mutex
	line        []*waiter
	pending     []*request
	rows, bytes int
	closed      bool
	work        chan struct{} // closed and replaced when something is pushed
}

// waiter is a caller who waits for room. done is closed when err says what came
// of it.
type waiter struct {
	request *request
	done    chan struct{}
	err     error
}

func newQueue(maxRows, maxBytes int) *queue {
	return &queue{maxRows: maxRows, maxBytes: maxBytes, work: make(chan struct{})}
}

// push waits for room.
func (q *queue) push(ctx context.Context, r *request) error {
	w := &waiter{request: r, done: make(chan struct{})}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return record.ErrClosed
	}
	q.line = append(q.line, w)
	q.admit()
	q.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-w.done: // at the same moment
		return w.err
	default:
		q.line = slices.DeleteFunc(q.line, func(o *waiter) bool { return o == w })
		q.admit() // it may have stood before smaller ones
		return ctx.Err()
	}
}

// admit lets in those at the head of the line for whom there is room. A request
// that is larger than the queue has it to itself.
func (q *queue) admit() {
	n := 0
	for _, w := range q.line {
		r := w.request
		if q.rows > 0 && (q.rows+len(r.entries) > q.maxRows || q.bytes+r.bytes > q.maxBytes) {
			break
		}
		q.pending = append(q.pending, r)
		q.rows += len(r.entries)
		q.bytes += r.bytes
		close(w.done)
		n++
	}
	if n > 0 {
		q.line = slices.Delete(q.line, 0, n)
		q.announce()
	}
}

// take waits for requests and gives as many as fit a batch; none when the queue
// is closed and empty.
func (q *queue) take() []*request {
	for {
		q.mu.Lock()
		if len(q.pending) > 0 {
			n, rows, bytes := 0, 0, 0
			for _, r := range q.pending {
				rows += len(r.entries)
				bytes += r.bytes
				if n > 0 && (rows > maxBatchRows || bytes > maxBatchBytes) {
					break
				}
				n++
			}
			taken := slices.Clone(q.pending[:n])
			q.pending = slices.Delete(q.pending, 0, n) // lets go of them
			q.mu.Unlock()
			return taken
		}
		work, closed := q.work, q.closed
		q.mu.Unlock()
		if closed {
			return nil
		}
		<-work
	}
}

// release answers requests and makes room for others.
func (q *queue) release(taken []*request) {
	q.mu.Lock()
	for _, r := range taken {
		q.rows -= len(r.entries)
		q.bytes -= r.bytes
	}
	q.admit()
	q.mu.Unlock()
	for _, r := range taken {
		close(r.done)
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
	for _, w := range q.line {
		w.err = record.ErrClosed
		close(w.done)
	}
	q.line = nil
	q.announce()
}

// announce wakes the writers.
func (q *queue) announce() {
	close(q.work)
	q.work = make(chan struct{})
}
