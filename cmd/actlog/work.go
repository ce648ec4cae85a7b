package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/actlog/actlog/internal/store"
)

type workCmd struct {
	runtimeFlags
	Workers  int  `help:"How many workers to start. Default: as many as there are processors." default:"-1"`
	Attached bool `help:"Stop when stdin ends." hidden:""`
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
	s, err := store.Open(ctx, store.Config{DatabaseURL: c.DatabaseURL, Logger: e.log})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		err = errors.Join(err, s.Close(ctx))
	}()
	n := c.workers(c.Workers)
	a, err := startAgents(&c.runtimeFlags, s, n, e.log)
	if err != nil {
		return err
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
	<-ctx.Done()
	e.log.Info("stopping")
	return a.close()
}
