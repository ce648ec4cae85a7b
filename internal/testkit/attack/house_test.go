//go:build attack

package attack_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

type object = map[string]any

type modelRequest = scriptmodel.Recorded

// binary is the program under attack.
var binary = os.Getenv(binaryEnv)

func TestMain(m *testing.M) {
	if os.Getenv(resultsEnv) == "" {
		os.Exit(runAndSummarise())
	}

	// Connections of clients that the tests share close a little after the last test.
	pgtest.Main(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

// binaryEnv names a program that was built before; resultsEnv names the file to which plays add how they went.
const (
	binaryEnv  = "ACTLOG_ATTACK_BINARY"
	resultsEnv = "ACTLOG_ATTACK_RESULTS"
)

// runAndSummarise builds the program, runs the tests in a process of their own, and prints a line for each kind of
// attack.
func runAndSummarise() (code int) {
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		return 1
	}
	defer os.RemoveAll(dir)

	program, results := os.Getenv(binaryEnv), filepath.Join(dir, "results")
	if program == "" {
		program = filepath.Join(dir, "actlog")
		build := exec.Command("go", "build", "-o", program, "../../../cmd/actlog")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "attack: build the program:", err)
			return 1
		}
	}

	tests := exec.Command(os.Args[0], os.Args[1:]...)
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	tests.Env = append(os.Environ(), binaryEnv+"="+program, resultsEnv+"="+results)
	if err := tests.Run(); err != nil {
		code = 1
	}
	content, _ := os.ReadFile(results) // none: nothing was played
	fmt.Print(summary(string(content)))
	return code
}

// summary is a line for each kind of attack.
func summary(results string) string {
	held, broken := map[string]int{}, map[string]int{}
	for line := range strings.Lines(results) {
		kind, how, _ := strings.Cut(strings.TrimSpace(line), " ")
		if how == "held" {
			held[kind]++
		} else {
			held[kind] += 0
			broken[kind]++
		}
	}

	var b strings.Builder
	for _, kind := range slices.SortedFunc(maps.Keys(held), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) // S2 before S10
	}) {
		word := "held"
		if broken[kind] > 0 {
			word = "BROKEN"
		}
		fmt.Fprintf(&b, "attack %-6s %-6s %d of %d plays held\n", kind, word, held[kind], held[kind]+broken[kind])
	}
	return b.String()
}

var kindPattern = regexp.MustCompile(`^Test(S[0-9]+|Routes)`)

// play counts a test as a play of its kind of attack.
func play(t *testing.T) {
	t.Helper()
	kind := "others"
	if m := kindPattern.FindStringSubmatch(t.Name()); m != nil {
		kind = m[1]
	}

	t.Cleanup(func() {
		how := "held"
		if t.Failed() {
			how = "broken"
		}

		f, err := os.OpenFile(os.Getenv(resultsEnv), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, kind, how)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// The keys of a house, by name, with their scopes.
var keyScopes = map[string][]httpd.Scope{
	"write":  {httpd.ScopeWrite},
	"read":   {httpd.ScopeRead},
	"run":    {httpd.ScopeRun},
	"decide": {httpd.ScopeDecide},
	"admin":  {httpd.ScopeAdmin},

	"owner": {httpd.ScopeRead, httpd.ScopeRun, httpd.ScopeDecide, httpd.ScopeWrite}, // drives the runs of the plays
	"root":  {httpd.ScopeRead, httpd.ScopeRun, httpd.ScopeDecide, httpd.ScopeWrite, httpd.ScopeAdmin},
	"alice": {httpd.ScopeRead, httpd.ScopeRun, httpd.ScopeDecide},
	"bob":   {httpd.ScopeRead, httpd.ScopeRun, httpd.ScopeDecide},
}

// Two names that are no keys of a house: none sends no key, wrong sends one that the server does not know.
const (
	none  = "none"
	wrong = "wrong"
)

// house is a server, and all that is around it.
type house struct {
	t        *testing.T
	dir      string
	database string // empty: the server has a private Postgres in its data folder
	url      string
	grpc     string // the address of OTLP over gRPC
	keyFile  string
	config   string // the file
	keys     map[string]string
	model    *scriptmodel.Server
	tools    *tools
	server   *process

	mu    sync.Mutex
	plain map[string]outcome // of undisturbed runs, by agent
}

// setting is what a house has besides the usual. The zero value is usable.
type setting struct {
	config  object   // sections that are added to the configuration, or replace those of the same name
	flags   []string // of serve
	env     []string // of serve
	private bool     // the server has a private Postgres
	workers bool     // the workers are processes of their own (actlog work)
	scenes  []scriptmodel.Scene
	listen  string // default: a free port of 127.0.0.1
	open    bool   // without keys
	keys    object // more keys: scopes by name
}

// open starts a house, which ends with the test.
func open(t *testing.T, s setting) *house {
	t.Helper()
	play(t)
	h := &house{t: t, dir: t.TempDir(), keys: map[string]string{}, plain: map[string]outcome{}}
	h.keyFile, h.config = filepath.Join(h.dir, "keys"), filepath.Join(h.dir, "actlog.json")
	h.tools = startTools(t)

	var err error
	if h.model, err = scriptmodel.Start(scriptmodel.Script{Scenes: append(s.scenes, scenes()...)}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.model.Close() })
	h.writeConfig(s.config)

	var lines []string
	for name, scopes := range keyScopes {
		lines = append(lines, h.newKey(name, scopes))
	}
	h.write(h.keyFile, strings.Join(lines, "\n")+"\n")
	h.keys[none], h.keys[wrong] = "", "actlog_"+strings.Repeat("x", 43)

	args := []string{
		"--listen", "127.0.0.1:0", "--otlp-listen", "off", "--otlp-grpc-listen", "127.0.0.1:0", "--config", h.config,
	}
	if s.listen != "" {
		args[1] = s.listen
	}
	if !s.open {
		args = append(args, "--api-keys", h.keyFile)
	}

	if s.private {
		args = append(args, "--data-dir", filepath.Join(h.dir, "data"))
	} else {
		h.database = pgtest.Fresh(t).URL
		args = append(args, "--database-url", h.database)
	}
	if s.workers {
		args = append(args, "--workers", "0")
	}

	h.server = h.run(s.env, append(append([]string{"serve"}, args...), s.flags...)...)
	h.url = h.server.await("actlog serves on ")
	h.grpc = h.server.after("actlog takes OTLP over gRPC on ")
	if s.workers {
		h.run(s.env, "work", "--database-url", h.database, "--config", h.config)
	}
	return h
}

// newKey makes a key, and returns its line for the file of keys.
func (h *house) newKey(name string, scopes []httpd.Scope) string {
	secret, line, err := httpd.NewKey(name, scopes)
	if err != nil {
		h.t.Fatal(err)
	}
	h.keys[name] = secret
	return line
}

func (h *house) write(path, text string) {
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		h.t.Fatal(err)
	}
}

// writeConfig writes the configuration: the usual one, with sections of a play.
func (h *house) writeConfig(more object) {
	config := object{
		"models": object{
			"default": object{"provider": "openai", "model": "scripted", "baseURL": h.model.URL(), "apiKey": "k"},
		},
		"mcpServers": object{
			"bank":  object{"url": h.tools.url("bank"), "trusted": true, "timeout": "60s"},
			"shady": object{"url": h.tools.url("shady"), "timeout": "60s"},
		},
		"policies":     []object{{"tools": "bank-pay", "approval": true}},
		"agents":       agents(),
		"orchestrator": object{"agents": object{"WORKER": object{"description": "Works.", "tools": []string{"bank-note"}}}},
	}

	for section, content := range more {
		if extra, ok := content.(object); ok {
			if usual, ok := config[section].(object); ok {
				maps.Copy(usual, extra)
				continue
			}
		}
		config[section] = content
	}

	content, err := json.MarshalIndent(config, "", " ")
	if err != nil {
		h.t.Fatal(err)
	}
	h.write(h.config, string(content))
}

// process is a running actlog.
type process struct {
	t   *testing.T
	cmd *exec.Cmd

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed, and replaced, with each line
	over  bool
}

// run starts the program. It ends with the test.
func (h *house) run(env []string, args ...string) *process {
	h.t.Helper()
	p := &process{t: h.t, more: make(chan struct{})}
	p.cmd = exec.CommandContext(context.WithoutCancel(h.t.Context()), binary, args...)
	p.cmd.Dir = h.dir
	p.cmd.Env = append(cleanEnviron(), env...)

	stderr, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}

	var read sync.WaitGroup
	read.Go(func() { p.follow(stderr) })
	h.t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(time.Minute, func() {
			h.t.Errorf("actlog %s does not end on SIGTERM", args[0])
			_ = p.cmd.Process.Kill()
		})
		read.Wait()
		_ = p.cmd.Wait()
		kill.Stop()

		if h.t.Failed() && testing.Verbose() {
			p.t.Logf("%s %s:\n%s", binary, args[0], strings.Join(p.lines[max(0, len(p.lines)-15):], "\n"))
		}
	})
	return p
}

// cleanEnviron is the environment of a program that is started by nobody in particular.
func cleanEnviron() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ACTLOG_") && !strings.HasPrefix(v, "TEST_DATABASE") {
			env = append(env, v)
		}
	}
	return env
}

func (p *process) follow(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		p.add(func() { p.lines = append(p.lines, s.Text()) })
	}
	p.add(func() { p.over = true })
}

func (p *process) add(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.more)
	p.more = make(chan struct{})
}

// await waits for a line that begins so, and returns the rest of it.
func (p *process) await(begin string) string {
	p.t.Helper()
	for {
		p.mu.Lock()
		more, over := p.more, p.over
		lines := slices.Clone(p.lines)
		p.mu.Unlock()

		for _, line := range lines {
			if rest, ok := strings.CutPrefix(line, begin); ok {
				return rest
			}
		}
		if over {
			p.t.Fatalf("the program ended:\n%s", strings.Join(lines, "\n"))
		}
		<-more
	}
}

// after returns the word behind the beginning of a line that was printed.
func (p *process) after(begin string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		if rest, ok := strings.CutPrefix(line, begin); ok {
			return strings.Fields(rest)[0]
		}
	}
	return ""
}

// command runs a command of the program to its end, or interrupts it after a while.
func (h *house) command(key, stdin string, args ...string) (stdout, stderr string, code int) {
	h.t.Helper()
	return h.commandFor(20*time.Second, key, stdin, args...)
}

func (h *house) commandFor(most time.Duration, key, stdin string, args ...string) (stdout, stderr string, code int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), most)
	defer cancel()

	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.WaitDelay = time.Second
	cmd.Dir = h.dir
	cmd.Env = append(cleanEnviron(), "ACTLOG_SERVER="+h.url, "ACTLOG_API_KEY="+h.keys[key])
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs

	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && ctx.Err() == nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (h *house) read(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(content)
}
