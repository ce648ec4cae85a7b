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
	"time"

	"github.com/actlog/actlog/internal/words"
	"github.com/actlog/actlog/record"
)

type searchCmd struct {
	Text         string   `arg:"" help:"What a text has, as one piece. Case and white space make no difference."`
	Kind         []string `help:"Only texts of these kinds: plan, agentExecution, thinkAct, actTool, thought, artifact, source, wait." placeholder:"KIND"`
	Since        string   `help:"Only runs that began at or after this: a time (RFC 3339), a day in this machine's time zone, or how long ago, such as 24h." placeholder:"TIME"`
	Until        string   `help:"Only runs that began before this, given like --since." placeholder:"TIME"`
	State        string   `help:"Only runs in this state, such as FAILED." placeholder:"STATE"`
	Name         string   `help:"Only runs of this name." placeholder:"NAME"`
	Agent        string   `help:"Only runs in which this agent worked." placeholder:"NAME"`
	Project      string   `help:"Only runs of this project." placeholder:"NAME"`
	Environment  string   `help:"Only runs of this environment." placeholder:"NAME"`
	User         string   `help:"Only runs of this user." placeholder:"ID"`
	Conversation string   `help:"Only runs of this conversation." placeholder:"ID"`
	Tag          string   `help:"Only runs with this tag." placeholder:"TAG"`
	Limit        int      `help:"The most texts to show, at least 1." default:"50"`
	JSON         bool     `help:"Print the texts as JSON, one per line."`
	serverFlags
}

// textHit is a text of a run that has what was looked for.
type textHit struct {
	RootPlanID, Title, RunName, State   string
	Began                               time.Time
	At, Kind, Name, TextID              string
	Seq                                 *int
	PlanID, Field, Before, Match, After string
}

func (c *searchCmd) Run(ctx context.Context, e *env, client *client) error {
	if c.State != "" && !slices.Contains(planStates(), c.State) {
		return usageError(fmt.Sprintf("--state %s: must be one of %s", c.State, strings.Join(planStates(), ", ")))
	}
	for _, kind := range c.Kind {
		if !slices.Contains(record.Kinds, record.Kind(kind)) {
			return usageError(fmt.Sprintf("--kind %s: must be one of %v", kind, record.Kinds))
		}
	}
	if c.Limit < 1 {
		return usageError(fmt.Sprintf("--limit %d: must be at least 1", c.Limit))
	}
	query := url.Values{"q": {c.Text}}
	for name, value := range map[string]string{
		"kind": strings.Join(c.Kind, ","), "state": c.State, "name": c.Name, "agent": c.Agent, "project": c.Project, "environment": c.Environment,
		"userId": c.User, "conversationId": c.Conversation, "tag": c.Tag,
	} {
		if value != "" {
			query.Set(name, value)
		}
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
	view := newView(e.stdout)
	run := ""
	_, err := client.list(ctx, "search", "/api/v1/search", query, c.Limit, func(raw json.RawMessage) error {
		if c.JSON {
			return printJSON(e.stdout, raw)
		}
		var hit textHit
		if err := json.Unmarshal(raw, &hit); err != nil {
			return err
		}
		if hit.RootPlanID != run {
			run = hit.RootPlanID
			view.line("", view.bold(run), view.state(hit.State), hit.Began.Local().Format(time.DateTime), words.Shorten(cmp.Or(hit.Title, hit.RunName), 60))
		}
		view.line("  ", view.faint(hit.At), view.faint(hit.what()+":")+" "+clean(hit.Before)+view.bold(hit.Match)+clean(hit.After))
		return view.err
	})
	return err
}

// what says what has the text.
func (h *textHit) what() string {
	name := words.Shorten(h.Name, 40)
	if h.Kind == string(record.KindThinkAct) && h.Seq != nil {
		name = strings.TrimSpace(name + " cycle " + strconv.Itoa(*h.Seq+1))
	}
	switch record.Kind(h.Kind) {
	case record.KindThought, record.KindArtifact, record.KindSource:
		name = h.Kind
	}
	return strings.TrimSpace(name + " " + h.Field)
}
