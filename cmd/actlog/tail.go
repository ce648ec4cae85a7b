package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/view/words"
)

type tailCmd struct {
	Plan string `arg:"" optional:"" help:"Id of a plan, root or not. Default: all plans, with one line per change."`
	JSON bool   `help:"Print the events as JSON, one per line."`
	rootFlag
	serverFlags
}

const (
	// tailSilence is how long a stream may be silent before tail takes it for dead: three
	// heartbeats.
	tailSilence = 45 * time.Second
	// tailPatience is how long a server that answered before may be away.
	tailPatience = 2 * time.Minute
	// tailRedraw is the least time between two drawings of a tree.
	tailRedraw = 200 * time.Millisecond
	// maxEventBytes limits an event. One text has at most 4 MiB, a page of them more.
	maxEventBytes = 256 << 20
)

var errDeleted = errors.New("was deleted")

func (c *tailCmd) Run(ctx context.Context, e *env, client *client) error {
	if c.Plan == "" && c.Root != "" {
		return usageError(fmt.Sprintf("--root %s: chooses a tree for a plan, and no plan is named", c.Root))
	}
	if err := client.whole(ctx, &c.Plan, &c.Root); err != nil {
		return err
	}

	t := &tail{client: client, plan: c.Plan, root: c.rootFlag, shown: map[string]string{}}
	t.view = newView(e.stdout)
	switch {
	case c.JSON:
		t.show = func(event string, data json.RawMessage) error {
			return json.NewEncoder(e.stdout).Encode(tailEvent{t.cursor, event, data})
		}
	case c.Plan != "" && isTerminal(e.stdout):
		drawing := &drawing{w: terminal.Raw(e.stdout)}
		defer drawing.watch()()
		t.show = func(event string, _ json.RawMessage) error { return t.redraw(ctx, drawing, event) }
	default:
		t.show = t.printChanges
	}
	return t.follow(ctx)
}

type tailEvent struct {
	ID    string          `json:"id"`
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// tail follows a plan, or all plans.
type tail struct {
	client *client
	plan   string // empty: all
	root   rootFlag
	deltas bool   // whether to ask for the texts of answers while they arrive
	cursor string // the id of the last event
	show   func(event string, data json.RawMessage) error
	view   *view
	shown  map[string]string // the last line of each row and plan
	paced  paced
	drawn  time.Time
}

// follow reads streams until the plan has ended. Each stream continues where the last one
// broke. The error is the cause of ctx if that ends first.
func (t *tail) follow(ctx context.Context) error {
	var lastSeen time.Time // zero: the server never answered
	for attempt := 0; ; attempt++ {
		began, done, err := t.stream(ctx)
		switch {
		case done:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}

		if began {
			lastSeen, attempt = time.Now(), 0
		}
		busy := busyFor(err)
		if lastSeen.IsZero() && (busy == 0 || attempt > 10) || !lastSeen.IsZero() && time.Since(lastSeen) > tailPatience {
			return err
		}

		wait := cmp.Or(busy, min(5*time.Second, 250*time.Millisecond<<min(attempt, 5)))
		if !sleep(ctx, wait/2+rand.N(wait)) {
			return context.Cause(ctx)
		}
	}
}

// stream reads one stream. It reports whether the stream began, and whether tail is done:
// nothing more will come, or another attempt would not help.
func (t *tail) stream(ctx context.Context) (began, done bool, err error) {
	what, path := "follow all plans", "/api/v1/events"
	query := url.Values{}
	if t.plan != "" {
		what, path = named("plan", t.plan), planPath(t.plan)+"/events"
		query = t.root.query()
	}
	if t.cursor != "" {
		query.Set("after", t.cursor)
	}
	if t.deltas {
		query.Set("deltas", "true")
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	resp, err := t.client.open(ctx, what, http.MethodGet, withQuery(path, query), nil, nil)
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

// watchedReader restarts a timer at every read.
type watchedReader struct {
	io.Reader
	timer *time.Timer
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.timer.Reset(tailSilence)
	return n, err
}

// redraw draws the tree as it is after an event. It waits a little, so that one drawing shows
// the changes of several events.
func (t *tail) redraw(ctx context.Context, d *drawing, event string) error {
	last := event == "done"
	if !last && event != "rows" {
		return nil
	}
	if !sleep(ctx, tailRedraw-time.Since(t.drawn)) {
		return context.Cause(ctx)
	}

	p, err := t.client.plan(ctx, t.plan, t.root.query())
	switch {
	case err == nil:
		t.drawn = time.Now()
		d.draw(p, last)
	case last && !errors.Is(err, errNotOnRecord):
		return err
	}
	return nil // after other errors the stream continues, or reports the end
}

// tailRow is what tail reads of a row.
type tailRow struct {
	Kind, State, Status                                                                            string
	CurrentPlanID, PlanID, StepID, ToolCallID, WaitID, ThoughtID, SourceID, Name, Title, AgentName string
	Type, Content, URI, ErrorMessage, ModelName                                                    string
	Seq                                                                                            int64
	StartTime, EndTime, ThinkStartTime, ThinkEndTime                                               *time.Time
	InputTokens, OutputTokens                                                                      int64
	Figures                                                                                        figuresView
	Progress, FallbackFrom                                                                         json.RawMessage
	copied
}

// progress says how far a call at work has come; empty: it has not said.
func (r *tailRow) progress() string {
	if r.State != "RUNNING" {
		return ""
	}
	_, text := words.Progress(r.Progress)
	return text
}

// printChanges prints one line for each row or plan whose line has changed.
func (t *tail) printChanges(event string, data json.RawMessage) error {
	var changes struct {
		Rows  []tailRow
		Plans []planItem
	}
	if err := json.Unmarshal(data, &changes); err != nil {
		return fmt.Errorf("read event %s: %w", event, err)
	}

	v := t.view
	for i := range changes.Rows {
		r := &changes.Rows[i]
		progress := r.progress()
		if progress != "" && !t.paced.due(r.ToolCallID, time.Now()) {
			continue
		}

		name, parts := t.describe(r)
		if progress != "" {
			parts = append(parts, progress)
		}
		if of := v.copy(r.copied); of != "" {
			parts = append(parts, of)
		}
		t.print(name, append(parts, v.red(words.Shorten(r.ErrorMessage, 100)))...)
	}

	for _, p := range changes.Plans {
		if p.Deleted {
			t.print(words.Clean(p.RootPlanID), "deleted")
			continue
		}

		steps := ""
		if p.Steps > 0 {
			steps = words.Plural(p.Steps, "step")
		}
		t.print(words.Clean(p.RootPlanID), words.Clean(p.Name), v.planState(p.State, p.Placeholder), steps,
			v.figures(p.Total), v.red(words.Clean(p.ErrorKind)))
	}
	return v.err
}

// print prints a line about a row or plan, unless its last line was the same.
func (t *tail) print(name string, parts ...string) {
	line := strings.Join(parts, "  ")
	if t.shown[name] == line {
		return
	}
	if len(t.shown) > 100_000 { // after this, some lines are printed again
		clear(t.shown)
	}
	t.shown[name] = line
	t.view.line(time.Now().Format(time.TimeOnly)+"  ", append([]string{t.view.bold(name)}, parts...)...)
}

// describe returns the name of a row, and the parts of its line.
func (t *tail) describe(r *tailRow) (name string, parts []string) {
	state := t.view.state(r.State)
	switch r.Kind {
	case "plan":
		return "plan " + r.CurrentPlanID, []string{words.Shorten(r.Title, 70), state, words.Took(r.StartTime, r.EndTime)}
	case "agentExecution":
		return "step " + r.StepID, []string{words.Clean(r.AgentName), state, t.view.figures(r.Figures)}
	case "thinkAct":
		return "cycle " + strconv.FormatInt(r.Seq+1, 10) + " of step " + r.StepID, []string{
			words.Clean(r.ModelName), words.InPlaceOf(r.FallbackFrom), state, words.Took(r.ThinkStartTime, r.ThinkEndTime),
			words.Tokens(r.InputTokens, r.OutputTokens),
		}
	case "actTool":
		return "tool " + r.ToolCallID, []string{words.Clean(r.Name), state, words.Took(r.StartTime, r.EndTime)}
	case "thought":
		return "thought " + r.ThoughtID, []string{words.Clean(r.Type), words.Shorten(r.Content, 100)}
	case "artifact":
		return "artifact " + r.Name, []string{words.Clean(r.Type)}
	case "source":
		return "source " + r.SourceID, []string{words.Clean(r.Type), words.Shorten(r.URI, 100)}
	}

	return r.Kind + " " + r.WaitID, []string{words.Shorten(r.Title, 70), state}
}
