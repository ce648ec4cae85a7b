package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/storetest"
	"github.com/actlog/actlog/record"
)

// TestPrice sets the price of an unknown model, and applies it to a call on record.
func TestPrice(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t).URL
	s := storetest.OpenURL(t, database)
	started := time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)
	storetest.Write(t, s, &record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: 0, ModelName: new("House-7b"), InputTokens: new(int64(2_000_000)), ThinkStartTime: &started})
	price := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := actlog(t, append([]string{"price", args[0], "--database-url", database}, args[1:]...)...)
		if code != want {
			t.Errorf("price %q: exit code %d, want %d\n%s", args, code, want, stderr)
		}
		return stdout, stderr
	}
	price(exitDone, "set", "", "House-*", "--input", "1.5", "--output", "4", "--from", "2026-11-01", "--source", "the bill")
	if stdout, _ := price(exitDone, "apply", "--since", "2026-11-01"); stdout != "calls priced: 1\n" {
		t.Errorf("apply: %q", stdout)
	}
	if d, err := s.StepDetail(t.Context(), "", "s"); err != nil || d.Figures.CostUSD == nil || *d.Figures.CostUSD != 3 {
		t.Errorf("%+v, %v", d, err)
	}
	stdout, _ := price(exitDone, "list", "house")
	want := "PROVIDER  MODEL    FROM        INPUT  OUTPUT  CACHE READ  CACHE WRITE  SEEN\n(any)     house-*  2026-11-01  1.5    4       -           -            -\n"
	if stdout != want {
		t.Errorf("list:\n%swant:\n%s", stdout, want)
	}
	stdout, _ = price(exitDone, "list", "--json", "openai")
	if n := strings.Count(stdout, "\n"); n < 20 {
		t.Errorf("list --json: %d lines", n)
	}
	for line := range strings.Lines(stdout) {
		var listed priceJSON
		if err := json.Unmarshal([]byte(line), &listed); err != nil || listed.Provider != "openai" || listed.Seen == nil {
			t.Errorf("list --json: %v\n%s", err, line)
		}
	}
	price(exitDone, "delete", "", "house-*", "--from", "2026-11-01")
	for _, tt := range []struct {
		code int
		args []string
		want string // on stderr
	}{
		{exitFailed, []string{"delete", "", "house-*", "--from", "2026-11-01"}, "actlog price list"},
		{exitUsage, []string{"set", "", "m", "--input", "1"}, "--output"},
		{exitUsage, []string{"set", "", "m", "--input", "-1", "--output", "1"}, "input"},
		{exitUsage, []string{"set", "", "*", "--input", "1", "--output", "1"}, "model"},
		{exitUsage, []string{"set", "", "m", "--input", "1", "--output", "1", "--from", "today"}, "--from"},
		{exitUsage, []string{"apply", "--since", "2026-13-01"}, "--since"},
	} {
		if _, stderr := price(tt.code, tt.args...); !strings.Contains(stderr, tt.want) {
			t.Errorf("price %q, want %q:\n%s", tt.args, tt.want, stderr)
		}
	}
}
