package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

// controlFlags name the run that is asked for something.
type controlFlags struct {
	Plan string `arg:"" help:"Id of the plan of a run. It also holds for all runs below."`
	By   string `help:"Who asks. Default: the name of the API key." placeholder:"NAME"`
	JSON bool   `help:"Print the run as JSON."`
	serverFlags
}

type stopCmd struct{ controlFlags }

func (c *stopCmd) Run(ctx context.Context, e *env, client *client) error {
	return c.control(ctx, e, client, "stop", record.State.Terminal, "what is under way is being stopped")
}

type pauseCmd struct{ controlFlags }

func (c *pauseCmd) Run(ctx context.Context, e *env, client *client) error {
	return c.control(ctx, e, client, "pause", func(s record.State) bool {
		return s == record.Paused || s.Terminal()
	}, "it pauses as soon as what is under way is done")
}

type resumeCmd struct{ controlFlags }

func (c *resumeCmd) Run(ctx context.Context, e *env, client *client) error {
	return c.control(ctx, e, client, "resume", func(s record.State) bool {
		return s != record.Paused
	}, "it goes on as soon as a worker is free")
}

const (
	// controlPatience is how long a command waits for what it asked for.
	controlPatience = 3 * time.Second
	// controlPoll is how often it looks.
	controlPoll = 100 * time.Millisecond
)

// control asks a run for something, waits a little for it, and prints what came of it. otherwise says what
// is still to come. with is sent with it.
func (c *controlFlags) control(
	ctx context.Context, e *env, client *client, action string, done func(record.State) bool, otherwise string,
	with ...map[string]any,
) error {
	if err := client.wholeFrom(ctx, leastShortID, &c.Plan); err != nil {
		return err
	}

	var asked struct{}
	body := map[string]any{}
	for _, more := range with {
		maps.Copy(body, more)
	}
	if c.By != "" {
		body["by"] = c.By
	}
	if err := client.post(ctx, named("run", c.Plan), runPath(c.Plan)+"/"+action, nil, body, &asked); err != nil {
		return err
	}

	var r *runView
	var raw json.RawMessage
	for end := time.Now().Add(controlPatience); ; {
		var err error
		if r, raw, err = client.readRun(ctx, c.Plan); err != nil {
			return err
		}

		if done(record.State(r.State)) || time.Now().After(end) {
			break
		}
		if !sleep(ctx, controlPoll) {
			return context.Cause(ctx)
		}
	}

	if c.JSON {
		return printJSON(e.stdout, raw)
	}

	line := words.Clean(c.Plan) + " is " + words.Clean(r.State)
	if !done(record.State(r.State)) {
		line += ": " + otherwise
	}
	_, err := fmt.Fprintln(e.stdout, line)
	return err
}
