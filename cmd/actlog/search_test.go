package main

import (
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestSearch: which runs say a text, also if the answer has several pages, and with every filter.
func TestSearch(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	changes := []record.Change{
		&record.Plan{
			RootPlanID: "old", CurrentPlanID: "old", Title: new("The Needle"), State: new(record.Completed), StartTime: at(0),
		},
		&record.Plan{RootPlanID: "new", CurrentPlanID: "new", Name: new("nightly"), Project: new("shop"),
			Environment: new("live"), UserID: new("ada"), ConversationID: new("c-1"), Tags: []string{"x"},
			State: new(record.Failed), StartTime: at(10_000_000)},
		&record.AgentExecution{RootPlanID: "new", PlanID: "new", StepID: "s", AgentName: new("clerk")},
		&record.ThinkAct{RootPlanID: "new", StepID: "s", Seq: 0, ThinkOutput: new("which needle?")},
		&record.Thought{RootPlanID: "new", PlanID: "new", ThoughtID: "t", Content: new("one needle")},
	}
	for i := range 200 {
		changes = append(changes, &record.ActTool{
			RootPlanID: "new", StepID: "s", Seq: int64(i), ToolCallID: "t", Name: new("fetch"),
			Result: new("a\nneedle\x1b[31m in"),
		})
	}

	storetest.Write(t, s, changes...)
	out := must(t, "search", "needle", "--limit", "1000", "--per-run", "0", "--server", url)
	since := began(at(10_000_000), time.Now())

	if !strings.HasPrefix(out, "new  FAILED  "+since+
		"  nightly\n  clerk cycle 1 thinkOutput: which needle?\n    at cycle:s/0\n  fetch result: a needle[31m in\n"+
		"    at call:s/0/t\n") ||
		strings.Count(out, "fetch result: ") != 200 ||
		!strings.Contains(out, "\n  thought content: one needle\n    at plan:new\nold  COMPLETED  ") ||
		!strings.HasSuffix(out, "\n  title: The Needle\n    at plan:old\n") {
		t.Errorf("search = %.300s ... %s", out, out[max(0, len(out)-300):])
	}

	// F4: a search spreads over runs, says how many more texts each has, and how to go on.
	code, out, stderr := actlog(t, "search", "needle", "--limit", "4", "--server", url)
	if code != exitDone || strings.Count(out, "    at ") != 4 ||
		!strings.Contains(out, " more in this run: actlog show new --search needle --server "+url+"\n") ||
		!strings.Contains(out, "\n  title: The Needle\n") || stderr != "" {
		t.Errorf("code = %d %s\n%s", code, stderr, out)
	}

	_, out, stderr = actlog(t, "search", "needle", "--limit", "2", "--server", url)
	if !strings.HasPrefix(stderr, "actlog: 2 texts, and there are more. The next ones: --cursor ") ||
		!strings.Contains(out, " more in this run: ") {
		t.Errorf("stderr = %s\n%s", stderr, out)
	}
	if out := must(t, "search", "needle", "--limit", "2", "--cursor", nextCursor(stderr), "--json", "--server",
		url); !strings.Contains(out, `"rootPlanId":"old"`) {
		t.Errorf("search = %s", out)
	}

	if out = must(t, "search", "absent", "--server", url); out != "" {
		t.Errorf("search = %s", out)
	}
	if out := must(t, "search", "needle", "--json", "--limit", "1", "--server", url); strings.Count(out, "\n") != 1 ||
		!strings.Contains(out, `"match":"needle"`) {
		t.Errorf("search = %.300s", out)
	}

	for _, flag := range [][]string{
		{"--state", "FAILED"}, {"--name", "nightly"}, {"--project", "shop"}, {"--environment", "live"}, {"--user", "ada"},
		{"--conversation", "c-1"}, {"--tag", "x"}, {"--agent", "clerk"},
		{"--since", at(5_000_000).Format(time.RFC3339)}, {"--kind", "thinkAct,thought"},
	} {
		if out := must(t, append([]string{"search", "needle", "--limit", "1000", "--server", url},
			flag...)...); !strings.Contains(out, "which needle") || strings.Contains(out, "old") {
			t.Errorf("%q: %.300s", flag, out)
		}
	}

	for _, flag := range [][]string{
		{"--until", at(5_000_000).Format(time.RFC3339)}, {"--kind", "plan"}, {"--state", "COMPLETED"},
	} {
		if out := must(t, append([]string{"search", "needle", "--server", url}, flag...)...); !strings.HasPrefix(out, "old") {
			t.Errorf("%q: %.300s", flag, out)
		}
	}

	for _, args := range [][]string{
		{"search"}, {"search", "a", "--kind", "run"}, {"search", "a", "--state", "odd"}, {"search", "a", "--limit", "0"},
		{"search", "a", "--since", "odd"}, {"search", "a", "--per-run", "501"},
	} {
		if code, _, stderr := actlog(t, append(args, "--server", url)...); code != exitUsage {
			t.Error(args, code, stderr)
		}
	}
}
