package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
	_ "time/tzdata" // the time zones of schedules, for machines that have none

	"github.com/actlog/actlog/internal/view/words"
)

type scheduleCmd struct {
	List   scheduleListCmd   `cmd:"" help:"List schedules: when they tick, and when next."`
	Show   scheduleShowCmd   `cmd:"" help:"Show a schedule, its next ticks, and what came of its last ones."`
	Pause  schedulePauseCmd  `cmd:"" help:"Pause a schedule. Its runs go on."`
	Resume scheduleResumeCmd `cmd:"" help:"Let a paused schedule tick again, from now on."`
	Run    scheduleRunCmd    `cmd:"" help:"Start what a schedule starts, now, and print the id of its plan."`
}

// scheduleView is what the commands read of a schedule.
type scheduleView struct {
	Name, Source, Cron, Timezone, Jitter, Overlap, CatchUp, Window string
	Paused                                                         bool
	Executor, RunName, Error                                       string
	Input                                                          json.RawMessage
	NextTicks                                                      []time.Time
	LastTick                                                       *time.Time
}

// starts says what is started.
func (v *scheduleView) starts() string {
	var input struct{ Agent, Workflow string }
	_ = json.Unmarshal(v.Input, &input) // of other executors it may be anything
	return strings.TrimSpace(v.Executor + " " + cmp.Or(v.RunName, input.Agent, input.Workflow))
}

// next says when a schedule ticks next.
func (v *scheduleView) next(now time.Time) string {
	switch {
	case v.Paused:
		return "paused"
	case len(v.NextTicks) == 0:
		return "-"
	}
	return began(&v.NextTicks[0], now)
}

type scheduleListCmd struct {
	JSON bool `help:"Print the schedules as JSON, one per line."`
	pageFlags
	serverFlags
}

func (c *scheduleListCmd) Run(ctx context.Context, e *env, client *client) error {
	if err := c.check(); err != nil {
		return err
	}
	all, read, err := list[scheduleView](ctx, client, e, c.JSON, "list schedules", "/api/v1/schedules", url.Values{},
		c.pageFlags)
	if err != nil {
		return err
	}

	if !c.JSON {
		t := &table{columns: []column{
			{head: "SCHEDULE", share: 1}, {head: "CRON"}, {head: "TIMEZONE"}, {head: "NEXT"}, {head: "LAST"}, {head: "SOURCE"},
			{head: "STARTS", share: 1}, {head: "ERROR", share: 1, optional: true},
		}}
		now := time.Now()
		for i := range all {
			v := &all[i]
			t.add(words.Shorten(v.Name, 100), words.Clean(v.Cron), words.Clean(v.Timezone), v.next(now), began(v.LastTick, now),
				words.Clean(v.Source), words.Shorten(v.starts(), 100), words.Shorten(v.Error, cellRunes))
		}
		if err := t.write(e.stdout, widthOf(e.stdout)); err != nil {
			return err
		}
	}
	return client.rest(ctx, e, read, "schedule", c.JSON)
}

// scheduleFlags name a schedule.
type scheduleFlags struct {
	Name string `arg:"" help:"Name of a schedule."`
	JSON bool   `help:"Print the answer of the server as JSON."`
	serverFlags
}

func (c *scheduleFlags) path() string { return "/api/v1/schedules/" + url.PathEscape(c.Name) }

type scheduleShowCmd struct{ scheduleFlags }

func (c *scheduleShowCmd) Run(ctx context.Context, e *env, client *client) error {
	what := named("schedule", c.Name)
	if c.JSON {
		return client.print(ctx, e.stdout, what, c.path())
	}

	var v scheduleView
	if err := client.get(ctx, what, c.path(), &v); err != nil {
		return err
	}
	var ticks struct {
		Items []struct {
			Tick    time.Time
			Outcome string
			PlanID  string
		}
	}
	if err := client.get(ctx, what, c.path()+"/ticks?limit=10", &ticks); err != nil {
		return err
	}

	lines := []string{
		fmt.Sprintf("%s: %s in %s, from %s", words.Clean(v.Name), words.Clean(v.Cron), words.Clean(v.Timezone),
			words.Clean(v.Source)),
		fmt.Sprintf("starts %s; overlap %s, catch up %s within %s, jitter %s", words.Clean(v.starts()),
			words.Clean(v.Overlap), words.Clean(v.CatchUp), words.Clean(v.Window), words.Clean(v.Jitter)),
	}

	if v.Error != "" {
		lines = append(lines, "cannot start: "+words.Clean(v.Error))
	}
	if v.Paused {
		lines = append(lines, "paused")
	}

	for _, tick := range v.NextTicks {
		lines = append(lines, "next  "+tickTime(tick))
	}
	for _, tick := range ticks.Items {
		line := fmt.Sprintf("last  %s  %s  %s", tickTime(tick.Tick), words.Clean(tick.Outcome), words.Clean(tick.PlanID))
		lines = append(lines, strings.TrimRight(line, " "))
	}
	_, err := fmt.Fprintln(e.stdout, strings.Join(lines, "\n"))
	return err
}

// tickTime is the time of a tick by the clock of this machine.
func tickTime(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05 MST") }

type schedulePauseCmd struct{ scheduleAskFlags }

func (c *schedulePauseCmd) Run(ctx context.Context, e *env, client *client) error {
	return c.ask(ctx, e, client, "/pause")
}

type scheduleResumeCmd struct{ scheduleAskFlags }

func (c *scheduleResumeCmd) Run(ctx context.Context, e *env, client *client) error {
	return c.ask(ctx, e, client, "/resume")
}

// scheduleAskFlags name a schedule that is asked for something.
type scheduleAskFlags struct {
	scheduleFlags
	By string `help:"Who asks. Default: the name of the API key." placeholder:"NAME"`
}

// post asks the schedule for something.
func (c *scheduleAskFlags) post(ctx context.Context, client *client, what string) (raw json.RawMessage, err error) {
	body := struct {
		By string `json:"by,omitempty"`
	}{c.By}
	err = client.post(ctx, named("schedule", c.Name), c.path()+what, nil, body, &raw)
	return raw, err
}

// ask pauses or resumes the schedule, and prints how it stands.
func (c *scheduleAskFlags) ask(ctx context.Context, e *env, client *client, what string) error {
	raw, err := c.post(ctx, client, what)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, raw)
	}

	var v scheduleView
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("%s: %w", named("schedule", c.Name), err)
	}

	line := words.Clean(v.Name) + " is paused"
	if !v.Paused {
		line = words.Clean(v.Name) + " does not tick any more"
	}
	if len(v.NextTicks) > 0 {
		line = words.Clean(v.Name) + " ticks next at " + tickTime(v.NextTicks[0])
	}
	_, err = fmt.Fprintln(e.stdout, line)
	return err
}

type scheduleRunCmd struct{ scheduleAskFlags }

func (c *scheduleRunCmd) Run(ctx context.Context, e *env, client *client) error {
	raw, err := c.post(ctx, client, "/run")
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, raw)
	}

	var started runView
	if err := json.Unmarshal(raw, &started); err != nil {
		return fmt.Errorf("%s: %w", named("schedule", c.Name), err)
	}
	_, err = fmt.Fprintln(e.stdout, words.Clean(started.PlanID))
	return err
}
