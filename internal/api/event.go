package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/live"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// Events, as server-sent events (the WHATWG's HTML, section 9.2).

const (
	planEventsPath = "/api/v1/plans/:planId/events"
	eventsPath     = "/api/v1/events"

	typeEventStream = "text/event-stream"
	// openTimeout bounds the time until a stream begins.
	openTimeout = 5 * time.Second
	// eventChunk is what a client takes at once, within its patience.
	eventChunk = 64 << 10
)

var errStreams = &problem{Status: http.StatusServiceUnavailable, Detail: "the server has as many streams of events as it may; try again soon, or another server", RetryAfter: 5}

// Close ends all streams of events. There are no others afterwards; everything else is
// still served.
func (s *Server) Close() { s.live.Close() }

// planEvents tells of the tree that a plan belongs to, until the plan has ended.
func (s *Server) planEvents(c echo.Context) error {
	id, err := nativeID(c, "planId")
	if err != nil {
		return err
	}
	return s.sendEvents(c, id)
}

// allEvents tells of all root plans.
func (s *Server) allEvents(c echo.Context) error { return s.sendEvents(c, "") }

func (s *Server) sendEvents(c echo.Context, planID string) error {
	q := queryOf(c, "after")
	after := q.text("after")
	if q.err != nil {
		return q.err
	}
	r := c.Request()
	if last := r.Header.Get("Last-Event-ID"); last != "" { // of a client that comes back with the address that it had
		after = last
	}
	ctx, cancel := context.WithTimeout(r.Context(), openTimeout)
	defer cancel()
	stream, err := s.live.Open(ctx, planID, after)
	switch {
	case errors.Is(err, live.ErrEnded): // so that browsers do not come back
		return c.NoContent(http.StatusNoContent)
	case errors.Is(err, live.ErrFull):
		return errStreams
	case err != nil:
		return err
	}
	defer stream.Close()
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, typeEventStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // of nginx, which would wait for more
	h.Set(gzhttp.HeaderNoCompression, "1")
	if r.Method == http.MethodHead {
		return c.NoContent(http.StatusOK)
	}
	out := &eventWriter{to: c.Response(), patience: s.config.EventPatience}
	// Clients of a server that stops do not come back all at once.
	fmt.Fprintf(&out.buffer, "retry: %d\n\n", 500+rand.IntN(1500))
	err = s.follow(r.Context(), out, stream)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.live.CutSlow()
	case r.Context().Err() != nil, errors.Is(err, io.EOF), errors.Is(err, live.ErrCut), errors.Is(err, record.ErrClosed):
		return nil
	}
	return err // breaks the connection
}

// follow sends what a stream tells until it ends.
func (s *Server) follow(ctx context.Context, out *eventWriter, stream *live.Stream) error {
	for {
		if err := out.flush(); err != nil {
			return err
		}
		event, err := stream.Next(ctx, s.config.Heartbeat)
		if err != nil {
			return err
		}
		out.event(event)
	}
}

// eventWriter writes events to a client that has to go on reading.
type eventWriter struct {
	to       http.ResponseWriter
	patience time.Duration
	buffer   bytes.Buffer
}

// event adds an event; a comment where nothing happened. Its data has no line breaks: it
// is JSON.
func (w *eventWriter) event(e live.Event) {
	if e.Type == "" {
		w.buffer.WriteString(":\n")
	}
	if e.ID != "" {
		fmt.Fprintf(&w.buffer, "id: %s\n", e.ID)
	}
	if e.Type != "" {
		fmt.Fprintf(&w.buffer, "event: %s\ndata: %s\n", e.Type, e.Data)
	}
	w.buffer.WriteByte('\n')
}

func (w *eventWriter) flush() error {
	control := http.NewResponseController(w.to)
	for w.buffer.Len() > 0 {
		// The server's own time-out is for answers that end.
		if err := control.SetWriteDeadline(time.Now().Add(w.patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("%w: %w", errGone, err)
		}
		if _, err := w.to.Write(w.buffer.Next(eventChunk)); err != nil {
			return fmt.Errorf("%w: %w", errGone, err)
		}
		if err := control.Flush(); err != nil {
			return fmt.Errorf("%w: %w", errGone, err)
		}
	}
	if w.buffer.Cap() > 1<<20 { // thousands of streams would keep what one event took
		w.buffer = bytes.Buffer{}
	}
	return nil
}

// planEventJSON is a root plan at a glance.
type planEventJSON struct {
	RootPlanID string        `json:"rootPlanId"`
	Kinds      []string      `json:"kinds"`
	Deleted    bool          `json:"deleted"`
	State      *record.State `json:"state"`
	Completed  bool          `json:"completed"`
	Project    *string       `json:"project"`
	Name       *string       `json:"name"`
	StartTime  *time.Time    `json:"startTime"`
	EndTime    *time.Time    `json:"endTime"`
	LastSeenAt *time.Time    `json:"lastSeenAt"`
	ErrorKind  *string       `json:"errorKind"`
	Steps      int64         `json:"steps"`
	Total      figuresJSON   `json:"total"`
}

func encodePlans(plans []live.Plan) ([]byte, error) {
	out := struct {
		Plans []planEventJSON `json:"plans"`
	}{make([]planEventJSON, len(plans))}
	for i := range plans {
		p := &plans[i]
		r := &p.Record
		out.Plans[i] = planEventJSON{
			RootPlanID: p.RootPlanID, Kinds: orEmpty(p.Kinds), Deleted: p.Deleted, State: r.State, Name: r.Name,
			StartTime: r.StartTime, EndTime: r.EndTime, LastSeenAt: r.LastSeenAt, ErrorKind: r.ErrorKind, Steps: p.Steps, Total: toFigures(&p.Total),
		}
		if !p.Deleted {
			out.Plans[i].Project, out.Plans[i].Completed = new(orDefault(r.Project, defaultProject)), r.State.Terminal()
		}
	}
	return appendJSON(nil, out)
}

func encodeRows(rootPlanID string, rows []store.Row) ([]byte, error) {
	list := make([]json.RawMessage, len(rows))
	for i := range rows {
		row, err := encodeRow(&rows[i])
		if err != nil {
			return nil, err
		}
		list[i] = row
	}
	return appendJSON(nil, struct {
		RootPlanID string            `json:"rootPlanId"`
		Rows       []json.RawMessage `json:"rows"`
	}{rootPlanID, list})
}

// stepEventJSON is what a step has beside what was told of it.
type stepEventJSON struct {
	CompletedThinkActStepsCount int64       `json:"completedThinkActStepsCount"`
	LatestMethodName            *string     `json:"latestMethodName"`
	LatestMethodArgs            *string     `json:"latestMethodArgs"`
	LatestRoundNumber           int64       `json:"latestRoundNumber"`
	Figures                     figuresJSON `json:"figures"`
}

// encodeRow writes a row as it stands: every field that records of its kind may have,
// null where unset, with the defaults that reads show; and what is derived.
func encodeRow(row *store.Row) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	kind := row.Record.Kind()
	fmt.Fprintf(&b, `{"kind":%q,"id":%d`, kind, row.ID)
	member := func(name string, v any) error {
		fmt.Fprintf(&b, `,%q:`, name)
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("encoding %s of %s: %w", name, kind, err)
		}
		b.Truncate(b.Len() - 1) // the encoder's newline
		return nil
	}
	switch r := row.Record.(type) { // its own copy
	case *record.Plan:
		r.Project = new(orDefault(r.Project, defaultProject))
	case *record.AgentExecution:
		r.Attempt = new(orDefault(r.Attempt, 1))
	case *record.ThinkAct:
		r.Attempt = new(orDefault(r.Attempt, 1))
	case *record.ActTool:
		r.Attempt, r.Inferred = new(orDefault(r.Attempt, 1)), new(orDefault(r.Inferred, false))
	case *record.Wait:
		r.Type, r.FormInputs = new(orDefault(r.Type, record.WaitUserInput)), form(r.FormInputs)
	}
	fields := record.Fields(kind)
	for i := range fields {
		f := &fields[i]
		if !shown(f) {
			continue
		}
		v := f.In(row.Record).Interface()
		switch list := v.(type) {
		case []string:
			v = orEmpty(list)
		case json.RawMessage:
			v = orNull(list)
		}
		if err := member(f.Name, v); err != nil {
			return nil, err
		}
	}
	if st := row.RollUps; st != nil {
		extra, err := appendJSON(nil, stepEventJSON{st.CompletedCycles, st.LatestToolName, st.LatestToolArgs, st.LatestRound, toFigures(&st.Figures)})
		if err != nil {
			return nil, err
		}
		b.WriteByte(',')
		b.Write(extra[1 : len(extra)-1])
	}
	if err := member("truncated", orEmpty(row.Truncated)); err != nil {
		return nil, err
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// shown tells whether events have a field.
func shown(f *record.Field) bool {
	return f.Told() && !slices.Contains([]string{"rev", "exception"}, f.Name) || f.Name == "inferred"
}
