package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/actlog/actlog/internal/door/api"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

type workCmd struct {
	runtimeFlags
	Workers  int    `help:"How many workers to start. Default: as many as there are processors." default:"-1" env:"ACTLOG_WORKER_COUNT"`
	Attached bool   `help:"Stop when stdin ends." hidden:"" env:"-"`
	Listen   string `help:"Address for health checks and metrics. Default: none." placeholder:"HOST:PORT" env:"ACTLOG_WORKER_LISTEN"`
	guardFlags
	waitFlags
	poolerFlags
	databaseFlags
}

func (*workCmd) Help() string {
	return `Runs agents on the record of a server: actlog serve --workers 0 on one machine, actlog work on
others. All use the same database and the same configuration. When a worker dies, others go on with its
runs. A worker waits until the database is there and a server has migrated it.`
}

func (c *workCmd) Run(ctx context.Context, e *env) (err error) {
	switch {
	case c.DatabaseURL == "":
		return usageError("work needs --database-url: the database of the server")
	case c.Config == "":
		return usageError("work needs --config: what the runs use")
	}
	if err := c.validate(); err != nil {
		return err
	}

	if c.Attached {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, e.stdin) // an error is an end, too
			stop()
		}()
	}

	w := &work{cmd: c, env: e, failed: make(chan error, 1)}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.start(ctx); err != nil {
		if ctx.Err() != nil {
			e.log.Info("stopped before it was ready", "error", err)
			return nil
		}
		return err
	}

	select {
	case <-ctx.Done():
		e.log.Info("stopping")
		return nil
	case err := <-w.failed:
		return fmt.Errorf("serve: %w", err)
	}
}

// work is a process that runs agents, and may serve health checks and metrics.
type work struct {
	cmd    *workCmd
	env    *env
	agents *agents
	store  *runstore.Store

	door     *httpd.Listener // nil: none
	server   *httpd.Server
	hangups  chan os.Signal
	stopKeys func()
	failed   chan error
}

// start checks what it was given, listens, and waits until the database is there and migrated.
func (w *work) start(ctx context.Context) (err error) {
	c, log := w.cmd, w.env.log
	waiting := c.waiting(log)
	hide := secretFiles(c.databaseFlags, c.guardFlags)
	if c.Attached { // the folder of the demo's agents is in the data folder
		hide = []string{c.folder()}
	}

	if w.agents, err = openAgents(&c.runtimeFlags, hide, log); err != nil {
		return err
	}
	if c.Listen != "" {
		if err := w.open(ctx, waiting.reason); err != nil {
			return err
		}
	}

	err = waiting.until(ctx, func(ctx context.Context) error {
		s, err := store.Open(ctx, store.Config{DatabaseURL: c.DatabaseURL, DirectURL: c.DirectURL, Logger: log})
		if err == nil {
			w.store = runstore.New(s)
		}
		return err
	})
	if err != nil {
		return err
	}

	n := c.workers(c.Workers)
	if err := w.agents.start(&c.runtimeFlags, w.store, n); err != nil {
		return err
	}
	if w.door != nil {
		w.ready()
	}
	fmt.Fprintf(w.env.stderr, "actlog runs agents with %d workers\n", n)
	return nil
}

// maxProbes bounds the connections of who asks for health and metrics.
const maxProbes = 100

// open serves health checks and metrics of a worker that waits.
func (w *work) open(ctx context.Context, why func() error) error {
	config, err := w.cmd.guard()
	if err != nil {
		return err
	}
	if w.door, err = w.cmd.listen(ctx, listenFlag, w.cmd.Listen); err != nil {
		return err
	}

	w.hangups = make(chan os.Signal, 1)
	if w.cmd.APIKeys != "" {
		signal.Notify(w.hangups, syscall.SIGHUP)
	}

	config.Logger, config.Version = w.env.log, serverVersion()
	w.server = httpd.New(config)
	w.server.Register(httpd.ConnectionMetrics([]*httpd.Listener{w.door})...)
	w.door.ServeHTTP(w.handler(api.Waiting(why)), maxProbes, w.env.log, w.failed)
	fmt.Fprintf(w.env.stderr, "actlog serves health and metrics on %s\n", w.door.URL())
	return nil
}

func (w *work) handler(health []httpd.Route) http.Handler {
	return w.server.Handler(w.door.Loopback, append(health, w.server.Metrics())...)
}

// ready serves health checks and metrics of a worker at work.
func (w *work) ready() {
	w.agents.register(w.server)
	w.stopKeys = w.cmd.watch(w.hangups, w.server, w.env.log, func() {})
	w.door.Handle(w.handler(api.Health(w.store, w.server)))
}

// close releases the runs and closes everything that was opened. The store has the rest of the drain time.
func (w *work) close() (err error) {
	began := time.Now()
	if w.door != nil {
		signal.Stop(w.hangups)
		if w.stopKeys != nil {
			w.stopKeys()
		}
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		if err := httpd.Close(ctx, []*httpd.Listener{w.door}); err != nil {
			w.env.log.Warn("health and metrics", "error", err)
		}
	}
	if w.agents != nil {
		err = w.agents.close()
	}

	ctx, cancel := closing(began)
	defer cancel()
	if w.store != nil {
		err = errors.Join(err, w.store.Close(ctx))
	}
	return err
}
