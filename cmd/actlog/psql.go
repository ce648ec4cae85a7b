package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
)

type psqlCmd struct {
	databaseFlags
	Client string   `help:"Postgres client to run instead: pg_dump, pg_restore, pg_basebackup, ..." default:"psql" placeholder:"NAME"`
	Args   []string `arg:"" optional:"" passthrough:"" help:"Arguments for the client, such as -c 'SELECT 1'."`
}

func (c *psqlCmd) Run(ctx context.Context, e *env) error {
	return c.use(ctx, e, func(address string) error { return c.run(ctx, e, address) })
}

func (c *psqlCmd) run(ctx context.Context, e *env, address string) error {
	// The password goes through the environment, because other users can see arguments.
	address, password := withoutPassword(address)
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	cmd := exec.CommandContext(ctx, c.Client, append([]string{"--dbname", address}, args...)...)
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c search_path=actlog,public")
	if password != "" {
		cmd.Env = append(cmd.Env, "PGPASSWORD="+password)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, e.stdout, e.stderr
	signal.Ignore(os.Interrupt) // Ctrl-C is for psql: it cancels a query
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is not installed (Debian: apt-get install postgresql-client)", c.Client)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Client, err)
	}
	return nil
}

func withoutPassword(address string) (string, string) {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address, "" // keywords and values are passed on unchanged
	}
	password, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	return u.String(), password
}
