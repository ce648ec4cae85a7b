package store

import (
	"context"
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
// What is taken counts until it is released, so memory is bounded.
type queue struct {
	maxRows, maxBytes int

	mu          sync.Mutex
	pending     []*request
	rows, bytes int
	closed      bool
	room        chan struct{} // closed and replaced when something is released
	work        chan struct{} // closed and replaced when something is pushed
}

func newQueue(maxRows, maxBytes int) *queue {
	return &queue{maxRows: maxRows, maxBytes: maxBytes, room: make(chan struct{}), work: make(chan struct{})}
}

// push waits for room.
func (q *queue) push(ctx context.Context, r *request) error {
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return record.ErrClosed
		}
		if q.rows+len(r.entries) <= q.maxRows && q.bytes+r.bytes <= q.maxBytes {
			q.pending = append(q.pending, r)
			q.rows += len(r.entries)
			q.bytes += r.bytes
			broadcast(&q.work)
			q.mu.Unlock()
			return nil
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
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
			taken := q.pending[:n:n]
			q.pending = q.pending[n:]
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
	broadcast(&q.room)
	q.mu.Unlock()
	for _, r := range taken {
		close(r.done)
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		broadcast(&q.work)
		broadcast(&q.room)
	}
}

func broadcast(ch *chan struct{}) {
	close(*ch)
	*ch = make(chan struct{})
}
