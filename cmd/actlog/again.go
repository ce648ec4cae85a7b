package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

type retryCmd struct {
	Plan  string   `arg:"" optional:"" help:"Id of the plan of a run that no other run started. Without it, --state or another filter says which runs are retried."`
	Limit []string `help:"A limit in place of that of the run, such as tokens=200000, as often as you like. One that ended the run must be raised." placeholder:"NAME=NUMBER" env:"ACTLOG_LIMITS"`
	By    string   `help:"Who asks. Default: the name of the API key." placeholder:"NAME"`
	JSON  bool     `help:"Print the run, or the job, as JSON."`

	bulkFlags
	serverFlags
}

func (c *retryCmd) Run(ctx context.Context, e *env, client *client) error {
	limits, err := limitsOf(c.Limit)
	if err != nil {
		return err
	}

	many := c.bulkFlags.filter()
	switch {
	case c.Plan == "" && len(many) == 0:
		return usageError("retry: name the plan of a run, or say with --state and its like which runs are meant")
	case c.Plan == "":
		return c.bulk(ctx, e, client, bulkBody{Action: "retry", Filter: many, Limits: limits, Rate: c.Rate, By: c.By}, c.JSON)
	case len(many) > 0:
		return usageError("retry: a plan is named, so there is nothing to filter")
	}

	one := controlFlags{Plan: c.Plan, By: c.By, JSON: c.JSON, serverFlags: c.serverFlags}
	return one.control(ctx, e, client, "retry", func(s record.State) bool {
		return s != record.Pending
	}, "it goes on as soon as a worker is free", map[string]any{"limits": limits})
}

type againCmd struct {
	Plan  string   `arg:"" help:"Id of the plan of a run that no other run started."`
	Input string   `help:"What changes in the input of the run: a JSON object, which is merged into it. A member that is null is left out." placeholder:"JSON"`
	Limit []string `help:"A limit in place of that of the run, such as tokens=200000, as often as you like." placeholder:"NAME=NUMBER" env:"ACTLOG_LIMITS"`
	By    string   `help:"Who asks. Default: the name of the API key." placeholder:"NAME"`
	JSON  bool     `help:"Print the answer of the server as JSON."`
	serverFlags
}

func (c *againCmd) Run(ctx context.Context, e *env, client *client) error {
	limits, err := limitsOf(c.Limit)
	if err != nil {
		return err
	}
	body := map[string]any{"limits": limits}
	if c.Input != "" {
		if !json.Valid([]byte(c.Input)) {
			return usageError("--input: must be JSON")
		}
		body["input"] = json.RawMessage(c.Input)
	}
	if c.By != "" {
		body["by"] = c.By
	}

	if err := client.wholeFrom(ctx, leastShortID, &c.Plan); err != nil {
		return err
	}
	var raw json.RawMessage
	if err := client.post(ctx, named("run", c.Plan), runPath(c.Plan)+"/again", nil, body, &raw); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, raw)
	}

	var started struct{ PlanID string }
	if err := json.Unmarshal(raw, &started); err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.stdout, words.Clean(started.PlanID))
	return err
}
