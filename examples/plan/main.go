// Command plan works on a task in a folder: a model plans all operations in one call, then they are made in order. It
// works with a model of any API that speaks Chat Completions.
//
// OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL choose the model. ACTLOG_DATABASE_URL is the Postgres in which the
// run is kept.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/plan"
	"github.com/actlog/actlog/agent/tool/files"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()

	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "plan:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("plan", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: plan [flags] task")
		flags.PrintDefaults()
	}

	dir := flags.String("dir", ".", "work in this `folder`; nothing in it is changed")
	iterative := flags.Bool("iterative", false,
		"ask the model for one operation at a time, and tell it what the last ones returned")
	if err := flags.Parse(args); err != nil {
		return err
	}

	if flags.NArg() == 0 {
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
	defer func() { err = errors.Join(err, folder.Close()) }()

	a, err := agent.Open(ctx, getenv("ACTLOG_DATABASE_URL"), agent.Options{})
	if err != nil {
		return fmt.Errorf("ACTLOG_DATABASE_URL: %w", err)
	}
	defer func() { err = errors.Join(err, a.Close(context.WithoutCancel(ctx))) }()

	if err := a.Register(agent.Parts{Models: map[string]model.Model{"default": m}, Tools: folder.Tools()}); err != nil {
		return err
	}
	go func() { _ = a.Work(ctx) }() // it ends with ctx, or with Close

	task := agent.Task{Task: strings.Join(flags.Args(), " "), Iterative: *iterative, ReadOnly: true}
	planID, err := a.Start(ctx, agent.Job{Work: task})
	if err != nil {
		return err
	}
	var result plan.Result
	if err := a.Result(ctx, planID, &result); err != nil {
		return err
	}
	return show(stdout, &result)
}

// show prints why and what was done. The error says that not all of it succeeded.
func show(w io.Writer, r *plan.Result) error {
	for _, t := range r.ReasoningLog {
		if t.Type != nil && t.Content != nil {
			fmt.Fprintf(w, "%s: %q\n", *t.Type, *t.Content)
		}
	}

	if r.Error != nil {
		return errors.New(*r.Error)
	}
	if failed := len(r.Operations.BySuccess(false)); failed > 0 {
		return fmt.Errorf("%d of %d operations failed", failed, len(r.Operations))
	}
	return nil
}
