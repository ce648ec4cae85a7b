package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

type fields = map[string]any

// asking are two agents. The first asks the second, which asks a human, and writes a file.
const asking = `
  asker: {description: Asks, systemPrompt: Asker., tools: [form]}
  reader: {description: Reads, tools: [agent.asker, "files.*"]}
`

func askingScenes(form fields) []scriptmodel.Scene {
	ask := calls("agent-asker", fields{"request": "Ask where."})
	ask.Content = "First I ask.\nThen \x1b[31mI\x1b]0;write\a."
	return []scriptmodel.Scene{
		{
			Name: "asker", Match: scriptmodel.Match{System: "Asker."}, Turns: []scriptmodel.Turn{
				calls("form", form), says("They said where."),
			},
		},
		{
			Name: "reader", Turns: []scriptmodel.Turn{
				ask, calls("files-write_file", fields{"path": "b.txt", "content": "written \x1b[2J once"}),
				says("Done \x1b[31mwell.\nTwice."),
			},
		},
	}
}

func whereForm() fields {
	return fields{"title": "Where?", "description": "It is \x1b[5murgent.", "inputs": []fields{
		{"label": "Region", "name": "region", "type": "select", "options": []string{"EMEA", "APAC"}, "required": true},
		{"label": "Key", "name": "key", "type": "password"},
	}}
}

// human is a run of the program at a terminal, which is its stdin and stderr. Its stdout is a file.
type human struct {
	cmd    *exec.Cmd
	tty    *os.File
	out    *watched       // what the terminal shows
	read   sync.WaitGroup // done when all of it was read
	stdout *bytes.Buffer
}

func atTerminal(t *testing.T, args ...string) *human {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}

	h := &human{tty: master, out: new(watched), stdout: new(bytes.Buffer)}
	h.cmd = exec.CommandContext(t.Context(), os.Args[0], args...)
	h.cmd.Env = append(os.Environ(), beMain+"=1", "TERM=xterm")
	h.cmd.Stdin, h.cmd.Stderr = slave, slave
	h.cmd.Stdout = h.stdout
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}

	_ = slave.Close()
	h.read.Go(func() {
		buf := make([]byte, 4<<10)
		for {
			n, err := master.Read(buf)
			_, _ = h.out.Write(buf[:n])
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
		h.read.Wait()
		_ = master.Close()
	})
	return h
}

// state returns how the terminal is set.
func (h *human) state(t *testing.T) *term.State {
	t.Helper()
	state, err := term.GetState(int(h.tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// types waits for a question, and types a line.
func (h *human) types(t *testing.T, question, line string) {
	t.Helper()
	h.out.await(t, question)
	if _, err := h.tty.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}

// ended waits for the end of the program, and of what the terminal shows, and returns its exit code.
func (h *human) ended() int {
	_ = h.cmd.Wait()
	h.read.Wait()
	return h.cmd.ProcessState.ExitCode()
}

// wantAll checks that a text has parts, in this order.
func wantAll(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Errorf("no %q, in this order, in\n%s", part, text)
			return
		}
		rest = after
	}
}

// hostile are parts of sequences that texts of these tests hold, and that must not reach a terminal.
var hostile = []string{"\x1b[31m.", "\x1b[31mI", "\x1b[31mwell", "\x1b]0", "\x1b[5m", "\x1b[2J", "\a"}

func wantNone(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("there is %q in\n%q", part, text)
		}
	}
}

// B34-B36: TestRunAtATerminal runs an agent whose sub-agent asks a human for a form, which is checked before
// it is sent, and which asks for an approval. The result alone is on stdout.
func TestRunAtATerminal(t *testing.T) {
	t.Parallel()
	h := newHouse(t, asking, askingScenes(whereForm())...)
	s := h.serve(t, 1)

	p := atTerminal(t, "run", "reader", "Help.", "--server", s.url)
	p.types(t, "Region (of EMEA, APAC; required): ", "MARS")
	p.types(t, "must be one of EMEA, APAC", "EMEA")
	p.types(t, "Key (password): ", "hunter2-planted")
	p.types(t, "approve, reject? ", "maybe")
	p.types(t, "maybe", "app")
	if code := p.ended(); code != exitDone || p.stdout.String() != "Done [31mwell.\nTwice.\n" {
		t.Errorf("exit code %d, stdout %q", code, p.stdout)
	}

	wantAll(t, p.out.String(), "reader", "First I ask.\r\nThen ", "agent.asker", "   \x1b[1masker", "Ask where.",
		"urgent.", "SUBMITTED", "written", "files: b.txt", "APPROVED", "files.write_file", "COMPLETED")
	wantNone(t, p.out.String(), append(hostile, "hunter2")...)
	if b, err := os.ReadFile(filepath.Join(h.dir, "b.txt")); err != nil || string(b) != "written \x1b[2J once" {
		t.Errorf("os.ReadFile = %q, %v", b, err)
	}
}

// TestSomebodyElseAnswers: a human is told plainly that another was faster, and the run goes on. Another is
// interrupted while typing a password: the terminal is as it was.
func TestSomebodyElseAnswers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, asking, askingScenes(whereForm())...)
	s := h.serve(t, 1)
	server := []string{"--server", s.url}

	p := atTerminal(t, append([]string{"run", "reader", "Help."}, server...)...)
	p.out.await(t, "Region (")
	id := onlyRun(t, s.url)
	must(t, append([]string{"answer", id, "--value", "region=APAC", "--by", "ann"}, server...)...)
	p.out.await(t, "by ann")
	p.types(t, "Press Enter to go on. ", "")
	p.out.await(t, "somebody else answered")
	p.out.await(t, "approve, reject? ")

	other := atTerminal(t, append([]string{"answer", id}, server...)...)
	other.types(t, "approve, reject? ", "reject")
	other.types(t, "Why? (may be empty) ", "not there")
	if code := other.ended(); code != exitDone || !strings.HasSuffix(other.stdout.String(), ": reject\n") {
		t.Errorf("exit code %d, %q", code, other.stdout)
	}

	if code := p.ended(); code != exitDone { // there is nothing left to ask
		t.Errorf("exit code %d\n%s", code, p.out)
	}
	wantAll(t, p.out.String(), "by ann", "Press Enter", "somebody else answered", "approve, reject? ", "REJECTED",
		"Press Enter", "SKIPPED")

	p = atTerminal(t, append([]string{"run", "reader", "Help."}, server...)...)
	before := p.state(t)
	p.types(t, "Region (", "EMEA")
	p.out.await(t, "Key (password): ")
	if _, err := p.tty.WriteString("\x03"); err != nil { // Ctrl-C
		t.Fatal(err)
	}

	if code := p.ended(); code != 130 {
		t.Errorf("exit code %d\n%s", code, p.out)
	}
	wantAll(t, p.out.String(), "Key (password): ", "The run goes on.", "actlog tail plan-", "actlog stop plan-")
	if after := p.state(t); !reflect.DeepEqual(before, after) {
		t.Errorf("the terminal is not as it was: %v, then %v", before, after)
	}
}

// TestServerAwayAtAPrompt: an answer that is typed while the server is away reaches the next one.
func TestServerAwayAtAPrompt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, asking, askingScenes(whereForm())...)
	s := h.serve(t, 1)

	p := atTerminal(t, "run", "reader", "Help.", "--server", s.url)
	p.out.await(t, "Region (")
	s.kill(t)
	p.types(t, "Region (", "EMEA")
	p.types(t, "Key (password): ", "")
	h.serve(t, 1, "--listen", strings.TrimPrefix(s.url, "http://"))
	p.types(t, "approve, reject? ", "a")

	if code := p.ended(); code != exitDone || !strings.HasPrefix(p.stdout.String(), "Done ") {
		t.Errorf("exit code %d\n%s", code, p.out)
	}
	wantAll(t, p.out.String(), "SUBMITTED", "APPROVED")
}

// onlyRun waits for the only run that has not ended, and returns its plan.
func onlyRun(t *testing.T, url string) string {
	t.Helper()
	var id string
	storetest.Until(t, "a run is open", func() bool {
		for line := range strings.Lines(must(t, "runs", "--json", "--server", url)) {
			var r runView
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if r.EndTime == nil {
				id = r.PlanID
			}
		}
		return id != ""
	})
	return id
}

// begun is a command that runs in this process.
type begun struct {
	stdout, stderr *watched
	code           chan int
	stop           func()
}

func inBackground(t *testing.T, args ...string) *begun {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	b := &begun{stdout: new(watched), stderr: new(watched), code: make(chan int, 1), stop: func() {
		cancel(interruption{syscall.SIGINT})
	}}
	t.Cleanup(b.stop)
	go func() { b.code <- run(ctx, args, b.stdout, b.stderr) }()
	return b
}

// B35: TestRunWithoutATerminal answers what a run asks with another command, and checks what the commands say
// of runs and waits that are not there, or have ended.
func TestRunWithoutATerminal(t *testing.T) {
	t.Parallel()
	h := newHouse(t, asking, askingScenes(whereForm())...)
	s := h.serve(t, 1)
	command := func(args ...string) []string { return append(args, "--server", s.url) }
	fails := func(want int, says string, args ...string) {
		t.Helper()
		code, stdout, stderr := actlog(t, command(args...)...)
		if code != want || !strings.Contains(stderr, says) || stdout != "" {
			t.Errorf("%q: exit code %d, want %d and %q: %s%s", args, code, want, says, stdout, stderr)
		}
	}

	fails(exitFailed, `no agent is called "nobody"; there are: `, "run", "nobody", "Help.")
	fails(exitFailed, "limits.cats", "run", "reader", "Help.", "--limit", "cats=1")
	fails(exitFailed, "input.request is required", "run", "reader", " ")
	for _, action := range []string{"stop", "pause", "resume", "retry", "again", "answer"} {
		fails(exitFailed, "run plan-9 is not on record", action, "plan-9")
	}

	b := inBackground(t, command("run", "reader", "Help.", "--json", "--tag", "one", "--project", "shop", "--user", "u",
		"--conversation", "c", "--limit", "tokens=100000,seconds=60.5")...)
	b.stderr.await(t, "Where? Answer it: actlog answer plan-")
	id := onlyRun(t, s.url)
	list := must(t, command("answer", id, "--list")...)
	wantAll(t, list, "waits for user input:\nWhere?  wait-", "  field Region", "  decisions: submit\n")
	wait := strings.Fields(strings.Split(list, "\n")[1])[1]
	wantAll(t, must(t, command("answer", id, "--list", "--json")...), `{"waitId":"`+wait+`"`, `"decisions":["submit"]`)

	fails(exitUsage, "stdin or stderr is none: pass --decision submit", "answer", id)
	fails(exitUsage, "region must be one of EMEA, APAC", "answer", id, "--value", "region=MARS")
	fails(exitUsage, "region is required", "answer", id, "--value", "key=x")
	fails(exitUsage, "town is no field", "answer", id, "--value", "region=EMEA", "--value", "town=x")
	fails(exitUsage, "--value region", "answer", id, "--value", "region")
	fails(exitUsage, "decision must be one of submit", "answer", id, "--decision", "approve")
	fails(exitUsage, "--text goes with", "answer", id, "--text", "x")

	fails(exitFailed, "no open wait nothing", "answer", id, "nothing", "--decision", "submit")
	fails(exitFailed, "no open wait "+wait[:leastShortID-1], "answer", id, wait[:leastShortID-1], "--decision", "submit")
	if out := must(t, command("answer", id, wait, "--value", "region=EMEA")...); out != wait+": submit\n" {
		t.Errorf("command = %q", out)
	}

	b.stderr.await(t, "May files.write_file run? Answer it: actlog answer "+id)
	waiting := command("runs", "--state", "WAITING", "--executor", "agent", "--name", "reader")
	// soon after it has asked
	storetest.Until(t, "the run waits", func() bool { return strings.Contains(must(t, waiting...), id[:leastShortID]) })
	wantAll(t, must(t, waiting...), "PLAN", "TAKEOVERS", id[:leastShortID]+"  ", "WAITING", "agent", "reader", "Help.")
	if out := must(t, command("runs", "--name", "nobody", "--json")...); out != "" {
		t.Errorf("command = %s", out)
	}

	answered := must(t, command("answer", id, "--decision", "approve", "--by", "ann", "--json")...)
	wantAll(t, answered, `"state":"APPROVED"`, `"decidedBy":null`, `"by":"ann"`)
	if code := <-b.code; code != exitDone {
		t.Errorf("exit code %d\n%s", code, b.stderr)
	}

	var r struct {
		runView
		Tags []string
	}
	if err := json.Unmarshal([]byte(b.stdout.String()), &r); err != nil || r.PlanID != id || r.State != "COMPLETED" ||
		r.answer() != "Done \x1b[31mwell.\nTwice." {
		t.Errorf("json.Unmarshal([]byte(b.stdout.String()), &r) = %v %+v", err, r)
	}

	wantNone(t, b.stderr.String(), "\x1b")
	wantAll(
		t, must(t, command("list", "--tag", "one", "--project", "shop", "--user", "u", "--conversation", "c", "--json")...),
		id,
	)

	for _, action := range []string{"stop", "pause", "resume"} {
		fails(exitFailed, "run "+id+": the run has ended", action, id)
	}
	fails(exitFailed, "run "+id+" is COMPLETED and waits for nothing", "answer", id)
	fails(exitUsage, "must be one of PENDING", "runs", "--state", "DONE")
}

// TestControl pauses a run, lets it go on, leaves it alone after Ctrl-C, and stops it. Of several waits one
// has to be named.
func TestControl(t *testing.T) {
	t.Parallel()
	write := calls("files-write_file", fields{"path": "a.txt", "content": "a"})
	write.ToolCalls = append(write.ToolCalls,
		calls("files-write_file", fields{"path": "b.txt", "content": "b"}).ToolCalls...)
	h := newHouse(t, "  reader: {description: Writes, tools: [files.write_file]}\n",
		scriptmodel.Scene{Name: "s", Turns: []scriptmodel.Turn{write, says("done")}})
	s := h.serve(t, 1)
	command := func(args ...string) []string { return append(args, "--server", s.url) }

	id := strings.TrimSpace(must(t, command("run", "reader", "Ask.", "--detach")...))
	b := inBackground(t, command("tail", id)...)
	storetest.Until(t, "both calls wait", func() bool {
		return strings.Count(must(t, command("answer", id, "--list")...), "write_file") >= 2
	})

	code, _, stderr := actlog(t, command("answer", id, "--decision", "approve")...)
	if code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	for _, path := range []string{"a.txt", "b.txt"} { // in the order in which they were asked
		wantAll(t, stderr, "May files.write_file run?", `"path": "`+path+`"`, "run "+id+" waits for 2 answers: name one")
	}

	for _, tt := range []struct{ action, state string }{{"pause", "PAUSED"}, {"resume", "WAITING"}} {
		if out := must(t, command(tt.action, id)...); !strings.HasPrefix(out, id+" is ") {
			t.Errorf("must(command(tt.action, id)...) = %q", out)
		}
		// the command waits for a while only
		storetest.Until(t, "the run is "+tt.state, func() bool {
			return strings.Contains(must(t, command("runs", "--state", tt.state, "--json")...), id)
		})
	}

	f := inBackground(t, command("run", "reader", "Ask.")...)
	f.stderr.await(t, "run? Answer it")
	f.stop()
	if code := <-f.code; code != 130 {
		t.Errorf("exit code %d", code)
	}

	wantAll(t, f.stderr.String(), "The run goes on. Follow it: actlog tail plan-", "Stop it: actlog stop plan-",
		"stopped by SIGINT")
	if out := must(t, command("runs")...); strings.Count(out, "plan-") != 2 || strings.Contains(out, "CANCELLED") {
		t.Errorf("command = %s", out)
	}

	f = inBackground(t, command("run", "reader", "Ask.")...)
	f.stderr.await(t, "run? Answer it")
	_, third, _ := strings.Cut(f.stderr.String(), "actlog answer ")
	third = strings.Fields(third)[0]

	if out := must(t, command("stop", third)...); !strings.HasPrefix(out, third+" is ") {
		t.Errorf("command = %q", out)
	}
	if code := <-f.code; code != exitFailed || f.stdout.String() != "" ||
		!strings.Contains(f.stderr.String(), "run "+third+" is CANCELLED") {
		t.Errorf("exit code %d\n%s%s", code, f.stdout, f.stderr)
	}
	wantAll(t, must(t, command("stop", id, "--json", "--by", "ann")...), `{"planId":"`+id+`"`, `"state":"`)
	if code := <-b.code; code != exitDone {
		t.Errorf("exit code %d", code)
	}
}

// TestRunFails: the exit code and stderr tell that a run failed, and nothing is on stdout.
func TestRunFails(t *testing.T) {
	t.Parallel()
	quiet := scriptmodel.Turn{Content: "I do nothing \x1b[31m."}
	h := newHouse(t, "  idler: {description: Idles}\n", scriptmodel.Scene{
		Name: "s", Turns: []scriptmodel.Turn{quiet, quiet, quiet},
	})
	s := h.serve(t, 1)

	code, stdout, stderr := actlog(t, "run", "idler", "Work.", "--server", s.url)
	if code != exitFailed || stdout != "" {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	wantAll(t, stderr, "I do nothing", "I do nothing", "I do nothing", "is FAILED: The agent answered three times",
		"(no_tool_call)")
	wantNone(t, stderr, "\x1b")
	wantAll(t, must(t, "runs", "--server", s.url), "FAILED", "Work.: The agent answered")
}

// A1, D1, E5: TestRunOfExecutors starts a run of each executor from the command line. Its result is on stdout.
func TestRunOfExecutors(t *testing.T) {
	t.Parallel()
	text := func(name, system, content string) scriptmodel.Scene {
		return scriptmodel.Scene{
			Name: name, Match: scriptmodel.Match{System: system}, Turns: []scriptmodel.Turn{{Content: content}},
		}
	}

	h := newHouse(t, "  sayer: {description: Says, systemPrompt: Sayer.}\nworkflows:\n  talk: {steps: [sayer]}\n",
		text("plan", "software developer",
			`{"reasoning": "Look.", "steps": [{"tool": "files", "operation": "list_files", "params": {}}]}`),
		text("graph", "acyclic graph", `{"title":"One","nodes":[{"id":"a"}]}`), text("sayer", "Sayer.", "Said."),
		text("node", "", "Done."))
	s := h.serve(t, 1)

	for _, tt := range []struct {
		args    []string
		wants   []string
		request string
	}{
		{[]string{"--plan", "List", "the files."}, []string{"1. ✓ files.list_files {}\n"}, "List the files."}, // W4
		{[]string{"--dag", "One thing."}, []string{"NODE  STATE      RESULT\n", "a     COMPLETED  Done."}, ""},
		{[]string{"--workflow", "talk", "Say it."}, []string{"Said."}, ""},
	} {
		code, stdout, stderr := actlog(t, append(append([]string{"run"}, tt.args...), "--server", s.url)...)
		if code != exitDone {
			t.Errorf("%q: exit code %d\n%s%s", tt.args, code, stdout, stderr)
		}
		wantAll(t, stdout, tt.wants...)
		wantNone(t, stdout, "workflow_name", "agent_name", "node_results", "operations")
		if tt.request != "" {
			wantAll(t, must(t, "runs", "--server", s.url), tt.request)
		}
	}

	for _, args := range [][]string{{"run", "reader"}, {"run", "--plan"}, {"run", "--plan", "--dag", "Go."}} {
		if code, _, stderr := actlog(t, append(args, "--server", s.url)...); code != exitUsage {
			t.Errorf("%q: exit code %d\n%s", args, code, stderr)
		}
	}
}

// TestRunInput: the input is that of the executor.
func TestRunInput(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]runCmd{
		`agent {"agent":"a","request":"b c"}`:       {Words: []string{"a", "b", "c"}},
		`plan {"task":"b c"}`:                       {Words: []string{"b", "c"}, Plan: true},
		`orchestrator {"request":"b"}`:              {Words: []string{"b"}, Orchestrate: true},
		`dag {"prompt":"b"}`:                        {Words: []string{"b"}, Dag: true},
		`workflow {"input":"b","workflow":"w"}`:     {Words: []string{"b"}, Workflow: "w"},
		`workflow {"input":{"n":1},"workflow":"w"}`: {Words: []string{`{"n":1}`}, Workflow: "w"},
		`plan {"task":"from stdin"}`:                {Words: []string{"-"}, Plan: true},
	} {
		b, err := c.body(t.Context(), &env{stdin: strings.NewReader("from stdin")})
		input, _ := json.Marshal(b.Input)
		if got := b.Executor + " " + string(input); err != nil || got != want {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
	}
}

// TestRunStartsOnce loses the answer to the request that starts a run: the run begins once. A server that is
// not there at the beginning is not waited for.
func TestRunStartsOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "  sayer: {description: Says}\n", scriptmodel.Scene{
		Name: "s", Turns: []scriptmodel.Turn{says("Once.")},
	})
	s := h.serve(t, 1)
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}

	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}
	var starts atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && starts.Add(1) < 3 {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)

	if code, stdout, stderr := actlog(t, "run", "sayer", "Say.", "--server", front.URL); code != exitDone ||
		stdout != "Once.\n" || starts.Load() != 3 {
		t.Errorf("exit code %d after %d requests, %q\n%s", code, starts.Load(), stdout, stderr)
	}
	if out := must(t, "runs", "--json", "--server", s.url); strings.Count(out, "\n") != 1 {
		t.Errorf("runs = %s", out)
	}

	if code, _, stderr := actlog(t, "run", "sayer", "Say.", "--server", "http://127.0.0.1:1"); code != exitFailed ||
		!strings.Contains(stderr, "no answer") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestRunSurvives kills the server while an answer arrives, and then the worker. The command follows the run
// to its end, on the next server, and says that the answer begins again.
func TestRunSurvives(t *testing.T) {
	t.Parallel()
	talks := calls("files-list_files", fields{})
	talks.Content, talks.ChunkDelay = strings.Repeat("word ", 400), scriptmodel.Duration(10*time.Millisecond)
	var asked atomic.Bool
	slow := scriptmodel.Turn{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
		turn := talks
		if !asked.Swap(true) {
			turn.Break = &scriptmodel.Break{After: 100, Then: "hang"}
		}
		return turn, nil
	}}

	h := newHouse(t, "  talker: {description: Talks, tools: [files.list_files]}\n",
		scriptmodel.Scene{Name: "s", Turns: []scriptmodel.Turn{slow, says("All is said.")}})
	s := h.serve(t, 0)
	work := func() *program {
		return begin(t, "work", "--database-url", h.database, "--config", h.config, "--workers", "1")
	}

	b := inBackground(t, "run", "talker", "Talk.", "--server", s.url)
	b.stderr.await(t, "No worker takes it. It needs: ")
	doomed := work()
	b.stderr.await(t, "word word word")

	s.kill(t)
	h.serve(t, 0, "--listen", strings.TrimPrefix(s.url, "http://"))
	doomed.kill(t)
	work()
	b.stderr.await(t, "the answer begins again")

	if code := <-b.code; code != exitDone || b.stdout.String() != "All is said.\n" {
		t.Errorf("exit code %d\n%s%s", code, b.stdout, b.stderr)
	}
	wantAll(t, b.stderr.String(), "talker:  Talk.", "the answer begins again", "word word", "→ files.list_files",
		"← files.list_files  COMPLETED")
}
