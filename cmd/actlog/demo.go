package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/actlog/actlog/cmd/actlog/internal/terminal"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

type demoCmd struct {
	Pace time.Duration `help:"How long the scripted model takes to answer." default:"400ms"`
	Once bool          `help:"Stop when the run has ended."`
	serveCmd
}

func (*demoCmd) Help() string {
	return `Writes a configuration and a folder of files to the folder demo of the data folder, and runs an agent of them
with a scripted model: no network is needed. In the middle of an answer, the demo kills the worker that carries
the run (kill -9) and starts another, which goes on with it. The agent asks for an approval, which the demo gives.`
}

func (c *demoCmd) Run(ctx context.Context, e *env) error {
	if c.Config != "" || c.Workers >= 0 {
		return usageError("demo has a configuration and a worker of its own, and takes no --config or --workers; use " +
			"actlog serve")
	}

	log := e.log
	if !log.Enabled(ctx, slog.LevelDebug) { // one line per request would hide the run
		log = slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}

	d := &demo{pace: c.Pace, stuck: make(chan struct{}, 1)}
	if c.APIKeys != "" { // which the demo does not know
		var err error
		if d.key, c.own, err = httpd.NewKey("demo",
			[]httpd.Scope{httpd.ScopeRead, httpd.ScopeRun, httpd.ScopeDecide}); err != nil {
			return err
		}
	}

	model, err := scriptmodel.Start(demoScript(c.Pace, func() { d.stuck <- struct{}{} }), nil)
	if err != nil {
		return err
	}
	defer model.Close()

	c.Workers = 0
	c.listening = func() (err error) { // not where another server already listens
		c.Config, err = writeDemo(filepath.Join(c.DataDir, "demo"), model.URL())
		return c.withFolder(err)
	}
	s, err := startServer(ctx, &c.serveCmd, log)
	if err != nil {
		return err
	}

	fmt.Fprintf(e.stderr, "actlog serves on %s\nThe page of all runs: %s/\n\n", s.url, s.url)
	d.dataDir, d.config = c.DataDir, c.Config
	d.database = c.DatabaseURL
	if s.postgres != nil {
		d.database = s.postgres.URL()
	}
	return d.record(ctx, e, s, c.Once)
}

//go:embed demo
var demoFiles embed.FS

// demoReport is the file that the agent of the demo writes.
const demoReport = "shop/report.md"

// writeDemo writes the configuration and the files of the demo to a folder, for a model at a URL, and returns
// the name of the configuration. What the last demo wrote is removed.
func writeDemo(dir, modelURL string) (config string, err error) {
	if err := os.Remove(filepath.Join(dir, demoReport)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}

	return filepath.Join(dir, "actlog.yaml"),
		fs.WalkDir(demoFiles, "demo", func(name string, entry fs.DirEntry, err error) error {
			to := filepath.Join(dir, strings.TrimPrefix(name, "demo"))
			if err != nil || entry.IsDir() {
				return errors.Join(err, os.MkdirAll(to, 0o700))
			}
			text, err := demoFiles.ReadFile(name)
			if err != nil {
				return err
			}
			return os.WriteFile(to, []byte(strings.ReplaceAll(string(text), "MODEL_URL", modelURL)), 0o600)
		})
}

// demo is an agent at work, and the worker that carries it.
type demo struct {
	pace             time.Duration
	dataDir          string
	config, database string
	key              string        // of the demo, if the server needs one
	stuck            chan struct{} // receives when an answer is about to get stuck
	worker           *attachedWorker
	fail             context.CancelCauseFunc // for a worker that ends by itself
}

// record plays, and then serves until ctx ends, unless it is to be done once.
func (d *demo) record(ctx context.Context, e *env, s *server, once bool) error {
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	d.fail = fail

	err := d.attach()
	if err == nil {
		err = d.play(working, e, s.url)
	}
	defer d.worker.close()
	if err != nil || once {
		d.worker.close() // while there is a database to hand its runs back to
		return errors.Join(err, s.close())
	}

	fmt.Fprintf(e.stderr, "\nStill serving on %s, with its worker; Ctrl-C stops both.\n", s.url)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() {
		<-working.Done()
		d.worker.close()
		stop()
	}()

	if err := s.wait(serving); err != nil || ctx.Err() != nil {
		return err
	}
	return context.Cause(working)
}

func (d *demo) attach() error {
	w, err := attachWorker(d.dataDir, d.config, d.database, d.fail)
	if err == nil {
		d.worker = w
	}
	return err
}

// play starts a run, prints its story, and shows where to look at it.
func (d *demo) play(ctx context.Context, e *env, server string) error {
	client, err := serverFlags{Server: server, APIKey: d.key}.ProvideClient()
	if err != nil {
		return err
	}

	dir := filepath.Dir(d.config)
	fmt.Fprintf(e.stdout, `%s defines two agents. Their tools read the files in %s, and write there if a human allows it.
Their model is a script. The worker that runs them is a process of its own: %d.

An agent is asked: %s

`, d.config, filepath.Join(dir, "shop"), d.worker.pid(), demoQuestion)

	started, err := client.start(ctx, startBody{
		what: "analyst", Executor: "agent", Input: map[string]any{"agent": "analyst", "request": demoQuestion},
		Tags: []string{"demo"},
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "In a browser, watch it on its page: %s/runs/%s\n\n", client.base, started.PlanID)

	f := newFollowing(client, started.PlanID, e.stdout)
	f.ask = func(ctx context.Context, w *waitView, _ func() bool) (decide, error) {
		return d.approve(ctx, f.story, w)
	}
	following, stop := context.WithCancel(ctx)
	replaced := make(chan error, 1)
	go func() { replaced <- d.replaceWorker(following, f.story) }()

	r, _, err := f.follow(ctx)
	stop()
	if err := errors.Join(err, <-replaced); err != nil {
		return err
	}
	if r.State != string(record.Completed) {
		return fmt.Errorf("run %s is %s: %s", r.PlanID, r.State, words.Clean(r.Error))
	}

	p, err := client.plan(ctx, r.PlanID, nil)
	if err != nil {
		return err
	}

	fmt.Fprintf(e.stdout, "\nIts answer:\n%s\n\n"+
		"Of two workers, one was killed; no tool was called twice. The run is on record as a tree:\n\n",
		terminal.Plain(r.answer()))
	v := newView(e.stdout)
	v.plan(p)
	fmt.Fprint(e.stdout, hints(client, p))
	return v.err
}

// hints say where to look at the run, and how to start another.
func hints(c *client, p *planView) string {
	step := ""
	if len(p.AgentExecutionSequence) > 0 {
		step = p.AgentExecutionSequence[0].StepID
	}

	line := func(name string, args []string, flags ...string) string {
		return words.Argument(os.Args[0]) + strings.TrimPrefix(c.commandLine(name, args, flags...), "actlog")
	}

	return strings.NewReplacer("SERVER", c.base, "PLAN", p.CurrentPlanID, "STEP", step, "SHOW",
		line("show", []string{p.CurrentPlanID}, "--step", step),
		"RUNS", line("runs", nil), "AGAIN", line("run", []string{"analyst", demoQuestion})).Replace(`
Look at it:
  SERVER/runs/PLAN
  SERVER/api/executor/details/PLAN
  SERVER/api/executor/agent-execution/STEP
  SERVER/api/v1/runs/PLAN/trace?format=markdown
  SHOW
  RUNS

Run it again, and answer it yourself:
  AGAIN
`)
}

// replaceWorker kills the worker in the middle of an answer, and starts another.
func (d *demo) replaceWorker(ctx context.Context, story *story) error {
	select {
	case <-d.stuck:
	case <-ctx.Done():
		return nil
	}
	if !sleep(ctx, d.pace+stuckAfter*d.pace/4+d.pace) { // so that a part of the answer can be seen
		return nil
	}

	killed := d.worker.pid()
	d.worker.kill()
	if err := d.attach(); err != nil {
		d.fail(err)
		return err
	}

	_, err := fmt.Fprintf(story, "\n>>> The demo has killed the worker in the middle of this answer (kill -9 %d), and "+
		"started another, %d.\n>>> It goes on with the run as soon as the first has been silent for 3 s.\n\n", killed,
		d.worker.pid())
	return err
}

// approve approves what the agent wants to do, after a human had time to read it.
func (d *demo) approve(ctx context.Context, story *story, w *waitView) (decide, error) {
	fmt.Fprintln(story)
	w.draw(&view{w: story, colour: story.view.colour})
	if !sleep(ctx, 5*d.pace) {
		return decide{}, context.Cause(ctx)
	}
	_, err := fmt.Fprint(story, ">>> The demo approves. You would with actlog run at a terminal, or with actlog "+
		"answer.\n\n")
	return decide{Decision: decision.Approve, By: "demo"}, err
}
