//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
	"github.com/actlog/actlog/recorder/spool"
)

// beClient is an environment variable that turns this program into a client: "name mode writers rate
// url folder". It writes until its standard input ends, which also happens if the driver exits.
const beClient = "ACTLOG_CHAOS_CLIENT"

const (
	// deliverFor is how long a client tries to finish what it started.
	deliverFor = 90 * time.Second
	clockFile  = "clock"
	clockEvery = 50 * time.Millisecond
)

// client is one process that records runs, like an agent.
type client struct {
	name    string
	mode    mode
	rec     *recorder.Recorder
	ledger  *pen
	clock   atomic.Int64 // offset that is added to the time, in nanoseconds
	stopped chan struct{}
	buffer  interface { // nil in direct mode
		Flush(ctx context.Context) error
		Close(ctx context.Context) error
	}
}

// runClient is the whole client process. It returns the exit code.
func runClient(ctx context.Context, spec string, stdin io.Reader, stderr io.Writer) int {
	words := strings.SplitN(spec, " ", 6) // the folder may contain spaces
	if len(words) < 6 {
		fmt.Fprintf(stderr, "chaos client: read %q: want six words\n", spec)
		return exitUsage
	}

	writers, err := strconv.Atoi(words[2])
	rate, err2 := strconv.Atoi(words[3])
	if err := errors.Join(err, err2); err != nil {
		fmt.Fprintf(stderr, "chaos client: read %q: %v\n", spec, err)
		return exitUsage
	}

	c := &client{name: words[0], mode: mode(words[1][0]), stopped: make(chan struct{})}
	if err := c.live(ctx, writers, rate, words[4], words[5], stdin); err != nil {
		fmt.Fprintf(stderr, "chaos client %s: %v\n", c.name, err)
		return exitViolated
	}
	return exitDone
}

func (c *client) live(ctx context.Context, writers, rate int, url, dir string, stdin io.Reader) (err error) {
	if c.ledger, err = openPen((&ledger{dir: dir}).file(c.name)); err != nil {
		return err
	}
	sink, err := c.sink(url, dir)
	if err != nil {
		return err
	}

	c.rec = recorder.New(sink, recorder.Options{Project: "chaos", Clock: func() time.Time {
		return time.Now().Add(time.Duration(c.clock.Load()))
	}})
	c.followClock(filepath.Join(dir, clockFile))
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		close(c.stopped)
	}()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // finish the started runs, but not for ever
		<-c.stopped
		pause(ctx, deliverFor)
		cancel()
	}()

	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := 0; !c.stopping() && ctx.Err() == nil; n++ {
				next := time.Now().Add(time.Duration(writers) * time.Second / time.Duration(rate))
				c.run(ctx, fmt.Sprintf("%c-%s-w%d-n%d", c.mode, c.name, w, n))
				pause(ctx, time.Until(next))
			}
		})
	}

	wg.Wait()
	if c.buffer != nil {
		return c.buffer.Close(ctx)
	}
	return ctx.Err()
}

// sink returns the sink of the client: the server, directly or through a buffer or a spool.
func (c *client) sink(url, dir string) (recorder.Sink, error) {
	server, err := recorder.NewHTTP(url, recorder.HTTPOptions{Client: &http.Client{
		Timeout: recorder.HTTPTimeoutDefault,
		Transport: &watch{
			next: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 10 * time.Second}, ledger: c.ledger,
		},
	}})
	if err != nil {
		return nil, err
	}

	options := recorder.BufferOptions{OnReject: func(ch record.Change, err *record.InvalidError) {
		c.ledger.note(markProblem, ch.Key().Root, "a record was rejected: "+err.Error())
	}}
	switch c.mode {
	case modeBuffer:
		b := recorder.NewBuffer(server, options)
		c.buffer = b
		return b, nil
	case modeSpool:
		// All lives of a client use the same folder: one life sends what the life before left.
		place, _, _ := strings.Cut(c.name, "-")
		s, err := spool.Open(filepath.Join(dir, place+".spool"), server, spool.Options{Buffer: options})
		if err != nil {
			return nil, err
		}
		c.buffer = s
		return s, nil
	}
	return server, nil
}

// watch checks the answers of the server: it must accept the records or say when to retry. A failed
// connection or another network error is not a wrong answer.
type watch struct {
	next   http.RoundTripper
	ledger *pen
}

func (w *watch) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if problem := wrongAnswer(resp); problem != "" {
		w.ledger.note(markProblem, "-", problem)
	}
	return resp, nil
}

// wrongAnswer returns what is wrong with an answer to good records, or "".
func wrongAnswer(resp *http.Response) string {
	switch resp.StatusCode {
	case http.StatusOK:
		return ""
	case http.StatusServiceUnavailable:
		if resp.Header.Get("Retry-After") == "" {
			return "503 without Retry-After"
		}
		return ""
	}
	return "answered " + resp.Status
}

// followClock keeps reading the clock offset that the driver writes, in nanoseconds.
func (c *client) followClock(path string) {
	read := func() {
		if content, err := os.ReadFile(path); err == nil {
			if shift, err := strconv.ParseInt(string(content), 10, 64); err == nil {
				c.clock.Store(shift)
			}
		}
	}

	read()
	go func() {
		for tick := time.NewTicker(clockEvery); ; {
			select {
			case <-c.stopped:
				tick.Stop()
				return
			case <-tick.C:
				read()
			}
		}
	}()
}

func (c *client) stopping() bool {
	select {
	case <-c.stopped:
		return true
	default:
		return false
	}
}

// run records one root plan from start to end.
func (c *client) run(ctx context.Context, id string) {
	l := &life{client: c, plan: id}
	l.record(ctx, id)
	if c.mode != modeBuffer {
		return
	}

	for ctx.Err() == nil {
		if err := c.buffer.Flush(ctx); err == nil {
			for _, item := range l.items {
				c.ledger.note(markAcked, id, item)
			}
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// life records one root plan.
type life struct {
	client *client
	plan   string
	items  []string
}

// begin makes a call that starts something. If it fails, the handle sends the record later.
func (l *life) begin(item string, call func() error) {
	l.client.ledger.note(markIntent, l.plan, item)
	l.items = append(l.items, item)
	l.settle(item, call())
}

// end makes a call that ends something, until it succeeds.
func (l *life) end(ctx context.Context, item string, call func() error) {
	l.client.ledger.note(markIntent, l.plan, item)
	l.items = append(l.items, item)
	for !l.settle(item, call()) {
		if ctx.Err() != nil {
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// settle notes the result of a call. The only allowed error is that the record is unavailable.
func (l *life) settle(item string, err error) bool {
	c := l.client
	switch {
	case err != nil:
		if !errors.Is(err, record.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) &&
			!errors.Is(err, context.Canceled) {
			c.ledger.note(markProblem, l.plan, err.Error())
		}
	case c.mode == modeDirect:
		c.ledger.note(markAcked, l.plan, item)
	case c.mode == modeSpool:
		c.ledger.note(markSpooled, l.plan, item)
	}
	return err == nil
}

func (l *life) record(ctx context.Context, id string) {
	info := recorder.PlanInfo{ID: id, Title: text("title", id), UserRequest: text("request", id), Name: "chaos"}
	for s := range stepCount(id) {
		step := stepID(id, s)
		info.Steps = append(info.Steps, recorder.StepInfo{ID: step, AgentName: "agent", AgentRequest: text("request", step)})
	}

	var plan *recorder.Plan
	var err error
	l.begin(id, func() error { ctx, plan, err = l.client.rec.StartPlan(ctx, info); return err })
	for _, step := range plan.Steps() {
		l.step(ctx, id, step)
	}
	l.end(ctx, endOf(id), func() error { return plan.End(ctx, recorder.PlanResult{Summary: text("summary", id)}) })
}

func (l *life) step(ctx context.Context, plan string, step *recorder.Step) {
	id := step.ID()
	l.begin(id, func() (err error) { ctx, err = step.Start(ctx); return err })
	for n := range cycleCount(id) {
		l.cycle(ctx, step, cycleID(id, n), hasSub(plan) && id == stepID(plan, 0) && n == 0)
	}
	l.end(ctx, endOf(id), func() error { return step.End(ctx, recorder.StepResult{Result: text("result", id)}) })
}

func (l *life) cycle(ctx context.Context, step *recorder.Step, id string, withSub bool) {
	var cycle *recorder.Cycle
	l.begin(id, func() (err error) {
		cycle, err = step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: text(input, id), Model: "m"})
		return err
	})

	result := recorder.ThinkResult{
		Output: text("output", id), InputTokens: tokens("in", id), OutputTokens: tokens("out", id),
	}
	for t := range toolCount(id) {
		tool := toolCallID(id, t)
		result.Tools = append(result.Tools, recorder.ToolInfo{ID: tool, Name: "tool", Parameters: text("parameters", tool)})
	}
	l.end(ctx, thinkOf(id), func() error { return cycle.EndThink(ctx, result) })

	for n, call := range cycle.Tools() {
		toolCtx := ctx
		l.begin(call.ID(), func() (err error) { toolCtx, err = call.Start(ctx); return err })
		if withSub && n == 0 {
			l.record(toolCtx, l.plan+subSuffix)
		}
		l.end(ctx, endOf(call.ID()), func() error {
			return call.End(toolCtx, recorder.ToolResult{Result: text("result", call.ID())})
		})
	}

	l.end(ctx, endOf(id), func() error {
		return cycle.End(ctx, recorder.CycleResult{ActionResult: text("action", id)})
	})
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
