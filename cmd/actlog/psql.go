package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/record/report"
	"github.com/actlog/actlog/internal/record/store"
)

type psqlCmd struct {
	databaseFlags
	Client string   `help:"Postgres client to run instead: pg_dump, pg_restore, pg_basebackup, ..." default:"psql" placeholder:"NAME"`
	Admin  bool     `help:"Log in as the owner of the record, who may change and delete everything. Default: as who may only read the views of schema report. Clients that copy and restore databases are the owner's." env:"-"`
	Args   []string `arg:"" optional:"" passthrough:"" help:"Arguments for the client, such as -c 'SELECT 1'."`
}

func (*psqlCmd) Help() string {
	return `Without --admin, statements only read, and only the views of schema report. On the private Postgres that is a login of its own,
which has no other rights. On the database of --database-url it is the login of the URL in the role actlog_report: SET ROLE gives it
its own rights back. So it keeps mistakes away, not an attacker: for that, use a URL whose login has no more rights.`
}

// ownersClients copy and restore databases, which is nothing for who may only read reports.
var ownersClients = []string{"pg_dump", "pg_dumpall", "pg_restore", "pg_basebackup", "pg_receivewal"}

func (c *psqlCmd) Run(ctx context.Context, e *env) error {
	client := filepath.Base(c.Client)
	if client == "pg_restore" { // it fills an empty database
		return c.useOrMake(ctx, e, func(address string) error { return c.execute(ctx, e, address, ownerOptions) })
	}

	return c.use(ctx, e, func(address string) error {
		made := hasRecord(ctx, e, address)
		if c.Admin || slices.Contains(ownersClients, client) {
			return c.execute(ctx, e, address, ownerOptions)
		}

		address, options, err := c.reader(ctx, address, made)
		if err != nil {
			return err
		}
		return c.execute(ctx, e, address, options)
	})
}

// Settings of the session, as the options of a connection.
const (
	ownerOptions    = "-c search_path=actlog,public"
	readOnlyOptions = "-c default_transaction_read_only=on"
	readerOptions   = readOnlyOptions + " -c search_path=report,public"
)

// reader returns how to log in as who may only read the reports.
func (c *psqlCmd) reader(ctx context.Context, owner string, made bool) (address, options string, err error) {
	if !made { // there is nothing to read, and there may be no such role
		return owner, readOnlyOptions, nil
	}

	ctx, cancel := context.WithTimeout(ctx, logInFor)
	defer cancel()
	if c.DatabaseURL == "" {
		address, err = report.Reader(ctx, owner)
		return address, readerOptions, err
	}

	// of other errors, the client will report why
	if err := report.MayRead(ctx, owner); errors.Is(err, report.ErrNotGranted) {
		return "", "", fmt.Errorf("%w: GRANT %s TO it, or pass --admin to open the database with all its rights", err,
			report.Role)
	}
	return owner, readerOptions + " -c role=" + report.Role, nil
}

const (
	// lookFor is how long psql waits for the answer to whether there is a record.
	lookFor = 5 * time.Second
	// logInFor is how long it waits for a login.
	logInFor = 30 * time.Second
)

// hasRecord reports whether a database has a record, and prints a warning if it has none, or one of a version before
// the baseline. If that cannot be found out, the client will report why.
func hasRecord(ctx context.Context, e *env, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()

	made, err := store.Made(ctx, address)
	switch {
	case err == nil && !made:
		fmt.Fprintf(e.stderr, "actlog: %s\n", noRecord)
	case errors.Is(err, store.ErrBeforeBaseline):
		fmt.Fprintf(e.stderr, "actlog: %v\n", err)
	}
	return made || err != nil
}

// execute runs the client on an address, with options of the connection on top of its own.
func (c *psqlCmd) execute(ctx context.Context, e *env, address, options string) (err error) {
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

	cmd := exec.CommandContext(ctx, c.Client, append([]string{"--dbname", info.with(address, options)}, args...)...)
	cmd.Env = append(os.Environ(), secrets...)
	cmd.Stdin = os.Stdin
	cmd.Stdout, cmd.Stderr = terminal.Raw(e.stdout), terminal.Raw(e.stderr)
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
	return fmt.Errorf("%s: %w", terminal.Line(c.Client), err)
}

// ownSignal is how much later than its client a program under load may learn of the same Ctrl-C.
const ownSignal = 100 * time.Millisecond
