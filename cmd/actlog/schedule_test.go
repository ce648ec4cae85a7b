package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

const scheduledReader = `  reader: {description: Reads., enableWrite: false}
schedules:
  nightly: {cron: "0 3 * * *", timezone: Europe/Berlin, executor: agent, input: {agent: reader, request: "Read."}}
  weekly:
    {cron: 0 0 * * MON, paused: true, overlap: queue, executor: agent, input: {agent: reader, request: "\e[2J"}}
`

// TestScheduleCommands: schedules of a file at a terminal.
func TestScheduleCommands(t *testing.T) {
	t.Parallel()
	h := newHouse(t, scheduledReader, scriptmodel.Scene{Name: "none", Turns: []scriptmodel.Turn{says("-")}})
	server := h.serve(t, 0)

	command := func(words ...string) string {
		t.Helper()
		return must(t, append(append([]string{"schedule"}, words...), "--server", server.url)...)
	}
	storetest.Until(t, "the schedules are on record", func() bool {
		return strings.Count(command("list", "--json"), "\n") == 2
	})

	wantAll(t, command("list"), "SCHEDULE  CRON         TIMEZONE       NEXT", "nightly   0 3 * * *    Europe/Berlin  ",
		"weekly    0 0 * * MON", "paused", "agent reader")
	wantAll(t, command("show", "nightly"), "nightly: 0 3 * * * in Europe/Berlin, from file",
		"starts agent reader; overlap skip, catch up last within 1h, jitter 0s", "\nnext  ")
	wantAll(t, command("pause", "nightly"), "nightly is paused\n")
	wantAll(t, command("show", "nightly"), "\npaused\n")
	wantAll(t, command("resume", "nightly", "--by", "ann"), "nightly ticks next at 20")

	var shown struct{ Name string }
	if err := json.Unmarshal([]byte(command("show", "weekly", "--json")), &shown); err != nil || shown.Name != "weekly" {
		t.Errorf("%+v, %v", shown, err)
	}

	id := strings.TrimSpace(command("run", "nightly"))
	if !strings.HasPrefix(id, "plan-") {
		t.Errorf("the plan is %q", id)
	}
	runs := must(t, "runs", "--schedule", "nightly", "--json", "--server", server.url)
	wantAll(t, runs, id)
	wantAll(t, command("run", "nightly", "--json"), `"planId"`)

	for _, name := range []string{"show", "pause", "resume", "run"} {
		code, _, stderr := actlog(t, "schedule", name, "none", "--server", server.url)
		if code != exitFailed || !strings.Contains(stderr, "none") {
			t.Errorf("%s: %d %q", name, code, stderr)
		}
	}
}
