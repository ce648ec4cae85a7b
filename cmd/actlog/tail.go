package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tmaxmax/go-sse"
	"golang.org/x/term"
)

type tailCmd struct {
	Plan string `arg:"" optional:"" help:"Id of a plan, root or not. Default: all plans, a line for each change of one."`
	JSON bool   `help:"Print the events as JSON, one a line."`
	serverFlags
}

const (
	// tailSilence is how long a stream may be silent before it counts as dead: three
	// heartbeats.
	tailSilence = 45 * time.Second
	// tailPatience is how long a server that was there may be away.
	tailPatience = 2 * time.Minute
	// tailRedraw is how often a tree is drawn at most.
	tailRedraw = 200 * time.Millisecond
	// maxEventBytes bounds an event; a text has 4 MiB at most, a page of them more.
	maxEventBytes = 256 << 20
)

var errDeleted = errors.New("was deleted")

// Run implements the command.
func (c *tailCmd) Run(ctx context.Context, e *env) error {
	client, err := newClient(c.serverFlags)
	if err != nil {
		return err
	}
	t := &tail{client: client, plan: c.Plan, shown: map[string]string{}}
	t.view = &view{w: e.stdout, colour: hasColour(e.stdout), now: time.Now()}
	switch {
	case c.JSON:
		t.show = func(event string, data json.RawMessage) error {
			return json.NewEncoder(e.stdout).Encode(tailEvent{t.cursor, event, data})
		}
	case c.Plan != "" && isTerminal(e.stdout):
		drawing := newDrawing(e.stdout)
		t.show = func(event string, _ json.RawMessage) error { return t.redraw(ctx, drawing, event) }
	default:
		t.show = t.line
	}
	err = t.follow(ctx)
	if ctx.Err() != nil { // Ctrl-C is how one leaves
		err = nil
	}
	return err
}

// tailEvent is an event as JSON.
type tailEvent struct {
	ID    string          `json:"id"`
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// tail follows a plan, or all.
type tail struct {
	client *client
	plan   string // empty: all
	cursor string
	show   func(event string, data json.RawMessage) error
	view   *view
	shown  map[string]string // by row: the line that was last shown of it
	drawn  time.Time
}

// follow reads streams until the plan has ended, each from where the last one broke.
func (t *tail) follow(ctx context.Context) error {
	var there time.Time // when the server last was
	for attempt := 0; ; attempt++ {
		told, done, err := t.stream(ctx)
		if done || ctx.Err() != nil {
			return err
		}
		if told {
			there, attempt = time.Now(), 0
		}
		var busy *busyError
		wait := min(5*time.Second, 250*time.Millisecond<<min(attempt, 5))
		switch {
		case errors.As(err, &busy):
			wait = busy.after
		case err != nil && there.IsZero(): // it never was
			return err
		}
		if !there.IsZero() && time.Since(there) > tailPatience || there.IsZero() && attempt > 10 {
			return err
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)):
		case <-ctx.Done():
			return nil
		}
	}
}

// stream reads one stream. told: it began; done: there is nothing more to come, or no
// use in trying again.
func (t *tail) stream(ctx context.Context) (told, done bool, err error) {
	what, path := "following all plans", "/api/v1/events"
	if t.plan != "" {
		what, path = "plan "+t.plan, planPath(t.plan)+"/events"
	}
	if t.cursor != "" {
		path += "?after=" + url.QueryEscape(t.cursor)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := t.client.open(ctx, what, http.MethodGet, path)
	if err != nil {
		return false, errors.Is(err, errNotOnRecord), err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return true, true, nil
	}
	silent := time.AfterFunc(tailSilence, cancel)
	defer silent.Stop()
	for event, err := range sse.Read(&watchedReader{resp.Body, silent}, &sse.ReadConfig{MaxEventSize: maxEventBytes}) {
		if err != nil {
			return true, false, fmt.Errorf("%s: %w", what, err)
		}
		t.cursor = cmp.Or(event.LastEventID, t.cursor)
		if event.Type == "" {
			continue
		}
		if err := t.show(event.Type, json.RawMessage(event.Data)); err != nil {
			return true, true, err
		}
		switch event.Type {
		case "done":
			return true, true, nil
		case "deleted":
			return true, true, fmt.Errorf("%s %w", what, errDeleted)
		}
	}
	return true, false, nil
}

// watchedReader puts a timer off whenever something is read.
type watchedReader struct {
	io.Reader
	timer *time.Timer
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.timer.Reset(tailSilence)
	return n, err
}

// redraw draws the tree as it is, in place.
func (t *tail) redraw(ctx context.Context, d *drawing, event string) error {
	last := event == "done"
	if event == "deleted" || !last && event != "rows" {
		return nil
	}
	if wait := tailRedraw - time.Since(t.drawn); wait > 0 {
		select { // what comes meanwhile is in what is read then
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
	p, err := t.client.plan(ctx, t.plan)
	if errors.Is(err, errNotOnRecord) || err != nil && !last { // the stream tells, or goes on
		return nil
	}
	if err != nil {
		return err
	}
	t.drawn = time.Now()
	d.draw(p, last)
	return nil
}

// tailRow is what a line shows of a row.
type tailRow struct {
	Kind, State, Status                                                                            string
	CurrentPlanID, PlanID, StepID, ToolCallID, WaitID, ThoughtID, SourceID, Name, Title, AgentName string
	Type, Content, URI, ErrorMessage, ModelName                                                    string
	Seq                                                                                            int64
	StartTime, EndTime, ThinkStartTime, ThinkEndTime                                               *time.Time
	InputTokens, OutputTokens                                                                      int64
	Figures                                                                                        figuresView
}

// line prints a line for each thing that reads otherwise than before.
func (t *tail) line(event string, data json.RawMessage) error {
	var said struct {
		Rows  []tailRow
		Plans []struct {
			RootPlanID, State, Name, ErrorKind string
			Deleted                            bool
			Steps                              int64
			Total                              figuresView
		}
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return fmt.Errorf("reading event %s: %w", event, err)
	}
	v := t.view
	for i := range said.Rows {
		r := &said.Rows[i]
		name, parts := t.describe(r)
		t.tell(name, append(parts, v.red(shorten(r.ErrorMessage, 100)))...)
	}
	for _, p := range said.Plans {
		name, steps := clean(p.RootPlanID), ""
		if p.Steps > 0 {
			steps = plural(p.Steps, "step")
		}
		if p.Deleted {
			t.tell(name, "deleted")
			continue
		}
		t.tell(name, clean(p.Name), v.state(p.State), steps, v.figures(p.Total), v.red(clean(p.ErrorKind)))
	}
	return v.err
}

// tell prints a line of something, unless it was the last one of it.
func (t *tail) tell(name string, parts ...string) {
	line := strings.Join(parts, "  ")
	if t.shown[name] == line {
		return
	}
	if len(t.shown) > 100_000 { // then some are told twice
		clear(t.shown)
	}
	t.shown[name] = line
	t.view.line(time.Now().Format(time.TimeOnly)+"  ", append([]string{t.view.bold(name)}, parts...)...)
}

// describe names a row and says how it stands.
func (t *tail) describe(r *tailRow) (name string, parts []string) {
	v := t.view
	took := func(start, end *time.Time) string {
		if start == nil || end == nil {
			return ""
		}
		return duration(end.Sub(*start))
	}
	switch r.Kind {
	case "plan":
		return "plan " + r.CurrentPlanID, []string{shorten(r.Title, 70), v.state(r.State), took(r.StartTime, r.EndTime)}
	case "agentExecution":
		return "step " + r.StepID, []string{clean(r.AgentName), v.state(r.State), v.figures(r.Figures)}
	case "thinkAct":
		tokens := ""
		if r.InputTokens+r.OutputTokens > 0 {
			tokens = grouped(r.InputTokens) + " → " + grouped(r.OutputTokens) + " tokens"
		}
		return "cycle " + r.StepID + " #" + strconv.FormatInt(r.Seq, 10), []string{clean(r.ModelName), v.state(r.State), took(r.ThinkStartTime, r.ThinkEndTime), tokens}
	case "actTool":
		return "tool " + r.ToolCallID, []string{clean(r.Name), v.state(r.State), took(r.StartTime, r.EndTime)}
	case "thought":
		return "thought " + r.ThoughtID, []string{clean(r.Type), shorten(r.Content, 100)}
	case "artifact":
		return "artifact " + r.Name, []string{clean(r.Type)}
	case "source":
		return "source " + r.SourceID, []string{clean(r.Type), shorten(r.URI, 100)}
	}
	return r.Kind + " " + r.WaitID, []string{shorten(r.Title, 70), v.state(r.State)}
}

// drawing is a tree that is drawn again and again: in place where there is a terminal,
// else what is new of it.
type drawing struct {
	w        io.Writer
	terminal bool
	shown    string
	lines    int
}

func newDrawing(w io.Writer) *drawing { return &drawing{w: w, terminal: isTerminal(w)} }

// draw draws a tree as it stands. The last time it is drawn whole, however high it is.
func (d *drawing) draw(p *planView, last bool) {
	var b bytes.Buffer
	v := &view{w: &b, colour: hasColour(d.w), brief: !d.terminal && !last, now: time.Now()}
	v.plan(p)
	switch drawn := b.String(); {
	case d.terminal:
		if height := d.height(); !last && v.lines >= height {
			drawn, v.lines = bottom(drawn, height-1), height-1 // no way leads back to what left the screen
		}
		if drawn == d.shown {
			return
		}
		// Without wrapping, or long lines would count as more than one.
		fmt.Fprintf(d.w, "%s\x1b[?7l%s\x1b[?7h", strings.Repeat("\x1b[1A\x1b[2K", d.lines), drawn)
		d.shown, d.lines = drawn, v.lines
	case last:
		fmt.Fprintf(d.w, "\n%s", drawn)
	default: // what is new since the last look
		fmt.Fprint(d.w, newLines(d.shown, drawn))
		d.shown = drawn
	}
}

// height is that of the terminal, in lines.
func (d *drawing) height() int {
	if f, ok := d.w.(*os.File); ok {
		if _, height, err := term.GetSize(int(f.Fd())); err == nil && height > 1 {
			return height
		}
	}
	return 24
}

// bottom gives the last lines of a text.
func bottom(s string, lines int) string {
	all := strings.SplitAfter(strings.TrimSuffix(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "") + "\n"
}

// newLines gives the lines of a drawing that were not in the one before.
func newLines(before, now string) string {
	old := map[string]bool{}
	for line := range strings.Lines(before) {
		old[line] = true
	}
	var b strings.Builder
	for line := range strings.Lines(now) {
		if !old[line] {
			b.WriteString(line)
		}
	}
	return b.String()
}
