package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/live"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

// Events, as server-sent events (the WHATWG's HTML, section 9.2).

const (
	typeEventStream = "text/event-stream"
	// openTimeout bounds the time until a stream begins.
	openTimeout = 5 * time.Second
)

var errStreams = httpd.Later(5, "the server has as many streams of events as it may; try again soon, or another server")

// planEvents streams the tree that a plan belongs to, until the plan has ended.
func (s *Server) planEvents(c echo.Context) error {
	q := httpd.QueryOf(c, "root", "after", "deltas", "lean")
	return s.sendEvents(c, q, q.ID("planId"))
}

// allEvents streams all root plans.
func (s *Server) allEvents(c echo.Context) error {
	return s.sendEvents(c, httpd.QueryOf(c, "after"), "")
}

func (s *Server) sendEvents(c echo.Context, q *httpd.Query, planID string) error {
	root, after := q.Text("root"), q.Text("after")
	deltas, lean := q.Flag("deltas"), q.Flag("lean")
	if q.Err != nil {
		return q.Err
	}

	r := c.Request()
	if last := r.Header.Get("Last-Event-ID"); last != "" { // of a client that reconnects to the same address
		after = last
	}

	ctx, cancel := context.WithTimeout(r.Context(), openTimeout)
	defer cancel()
	stream, err := s.openStream(ctx, c, root, planID, after, encoder{lean})
	switch {
	case errors.Is(err, live.ErrEnded): // so that browsers do not reconnect
		return c.NoContent(http.StatusNoContent)
	case errors.Is(err, live.ErrFull):
		return errStreams
	case err != nil:
		return err
	}
	defer stream.Close()

	if deltas {
		stream.WithDeltas()
	}

	h := c.Response().Header()
	h.Set(echo.HeaderContentType, typeEventStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would wait for more
	h.Set(gzhttp.HeaderNoCompression, "1")

	if r.Method == http.MethodHead {
		return c.NoContent(http.StatusOK)
	}
	if err := httpd.AnswerTo(c).Stream(0); err != nil {
		return err
	}

	out := &eventWriter{to: c.Response()}
	// When a server stops, its clients should not reconnect all at once.
	fmt.Fprintf(&out.head, "retry: %d\n\n", 500+rand.IntN(1500))
	err = s.follow(r.Context(), out, stream)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.hub.CutSlow()
	case r.Context().Err() != nil, errors.Is(err, io.EOF), errors.Is(err, live.ErrCut), errors.Is(err, record.ErrClosed):
		return nil
	}
	return err // breaks the connection
}

// openStream begins a stream. To find what a client missed may take a scan of a day's changes: that
// counts as a search.
func (s *Server) openStream(
	ctx context.Context, c echo.Context, root, planID, after string, e encoder,
) (*live.Stream, error) {
	if after != "" {
		done, err := s.lookup.TurnToSearch(ctx, c)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	return s.hub.Open(ctx, root, planID, after, e, httpd.AnswerTo(c))
}

func (s *Server) follow(ctx context.Context, out *eventWriter, stream *live.Stream) error {
	if err := out.flush(); err != nil {
		return err
	}

	for {
		event, err := stream.Next(ctx, s.config.Heartbeat)
		if err != nil {
			return err
		}
		if err := out.event(event); err != nil {
			return err
		}
	}
}

// eventWriter writes events to a client. It does not copy their data, which all clients of a
// tree share.
type eventWriter struct {
	to   http.ResponseWriter
	head bytes.Buffer
}

// event writes an event, or a comment if nothing happened. The data is JSON without line
// breaks.
func (w *eventWriter) event(e live.Event) error {
	if e.Type == "" {
		w.head.WriteString(":\n")
	}
	if e.ID != "" {
		fmt.Fprintf(&w.head, "id: %s\n", e.ID)
	}
	if e.Type != "" {
		fmt.Fprintf(&w.head, "event: %s\ndata: ", e.Type)
		if err := w.write(e.Data); err != nil {
			return err
		}
		w.head.WriteByte('\n')
	}

	w.head.WriteByte('\n')
	return w.flush()
}

// write writes the head and data behind it.
func (w *eventWriter) write(data []byte) error {
	if _, err := w.to.Write(w.head.Bytes()); err != nil {
		return err
	}
	w.head.Reset()

	if len(data) == 0 {
		return nil
	}
	_, err := w.to.Write(data)
	return err
}

func (w *eventWriter) flush() error {
	if err := w.write(nil); err != nil {
		return err
	}
	if err := http.NewResponseController(w.to).Flush(); err != nil {
		return fmt.Errorf("%w: %w", httpd.ErrGone, err)
	}
	return nil
}

// planEventJSON is a root plan at a glance.
type planEventJSON struct {
	RootPlanID  string        `json:"rootPlanId"`
	Kinds       []string      `json:"kinds"`
	Deleted     bool          `json:"deleted"`
	State       *record.State `json:"state"`
	Completed   bool          `json:"completed"`
	Placeholder bool          `json:"placeholder"`
	Project     *string       `json:"project"`
	Name        *string       `json:"name"`
	StartTime   *time.Time    `json:"startTime"`
	EndTime     *time.Time    `json:"endTime"`
	LastSeenAt  *time.Time    `json:"lastSeenAt"`
	ErrorKind   *string       `json:"errorKind"`
	Steps       int64         `json:"steps"`
	Total       wire.Figures  `json:"total"`
}

// encoder makes the data of events. A lean one says of rows only which they are, and their states.
type encoder struct{ lean bool }

// Plans implements [live.Encoder].
func (encoder) Plans(plans []live.Plan) ([]byte, error) {
	out := struct {
		Plans []planEventJSON `json:"plans"`
	}{make([]planEventJSON, len(plans))}

	for i := range plans {
		p := &plans[i]
		r := &p.Record
		out.Plans[i] = planEventJSON{
			RootPlanID: p.RootPlanID, Kinds: orEmpty(p.Kinds), Deleted: p.Deleted, Placeholder: p.Placeholder, State: r.State,
			Name:      r.Name,
			StartTime: r.StartTime, EndTime: r.EndTime, LastSeenAt: r.LastSeenAt, ErrorKind: r.ErrorKind, Steps: p.Steps,
			Total: wire.FiguresOf(&p.Total),
		}

		if !p.Deleted {
			out.Plans[i].Project, out.Plans[i].Completed = cmp.Or(r.Project, new(defaultProject)), r.State.Terminal()
		}
	}
	return encode(out)
}

// Rows implements [live.Encoder]. Each row has every readable field, null if not set, with the
// defaults that reads show, and what is derived.
func (e encoder) Rows(rootPlanID string, rows []store.Row) ([]byte, error) {
	if e.lean {
		return leanRows(rootPlanID, rows)
	}
	o := &object{b: []byte{'{'}}
	o.text("rootPlanId", &rootPlanID)
	list(o, "rows", rows, addRowWithKind)
	return append(o.b, '}'), nil
}

// leanRowJSON is a row of a tree without what it says.
type leanRowJSON struct {
	At    string       `json:"at"` // as in the addresses of the page
	Kind  record.Kind  `json:"kind"`
	State record.State `json:"state"`
}

// leanRows has the rows that the tree is made of: plans, steps, cycles, tool calls and waits.
func leanRows(rootPlanID string, rows []store.Row) ([]byte, error) {
	out := struct {
		RootPlanID string        `json:"rootPlanId"`
		Rows       []leanRowJSON `json:"rows"`
	}{rootPlanID, make([]leanRowJSON, 0, len(rows))}

	for i := range rows {
		if at, state := outline.AtOf(rows[i].Record); at != "" {
			out.Rows = append(out.Rows, leanRowJSON{at, rows[i].Record.Kind(), state})
		}
	}
	return encode(out)
}
