package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// TestTry: a model call of a run is made again from the command line.
func TestTry(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "  reader: {description: Reads}\n",
		scriptmodel.Scene{Name: "brief", Match: scriptmodel.Match{System: "Be brief."}, Turns: []scriptmodel.Turn{
			{Content: "No."}, {Content: "No."},
		}},
		scriptmodel.Scene{Name: "s", Turns: []scriptmodel.Turn{says("Done.")}})
	s := h.serve(t, 1)
	command := func(args ...string) []string { return append(args, "--server", s.url) }

	must(t, command("run", "reader", "Ask.")...)
	plan := cellOf(t, must(t, command("list", "--json")...), `"rootPlanId":"`)
	step := cellOf(t, must(t, command("show", plan, "--json")...), `"stepId":"`)
	prompt := filepath.Join(t.TempDir(), "prompt")
	if err := os.WriteFile(prompt, []byte("Be brief."), 0o600); err != nil {
		t.Fatal(err)
	}

	tried := command("try", plan, "--at", "cycle:"+step+"/0", "--model", "default", "--system-prompt-file", prompt,
		"--temperature", "0.5")
	wantAll(t, must(t, tried...), "before: ", `  calls terminate {"message":"Done."}`, "after: ", "  No.\n", "plan: plan-")
	wantAll(t, must(t, append(tried, "--json")...), `"text":"No."`, `"toolCalls":[]`)
	wrong := command("try", plan, "--at", "step:"+step, "--model", "default")
	if code, _, stderr := actlog(t, wrong...); code != exitFailed ||
		!strings.Contains(stderr, "at is no address of a cycle") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// cellOf returns what follows a text, up to the next quote.
func cellOf(t *testing.T, out, after string) string {
	t.Helper()
	_, rest, ok := strings.Cut(out, after)
	value, _, _ := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("no %s in %s", after, out)
	}
	return value
}
