package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/config"
	"github.com/actlog/actlog/internal/runtime/define"
)

const anAgent = "models: {default: {provider: openai, model: m}}\nagents: {reader: {systemPrompt: Read.}}\n"

const twoSchedules = `schedules:
  nightly:
    cron: 0 3 * * *
    timezone: Europe/Berlin
    jitter: 5m
    overlap: queue
    catchUp: all
    window: 2h
    paused: true
    executor: agent
    input: {agent: reader, request: "Read <b>", history: [{role: user, content: "\u202e"}]}
    project: shop
    userId: ann
    conversationId: c-1
    tags: [night]
    limits: {tokens: 1000}
    priority: 0
    concurrencyKey: nights
  each-minute: {cron: "* * * * * *", executor: plan, name: review, input: {}}
`

// TestSchedules: what a schedule is, with its defaults.
func TestSchedules(t *testing.T) {
	t.Parallel()
	c, err := parse(t, anAgent+twoSchedules, config.Options{})
	if err != nil {
		t.Fatal(err)
	}

	s := c.Schedules["nightly"]
	if s.Cron != "0 3 * * *" || s.Timezone != "Europe/Berlin" || s.Jitter != define.Span(5*time.Minute) ||
		s.Overlap != define.OverlapQueue || s.CatchUp != define.CatchUpAll || s.Window != define.Span(2*time.Hour) ||
		!s.Paused {
		t.Errorf("%+v", s)
	}

	if s.Executor != "agent" || s.Project != "shop" || s.UserID != "ann" || s.ConversationID != "c-1" ||
		len(s.Tags) != 1 || s.Limits.Tokens != 1000 || s.Priority == nil || *s.Priority != 0 ||
		s.ConcurrencyKey != "nights" || !strings.Contains(string(s.Input), `"agent":"reader"`) {
		t.Errorf("%+v", s.Start)
	}

	d := c.Schedules["each-minute"]
	if d.Timezone != "UTC" || d.Jitter != 0 || d.Overlap != define.OverlapSkip || d.CatchUp != define.CatchUpLast ||
		d.Window != define.Span(time.Hour) || d.Paused || d.Name != "review" || d.Priority != nil || d.ConcurrencyKey != "" {
		t.Errorf("the defaults: %+v", d)
	}
}

// TestWrongSchedules: each mistake is named with its place.
func TestWrongSchedules(t *testing.T) {
	t.Parallel()
	const good = "cron: 0 3 * * *, executor: agent, input: {agent: reader}"
	for text, want := range map[string]string{
		"a: {executor: agent, input: {agent: reader}}":             "schedules.a.cron: required",
		"a: {cron: 0 3 * * *, input: {}}":                          "schedules.a.executor: required",
		"a: {cron: 0 3 * * *, executor: agent}":                    "schedules.a.input: required",
		"a: {cron: 0 25 * * *, executor: agent, input: {}}":        "schedules.a.cron: cannot be read",
		"a: {cron: 0 0 31 2 *, executor: agent, input: {}}":        "schedules.a.cron: means no day",
		"a: {" + good + ", timezone: Berlin}":                      "schedules.a.timezone: must be the name",
		"a: {" + good + ", jitter: 25h}":                           "schedules.a.jitter: must be from",
		"a: {" + good + ", window: 1000h}":                         "schedules.a.window: must be from",
		"a: {" + good + ", overlap: all}":                          "schedules.a.overlap: want skip or queue or cancel",
		"a: {" + good + ", catchUp: some}":                         "schedules.a.catchUp: want",
		"a: {" + good + ", paused: maybe}":                         "schedules.a.paused: want true or false",
		"a: {cron: 0 3 * * *, executor: agent, input: {agent: x}}": "schedules.a.input.agent: ",
		"a: {cron: 0 3 * * *, executor: agent, input: [1]}":        "schedules.a.input: want a mapping",
		"a: {" + good + ", priority: 10}":                          "schedules.a.priority: want a whole number from 0 to 9",
		"a: {" + good + ", startAt: x}":                            "schedules.a.startAt: no such key",
		"a b: {" + good + "}":                                      "a name has at most",
		"a: {" + good + `, tags: ["${KEY}"]}`:                      "schedules.a.tags",
	} {
		found := problems(t, anAgent+"schedules: {"+text+"}\n")
		if len(found) != 1 || !strings.Contains(found[0], want) {
			t.Errorf("%s: %q, want one that says %s", text, found, want)
		}
	}
}
