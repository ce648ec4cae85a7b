// Command orchestrator carries out a request about a Git repository: a model plans it, you accept, reject or modify the
// plan, and agents carry it out. It works with a model of any API that speaks Chat Completions.
//
// OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL choose the model. ACTLOG_DATABASE_URL is the Postgres in which the
// run is kept.
package main

import (
	"bufio"
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
	"github.com/actlog/actlog/agent/tool/git"
	"github.com/actlog/actlog/record"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()

	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "orchestrator:", err)
		os.Exit(1)
	}
}

func run(
	ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer,
) (err error) {
	flags := flag.NewFlagSet("orchestrator", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", ".", "the `folder` of the repository")
	if err := flags.Parse(args); err != nil {
		return err
	}

	m, err := openai.New(openai.Config{
		Model: cmp.Or(getenv("OPENAI_MODEL"), "gpt-4.1-mini"), APIKey: getenv("OPENAI_API_KEY"),
		BaseURL: getenv("OPENAI_BASE_URL"),
	})
	if err != nil {
		return err
	}

	tools, err := git.Tools(*dir, git.Options{Write: true})
	if err != nil {
		return err
	}

	a, err := agent.Open(ctx, getenv("ACTLOG_DATABASE_URL"), agent.Options{
		Logger: slog.New(slog.NewTextHandler(stderr, nil)),
	})
	if err != nil {
		return fmt.Errorf("ACTLOG_DATABASE_URL: %w", err)
	}
	defer func() { err = errors.Join(err, a.Close(context.WithoutCancel(ctx))) }()

	if err := a.Register(agent.Parts{Models: map[string]model.Model{"default": m}, Tools: tools}); err != nil {
		return err
	}
	go func() { _ = a.Work(ctx) }() // it ends with ctx, or with Close

	planID, err := a.Start(ctx, agent.Job{Work: agent.Orchestration{Request: strings.Join(flags.Args(), " ")}})
	if err != nil {
		return err
	}

	answers := bufio.NewScanner(stdin)
	for {
		r, err := a.Wait(ctx, planID)
		switch {
		case err != nil:
			return err
		case r.State == record.Completed:
			_, err = fmt.Fprintln(stdout, r.Result)
			return err
		case r.State.Terminal():
			return fmt.Errorf("the run is %s: %s", r.State, r.Error)
		}

		for _, w := range r.Waits {
			fmt.Fprintf(stdout, "%s\n%s\n%s %s\n%s? ", w.Title, w.Description, w.Tool, w.Arguments,
				strings.Join(w.Decisions, ", "))
			if !answers.Scan() {
				return cmp.Or(answers.Err(), io.ErrUnexpectedEOF)
			}
			decision, text, _ := strings.Cut(answers.Text(), " ")
			if err := a.Decide(ctx, planID, w.WaitID, agent.Decision{Decision: decision, Text: text}); err != nil {
				return err
			}
		}
	}
}
