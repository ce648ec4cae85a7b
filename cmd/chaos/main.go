//go:build linux

// Command chaos proves that what Actlog acknowledges stays on record. It writes at
// full rate while it kills the server, its Postgres and the clients, fills the
// disk, breaks the network and moves the clock; it keeps a ledger of what was
// acknowledged, and compares at the end. All of it is on this machine, in a folder
// of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The program's exit codes.
const (
	exitDone     = 0
	exitViolated = 1 // or it could not be told
	exitUsage    = 2
)

// Scenarios are runs of their own.
const (
	scenarioOutage = "outage"
	scenarioFlood  = "flood"
)

// config is what a run consists of.
type config struct {
	kills    int
	seed     uint64
	writers  int
	rate     int // of plans that a client starts in a second, at most
	duration time.Duration
	actlog   string
	dir      string
	faults   []string
	scenario string
	lasts    time.Duration // a scenario
	between  time.Duration // at most, from one fault to the next
	memory   int64         // bytes that the server may take

	connections int           // of slow clients in a flood
	garbage     int           // requests a second in a flood
	within      time.Duration // is how soon good clients are answered in a flood
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. It gives the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if spec := os.Getenv(beClient); spec != "" {
		return runClient(ctx, spec, os.Stdin, stderr)
	}
	c, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "chaos: %v\n", err)
		return exitUsage
	}
	if slices.Contains(c.faults, diskFault) && os.Getenv(inNamespace) == "" {
		return enterNamespace(ctx, args, stdout, stderr)
	}
	violated, err := c.run(ctx, stdout)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "chaos: %v\n", err)
		return exitViolated
	case violated:
		return exitViolated
	}
	return exitDone
}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&c.kills, "kills", 200, "how many faults")
	f.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "of what happens, and when")
	f.IntVar(&c.writers, "writers", 4, "that each of the four clients has")
	f.IntVar(&c.rate, "rate", 30, "plans that each client starts in a second, at most: all of them are read back")
	f.DurationVar(&c.duration, "duration", time.Hour, "after which no more faults are injected")
	f.StringVar(&c.actlog, "actlog", "", "the program to break (default: it is built)")
	f.StringVar(&c.dir, "dir", "", "an empty folder to work in, which is kept (default: one that is removed)")
	names := f.String("faults", strings.Join(faultNames(), ","), "which; disk needs root, for a mount")
	f.StringVar(&c.scenario, "scenario", "", "instead of faults; outage: Postgres is away, frozen, and then dead; flood: slow clients and garbage come in")
	f.DurationVar(&c.lasts, "lasts", time.Minute, "how long what the scenario is about lasts")
	f.IntVar(&c.connections, "connections", 2000, "of slow clients in a flood")
	f.IntVar(&c.garbage, "garbage", 10_000, "requests of garbage a second in a flood")
	f.DurationVar(&c.within, "within", 5*time.Second, "how soon good clients have to be answered in a flood")
	f.DurationVar(&c.between, "between", time.Second, "at most, from one fault to the next")
	f.Int64Var(&c.memory, "memory", 512<<20, "bytes that the server, and each client, may take")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if c.scenario != "" {
		*names = ""
	}
	for name := range strings.SplitSeq(*names, ",") {
		if name == "" {
			continue
		}
		if faults[name] == nil {
			return c, fmt.Errorf("-faults %s: there is none of that name, there are %s", name, strings.Join(faultNames(), ", "))
		}
		c.faults = append(c.faults, name)
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("%q is no flag", f.Arg(0))
	case c.scenario != "" && c.scenario != scenarioOutage && c.scenario != scenarioFlood:
		return c, fmt.Errorf("-scenario %s: there are outage and flood", c.scenario)
	case c.scenario == "" && len(c.faults) == 0:
		return c, errors.New("-faults names none")
	case c.kills < 0 || c.writers < 1 || c.rate < 1 || c.duration <= 0 || c.lasts <= 0 || c.connections < 1 || c.garbage < 1 || c.within <= 0 || c.between <= 0:
		return c, errors.New("numbers and durations must be more than 0")
	}
	return c, nil
}

// run prepares a folder, runs there and cleans up.
func (c config) run(ctx context.Context, out io.Writer) (violated bool, err error) {
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return false, err
	}
	keep := false
	defer func(temporary string) {
		if !keep {
			err = errors.Join(err, os.RemoveAll(temporary))
		}
	}(dir)
	if c.actlog == "" {
		c.actlog = filepath.Join(dir, "actlog")
		build := exec.CommandContext(ctx, "go", "build", "-o", c.actlog, "github.com/actlog/actlog/cmd/actlog")
		if said, err := build.CombinedOutput(); err != nil {
			return false, fmt.Errorf("building actlog: %w\n%s", err, said)
		}
	}
	if c.dir != "" {
		if dir, err = filepath.Abs(c.dir); err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		if entries, readErr := os.ReadDir(dir); err != nil || readErr != nil || len(entries) > 0 {
			return false, errors.Join(fmt.Errorf("-dir %s must be an empty folder", dir), err, readErr)
		}
	} else if err := os.Chmod(dir, 0o755); err != nil { // Postgres may have to be another user
		return false, err
	}
	d, err := newDriver(c, dir, out)
	if err != nil {
		return false, err
	}
	if slices.Contains(c.faults, diskFault) {
		if err := mountDisk(d.server.dataDir); err != nil {
			return false, fmt.Errorf("mounting a small disk: %w: the disk cannot be filled here; -faults without %s leaves it out", err, diskFault)
		}
		defer func() { err = errors.Join(err, d.server.keepLog(), unmountDisk(d.server.dataDir)) }()
	}
	what := fmt.Sprintf("%d faults of %s", c.kills, strings.Join(c.faults, ", "))
	switch c.scenario {
	case scenarioOutage:
		what = fmt.Sprintf("postgres is away for %s, twice", c.lasts)
	case scenarioFlood:
		what = fmt.Sprintf("%d slow clients and %d requests of garbage a second for %s", c.connections, c.garbage, c.lasts)
	}
	d.say("chaos: %s, seed %d, in %s", what, c.seed, dir)
	err = d.run(ctx)
	d.report()
	violated = len(d.violations) > 0
	if keep = violated && c.dir == ""; keep {
		d.say("the logs and ledgers are in %s", dir)
	}
	return violated, err
}

// inNamespace says that this process has mounts of its own.
const inNamespace = "ACTLOG_CHAOS_NAMESPACE"

// enterNamespace runs this program again where its mounts are seen by nobody else,
// and end with it.
func enterNamespace(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintf(stderr, "chaos: %v\n", err)
		return exitViolated
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	// It ends its children in good order, which takes a while.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	fmt.Fprintf(stderr, "chaos: running with mounts of its own: %v; the disk cannot be filled here; -faults without %s leaves it out\n", err, diskFault)
	return exitViolated
}
