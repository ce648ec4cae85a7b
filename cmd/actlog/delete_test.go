package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestDelete (N29) deletes trees, and those only.
func TestDelete(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	storetest.Write(t, s, fullRun()...)
	for _, id := range []string{"a", "b", "c"} {
		storetest.Write(t, s, runningPlan(id)...)
	}

	for _, tt := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"plan-1"}, exitUsage, "", "--yes"}, // stdin is no terminal
		{[]string{"none", "--yes"}, exitFailed, "", "plan none is not on record"},
		{[]string{"sub-1", "--yes"}, exitFailed, "", "is a sub-plan of plan-1"},
		{[]string{"a", "none", "sub-1", "b", "--yes"}, exitFailed, "deleted a\ndeleted b\n", "plan none is not on record"},
		{[]string{"plan-1", "--yes"}, exitDone, "deleted plan-1\n", ""},
		{[]string{"plan-1", "--yes"}, exitFailed, "", "not on record"},
	} {
		code, stdout, stderr := actlog(t, append([]string{"delete", "--server", url}, tt.args...)...)
		if code != tt.code || stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("delete %q: exit code %d\n%s%s", tt.args, code, stdout, stderr)
		}
	}

	storetest.Write(t, s, runningPlan("plan-12")...)
	if code, _, _ := actlog(t, "delete", "plan-1", "--yes", "--server", url); code != exitUsage {
		t.Errorf("a plan that is gone, and whose id begins another: exit code %d", code)
	}

	must(t, "delete", "plan-12", "--yes", "--server", url)
	if out := must(t, "list", "--json", "--server", url); strings.Count(out, "\n") != 1 ||
		!strings.Contains(out, `"rootPlanId":"c"`) {
		t.Errorf("left:\n%s", out)
	}
	if code, _, stderr := actlog(t, "delete", "c", "--yes", "--server", "http://127.0.0.1:1"); code != exitFailed ||
		!strings.Contains(stderr, "no answer") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestDeleteAsks (N29) answers the question in a terminal.
func TestDeleteAsks(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	const id = "0192f3b4-7c15-78b8-90e1-73f0804531c2"
	storetest.Write(t, s, runningPlan(id)...)

	for _, tt := range []struct {
		answer string
		code   int
	}{
		{"\n", exitFailed}, {"no\n", exitFailed}, {"yess\n", exitFailed}, {"\x04", exitFailed}, {"\x03", 130},
		{"Y\n", exitDone},
	} {
		cmd, tty, shown := onTerminal(t, 160, 24, "delete", id[:leastShortID], "--server", url)
		shown.await(t, "Delete "+id+" and everything below from "+url+", for good? [y/N]")
		if _, err := tty.WriteString(tt.answer); err != nil {
			t.Fatal(err)
		}

		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != tt.code {
			t.Errorf("%q: exit code %d\n%s", tt.answer, cmd.ProcessState.ExitCode(), shown)
		}
		if _, _, err := s.PlanTree(t.Context(), "", id); (err == nil) != (tt.code != exitDone) {
			t.Errorf("%q: %v", tt.answer, err)
		}
	}
}

// TestDeleteNeedsAdmin (N29) uses keys with and without the scope.
func TestDeleteNeedsAdmin(t *testing.T) {
	t.Parallel()
	var keys []string
	var lines strings.Builder
	for _, scopes := range [][]httpd.Scope{{httpd.ScopeRead, httpd.ScopeWrite}, {httpd.ScopeAdmin}} {
		secret, line, err := httpd.NewKey("k", scopes)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, secret)
		lines.WriteString(line + "\n")
	}
	known, err := httpd.ReadKeys(strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}

	url, s := serve(t, apitest.Config{HTTP: httpd.Config{Keys: known}}, func(h http.Handler) http.Handler { return h })
	storetest.Write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p"})

	if code, _, stderr := actlog(t, "delete", "p", "--yes", "--server", url, "--api-key", keys[0]); code != exitFailed ||
		!strings.Contains(stderr, "admin") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if out := must(t, "delete", "p", "--yes", "--server", url, "--api-key", keys[1]); out != "deleted p\n" {
		t.Errorf("delete = %q", out)
	}
}
