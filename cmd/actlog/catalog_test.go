package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// TestWhatCanBeRun lists what a server is configured with, as tables and as JSON.
func TestWhatCanBeRun(t *testing.T) {
	t.Parallel()
	h := newHouse(t, `  lead: {description: "Leads\e[2J\nwell", tools: [files.write_file, agent.reader], enableWrite: true}
  reader: {description: Reads., tools: ["files.read_*"], enableWrite: false}
policies:
  - {tools: files.write_file, approval: {notStarter: true}, timeout: 90s}
`, scriptmodel.Scene{Name: "none", Turns: []scriptmodel.Turn{says("-")}})

	server := h.serve(t, 1)
	command := func(name string, more ...string) string {
		t.Helper()
		return must(t, append([]string{name, "--server", server.url}, more...)...)
	}
	storetest.Until(t, "the worker lives", func() bool {
		return strings.Contains(command("agents"),
			"lead    default  yes     -        1        files.write_file, agent.reader")
	})

	agents := command("agents")
	wantAll(t, agents, "AGENT   MODEL    WRITES  VERSION  WORKERS  TOOLS", "Leads [2J well",
		"reader  default  no      -        1        files.read_* ")
	wantAll(t, command("tools"), "TOOL", "APPROVAL",
		"files.read_file ", "no      no          retry ", "files.write_file ",
		"yes     by another  retry    1m30s    lead, orchestr")
	wantAll(t, command("models"), "default  openai    scripted  127.0.0.1:", "no      any      1\n")

	for name, want := range map[string]int{"agents": 2, "tools": 12, "models": 1} {
		out := command(name, "--json")
		if strings.Count(out, "\n") != want {
			t.Errorf("%s has %d lines, want %d:\n%s", name, strings.Count(out, "\n"), want, out)
		}
		for line := range strings.Lines(out) {
			var item struct{ Name string }
			if err := json.Unmarshal([]byte(line), &item); err != nil || item.Name == "" {
				t.Errorf("%s: %v", line, err)
			}
		}
		wantNone(t, command(name)+out, "\x1b")
	}
}

// TestNothingCanBeRun: a server without a configuration has nothing to list, and says where it would come from.
func TestNothingCanBeRun(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "", scriptmodel.Scene{Name: "none", Turns: []scriptmodel.Turn{says("-")}})
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--database-url", h.database)

	for _, name := range []string{"agents", "tools", "models"} {
		code, stdout, stderr := actlog(t, name, "--server", server.url)
		says := "the server has no " + name + ". They are in the file of actlog serve --config"
		if code != exitDone || stdout != "" || !strings.Contains(stderr, says) {
			t.Errorf("%s: %d %q %q", name, code, stdout, stderr)
		}
		if out := must(t, name, "--json", "--server", server.url); out != "" {
			t.Errorf("%s --json: %q", name, out)
		}
	}
}
