// Package live owns the fan-out of the store's change feed to those who follow plans:
// each sees the present state of every row that changes, whichever server wrote it.
package live

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// The types of events.
const (
	TypeRows    = "rows"    // rows of a tree as they stand
	TypePlans   = "plans"   // root plans at a glance
	TypeReset   = "reset"   // what was sent before may be wrong: everything comes anew
	TypeDeleted = "deleted" // the tree is not there any more; the last event
	TypeDone    = "done"    // the plan has ended; the last event
)

const (
	// interval is how often a tree is read at most.
	interval = 100 * time.Millisecond
	// atOnce is how many trees are read at the same time, those of streams that begin
	// included: the rest of the connections is for others.
	atOnce = 4
	// bufferBytes bounds what waits for a client. Clients of one tree share it.
	bufferBytes = 4 << 20
	// plansAtOnce is how many root plans are glanced at together.
	plansAtOnce = 200
	// maxChanges is how many transactions, or plans, are told apart before everything
	// is read anew.
	maxChanges = 10_000
	// pageTimeout bounds a read, retryAfter is how long after a failed one comes another.
	pageTimeout = 30 * time.Second
	retryAfter  = time.Second
)

// Errors of streams.
var (
	// ErrFull says that there are as many streams as there may be.
	ErrFull = errors.New("there are as many streams as there may be")
	// ErrSlow says that a client read too slowly, and was cut.
	ErrSlow = errors.New("the client reads too slowly")
	// ErrEnded says that the plan has ended and the client knows everything.
	ErrEnded = errors.New("the plan has ended and nothing has changed since")
	// ErrCut says that all streams were ended.
	ErrCut = errors.New("all streams were ended")
)

// Plan is a root plan that changed.
type Plan struct {
	store.PlanGlance
	RootPlanID string
	// Kinds are those that were told of; empty where the plan is just shown.
	Kinds []string
	// Deleted tells that it is not there any more; nothing else of it is known then.
	Deleted bool
}

// Config says how streams are served.
type Config struct {
	// Logger gets what keeps streams from going on. Required.
	Logger *slog.Logger
	// MaxStreams bounds the streams that there are at once.
	MaxStreams int
	// Rows and Plans make the data of an event. Required.
	Rows  func(rootPlanID string, rows []store.Row) ([]byte, error)
	Plans func(plans []Plan) ([]byte, error)
}

// Event is something that a client is told. One without a type only moves the client's
// cursor on.
type Event struct {
	// ID is a cursor: everything up to here was sent. Empty within a group of events.
	ID   string
	Type string
	Data []byte
}

// Hub follows the feed for as long as there are streams, and reads each tree once for
// all of them. It is safe for concurrent use.
type Hub struct {
	store  *store.Store
	config Config
	reads  chan struct{}

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	events, cut atomic.Uint64

	mu      sync.Mutex
	groups  map[string]*group // by root plan; "": of all plans
	streams int
	feed    *feed  // nil: no one follows anything
	cursor  string // everything up to here is known to the groups
	gaps    int
	lag     time.Duration
	looked  time.Time
	closed  bool
}

// feed is what runs while there are streams.
type feed struct {
	stop  context.CancelFunc
	begun chan struct{} // closed when changes are delivered
}

// New makes a hub. It costs nothing until the first stream.
func New(s *store.Store, config Config) *Hub {
	h := &Hub{store: s, config: config, reads: make(chan struct{}, atOnce), groups: map[string]*group{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Open begins a stream of the tree that a plan belongs to, or, where planID is empty, of
// all root plans: behind a cursor, or, where that is empty, with the present state. ctx
// bounds the beginning. The caller closes the stream.
//
// The error is [ErrFull], [ErrEnded], [record.ErrNotFound] where there is no such plan,
// an [*record.InvalidError] where after is no cursor, [record.ErrUnavailable] or
// [record.ErrClosed].
func (h *Hub) Open(ctx context.Context, planID, after string) (_ *Stream, err error) {
	f, err := h.enter()
	if err != nil {
		return nil, err
	}
	s := &Stream{hub: h, plan: planID, wake: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(h.ctx)
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
		if root, s.state, err = h.store.PlanPlace(ctx, planID); err != nil {
			return nil, err
		}
	}
	h.join(root, s)
	s.want = &want{all: true}
	if after == "" {
		return s, nil
	}
	changes, err := h.store.ChangesSince(ctx, after, root)
	switch {
	case errors.Is(err, store.ErrStaleCursor):
		s.want.reset = true
		return s, nil
	case err != nil:
		return nil, err
	case len(changes) == 0 && s.ended():
		return nil, ErrEnded
	}
	s.want = new(want)
	for i := range changes {
		s.want.add(&changes[i], root == "")
	}
	return s, nil
}

// enter counts a stream, and has the feed run.
func (h *Hub) enter() (*feed, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, record.ErrClosed
	case h.streams >= h.config.MaxStreams:
		return nil, ErrFull
	}
	h.streams++
	if h.feed == nil {
		ctx, stop := context.WithCancel(h.ctx)
		f := &feed{stop: stop, begun: make(chan struct{})}
		h.feed, h.looked = f, time.Now()
		h.tasks.Go(func() {
			h.store.Follow(ctx, func(c store.Changes) { h.deliver(f, &c) })
		})
	}
	return h.feed, nil
}

// deliver passes on what the feed tells.
func (h *Hub) deliver(f *feed, c *store.Changes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feed != f {
		return
	}
	all := h.groups[""]
	for i := range c.Made {
		made := &c.Made[i]
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
	h.cursor, h.gaps, h.lag, h.looked = c.Cursor, c.Gaps, c.Lag, time.Now()
	select {
	case <-f.begun:
	default:
		close(f.begun)
	}
}

// join has a stream be told what changes from here on.
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

// leave forgets a stream, and whatever ran for it alone.
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
	if h.streams--; h.streams == 0 {
		h.feed.stop()
		h.feed = nil
	}
}

// End ends all streams that there are.
func (h *Hub) End() { h.end(ErrCut, false) }

// Close ends all streams; there will be no others.
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

// Stats is what a hub has done since it was made, and how it is now.
type Stats struct {
	Streams int
	Events  uint64 // given to clients
	Cut     uint64 // clients that read too slowly
	// Gaps is how many numbers of the feed are waited for; 0 without streams.
	Gaps int
	// Lag is how old the oldest transaction was that the last look at the feed found;
	// or how long ago that look was, where it is overdue. 0 without streams.
	Lag time.Duration
}

// Stats gives a snapshot, without asking the database.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := Stats{Streams: h.streams, Events: h.events.Load(), Cut: h.cut.Load()}
	if h.feed != nil {
		st.Gaps, st.Lag = h.gaps, h.lag
		if silent := time.Since(h.looked); silent > 3*time.Second {
			st.Lag = max(st.Lag, silent)
		}
	}
	return st
}

// CutSlow counts a client that could not be written to in time.
func (h *Hub) CutSlow() { h.cut.Add(1) }
