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

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

const (
	liveClients = 500
	livePlans   = 50
	liveOnAll   = 5
	// liveEvery is how often each of the plans is told a cycle.
	liveEvery = 250 * time.Millisecond
	// liveRuns is how much else is written: at half the rate, it takes some seconds.
	liveRuns = 4_000
)

// measureLive writes at half the rate that was measured just before, while clients
// follow plans that are told a cycle now and then: how long after the commit each
// client has read of it.
func measureLive(ctx context.Context, b *bench) (figures []figure, err error) {
	at, err := b.served(ctx, "live")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	s, server := at.store, at.url

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
		told := make(chan error, 1)
		telling, done := context.WithCancel(ctx)
		go func() { told <- w.tell(telling, b.text, s) }()
		took, err := b.load(ctx, s, runs, 2*full)
		done()
		if err = errors.Join(err, <-told, w.end(ctx)); err != nil {
			return nil, err
		}
		if turn == 0 {
			continue
		}
		of, ofAll := w.latencies()
		seen, rate = seen+len(of)+len(ofAll), append(rate, float64(runs*rowsOfRun)/took.Seconds())
		p50, p95 = append(p50, percentile(of, 0.5)), append(p95, percentile(of, 0.95))
		all50, all95 = append(all50, percentile(ofAll, 0.5)), append(all95, percentile(ofAll, 0.95))
	}
	return []figure{
		alone("commit to client, of one plan, p95", "ms", p95, atMost(250)).noted("%d clients on %d plans, %d on all; %s of %s rows/s; %d times a client read of a cycle",
			b.n(liveClients, livePlans/10), b.n(livePlans, 5), liveOnAll, digits(valueOf(rate).Median), digits(float64(runs*rowsOfRun)/full.Seconds()), seen),
		alone("the same, p50", "ms", p50, nil),
		alone("commit to client, of all plans, p95", "ms", all95, atMost(250)),
		alone("the same, p50", "ms", all50, nil),
	}, nil
}

// percentile gives that of sorted values; 0 where there are none.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// load writes so many runs from all clients, within some time, or at once.
func (b *bench) load(ctx context.Context, s *store.Store, runs int, within time.Duration) (took time.Duration, err error) {
	batches, err := b.batches(ctx, runs, b.text.whole)
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

// until waits for a moment.
func until(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// probe is a cycle of a plan that is followed: the n-th.
type probe struct {
	root string
	n    int64
}

// watch is clients that follow plans.
type watch struct {
	roots  []string
	cancel context.CancelFunc
	ended  sync.WaitGroup
	of     []*watcher // of one plan each
	ofAll  []*watcher

	mu        sync.Mutex
	committed map[probe]time.Time
}

// watcher is one of them.
type watcher struct {
	root  string          // empty: all
	roots map[string]bool // that count
	mu    sync.Mutex
	seen  map[probe]time.Time
	err   error
}

// watch makes plans, and clients that follow them, and waits until they do.
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
		w.of = append(w.of, start(w.roots[i%len(w.roots)]))
	}
	for range liveOnAll {
		w.ofAll = append(w.ofAll, start(""))
	}
	var errs []error
	for range len(w.of) + len(w.ofAll) {
		errs = append(errs, <-began)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, w.end(ctx))
	}
	return w, nil
}

// tell tells each plan a cycle now and then, until ctx ends.
func (w *watch) tell(ctx context.Context, t *text, s *store.Store) error {
	return concurrently(len(w.roots), func(i int) error {
		r, root := rand.New(rand.NewPCG(t.seed, uint64(i))), w.roots[i]
		start := time.Now().Add(liveEvery * time.Duration(i) / time.Duration(len(w.roots)))
		for n := int64(0); until(ctx, start.Add(liveEvery*time.Duration(n))) == nil; n++ {
			err := write(context.WithoutCancel(ctx), s, []record.Change{&record.ThinkAct{
				RootPlanID: root, StepID: root + "-step", Seq: n, ThinkInput: new(t.prompt(r)), ThinkOutput: new(t.answer(r)), State: new(record.Completed),
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

// follow reads a stream until ctx ends. It says when it has begun.
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
	defer begin() // what broke is told at the end
	for e, err := range sse.Read(resp.Body, &sse.ReadConfig{MaxEventSize: 64 << 20}) {
		if err == nil {
			err = c.learn(e.Data)
		}
		if e.LastEventID != "" { // all that was there before was told
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

// learn notes what an event tells for the first time.
func (c *watcher) learn(data string) error {
	now := time.Now()
	if data == "" {
		return nil
	}
	var said struct {
		Rows []struct {
			Kind, RootPlanID string
			Seq              int64
		}
		Plans []struct {
			RootPlanID string
			Total      struct{ ModelCalls int64 }
		}
	}
	if err := json.Unmarshal([]byte(data), &said); err != nil {
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
	for _, row := range said.Rows {
		if row.Kind == string(record.KindThinkAct) {
			see(probe{row.RootPlanID, row.Seq})
		}
	}
	for _, p := range said.Plans { // so many cycles are there
		for n := p.Total.ModelCalls - 1; n >= 0 && see(probe{p.RootPlanID, n}); n-- {
		}
	}
	return nil
}

// missing tells how many cycles clients have not seen yet.
func (w *watch) missing() (n int) {
	told := map[string]int{}
	for p := range w.committed {
		told[p.root]++
	}
	for _, c := range slices.Concat(w.of, w.ofAll) {
		expected := told[c.root]
		if c.root == "" {
			expected = len(w.committed)
		}
		c.mu.Lock()
		n += expected - len(c.seen)
		c.mu.Unlock()
	}
	return n
}

// end ends the clients, once they know everything.
func (w *watch) end(ctx context.Context) error {
	missing := w.missing()
	for deadline := time.Now().Add(time.Minute); missing > 0 && ctx.Err() == nil && time.Now().Before(deadline); missing = w.missing() {
		_ = until(ctx, time.Now().Add(100*time.Millisecond))
	}
	w.cancel()
	w.ended.Wait()
	errs := []error{ctx.Err()}
	if missing > 0 {
		errs = append(errs, fmt.Errorf("clients never read of %d cycles", missing))
	}
	for _, c := range slices.Concat(w.of, w.ofAll) {
		errs = append(errs, c.err)
	}
	return errors.Join(errs...)
}

// latencies gives how long after the commit each client knew of each cycle, in
// milliseconds. Some know before the writer does.
func (w *watch) latencies() (of, ofAll []float64) {
	collect := func(watchers []*watcher) (all []float64) {
		for _, c := range watchers {
			for p, at := range c.seen {
				if committed, ok := w.committed[p]; ok {
					all = append(all, max(0, ms(at.Sub(committed))))
				}
			}
		}
		slices.Sort(all)
		return all
	}
	return collect(w.of), collect(w.ofAll)
}
