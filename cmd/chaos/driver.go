//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// recoverWithin is how long the server may take to recover by itself.
const recoverWithin = 60 * time.Second

// driver runs a server, clients and the network between them, and injects faults.
type driver struct {
	config  config
	out     io.Writer
	self    string // this program
	dir     string
	rand    *rand.Rand
	ledger  *ledger
	server  *server
	others  []*server // beside it, on the same Postgres
	proxy   *proxy    // before the first server
	pair    *pair     // in the scenario failover
	house   *house    // of the runs in that scenario
	http    *http.Client
	tally   tally
	probes  atomic.Int64
	clients []*slot

	recoveries []time.Duration
	clientPeak int64

	mu         sync.Mutex // guards out and violations
	violations []string
}

// slot is a client that is started again after it was killed.
type slot struct {
	name  string
	mode  mode
	url   string
	lives int
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

func newDriver(c config, dir string, out io.Writer) (*driver, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}

	d := &driver{
		config: c, out: out, self: self, dir: dir,
		rand:   rand.New(rand.NewPCG(c.seed, 0)),
		ledger: newLedger(dir),
		http:   &http.Client{Timeout: 90 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: checkers}},
	}
	if d.server, err = d.newServer("server"); err != nil {
		return nil, err
	}
	d.server.dataDir = filepath.Join(dir, "data")
	return d, nil
}

// newServer returns a server that was not started yet.
func (d *driver) newServer(name string) (*server, error) {
	listen, err := freeAddress()
	return &server{binary: d.config.actlog, listen: listen, logFile: filepath.Join(d.dir, name+".log")}, err
}

func (d *driver) servers() []*server { return append([]*server{d.server}, d.others...) }

// urls returns the addresses of the servers for clients.
func (d *driver) urls() []string {
	urls := []string{d.proxy.url()}
	for _, s := range d.others {
		urls = append(urls, s.url())
	}
	return urls
}

func freeAddress() (string, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

func (d *driver) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, format+"\n", args...)
}

func (d *driver) violated(format string, args ...any) {
	v := fmt.Sprintf(format, args...)
	d.mu.Lock()
	d.violations = append(d.violations, v)
	d.mu.Unlock()
	d.say("VIOLATION: %s", v)
}

// repeat says again what was violated, at the end, where everybody looks.
func (d *driver) repeat() {
	const most = 5
	for _, v := range d.violations[:min(len(d.violations), most)] {
		d.say("VIOLATION: %s", v)
	}
	if more := len(d.violations) - most; more > 0 {
		d.say("and %d more, above", more)
	}
}

// run starts everything, injects faults, checks the record and stops everything.
func (d *driver) run(ctx context.Context) (err error) {
	defer func() {
		for _, s := range d.clients {
			_ = s.kill() // its result no longer matters
		}
		for _, s := range d.servers() {
			if stopErr := s.stop(); stopErr != nil {
				d.violated("%v", stopErr)
			}
		}
		if d.proxy != nil {
			d.proxy.close()
		}
		d.http.CloseIdleConnections()
	}()

	for _, s := range d.servers() {
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	stopSampling := d.sampling(ctx)
	defer stopSampling()
	if _, err := d.recovered(ctx, time.Now()); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}

	if d.proxy, err = newProxy(anyPort, d.server.listen); err != nil {
		return err
	}
	urls := d.urls()
	for n, m := range []mode{modeDirect, modeDirect, modeBuffer, modeSpool} {
		s := &slot{name: fmt.Sprintf("c%d", n), mode: m, url: urls[n%len(urls)]}
		if err := d.startClient(ctx, s); err != nil {
			return err
		}
		d.clients = append(d.clients, s)
	}

	switch d.config.scenario {
	case scenarioOutage:
		err = d.outage(ctx)
	case scenarioFlood:
		err = d.flood(ctx)
	case scenarioFailover:
		return d.failover(ctx)
	default:
		err = d.breakThings(ctx)
	}
	if err != nil {
		return err
	}
	return d.finish(ctx)
}

// sampling watches the memory of the servers until stop is called.
func (d *driver) sampling(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			for _, s := range d.servers() {
				s.sample()
			}
			pause(ctx, 200*time.Millisecond)
		}
	})

	return func() { cancel(); wg.Wait() }
}

func (d *driver) startClient(ctx context.Context, s *slot) error {
	s.lives++
	log, err := os.OpenFile(filepath.Join(d.dir, "client.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start a client: %w", err)
	}
	defer log.Close()

	cmd := exec.CommandContext(context.WithoutCancel(ctx), d.self)
	cmd.Env = append(os.Environ(),
		fmt.Sprintf("%s=%s-g%d %c %d %d %s %s", beClient, s.name, s.lives, s.mode, d.config.writers, d.config.rate, s.url,
			d.dir))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	if s.stdin, err = cmd.StdinPipe(); err != nil {
		return fmt.Errorf("start a client: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a client: %w", err)
	}
	s.cmd = cmd
	return nil
}

// kill kills the client with SIGKILL. It returns an error if the client had already exited.
func (s *slot) kill() error {
	if s.cmd == nil || s.cmd.ProcessState != nil {
		return nil
	}

	_ = s.cmd.Process.Kill()
	err := s.cmd.Wait()
	status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return nil
	}
	return fmt.Errorf("client %s exited by itself: %w", s.name, err)
}

// wait waits until a client whose input has ended exits, and kills it if that takes too long.
func (s *slot) wait(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = s.cmd.Process.Kill() })()
	err := s.cmd.Wait()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return err
}

// breakThings injects faults one after the other, under load.
func (d *driver) breakThings(ctx context.Context) error {
	end := time.Now().Add(d.config.duration)
	var round []string
	rounds := 0
	for n := 1; n <= d.config.kills; n++ {
		if time.Now().After(end) {
			d.say("the time is up after %d of %d faults", n-1, d.config.kills)
			break
		}
		if err := d.underLoad(ctx); err != nil {
			return err
		}

		if len(round) == 0 {
			round = d.round(rounds)
			rounds++
		}

		name := round[0]
		round = round[1:]
		what, from, err := faults[name](d, ctx)
		if err != nil {
			return fmt.Errorf("fault %d, %s: %w", n, name, err)
		}

		took, err := d.recovered(ctx, from)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			d.violated("after fault %d, %s (%s): %v", n, name, what, err)
			return nil // all later violations would only follow from this one
		}

		d.recoveries = append(d.recoveries, took)
		d.say("%4d %-9s %s; back after %.2fs", n, name, what, took.Seconds())
		if n%20 == 0 && n < d.config.kills {
			if err := d.check(ctx, d.server, d.ledger.take(100, d.rand.IntN), false); err != nil {
				return err
			}
		}
	}

	return nil
}

// The disk becomes full only in every diskEvery-th round, because that takes half a minute.
const diskEvery = 3

// round returns the faults of a round: each once, in random order, so that a short run has them all.
func (d *driver) round(n int) []string {
	names := slices.Clone(d.config.faults)
	if len(names) > 1 && n%diskEvery != 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return name == diskFault })
	}
	d.rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// underLoad waits until 50 more items are acknowledged, and then for a random time.
func (d *driver) underLoad(ctx context.Context) error {
	before, err := d.ledger.catchUp()
	if err != nil {
		return err
	}

	started := time.Now()
	for now := before; now < before+50; {
		if time.Since(started) > recoverWithin {
			return errors.New("no client can write")
		}
		if pause(ctx, 20*time.Millisecond); ctx.Err() != nil {
			return ctx.Err()
		}
		if now, err = d.ledger.catchUp(); err != nil {
			return err
		}
	}

	pause(ctx, time.Duration(d.rand.IntN(int(d.config.between))))
	return ctx.Err()
}

// recovered waits until every server is ready and accepts a record. It returns the time from since until then.
func (d *driver) recovered(ctx context.Context, since time.Time) (time.Duration, error) {
	ctx, cancel := context.WithDeadline(ctx, since.Add(recoverWithin))
	defer cancel()

	for _, s := range d.servers() {
		for {
			status, _, err := d.askAt(ctx, s, http.MethodGet, "/readyz", "")
			if err == nil && status == http.StatusOK {
				status, _, err = d.probeAt(ctx, s)
			}
			if err == nil && status == http.StatusOK {
				break
			}
			last := fmt.Sprint(status, " ", err)
			if pause(ctx, 20*time.Millisecond); ctx.Err() != nil {
				return 0, fmt.Errorf("the server at %s did not recover within %s, last answer: %s", s.listen, recoverWithin, last)
			}
		}
	}
	return time.Since(since), nil
}

// probe writes a record directly to the server, not through the proxy.
func (d *driver) probe(ctx context.Context) (status int, retryAfter string, err error) {
	return d.probeAt(ctx, d.server)
}

func (d *driver) probeAt(ctx context.Context, s *server) (status int, retryAfter string, err error) {
	n := d.probes.Add(1) % 100
	return d.askAt(ctx, s, http.MethodPost, "/api/v1/records",
		fmt.Sprintf(`{"kind":"plan","rootPlanId":"probe-%d","currentPlanId":"probe-%[1]d"}`, n))
}

func (d *driver) ask(ctx context.Context, method, path, body string) (status int, retryAfter string, err error) {
	return d.askAt(ctx, d.server, method, path, body)
}

func (d *driver) askAt(
	ctx context.Context, s *server, method, path, body string,
) (status int, retryAfter string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url()+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")

	resp, err := d.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header.Get("Retry-After"), err
}

// answers counts the answers to probes and keeps the longest wait for one.
type answers struct {
	mu      sync.Mutex
	counts  map[string]int
	longest time.Duration
}

// probing writes probes from several goroutines until stop is called. stop waits for the last
// answers.
func (d *driver) probing(ctx context.Context) (stop func() *answers) {
	a := &answers{counts: map[string]int{}}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				started := time.Now()
				status, retryAfter, err := d.probe(ctx)
				if ctx.Err() != nil {
					return
				}

				a.add(status, retryAfter, err, time.Since(started))
				select {
				case <-done:
					return
				case <-time.After(250 * time.Millisecond):
				}
			}
		})
	}

	return func() *answers {
		close(done)
		wg.Wait()
		return a
	}
}

func (a *answers) add(status int, retryAfter string, err error, took time.Duration) {
	answer := strconv.Itoa(status)
	switch {
	case err != nil:
		answer = err.Error()
	case status == http.StatusServiceUnavailable && retryAfter == "":
		answer += " without Retry-After"
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[answer]++
	a.longest = max(a.longest, took)
}

// check compares some plans with the ledger, as a server returns them, and prints the result.
func (d *driver) check(ctx context.Context, s *server, roots []string, final bool) error {
	started := time.Now()
	c := &checker{base: s.url(), http: d.http, ledger: d.ledger, final: final, tally: new(tally)}
	err := c.check(ctx, roots)
	if err != nil {
		return err
	}

	t := c.tally
	d.say("     checked %d plans, %d items in %.1fs: lost %d, twice %d, half %d, strange %d",
		t.plans, t.found, time.Since(started).Seconds(), len(t.lost), len(t.twice), len(t.half), len(t.strange))
	for _, list := range [][]string{t.lost, t.twice, t.half, t.strange} {
		for _, violation := range list[:min(len(list), 5)] {
			d.violated("%s", violation)
		}
	}

	d.tally.lost = append(d.tally.lost, t.lost...)
	d.tally.twice = append(d.tally.twice, t.twice...)
	d.tally.half = append(d.tally.half, t.half...)
	d.tally.strange = append(d.tally.strange, t.strange...)
	if final {
		d.tally.plans, d.tally.found = t.plans, t.found
		d.tally.texts.Store(t.texts.Load())
	}
	return nil
}

// finish lets the clients finish what they started, and checks everything.
func (d *driver) finish(ctx context.Context) error {
	d.say("     clients finish what they started")
	for _, s := range d.clients {
		d.clientPeak = max(d.clientPeak, peakRSS(s.cmd.Process.Pid))
		_ = s.stdin.Close()
	}

	for _, s := range d.clients {
		err := s.wait(ctx, deliverFor+30*time.Second)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			d.violated("client %s could not deliver: %v (see client.log)", s.name, err)
		}
	}

	if _, err := d.ledger.catchUp(); err != nil {
		return err
	}
	for _, s := range d.servers() {
		if err := d.check(ctx, s, d.ledger.all(), true); err != nil {
			return err
		}
	}
	return nil
}

// report prints the table at the end.
func (d *driver) report() {
	for _, problem := range d.ledger.problems() {
		d.violated("a client reported: %s", problem)
	}

	starts, peak := 0, int64(0)
	for _, s := range d.servers() {
		starts, peak = starts+s.starts, max(peak, s.peak)
		for _, exit := range s.unexpected() {
			d.violated("%s", exit)
		}
	}

	if limit := d.config.memory; peak > limit {
		d.violated("a server used %d MiB of memory, the limit is %d", peak>>20, limit>>20)
	}
	if limit := d.config.memory; d.clientPeak > limit {
		d.violated("a client used %d MiB of memory, the limit is %d", d.clientPeak>>20, limit>>20)
	}

	promised := 0
	for _, root := range d.ledger.all() {
		promised += len(d.ledger.with(root, acked|spooled))
	}
	var p50, longest time.Duration
	if n := len(d.recoveries); n > 0 {
		slices.Sort(d.recoveries)
		p50, longest = d.recoveries[n/2], d.recoveries[n-1]
	}

	var b bytes.Buffer
	for _, row := range [][2]any{
		{"faults", len(d.recoveries)},
		{"server starts", starts},
		{"plans", d.tally.plans},
		{"acknowledged", promised},
		{"found", d.tally.found},
		{"long prompts compared", d.tally.texts.Load()},
		{"lost", len(d.tally.lost)},
		{"twice", len(d.tally.twice)},
		{"half", len(d.tally.half)},
		{"strange", len(d.tally.strange)},
		{"recovery p50", p50.Round(time.Millisecond)},
		{"recovery max", longest.Round(time.Millisecond)},
		{"server peak RSS", fmt.Sprintf("%d MiB", peak>>20)},
		{"client peak RSS", fmt.Sprintf("%d MiB", d.clientPeak>>20)},
		{"violations", len(d.violations)},
	} {
		fmt.Fprintf(&b, "%-22s %v\n", row[0], row[1])
	}
	d.say("\n%s", strings.TrimRight(b.String(), "\n"))
}
