// Command codereader answers a question about the code in a folder, with a model of any API that speaks
// Chat Completions.
//
// OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL choose the model. ACTLOG_DATABASE_URL is the Postgres in
// which the run is kept. A run that was interrupted goes on with -plan. Each process that uses the same
// database may carry it, so all of them read the same folder.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/tool/files"
	"github.com/actlog/actlog/examples/codereader"
	"github.com/actlog/actlog/record"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()

	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "codereader:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("codereader", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: codereader [flags] question\n       codereader [flags] -plan id")
		flags.PrintDefaults()
	}

	dir := flags.String("dir", ".", "`folder` with the code")
	steps := flags.Int("max-steps", 30, "number of rounds after which an agent must answer")
	planID := flags.String("plan", "", "go on with the run of this `id`")
	if err := flags.Parse(args); err != nil {
		return err
	}

	question := strings.Join(flags.Args(), " ")
	if (question == "") == (*planID == "") {
		flags.Usage()
		return flag.ErrHelp
	}

	m, err := openai.New(openai.Config{
		Model: cmp.Or(getenv("OPENAI_MODEL"), "gpt-4.1-mini"), APIKey: getenv("OPENAI_API_KEY"),
		BaseURL: getenv("OPENAI_BASE_URL"),
	})
	if err != nil {
		return err
	}

	folder, err := files.Open(*dir, files.Options{})
	if err != nil {
		return err
	}
	defer folder.Close()

	level := slog.HandlerOptions{Level: slog.LevelWarn}
	a, err := agent.Open(ctx, getenv("ACTLOG_DATABASE_URL"), agent.Options{
		Logger: slog.New(slog.NewTextHandler(stderr, &level)),
	})
	if err != nil {
		return fmt.Errorf("ACTLOG_DATABASE_URL: %w", err)
	}
	defer func() { err = errors.Join(err, a.Close(context.WithoutCancel(ctx))) }()

	if err := a.Register(codereader.Parts(m, folder, *steps)); err != nil {
		return err
	}
	go func() { _ = a.Work(ctx) }() // it ends with ctx, or with Close

	if *planID == "" {
		if *planID, err = a.Start(ctx,
			agent.Job{Work: agent.Request{Agent: codereader.Reader, Request: question}}); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "If this is interrupted, go on with: codereader -plan %s\n", *planID)
	}

	r, err := a.Wait(ctx, *planID)
	switch {
	case err != nil:
		return err
	case r.State != record.Completed:
		return fmt.Errorf("the run is %s: %s", r.State, r.Error)
	}
	_, err = fmt.Fprintln(stdout, r.Result)
	return err
}
