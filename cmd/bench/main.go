// Command bench measures the speed and size that Actlog promises. Where possible, a figure is a
// ratio: ours and what it is compared with are measured by turns in the same run, on the same
// private Postgres, which is as durable as that of actlog serve. docs/performance.md explains each
// figure.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The exit codes of the program. A figure that misses its target is not a failure, because this is
// a benchmark and not a test.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// group is a set of figures that are measured together.
type group struct {
	name    string
	what    string
	measure func(context.Context, *bench) ([]figure, error)
}

var groups = []group{
	{"write", "a Recorder in process, against COPY", measureWrite},
	{"http", "records over HTTP, against COPY", measureHTTP},
	{"content", "conversations whose prompts repeat, against COPY and against whole texts", measureContent},
	{"side", "runs side by side, and small requests, against COPY", measureSide},
	{"traces", "traces over OTLP/HTTP, against COPY", measureTraces},
	{"growing", "a trace that grows, against its first spans", measureGrowing},
	{"tree", "a large tree, against the statements of the Java original", measureTree},
	{"read", "both reads over HTTP, against a row by its key", measureRead},
	{"large", "a plan of 10,000 steps, and a list of a million plans", measureLarge},
	{"search", "a search among a million plans", measureSearch},
	{"textsearch", "a search in what conversations say", measureTextSearch},
	{"growth", "reads and writes as the record grows a hundredfold", measureGrowth},
	{"call", "one call of a Recorder, against a commit of one row", measureCall},
	{"report", "the questions of docs/reporting.md, on 3 and on 10 million rows", measureReport},
	{"retention", "dropping a partition of a million tool calls", measureRetention},
	{"servers", "four servers of one database, against one", measureServers},
	{"replica", "lists, searches and charts at a replica, against the primary", measureReplica},
	{"live", "from the commit to those who follow plans", measureLive},
	{"page", "runs of many rows in Chromium", measurePage},
	{"run", "the runtime: claims, boundaries, waiting, rebuilding", measureRun},
	{"memory", "the memory of actlog serve", measureMemory},
	{groupPeers, "agents on our runtime, against those of others, which it installs", measurePeers},
}

// groupPeers is measured only when it is asked for, because it installs programs.
const groupPeers = "peers"

func groupNames() (names []string) {
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

// config has the options of a run.
type config struct {
	scale      float64
	texts      int
	repeats    int
	seed       uint64
	groups     []string
	json       string
	dir        string
	actlog     string
	reporting  string
	peersDir   string
	major      int
	cpuProfile string
	memProfile string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if slices.Equal(args, []string{workerCommand}) {
		if err := serveAgents(ctx); err != nil {
			fmt.Fprintf(stderr, "bench: %v\n", err)
			return exitFailed
		}
		return exitDone
	}

	c, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitUsage
	}

	if err := c.run(ctx, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitFailed
	}
	return exitDone
}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)

	f.Float64Var(&c.scale, "scale", 1, "factor for the amounts of data; targets are for 1")
	f.IntVar(&c.texts, "texts", 0,
		"runs among which textsearch searches while others write (default: 300,000, times the scale)")
	f.IntVar(&c.repeats, "repeats", 5, "number of measurements per figure, without the warm-up")
	f.Uint64Var(&c.seed, "seed", 1, "seed of the texts")

	usual := slices.DeleteFunc(groupNames(), func(name string) bool { return name == groupPeers })
	names := f.String("bench", strings.Join(usual, ","), "groups of figures to measure; "+groupPeers+" is one more")
	f.StringVar(&c.json, "json", "", "file to write the figures to, as JSON")
	f.StringVar(&c.dir, "dir", "",
		"empty folder for the data (default: a temporary one); it must be on a disk, because durable writes are measured")

	f.IntVar(&c.major, "postgres", 0,
		"major version of Postgres, which is downloaded if it is not installed (default: the newest that is installed)")
	f.StringVar(&c.actlog, "actlog", "", "actlog program whose memory is measured (default: build it)")
	f.StringVar(&c.reporting, "reporting", "docs/reporting.md", "page whose queries are measured")
	f.StringVar(&c.peersDir, "peers", "cmd/bench/peers", "folder with the programs of the group peers")

	f.StringVar(&c.cpuProfile, "cpuprofile", "", "file for the CPU profile; its label side is ours or beside")
	f.StringVar(&c.memProfile, "memprofile", "", "file for the profile of allocations")

	if err := f.Parse(args); err != nil {
		return c, err
	}
	for name := range strings.SplitSeq(*names, ",") {
		if !slices.Contains(groupNames(), name) {
			return c, fmt.Errorf("-bench %s: no such group; the groups are %s", name, strings.Join(groupNames(), ", "))
		}
		c.groups = append(c.groups, name)
	}

	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("%q is not a flag", f.Arg(0))
	case c.scale <= 0 || c.scale > 100:
		return c, fmt.Errorf("-scale must be more than 0 and at most 100, not %v", c.scale)
	case c.texts < 0:
		return c, fmt.Errorf("-texts must be at least 0, not %d", c.texts)
	case c.major < 0:
		return c, fmt.Errorf("-postgres must be a major version such as 17, not %d", c.major)
	case c.repeats < 1:
		return c, fmt.Errorf("-repeats must be at least 1, not %d", c.repeats)
	}

	return c, nil
}

// run measures the figures and prints them.
func (c config) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "actlog-bench-"); err != nil {
			return err
		}
		defer func(temporary string) { err = errors.Join(err, os.RemoveAll(temporary)) }(c.dir)
		if err := os.Chmod(c.dir, 0o755); err != nil { // Postgres may have to run as another user
			return err
		}
	} else if entries, err := os.ReadDir(c.dir); err != nil || len(entries) > 0 {
		return errors.Join(fmt.Errorf("-dir %s must be an empty folder", c.dir), err)
	}

	stop, err := c.profile()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	b, err := newBench(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()

	r := report{Machine: b.machine, Scale: c.scale, Repeats: c.repeats}
	fmt.Fprintf(stderr, "bench: %s; scale %v, %d repeats\n", b.machine, c.scale, c.repeats)
	var failed error // the other groups are still shown
	for _, g := range groups {
		if !slices.Contains(c.groups, g.name) || ctx.Err() != nil {
			continue
		}

		start := time.Now()
		fmt.Fprintf(stderr, "bench: %s: %s ", g.name, g.what)
		figures, err := g.measure(ctx, b)
		fmt.Fprintf(stderr, "(%.0f s)\n", time.Since(start).Seconds())
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", g.name, err))
			continue
		}

		for i := range figures {
			figures[i].Group = g.name
		}
		r.Figures = append(r.Figures, figures...)
	}

	return errors.Join(failed, ctx.Err(), r.table(stdout), c.writeJSON(r))
}

func (c config) writeJSON(r report) error {
	if c.json == "" {
		return nil
	}
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(c.json, append(encoded, '\n'), 0o644)
}

// profile starts the requested profiles. stop writes them.
func (c config) profile() (stop func() error, err error) {
	var cpu *os.File
	if c.cpuProfile != "" {
		if cpu, err = os.Create(filepath.Clean(c.cpuProfile)); err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(cpu); err != nil {
			return nil, errors.Join(err, cpu.Close())
		}
	}

	return func() error {
		var errs []error
		if cpu != nil {
			pprof.StopCPUProfile()
			errs = append(errs, cpu.Close())
		}
		if c.memProfile != "" {
			f, err := os.Create(filepath.Clean(c.memProfile))
			if err == nil {
				runtime.GC() // updates the statistics
				err = errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}, nil
}
