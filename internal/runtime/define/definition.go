package define

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

// Definition is what a run pins of an agent when it starts. It has no secrets. Equal definitions have the same JSON,
// and what is decoded from it has it, too.
type Definition struct {
	Agent        string          `json:"agent"`
	Description  string          `json:"description,omitempty"`
	SystemPrompt string          `json:"systemPrompt,omitempty"`
	Model        DefinitionModel `json:"model"`
	// Tools are names and patterns. MCPServers are the servers to connect to, and AllOf those of them
	// all of whose tools the agent has.
	Tools          []string        `json:"tools,omitempty"`
	MCPServers     []string        `json:"mcpServers,omitempty"`
	AllOf          []string        `json:"allOf,omitempty"`
	Exclude        []string        `json:"exclude,omitempty"` // names and patterns of tools that it does not have
	MaxSteps       int             `json:"maxSteps,omitempty"`
	IncludeHistory bool            `json:"includeHistory,omitempty"`
	ResponseSchema json.RawMessage `json:"responseSchema,omitempty"`
	Limits         Limits          `json:"limits,omitzero"`
	WaitTimeout    Duration        `json:"waitTimeout,omitempty"`
	EnableWrite    bool            `json:"enableWrite"`
	Policies       tool.Rules      `json:"policies,omitempty"` // those that can match a tool of the agent
}

// DefinitionModel says which model a Definition asks, and how.
type DefinitionModel struct {
	Name        string   `json:"name"` // in the configuration or the program
	Provider    string   `json:"provider"`
	Model       string   `json:"model"`
	Temperature *float64 `json:"temperature,omitempty"`
	MaxTokens   int64    `json:"maxTokens,omitempty"`
}

// Definition returns the definition of an agent of a name, with its model, among the MCP servers and
// policies that there are.
func (a Agent) Definition(name string, m DefinitionModel, servers []string, policies tool.Rules) Definition {
	d := Definition{
		Agent: name, Description: a.Description, SystemPrompt: a.SystemPrompt, Model: m,
		Tools: a.Tools, AllOf: a.MCPServers, Exclude: a.Exclude, MaxSteps: a.MaxSteps, IncludeHistory: a.IncludeHistory,
		ResponseSchema: a.ResponseSchema,
		Limits:         a.Limits, WaitTimeout: a.WaitTimeout, EnableWrite: a.EnableWrite,
	}
	if a.Temperature != nil {
		d.Model.Temperature = a.Temperature
	}

	patterns := append([]string{"terminate"}, a.Tools...)
	for _, server := range servers {
		all := slices.Contains(a.MCPServers, server)
		if all || slices.ContainsFunc(a.Tools, func(pattern string) bool { return Overlap(pattern, server+"-*") }) {
			d.MCPServers = append(d.MCPServers, server)
		}
		if all {
			patterns = append(patterns, server+"-*")
		}
	}

	for _, r := range policies {
		if slices.ContainsFunc(patterns, func(pattern string) bool { return Overlap(pattern, r.Tools) }) {
			d.Policies = append(d.Policies, r)
		}
	}
	return d
}

// Needs returns what a worker must have for the agent.
func (d Definition) Needs() []string {
	return append([]string{"model:" + d.Model.Name}, needsOf(d.Tools, d.MCPServers)...)
}

// needsOf returns what a worker must have for tools and MCP servers. Tools that a pattern matches may be missing,
// those of servers are known only when they are asked, and every worker has form and terminate. Workers
// of an earlier release do not have wait_for.
func needsOf(tools, servers []string) (all []string) {
	for _, server := range servers {
		all = append(all, "mcp:"+server)
	}

	for _, name := range tools {
		everywhere := name == "terminate" || name == "form"
		ofServer := slices.ContainsFunc(servers, func(server string) bool { return strings.HasPrefix(name, server+"-") })
		if !everywhere && !ofServer && !strings.Contains(name, "*") {
			all = append(all, "tool:"+name)
		}
	}
	return all
}

// Policy returns the policy by which the agent may call a tool.
func (d Definition) Policy(s tool.Spec) tool.Policy { return d.Policies.Of(s) }

// Select returns the tools that the agent has, in their order: those that match its patterns, and
// those of its servers, but for those that it excludes. Tools that write are not among them unless EnableWrite is set.
// The tool terminate, which every agent has, is up to the executor.
func (d Definition) Select(tools []tool.Tool) (selected []tool.Tool) {
	for _, t := range tools {
		s := t.Spec()
		matches := func(pattern string) bool { return tool.Match(pattern, s.Name) }
		has := s.Server != "" && slices.Contains(d.AllOf, s.Server) ||
			slices.ContainsFunc(d.Tools, matches)
		if has && !slices.ContainsFunc(d.Exclude, matches) && (d.EnableWrite || !d.Policy(s).Writes) {
			selected = append(selected, t)
		}
	}
	return selected
}
