package define_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/runtime/define"
)

var known = define.Names{
	Models: []string{"default", "claude"}, Servers: []string{"search"}, Tools: []string{"weather", "agent.other"},
}

// TestCheckAgents checks that the agents of a program are checked as those of a file.
func TestCheckAgents(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		agent define.Agent
		want  string // the problem; empty: none
	}{
		{"a", define.Agent{}, ""},
		{
			"a", define.Agent{
				Tools:      []string{"weather", "agent.*", "agent.a", "agent.other", "form", "search-find"},
				MCPServers: []string{"search"},
			}, "",
		},
		{"a", define.Agent{SystemPrompt: "Costs ${X} and $$ and $.", Description: "yes"}, ""},
		{
			"a", define.Agent{
				ResponseSchema: json.RawMessage(
					`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740991}}}`,
				),
			}, "",
		},
		{
			"a", define.Agent{
				Limits:      define.Limits{Rounds: 1, ToolCalls: 2, Tokens: 3_000_000_000_000, CostUSD: 0.5, Seconds: 6},
				WaitTimeout: define.Duration(time.Hour), Temperature: new(0.0), MaxSteps: 3,
			}, "",
		},
		{"a", define.Agent{Model: "gpt"}, `agents.a.model: no model is called "gpt"; there are: default, claude`},
		{
			"a", define.Agent{Tools: []string{"weather", "wether"}},
			`agents.a.tools[1]: no tool is called "wether"; did you mean weather?`,
		},
		{
			"a", define.Agent{Tools: []string{"agent.nobody"}},
			`agents.a.tools[0]: no tool is called "agent.nobody"; there are: `,
		},
		{"a", define.Agent{Tools: []string{"a b"}}, `agents.a.tools[0]: pattern "a b"`},
		{"a", define.Agent{Tools: []string{""}}, `agents.a.tools[0]: it is empty`},
		{
			"a", define.Agent{MCPServers: []string{"other"}},
			`agents.a.mcpServers[0]: no MCP server is called "other"; there are: search`,
		},
		{"a", define.Agent{MaxSteps: -1}, `agents.a.maxSteps: want a whole number from 1`},
		{"a", define.Agent{Temperature: new(3.0)}, `agents.a.temperature: want a number from 0 to 2`},
		{"a", define.Agent{Temperature: new(math.NaN())}, `agents.a.temperature: want a number from 0 to 2`},
		{"a", define.Agent{Limits: define.Limits{CostUSD: math.Inf(1)}}, `agents.a.limits.costUsd: want a number above 0`},
		{"a", define.Agent{Limits: define.Limits{Tokens: -1}}, `agents.a.limits.tokens: want a whole number from 1`},
		{"a", define.Agent{WaitTimeout: define.Duration(-time.Second)}, `agents.a.waitTimeout: want a time`},
		{
			"a", define.Agent{ResponseSchema: json.RawMessage(`{"type":"string"}`)},
			`agents.a.responseSchema: want the schema of an object`,
		},
		{
			"a", define.Agent{ResponseSchema: json.RawMessage(`{"type"`)},
			`agents.a.responseSchema: want a JSON Schema, not a text`,
		},
		{
			"a", define.Agent{ResponseSchema: json.RawMessage(`{"type":"object","properties":5}`)},
			`agents.a.responseSchema: not a JSON Schema`,
		},
		{"a", define.Agent{SystemPrompt: "\x00"}, `agents.a.systemPrompt: a text cannot have the character 0`},
		{"a", define.Agent{SystemPrompt: "\xff"}, `agents.a.systemPrompt: want a text`},
		{"a b", define.Agent{}, `agents.a b: a name has at most`},
		{"", define.Agent{}, `agents.: a name has at most`},
		{"other", define.Agent{Model: "x"}, `agents.other.model: no model`},
	} {
		checked, mistakes := define.CheckAgents(map[string]define.Agent{row.name: row.agent}, known)
		if row.want == "" {
			want := row.agent
			if want.Model == "" {
				want.Model = "default"
			}
			if diff := cmp.Diff(map[string]define.Agent{row.name: want}, checked); mistakes != nil || diff != "" {
				t.Errorf("%+v: %v %s", row.agent, mistakes, diff)
			}
			continue
		}

		if len(mistakes) != 1 || !strings.HasPrefix(mistakes[0].Error(), row.want) {
			t.Errorf("%+v: %v, want %s", row.agent, mistakes, row.want)
		}
	}
}

// TestAgentsWithTheSameNames checks that two tools that are the same to a model are found.
func TestAgentsWithTheSameNames(t *testing.T) {
	t.Parallel()
	_, mistakes := define.CheckAgents(map[string]define.Agent{"a.b": {}, "a-b": {}}, known)
	if len(mistakes) != 1 || !strings.Contains(mistakes[0].Error(), "are both agent-a-b to a model") {
		t.Errorf("mistakes = %v", mistakes)
	}

	_, mistakes = define.CheckAgents(map[string]define.Agent{"a": {}}, define.Names{
		Models: known.Models, Servers: []string{"agent"},
	})
	if len(mistakes) != 1 || !strings.Contains(mistakes[0].Error(),
		"to a model, tools of this server could have the same names as agent.a") {
		t.Errorf("mistakes = %v", mistakes)
	}
}
