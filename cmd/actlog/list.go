package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/actlog/actlog/internal/words"
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
	Since        string `help:"Only plans that began at or after this: a time (RFC 3339), a day in this machine's time zone, or how long ago, such as 24h." placeholder:"TIME"`
	Until        string `help:"Only plans that began before this, given like --since." placeholder:"TIME"`
	Q            string `help:"Only plans with all of these words in the titles, requests, summaries, agent names, tool names and errors of their trees." placeholder:"TEXT"`
	Failed       *bool  `help:"Only plans in whose trees something failed; --failed=false: only the others."`
	MinCost      string `help:"Only plans whose trees cost at least this, in US dollars." placeholder:"USD"`
	MaxCost      string `help:"Only plans whose trees cost at most this, in US dollars." placeholder:"USD"`
	MinDuration  string `help:"Only plans that took at least this long, such as 5m." placeholder:"TIME"`
	MaxDuration  string `help:"Only plans that took at most this long." placeholder:"TIME"`
	Model        string `help:"Only plans in which this model was used." placeholder:"NAME"`
	Tool         string `help:"Only plans in which this tool was called." placeholder:"NAME"`
	Limit        int    `help:"The most plans to list, at least 1." default:"50"`
	JSON         bool   `help:"Print the plans as JSON, one per line."`
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
	Cause          *causeView
	// Only in events.
	ErrorKind string
	Deleted   bool
}

func (c *listCmd) Run(ctx context.Context, e *env, client *client) error {
	if c.State != "" && !slices.Contains(planStates(), c.State) {
		return usageError(fmt.Sprintf("--state %s: must be one of %s", c.State, strings.Join(planStates(), ", ")))
	}
	if c.Limit < 1 {
		return usageError(fmt.Sprintf("--limit %d: must be at least 1", c.Limit))
	}
	query := url.Values{}
	for name, value := range map[string]string{
		"state": c.State, "name": c.Name, "agent": c.Agent, "project": c.Project,
		"userId": c.User, "conversationId": c.Conversation, "startedBy": c.StartedBy, "tag": c.Tag, "q": c.Q,
		"minCost": c.MinCost, "maxCost": c.MaxCost, "minDuration": c.MinDuration, "maxDuration": c.MaxDuration, "model": c.Model, "tool": c.Tool,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if c.Failed != nil {
		query.Set("failed", strconv.FormatBool(*c.Failed))
	}
	now := time.Now()
	for name, value := range map[string]string{"since": c.Since, "until": c.Until} {
		if value == "" {
			continue
		}
		at, err := parseTime("--"+name, value, now)
		if err != nil {
			return err
		}
		query.Set(name, at.UTC().Format(time.RFC3339Nano))
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(w, "PLAN\tSTATE\tSILENT\tBEGAN\tTOOK\tSTEPS\tCALLS\tFAILURES\tTITLE\tCAUSE")
	}
	incomplete, err := client.list(ctx, "list plans", "/api/v1/plans", query, c.Limit, func(raw json.RawMessage) error {
		if c.JSON {
			return printJSON(e.stdout, raw)
		}
		var p planItem
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}
		_, err := fmt.Fprintln(w, p.row(now))
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if incomplete {
		fmt.Fprintln(e.stderr, "actlog: older runs are still being indexed; some may be missing")
	}
	return nil
}

// causeChars is how much room a list has for a cause, in characters.
const causeChars = 100

func planStates() (all []string) {
	for _, s := range record.States(record.KindPlan) {
		all = append(all, string(s))
	}
	return all
}

func (p *planItem) row(now time.Time) string {
	began := ""
	if p.StartTime != nil {
		began = p.StartTime.Local().Format(time.DateTime)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s", words.Clean(p.RootPlanID), shownState(p.State, p.Placeholder), cmp.Or(silence(p.LastSignOfLife, now), "-"), began, p.Total.took(), p.Steps,
		p.Total.ModelCalls+p.Total.ToolCalls, p.Total.Failures, words.Shorten(cmp.Or(p.Title, p.Name), 60), p.Cause.brief(causeChars))
}

// parseTime reads the time of a flag, or how long ago it was.
func parseTime(flag, s string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(s); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usageError(fmt.Sprintf("%s %s: must be a time such as 2026-11-20T13:00:00Z, a day such as 2026-11-20, or how long ago, such as 24h", flag, s))
}
