//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/embedpg"
	"github.com/actlog/actlog/internal/scriptmodel"
)

// fleet is the scenario of runs: a server, workers that are killed, and people who start runs and answer
// what they ask. At the end each run must have gone as one that nothing disturbed.
type fleet struct {
	*driver
	postgres *embedpg.Server
	model    *scriptmodel.Server
	people   *http.Client // through the proxy
	effects  string       // the file of the effects
	workers  []*server
	want     *trace // of a run that nothing disturbed

	mu                 sync.Mutex
	started            map[string]string // plans, by idempotency key
	open               map[string]bool   // plans that have not ended, as far as is known
	unknown, takeovers int
	twice              int // answers that somebody else had given before
	paused             int
	freezes            int
	order              []string        // of the faults of this turn
	takeover           []time.Duration // from the kill of a worker until another has taken a run over
}

// shownRun is what the server shows of a run.
type shownRun struct {
	PlanID, State, Result, Error string
	Takeovers                    int
	Waits                        []struct{ WaitID, Type string }
}

func (o *shownRun) ended() bool {
	return slices.Contains([]string{"COMPLETED", "FAILED", "CANCELLED"}, o.State)
}

// trace is what is on record of a plan.
type trace struct {
	ExecutionID, FinalState, Result string
	StepTraces                      []struct {
		State, Output string
		ToolCalls     []call
		SubTraces     []*trace
	}
}

type call struct {
	ToolCallID, Name, State, Result string
	Attempt                         int
}

// runsScenario runs the scenario in a folder.
func (c config) runsScenario(ctx context.Context, dir string, out io.Writer) (violated bool, err error) {
	d, err := newDriver(c, dir, out)
	if err != nil {
		return false, err
	}
	f := &fleet{
		driver: d, effects: filepath.Join(dir, "effects"), started: map[string]string{}, open: map[string]bool{},
		people: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 8}},
	}
	d.say("chaos: %d runs on %d workers, %d faults, seed %d, in %s", c.runs, c.workers, c.kills, c.seed, dir)
	err = errors.Join(f.play(ctx), f.stop())
	f.report()
	return len(f.violations) > 0, err
}

func (f *fleet) play(ctx context.Context) (err error) {
	if f.model, err = scriptmodel.Start(journey(100*time.Millisecond), nil); err != nil {
		return err
	}
	// Where a server with a private Postgres would have it, so that the faults find it.
	if f.postgres, err = embedpg.Start(ctx, embedpg.Config{Dir: filepath.Join(f.server.dataDir, "postgres")}); err != nil {
		return err
	}
	file := filepath.Join(f.dir, "actlog.yaml")
	if err := os.WriteFile(file, []byte(journeyConfig(f.model.URL(), f.self, f.effects)), 0o600); err != nil {
		return err
	}
	f.server.args = append(f.server.args, "--database-url", f.postgres.URL(), "--config", file, "--workers", "0")
	if err := f.server.start(ctx); err != nil {
		return err
	}
	if _, err := f.recovered(ctx, time.Now()); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	if f.proxy, err = newProxy(f.server.listen); err != nil {
		return err
	}
	for n := range f.config.workers {
		w := &server{binary: f.config.actlog, args: []string{"work", "--workers", "1", "--config", file, "--database-url", f.postgres.URL()}, logFile: filepath.Join(f.dir, fmt.Sprintf("worker%d.log", n))}
		if err := w.start(ctx); err != nil {
			return err
		}
		f.workers = append(f.workers, w)
	}
	people, leave := context.WithCancel(ctx)
	var answering sync.WaitGroup
	answering.Go(func() { f.answer(people) })
	defer func() { leave(); answering.Wait() }()
	if err := f.undisturbed(ctx); err != nil {
		return err
	}
	if err := f.disturb(ctx); err != nil {
		return err
	}
	f.say("     the runs come to their ends")
	if err := f.await(ctx, 2*time.Minute); err != nil {
		return err
	}
	return f.compare(ctx)
}

// stop stops all processes.
func (f *fleet) stop() error {
	for _, w := range f.workers {
		if err := w.stop(); err != nil {
			f.violated("%v", err)
		}
	}
	if f.server.over != nil {
		if err := f.server.stop(); err != nil && !strings.Contains(err.Error(), "left its postgres") { // it is ours
			f.violated("%v", err)
		}
	}
	if f.proxy != nil {
		f.proxy.close()
	}
	f.http.CloseIdleConnections()
	f.people.CloseIdleConnections()
	var err error
	if f.postgres != nil {
		ctx, cancel := context.WithTimeout(context.Background(), recoverWithin)
		defer cancel()
		err = f.postgres.Close(ctx)
	}
	if f.model != nil {
		err = errors.Join(err, f.model.Close())
	}
	return err
}

// undisturbed lets one run go through, which all others are compared with.
func (f *fleet) undisturbed(ctx context.Context) error {
	id, err := f.start(ctx, "undisturbed")
	if err != nil {
		return err
	}
	if err := f.await(ctx, time.Minute); err != nil {
		return fmt.Errorf("a run that nothing disturbs: %w", err)
	}
	if f.want, err = f.trace(ctx, id); err != nil {
		return err
	}
	if f.want.Result != "root(again b; {\"city\":\""+city+"\"}; child(deep(again e); again c); child(deep(again e); again c))" {
		return fmt.Errorf("a run that nothing disturbs answers: %s", f.want.Result)
	}
	return nil
}

// disturb starts runs, and injects faults while they go on.
func (f *fleet) disturb(ctx context.Context) error {
	end := time.Now().Add(f.config.duration)
	var starting sync.WaitGroup
	defer starting.Wait()
	next := 0
	for n := range f.config.kills {
		if time.Now().After(end) {
			f.say("the time is up after %d of %d faults", n, f.config.kills)
			break
		}
		for ; next*f.config.kills < (n+1)*f.config.runs; next++ {
			key := fmt.Sprintf("run-%d", next)
			starting.Go(func() {
				if _, err := f.start(ctx, key); err != nil && ctx.Err() == nil {
					f.say("%s: %v", key, err)
				}
			})
		}
		pause(ctx, f.between(f.config.between/4, f.config.between))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		name := f.nextFault(n)
		from := time.Now()
		what, err := runFaults[name](f, ctx)
		if err != nil {
			return fmt.Errorf("fault %d, %s: %w", n+1, name, err)
		}
		took, err := f.recovered(ctx, time.Now())
		if err != nil {
			f.violated("after fault %d, %s (%s): %v", n+1, name, what, err)
			return nil
		}
		f.recoveries = append(f.recoveries, took)
		f.say("%4d %-9s %s; %.2fs", n+1, name, what, time.Since(from).Seconds())
	}
	return nil
}

// nextFault returns the nth fault: all of them in turn, each turn in another order.
func (f *fleet) nextFault(n int) string {
	names := runFaultNames()
	if n%len(names) == 0 {
		f.rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		f.order = names
	}
	return f.order[n%len(names)]
}

// start starts a run, as often as it takes to hear of it.
func (f *fleet) start(ctx context.Context, key string) (id string, err error) {
	body := `{"executor":"agent","input":{"agent":"root","request":"This is ` + key + `."}}`
	for until := time.Now().Add(3 * time.Minute); ; {
		var o shownRun
		status, err := f.request(ctx, http.MethodPost, "/api/v1/runs", body, key, &o)
		if err == nil && status == http.StatusAccepted {
			f.mu.Lock()
			defer f.mu.Unlock()
			if before := f.started[key]; before != "" && before != o.PlanID {
				f.violated("%s was started as %s and as %s", key, before, o.PlanID)
			}
			f.started[key], f.open[o.PlanID] = o.PlanID, true
			return o.PlanID, nil
		}
		if ctx.Err() != nil || time.Now().After(until) {
			return "", fmt.Errorf("start a run: status %d: %w", status, err)
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// request sends a request through the proxy.
func (f *fleet) request(ctx context.Context, method, path, body, key string, to any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, f.proxy.url()+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := f.people.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode/100 == 2 {
		err = json.Unmarshal(content, to)
	}
	return resp.StatusCode, err
}

// answer looks at the open runs again and again, and answers what they ask. Some answers are given twice.
// Some runs are paused for a while.
func (f *fleet) answer(ctx context.Context) {
	for n := 0; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		for _, id := range f.openRuns() {
			var o shownRun
			if status, err := f.request(ctx, http.MethodGet, "/api/v1/runs/"+id, "", "", &o); err != nil || status != http.StatusOK {
				continue
			}
			if o.ended() {
				f.mu.Lock()
				delete(f.open, id)
				f.mu.Unlock()
			}
			for _, w := range o.Waits {
				decision := `{"decision":"approve","by":"chaos"}`
				if w.Type == "USER_INPUT" {
					decision = `{"decision":"submit","values":{"city":"` + city + `"},"by":"chaos"}`
				}
				if n++; n%7 == 0 {
					f.rest(ctx, id)
				}
				f.decide(ctx, id, w.WaitID, decision)
				if n%3 == 0 {
					f.decide(ctx, id, w.WaitID, decision)
				}
			}
		}
	}
}

func (f *fleet) decide(ctx context.Context, id, waitID, decision string) {
	var ignored struct{}
	if status, err := f.request(ctx, http.MethodPost, "/api/v1/runs/"+id+"/waits/"+waitID, decision, "", &ignored); err == nil && status == http.StatusConflict {
		f.mu.Lock()
		f.twice++
		f.mu.Unlock()
	}
}

// rest pauses a run and resumes it soon.
func (f *fleet) rest(ctx context.Context, id string) {
	var ignored struct{}
	if status, err := f.request(ctx, http.MethodPost, "/api/v1/runs/"+id+"/pause", "", "", &ignored); err != nil || status != http.StatusAccepted {
		return
	}
	f.mu.Lock()
	f.paused++
	f.mu.Unlock()
	go func() {
		for pause(ctx, time.Second); ctx.Err() == nil; pause(ctx, time.Second) {
			if status, err := f.request(ctx, http.MethodPost, "/api/v1/runs/"+id+"/resume", "", "", &ignored); err == nil && status < http.StatusInternalServerError {
				return
			}
		}
	}()
}

func (f *fleet) openRuns() (open []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.open {
		open = append(open, id)
	}
	return open
}

// await waits until all runs have ended.
func (f *fleet) await(ctx context.Context, patience time.Duration) error {
	until := time.Now().Add(patience)
	for len(f.openRuns()) > 0 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(until) {
			open := f.openRuns()
			slices.Sort(open)
			for _, id := range open[:min(len(open), 5)] {
				f.violated("run %s has not ended", id)
			}
			return fmt.Errorf("%d runs have not ended within %s", len(open), patience)
		}
		pause(ctx, 50*time.Millisecond)
	}
	return nil
}

func (f *fleet) trace(ctx context.Context, id string) (*trace, error) {
	t := &trace{}
	status, err := f.request(ctx, http.MethodGet, "/api/v1/runs/"+id+"/trace", "", "", t)
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("read the trace of %s: status %d: %w", id, status, err)
	}
	return t, nil
}

// compare compares all runs with the one that nothing disturbed, and their calls with the effects.
func (f *fleet) compare(ctx context.Context) error {
	done, err := readEffects(f.effects)
	if err != nil {
		return err
	}
	want := outline(f.want, nil)
	calls := map[string]call{}
	for _, id := range f.started {
		got, err := f.trace(ctx, id)
		if err != nil {
			return err
		}
		f.tally.plans++
		if text := outline(got, calls); text != want {
			f.violated("run %s went another way (-want +got):\n%s", id, difference(want, text))
		}
		var waits struct{ Items []struct{} }
		if status, err := f.request(ctx, http.MethodGet, "/api/v1/plans/"+id+"/waits", "", "", &waits); err != nil || status != http.StatusOK || len(waits.Items) != 2 {
			f.violated("run %s has %d waits, want 2 (status %d, %v)", id, len(waits.Items), status, err)
		}
	}
	f.checkEffects(calls, done)
	return f.nothingIsOpen(ctx)
}

// checkEffects compares the calls on record with what their tools did.
func (f *fleet) checkEffects(calls map[string]call, done effects) {
	for id, c := range calls {
		name, ofTools := strings.CutPrefix(c.Name, "tools-")
		begun, ended := done.begun[id], done.ended[id]
		switch f.tally.found++; {
		case !ofTools:
		case c.State == "COMPLETED" && ended == 0:
			f.violated("call %s of %s is COMPLETED and had no effect", id, name)
		case c.State == "UNKNOWN":
			f.unknown++
			if begun > 1 {
				f.violated("call %s of %s is UNKNOWN and began %d times", id, name, begun)
			}
		case name != "again" && begun > 1:
			f.violated("call %s of %s began %d times", id, name, begun)
		case begun > c.Attempt:
			f.violated("call %s of %s began %d times in %d attempts", id, name, begun, c.Attempt)
		}
	}
	for id := range done.begun {
		if _, known := calls[id]; !known {
			f.violated("call %s had an effect and is not on record", id)
		}
	}
}

// nothingIsOpen checks that the server knows of no run that goes on, and of no run that nobody started.
func (f *fleet) nothingIsOpen(ctx context.Context) error {
	resp, err := f.people.Get(f.server.url() + "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "actlog_runs_open{") {
			f.violated("after the end: %s", strings.TrimSpace(line))
		}
	}
	listed, cursor := 0, ""
	for first := true; first || cursor != ""; first = false {
		var page struct {
			Items      []shownRun
			NextCursor string
		}
		path := "/api/v1/runs?limit=100"
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		if status, err := f.request(ctx, http.MethodGet, path, "", "", &page); err != nil || status != http.StatusOK {
			return fmt.Errorf("list the runs: status %d: %w", status, err)
		}
		for _, o := range page.Items {
			f.takeovers += o.Takeovers
		}
		listed, cursor = listed+len(page.Items), page.NextCursor
	}
	if listed != len(f.started) {
		f.violated("%d runs were started, the server has %d", len(f.started), listed)
	}
	return nil
}

// outline says what is on record of a plan, without ids and times, and collects its calls. Calls whose
// outcome nobody knows count as those that are known: what a tool without retry may be.
func outline(t *trace, calls map[string]call) string {
	var b strings.Builder
	var write func(t *trace, indent string)
	write = func(t *trace, indent string) {
		fmt.Fprintf(&b, "%splan %s %q\n", indent, t.FinalState, t.Result)
		for _, s := range t.StepTraces {
			fmt.Fprintf(&b, "%s step %s %q\n", indent, s.State, s.Output)
			for _, c := range s.ToolCalls {
				if calls != nil {
					calls[c.ToolCallID] = c
				}
				if c.State == "UNKNOWN" && (c.Name == "tools-once" || c.Name == "tools-pay") {
					fmt.Fprintf(&b, "%s  %s\n", indent, c.Name)
				} else if strings.HasPrefix(c.Name, "tools-") {
					fmt.Fprintf(&b, "%s  %s", indent, c.Name)
					if c.State != "COMPLETED" || !strings.HasPrefix(c.Result, strings.TrimPrefix(c.Name, "tools-")+" ") {
						fmt.Fprintf(&b, " %s %q", c.State, c.Result)
					}
					b.WriteString("\n")
				} else {
					fmt.Fprintf(&b, "%s  %s %s %q\n", indent, c.Name, c.State, c.Result)
				}
			}
			for _, sub := range s.SubTraces {
				write(sub, indent+"    ")
			}
		}
	}
	write(t, "")
	return b.String()
}

// difference returns the lines of two texts from the first to the last that is not the same.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for len(w) > 0 && len(g) > 0 && w[0] == g[0] {
		w, g = w[1:], g[1:]
	}
	for len(w) > 0 && len(g) > 0 && w[len(w)-1] == g[len(g)-1] {
		w, g = w[:len(w)-1], g[:len(g)-1]
	}
	var b strings.Builder
	for _, line := range w {
		b.WriteString("-" + line + "\n")
	}
	for _, line := range g {
		b.WriteString("+" + line + "\n")
	}
	return b.String()
}

// report prints the table at the end.
func (f *fleet) report() {
	for _, exit := range f.server.unexpected() {
		f.violated("%s", exit)
	}
	for _, w := range f.workers {
		for _, exit := range w.unexpected() {
			f.violated("%s", exit)
		}
	}
	var b bytes.Buffer
	row := func(what string, value any) { fmt.Fprintf(&b, "%-26s %v\n", what, value) }
	row("faults", len(f.recoveries))
	row("runs", f.tally.plans)
	row("calls", f.tally.found)
	row("calls UNKNOWN", f.unknown)
	row("takeovers of root runs", f.takeovers)
	row("answers given twice", f.twice)
	row("pauses", f.paused)
	if n := len(f.takeover); n > 0 {
		slices.Sort(f.takeover)
		row("taken over after, median", f.takeover[n/2].Round(10*time.Millisecond))
		row("taken over after, p95", f.takeover[n*95/100].Round(10*time.Millisecond))
		row("taken over after, most", f.takeover[n-1].Round(10*time.Millisecond))
	}
	row("violations", len(f.violations))
	f.say("\n%s", strings.TrimRight(b.String(), "\n"))
}
