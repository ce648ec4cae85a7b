package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor"
	"github.com/actlog/actlog/internal/runtime/parts"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Options of [Open]. The zero value is ready to use.
type Options struct {
	// Logger receives what no call can return: workers, retries, upkeep, and what MCP servers write to
	// their standard error. Secrets, and what the redaction matches, are replaced. Default: nothing is logged.
	Logger *slog.Logger
	// Release is the version of the program. It stands on record with each run that it starts. A run whose code has
	// changed since is taken by workers of the release on which it last went on.
	Release string
	// Slots is how many runs a worker carries at once. Default 500: most of them wait for a model.
	Slots int
	// MaxTakeovers is how many workers in a row a run may lose, killed or cut off, without a result on record in between.
	// Then it has failed. A configuration may say otherwise. Default 5.
	MaxTakeovers int
	// Drain is how long [Runtime.Work] waits, when it is to stop, for what its runs are doing. Default 20 s.
	Drain time.Duration
	// MaxConns bounds the pool of connections to Postgres. Default 20, at least 4. Up to 4 connections
	// beside it listen and notify.
	MaxConns int
}

func (o Options) check() error {
	switch {
	case o.Slots < 0:
		return errors.New("slots: must not be negative")
	case o.MaxTakeovers < 0:
		return errors.New("maxTakeovers: must not be negative")
	case o.Drain < 0:
		return errors.New("drain: must not be negative")
	case o.MaxConns < 0 || 0 < o.MaxConns && o.MaxConns < leastConns:
		return fmt.Errorf("maxConns: must be at least %d", leastConns)
	}
	return nil
}

const leastConns = 4

// Runtime runs agents on one Postgres. Its methods may be called at the same time. After
// [Runtime.Close] their errors wrap [record.ErrClosed].
type Runtime struct {
	store  *runstore.Store
	upkeep *upkeep.Upkeep
	engine *engine.Engine
	watch  *runs.Watch
	source *parts.Source // of what is registered

	mu      sync.Mutex
	own     parts.Own            // what is registered
	redact  []string             // of which own has the redactor
	current define.Configuration // nil: none is registered
	working bool                 // Work has been called
	closed  bool
	calls   int           // under way
	idle    chan struct{} // closed when there are none after Close

	ending context.Context // ends with Close
	end    context.CancelFunc
}

// Open connects to the database, a postgres:// URL or a keyword/value string, and brings the schema up to
// date, as actlog serve does; where it is up to date, no right to change it is needed. It also keeps the
// record within its bounds, as any server on the database does. The error wraps [record.ErrUnavailable] if
// Postgres does not answer. The caller closes the Runtime.
func Open(ctx context.Context, databaseURL string, o Options) (*Runtime, error) {
	r, err := open(ctx, databaseURL, o)
	if err != nil {
		return nil, fmt.Errorf("open the runtime: %w", err)
	}
	return r, nil
}

func open(ctx context.Context, databaseURL string, o Options) (_ *Runtime, err error) {
	if databaseURL == "" { // the driver would connect to its local default, and we would migrate that
		return nil, errors.New("the database URL is required")
	}
	if err := o.check(); err != nil {
		return nil, err
	}

	r := &Runtime{source: parts.NewSource(cmp.Or(o.Logger, slog.New(slog.DiscardHandler))), idle: make(chan struct{})}
	o.Logger = r.source.Log()
	m, err := store.NewMigrator(ctx, databaseURL, o.Logger)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(m.Up(ctx), m.Close()); err != nil {
		return nil, err
	}

	s, err := store.Open(ctx, store.Config{DatabaseURL: databaseURL, Logger: o.Logger, MaxConns: o.MaxConns})
	if err != nil {
		return nil, err
	}
	r.store = runstore.New(s)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.store.Close(ctx))
		}
	}()

	r.engine, err = engine.New(engine.Config{
		Store: r.store, Executors: executor.All(r.source.Function), Parts: r.source.Use, Watcher: r.store.Deltas(),
		Logger: o.Logger, Release: o.Release, Slots: o.Slots, Drain: o.Drain, MaxTakeovers: o.MaxTakeovers,
	})
	if err != nil {
		return nil, err
	}
	if r.upkeep, err = upkeep.Start(ctx, s, upkeep.Config{Logger: o.Logger}); err != nil {
		return nil, err
	}

	r.watch = runs.NewWatch(r.store.Feed())
	r.ending, r.end = context.WithCancel(context.Background())
	return r, nil
}

// during makes a call, unless the Runtime is closed. Its error begins with what was being done.
func (r *Runtime) during(call func() error, what string, args ...any) error {
	err := r.enter()
	if err == nil {
		defer r.leave()
		err = call()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", fmt.Sprintf(what, args...), err)
	}
	return nil
}

// enter begins a call, which ends with leave. The error says that the Runtime is closed.
func (r *Runtime) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return record.ErrClosed
	}
	r.calls++
	return nil
}

func (r *Runtime) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls--; r.closed && r.calls == 0 {
		close(r.idle)
	}
}

// Work makes this process a worker: it claims runs and carries them until ctx ends, or the Runtime is
// closed. Then it claims no more, lets each run finish its call for up to [Options.Drain], hands them back,
// so that other workers go on with them at once, and returns. If the process is killed instead, others go on
// within seconds.
//
// One call is enough for a process: it carries [Options.Slots] runs at once. While Postgres is away, it
// waits.
func (r *Runtime) Work(ctx context.Context) error {
	if err := r.enter(); err != nil {
		return fmt.Errorf("work: %w", err)
	}
	defer r.leave()

	r.mu.Lock()
	r.working = true
	r.mu.Unlock()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ending, cancel)()
	return r.engine.Work(ctx)
}

// Metrics returns what the work of this process is counted by, for a registry of Prometheus, after everything
// was registered: runs, models, tools and the configuration. They are those of actlog work.
func (r *Runtime) Metrics() []prometheus.Collector {
	return append(r.engine.Metrics(), r.source.Metrics()...)
}

// Close ends the work, as the end of the context of [Runtime.Work] does, and the calls that wait. Then it
// disconnects. If ctx ends before the runs have been handed back, it disconnects nevertheless: others take
// them over after a few seconds. So while Work is under way, ctx must not have ended. A [Configuration]
// that was registered stays the caller's to close.
func (r *Runtime) Close(ctx context.Context) error {
	if !r.shut() {
		return nil
	}

	r.end()
	r.watch.Close()

	var err error
	select {
	case <-r.idle:
	default:
		select {
		case <-r.idle:
		case <-ctx.Done():
			err = fmt.Errorf("runs were not handed back: %w", context.Cause(ctx))
		}
	}

	r.upkeep.Close()
	// Nothing is in the queue of the store: runs are written past it.
	if err = errors.Join(err, r.source.Close(), r.store.Close(context.WithoutCancel(ctx))); err != nil {
		return fmt.Errorf("close the runtime: %w", err)
	}
	return nil
}

// shut lets no call enter any more. It reports whether it was open until now.
func (r *Runtime) shut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.closed {
		return false
	}
	if r.closed = true; r.calls == 0 {
		close(r.idle)
	}
	return true
}
