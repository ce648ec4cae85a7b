package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestPrice sets the price of an unknown model, and applies it to a call on record.
func TestPrice(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t).URL
	s := storetest.OpenURL(t, database)
	started := time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)
	storetest.Write(t, s, &record.ThinkAct{
		RootPlanID: "p", StepID: "s", Seq: 0, ModelName: new("House-7b"), InputTokens: new(int64(2_000_000)),
		ThinkStartTime: &started,
	})
	price := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := actlog(t, append([]string{"price", args[0], "--database-url", database}, args[1:]...)...)
		if code != want {
			t.Errorf("price %q: exit code %d, want %d\n%s", args, code, want, stderr)
		}
		return stdout, stderr
	}

	price(exitDone, "set", "", "House-*", "--input", "1.5", "--output", "4", "--from", "2026-11-01", "--source",
		"the bill")
	if stdout, _ := price(exitDone, "apply", "--since", "2026-11-01"); stdout != "calls priced: 1\n" {
		t.Errorf("apply: %q", stdout)
	}
	if d, err := s.StepDetail(t.Context(), "", "s"); err != nil || d.Figures.CostUSD == nil || *d.Figures.CostUSD != 3 {
		t.Errorf("s.StepDetail = %+v, %v", d, err)
	}

	stdout, _ := price(exitDone, "list", "house")
	want := "PROVIDER  MODEL    FROM        ABOVE  INPUT  OUTPUT  CACHE READ  CACHE WRITE  FOR 1H  SEEN\n" +
		"(any)     house-*  2026-11-01  -      1.5    4       -           -            -       (own)\n"
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
		{exitUsage, []string{"set", "", "m", "--input", "1", "--output", "1", "--tier", "200000,2"}, "--tier"},
		{exitUsage, []string{"set", "", "m", "--input", "1", "--output", "1", "--tier", "200000,2,-3"}, "output"},
		{exitUsage, []string{"set", "", "m", "--input", "1", "--output", "1", "--tier", "9,2,3", "--tier", "9,2,3"}, "above"},
	} {
		if _, stderr := price(tt.code, tt.args...); !strings.Contains(stderr, tt.want) {
			t.Errorf("price %q, want %q:\n%s", tt.args, tt.want, stderr)
		}
	}
}

// TestPriceImport checks that the list of prices says its date and is renewed from a file, and that prices that were
// set stay.
func TestPriceImport(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t).URL
	s := storetest.OpenURL(t, database)

	price := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := actlog(t, append([]string{"price", args[0], "--database-url", database}, args[1:]...)...)
		if code != want {
			t.Errorf("price %q: exit code %d, want %d\n%s", args, code, want, stderr)
		}
		return stdout, stderr
	}
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "prices.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	costs := func(provider, model string, day time.Time, tokens, hour int64) float64 {
		t.Helper()
		id := uuid.NewString()
		storetest.Write(t, s, &record.ThinkAct{RootPlanID: id, StepID: id, Seq: 0, Provider: &provider, ModelName: &model,
			ThinkStartTime: &day,
			InputTokens:    &tokens, CacheCreationInputTokens: &hour, CacheCreation1hInputTokens: &hour})

		d := storetest.StepDetail(t, s, id)
		if d.Figures.CostUSD == nil {
			return -1
		}
		return math.Round(*d.Figures.CostUSD*1e9) / 1e9
	}
	november, december := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)

	if _, stderr := price(exitDone, "list", "gpt-5"); !strings.Contains(stderr, "the price list is of 2026-11-11") {
		t.Errorf("the list does not say its date: %s", stderr)
	}
	price(exitDone, "set", "openai", "gpt-5", "--input", "1", "--output", "2", "--from", "2026-01-01")
	price(exitDone, "set", "openai", "gpt-5-*", "--input", "0", "--output", "0", "--from", "2026-01-01")
	price(exitDone, "set", "", "house", "--input", "1", "--output", "2", "--from", "2026-01-01", "--cache-write", "1.5",
		"--cache-write-1h", "3", "--tier", "100000,4,5,0.5,6,8")

	stdout, _ := price(exitDone, "import", file(`{"date": "2026-12-01", "prices": [
		{"provider": "openai", "model": "gpt-5", "inputUsd": 9, "outputUsd": 9},
		{"provider": "openai", "model": "gpt-5", "fromDay": "2026-01-01", "inputUsd": 9, "outputUsd": 9},
		{"provider": "openai", "model": "gpt-5-mini", "inputUsd": 9, "outputUsd": 9},
		{"provider": "", "model": "house", "inputUsd": 9, "outputUsd": 9},
		{"provider": "openai", "model": "gpt-4.1", "inputUsd": 2, "outputUsd": 8, "cacheReadUsd": 0.5},
		{"provider": "anthropic", "model": "claude-haiku-4-5", "fromDay": "2026-12-01", "inputUsd": 3, "outputUsd": 4, "cacheWriteUsd": 5, "cacheWrite1hUsd": 6,
			"tiers": [{"aboveTokens": 300000, "inputUsd": 7, "outputUsd": 8}], "source": "the page", "seen": "2026-11-30"}
	]}`))

	if stdout != "price list of 2026-12-01: 4 of 6 prices are new\n" {
		t.Errorf("import: %q", stdout)
	}
	if _, stderr := price(exitDone, "list", "gpt-5"); !strings.Contains(stderr, "the price list is of 2026-12-01") {
		t.Errorf("the list does not say its date: %s", stderr)
	}

	s = storetest.OpenURL(t, database) // an open one reads the prices each minute
	for _, tt := range []struct {
		provider, model string
		day             time.Time
		tokens, hour    int64
		want            float64
	}{
		{"openai", "gpt-5", december, 100_000, 0, 0.1}, // set here
		{"openai", "gpt-5-2025-08-07", december, 100_000, 0, 0},
		{"openai", "gpt-5-mini", december, 100_000, 0, 0},
		{"x", "house", december, 100_000, 0, 0.1},
		{"x", "house", december, 100_000, 100_000, 0.3},
		{"x", "house", december, 200_000, 0, 0.8},
		{"openai", "gpt-4.1", december, 100_000, 0, 0.2},
		{"anthropic", "claude-haiku-4-5", november, 100_000, 0, 0.1},
		{"anthropic", "claude-haiku-4-5", november, 100_000, 100_000, 0.2},
		{"anthropic", "claude-haiku-4-5-20251001", december, 100_000, 0, 0.3},
		{"anthropic", "claude-haiku-4-5-20251001", december, 100_000, 50_000, 0.45},
		{"anthropic", "claude-haiku-4-5-20251001", december, 400_000, 0, 2.8},
		{"aws.bedrock", "eu.anthropic.claude-haiku-4-5-20251001-v1:0", december, 100_000, 0, 0.33},
	} {
		if got := costs(tt.provider, tt.model, tt.day, tt.tokens, tt.hour); got != tt.want {
			t.Errorf("%+v: costs %v", tt, got)
		}
	}

	// What it lists is what it takes.
	listed, _ := price(exitDone, "list", "--json")
	if stdout, _ := price(exitDone, "import", "--date", "2026-12-02", file(listed)); !strings.HasPrefix(stdout,
		"price list of 2026-12-02: 0 of ") {
		t.Errorf("import of the list itself: %q", stdout)
	}

	stdout, _ = price(exitDone, "import", "--date", "2026-12-01", file(`{
		"sample_spec": {"litellm_provider": "one of", "mode": "one of", "input_cost_per_token": 0, "output_cost_per_token": 0},
		"dall-e-3": {"litellm_provider": "openai", "mode": "image_generation", "output_cost_per_image": 0.04},
		"text-embedding-3-small": {"litellm_provider": "openai", "mode": "embedding", "input_cost_per_token": 2e-08, "output_cost_per_token": 0},
		"gemini/gemini-9-pro": {"litellm_provider": "gemini", "mode": "chat", "input_cost_per_token": 1.25e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1.25e-07,
			"input_cost_per_token_above_200k_tokens": 2.5e-06, "output_cost_per_token_above_200k_tokens": 1.5e-05},
		"vertex_ai/claude-nine@20270101": {"litellm_provider": "vertex_ai-anthropic_models", "mode": "chat", "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05,
			"cache_creation_input_token_cost": 3.75e-06, "cache_creation_input_token_cost_above_1hr": 6e-06},
		"us.amazon.nova-9-v1:0": {"litellm_provider": "bedrock_converse", "mode": "chat", "input_cost_per_token": 6e-08, "output_cost_per_token": 2.4e-07}
	}`))

	if stdout != "price list of 2026-12-01: 3 of 3 prices are new\n"+
		"3 entries that are no prices of models for text, or your own, were left out\n" {
		t.Errorf("import: %q", stdout)
	}

	s = storetest.OpenURL(t, database) // an open one reads the prices each minute
	for _, tt := range []struct {
		provider, model string
		tokens, hour    int64
		want            float64
	}{
		{"gcp.gemini", "models/gemini-9-pro", 100_000, 0, 0.125}, {"gcp.gemini", "gemini-9-pro", 400_000, 0, 1},
		{"gcp.vertex_ai", "claude-nine@20270101", 100_000, 100_000, 0.6},
		{"aws.bedrock", "us.amazon.nova-9-v1:0", 1_000_000, 0, 0.06},
	} {
		if got := costs(tt.provider, tt.model, december, tt.tokens, tt.hour); got != tt.want {
			t.Errorf("%+v: costs %v", tt, got)
		}
	}

	for text, want := range map[string]string{
		"":   "there are no prices",
		"[]": "read prices",
		"{":  "read prices",
		`{"prices": [{"model": "m", "inptUsd": 1}]}`:                                                 "inptUsd",
		`{"date": "today", "prices": [{"model": "m"}]}`:                                              "date must be a day",
		`{"prices": [{"model": "m", "inputUsd": -1}]}`:                                               "input must be from 0",
		`{"prices": [{"model": "m", "inputUsd": "1"}]}`:                                              ".prices.inputUsd of type",
		`{"prices": [{"model": "m", "fromDay": "1.1.2026"}]}`:                                        "price 1, of m: fromDay",
		`{"prices": [{"model": "", "inputUsd": 1}]}`:                                                 "must name a model",
		`{"prices": [{"model": "m*", "inputUsd": 1}]}`:                                               "*",
		`{"model": "m", "inputUsd": 1, "outputUsd": 1} {"modl": "n", "inputUsd": 1}`:                 "object 2 has no model",
		`{"modl": "n", "inputUsd": 1} {"model": "m", "inputUsd": 1, "outputUsd": 1}`:                 "object 1 has no model",
		`{"prices": [{"model": "m"}]} {"prices": [{"model": "n"}]}`:                                  "object 2 has prices of its own",
		`{"model": "m", "outputUsd": 1} {"prices": [{"model": "n"}]} {"model": "o"}`:                 "object 2 has prices of its own",
		`{"prices": [{"model": "m", "tiers": [{"aboveTokens": 0, "inputUsd": 1, "outputUsd": 1}]}]}`: "tiers.above",
	} {
		code, _, stderr := actlog(t, "price", "import", "--database-url", database, file(text))
		if code == exitDone || !strings.Contains(stderr, want) {
			t.Errorf("import of %s: exit code %d, want %q:\n%s", text, code, want, stderr)
		}
	}

	if _, stderr := price(exitFailed, "import", filepath.Join(t.TempDir(), "none")); !strings.Contains(stderr, "none") {
		t.Errorf("import of no file: %s", stderr)
	}
}
