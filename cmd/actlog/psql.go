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
	Client string   `help:"Another client of Postgres to run instead: pg_dump, pg_restore, pg_basebackup, ..." default:"psql" placeholder:"NAME"`
	Args   []string `arg:"" optional:"" passthrough:"" help:"Handed on to it, such as -c 'SELECT 1'."`
}

// Run implements the command.
func (c *psqlCmd) Run(ctx context.Context, e *env) (err error) {
	address, closeDatabase, err := c.open(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDatabase()) }()
	// The password goes by the environment: arguments are for all to see.
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
	// Ctrl-C is psql's: it cancels a query.
	signal.Ignore(os.Interrupt)
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%s is not installed (Debian: apt-get install postgresql-client)", c.Client)
		}
		return fmt.Errorf("%s: %w", c.Client, err)
	}
	return nil
}

func withoutPassword(address string) (string, string) {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address, "" // keywords and values: as they are
	}
	password, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	return u.String(), password
}
