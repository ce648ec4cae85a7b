//go:build linux

// Command chaos checks that what Actlog acknowledges stays on record. It writes at full rate. In the
// meantime it kills the server, its Postgres and the clients, fills the disk, breaks the network and
// moves the clock. It keeps a ledger of everything that was acknowledged, and at the end it compares
// the ledger with the record. Everything runs on this machine, in one folder.
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

// The exit codes of the program.
const (
	exitDone     = 0
	exitViolated = 1 // also if the check was impossible
	exitUsage    = 2
)

// A scenario replaces the faults.
const (
	scenarioOutage   = "outage"
	scenarioFlood    = "flood"
	scenarioGreedy   = "greedy"
	scenarioRuns     = "runs"
	scenarioFailover = "failover"
)

// config has the options of a run.
type config struct {
	kills    int
	seed     uint64
	writers  int
	rate     int // maximum number of plans that a client starts per second
	duration time.Duration
	actlog   string
	dir      string
	faults   []string
	scenario string
	lasts    time.Duration // duration of a scenario
	between  time.Duration // maximum time from one fault to the next
	memory   int64         // maximum memory of the server and of each client, in bytes

	// For the scenario runs.
	runs    int
	kinds   []kind // of runs
	relaxed bool   // runs of killed workers may go on late, as on a slow machine

	// For the scenario failover.
	ways   []string // in which the primary is replaced
	pooler string   // the mode of a PgBouncer before each node; empty: there is none

	// For the scenario flood.
	connections int           // slow clients
	garbage     int           // garbage requests per second
	within      time.Duration // maximum time until a good client gets its answer; for the scenario greedy, the p99 of it

	// For the scenario greedy.
	scale   float64 // of the attacks and of the record
	attacks []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if spec := os.Getenv(beClient); spec != "" {
		return runClient(ctx, spec, os.Stdin, stderr)
	}
	if path := os.Getenv(beTools); path != "" {
		return runTools(ctx, path, stderr)
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
	f.IntVar(&c.kills, "kills", 200, "number of faults, or of failovers (default of that: 30)")
	f.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "seed of the faults and their times")
	f.IntVar(&c.writers, "writers", 4, "writers in each of the four clients")
	f.IntVar(&c.rate, "rate", 30, "maximum number of plans that each client starts per second; all of them are read back")
	f.DurationVar(&c.duration, "duration", time.Hour, "inject no more faults after this time")

	f.StringVar(&c.actlog, "actlog", "", "actlog program to test (default: build it)")
	f.StringVar(&c.dir, "dir", "", "empty folder to work in, which is kept (default: a temporary one, which is removed)")
	names := f.String("faults", strings.Join(faultNames(), ","), "kinds of faults; disk needs root, for a mount")
	f.StringVar(&c.scenario, "scenario", "",
		"run a scenario instead of faults; outage: Postgres is frozen, then dead; flood: slow clients and garbage; "+
			"greedy: clients that take all they can get; runs: faults beside runs of agents; failover: the primary of a "+
			"pair of Postgres is replaced")

	f.IntVar(&c.runs, "runs", 300, "runs of agents in the scenario runs")
	f.DurationVar(&c.lasts, "lasts", time.Minute,
		"duration of the outage or flood, or of each attack of greedy clients (default of that: 15s)")
	f.IntVar(&c.connections, "connections", 2000, "slow clients in a flood")
	f.IntVar(&c.garbage, "garbage", 10_000, "garbage requests per second in a flood")
	f.DurationVar(&c.within, "within", 5*time.Second,
		"maximum time until good clients get an answer in a flood; beside greedy clients, until 99 of 100 do (default of "+
			"that: 250ms)")

	f.DurationVar(&c.between, "between", time.Second, "maximum time from one fault to the next")
	f.Int64Var(&c.memory, "memory", 512<<20,
		"maximum memory of the server and of each client, in bytes; beside greedy clients, of the server (default of "+
			"that: 600 MiB)")
	short := f.Bool("short", false,
		"for slow machines, no strict limit of time: greedy clients at a twentieth of the scale, for 1s each; 15 runs "+
			"with 11 faults, and an outage of 4s; 3 failovers")

	ways := f.String("ways", strings.Join(failoverNames(), ","), "ways in which the primary of a pair is replaced")
	f.StringVar(&c.pooler, "pooler", "",
		"put a PgBouncer before each node of a pair, in this mode: session or transaction")
	chosen := f.String("attacks", strings.Join(attackNames(), ","), "attacks of greedy clients")
	if err := f.Parse(args); err != nil {
		return c, err
	}

	if c.scenario != "" {
		*names = ""
	}

	set := map[string]bool{}
	f.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if c.scenario == scenarioGreedy {
		c.scale = 1
		lasts, within := 15*time.Second, 250*time.Millisecond
		if *short {
			c.scale = 0.05
			lasts, within = time.Second, 5*time.Second
		}

		if !set["lasts"] {
			c.lasts = lasts
		}
		if !set["within"] {
			c.within = within
		}
		if !set["memory"] {
			c.memory = 600 << 20
		}
	}

	if c.scenario == scenarioRuns && *short {
		c.runs, c.kills = 15, 11
		c.lasts, c.relaxed = 4*time.Second, true
	}

	c.kinds = kinds
	if c.scenario == scenarioRuns {
		c.kinds = append(slices.Clone(kinds), waiting, told)
	}
	if c.scenario == scenarioFailover {
		kills, rate := 30, c.rate
		if *short {
			kills, rate = 3, 4
			c.kinds = kinds[:4]
			if !set["ways"] {
				*ways = "cut,kill,switch"
			}
		}

		if !set["kills"] {
			c.kills = kills
		}
		if !set["rate"] {
			c.rate = rate
		}
	}

	for name := range strings.SplitSeq(*ways, ",") {
		if failovers[name] == nil {
			return c, fmt.Errorf("-ways %s: no such way; the ways are %s", name, strings.Join(failoverNames(), ", "))
		}
		c.ways = append(c.ways, name)
	}
	for name := range strings.SplitSeq(*chosen, ",") {
		if !slices.Contains(attackNames(), name) {
			return c, fmt.Errorf("-attacks %s: no such attack; the attacks are %s", name, strings.Join(attackNames(), ", "))
		}
		c.attacks = append(c.attacks, name)
	}
	for name := range strings.SplitSeq(*names, ",") {
		if name == "" {
			continue
		}
		if faults[name] == nil {
			return c, fmt.Errorf("-faults %s: no such fault; the faults are %s", name, strings.Join(faultNames(), ", "))
		}
		c.faults = append(c.faults, name)
	}

	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("%q is not a flag", f.Arg(0))
	case c.scenario != "" && !slices.Contains([]string{
		scenarioOutage, scenarioFlood, scenarioGreedy, scenarioRuns, scenarioFailover,
	}, c.scenario):
		return c, fmt.Errorf("-scenario %s: no such scenario; the scenarios are outage, flood, greedy, runs and failover",
			c.scenario)
	case !slices.Contains([]string{"", poolSessions, poolTransactions}, c.pooler):
		return c, fmt.Errorf("-pooler %s: no such mode; the modes are session and transaction", c.pooler)
	case c.scenario == "" && len(c.faults) == 0:
		return c, errors.New("-faults is empty")
	case c.kills < 0 || c.runs < 1 || c.writers < 1 || c.rate < 1 || c.duration <= 0 || c.lasts <= 0 ||
		c.connections < 1 || c.garbage < 1 || c.within <= 0 || c.between <= 0:
		return c, errors.New("numbers and durations must be more than 0")
	}
	return c, nil
}

// run prepares a folder, runs the test in it and cleans up.
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
		if output, err := build.CombinedOutput(); err != nil {
			return false, fmt.Errorf("build actlog: %w\n%s", err, output)
		}
	}
	if c.dir != "" {
		if dir, err = filepath.Abs(c.dir); err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		if entries, readErr := os.ReadDir(dir); err != nil || readErr != nil || len(entries) > 0 {
			return false, errors.Join(fmt.Errorf("-dir %s must be an empty folder", dir), err, readErr)
		}
	} else if err := os.Chmod(dir, 0o755); err != nil { // Postgres may have to run as another user
		return false, err
	}

	if c.scenario == scenarioGreedy {
		return c.greedy(ctx, dir, out)
	}
	if c.scenario == scenarioRuns {
		violated, err := c.agentRuns(ctx, dir, out)
		if keep = violated && c.dir == ""; keep {
			fmt.Fprintf(out, "the logs, the effects and the database are in %s\n", dir)
		}
		return violated, err
	}

	d, err := newDriver(c, dir, out)
	if err != nil {
		return false, err
	}
	if slices.Contains(c.faults, diskFault) {
		if err := mountDisk(d.server.dataDir); err != nil {
			return false, fmt.Errorf("mount a small disk: %w: the disk cannot be filled here; use -faults without %s", err,
				diskFault)
		}
		defer func() { err = errors.Join(err, d.server.keepLog(), unmountDisk(d.server.dataDir)) }()
	}

	what := fmt.Sprintf("%d faults of %s", c.kills, strings.Join(c.faults, ", "))
	switch c.scenario {
	case scenarioOutage:
		what = fmt.Sprintf("postgres is down for %s, twice", c.lasts)
	case scenarioFailover:
		what = fmt.Sprintf("%d failovers", c.kills)
	case scenarioFlood:
		what = fmt.Sprintf("%d slow clients and %d garbage requests per second for %s", c.connections, c.garbage, c.lasts)
	}
	d.say("chaos: %s, seed %d, in %s", what, c.seed, dir)
	if c.scenario == scenarioFailover {
		if err := d.onPair(ctx); err != nil {
			return false, err
		}
		defer d.pair.close()
	}

	err = d.run(ctx)
	d.report()
	d.repeat()
	violated = len(d.violations) > 0
	if keep = violated && c.dir == ""; keep {
		d.say("the logs and ledgers are in %s", dir)
	}
	return violated, err
}

// inNamespace is an environment variable. It is set if this process has its own mounts.
const inNamespace = "ACTLOG_CHAOS_NAMESPACE"

// enterNamespace runs this program again in a mount namespace of its own. No other program sees its
// mounts, and they end with it.
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
	// SIGTERM, because it needs some time to stop its children cleanly.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Run()

	var exit *exec.ExitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	fmt.Fprintf(stderr, "chaos: run with mounts of its own: %v; the disk cannot be filled here; use -faults without %s\n",
		err, diskFault)
	return exitViolated
}
