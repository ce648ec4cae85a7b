//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// What the record holds for the attacks, at scale 1.
const (
	greedyPlans   = 200_000
	greedyTree    = 30 << 20  // bytes of its texts
	greedyStep    = 320 << 20 // bytes of its texts
	greedyBody    = 5 << 20   // bytes that a slow body unpacks to
	greedyMessage = 60 << 20  // bytes of an unfinished message
)

// good owns the key of the good clients.
const good = "good"

// The good clients beside the attacks: of each kind, and how often each of them asks.
const (
	goodClients = 4
	goodEvery   = 50 * time.Millisecond
)

// greedy lets greedy clients attack a server, one attack after the other and then all at once,
// while good clients write and read a little. It does so with API keys, one for each attack and
// one for the good clients, and without.
type greedy struct {
	config     config
	out        io.Writer
	dir        string
	form       form
	server     *server
	grpc       string
	http       *http.Client
	rows       [][]string
	violations []string
}

// form is how the server is served.
type form struct {
	name string
	args []string
	keys map[string]string // of the attacks, and of the good clients; empty: none
}

func (c config) greedy(ctx context.Context, dir string, out io.Writer) (violated bool, err error) {
	g := &greedy{
		config: c, out: out, dir: dir, http: &http.Client{
			Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 1000},
		},
	}
	defer g.http.CloseIdleConnections()
	fmt.Fprintf(out, "chaos: greedy clients at scale %g, %s for each attack, in %s\n", c.scale, c.lasts, dir)

	keys := filepath.Join(dir, "keys")
	with := form{"keys", []string{"--api-keys", keys}, map[string]string{}}
	owners := []string{good}
	for _, a := range attacks {
		owners = append(owners, a.name)
	}
	for _, owner := range owners {
		secret, err := exec.CommandContext(ctx, c.actlog, "key", owner, "--file", keys).Output()
		if err != nil {
			return false, fmt.Errorf("make a key: %w", err)
		}
		with.keys[owner] = strings.TrimSpace(string(secret))
	}

	loaded := false
	for _, f := range []form{with, {name: "no keys"}} {
		if err := g.serve(ctx, f); err != nil {
			return false, err
		}

		err := error(nil)
		if !loaded {
			loaded, err = true, g.load(ctx)
		}
		if err == nil {
			err = g.attackAll(ctx)
		}

		for _, exit := range g.server.unexpected() {
			g.violated("%s: %s", f.name, exit)
		}
		if err := errors.Join(err, g.server.stop()); err != nil {
			return false, err
		}
	}

	g.table()
	return len(g.violations) > 0, nil
}

func (g *greedy) violated(format string, args ...any) {
	v := fmt.Sprintf(format, args...)
	g.violations = append(g.violations, v)
	fmt.Fprintf(g.out, "VIOLATION: %s\n", v)
}

// serve starts a server and waits until it is ready.
func (g *greedy) serve(ctx context.Context, f form) error {
	listen, err := freeAddress()
	if err != nil {
		return err
	}
	if g.grpc, err = freeAddress(); err != nil {
		return err
	}

	g.form = f
	g.server = &server{
		binary: g.config.actlog, listen: listen, dataDir: filepath.Join(g.dir, "data"),
		logFile: filepath.Join(g.dir, "server.log"),
		more:    append([]string{"--otlp-grpc-listen", g.grpc}, f.args...),
	}
	if err := g.server.start(ctx); err != nil {
		return err
	}

	for until := time.Now().Add(recoverWithin); ; {
		r, err := target{api: listen, http: g.http}.get(ctx, "/readyz")
		if err == nil && r.status == "200" {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(until) {
			return errors.Join(fmt.Errorf("the server is not ready: %s: %w", r.status, err), g.server.stop())
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// scaled is a number at the scale of this run, at least 1.
func (g *greedy) scaled(n int) int { return max(1, int(float64(n)*g.config.scale)) }

// load writes what the attacks read.
func (g *greedy) load(ctx context.Context) error {
	began := time.Now()
	var batches []string
	var b strings.Builder
	selected := func(prefix string) bool {
		return slices.ContainsFunc(g.config.attacks, func(name string) bool { return strings.HasPrefix(name, prefix) })
	}

	batches = append(batches, plans("tree", "large", "good"))
	for n := 0; selected("b") && n < g.scaled(greedyPlans); n++ {
		fmt.Fprintf(
			&b, `{"kind":"plan","rootPlanId":"many-%d","currentPlanId":"many-%[1]d","title":"Run %[1]d of the night","userRequest":"Sum up report %[1]d and send it to the team","state":"COMPLETED"}`+"\n", n,
		)
		if n%1000 == 999 {
			batches = append(batches, b.String())
			b.Reset()
		}
	}
	batches = append(batches, b.String())

	const text = 1 << 20
	random := rand.New(rand.NewPCG(1, 2))
	for n := 0; selected("a") && n <= g.scaled(greedyTree)/text; n++ {
		batches = append(
			batches, fmt.Sprintf(
				`{"kind":"agentExecution","rootPlanId":"tree","planId":"tree","stepId":"tree-%d","result":"%s"}`, n,
				noise(random, text),
			),
		)
	}

	batches = append(batches, `{"kind":"agentExecution","rootPlanId":"large","planId":"large","stepId":"large"}`)
	for n := 0; selected("d") && n <= g.scaled(greedyStep)/(2*text); n++ {
		batches = append(
			batches, fmt.Sprintf(
				`{"kind":"thinkAct","rootPlanId":"large","stepId":"large","seq":%d,"thinkInput":"%s","thinkOutput":"%s"}`, n,
				noise(random, text), noise(random, text),
			),
		)
	}

	for _, batch := range batches {
		if status, err := g.write(ctx, batch); err != nil || status != http.StatusOK {
			return fmt.Errorf("load: %d %w", status, err)
		}
	}
	fmt.Fprintf(g.out, "     loaded %d requests of records in %.0fs\n", len(batches), time.Since(began).Seconds())
	return nil
}

func plans(ids ...string) string {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, `{"kind":"plan","rootPlanId":%q,"currentPlanId":%[1]q,"title":"A plan"}`+"\n", id)
	}
	return b.String()
}

// noise is a text of n bytes that hardly compresses.
func noise(r *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

// write writes records as a good client.
func (g *greedy) write(ctx context.Context, body string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.server.url()+"/api/v1/records", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	if g.form.keys[good] != "" {
		r.Header.Set("Authorization", "Bearer "+g.form.keys[good])
	}

	resp, err := g.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// attackAll runs nothing, each attack, and all of them, and notes what good clients saw.
func (g *greedy) attackAll(ctx context.Context) error {
	rounds := [][]attack{nil}
	var together []attack
	for _, a := range attacks {
		if !slices.Contains(g.config.attacks, a.name) {
			continue
		}
		rounds = append(rounds, []attack{a})
		if a.name != "b-220" {
			together = append(together, a)
		}
	}
	if len(together) > 1 {
		rounds = append(rounds, together)
	}

	for _, round := range rounds {
		if err := g.attack(ctx, round); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// attack runs some attacks at once.
func (g *greedy) attack(ctx context.Context, round []attack) error {
	what := "all"
	switch len(round) {
	case 0:
		what = "none"
	case 1:
		what = round[0].name + " " + round[0].what
	}

	before, err := g.metrics(ctx)
	if err != nil {
		return err
	}
	packed, err := packedBlanks(g.scaled(greedyBody))
	if err != nil {
		return err
	}

	t := target{
		api: g.server.listen, grpc: g.grpc, tree: "tree", step: "large", http: g.http,
		packed: packed, message: g.scaled(greedyMessage), calls: callConnections(8),
	}
	defer func() {
		for _, c := range t.calls {
			c.CloseIdleConnections()
		}
	}()

	// Each good client may finish what it has begun.
	lasts, stop := context.WithTimeout(ctx, g.config.lasts)
	defer stop()

	var all sync.WaitGroup
	outcomes := map[string]*outcome{}
	for _, a := range round {
		o := &outcome{counts: map[string]int{}}
		outcomes[a.name] = o
		t := t
		t.key = g.form.keys[a.name]
		all.Go(func() { a.run(lasts, t, max(2, g.scaled(a.clients)), o) })
	}

	writes, reads := new(times), new(times)
	for n := range goodClients {
		all.Go(func() {
			for i := 0; lasts.Err() == nil; i++ {
				began := time.Now()
				status, err := g.write(ctx, plans(fmt.Sprintf("good-%d-%d", n, i)))
				writes.add(time.Since(began), status, err)
				pause(lasts, goodEvery-time.Since(began))
			}
		})
		all.Go(func() {
			for lasts.Err() == nil {
				began := time.Now()
				r, err := target{api: g.server.listen, key: g.form.keys[good], http: g.http}.get(ctx, "/api/v1/plans/good")
				status, _ := strconv.Atoi(r.status) // 0: no answer
				reads.add(time.Since(began), status, err)
				pause(lasts, goodEvery-time.Since(began))
			}
		})
	}

	pid := g.server.pid()
	resetPeak(pid)
	held := 0.0
	for lasts.Err() == nil {
		pause(lasts, 500*time.Millisecond)
		if now, err := g.metrics(lasts); err == nil {
			held = max(held, now[heldMetric])
		}
	}

	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	after, err := g.metrics(ctx)
	if err != nil {
		return err
	}
	peak := peakRSS(pid)
	g.judge(g.form.name+", "+what, round, outcomes, writes, reads, peak)

	var answers []string
	for _, a := range round {
		o := outcomes[a.name]
		for _, status := range slices.Sorted(maps.Keys(o.counts)) {
			answers = append(answers, fmt.Sprintf("%s:%s×%d", a.name, status, o.counts[status]))
		}
	}

	count := func(name string) string { return fmt.Sprint(after.sum(name) - before.sum(name)) }
	g.rows = append(g.rows, []string{
		g.form.name, what, writes.String(), reads.String(), fmt.Sprint(peak >> 20), fmt.Sprint(int(held) >> 20),
		count("actlog_http_body_refused_total"), count("actlog_http_body_slow_total"), strings.Join(answers, " "),
	})
	fmt.Fprintf(g.out, "     %s, %s: writes %s, reads %s, RSS %d MiB; %s\n", g.form.name, what, writes, reads, peak>>20,
		strings.Join(answers, " "))
	return nil
}

// judge compares a round with the limits.
func (g *greedy) judge(where string, round []attack, outcomes map[string]*outcome, writes, reads *times, peak int64) {
	for what, t := range map[string]*times{"writes": writes, "reads": reads} {
		if t.failed > 0 {
			g.violated("%s: %d good %s failed, such as %s", where, t.failed, what, t.failure)
		}
		if p99 := quantile(t.all, 0.99); p99 > g.config.within {
			g.violated("%s: the p99 of good %s is %s, the limit is %s", where, what, p99.Round(time.Millisecond),
				g.config.within)
		}
	}

	if peak > g.config.memory {
		g.violated("%s: the server used %d MiB of memory, the limit is %d", where, peak>>20, g.config.memory>>20)
	}

	for _, a := range round {
		o := outcomes[a.name]
		if a.held && g.config.scale == 1 && o.refused() == 0 {
			g.violated("%s: nobody of %s was refused or cut off", where, a.what)
		}
		if o.without > 0 {
			g.violated("%s: %d of %s were refused without a time to try again", where, o.without, a.what)
		}
	}
}

// times are how long good clients waited.
type times struct {
	mu      sync.Mutex
	all     []time.Duration
	failed  int
	failure string
}

func (t *times) add(took time.Duration, status int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, took)
	if err != nil || status != http.StatusOK {
		t.failed++
		t.failure = fmt.Sprintf("%d %v", status, err)
	}
}

// String is the median, the 99th percentile and the longest, in milliseconds.
func (t *times) String() string {
	return fmt.Sprintf("%d/%d/%d ms", quantile(t.all, 0.5).Milliseconds(), quantile(t.all, 0.99).Milliseconds(),
		quantile(t.all, 1).Milliseconds())
}

// samples are the metrics of the server.
type samples map[string]float64

const heldMetric = "actlog_http_body_bytes"

// sum adds up a metric over its labels.
func (s samples) sum(name string) (n float64) {
	for key, v := range s {
		if key == name || strings.HasPrefix(key, name+"{") {
			n += v
		}
	}
	return n
}

func (g *greedy) metrics(ctx context.Context) (samples, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.server.url()+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+g.form.keys[good])

	resp, err := g.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()

	found := samples{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			found[name] = v
		}
	}
	return found, lines.Err()
}

// resetPeak makes the peak of a process's memory begin with what it has now.
func resetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // else the peak is that of all rounds
}

// table prints what was seen.
func (g *greedy) table() {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "form\tattack\twrites p50/p99/max\treads p50/p99/max\tRSS MiB\theld MiB\trefused\tslow\tanswers "+
		"to greedy clients")
	for _, row := range g.rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
	fmt.Fprintf(g.out, "\n%s%d violations\n", &b, len(g.violations))
}
