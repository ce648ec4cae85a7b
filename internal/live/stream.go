package live

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/actlog/actlog/record"
)

// Stream is what one client is told. Its methods are for one goroutine.
type Stream struct {
	hub   *Hub
	group *group
	plan  string       // that was asked for; empty: all
	state record.State // of that plan

	// What it reads for itself, at its client's pace, until it is live.
	want  *want
	ready []item
	last  bool // what is ready ends it
	// failed and retry say that reading did not work, and when to try again.
	failed bool
	retry  <-chan time.Time

	// Guarded by the hub.
	pending *want  // what changed meanwhile
	buffer  []item // what was read for all
	bytes   int    // of the buffer
	err     error  // why it is over
	left    bool
	wake    chan struct{} // holds a token when something came
}

// end ends a stream early. The hub is locked.
func (s *Stream) end(why error) {
	if s.err == nil {
		s.err, s.buffer, s.bytes = why, nil, 0
	}
	signal(s.wake)
}

// Close forgets the stream.
func (s *Stream) Close() { s.hub.leave(s) }

// Next waits for the next event; where there is none for so long, it gives one without a
// type, which says that the stream is alive. [io.EOF] is the end; [ErrSlow], [ErrCut],
// [record.ErrClosed] and the end of ctx end it early.
func (s *Stream) Next(ctx context.Context, quiet time.Duration) (Event, error) {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		it, err := s.next()
		switch {
		case err != nil:
			return Event{}, err
		case it != nil:
			s.follow(it)
			s.hub.events.Add(1)
			return it.Event, nil
		case s.want != nil:
			if err := s.catchUp(ctx); err == nil {
				continue
			}
		}
		select {
		case <-s.wake:
		case <-s.retry: // nil while there is nothing to read
		case <-timer.C:
			return Event{ID: s.cursor()}, nil
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// next gives what is at hand.
func (s *Stream) next() (*item, error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	switch {
	case s.err != nil:
		return nil, s.err
	case len(s.ready) > 0:
		it := &s.ready[0]
		s.ready = s.ready[1:]
		return it, nil
	case s.last:
		return nil, io.EOF
	case len(s.buffer) > 0:
		it := &s.buffer[0]
		s.buffer = s.buffer[1:]
		s.bytes -= it.size()
		return it, nil
	}
	return nil, nil
}

// follow notes what the client is about to be told, and ends the stream behind it.
func (s *Stream) follow(it *item) {
	if state, ok := it.states[s.plan]; ok {
		s.state = state
	}
	switch {
	case it.Type == TypeDeleted:
		s.last = true
	case it.end && s.ended():
		data, _ := json.Marshal(map[string]any{"planId": s.plan, "state": s.state}) // texts only
		s.ready, s.last = append(s.ready, item{Event: Event{ID: it.ID, Type: TypeDone, Data: data}}), true
	}
}

// ended tells whether the plan that was asked for has.
func (s *Stream) ended() bool { return s.plan != "" && s.state.Terminal() }

// catchUp reads another part of what the stream wants; when there is nothing more, and
// nothing came meanwhile, it is live. After an error it is to be tried again in a while.
func (s *Stream) catchUp(ctx context.Context) error {
	s.retry = nil
	var items []item
	more := false
	if w := s.want; w.all || w.reset || len(w.xids)+len(w.plans) > 0 {
		var err error
		if items, more, err = s.hub.page(ctx, s.group.root, w); err != nil {
			if !s.failed && ctx.Err() == nil {
				s.hub.config.Logger.Warn("a plan could not be read for a stream; it is tried again", "plan", s.group.root, "error", err)
			}
			s.failed, s.retry = true, time.After(retryAfter)
			return err
		}
	}
	s.failed, s.ready = false, items
	if more {
		return nil
	}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.pending != nil {
		s.want, s.pending = s.pending, nil
		return nil
	}
	s.want = nil
	if s.err == nil {
		delete(s.group.late, s)
		s.group.live[s] = true
	}
	s.ready = ending(s.ready, s.hub.cursor)
	return nil
}

// cursor gives the cursor of a client that was told everything there is; empty: it may
// have to wait for something.
func (s *Stream) cursor() string {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if g := s.group; s.want != nil || len(s.ready) > 0 || len(s.buffer) > 0 || g.pending != nil || g.busy {
		return ""
	}
	return s.hub.cursor
}
