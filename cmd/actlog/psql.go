package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/actlog/actlog/internal/store"
)

type psqlCmd struct {
	databaseFlags
	Client string   `help:"Postgres client to run instead: pg_dump, pg_restore, pg_basebackup, ..." default:"psql" placeholder:"NAME"`
	Args   []string `arg:"" optional:"" passthrough:"" help:"Arguments for the client, such as -c 'SELECT 1'."`
}

func (c *psqlCmd) Run(ctx context.Context, e *env) error {
	if filepath.Base(c.Client) == "pg_restore" { // it fills an empty database
		return c.useOrMake(ctx, e, func(address string) error { return c.run(ctx, e, address) })
	}
	return c.use(ctx, e, func(address string) error {
		warnWithoutRecord(ctx, e, address)
		return c.run(ctx, e, address)
	})
}

// lookFor is how long psql waits for the answer to whether there is a record.
const lookFor = 5 * time.Second

// warnWithoutRecord prints a warning if a database has no record. If that cannot be found out,
// the client will report why.
func warnWithoutRecord(ctx context.Context, e *env, address string) {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	if made, err := store.Made(ctx, address); err == nil && !made {
		fmt.Fprintf(e.stderr, "actlog: %s\n", noRecord)
	}
}

func (c *psqlCmd) run(ctx context.Context, e *env, address string) (err error) {
	folder, err := os.MkdirTemp("", "actlog-psql-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	info, err := parseConnInfo(address)
	if err != nil {
		return err
	}
	// Other users can see arguments, but not the environment.
	address, secrets, err := info.hide(folder)
	if err != nil {
		return err
	}
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	cmd := exec.CommandContext(ctx, c.Client, append([]string{"--dbname", address}, args...)...)
	cmd.Env = append(append(os.Environ(), "PGOPTIONS=-c search_path=actlog,public"), secrets...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, e.stdout, e.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	// Ctrl-C is for the client: psql cancels a query and goes on.
	signal.Ignore(os.Interrupt)
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt) // not ignored, or the client would begin so
	err = cmd.Run()
	if err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is not installed (Debian: apt-get install postgresql-client)", c.Client)
	}
	select {
	case <-interrupts:
		err = interruption{syscall.SIGINT}
	case <-time.After(ownSignal):
	}
	return fmt.Errorf("%s: %w", c.Client, err)
}

// ownSignal is how much later than its client a program under load may learn of the same Ctrl-C.
const ownSignal = 100 * time.Millisecond
