package receive_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// TestCosts checks what traces cost: by the names of their models, by their kinds of tokens, and with what is told.
func TestCosts(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, file := range []string{"model-names.json", "tokens.json"} {
		body, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		wantTaken(t, c.Export("/v1/traces", otlp.TypeJSON, body), otlp.TypeJSON)
	}

	for trace, want := range map[string]struct {
		cost       float64
		modelCalls float64
	}{
		"c6ec332da323b626aa1ed024b2574e17": {0.33, 1}, // eu.anthropic.claude-sonnet-4-5-20250929-v1:0
		"aead28683cf1d5e1732b90e294846fbe": {0.30, 1}, // claude-sonnet-4-5@20250929
		"8d7fb5f8a7675dff15b8b4b06c16da90": {0.30, 1}, // anthropic/claude-sonnet-4.5
		"0ec88cf635eaffc1a3c770094dacc0e1": {0.50, 1}, // claude-opus-4-8[1m]
		"077f1d9741b1502c7cf5b7de0d840f50": {0.03, 1}, // ft:gpt-4o-mini-2024-07-18:acme::abc123
		"16a4f9c2a7dcb4ce9ea2803ec02adbca": {0.60, 1}, // written to the cache for an hour
		"24aac7f6fb336ca372886a2862080d1b": {1.00, 1}, // a long prompt
		"4b719a7a3868bfb5cb2756eb7d9d21f8": {0.02, 1}, // embeddings, a moderation and a chat
	} {
		total := c.Details(trace).(obj)["total"].(obj)
		if cost, _ := total["costUsd"].(float64); math.Abs(cost-want.cost) > 1e-9 || total["modelCalls"] != want.modelCalls {
			t.Errorf("%s: %v, want %+v", trace, total, want)
		}
	}
}
