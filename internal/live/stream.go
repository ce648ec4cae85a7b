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
	want    *want
	reading chan part // gives what is being read; nil: nothing is
	ready   []item
	last    bool // what is ready ends it
	// failed and retry say that reading did not work, and when to try again.
	failed bool
	retry  <-chan time.Time
	ctx    context.Context // of what is read
	stop   context.CancelFunc

	// Guarded by the hub.
	pending *want  // what changed meanwhile
	buffer  []item // what was read for all
	bytes   int    // of the buffer
	err     error  // why it is over
	left    bool
	wake    chan struct{} // holds a token when something came
}

// part is a part of what a stream wants.
type part struct {
	items []item
	more  bool // there is another
	err   error
}

// end ends a stream early. The hub is locked.
func (s *Stream) end(why error) {
	if s.err == nil {
		s.err, s.buffer, s.bytes = why, nil, 0
	}
	signal(s.wake)
}

// Close forgets the stream.
func (s *Stream) Close() {
	s.stop()
	if s.reading != nil {
		<-s.reading
		s.reading = nil
	}
	s.hub.leave(s)
}

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
		case s.want != nil && s.reading == nil && s.retry == nil:
			s.read()
		}
		select {
		case p := <-s.reading: // nil while nothing is read
			s.reading = nil
			s.catchUp(&p)
		case <-s.retry:
			s.retry = nil
		case <-s.wake:
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

// read begins to read another part of what the stream wants. That may take long, and the
// client is to hear that the stream is alive meanwhile.
func (s *Stream) read() {
	w, found := s.want, make(chan part, 1)
	s.reading = found
	if !w.all && !w.reset && len(w.xids)+len(w.plans) == 0 {
		found <- part{}
		return
	}
	go func() {
		var p part
		p.items, p.more, p.err = s.hub.page(s.ctx, s.group.root, w)
		found <- p
	}()
}

// catchUp takes what was read; when there is nothing more, and nothing came meanwhile,
// the stream is live. After an error it is to be read again in a while.
func (s *Stream) catchUp(p *part) {
	if p.err != nil {
		if !s.failed && s.ctx.Err() == nil {
			s.hub.config.Logger.Warn("a plan could not be read for a stream; it is tried again", "plan", s.group.root, "error", p.err)
		}
		s.failed, s.retry = true, time.After(retryAfter)
		return
	}
	s.failed, s.ready = false, p.items
	if p.more {
		return
	}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.pending != nil {
		s.want, s.pending = s.pending, nil
		return
	}
	s.want = nil
	if s.err == nil {
		delete(s.group.late, s)
		s.group.live[s] = true
	}
	s.ready = ending(s.ready, s.hub.cursor)
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
