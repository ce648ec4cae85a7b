package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/view/when"
	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

type listCmd struct {
	State        string `help:"Only plans in this state, such as FAILED." placeholder:"STATE"`
	Name         string `help:"Only plans of this name." placeholder:"NAME"`
	Agent        string `help:"Only plans in which this agent worked." placeholder:"NAME"`
	Project      string `help:"Only plans of this project." placeholder:"NAME"`
	User         string `help:"Only plans of this user." placeholder:"ID"`
	Conversation string `help:"Only plans of this conversation." placeholder:"ID"`
	StartedBy    string `help:"Only plans that say that this plan started them." placeholder:"PLAN"`
	Tag          string `help:"Only plans with this tag." placeholder:"TAG"`
	Q            string `help:"Only plans with all of these words in the titles, requests, summaries, agent names, tool names and errors of their trees." placeholder:"TEXT"`
	Failed       *bool  `help:"Only plans in whose trees something failed; --failed=false: only the others."`
	MinCost      string `help:"Only plans whose trees cost at least this, in US dollars." placeholder:"USD"`
	MaxCost      string `help:"Only plans whose trees cost at most this, in US dollars." placeholder:"USD"`
	MinDuration  string `help:"Only plans that took at least this long, such as 5m." placeholder:"TIME"`
	MaxDuration  string `help:"Only plans that took at most this long." placeholder:"TIME"`
	Model        string `help:"Only plans in which this model was used." placeholder:"NAME"`
	Tool         string `help:"Only plans in which this tool was called." placeholder:"NAME"`
	JSON         bool   `help:"Print the plans as JSON, one per line."`
	periodFlags
	pageFlags
	serverFlags
}

// planItem is a root plan in a list, or in an event about all plans.
type planItem struct {
	RootPlanID string
	Title      string
	Name       string
	State      string
	// Placeholder: only the id is known.
	Placeholder bool
	StartTime   *time.Time
	Steps       int64
	Total       figuresView
	// Only in lists.
	LastSignOfLife *time.Time
	Agent, Project string
	Cause          *causeView
	// Only in events.
	ErrorKind string
	Deleted   bool
}

func (c *listCmd) Run(ctx context.Context, e *env, client *client) error {
	if err := checkState(c.State); err != nil {
		return err
	}

	query := filters(map[string]string{
		"state": c.State, "name": c.Name, "agent": c.Agent, "project": c.Project,
		"userId": c.User, "conversationId": c.Conversation, "startedBy": c.StartedBy, "tag": c.Tag, "q": c.Q,
		"minCost": c.MinCost, "maxCost": c.MaxCost, "minDuration": c.MinDuration, "maxDuration": c.MaxDuration,
		"model": c.Model, "tool": c.Tool,
	})
	if c.Failed != nil {
		query.Set("failed", strconv.FormatBool(*c.Failed))
	}

	if err := errors.Join(c.check(), client.whole(ctx, &c.StartedBy)); err != nil {
		return err
	}
	now := time.Now()
	if err := c.narrow(query, now); err != nil {
		return err
	}

	plans, read, err := list[planItem](ctx, client, e, c.JSON, "list plans", "/api/v1/plans", query, c.pageFlags)
	if err != nil {
		return err
	}

	if !c.JSON {
		if err := planTable(plans, now).write(e.stdout, widthOf(e.stdout)); err != nil {
			return err
		}
	}
	if read.incomplete {
		fmt.Fprintln(e.stderr, "actlog: older runs are still being indexed; some may be missing")
	}
	return client.rest(ctx, e, read, "plan", c.JSON)
}

// checkState checks the flag that chooses runs by their state.
func checkState(state string) error {
	if state != "" && !slices.Contains(planStates(), state) {
		return usageError(fmt.Sprintf("--state %s: must be one of %s", state, strings.Join(planStates(), ", ")))
	}
	return nil
}

// filters returns the query of a list: the flags that were given, by the names of their members.
func filters(flags map[string]string) url.Values {
	query := url.Values{}
	for name, value := range flags {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

func planStates() (all []string) {
	for _, s := range record.States(record.KindPlan) {
		all = append(all, string(s))
	}
	return all
}

func planTable(plans []planItem, now time.Time) *table {
	t := &table{columns: []column{
		{head: "PLAN"}, {head: "STATE"}, {head: "SILENT", optional: true}, {head: "AGENT", share: 1},
		{head: "PROJECT", share: 1},
		{head: "BEGAN"}, {head: "TOOK"}, {head: "COST"}, {head: "TITLE", share: 1},
		{head: "CAUSE", share: 2},
	}}

	ids := make([]string, len(plans))
	for i := range plans {
		ids[i] = plans[i].RootPlanID
	}
	short := shortIDs(ids)

	for i := range plans {
		p := &plans[i]
		silent, cost := "", "-"
		if p.LastSignOfLife != nil {
			silent = words.Age(now.Sub(*p.LastSignOfLife))
		}
		if p.Total.CostUSD != nil {
			cost = words.Dollars(*p.Total.CostUSD)
		}

		t.add(
			words.Clean(short[p.RootPlanID]), shownState(p.State, p.Placeholder), silent,
			cmp.Or(words.Shorten(p.Agent, 60), "-"),
			words.Shorten(p.Project, 60), began(p.StartTime, now), cmp.Or(p.Total.took(), "-"), cost,
			words.Shorten(cmp.Or(p.Title, p.Name), 200),
			p.Cause.brief(),
		)
	}
	return t
}

// began is when something began, by the clock of this machine: without the year if it is this one.
func began(at *time.Time, now time.Time) string {
	switch {
	case at == nil:
		return "-"
	case at.Local().Year() == now.Local().Year():
		return at.Local().Format("01-02 15:04")
	}
	return at.Local().Format(time.DateOnly)
}

// periodFlags say when runs began.
type periodFlags struct {
	Since string `help:"Only what began at or after this: a time (RFC 3339), a day in this machine's time zone, or how long ago, such as 24h, 3d or 2w." placeholder:"TIME"`
	Until string `help:"Only what began before this, given like --since." placeholder:"TIME"`
}

// narrow adds the times to the query of a list.
func (f *periodFlags) narrow(query url.Values, now time.Time) error {
	for name, value := range map[string]string{"since": f.Since, "until": f.Until} {
		if value == "" {
			continue
		}

		at, err := parseTime("--"+name, value, now, time.Local)
		if err != nil {
			return err
		}
		query.Set(name, at.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// parseTime reads the time of a flag, or how long ago it was. A day begins at a place.
func parseTime(flag, s string, now time.Time, place *time.Location) (time.Time, error) {
	at, ok := when.Time(s, now, place)
	if !ok {
		return at, usageError(fmt.Sprintf("%s %s: must be %s", flag, s, when.Forms))
	}
	return at, nil
}
