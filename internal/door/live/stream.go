package live

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/actlog/actlog/internal/record/delta"
	"github.com/actlog/actlog/record"
)

// Stream is what one client receives. Its methods are for one goroutine.
type Stream struct {
	hub     *Hub
	group   *group
	encoder Encoder
	room    Room         // for what it reads for itself
	plan    string       // that was asked for; empty: all
	state   record.State // of that plan

	// What it reads for itself, at its client's pace, until it is live.
	want    *want
	reading chan reading // receives what is being read; nil: nothing is
	ready   []event
	last    bool // what is ready ends it
	// failed and retry say that a read failed, and when to try again.
	failed bool
	retry  <-chan time.Time
	ctx    context.Context // of its reads
	stop   context.CancelFunc

	unwatch func() // ends the deltas; nil: the client wants none

	// Guarded by the hub.
	pending *want   // what changed meanwhile
	buffer  []event // what was read for all
	bytes   int     // of the buffer
	err     error   // why it is over
	left    bool
	wake    chan struct{}  // holds a token when something came
	deltas  *delta.Backlog // nil: the client wants none
}

func newStream(h *Hub, planID string, encoder Encoder, room Room) *Stream {
	s := &Stream{
		hub: h, plan: planID, encoder: encoder, room: room,
		want: &want{all: true, primary: h.store.Primary()}, wake: make(chan struct{}, 1),
	}
	s.ctx, s.stop = context.WithCancel(h.ctx)
	return s
}

// reading is what a read found.
type reading struct {
	events []event
	more   bool // there are others
	err    error
}

// end ends a stream early. The hub is locked.
func (s *Stream) end(why error) {
	if s.err == nil {
		s.err = why
		s.buffer, s.bytes = nil, 0
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
	if s.unwatch != nil {
		s.unwatch()
	}
	s.hub.leave(s)
}

// WithDeltas adds the texts of models' answers to the stream of a tree, as they arrive. Call it
// before Next. Each piece is an event [TypeDelta]; its data is JSON with planId, stepId, seq,
// attempt and text. An event [TypeReset] with the same data, without the text, says that the pieces of
// this cycle that came before are void: the answer begins again, or the client lacks a part of it.
// An event [TypeProgress] says how far a tool call has come, and has its toolCallId, done, total and message.
// None of these has an id. What is on record comes first, and a client that is too slow for the texts
// lacks some of them.
func (s *Stream) WithDeltas() {
	s.deltas = delta.NewBacklog()
	s.unwatch = s.hub.deltas.Watch(s.group.root, func(d delta.Delta) {
		if d.Answer { // the page has it when it is on record
			return
		}

		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		if s.group.live[s] { // others have not received the present state
			s.deltas.Add(d)
			signal(s.wake)
		}
	})
}

func (s *Stream) nextDelta() *event {
	if s.deltas == nil {
		return nil
	}

	d, ok := s.deltas.Next()
	for ; ok && d.ToolCallID != ""; d, ok = s.deltas.Next() {
		if e := progressEvent(&d); e != nil {
			return e
		}
	}
	if !ok {
		return nil
	}

	e := &event{Event: Event{Type: TypeDelta}}
	if d.Reset {
		e.Type = TypeReset
	}
	e.Data, _ = json.Marshal(struct { // texts and numbers: it cannot fail
		PlanID  string `json:"planId"`
		StepID  string `json:"stepId"`
		Seq     int64  `json:"seq"`
		Attempt int64  `json:"attempt"`
		Text    string `json:"text,omitempty"` // of a delta; never empty
	}{d.PlanID, d.StepID, d.Seq, d.Attempt, d.Text})
	return e
}

// progressEvent returns the event of how far a call has come; nil: the delta does not say it.
func progressEvent(d *delta.Delta) *event {
	p, ok := d.Progress()
	if !ok {
		return nil
	}

	e := &event{Event: Event{Type: TypeProgress}}
	e.Data, _ = json.Marshal(struct { // texts and numbers: it cannot fail
		PlanID     string `json:"planId"`
		StepID     string `json:"stepId"`
		Seq        int64  `json:"seq"`
		ToolCallID string `json:"toolCallId"`
		Attempt    int64  `json:"attempt"`
		record.Progress
	}{d.PlanID, d.StepID, d.Seq, d.ToolCallID, d.Attempt, p})
	return e
}

// Next waits for the next event. If there is none for quiet, it returns one without a type: a
// sign that the stream is alive. [io.EOF] is the end. [ErrSlow], [ErrCut], [record.ErrClosed]
// and the end of ctx end it early.
func (s *Stream) Next(ctx context.Context, quiet time.Duration) (Event, error) {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		e, err := s.next()
		switch {
		case err != nil:
			return Event{}, err
		case e != nil:
			s.follow(e)
			s.hub.events.Add(1)
			return e.Event, nil
		case s.want != nil && s.reading == nil && s.retry == nil:
			s.read()
		}

		select {
		case r := <-s.reading: // blocks while nothing is read
			s.reading = nil
			s.catchUp(&r)
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

// next returns the next event, or nil if none is ready.
func (s *Stream) next() (*event, error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	switch {
	case s.err != nil:
		return nil, s.err
	case len(s.ready) > 0:
		e := &s.ready[0]
		s.ready = s.ready[1:]
		return e, nil
	}

	if s.room != nil && s.reading == nil { // its client has received what it read for itself
		s.room.Release()
	}
	switch {
	case s.last:
		return nil, io.EOF
	case len(s.buffer) > 0:
		e := &s.buffer[0]
		s.buffer = s.buffer[1:]
		s.bytes -= e.size()
		return e, nil
	}
	return s.nextDelta(), nil
}

// follow notes what the client is about to receive, and ends the stream behind it if that is
// the end of the plan.
func (s *Stream) follow(e *event) {
	if state, ok := e.states[s.plan]; ok {
		s.state = state
	}
	switch {
	case e.Type == TypeDeleted:
		s.last = true
	case e.last && s.ended():
		data, _ := json.Marshal(map[string]any{"planId": s.plan, "state": s.state}) // two texts: it cannot fail
		s.ready, s.last = append(s.ready, event{Event: Event{ID: e.ID, Type: TypeDone, Data: data}}), true
	}
}

// ended reports whether the plan that was asked for has ended.
func (s *Stream) ended() bool { return s.plan != "" && s.state.Terminal() }

// read begins to read the next events that the stream wants. That may take long; meanwhile the
// client has to hear that the stream is alive.
func (s *Stream) read() {
	w, found := s.want, make(chan reading, 1)
	if s.room != nil {
		if s.room.Take(catchUpBytes) != nil {
			s.retry = time.After(retryAfter)
			return
		}
	}

	s.reading = found
	if !w.all && !w.reset && len(w.xids)+len(w.plans) == 0 {
		found <- reading{}
		return
	}

	go func() {
		var r reading
		var raw []rawEvent
		if raw, r.more, r.err = s.hub.read(s.ctx, s.group.root, w); r.err == nil {
			r.events, r.err = encode(s.encoder, s.group.root, raw)
		}
		found <- r
	}()
}

// catchUp takes what was read. The stream is live when there is nothing more to read, and
// nothing came meanwhile. After an error it reads again in a while.
func (s *Stream) catchUp(r *reading) {
	if r.err != nil {
		if !s.failed && s.ctx.Err() == nil {
			s.hub.log.Warn("read a plan for a stream failed; it is tried again", "plan", s.group.root, "error", r.err)
		}
		s.failed, s.retry = true, time.After(retryAfter)
		return
	}

	s.failed, s.ready = false, r.events
	s.hold()
	if r.more {
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
	if len(s.ready) == 0 {
		s.ready = append(s.ready, event{})
	}
	end := &s.ready[len(s.ready)-1]
	end.ID, end.last = s.hub.cursor, true
}

// hold takes room for what is ready, beyond what was taken before it was read. A stream without
// room is cut, and its client comes back.
func (s *Stream) hold() {
	more := int64(-catchUpBytes)
	for i := range s.ready {
		more += int64(s.ready[i].size())
	}

	if s.room != nil && more > 0 && s.room.Take(more) != nil {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		s.hub.cut.Add(1)
		s.end(ErrSlow)
	}
}

// cursor returns the cursor of a client that received everything there is; empty if something
// may be on its way.
func (s *Stream) cursor() string {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if g := s.group; s.want != nil || len(s.ready) > 0 || len(s.buffer) > 0 || g.pending != nil || g.busy {
		return ""
	}
	return s.hub.cursor
}
