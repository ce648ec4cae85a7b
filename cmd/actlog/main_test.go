package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// beMain is a variable that makes the test binary run main, for tests that kill the program.
const beMain = "ACTLOG_TEST_BE_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beMain) != "" {
		main()
		return
	}
	if os.Getenv(beExporter) != "" {
		exportOne()
		return
	}
	if os.Getenv(beServer) != "" {
		serveTools()
		return
	}

	// Otherwise the first server of any test would take the default port.
	if err := os.Setenv("ACTLOG_OTLP_LISTEN", "off"); err != nil {
		panic(err)
	}
	for name, value := range planted {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	pgtest.Main(m)
}

// program is a running actlog.
type program struct {
	url    string
	cmd    *exec.Cmd
	stderr *lines
}

// lines collects what a program prints, and sends the URL that it serves on.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
	url chan string
}

// start starts the program, and waits until it serves.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := begin(t, args...)
	p.served(t)
	return p
}

// begin starts the program without waiting.
func begin(t *testing.T, args ...string) *program {
	t.Helper()
	return beginFile(t, os.Args[0], args...)
}

// beginFile is begin for another build of the program.
func beginFile(t *testing.T, path string, args ...string) *program {
	t.Helper()
	return beginWith(t, path, nil, args...)
}

// beginWith is beginFile with variables of its own.
func beginWith(t *testing.T, path string, env []string, args ...string) *program {
	t.Helper()
	p := &program{stderr: &lines{url: make(chan string, 1)}}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	p.cmd.Env = append(append(os.Environ(), beMain+"=1"), env...)

	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}

	var read sync.WaitGroup
	read.Go(func() { p.stderr.follow(pipe) })
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		read.Wait()
		_ = p.cmd.Wait()
	})
	return p
}

// served waits until the program prints where it serves.
func (p *program) served(t *testing.T) {
	t.Helper()
	url, ok := <-p.stderr.url
	if !ok {
		t.Fatalf("the program ended before it served:\n%s", p.stderr)
	}
	p.url = url
}

func (l *lines) follow(r io.Reader) {
	defer close(l.url)
	for s := bufio.NewScanner(r); s.Scan(); {
		l.mu.Lock()
		l.all.WriteString(s.Text() + "\n")
		l.mu.Unlock()
		if url, ok := strings.CutPrefix(s.Text(), "actlog serves on "); ok {
			l.url <- url
		}
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// kill sends SIGKILL.
func (p *program) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
}

// postmaster returns the process id of the private Postgres in a data folder; 0 if it has no
// pid file.
func postmaster(t *testing.T, dataDir string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dataDir, "postgres", "data", "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}

	pid, err := strconv.Atoi(strings.SplitN(string(content), "\n", 2)[0])
	if err != nil {
		return 0 // the file is being written
	}
	return pid
}

// ledger writes to one plan, and remembers what was answered 200.
type ledger struct {
	client *http.Client
	root   string
	next   atomic.Int64

	mu    sync.Mutex
	acked map[string]bool
}

func newLedger(t *testing.T, root string) *ledger {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	return &ledger{client: &http.Client{Transport: transport}, root: root, acked: map[string]bool{}}
}

// write sends new tool calls until stop is closed. Errors and broken connections are expected;
// only what was acknowledged must not get lost.
func (l *ledger) write(url string, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}

		n := l.next.Add(1)
		ids := []string{fmt.Sprintf("%s-t%d-a", l.root, n), fmt.Sprintf("%s-t%d-b", l.root, n)}
		var body bytes.Buffer
		for _, id := range ids {
			fmt.Fprintf(&body, `{"kind":"actTool","rootPlanId":%q,"stepId":"%s-s%d","seq":%d,"toolCallId":%q,"name":"n","result":"r"}`+"\n",
				l.root, l.root, n%3, n%50, id)
		}

		resp, err := l.client.Post(url+"/api/v1/records", "application/x-ndjson", &body)
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			l.mu.Lock()
			for _, id := range ids {
				l.acked[id] = true
			}
			l.mu.Unlock()
		}
	}
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// writers starts some writers. The returned function stops them.
func (l *ledger) writers(url string) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { l.write(url, done) })
	}
	return func() {
		close(done)
		wg.Wait()
	}
}

// await waits until n more tool calls are acknowledged.
func (l *ledger) await(t *testing.T, n int) {
	t.Helper()
	target := l.count() + n
	storetest.Until(t, fmt.Sprintf("%d more tool calls are acknowledged", n), func() bool { return l.count() >= target })
}

// check reads the plan, and expects each acknowledged tool call exactly once.
func (l *ledger) check(t *testing.T, url string) {
	t.Helper()
	var p planView
	l.get(t, url+"/api/executor/details/"+l.root, &p)
	seen := map[string]int{}
	for _, st := range p.AgentExecutionSequence {
		var detail stepView
		l.get(t, url+"/api/executor/agent-execution/"+st.StepID, &detail)
		tools := 0
		for _, c := range detail.ThinkActSteps {
			for _, tool := range c.ActToolInfoList {
				seen[tool.ID]++
				tools++
				if tool.Result != "r" || tool.Name != "n" {
					t.Errorf("tool call %s is incomplete: %+v", tool.ID, tool)
				}
			}
		}
		if st.Figures.ToolCalls != int64(tools) {
			t.Errorf("step %s counts %d tool calls, but has %d", st.StepID, st.Figures.ToolCalls, tools)
		}
	}

	lost := 0
	for id := range l.acked {
		if seen[id] != 1 {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("of %d acknowledged tool calls %d are lost", len(l.acked), lost)
	}

	for id, n := range seen {
		if n != 1 {
			t.Errorf("tool call %s is on record %d times", id, n)
		}
		if other := id[:len(id)-1] + map[string]string{"a": "b", "b": "a"}[id[len(id)-1:]]; seen[other] == 0 {
			t.Errorf("a request is on record in part: %s without %s", id, other)
		}
	}
}

func (l *ledger) get(t *testing.T, url string, into any) {
	t.Helper()
	resp, err := l.client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", url, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// TestKillServer kills the server with SIGKILL during writes, twice, and starts it again on the
// same folder.
func TestKillServer(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	l := newLedger(t, "plan-kill-server")
	for range 2 {
		p := start(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", dataDir)
		stop := l.writers(p.url)
		l.await(t, 100)
		p.kill(t)
		stop()
	}

	p := start(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", dataDir)
	l.check(t, p.url)
	p.terminate(t)
}

// TestKillPostgres kills the private Postgres with SIGKILL during writes. The server starts it
// again, and continues to serve.
func TestKillPostgres(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	l := newLedger(t, "plan-kill-postgres")
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", dataDir)
	stop := l.writers(p.url)
	for range 2 {
		l.await(t, 100)
		pid := postmaster(t, dataDir)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// Until the server has started it again, the pid file is that of the dead process.
		storetest.Until(t, "the server has started Postgres again", func() bool {
			now := postmaster(t, dataDir)
			return now != pid && now != 0
		})
	}

	l.await(t, 100)
	stop()
	l.check(t, p.url)
	if !strings.Contains(p.stderr.String(), "postgres") {
		t.Errorf("the log does not mention it:\n%s", p.stderr)
	}
	p.terminate(t)
}

// TestDrain stops the server with SIGTERM during writes. It must exit with code 0, and what it
// acknowledged must be on record.
func TestDrain(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	l := newLedger(t, "plan-drain")
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", dataDir)
	stop := l.writers(p.url)
	l.await(t, 50)
	p.terminate(t)
	stop()

	p = start(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", dataDir)
	l.check(t, p.url)
	p.terminate(t)
}

// terminate stops the program with SIGTERM, and expects exit code 0.
func (p *program) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v:\n%s", err, p.stderr)
	}
}
