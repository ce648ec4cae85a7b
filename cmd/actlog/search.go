package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/view/words"
	"github.com/actlog/actlog/record"
)

type searchCmd struct {
	Text         string   `arg:"" help:"What a text has, as one piece. Case and white space make no difference."`
	Kind         []string `help:"Only texts of these kinds: plan, agentExecution, thinkAct, actTool, thought, artifact, source, wait." placeholder:"KIND"`
	State        string   `help:"Only runs in this state, such as FAILED." placeholder:"STATE"`
	Name         string   `help:"Only runs of this name." placeholder:"NAME"`
	Agent        string   `help:"Only runs in which this agent worked." placeholder:"NAME"`
	Project      string   `help:"Only runs of this project." placeholder:"NAME"`
	Environment  string   `help:"Only runs of this environment." placeholder:"NAME"`
	User         string   `help:"Only runs of this user." placeholder:"ID"`
	Conversation string   `help:"Only runs of this conversation." placeholder:"ID"`
	Tag          string   `help:"Only runs with this tag." placeholder:"TAG"`
	PerRun       int      `help:"The most texts of a run; 0: all. The last line of a run says how many more it has." default:"3" placeholder:"NUMBER"`
	JSON         bool     `help:"Print the texts as JSON, one per line."`
	periodFlags
	pageFlags
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
	if err := checkState(c.State); err != nil {
		return err
	}
	for _, kind := range c.Kind {
		if !slices.Contains(record.Kinds, record.Kind(kind)) {
			return usageError(fmt.Sprintf("--kind %s: must be one of %v", kind, record.Kinds))
		}
	}
	if err := c.check(); err != nil {
		return err
	}
	if c.PerRun < 0 || c.PerRun > maxPerRun {
		return usageError(fmt.Sprintf("--per-run %d: must be from 0 to %d", c.PerRun, maxPerRun))
	}

	query := filters(map[string]string{
		"kind": strings.Join(c.Kind, ","), "state": c.State, "name": c.Name, "agent": c.Agent, "project": c.Project,
		"environment": c.Environment,
		"userId":      c.User, "conversationId": c.Conversation, "tag": c.Tag,
	})
	query.Set("q", c.Text)
	if c.PerRun > 0 {
		query.Set("perRun", strconv.Itoa(c.PerRun))
	}

	now := time.Now()
	if err := c.narrow(query, now); err != nil {
		return err
	}

	hits, read, err := list[textHit](ctx, client, e, c.JSON, "search", "/api/v1/search", query, c.pageFlags)
	if err == nil && !c.JSON {
		f := &foundRuns{
			client: client, view: newView(e.stdout).wrapping(), text: c.Text, now: now, hits: hits, left: read.left,
		}
		err = f.draw()
	}
	if err != nil {
		return err
	}
	return client.rest(ctx, e, read, "text", true)
}

// maxPerRun is how many texts of a run the server returns at most, if it counts the others.
const maxPerRun = 500

// leftView says how many more texts a run has; open: at least.
type leftView struct {
	RootPlanID string
	Texts      int64
	Open       bool
}

type foundRuns struct {
	client *client
	view   *view
	text   string // that was looked for
	now    time.Time
	hits   []textHit
	left   []leftView
}

func (f *foundRuns) draw() error {
	v := f.view
	ids := make([]string, len(f.hits))
	for i := range f.hits {
		ids[i] = f.hits[i].RootPlanID
	}
	short := shortIDs(ids)

	for i := range f.hits {
		hit := &f.hits[i]
		if i == 0 || hit.RootPlanID != f.hits[i-1].RootPlanID {
			v.line("", v.bold(short[hit.RootPlanID]), v.state(hit.State), began(&hit.Began, f.now),
				words.Shorten(cmp.Or(hit.Title, hit.RunName), 100))
		}

		v.line("  ", v.faint(hit.what()+":")+" "+clean(hit.Before)+v.bold(hit.Match)+clean(hit.After))
		v.line("    ", v.faint("at "+hit.At))
		if i+1 == len(f.hits) || hit.RootPlanID != f.hits[i+1].RootPlanID {
			f.drawLeft(hit.RootPlanID, short[hit.RootPlanID])
		}
	}
	return v.err
}

// drawLeft says how many more texts a run has, and how to see them.
func (f *foundRuns) drawLeft(root, short string) {
	n, open := int64(0), false
	for _, l := range f.left { // a run may be on two pages
		if l.RootPlanID == root {
			n, open = n+l.Texts, open || l.Open
		}
	}

	if more := words.MoreInRun(n, open); more != "" {
		f.view.whole("  ", f.view.exact(more+": "+f.client.commandLine("show", []string{short}, "--search", f.text)))
	}
}

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
