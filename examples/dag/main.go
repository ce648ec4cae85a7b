// Command dag carries out a task that a model plans as a graph: what can be done side by side is. It works with a model
// of any API that speaks Chat Completions.
//
// OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL choose the model. ACTLOG_DATABASE_URL is the Postgres in which the
// run is kept. A run that was interrupted goes on with -plan.
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
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/openai"
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
		fmt.Fprintln(os.Stderr, "dag:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("dag", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: dag [flags] task\n       dag [flags] -plan id")
		flags.PrintDefaults()
	}

	eager := flags.Bool("eager", false, "begin each node as soon as those that it needs have completed")
	planID := flags.String("plan", "", "go on with the run of this `id`")
	if err := flags.Parse(args); err != nil {
		return err
	}

	task := strings.Join(flags.Args(), " ")
	if (task == "") == (*planID == "") {
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

	log := slog.New(slog.NewTextHandler(stderr, nil)) // the log of the run is among it
	a, err := agent.Open(ctx, getenv("ACTLOG_DATABASE_URL"), agent.Options{Logger: log})
	if err != nil {
		return fmt.Errorf("ACTLOG_DATABASE_URL: %w", err)
	}
	defer func() { err = errors.Join(err, a.Close(context.WithoutCancel(ctx))) }()

	if err := a.Register(agent.Parts{Models: map[string]model.Model{"default": m}}); err != nil {
		return err
	}
	go func() { _ = a.Work(ctx) }() // it ends with ctx, or with Close

	if *planID == "" {
		if *planID, err = a.Start(ctx, agent.Job{Work: agent.Graph{Prompt: task, Eager: *eager}}); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "If this is interrupted, go on with: dag -plan %s\n", *planID)
	}

	r, err := a.Wait(ctx, *planID)
	switch {
	case err != nil:
		return err
	case r.State != record.Completed:
		return fmt.Errorf("the run is %s: %s", r.State, r.Error)
	}
	_, err = fmt.Fprintf(stdout, "%s\n\n%s\n", r.Title, r.Result)
	return err
}
