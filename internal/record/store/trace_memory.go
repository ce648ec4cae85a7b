package store

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// maxTraceMemory bounds the memory of all projections that are remembered, in bytes.
	maxTraceMemory = 256 << 20
	// traceMemoryFor is how long a trace is remembered to which nothing comes.
	traceMemoryFor = time.Minute
)

// traceMemory remembers the projections of traces whose rows were made lately, so that more spans cost
// by what they change. What it remembers is true as long as nobody else wrote to the trace; the
// transaction that goes on from there looks.
type traceMemory struct {
	mu    sync.Mutex
	known map[string]*remembered
	bytes int
}

// remembered is a trace that somebody works on, or whose projection is remembered.
type remembered struct {
	turn       chan struct{} // holds a token while somebody works on the trace
	users      int           // who work on it or wait for their turn
	used       time.Time
	projection Projection // nil: not remembered
	bytes      int
	// chunks is how many chunks are in the projection, first and last are the ids of two.
	chunks      int32
	first, last int64
	spans       int64 // how many spans are in it
}

// hold waits until nobody else in this process works on some traces, and keeps others from doing so
// until release is called. The error is that of ctx.
func (m *traceMemory) hold(ctx context.Context, ids []string) (held map[string]*remembered, release func(), err error) {
	held = make(map[string]*remembered, len(ids))
	release = func() {
		for id, r := range held {
			m.count(r)
			<-r.turn
			m.leave(id, r)
		}
	}

	for _, id := range slices.Sorted(slices.Values(ids)) { // so that no two wait for each other
		r := m.enter(id)
		select {
		case r.turn <- struct{}{}:
			held[id] = r
		case <-ctx.Done():
			m.leave(id, r)
			release()
			return nil, nil, ctx.Err()
		}
	}
	return held, release, nil
}

func (m *traceMemory) enter(id string) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()

	r := m.known[id]
	if r == nil {
		r = &remembered{turn: make(chan struct{}, 1)}
		if m.known == nil {
			m.known = map[string]*remembered{}
		}
		m.known[id] = r
	}
	r.users++
	return r
}

// count counts what a trace takes that the caller has worked on.
func (m *traceMemory) count(r *remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes -= r.bytes
	r.bytes, r.used = 0, time.Now()
	if r.projection != nil {
		r.bytes = r.projection.Size()
	}
	m.bytes += r.bytes
}

// leave forgets what was not used for the longest time while there is too much.
func (m *traceMemory) leave(id string, r *remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.users--; r.users == 0 && r.projection == nil {
		delete(m.known, id)
	}
	for m.bytes > maxTraceMemory && m.forgetOldest(time.Time{}) {
	}
}

func (m *traceMemory) forgetUnused() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.forgetOldest(time.Now().Add(-traceMemoryFor)) {
	}
}

// forgetOldest forgets the trace that was not used for the longest time, and reports whether there was
// one: that was last used before a time, unless that is zero.
func (m *traceMemory) forgetOldest(before time.Time) bool {
	var oldest string
	for id, r := range m.known {
		if r.users == 0 && (before.IsZero() || r.used.Before(before)) &&
			(oldest == "" || r.used.Before(m.known[oldest].used)) {
			oldest = id
		}
	}

	if oldest == "" {
		return false
	}
	m.bytes -= m.known[oldest].bytes
	delete(m.known, oldest)
	return true
}

// take returns the projection, and forgets it: it is remembered again when what it goes on to is on
// record.
func (r *remembered) take() Projection {
	p := r.projection
	r.projection = nil
	return p
}
