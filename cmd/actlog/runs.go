package main

import (
	"cmp"
	"context"
	"time"

	"github.com/actlog/actlog/internal/view/words"
)

type runsCmd struct {
	State    string `help:"Only runs in this state, such as WAITING." placeholder:"STATE"`
	Executor string `help:"Only runs of this executor, such as agent." placeholder:"NAME"`
	Name     string `help:"Only runs of the agent of this name." placeholder:"NAME"`
	Schedule string `help:"Only runs of this schedule." placeholder:"NAME"`
	JSON     bool   `help:"Print the runs as JSON, one per line."`
	pageFlags
	serverFlags
}

func (c *runsCmd) Run(ctx context.Context, e *env, client *client) error {
	if err := checkState(c.State); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}

	query := filters(map[string]string{"state": c.State, "executor": c.Executor, "name": c.Name, "schedule": c.Schedule})
	runs, read, err := list[runView](ctx, client, e, c.JSON, "list runs", "/api/v1/runs", query, c.pageFlags)
	if err != nil {
		return err
	}

	if !c.JSON {
		if err := runTable(runs, time.Now()).write(e.stdout, widthOf(e.stdout)); err != nil {
			return err
		}
	}
	return client.rest(ctx, e, read, "run", c.JSON)
}

func runTable(runs []runView, now time.Time) *table {
	t := &table{columns: []column{
		{head: "PLAN"}, {head: "STATE"}, {head: "EXECUTOR"}, {head: "NAME", share: 1}, {head: "BEGAN"}, {head: "TOOK"},
		{head: "TAKEOVERS"}, {head: "TITLE", share: 3},
	}}

	ids := make([]string, len(runs))
	for i := range runs {
		ids[i] = runs[i].PlanID
	}
	short := shortIDs(ids)

	for i := range runs {
		r := &runs[i]
		title := words.Shorten(r.Title, 60)
		if r.Error != "" {
			title += ": " + words.Shorten(r.Error, 80)
		}

		t.add(
			words.Clean(short[r.PlanID]), words.Clean(r.State), words.Clean(r.Executor), cmp.Or(words.Shorten(r.Name, 60), "-"),
			began(cmp.Or(r.StartTime, r.CreatedAt), now), cmp.Or(words.Took(r.StartTime, r.EndTime), "-"),
			words.Grouped(r.Takeovers), title,
		)
	}
	return t
}
