// Command workflow reviews the Go files of a folder: a reviewer reads one file after the other, and an editor says what
// to do first. Which files there are decides how many steps the workflow has, so it is a Go function. If the program is
// killed, it goes on where it was when it is started again with the same folder. It works with a model of any API that
// speaks Chat Completions.
//
// OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL choose the model. ACTLOG_DATABASE_URL is the Postgres in which the
// run is kept.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/tool/files"
	"github.com/actlog/actlog/agent/workflow"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()

	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "workflow:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("workflow", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", ".", "review the Go files of this `folder`; nothing in it is changed")
	key := flags.String("key", "1",
		"another `key` is another review of the same folder; with the same one, a review goes on")
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

	at, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	folder, err := files.Open(at, files.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()

	a, err := agent.Open(ctx, getenv("ACTLOG_DATABASE_URL"), agent.Options{})
	if err != nil {
		return fmt.Errorf("ACTLOG_DATABASE_URL: %w", err)
	}
	defer func() { err = errors.Join(err, a.Close(context.WithoutCancel(ctx))) }()

	err = a.Register(agent.Parts{
		Models: map[string]model.Model{"default": m},
		Tools:  folder.Tools(),
		Agents: map[string]agent.Agent{
			"reviewer": {SystemPrompt: "You review a Go file. Say in one sentence what is wrong with it, or that nothing is."},
			"editor":   {SystemPrompt: "You are given remarks on files. Say in one sentence what to do first."},
		},
		Workflows: map[string]agent.Workflow{"review": {
			Description: "Reviews the Go files of a folder.", Agents: []string{"reviewer", "editor"},
			Tools: []string{"files.list_files", "files.read_file"}, Run: review,
		}},
	})
	if err != nil {
		return err
	}

	go func() { _ = a.Work(ctx) }() // it ends with ctx, or with Close
	planID, err := a.Start(ctx, agent.Job{
		Work: agent.Flow{Workflow: "review", Input: at}, IdempotencyKey: at + " " + *key,
	})
	if err != nil {
		return err
	}

	var result workflow.Result
	if err := a.Result(ctx, planID, &result); err != nil {
		return err
	}
	return show(stdout, result)
}

// review is the workflow. Its calls are on record, so it may be called again from its beginning.
func review(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
	list, err := f.CallTool(ctx, "files.list_files", struct{}{})
	if err != nil {
		return nil, err
	}

	var remarks strings.Builder
	for name := range strings.Lines(list) {
		if name = strings.TrimSpace(name); !strings.HasSuffix(name, ".go") {
			continue
		}

		text, err := f.CallTool(ctx, "files.read_file", map[string]string{"path": name})
		if err != nil {
			return nil, err
		}
		remark, err := f.RunAgent(ctx, "reviewer", text)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&remarks, "%s: %s\n", name, remark.Text())
	}

	if remarks.Len() == 0 {
		return nil, errors.New("the folder has no Go file")
	}

	first, err := f.RunAgent(ctx, "editor", remarks.String())
	if err != nil {
		return nil, err
	}
	return remarks.String() + first.Text(), nil
}

// show prints the output of the workflow, or returns why there is none.
func show(w io.Writer, r workflow.Result) error {
	if r.Error != nil {
		return errors.New(*r.Error)
	}
	_, err := fmt.Fprintln(w, r.FinalOutput)
	return err
}
