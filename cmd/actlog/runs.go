package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/actlog/actlog/internal/words"
)

type runsCmd struct {
	State    string `help:"Only runs in this state, such as WAITING." placeholder:"STATE"`
	Executor string `help:"Only runs of this executor, such as agent." placeholder:"NAME"`
	Name     string `help:"Only runs of the agent of this name." placeholder:"NAME"`
	Limit    int    `help:"The most runs to list, at least 1." default:"50"`
	JSON     bool   `help:"Print the runs as JSON, one per line."`
	serverFlags
}

// Run implements the command.
func (c *runsCmd) Run(ctx context.Context, e *env, client *client) error {
	if c.State != "" && !slices.Contains(planStates(), c.State) {
		return usageError(fmt.Sprintf("--state %s: must be one of %s", c.State, strings.Join(planStates(), ", ")))
	}
	if c.Limit < 1 {
		return usageError(fmt.Sprintf("--limit %d: must be at least 1", c.Limit))
	}
	query := url.Values{}
	for name, value := range map[string]string{"state": c.State, "executor": c.Executor, "name": c.Name} {
		if value != "" {
			query.Set(name, value)
		}
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(w, "PLAN\tSTATE\tEXECUTOR\tNAME\tBEGAN\tTOOK\tTAKEOVERS\tTITLE")
	}
	_, err := client.list(ctx, "list runs", "/api/v1/runs", query, c.Limit, func(raw json.RawMessage) error {
		if c.JSON {
			return printJSON(e.stdout, raw)
		}
		var r runView
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
		_, err := fmt.Fprintln(w, r.row())
		return err
	})
	if err != nil {
		return err
	}
	return w.Flush()
}

// row is the run as a line of a table.
func (r *runView) row() string {
	began := "-"
	if at := cmp.Or(r.StartTime, r.CreatedAt); at != nil {
		began = at.Local().Format(time.DateTime)
	}
	title := words.Shorten(r.Title, 60)
	if r.Error != "" {
		title += ": " + words.Shorten(r.Error, 80)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s", words.Clean(r.PlanID), words.Clean(r.State), words.Clean(r.Executor), cmp.Or(words.Clean(r.Name), "-"), began,
		cmp.Or(words.Took(r.StartTime, r.EndTime), "-"), r.Takeovers, title)
}
