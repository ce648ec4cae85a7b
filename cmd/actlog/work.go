package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/actlog/actlog/internal/api"
	"github.com/actlog/actlog/internal/httpd"
	"github.com/actlog/actlog/internal/store"
)

type workCmd struct {
	runtimeFlags
	Workers  int    `help:"How many workers to start. Default: as many as there are processors." default:"-1"`
	Attached bool   `help:"Stop when stdin ends." hidden:""`
	Listen   string `help:"Address for health checks and metrics. Default: none." placeholder:"HOST:PORT"`
	guardFlags
	poolerFlags
	databaseFlags
}

// Help explains the command.
func (*workCmd) Help() string {
	return `Runs agents on the record of a server: actlog serve --workers 0 on one machine, actlog work on
others. All use the same database and the same configuration. When a worker dies, others go on with its
runs.`
}

// Run implements the command.
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
	s, err := store.Open(ctx, store.Config{DatabaseURL: c.DatabaseURL, DirectURL: c.DirectURL, Logger: e.log})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		err = errors.Join(err, s.Close(ctx))
	}()
	n := c.workers(c.Workers)
	a, err := startAgents(&c.runtimeFlags, s, n, secretFiles(c.databaseFlags, c.guardFlags), e.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	failed := make(chan error, 1)
	if c.Listen != "" {
		end, err := c.open(ctx, s, a, e, failed)
		if err != nil {
			return err
		}
		defer end()
	}
	fmt.Fprintf(e.stderr, "actlog runs agents with %d workers\n", n)
	if c.Attached {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, e.stdin) // an error is an end, too
			stop()
		}()
	}
	select {
	case <-ctx.Done():
		e.log.Info("stopping")
		return nil
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	}
}

// open serves health checks and metrics until end is called.
func (c *workCmd) open(ctx context.Context, s *store.Store, a *agents, e *env, failed chan<- error) (end func(), err error) {
	config, err := c.guard()
	if err != nil {
		return nil, err
	}
	l, err := c.listen(ctx, listenFlag, c.Listen)
	if err != nil {
		return nil, err
	}
	config.Logger, config.Version = e.log, serverVersion()
	server := httpd.New(config)
	server.Register(httpd.ConnectionMetrics([]*httpd.Listener{l})...)
	a.register(server)
	stopKeys := c.watch(server, e.log, func() {})
	l.ServeHTTP(server.Handler(l.Loopback, append(api.Health(s, server), server.Metrics())...), maxProbes, e.log, failed)
	fmt.Fprintf(e.stderr, "actlog serves health and metrics on %s\n", l.URL())
	return func() {
		stopKeys()
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		if err := httpd.Close(ctx, []*httpd.Listener{l}); err != nil {
			e.log.Warn("health and metrics", "error", err)
		}
	}, nil
}

// maxProbes bounds the connections of who asks for health and metrics.
const maxProbes = 100
