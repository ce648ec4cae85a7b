package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/config"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor"
	"github.com/actlog/actlog/internal/runtime/parts"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// runtimeFlags say how agents are run.
type runtimeFlags struct {
	Config string        `help:"File of the models, tools and agents that runs use; reloaded on SIGHUP." placeholder:"FILE" type:"path"`
	Slots  int           `help:"How many runs a worker carries at once." default:"500"`
	Drain  time.Duration `help:"How long workers that stop wait for what their runs are doing." default:"20s"`
}

func (f *runtimeFlags) validate() error {
	if f.Slots < 1 || f.Drain < 0 {
		return usageError("--slots must be at least 1, --drain not negative")
	}
	return nil
}

// workers returns how many workers to start: by default as many as there are processors, if there is
// something to run.
func (f *runtimeFlags) workers(asked int) int {
	switch {
	case asked >= 0:
		return asked
	case f.Config == "":
		return 0
	}
	return runtime.NumCPU()
}

// agents are the engine of a process, its workers and what their runs use.
type agents struct {
	engine  *engine.Engine // nil before start
	source  *parts.Source
	current *config.Current             // nil: there is no configuration
	store   atomic.Pointer[store.Store] // nil before start
	log     *slog.Logger

	ctx     context.Context // ends when the workers stop
	stop    context.CancelFunc
	running sync.WaitGroup
}

// openAgents reads the configuration, and again on SIGHUP. No program that a tool starts in a sandbox reaches what is
// in hide. The caller starts the workers and closes what it returns.
func openAgents(f *runtimeFlags, hide []string, log *slog.Logger) (_ *agents, err error) {
	a := &agents{source: parts.NewSource(log)}
	a.log = a.source.Log()
	a.ctx, a.stop = context.WithCancel(context.Background())
	if f.Config == "" {
		return a, nil
	}

	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()

	if a.current, err = config.Open(f.Config, config.Options{Hide: hide}); err != nil {
		return nil, err
	}
	a.source.Set(a.current, parts.Own{})
	if err := a.warn(); err != nil {
		return nil, err
	}

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	a.running.Go(func() {
		defer signal.Stop(signals)
		a.reload(signals)
	})
	return a, nil
}

func (a *agents) start(f *runtimeFlags, s *runstore.Store, workers int) (err error) {
	if a.current != nil {
		a.current.StoreVectors(s)
		a.store.Store(s.Store)
		if err := a.warnUnpriced(); err != nil {
			return err
		}
	}

	a.engine, err = engine.New(engine.Config{
		Store: s, Executors: executor.All(a.source.Function), Parts: a.source.Use, Watcher: s.Deltas(),
		Logger: a.log, Release: strings.TrimPrefix(version(), "actlog "), Slots: f.Slots, Drain: f.Drain,
	})
	if err != nil {
		return err
	}

	a.running.Go(func() { a.engine.KeepTime(a.ctx) })
	for range workers {
		a.running.Go(func() {
			if err := a.engine.Work(a.ctx); err != nil {
				a.log.Error("a worker could not start", "error", err)
			}
		})
	}
	return nil
}

// secretFiles are what tools are not to reach: the data folder, and the keys.
func secretFiles(d databaseFlags, g guardFlags) []string {
	return slices.DeleteFunc([]string{d.DataDir, g.APIKeys}, func(path string) bool { return path == "" })
}

// register lets a server show the metrics of the engine and its configuration.
func (a *agents) register(server *httpd.Server) {
	server.Register(a.engine.Metrics()...)
	server.Register(a.source.Metrics()...)
}

// look calls see with the configuration that is in force.
func (a *agents) look(see func(*config.Config)) error {
	p, release, err := a.current.Use()
	if err != nil {
		return err
	}
	defer release()
	see(p.Config)
	return nil
}

// warn logs what is odd in the configuration, and what this machine does not protect.
func (a *agents) warn() error {
	return a.look(func(c *config.Config) {
		for _, w := range c.Warnings {
			a.log.Warn("configuration", "warning", w)
		}
		for _, line := range c.Unprotected() {
			a.log.Warn("what tools can reach", "warning", line)
		}
	})
}

// warnUnpriced logs which limits of cost are on models without a price, once there is a database to look prices up in.
func (a *agents) warnUnpriced() error {
	s := a.store.Load()
	if s == nil {
		return nil
	}

	priced := func(provider, model string) bool { return s.Priced(provider, model, time.Now()) }
	return a.look(func(c *config.Config) {
		for _, line := range c.Unpriced(priced) {
			a.log.Warn("configuration", "warning", line)
		}
	})
}

// startsPrograms reports whether tools start programs on this machine.
func (a *agents) startsPrograms() (starts bool, err error) {
	if a.current == nil {
		return false, nil
	}

	err = a.look(func(c *config.Config) {
		starts = len(c.Toolsets.Tests) > 0
		for _, server := range c.MCPServers {
			starts = starts || len(server.Command) > 0
		}
	})
	return starts, err
}

// reload reads the configuration again on SIGHUP. If it has mistakes, the one before stays. Runs keep
// what they began with.
func (a *agents) reload(signals <-chan os.Signal) {
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-signals:
		}

		if err := a.current.Reload(); err != nil {
			a.log.Error("could not reload the configuration; the one before stays in force", "error", err)
			continue
		}
		a.log.Info("reloaded the configuration")
		if err := errors.Join(a.warn(), a.warnUnpriced()); err != nil {
			return
		}
	}
}

// close hands the runs back and gives up what they used.
func (a *agents) close() error {
	a.stop()
	a.running.Wait()
	err := a.source.Close()
	if a.current != nil {
		a.current.Close()
	}
	return err
}
