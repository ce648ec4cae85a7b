package main

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestShowSearch: where a run says a text, also if the answer has several pages.
func TestShowSearch(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	changes := []record.Change{
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: new("The Needle"), State: new(record.Completed)},
	}
	for i := range 600 {
		changes = append(changes, &record.ActTool{
			RootPlanID: "p", StepID: "s", Seq: int64(i), ToolCallID: "t", Name: new("fetch"),
			Result: new("a\nneedle\x1b[31m in"), State: new(record.Completed),
		})
	}

	storetest.Write(t, s, changes...)
	out := must(t, "show", "p", "--search", "needle", "--server", url)
	if !strings.HasPrefix(out, "The Needle  COMPLETED\n  at plan:p\n  title: The Needle\nfetch  COMPLETED\n"+
		"  at call:s/0/t\n  result: a needle[31m in\n") || strings.Count(out, "result: ") != 600 {
		t.Errorf("show = %.300s", out)
	}

	if out := must(t, "show", "p", "--search", "absent", "--server", url); out != "" {
		t.Errorf("show = %s", out)
	}
	if out := must(
		t, "show", "p", "--search", "needle", "--json", "--server", url,
	); !strings.Contains(out, `"match":"Needle"`) {
		t.Errorf("show = %.300s", out)
	}
	if code, _, stderr := actlog(t, "show", "p", "--search", "a", "--step", "s", "--server", url); code != exitUsage {
		t.Errorf("code = %v, %v", code, stderr)
	}
}
