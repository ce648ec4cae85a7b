package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/runtime/config"
)

const unpricedModels = `
models:
  default: {provider: openai, model: gpt-5-mini, apiKey: k}
  own: {provider: openai, model: our-own-model-7b, apiKey: k, baseURL: "http://127.0.0.1:1/v1"}
agents:
  own: {description: d, model: own, limits: {costUsd: 0.001}}
  free: {description: d, model: own}
  known: {description: d, limits: {costUsd: 1}}
  boss: {description: d, tools: [agent.middle], limits: {costUsd: 1}}
  middle: {description: d, tools: ["agent.fr*", agent.boss]}
  other: {description: d, tools: ["agent.*"], exclude: [agent.own, agent.free, agent.middle, agent.boss, agent.planner], limits: {costUsd: 1}}
  planner: {description: d, tools: [plan.*], limits: {costUsd: 1}}
plans:
  cheap: {steps: [{agent: known, request: r}, {agent: known, model: own, request: r}]}
  deep: {steps: [{agent: known, tools: [agent.free], request: r}]}
`

// TestUnpriced checks which limits of cost are reported because a model has no price.
func TestUnpriced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "actlog.yaml")
	if err := os.WriteFile(path, []byte(unpricedModels), 0o600); err != nil {
		t.Fatal(err)
	}

	c, err := config.Load(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}

	priced := func(provider, model string) bool { return provider == "openai" && model == "gpt-5-mini" }
	want := "agents.boss.limits.costUsd: model our-own-model-7b of agent free has no price\n" +
		"agents.own.limits.costUsd: model our-own-model-7b has no price\n" +
		"agents.planner.limits.costUsd: model our-own-model-7b of agent known has no price\n" +
		"agents.planner.limits.costUsd: model our-own-model-7b of agent free has no price"
	if got := strings.Join(c.Unpriced(priced), "\n"); got != want {
		t.Errorf("strings.Join = %s\nwant:\n%s", got, want)
	}

	allowed := strings.ReplaceAll(unpricedModels, "our-own-model-7b", "our-own-model-7b, unpriced: allow")
	if c, err = config.Parse(path, []byte(allowed), config.Options{}); err != nil || len(c.Unpriced(priced)) > 0 {
		t.Errorf("with models that need no price: %v, %v", c, err)
	}
	wrong := strings.ReplaceAll(unpricedModels, "our-own-model-7b", "our-own-model-7b, unpriced: yes")
	_, err = config.Parse(path, []byte(wrong), config.Options{})
	if err == nil || !strings.Contains(err.Error(), "unpriced") {
		t.Errorf("unpriced: yes: %v", err)
	}
}
