package main

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// TestEvent: a run waits for an event that a command sends.
func TestEvent(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "  shipper: {description: Ships, tools: [wait_for]}\n",
		scriptmodel.Scene{Name: "s", Turns: []scriptmodel.Turn{
			{ToolCalls: []scriptmodel.ToolCall{{Name: "wait_for", Arguments: map[string]any{"event": "paid:17"}}}},
			says("Shipped."),
		}})
	s := h.serve(t, 1)
	command := func(args ...string) []string { return append(args, "--server", s.url) }

	id := strings.TrimSpace(must(t, command("run", "shipper", "Ship.", "--detach", "--project", "shop")...))
	storetest.Until(t, "the run waits", func() bool {
		return strings.Contains(must(t, command("runs", "--state", "WAITING", "--json")...), id)
	})

	if out := must(t, command("event", "paid:17")...); out != "paid:17 woke 0 runs\n" {
		t.Errorf("in another project it prints %q", out)
	}
	paid := command("event", "paid:17", "--data", `{"amount": 42}`, "--project", "shop", "--by", "ada")
	if out := must(t, paid...); out != "paid:17 woke 1 run\n" {
		t.Errorf("it prints %q", out)
	}
	wantAll(t, must(t, append(paid, "--json")...), `"key":"paid:17"`, `"woken":0`)
	storetest.Until(t, "the run has ended", func() bool {
		return strings.Contains(must(t, command("runs", "--state", "COMPLETED", "--json")...), id)
	})

	for _, args := range [][]string{{"event"}, {"event", "k", "--data", "{"}} {
		if code, _, stderr := actlog(t, command(args...)...); code != exitUsage {
			t.Errorf("%q: %d %s", args, code, stderr)
		}
	}
	if code, _, stderr := actlog(t, command("event", strings.Repeat("k", 256))...); code != exitFailed ||
		!strings.Contains(stderr, "key") {
		t.Errorf("a long key: %d %s", code, stderr)
	}
}
