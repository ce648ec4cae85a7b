// Command withpg runs a command with one test server for all its processes:
//
//	go run ./internal/testkit/pgtest/withpg -- go test ./...
//
// It sets TEST_DATABASE_URL, and ACTLOG_TEST_DATABASE_URL, for the command, forwards signals to it, and exits with its
// exit code. If TEST_DATABASE_URL is already set, withpg uses that server. With -migrate it first migrates the database
// at TEST_DATABASE_URL.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/testdb"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpg:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	migrate := len(args) > 0 && args[0] == "-migrate"
	if migrate {
		args = args[1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return 2, errors.New("usage: withpg [-migrate] [--] command [argument ...]")
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	server, err := pgtest.StartServer(ctx, func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	})
	if err != nil {
		stop()
		return 1, err
	}
	defer func() { err = errors.Join(err, server.Close(context.Background())) }()

	if migrate {
		if err := pgtest.Migrate(ctx, server.URL); err != nil {
			stop()
			return 1, err
		}
	}

	// From now on, signals go to the command.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer close(signals)
	defer signal.Stop(signals)
	stop()

	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), pgtest.URLEnv+"="+server.URL, testdb.URLEnv+"="+server.URL)
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	go func() {
		for sig := range signals {
			_ = cmd.Process.Signal(sig)
		}
	}()

	if err := cmd.Wait(); err != nil {
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) {
			return 1, err
		}
		return exitCode(exit), nil
	}
	return 0, nil
}

// exitCode returns the exit code that a shell would report.
func exitCode(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}
