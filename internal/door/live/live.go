// Package live owns the fan-out of the change feed to watchers: each sees the present state of
// every row that changes, whichever server wrote it.
package live

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/internal/record/delta"
	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// The types of events.
const (
	TypeRows  = "rows"  // rows of a tree as they stand
	TypePlans = "plans" // root plans at a glance
	// what was sent before may be wrong: everything is sent again; with data: of a cycle, its deltas
	TypeReset    = "reset"
	TypeDelta    = "delta"    // a piece of a model's answer
	TypeProgress = "progress" // how far a tool call has come
	TypeDeleted  = "deleted"  // the tree does not exist any more; the last event
	TypeDone     = "done"     // the plan has ended; the last event
)

const (
	// interval is the least time between two reads of a tree.
	interval = 100 * time.Millisecond
	// maxReads bounds the trees that are read at the same time, for new streams, too. The other
	// connections are for other work.
	maxReads = 3
	// bufferBytes bounds what waits for a client. Clients of one tree share the memory.
	bufferBytes = 4 << 20
	// plansPerRead is how many root plans are read together.
	plansPerRead = 200
	// maxChanges is how many transactions, or plans, are kept apart. Beyond it everything is
	// read again.
	maxChanges = 10_000
	// catchUpBytes is the room that a stream asks for before it reads a part of what it missed.
	catchUpBytes = 1 << 20
	// readTimeout bounds a read. After a failed one the next comes after retryAfter.
	readTimeout = 30 * time.Second
	retryAfter  = time.Second
)

// Errors of streams.
var (
	// ErrFull means that there are as many streams as there may be.
	ErrFull = errors.New("there are as many streams as there may be")
	// ErrSlow means that the stream was ended because its client reads too slowly.
	ErrSlow = errors.New("the client reads too slowly")
	// ErrEnded means that the plan has ended and the client knows everything.
	ErrEnded = errors.New("the plan has ended and nothing has changed since")
	// ErrCut means that all streams were ended.
	ErrCut = errors.New("all streams were ended")
)

// Plan is a root plan that changed.
type Plan struct {
	store.PlanGlance
	RootPlanID string
	// Kinds are those of the changes; empty if the plan is shown for another reason.
	Kinds []string
	// Deleted reports that the plan does not exist any more. Nothing else of it is known then.
	Deleted bool
}

// Encoder makes the data of events. Streams with equal encoders share it. It must be
// comparable, and must not change what it is given.
type Encoder interface {
	Rows(rootPlanID string, rows []store.Row) ([]byte, error)
	Plans(plans []Plan) ([]byte, error)
}

// Room is where the memory comes from that a stream holds for itself, while its client catches
// up. A stream that is refused waits. It is used by the goroutine that calls Next.
type Room interface {
	Take(bytes int64) error
	Release()
}

// Store is what a hub reads.
type Store interface {
	Primary() string
	PlanPlace(ctx context.Context, underRoot, planID string) (rootPlanID string, state record.State, err error)
	Rows(ctx context.Context, rootPlanID string, f *store.RowFilter) ([]store.Row, error)
	LivePlans(ctx context.Context) ([]store.PlanGlance, error)
	GlanceAt(ctx context.Context, rootPlanIDs []string) ([]store.PlanGlance, error)
}

// Event is what a client receives. One without a type only moves the client's cursor on.
type Event struct {
	// ID is a cursor: everything up to here was sent. It is empty inside a group of events.
	ID   string
	Type string
	Data []byte
}

// Hub follows the feed as long as there are streams, and reads each tree once for all of them.
// It is safe for concurrent use.
type Hub struct {
	store      Store
	feed       *feed.Feed
	deltas     *delta.Deltas
	log        *slog.Logger
	maxStreams int
	reads      chan struct{} // holds a token for each read

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	events, cut atomic.Uint64

	mu        sync.Mutex
	groups    map[string]*group // by root plan; "": of all plans
	streams   int
	following *following // nil: nobody follows anything
	cursor    string     // the groups know everything up to here
	primary   string     // where that is on record
	gaps      int
	lag       time.Duration
	polled    time.Time // when the feed was last read
	closed    bool
}

// following is the reading of the feed while there are streams.
type following struct {
	stop  context.CancelFunc
	begun chan struct{} // closed when changes are delivered
}

// New returns a hub for at most maxStreams streams. It costs nothing until the first one. log
// receives what keeps streams from going on.
func New(s Store, f *feed.Feed, d *delta.Deltas, log *slog.Logger, maxStreams int) *Hub {
	h := &Hub{
		store: s, feed: f, deltas: d, log: log, maxStreams: maxStreams, reads: make(chan struct{}, maxReads),
		groups: map[string]*group{},
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Open begins a stream of the tree that a plan belongs to, or, if planID is empty, of all root
// plans: behind a cursor, or, if that is empty, with the present state. rootPlanID is the root
// that the plan is under; it may be empty, see [store.Store.PlanTree]. ctx bounds the beginning.
// room may be nil: then it has any. The caller closes the stream.
//
// The error is [ErrFull], [ErrEnded], [record.ErrNotFound] if there is no such plan, a
// [*record.InvalidError] if after is not a cursor, [record.ErrUnavailable] or
// [record.ErrClosed].
func (h *Hub) Open(
	ctx context.Context, rootPlanID, planID, after string, encoder Encoder, room Room,
) (_ *Stream, err error) {
	f, err := h.enter()
	if err != nil {
		return nil, err
	}
	s := newStream(h, planID, encoder, room)
	defer func() {
		if err != nil {
			s.Close()
		}
	}()

	select {
	case <-f.begun: // what is committed from here on will be delivered
	case <-ctx.Done():
		return nil, errors.Join(record.ErrUnavailable, ctx.Err())
	case <-h.ctx.Done():
		return nil, record.ErrClosed
	}
	root := ""
	if planID != "" {
		if root, s.state, err = h.store.PlanPlace(ctx, rootPlanID, planID); err != nil {
			return nil, err
		}
	}

	h.join(root, s)
	if after == "" {
		return s, nil
	}

	changes, err := h.feed.Since(ctx, after, root)
	switch {
	case errors.Is(err, feed.ErrStaleCursor):
		s.want.reset = true
		return s, nil
	case err != nil:
		return nil, err
	case len(changes) == 0 && s.ended():
		return nil, ErrEnded
	}

	s.want.all = false
	for i := range changes {
		s.want.add(&changes[i], root == "")
	}
	return s, nil
}

// Cursor returns a cursor for [Hub.Open]: a stream that is opened with it has all that changes from now on, perhaps
// with some of what came before. It is empty if that is not known at the moment. The errors are those of [Hub.Open].
func (h *Hub) Cursor(ctx context.Context) (string, error) {
	f, err := h.enter()
	if err != nil {
		return "", err
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.unfollow()
	}()

	select {
	case <-f.begun:
	case <-ctx.Done():
		return "", errors.Join(record.ErrUnavailable, ctx.Err())
	case <-h.ctx.Done():
		return "", record.ErrClosed
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cursor, nil
}

// enter counts a stream, and starts to follow the feed for the first one.
func (h *Hub) enter() (*following, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, record.ErrClosed
	case h.streams >= h.maxStreams:
		return nil, ErrFull
	}

	h.streams++
	if h.following == nil {
		ctx, stop := context.WithCancel(h.ctx)
		f := &following{stop: stop, begun: make(chan struct{})}
		h.following, h.polled = f, time.Now()
		h.tasks.Go(func() {
			h.feed.Follow(ctx, func(c feed.Changes) { h.deliver(f, &c) })
		})
	}
	return h.following, nil
}

// deliver passes changes of the feed on to the groups.
func (h *Hub) deliver(f *following, c *feed.Changes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.following != f {
		return
	}

	h.primary = c.Primary
	all := h.groups[""]
	for i := range c.Committed {
		made := &c.Committed[i]
		if g := h.groups[made.RootPlanID]; g != nil {
			g.add(made)
		}
		if all != nil {
			all.add(made)
		}
	}

	if c.Lost {
		for _, g := range h.groups {
			g.reset()
		}
	}

	h.cursor, h.gaps = c.Cursor, c.Gaps
	h.lag, h.polled = c.Lag, time.Now()
	select {
	case <-f.begun:
	default:
		close(f.begun)
	}
}

// join adds a stream to a group: it receives what changes from here on.
func (h *Hub) join(root string, s *Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[root]
	if g == nil {
		g = &group{hub: h, root: root, late: map[*Stream]bool{}, live: map[*Stream]bool{}, wake: make(chan struct{}, 1)}
		g.ctx, g.stop = context.WithCancel(h.ctx)
		h.groups[root] = g
		h.tasks.Go(g.run)
	}

	g.late[s] = true
	s.group = g
	if h.closed {
		s.end(record.ErrClosed)
	}
}

// leave forgets a stream, and what ran for it alone.
func (h *Hub) leave(s *Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.left {
		return
	}

	s.left = true
	if g := s.group; g != nil {
		delete(g.late, s)
		delete(g.live, s)
		if len(g.late)+len(g.live) == 0 && h.groups[g.root] == g {
			delete(h.groups, g.root)
			g.stop()
		}
	}

	h.unfollow()
}

// unfollow ends what enter began. The hub is locked.
func (h *Hub) unfollow() {
	if h.streams--; h.streams == 0 {
		h.following.stop()
		h.following = nil
	}
}

// End ends all streams that there are.
func (h *Hub) End() { h.end(ErrCut, false) }

// Close ends all streams. There will be no others.
func (h *Hub) Close() {
	h.end(record.ErrClosed, true)
	h.cancel()
	h.tasks.Wait()
}

func (h *Hub) end(why error, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = h.closed || closed
	for _, g := range h.groups {
		for s := range g.late {
			s.end(why)
		}
		for s := range g.live {
			s.end(why)
		}
	}
}

// Stats is what a hub has done since it was made, and its present state.
type Stats struct {
	Streams int
	Events  uint64 // given to clients
	Cut     uint64 // clients that read too slowly
	// Gaps is how many numbers of the feed are waited for; 0 without streams.
	Gaps int
	// Lag is how old the oldest transaction was that the last read of the feed found, or how
	// long ago that read was if the next is overdue; 0 without streams.
	Lag time.Duration
}

// Stats returns a snapshot, without asking the database.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := Stats{Streams: h.streams, Events: h.events.Load(), Cut: h.cut.Load()}
	if h.following != nil {
		st.Gaps, st.Lag = h.gaps, h.lag
		if silent := time.Since(h.polled); silent > 3*time.Second {
			st.Lag = max(st.Lag, silent)
		}
	}
	return st
}

// CutSlow counts a client that could not be written to in time.
func (h *Hub) CutSlow() { h.cut.Add(1) }
