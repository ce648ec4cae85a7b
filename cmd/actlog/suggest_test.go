package main

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// hostileIDs are ids that anyone may have written: to a shell, or to a command, they mean something else.
var hostileIDs = []string{
	"-rf", "--server=http://evil", "a b", "a  b", "a;touch pwned", "$(touch pwned)", "`touch pwned`", "it's", `"a"`,
	`a\b`, "a&b", "a|b", "a>b", "~", "#a", "*", "!a", "a=b", "{a,b}", "ä",
}

// parsedLine returns the command of a line as a shell and the commands read it.
func parsedLine(t *testing.T, line string) *cli {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "actlog() { printf '%s\\0' \"$@\"; }\n"+line)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}

	var c cli
	parser, err := kong.New(&c, kong.Vars{"version": "", "server": defaultServer})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return &c
}

// TestCommandLine: what is suggested is for the run that it is about, whatever its id is.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	usual, other := &client{base: defaultServer}, &client{base: "http://h:1"}
	for want, line := range map[string]string{
		"actlog show plan-1 --search needle":       usual.commandLine("show", []string{"plan-1"}, "--search", "needle"),
		"actlog show --search=-1 -- -a":            usual.commandLine("show", []string{"-a"}, "--search", "-1"),
		"actlog show 'a b' --search 'it'\\''s'":    usual.commandLine("show", []string{"a b"}, "--search", "it's"),
		"actlog stop plan-1 --server http://h:1":   other.commandLine("stop", []string{"plan-1"}),
		"actlog tail plan-1":                       usual.commandLine("tail", []string{"plan-1"}),
		"actlog answer --server http://h:1 -- p -": other.commandLine("answer", []string{"p", "-"}),
	} {
		if line != want {
			t.Errorf("%s, want %s", line, want)
		}
	}

	for _, id := range hostileIDs {
		c := parsedLine(t, usual.commandLine("show", []string{id}, "--search", id))
		if c.Show.Plan != id || c.Show.Search != id {
			t.Errorf("show %q: %q %q", id, c.Show.Plan, c.Show.Search)
		}

		c = parsedLine(t, other.commandLine("answer", []string{id, id}))
		if c.Answer.Plan != id || c.Answer.Wait != id || c.Answer.Server != other.base {
			t.Errorf("answer %q: %q %q", id, c.Answer.Plan, c.Answer.Wait)
		}
	}
}

// TestSuggestionsAreQuoted: what the commands suggest can be typed as it is, also of runs with hostile ids.
func TestSuggestionsAreQuoted(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	hostileIDs := append(slices.Clip(hostileIDs), strings.Repeat("long ", 40))
	for _, id := range hostileIDs {
		storetest.Write(t, s, &record.Plan{
			RootPlanID: id, CurrentPlanID: id, Title: new("needle"), UserRequest: new("needle"), Summary: new("needle"),
		})
	}

	suggested := map[string]bool{}
	for line := range strings.Lines(must(t, "search", "needle", "--per-run", "1", "--server", url)) {
		if _, line, ok := strings.Cut(line, " more in this run: "); ok {
			show := parsedLine(t, line).Show
			suggested[show.Plan] = true
			if show.Server != url {
				t.Errorf("%s: the server is %q", line, show.Server)
			}
		}
	}
	for _, id := range hostileIDs {
		if !suggested[id] {
			t.Errorf("no command for %q", id)
		}
	}

	for _, id := range hostileIDs {
		var out bytes.Buffer
		story := newStory(&client{base: url}, id, &view{w: &out})
		story.pause(&runView{State: "PAUSED"})
		_, line, _ := strings.Cut(out.String(), "paused  ")

		got := parsedLine(t, strings.TrimSuffix(strings.TrimSpace(line), "makes it go on")).Resume
		if got.Plan != id || got.Server != url {
			t.Errorf("resume %q at %s: %q at %s in %s", id, url, got.Plan, got.Server, line)
		}
	}
}
