package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

const (
	liveClients = 500
	livePlans   = 50
	liveOnAll   = 5
	// liveEvery is the interval at which a cycle is written to each plan.
	liveEvery = 250 * time.Millisecond
	// liveRuns is the number of other runs that are written. At half the rate this takes seconds.
	liveRuns = 4_000
)

// measureLive writes at half the rate that it measured just before, while clients follow plans to
// which cycles are written. It measures the time from a commit until each client has read of it.
func measureLive(ctx context.Context, b *bench) (figures []figure, err error) {
	srv, err := b.served(ctx, "live")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()
	s, server := srv.store, srv.url

	runs := b.n(liveRuns, clients)
	full, err := b.load(ctx, s, runs, 0)
	if err != nil {
		return nil, err
	}

	var p50, p95, all50, all95 []float64
	var seen int
	var rate []float64
	for turn := range b.repeats + 1 {
		w, err := b.watch(ctx, s, server)
		if err != nil {
			return nil, err
		}

		written := make(chan error, 1)
		writing, done := context.WithCancel(ctx)
		go func() { written <- w.writeCycles(writing, b.text, s) }()
		took, err := b.load(ctx, s, runs, 2*full)
		done()
		if err = errors.Join(err, <-written, w.end(ctx)); err != nil {
			return nil, err
		}

		if turn == 0 {
			continue
		}

		ofOne, ofAll := w.latencies()
		seen, rate = seen+len(ofOne)+len(ofAll), append(rate, float64(runs*rowsOfRun)/took.Seconds())
		p50, p95 = append(p50, percentile(ofOne, 0.5)), append(p95, percentile(ofOne, 0.95))
		all50, all95 = append(all50, percentile(ofAll, 0.5)), append(all95, percentile(ofAll, 0.95))
	}

	return []figure{
		alone("commit to client, of one plan, p95", "ms", p95, atMost(250)).noted("%d clients on %d plans, %d on all; %s "+
			"of %s rows/s; %d times a client read of a cycle",
			b.n(liveClients, livePlans/10), b.n(livePlans, 5), liveOnAll, digits(valueOf(rate).Median),
			digits(float64(runs*rowsOfRun)/full.Seconds()), seen),
		alone("the same, p50", "ms", p50, nil),
		alone("commit to client, of all plans, p95", "ms", all95, atMost(250)),
		alone("the same, p50", "ms", all50, nil),
	}, nil
}

// percentile returns a percentile of sorted values, or 0 if there are none.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// load writes runs from all clients, spread over the time within, or as fast as possible if that is 0.
func (b *bench) load(
	ctx context.Context, s *store.Store, runs int, within time.Duration,
) (took time.Duration, err error) {
	batches, err := b.batches(ctx, runs, batchRecords, b.text.whole)
	if err != nil {
		return 0, err
	}

	start := time.Now()
	err = concurrently(clients, func(i int) error {
		for n, batch := range batches[i] {
			if err := until(ctx, start.Add(within*time.Duration(n)/time.Duration(len(batches[i])))); err != nil {
				return err
			}
			if err := write(ctx, s, batch); err != nil {
				return err
			}
		}
		return until(ctx, start.Add(within))
	})
	return time.Since(start), err
}

// until waits until t.
func until(ctx context.Context, t time.Time) error { return wait(ctx, time.Until(t)) }

// probe is the n-th cycle of a plan that clients follow.
type probe struct {
	root string
	n    int64
}

// watch has the clients that follow plans.
type watch struct {
	roots  []string
	cancel context.CancelFunc
	ended  sync.WaitGroup
	ofOne  []*watcher // follow one plan each
	ofAll  []*watcher // follow all plans

	mu        sync.Mutex
	committed map[probe]time.Time
}

// watcher is one client.
type watcher struct {
	root  string          // "" to follow all plans
	roots map[string]bool // the plans that count
	mu    sync.Mutex
	seen  map[probe]time.Time
	err   error
}

// watch creates plans and clients, and waits until all clients follow their plans.
func (b *bench) watch(ctx context.Context, s *store.Store, server string) (*watch, error) {
	w := &watch{committed: map[probe]time.Time{}}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	for range b.n(livePlans, 5) {
		w.roots = append(w.roots, record.NewPlanID())
	}
	following, cancel := context.WithCancel(ctx)
	w.cancel = cancel

	var running []record.Change
	roots := map[string]bool{}
	for _, root := range w.roots {
		roots[root] = true
		running = append(running, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Running)})
	}
	if err := write(ctx, s, running); err != nil {
		cancel()
		return nil, err
	}

	began := make(chan error, liveClients+liveOnAll)
	start := func(root string) *watcher {
		c := &watcher{root: root, roots: roots, seen: map[probe]time.Time{}}
		w.ended.Go(func() { c.follow(following, client, server, began) })
		return c
	}

	for i := range b.n(liveClients, livePlans/10) {
		w.ofOne = append(w.ofOne, start(w.roots[i%len(w.roots)]))
	}
	for range liveOnAll {
		w.ofAll = append(w.ofAll, start(""))
	}

	var errs []error
	for range len(w.ofOne) + len(w.ofAll) {
		errs = append(errs, <-began)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, w.end(ctx))
	}
	return w, nil
}

// writeCycles writes cycles to each plan, one per interval, until ctx ends.
func (w *watch) writeCycles(ctx context.Context, t *text, s *store.Store) error {
	return concurrently(len(w.roots), func(i int) error {
		r, root := rand.New(rand.NewPCG(t.seed, uint64(i))), w.roots[i]
		start := time.Now().Add(liveEvery * time.Duration(i) / time.Duration(len(w.roots)))
		for n := int64(0); until(ctx, start.Add(liveEvery*time.Duration(n))) == nil; n++ {
			err := write(context.WithoutCancel(ctx), s, []record.Change{&record.ThinkAct{
				RootPlanID: root, StepID: root + "-step", Seq: n, ThinkInput: new(t.prompt(r)), ThinkOutput: new(t.answer(r)),
				State: new(record.Completed),
			}})
			if err != nil {
				return err
			}

			w.mu.Lock()
			w.committed[probe{root, n}] = time.Now()
			w.mu.Unlock()
		}
		return nil
	})
}

// follow reads a stream until ctx ends. It reports to began when it has started.
func (c *watcher) follow(ctx context.Context, client *http.Client, server string, began chan<- error) {
	path := "/api/v1/events"
	if c.root != "" {
		path = "/api/v1/plans/" + url.PathEscape(c.root) + "/events"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server+path, nil)
	if err != nil {
		began <- err
		return
	}

	resp, err := client.Do(r)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("GET %s: %s", path, resp.Status), resp.Body.Close())
	}
	if err != nil {
		began <- err
		return
	}
	defer resp.Body.Close()

	begin := sync.OnceFunc(func() { began <- nil })
	defer begin() // an error is returned by end
	for e, err := range sse.Read(resp.Body, &sse.ReadConfig{MaxEventSize: 64 << 20}) {
		if err == nil {
			err = c.note(e.Data)
		}
		if e.LastEventID != "" { // the past is complete; new events follow
			begin()
		}
		if err != nil && ctx.Err() == nil {
			c.err = err
		}
		if err != nil {
			return
		}
	}
}

// note stores the time at which an event first mentions a cycle.
func (c *watcher) note(data string) error {
	now := time.Now()
	if data == "" {
		return nil
	}

	var event struct {
		Rows []struct {
			Kind, RootPlanID string
			Seq              int64
		}
		Plans []struct {
			RootPlanID string
			Total      struct{ ModelCalls int64 }
		}
	}
	if err := json.Unmarshal([]byte(data), &event); err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	see := func(p probe) bool {
		_, known := c.seen[p]
		if known || !c.roots[p.root] {
			return false
		}
		c.seen[p] = now
		return true
	}

	for _, row := range event.Rows {
		if row.Kind == string(record.KindThinkAct) {
			see(probe{row.RootPlanID, row.Seq})
		}
	}
	for _, p := range event.Plans { // the number of calls is the number of cycles
		for n := p.Total.ModelCalls - 1; n >= 0 && see(probe{p.RootPlanID, n}); n-- {
		}
	}
	return nil
}

// missing returns the number of cycles that clients have not seen yet.
func (w *watch) missing() (n int) {
	written := map[string]int{}
	for p := range w.committed {
		written[p.root]++
	}

	for _, c := range slices.Concat(w.ofOne, w.ofAll) {
		expected := written[c.root]
		if c.root == "" {
			expected = len(w.committed)
		}
		c.mu.Lock()
		n += expected - len(c.seen)
		c.mu.Unlock()
	}
	return n
}

// end stops the clients when they have seen everything, or after a minute.
func (w *watch) end(ctx context.Context) error {
	missing := w.missing()
	for deadline := time.Now().Add(time.Minute); missing > 0 && ctx.Err() == nil &&
		time.Now().Before(deadline); missing = w.missing() {
		_ = until(ctx, time.Now().Add(100*time.Millisecond))
	}

	w.cancel()
	w.ended.Wait()

	errs := []error{ctx.Err()}
	if missing > 0 {
		errs = append(errs, fmt.Errorf("clients never read of %d cycles", missing))
	}
	for _, c := range slices.Concat(w.ofOne, w.ofAll) {
		errs = append(errs, c.err)
	}
	return errors.Join(errs...)
}

// latencies returns the sorted times from the commit of each cycle until each client had read it,
// in milliseconds. A client can be faster than the writer; that counts as 0.
func (w *watch) latencies() (ofOne, ofAll []float64) {
	collect := func(watchers []*watcher) (all []float64) {
		for _, c := range watchers {
			for p, seen := range c.seen {
				if committed, ok := w.committed[p]; ok {
					all = append(all, max(0, ms(seen.Sub(committed))))
				}
			}
		}
		slices.Sort(all)
		return all
	}

	return collect(w.ofOne), collect(w.ofAll)
}
