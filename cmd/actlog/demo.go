package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/tool/files"
	"github.com/actlog/actlog/examples/codereader"
	"github.com/actlog/actlog/internal/scriptmodel"
	"github.com/actlog/actlog/record"
)

type demoCmd struct {
	Dir  string        `help:"Folder that the example agent explores." default:"." type:"existingdir"`
	Pace time.Duration `help:"How long the scripted model takes to answer." default:"400ms"`
	Once bool          `help:"Stop when the run has ended."`
	serveCmd
}

// demoPoll is how often the growing tree is read.
const demoPoll = 150 * time.Millisecond

func (c *demoCmd) Run(ctx context.Context, e *env) error {
	if c.APIKeys != "" {
		return usageError("demo is for users of this machine and takes no --api-keys; use actlog serve")
	}
	log := e.log
	if !log.Enabled(ctx, slog.LevelDebug) { // one line per request would hide the tree
		log = slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	s, err := startServer(ctx, &c.serveCmd, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "actlog serves on %s\n\n", s.url)
	if err := c.play(ctx, e, s); err != nil || c.Once {
		return errors.Join(err, s.close())
	}
	fmt.Fprintf(e.stderr, "\nStill serving on %s; Ctrl-C stops it.\n", s.url)
	return s.wait(ctx)
}

// play lets the example agents explore the folder with a scripted model and real tools, and prints the
// tree as it grows.
func (c *demoCmd) play(ctx context.Context, e *env, s *server) (err error) {
	model, err := scriptmodel.Start(codereader.DemoScript(c.Pace), &scriptmodel.Options{Seed: record.NewPlanID()})
	if err != nil {
		return err
	}
	defer model.Close()
	scripted, err := openai.New(openai.Config{BaseURL: model.URL(), Model: "scripted"})
	if err != nil {
		return err
	}
	folder, err := files.Open(c.Dir, files.Options{})
	if err != nil {
		return err
	}
	defer folder.Close()
	database := c.DatabaseURL
	if s.postgres != nil {
		database = s.postgres.URL()
	}
	a, err := agent.Open(ctx, database, agent.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close(context.WithoutCancel(ctx))) }()
	if err := a.Register(codereader.Parts(scripted, folder, 0)); err != nil {
		return err
	}
	go func() { _ = a.Work(ctx) }() // it ends with ctx, or with Close
	planID, err := a.Start(ctx, agent.Request{Agent: codereader.Reader, Request: codereader.DemoQuestion})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "An agent explores %s: %s\n\n", c.Dir, codereader.DemoQuestion)
	ended := make(chan error, 1)
	go func() {
		run, err := a.Wait(ctx, planID)
		if err == nil && run.State != record.Completed {
			err = fmt.Errorf("it is %s: %s", run.State, run.Error)
		}
		ended <- err
	}()
	p, err := watchPlan(ctx, e, s.url, planID, ended)
	if err != nil {
		return err
	}
	fmt.Fprintln(e.stdout)
	for line := range strings.Lines(p.Summary) {
		fmt.Fprintln(e.stdout, clean(line))
	}
	fmt.Fprintf(e.stdout, "\nThe whole run, and one step of it:\n  %s/api/executor/details/%s\n", s.url, url.PathEscape(planID))
	if len(p.AgentExecutionSequence) > 0 {
		step := p.AgentExecutionSequence[0].StepID
		fmt.Fprintf(e.stdout, "  %s/api/executor/agent-execution/%s\n", s.url, url.PathEscape(step))
		show := os.Args[0] + " show"
		if s.url != defaultServer {
			show += " --server " + s.url
		}
		fmt.Fprintf(e.stdout, "\nThe same in a terminal:\n  %s %s\n  %s %s --step %s\n", show, planID, show, planID, step)
	}
	return nil
}

// watchPlan draws the tree of a plan as it grows, until ended reports the result of the run.
func watchPlan(ctx context.Context, e *env, server, planID string, ended <-chan error) (*planView, error) {
	client, err := serverFlags{Server: server}.ProvideClient()
	if err != nil {
		return nil, err
	}
	drawing := newDrawing(e.stdout)
	defer drawing.watch()()
	tick := time.NewTicker(demoPoll)
	defer tick.Stop()
	for {
		last := false
		select {
		case err := <-ended:
			if err != nil {
				return nil, fmt.Errorf("the agent's run: %w", err)
			}
			last = true
		case <-tick.C:
		}
		p, err := client.plan(ctx, planID, nil)
		switch {
		case err == nil:
			drawing.draw(p, last)
		case last || !errors.Is(err, errNotOnRecord) && ctx.Err() == nil:
			return nil, err
		}
		if last {
			return p, nil
		}
	}
}
