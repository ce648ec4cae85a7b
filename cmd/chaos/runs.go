//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/scriptmodel"
)

// The scenario runs: a server, worker processes, and runs of agents whose tools have effects. It kills
// and stops all of them, and compares each run with an undisturbed one of the same agent.

const (
	runWorkers = 3
	// lease is how long a worker's runs are its own, and stopsFor is longer.
	lease    = 3 * time.Second
	stopsMin = lease + 500*time.Millisecond
	stopsMax = 2 * lease
	// takenOverIn is the maximum time from the kill of a worker until its runs go on, takenOverMedian
	// that of half of them.
	takenOverIn     = 5 * time.Second
	takenOverMedian = 3 * time.Second
	// endsWithin is how long runs may take after the last fault.
	endsWithin = 3 * time.Minute
	runsAtOnce = 10
)

// house is what the scenario runs has.
type house struct {
	config  config
	out     io.Writer
	dir     string
	rand    *rand.Rand
	server  *driver // its server and its faults
	workers []*server
	model   *scriptmodel.Server
	db      *pgxpool.Pool
	effects string // the file of them

	mu         sync.Mutex
	runs       []*oneRun
	violations []string
	faults     map[string]int
	kills      []plainKill
	stopped    map[int]bool // workers that are stopped at the moment
	startedAgn int          // starts that were repeated
	conflicts  int          // decisions that were refused because there was one
	resumed    int          // runs that were paused and resumed
}

// oneRun is a run that the driver started.
type oneRun struct {
	kind                       kind
	key, planID, state, result string
}

// plainKill is a kill of a worker while nothing else was broken.
type plainKill struct {
	at   time.Time
	held map[string]int64 // the epochs of the runs that it held, by plan
}

func (h *house) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(h.out, format+"\n", args...)
}

func (h *house) violated(format string, args ...any) {
	v := fmt.Sprintf(format, args...)
	h.mu.Lock()
	h.violations = append(h.violations, v)
	h.mu.Unlock()
	h.say("VIOLATION: %s", v)
}

// agentRuns is the scenario. dir is an empty folder.
func (c config) agentRuns(ctx context.Context, dir string, out io.Writer) (violated bool, err error) {
	d, err := newDriver(c, dir, out)
	if err != nil {
		return false, err
	}
	h := &house{
		config: c, out: out, dir: dir, rand: d.rand, server: d, effects: filepath.Join(dir, "effects"),
		faults: map[string]int{}, stopped: map[int]bool{},
	}
	h.say("chaos: %d runs on %d workers, %d faults, seed %d, in %s", c.runs, runWorkers, c.kills, c.seed, dir)
	started := time.Now()
	if err := h.run(ctx); err != nil {
		return false, err
	}
	h.say("%-22s %s", "took", time.Since(started).Round(time.Second))
	return len(h.violations) > 0, nil
}

func (h *house) run(ctx context.Context) (err error) {
	if h.model, err = scriptmodel.Start(script(), nil); err != nil {
		return err
	}
	defer h.model.Close()
	configuration := filepath.Join(h.dir, "actlog.json")
	if err := writeConfiguration(configuration, h.model.URL(), h.server.self, h.effects); err != nil {
		return err
	}
	s := h.server.server
	s.more = []string{"--config", configuration, "--workers", "0"}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer func() {
		for _, w := range h.workers {
			if stopErr := w.stop(); stopErr != nil {
				h.violated("%v", stopErr)
			}
		}
		if h.db != nil {
			h.db.Close()
		}
		if stopErr := s.stop(); stopErr != nil {
			h.violated("%v", stopErr)
		}
		if h.server.proxy != nil {
			h.server.proxy.close()
		}
		h.server.http.CloseIdleConnections()
	}()
	if _, err := h.server.recovered(ctx, time.Now()); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	if h.server.proxy, err = newProxy(s.listen); err != nil {
		return err
	}
	if h.db, err = pgxpool.New(ctx, databaseURL(s.dataDir, "")); err != nil {
		return err
	}
	if _, err := h.db.Exec(ctx, audit); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	for n := range runWorkers {
		w := &server{
			binary: h.config.actlog, logFile: filepath.Join(h.dir, fmt.Sprintf("worker%d.log", n)), name: workerName(n),
			command: []string{"work", "--config", configuration, "--workers", "1", "--drain", "5s", "--database-url", databaseURL(s.dataDir, workerName(n))},
		}
		if err := w.start(ctx); err != nil {
			return err
		}
		h.workers = append(h.workers, w)
	}
	want, err := h.undisturbed(ctx)
	if err != nil {
		return err
	}
	if err := h.disturbed(ctx); err != nil {
		return err
	}
	return h.check(ctx, want)
}

func workerName(n int) string { return fmt.Sprintf("w%d", n) }

// databaseURL returns the address of the private Postgres. Its sessions tell the name to the audit.
func databaseURL(dataDir, name string) string {
	dir := filepath.Join(dataDir, "postgres")
	password, _ := os.ReadFile(filepath.Join(dir, "password")) // without one, Postgres refuses the connection
	sockets := filepath.Join(dir, "socket")
	q := url.Values{"host": {sockets}, "port": {"5432"}, "sslmode": {"disable"}}
	if name != "" {
		q.Set("options", "-c chaos.worker="+name)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", strings.TrimSpace(string(password))), Path: "/actlog", RawQuery: strings.ReplaceAll(q.Encode(), "+", "%20")}
	return u.String()
}

// undisturbed carries a run of each kind, and returns their outlines.
func (h *house) undisturbed(ctx context.Context) (want map[string]string, err error) {
	want = map[string]string{}
	runs := make([]*oneRun, len(kinds))
	var all sync.WaitGroup
	for i, kind := range kinds {
		runs[i] = &oneRun{key: "undisturbed-" + kind.name, kind: kind}
		all.Go(func() { h.follow(ctx, runs[i], plain) })
	}
	all.Wait()
	for _, r := range runs {
		if r.state != "COMPLETED" {
			return nil, fmt.Errorf("the undisturbed run %s of %s is %q: %s", r.planID, r.kind.name, r.state, r.result)
		}
		outline, err := h.outline(ctx, r.planID)
		if err != nil {
			return nil, err
		}
		if strings.Contains(outline, "UNKNOWN") || strings.Contains(outline, "FAILED") {
			return nil, fmt.Errorf("the undisturbed run %s of %s:\n%s", r.planID, r.kind.name, outline)
		}
		want[r.kind.name] = outline
	}
	h.runs = append(h.runs, runs...)
	h.say("     an undisturbed run of each of %s", strings.Join(slices.Sorted(maps.Keys(want)), ", "))
	return want, nil
}

// How a run is treated.
const (
	plain  = iota
	paused // it is paused and resumed
	twice  // it is started twice
)

// disturbed starts the runs while it injects the faults.
func (h *house) disturbed(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots := make(chan struct{}, runsAtOnce)
	var all sync.WaitGroup
	var over atomic.Bool // there are no more faults
	all.Go(func() {
		// Runs begin all the time until the last fault.
		for i := 0; i < h.config.runs || !over.Load(); i++ {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			r := &oneRun{key: fmt.Sprintf("run-%d", i), kind: kinds[i%len(kinds)]}
			h.mu.Lock()
			h.runs = append(h.runs, r)
			h.mu.Unlock()
			how := plain
			switch i / len(kinds) % 4 {
			case 1:
				how = paused
			case 2:
				how = twice
			}
			all.Go(func() {
				defer func() { <-slots }()
				h.follow(ctx, r, how)
			})
		}
	})
	err := h.breakThings(ctx)
	over.Store(true)
	if err != nil {
		cancel()
		all.Wait()
		return err
	}
	h.say("     no more faults: the runs come to their ends")
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(endsWithin):
		cancel()
		<-ended
		h.violated("not all runs have ended %s after the last fault", endsWithin)
	}
	return ctx.Err()
}

// call sends a request through the network until it has an answer below 500.
func (h *house) call(ctx context.Context, method, path, key string, in, out any) int {
	body, _ := json.Marshal(in) // texts and maps
	for ctx.Err() == nil {
		status, content, err := h.send(ctx, method, path, key, body)
		if err == nil && status < 500 {
			if out != nil && status < 300 && json.Unmarshal(content, out) != nil {
				h.violated("%s %s: %s", method, path, content)
			}
			if status >= 400 && status != http.StatusConflict {
				h.violated("%s %s: %d %s", method, path, status, content)
			}
			return status
		}
		pause(ctx, 200*time.Millisecond)
	}
	return 0
}

func (h *house) send(ctx context.Context, method, path, key string, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, h.server.proxy.url()+"/api/v1/runs"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := h.server.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return resp.StatusCode, content, err
}

type started struct{ PlanID string }

type runView struct {
	State  string
	Result json.RawMessage
	Error  *string
	Waits  []struct {
		WaitID, Type, State, ToolCallID string
		Decisions                       []string
		Parameters                      struct{ Item string }
	}
}

// follow starts a run, answers its waits, and follows it to its end.
func (h *house) follow(ctx context.Context, r *oneRun, how int) {
	start := func() string {
		var s started
		h.call(ctx, http.MethodPost, "", r.key, r.kind.request, &s)
		return s.PlanID
	}
	id := start()
	h.mu.Lock()
	r.planID = id
	h.mu.Unlock()
	if how == twice && ctx.Err() == nil {
		if again := start(); again != id && ctx.Err() == nil {
			h.violated("the start with key %s started %s, and then %s", r.key, id, again)
		}
		h.count(&h.startedAgn)
	}
	pauses := how == paused
	for ctx.Err() == nil {
		var v runView
		if h.call(ctx, http.MethodGet, "/"+id, "", nil, &v) != http.StatusOK {
			pause(ctx, 300*time.Millisecond)
			continue
		}
		if slices.Contains([]string{"COMPLETED", "FAILED", "CANCELLED", "INTERRUPTED"}, v.State) {
			h.mu.Lock()
			r.state = v.State
			r.result = string(v.Result)
			if v.Error != nil {
				r.result += " error: " + *v.Error
			}
			h.mu.Unlock()
			return
		}
		if pauses && v.State == "RUNNING" {
			pauses = false
			if h.call(ctx, http.MethodPost, "/"+id+"/pause", "", object{}, nil) < 300 {
				pause(ctx, time.Second)
				h.call(ctx, http.MethodPost, "/"+id+"/resume", "", object{}, nil)
				h.count(&h.resumed)
			}
		}
		for _, w := range v.Waits {
			if w.State != "WAITING" {
				continue
			}
			decision := object{"decision": "approve"}
			switch {
			case slices.Contains(w.Decisions, "retry"):
				decision = object{"decision": h.judge(w.ToolCallID)}
			case slices.Contains(w.Decisions, "accept"):
				decision = object{"decision": "accept"}
			case w.Type == "USER_INPUT":
				decision = object{"decision": "submit", "values": object{"city": city}}
			case w.Parameters.Item == refused:
				decision = object{"decision": "reject"}
			}
			path := "/" + id + "/waits/" + w.WaitID
			if h.call(ctx, http.MethodPost, path, "", decision, nil) == http.StatusOK {
				if status := h.call(ctx, http.MethodPost, path, "", decision, nil); status != http.StatusConflict && ctx.Err() == nil {
					h.violated("plan %s: wait %s was decided twice: %d", id, w.WaitID, status)
				}
				h.count(&h.conflicts)
			}
		}
		pause(ctx, 300*time.Millisecond)
	}
}

func (h *house) count(n *int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*n++
}

// judge looks whether a call took effect, as a human would.
func (h *house) judge(toolCallID string) string {
	all, err := readEffects(h.effects)
	if err != nil || all[toolCallID] != nil {
		return "done"
	}
	return "retry"
}

// report prints the table at the end.
func (h *house) report(rows [][2]any) {
	var b bytes.Buffer
	for _, row := range rows {
		fmt.Fprintf(&b, "%-22s %v\n", row[0], row[1])
	}
	h.say("\n%s", strings.TrimRight(b.String(), "\n"))
}

// errNoWorker says that all workers are stopped.
var errNoWorker = errors.New("all workers are stopped")

// worker returns a random one that is not stopped.
func (h *house) worker() (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.rand.Perm(len(h.workers)) {
		if !h.stopped[n] {
			return n, nil
		}
	}
	return 0, errNoWorker
}

// signalWorker sends a signal to a worker, which may just have been restarted.
func (h *house) signalWorker(n int, sig syscall.Signal) { _ = h.workers[n].signal(sig) }
