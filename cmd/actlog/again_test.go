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
