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

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// The scenario runs: a server, worker processes, and runs of agents whose tools have effects. It kills
// and stops all of them, and compares each run with an undisturbed one of the same agent.

const (
	runWorkers = 3
	// lease is how long a worker's runs are its own. A stop is longer.
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

// house is what runs of agents need, beside the servers.
type house struct {
	config  config
	dir     string
	rand    *rand.Rand
	server  *driver // the servers and their faults
	kinds   []kind
	atOnce  int // runs
	workers []*server
	model   *scriptmodel.Server
	gate    *modelGate  // before the model
	ways    []treatment // of runs
	db      *pgxpool.Pool
	// configuration and effects are files.
	configuration, effects string
	want                   map[string]string                        // the outlines of undisturbed runs, by kind
	watch                  func(ctx context.Context, planID string) // sees every run; nil for nobody

	mu         sync.Mutex
	runs       []*oneRun
	faults     map[string]int
	kills      []plainKill
	stopped    map[int]bool // workers that are stopped at the moment
	startedAgn int          // starts that were repeated
	conflicts  int          // decisions that were refused because there was one
	resumed    int          // runs that were paused and resumed
	retried    int          // runs that were stopped and retried
}

// oneRun is a run that the driver started.
type oneRun struct {
	kind                       kind
	key, planID, state, result string
	about                      string   // its events and messages name it
	said                       []string // the messages that it accepted

	// If it is a fork: its original, and the row of that from which it goes on.
	of *oneRun
	at string
}

// answer returns the result of a run that is a text.
func (r *oneRun) answer() (text string) {
	_ = json.Unmarshal([]byte(r.result), &text) // which is empty then
	return text
}

// plainKill is a kill of a worker while nothing else was broken.
type plainKill struct {
	at   time.Time
	held map[string]int64 // the epochs of the runs that it held, by plan
}

func (h *house) say(format string, args ...any)      { h.server.say(format, args...) }
func (h *house) violated(format string, args ...any) { h.server.violated(format, args...) }

// agentRuns is the scenario. dir is an empty folder.
func (c config) agentRuns(ctx context.Context, dir string, out io.Writer) (violated bool, err error) {
	d, err := newDriver(c, dir, out)
	if err != nil {
		return false, err
	}
	d.say("chaos: %d runs on %d workers, %d faults, seed %d, in %s", c.runs, runWorkers, c.kills, c.seed, dir)

	began := time.Now()
	h, err := d.newHouse(runsAtOnce)
	if err != nil {
		return false, err
	}
	h.ways = append(h.ways, forked)
	if err := h.run(ctx); err != nil {
		return false, err
	}

	d.say("%-22s %s", "took", time.Since(began).Round(time.Second))
	d.repeat()
	return len(d.violations) > 0, nil
}

// newHouse prepares for runs on the servers of the driver, which must not have been started. close ends it.
func (d *driver) newHouse(atOnce int) (*house, error) {
	gate := new(modelGate)
	model, err := scriptmodel.Start(script(), &scriptmodel.Options{Around: gate.around})
	if err != nil {
		return nil, err
	}

	h := &house{
		config: d.config, dir: d.dir, rand: d.rand, server: d, kinds: d.config.kinds, atOnce: atOnce, model: model,
		gate: gate, ways: []treatment{plain, paused, twice, halted},
		configuration: filepath.Join(d.dir, "actlog.json"), effects: filepath.Join(d.dir, "effects"),
		want: map[string]string{}, faults: map[string]int{}, stopped: map[int]bool{},
	}

	for _, s := range d.servers() {
		s.more = []string{"--config", h.configuration, "--workers", "0"}
	}
	if err := writeConfiguration(h.configuration, model.URL(), d.self, h.effects); err != nil {
		model.Close()
		return nil, err
	}
	return h, nil
}

// staff starts workers, once the servers are there. db is the address of the database, and flags returns those that
// lead a worker there, by its name.
func (h *house) staff(ctx context.Context, workers int, db string, flags func(name string) []string) (err error) {
	if h.db, err = pgxpool.New(ctx, db); err != nil {
		return err
	}
	if _, err := h.db.Exec(ctx, audit); err != nil {
		return fmt.Errorf("audit: %w", err)
	}

	for n := range workers {
		name := workerName(n)
		w := &server{
			binary: h.config.actlog, logFile: filepath.Join(h.dir, fmt.Sprintf("worker%d.log", n)), name: name,
			command: append([]string{"work", "--config", h.configuration, "--workers", "1", "--drain", "5s"}, flags(name)...),
		}
		if err := w.start(ctx); err != nil {
			return err
		}
		h.workers = append(h.workers, w)
	}
	return nil
}

func (h *house) close() {
	for _, w := range h.workers {
		if err := w.stop(); err != nil {
			h.violated("%v", err)
		}
	}
	if h.db != nil {
		h.db.Close()
	}
	h.model.Close()
}

func (h *house) run(ctx context.Context) (err error) {
	s := h.server.server
	defer func() {
		h.close()
		if stopErr := s.stop(); stopErr != nil {
			h.violated("%v", stopErr)
		}
		if h.server.proxy != nil {
			h.server.proxy.close()
		}
		h.server.http.CloseIdleConnections()
	}()

	if err := s.start(ctx); err != nil {
		return err
	}
	if _, err := h.server.recovered(ctx, time.Now()); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	if h.server.proxy, err = newProxy(anyPort, s.listen); err != nil {
		return err
	}

	if err := h.staff(ctx, runWorkers, databaseURL(s.dataDir, ""), func(name string) []string {
		return []string{"--database-url", databaseURL(s.dataDir, name)}
	}); err != nil {
		return err
	}
	if err := h.undisturbed(ctx, slices.Concat(h.kinds, scheduledKinds())); err != nil {
		return err
	}

	h.startSchedules(ctx)
	if err := h.disturbed(ctx, h.config.runs, h.breakThings); err != nil {
		return err
	}
	if err := h.endSchedules(ctx); err != nil {
		return err
	}

	for _, exit := range s.unexpected() {
		h.violated("%s", exit)
	}
	total := 0
	var each []string
	for _, f := range runFaults() {
		total += h.faults[f.name]
		each = append(each, fmt.Sprintf("%s %d", f.name, h.faults[f.name]))
	}

	refused, err := refusals(filepath.Join(s.dataDir, "postgres", "postgres.log"))
	if err != nil {
		return err
	}

	var rows [][2]any
	for _, check := range []func(context.Context) ([][2]any, error){
		h.check, h.checkForks, h.checkEvents, h.checkMessages, h.checkTicks, h.checkModel,
	} {
		more, err := check(ctx)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}

	h.report(slices.Concat([][2]any{
		{"faults", fmt.Sprintf("%d: %s", total, strings.Join(each, ", "))}, {"writes refused", refused},
	}, rows, [][2]any{{"violations", len(h.server.violations)}}))
	return nil
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
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", strings.TrimSpace(string(password))), Path: "/actlog",
		RawQuery: strings.ReplaceAll(q.Encode(), "+", "%20"),
	}
	return u.String()
}

// undisturbed carries a run of each of some kinds, and keeps their outlines.
func (h *house) undisturbed(ctx context.Context, kinds []kind) error {
	runs := make([]*oneRun, len(kinds))
	var all sync.WaitGroup
	for i, kind := range kinds {
		runs[i] = newRun("undisturbed-"+kind.name, kind)
		all.Go(func() { h.follow(ctx, runs[i], plain) })
	}
	all.Wait()

	for _, r := range runs {
		if r.state != "COMPLETED" {
			return fmt.Errorf("the undisturbed run %s of %s is %q: %s", r.planID, r.kind.name, r.state, r.result)
		}

		outline, err := h.outline(ctx, r)
		if err != nil {
			return err
		}
		if strings.Contains(outline, "UNKNOWN") || strings.Contains(outline, "FAILED") {
			return fmt.Errorf("the undisturbed run %s of %s:\n%s", r.planID, r.kind.name, outline)
		}
		h.want[r.kind.name] = outline
	}

	h.runs = append(h.runs, runs...)
	h.say("     an undisturbed run of each of %s", strings.Join(slices.Sorted(maps.Keys(h.want)), ", "))
	return nil
}

// newRun returns a run of which the start has a key.
func newRun(key string, k kind) *oneRun { return &oneRun{kind: k, key: key, about: key} }

// add keeps a run, which is compared at the end.
func (h *house) add(r *oneRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = append(h.runs, r)
}

// treatment is what is done to a run.
type treatment int

const (
	plain  treatment = iota
	paused           // it is paused and resumed
	twice            // it is started twice
	halted           // it is stopped, and retried
	forked           // another run goes on from a row of it
)

// disturbed starts a number of runs at least, while breakThings injects the faults.
func (h *house) disturbed(ctx context.Context, runs int, breakThings func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	slots := make(chan struct{}, h.atOnce)
	var all sync.WaitGroup
	var over atomic.Bool // there are no more faults
	all.Go(func() {
		// Runs begin all the time until the last fault.
		for i := 0; i < runs || !over.Load(); i++ {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}

			which, round := i%len(h.kinds), i/len(h.kinds)
			r := newRun(fmt.Sprintf("run-%d", i), h.kinds[which])
			h.add(r)
			how := h.ways[(which+round)%len(h.ways)] // each kind is treated in each way
			all.Go(func() {
				defer func() { <-slots }()
				h.follow(ctx, r, how)
			})
		}
	})

	err := breakThings(ctx)
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

// call sends a request to one server after the other, until it has an answer below 500.
func (h *house) call(ctx context.Context, method, path, key string, in, out any) int {
	body, _ := json.Marshal(in) // texts and maps
	servers := h.server.urls()
	for try := len(path) + len(key); ctx.Err() == nil; try++ { // each is the first sometimes
		status, content, err := h.send(ctx, method, servers[try%len(servers)]+"/api/v1"+path, key, body)
		if err == nil && status < 500 {
			if out != nil && status < 300 && json.Unmarshal(content, out) != nil {
				h.violated("%s %s: %s", method, path, content)
			}
			gone := status == http.StatusNotFound && strings.Contains(path, "/waits/") // see checkGone
			if status >= 400 && status != http.StatusConflict && !gone {
				h.violated("%s %s: %d %s", method, path, status, content)
			}
			return status
		}

		pause(ctx, 200*time.Millisecond)
	}
	return 0
}

func (h *house) send(ctx context.Context, method, url, key string, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()

	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
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

// follow starts a run, and follows it to its end.
func (h *house) follow(ctx context.Context, r *oneRun, how treatment) {
	start := func() string {
		var s started
		h.call(ctx, http.MethodPost, "/runs", r.key, r.kind.body(r.about), &s)
		return s.PlanID
	}
	id := start()
	h.mu.Lock()
	r.planID = id
	h.mu.Unlock()

	if h.watch != nil && id != "" {
		var watching sync.WaitGroup
		watching.Go(func() { h.watch(ctx, id) })
		defer watching.Wait()
	}
	if how == twice && ctx.Err() == nil {
		if again := start(); again != id && ctx.Err() == nil {
			h.violated("the start with key %s started %s, and then %s", r.key, id, again)
		}
		h.count(&h.startedAgn)
	}

	if r.kind.beside != nil && id != "" {
		var beside sync.WaitGroup
		beside.Go(func() { r.kind.beside(h, ctx, r) })
		defer beside.Wait()
	}
	h.toItsEnd(ctx, r, how)
	if how == forked && r.state == "COMPLETED" {
		h.fork(ctx, r)
	}
}

// toItsEnd answers the waits of a run, and follows it to its end.
func (h *house) toItsEnd(ctx context.Context, r *oneRun, how treatment) {
	id := r.planID
	pauses, halts := how == paused, how == halted
	for ctx.Err() == nil {
		var v runView
		if h.call(ctx, http.MethodGet, "/runs/"+id, "", nil, &v) != http.StatusOK {
			pause(ctx, 300*time.Millisecond)
			continue
		}

		if v.State == "CANCELLED" && how == halted && !halts { // a lost answer is asked for again, with the same key
			if h.call(ctx, http.MethodPost, "/runs/"+id+"/retry", r.key+"-retry", object{}, nil) == http.StatusAccepted {
				how = plain
				h.count(&h.retried)
			}
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
			if h.call(ctx, http.MethodPost, "/runs/"+id+"/pause", "", object{}, nil) < 300 {
				pause(ctx, time.Second)
				h.call(ctx, http.MethodPost, "/runs/"+id+"/resume", "", object{}, nil)
				h.count(&h.resumed)
			}
		}

		if halts && v.State != "PENDING" {
			halts = false
			h.call(ctx, http.MethodPost, "/runs/"+id+"/stop", "", object{}, nil)
			continue
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

			path := "/runs/" + id + "/waits/" + w.WaitID
			switch h.call(ctx, http.MethodPost, path, "", decision, nil) {
			case http.StatusNotFound:
				h.checkGone(ctx, id, w.WaitID)
			case http.StatusOK:
				if status := h.call(ctx, http.MethodPost, path, "", decision, nil); status != http.StatusConflict &&
					ctx.Err() == nil {
					h.violated("plan %s: wait %s was decided twice: %d", id, w.WaitID, status)
				}
				h.count(&h.conflicts)
			}
		}

		pause(ctx, 300*time.Millisecond)
	}
}

// checkGone checks a wait that was read and cannot be decided, because it is not on record. A primary that is being
// replaced shows what its standby never got, once the writer of that is gone; then no other server shows the wait.
func (h *house) checkGone(ctx context.Context, id, waitID string) {
	var v runView
	if h.call(ctx, http.MethodGet, "/runs/"+id, "", nil, &v) != http.StatusOK {
		return
	}
	for _, w := range v.Waits {
		if w.WaitID == waitID {
			h.violated("plan %s: wait %s is shown, and cannot be decided: it is not on record", id, waitID)
		}
	}
}

// pick returns a number below n that follows from the seed and a key.
func (h *house) pick(key string, n int) int { return pick(fmt.Sprintf("%d %s", h.config.seed, key), n) }

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
