package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/actlog/actlog/clients/packages"
)

// peer is an engine that runs agents: ours, or that of somebody else. Each is a program that carries the commands of
// [engineProcess] out.
type peer struct {
	name string
	// own says that the engine brings its own server, and does not use Postgres.
	own bool
	// install returns the program, after it has installed what the program needs.
	install func(context.Context, peerFolders) (*exec.Cmd, error)
}

// peers are the engines of others. Their programs are in the folder peers.
var peers = []peer{
	{"DBOS for Go", false, func(ctx context.Context, f peerFolders) (*exec.Cmd, error) {
		return f.goProgram(ctx, "dbos-go")
	}},
	{"DBOS for Python", false, func(_ context.Context, f peerFolders) (*exec.Cmd, error) { return f.python("dbos") }},
	{"LangGraph", false, func(_ context.Context, f peerFolders) (*exec.Cmd, error) { return f.python("langgraph") }},
	{"Temporal", true, temporal},
	{"Restate", true, restate},
}

// peerFolders are where the programs of the peers come from and where they are built.
type peerFolders struct {
	programs string
	built    string
	tools    packages.Tools
}

func (f peerFolders) goProgram(ctx context.Context, name string) (*exec.Cmd, error) {
	program := filepath.Join(f.built, name)
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./"+name)
	build.Dir = f.programs
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build it: %w\n%s", err, out)
	}
	return exec.Command(program), nil //nolint:noctx // it ends when it gets no more commands
}

func (f peerFolders) python(name string) (*exec.Cmd, error) {
	bin, err := f.tools.Python(filepath.Join(f.programs, name))
	if err != nil {
		return nil, err
	}
	main := filepath.Join(f.programs, name, "main.py")
	return exec.Command(filepath.Join(bin, "python"), main), nil //nolint:noctx // see goProgram
}

// temporal takes the development server from the package that brings it, and a worker in Go.
func temporal(ctx context.Context, f peerFolders) (*exec.Cmd, error) {
	bin, err := f.tools.Python(filepath.Join(f.programs, "temporal"))
	if err != nil {
		return nil, err
	}
	server := filepath.Join(bin, "temporal")
	version, err := exec.CommandContext(ctx, server, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", server, err)
	}

	cmd, err := f.goProgram(ctx, "temporal")
	if err != nil {
		return nil, err
	}
	_, numbers, _ := strings.Cut(string(version), "(")
	numbers, _, _ = strings.Cut(numbers, ",") // that of the user interface does not matter
	cmd.Env = append(os.Environ(), "PEER_SERVER="+server, "PEER_VERSION="+numbers)
	return cmd, nil
}

func restate(_ context.Context, f peerFolders) (*exec.Cmd, error) {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if arch == "" || runtime.GOOS == "windows" {
		return nil, fmt.Errorf("there is no server of it for %s on %s", runtime.GOOS, runtime.GOARCH)
	}

	folder := filepath.Join(f.programs, "restate")
	bin, err := f.tools.JavaScript(folder)
	if err != nil {
		return nil, err
	}
	server, err := filepath.Abs(filepath.Join(folder, "node_modules", "@restatedev",
		"restate-server-"+runtime.GOOS+"-"+arch, "bin", "restate-server"))
	if err != nil {
		return nil, err
	}

	cmd := exec.Command(filepath.Join(bin, "node"), filepath.Join(folder, "main.js")) //nolint:noctx // see goProgram
	cmd.Env = append(os.Environ(), "PEER_SERVER="+server)
	return cmd, nil
}

// ourWorker is this program, as a worker.
func ourWorker(context.Context, peerFolders) (*exec.Cmd, error) {
	program, err := os.Executable()
	return exec.Command(program, workerCommand), err //nolint:noctx // see goProgram
}

// contestant is an engine that takes part.
type contestant struct {
	peer
	cmd     *exec.Cmd // as a pattern: it runs once a turn
	env     []string
	dir     string
	db      *database
	version string

	one, many agentTurns

	runs          int     // all that it carried
	empty, filled float64 // bytes that it stored before the first and after the last
}

// storedOfRun returns how many kB a run takes, of all runs together: see [bench.agentsAlone].
func (c *contestant) storedOfRun() float64 { return (c.filled - c.empty) / float64(c.runs) / 1000 }

// measurePeers lets our runtime and those of others run the same agents, by turns. Each runs alone: it starts, runs
// agents that do not count, then one by one, then many at the same time, and stops.
func measurePeers(ctx context.Context, b *bench) (figures []figure, err error) {
	file := filepath.Join(b.dir, "script.json")
	content, err := json.Marshal(newScript(b.text))
	if err == nil {
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		return nil, err
	}

	var all []*contestant
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.db.drop())
		}
	}()
	for _, p := range append([]peer{{"ours", false, ourWorker}}, peers...) {
		c, err := b.contestant(ctx, p, file)
		if err != nil && p.name != "ours" && ctx.Err() == nil {
			missing := alone(p.name, "", nil, nil)
			figures = append(figures, missing.noted("not measured: it could not be installed: %s", inOneLine(err)))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		all = append(all, c)
	}

	failed := map[*contestant]error{}
	for turn := range b.repeats {
		for i := range all {
			c := all[(turn+i)%len(all)]
			if failed[c] != nil {
				continue
			}
			failed[c] = b.turnOf(ctx, c)
			if failed[c] != nil && (c == all[0] || ctx.Err() != nil) {
				return nil, fmt.Errorf("%s: %w", c.name, failed[c])
			}
		}
	}

	var others []*contestant
	for _, c := range all[1:] {
		if err := failed[c]; err != nil {
			figures = append(figures, alone(c.name, "", nil, nil).noted("not measured: it failed: %s", inOneLine(err)))
			continue
		}
		others = append(others, c)
	}
	return append(compare(all[0], others, b.atOnce()), figures...), nil
}

// inOneLine returns an error, with what a program printed, as one line that is not too long.
func inOneLine(err error) string {
	const most = 500
	line := strings.Join(strings.Fields(err.Error()), " ")
	return line[:min(len(line), most)]
}

// contestant installs an engine and makes a database for it.
func (b *bench) contestant(ctx context.Context, p peer, script string) (_ *contestant, err error) {
	c := &contestant{peer: p, dir: filepath.Join(b.dir, "peers", p.name)}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}

	tools := filepath.Join(b.peersDir, "..", "..", "..", "clients", "tools")
	folders := peerFolders{programs: b.peersDir, built: b.dir, tools: packages.Tools(tools)}
	if c.cmd, err = p.install(ctx, folders); err != nil {
		return nil, err
	}

	name := "peer_" + strings.ToLower(strings.ReplaceAll(p.name, " ", "_"))
	if p.name == "ours" {
		c.db, err = b.database(ctx, name)
	} else {
		c.db, err = b.emptyDatabase(ctx, name)
	}
	if err != nil {
		return nil, err
	}

	if c.cmd.Env == nil {
		c.cmd.Env = os.Environ()
	}
	c.env = append(c.cmd.Env, "PEER_SCRIPT="+script, "PEER_DATABASE="+c.db.url, "PEER_DIR="+c.dir)
	return c, nil
}

// turnOf starts an engine, measures it, and stops it.
func (b *bench) turnOf(ctx context.Context, c *contestant) (err error) {
	e, err := b.startEngine(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.stop()) }()

	used, err := e.cost(ctx)
	if err != nil {
		return err
	}
	if c.runs == 0 {
		c.empty = used.stored
	}

	atOnce := b.atOnce()
	warmUp, err := b.agentTurn(ctx, e, atOnce/2, 1)
	if err != nil {
		return err
	}

	one, err := b.agentTurn(ctx, e, 1, 5)
	if err != nil {
		return err
	}
	many, err := b.agentTurn(ctx, e, atOnce, 1)
	if err != nil {
		return err
	}
	c.one, c.many = append(c.one, one), append(c.many, many)

	used, err = e.cost(ctx)
	c.filled = used.stored
	c.runs += warmUp.runs + one.runs + many.runs
	return err
}

// compare returns the figures of all: ours beside each of the others, or alone if there are none.
func compare(ours *contestant, others []*contestant, atOnce int) (figures []figure) {
	many := fmt.Sprintf("%d runs", atOnce)
	for _, m := range []struct {
		name, unit string
		of         func(*contestant) agentTurns
		value      func(agentTurn) float64
		target     *target
	}{
		{"calls a second, " + many, "", (*contestant).together, agentTurn.callsPerSecond, atLeast(1)},
		{"calls a second, 1 run", "", (*contestant).single, agentTurn.callsPerSecond, atLeast(1)},
		{"a cycle over the bare loop, 1 run", "ms", (*contestant).single, agentTurn.overBare, atMost(1)},
		{"from start to first call, 1 run", "ms", (*contestant).single, agentTurn.untilFirstCall, atMost(1)},
		{"processor time of 1,000 calls, " + many, "s", (*contestant).together, agentTurn.processorSeconds, atMost(1)},
		{"the same, of the worker", "s", (*contestant).together, agentTurn.workerSeconds, nil},
		{"the same, of Postgres or a server", "s", (*contestant).together, agentTurn.postgresSeconds, nil},
	} {
		if len(others) == 0 {
			figures = append(figures, alone(m.name, m.unit, m.of(ours).each(m.value), nil))
		}
		for _, o := range others {
			figures = append(figures, against(m.name, m.unit, m.of(ours).each(m.value), m.of(o).each(m.value),
				o.name+" "+o.version, m.target))
		}
	}

	const stored = "stored of a run of 10 cycles"
	if len(others) == 0 {
		figures = append(figures, alone(stored, "kB", []float64{ours.storedOfRun()}, nil))
	}
	for _, o := range others {
		figures = append(figures, against(stored, "kB", []float64{ours.storedOfRun()}, []float64{o.storedOfRun()},
			o.name+" "+o.version, nil))
	}
	return figures
}

func (c *contestant) single() agentTurns   { return c.one }
func (c *contestant) together() agentTurns { return c.many }

// engineProcess is a running program that carries agents. It reads commands, a line each, and answers each with a line
// of JSON: "carry 3" runs three agents at the same time, "bare 3" does what three agents do, without a record.
type engineProcess struct {
	b       *bench
	c       *contestant
	cmd     *exec.Cmd
	stdin   *os.File
	answers *bufio.Reader
	log     *os.File
	server  int // the process id of its own server, or 0
}

// startEngine starts the program and waits until it can run agents.
func (b *bench) startEngine(ctx context.Context, c *contestant) (_ *engineProcess, err error) {
	commands, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer commands.Close()

	e := &engineProcess{b: b, c: c, stdin: stdin}
	e.cmd = exec.CommandContext(context.WithoutCancel(ctx), c.cmd.Path, c.cmd.Args[1:]...)
	e.cmd.Env, e.cmd.Stdin = c.env, commands
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that kill ends its server too
	if e.log, err = os.Create(filepath.Join(c.dir, "log")); err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	e.cmd.Stderr = e.log

	stdout, err := e.cmd.StdoutPipe()
	if err == nil {
		err = e.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), e.log.Close())
	}

	e.answers = bufio.NewReader(stdout)
	var ready struct {
		Version string
		Server  int
	}
	if err := e.answer(ctx, &ready); err != nil {
		return nil, errors.Join(err, e.stop())
	}
	e.server, c.version = ready.Server, ready.Version
	return e, nil
}

// patienceForPeer is how long a program may take to start, or to carry out a command.
const patienceForPeer = 3 * time.Minute

// answer waits for the next answer.
func (e *engineProcess) answer(ctx context.Context, to any) error {
	ctx, cancel := context.WithTimeout(ctx, patienceForPeer)
	defer cancel()
	defer context.AfterFunc(ctx, e.kill)()

	line, err := e.answers.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, to)
	}
	if err != nil {
		log, _ := os.ReadFile(e.log.Name())
		return errors.Join(ctx.Err(), fmt.Errorf("its answer: %w\n%s", err, log[max(0, len(log)-2000):]))
	}
	return nil
}

func (e *engineProcess) command(ctx context.Context, what string, runs int) (took, first time.Duration, err error) {
	if _, err := fmt.Fprintln(e.stdin, what, runs); err != nil {
		return 0, 0, err
	}
	var answer engineAnswer
	err = e.answer(ctx, &answer)
	return seconds(answer.Took), seconds(answer.First), err
}

// engineAnswer says what a command took, in seconds.
type engineAnswer struct {
	Took  float64 `json:"took"`
	First float64 `json:"first"` // until the first call of a model
}

func (e *engineProcess) carry(ctx context.Context, runs int) (took, first time.Duration, err error) {
	return e.command(ctx, "carry", runs)
}

func (e *engineProcess) bare(ctx context.Context) (time.Duration, error) {
	const runs = 100
	took, _, err := e.command(ctx, "bare", runs)
	return took / runs, err
}

func (e *engineProcess) cost(ctx context.Context) (c cost, err error) {
	if c, err = e.c.db.cost(ctx, e.b, e.cmd.Process.Pid); err != nil || !e.c.own {
		return c, err
	}
	if c.postgres, err = processorTime(e.server); err != nil {
		return c, err
	}
	c.worker -= c.postgres // the server is a child of the worker

	c.stored, err = sizeOf(e.c.dir)
	return c, err
}

// sizeOf returns how much the files in a folder take on the disk, in bytes.
func sizeOf(dir string) (bytes float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) { // it was removed just now
			return nil
		}
		if err == nil {
			bytes += float64(info.Size())
		}
		return err
	})
	return bytes, err
}

// kill ends the program, and its server, at once.
func (e *engineProcess) kill() { _ = syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL) }

// stop lets the program end.
func (e *engineProcess) stop() error {
	kill := time.AfterFunc(30*time.Second, e.kill)
	defer kill.Stop()
	err := e.stdin.Close()
	return errors.Join(err, e.cmd.Wait(), e.log.Close())
}

// workerCommand is the argument with which this program is such a program.
const workerCommand = "worker"

// serveAgents is our runtime as such a program.
func serveAgents(ctx context.Context) (err error) {
	s := new(script)
	content, err := os.ReadFile(os.Getenv("PEER_SCRIPT"))
	if err == nil {
		err = json.Unmarshal(content, s)
	}
	if err != nil {
		return err
	}

	a, stop, err := startOurs(ctx, &database{url: os.Getenv("PEER_DATABASE")}, s.ready())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	answers := json.NewEncoder(os.Stdout)
	if err := answers.Encode(struct{}{}); err != nil {
		return err
	}
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		var what string
		var runs int
		if _, err := fmt.Sscan(commands.Text(), &what, &runs); err != nil {
			return fmt.Errorf("command %q: %w", commands.Text(), err)
		}

		var took, first time.Duration
		if what == "bare" {
			took, err = a.bareRuns(ctx, runs)
		} else {
			took, first, err = a.carry(ctx, runs)
		}
		if err == nil {
			err = answers.Encode(engineAnswer{took.Seconds(), first.Seconds()})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
