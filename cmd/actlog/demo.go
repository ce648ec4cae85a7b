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

	"github.com/actlog/actlog/examples/codereader"
	"github.com/actlog/actlog/internal/scriptmodel"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
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

// play lets the example agent explore the folder with a scripted model and real tools, records
// the run, and prints the tree as it grows.
func (c *demoCmd) play(ctx context.Context, e *env, s *server) error {
	model, err := scriptmodel.Start(codereader.DemoScript(c.Pace), &scriptmodel.Options{Seed: record.NewPlanID()})
	if err != nil {
		return err
	}
	defer model.Close()
	chat, err := codereader.NewModel(codereader.ModelConfig{BaseURL: model.URL(), Model: "scripted", Logger: e.log})
	if err != nil {
		return err
	}
	folder, err := codereader.OpenFolder(c.Dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	agent := codereader.New(chat, folder, &codereader.Options{Recorder: recorder.New(s.store, recorder.Options{Environment: "demo"})})

	planID := record.NewPlanID()
	fmt.Fprintf(e.stdout, "An agent explores %s: %s\n\n", c.Dir, codereader.DemoQuestion)
	ended := make(chan error, 1)
	go func() {
		_, err := agent.Run(ctx, planID, codereader.DemoQuestion)
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
