package main

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// TestAgain: a run that a limit ended goes on with another one, and is run again with another input.
func TestAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "  reader: {description: Reads}\n",
		scriptmodel.Scene{Name: "s", Turns: []scriptmodel.Turn{says("Done.")}})
	s := h.serve(t, 1)
	command := func(args ...string) []string { return append(args, "--server", s.url) }
	fails := func(want int, says string, args ...string) {
		t.Helper()
		if code, stdout, stderr := actlog(t, command(args...)...); code != want || !strings.Contains(stderr, says) {
			t.Errorf("%q: exit code %d, want %d and %q: %s%s", args, code, want, says, stdout, stderr)
		}
	}

	id := strings.TrimSpace(must(t, command("run", "reader", "Ask.", "--detach", "--limit", "tokens=1")...))
	becomes := func(id, state string) {
		t.Helper()
		storetest.Until(t, "the run is "+state, func() bool {
			return strings.Contains(must(t, command("runs", "--state", state, "--json")...), id)
		})
	}
	becomes(id, "FAILED")

	fails(exitFailed, "limits.tokens", "retry", id)
	fails(exitFailed, "limits.tokens", "retry", id, "--limit", "tokens=1")
	fails(exitFailed, "limits.cats", "retry", id, "--limit", "cats=1")
	fails(exitUsage, "--limit tokens: must be NAME=NUMBER", "again", id, "--limit", "tokens")
	fails(exitUsage, "--input: must be JSON", "again", id, "--input", "{")
	fails(exitFailed, "input must be an object", "again", id, "--input", "[]")
	fails(exitFailed, "input.request is required", "again", id, "--input", `{"request":null}`)

	retried := must(t, command("retry", id, "--limit", "tokens=100000", "--by", "ann")...)
	if !strings.HasPrefix(retried, id+" is ") {
		t.Errorf("retry prints %q", retried)
	}
	becomes(id, "COMPLETED")
	fails(exitFailed, "the run was completed", "retry", id)

	again := strings.TrimSpace(must(t, command("again", id, "--input", `{"request":"Ask more."}`, "--limit", "tokens=9999")...))
	if becomes(again, "COMPLETED"); again == id {
		t.Errorf("again prints %s", again)
	}
	wantAll(t, must(t, command("list", "--json")...), again, `"title":"Ask more."`)
	wantAll(t, must(t, command("again", id, "--json")...), `"planId":"plan-`, `"state":"PENDING"`)
}

// TestRetryMany: all runs that failed in some way are retried, after a look at them.
func TestRetryMany(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "  reader: {description: Reads}\n",
		scriptmodel.Scene{Name: "s", Turns: []scriptmodel.Turn{says("Done.")}})
	s := h.serve(t, 1)
	command := func(args ...string) []string { return append(args, "--server", s.url) }

	for range 12 {
		must(t, command("run", "reader", "Ask.", "--detach", "--limit", "tokens=1", "--project", "shop")...)
	}
	storetest.Until(t, "all have failed", func() bool {
		return strings.Count(must(t, command("runs", "--state", "FAILED", "--json")...), `"planId":`) == 12
	})

	many := command("retry", "--state", "FAILED", "--since", "1h", "--error-kind", "limit_tokens", "--project", "shop",
		"--agent", "reader")
	code, _, stderr := actlog(t, many...)
	if code != exitUsage || !strings.Contains(stderr, "pass --yes") || strings.Count(stderr, "The run has reac") != 10 ||
		!strings.Contains(stderr, "and 2 more") {
		t.Errorf("%d: %s", code, stderr)
	}
	for _, args := range [][]string{{"retry"}, {"retry", "plan-7", "--state", "FAILED"}, {"retry", "--state", "BROKEN"}} {
		if code, _, stderr := actlog(t, command(args...)...); code != exitUsage {
			t.Errorf("%q: %d %s", args, code, stderr)
		}
	}

	out := must(t, append(many, "--yes", "--rate", "100", "--limit", "tokens=100000")...)
	if !strings.HasPrefix(out, "bulk-") || !strings.Contains(out, " is COMPLETED: 12 of 12 asked, 0 refused\n") {
		t.Errorf("it prints %q", out)
	}
	storetest.Until(t, "all are completed", func() bool {
		return strings.Count(must(t, command("runs", "--state", "COMPLETED", "--json")...), `"planId":`) == 12
	})
	if out := must(t, append(many, "--yes")...); out != "" {
		t.Errorf("of none it prints %q", out)
	}
}
