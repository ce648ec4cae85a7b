package config_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent/config"
)

var known = config.Names{Models: []string{"default", "claude"}, Servers: []string{"search"}, Tools: []string{"weather", "agent.other"}}

// TestCheckAgents checks that the agents of a program are checked as those of a file.
func TestCheckAgents(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		agent config.Agent
		want  string // the problem; empty: none
	}{
		{"a", config.Agent{}, ""},
		{"a", config.Agent{Tools: []string{"weather", "agent.*", "agent.a", "agent.other", "form", "search-find"}, MCPServers: []string{"search"}}, ""},
		{"a", config.Agent{SystemPrompt: "Costs ${X} and $$ and $.", Description: "yes"}, ""},
		{"a", config.Agent{ResponseSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740991}}}`)}, ""},
		{"a", config.Agent{Limits: config.Limits{Rounds: 1, ToolCalls: 2, Tokens: 3_000_000_000_000, CostUSD: 0.5, Seconds: 6}, WaitTimeout: config.Duration(time.Hour), Temperature: new(0.0), MaxSteps: 3}, ""},
		{"a", config.Agent{Model: "gpt"}, `agents.a.model: no model is called "gpt"; there are: default, claude`},
		{"a", config.Agent{Tools: []string{"weather", "wether"}}, `agents.a.tools[1]: no tool is called "wether"; did you mean weather?`},
		{"a", config.Agent{Tools: []string{"agent.nobody"}}, `agents.a.tools[0]: no tool is called "agent.nobody"; there are: `},
		{"a", config.Agent{Tools: []string{"a b"}}, `agents.a.tools[0]: pattern "a b"`},
		{"a", config.Agent{Tools: []string{""}}, `agents.a.tools[0]: it is empty`},
		{"a", config.Agent{MCPServers: []string{"other"}}, `agents.a.mcpServers[0]: no MCP server is called "other"; there are: search`},
		{"a", config.Agent{MaxSteps: -1}, `agents.a.maxSteps: want a whole number from 1`},
		{"a", config.Agent{Temperature: new(3.0)}, `agents.a.temperature: want a number from 0 to 2`},
		{"a", config.Agent{Temperature: new(math.NaN())}, `agents.a.temperature: want a number from 0 to 2`},
		{"a", config.Agent{Limits: config.Limits{CostUSD: math.Inf(1)}}, `agents.a.limits.costUsd: want a number above 0`},
		{"a", config.Agent{Limits: config.Limits{Tokens: -1}}, `agents.a.limits.tokens: want a whole number from 1`},
		{"a", config.Agent{WaitTimeout: config.Duration(-time.Second)}, `agents.a.waitTimeout: want a time`},
		{"a", config.Agent{ResponseSchema: json.RawMessage(`{"type":"string"}`)}, `agents.a.responseSchema: want the schema of an object`},
		{"a", config.Agent{ResponseSchema: json.RawMessage(`{"type"`)}, `agents.a.responseSchema: want a JSON Schema, not a text`},
		{"a", config.Agent{ResponseSchema: json.RawMessage(`{"type":"object","properties":5}`)}, `agents.a.responseSchema: not a JSON Schema`},
		{"a", config.Agent{SystemPrompt: "\x00"}, `agents.a.systemPrompt: a text cannot have the character 0`},
		{"a", config.Agent{SystemPrompt: "\xff"}, `agents.a.systemPrompt: want a text`},
		{"a b", config.Agent{}, `agents.a b: a name has at most`},
		{"", config.Agent{}, `agents.: a name has at most`},
		{"other", config.Agent{Model: "x"}, `agents.other.model: no model`},
	} {
		checked, err := config.CheckAgents(map[string]config.Agent{row.name: row.agent}, known)
		if row.want == "" {
			want := row.agent
			if want.Model == "" {
				want.Model = "default"
			}
			if diff := cmp.Diff(map[string]config.Agent{row.name: want}, checked); err != nil || diff != "" {
				t.Errorf("%+v: %v %s", row.agent, err, diff)
			}
			continue
		}
		wrong, ok := errors.AsType[*config.InvalidError](err)
		if !ok || len(wrong.Problems) != 1 || !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%+v: %v, want %s", row.agent, err, row.want)
		}
	}
}

// TestAgentsWithTheSameNames checks that two tools that are the same to a model are found.
func TestAgentsWithTheSameNames(t *testing.T) {
	t.Parallel()
	_, err := config.CheckAgents(map[string]config.Agent{"a.b": {}, "a-b": {}}, known)
	if err == nil || !strings.Contains(err.Error(), "are both agent-a-b to a model") {
		t.Error(err)
	}
	_, err = config.CheckAgents(map[string]config.Agent{"a": {}}, config.Names{Models: known.Models, Servers: []string{"agent"}})
	if err == nil || !strings.Contains(err.Error(), "to a model, tools of this server could have the same names as agent.a") {
		t.Error(err)
	}
}
