package config

import (
	"encoding/json"
	"math"
)

// Agent is an agent as the file defines it.
type Agent struct {
	Description  string `json:"description,omitempty"` // for those who choose an agent, people and models
	SystemPrompt string `json:"systemPrompt,omitempty"`
	Model        string `json:"model"` // of Config.Models
	// Temperature is that of the model if it is nil.
	Temperature *float64 `json:"temperature,omitempty"`
	// Tools are names and patterns. MCPServers are the servers all of whose tools the agent has.
	Tools      []string `json:"tools,omitempty"`
	MCPServers []string `json:"mcpServers,omitempty"`
	// Exclude are names and patterns of tools that the agent does not have all the same.
	Exclude []string `json:"exclude,omitempty"`
	// MaxSteps bounds the rounds. 0 means the default of the executor.
	MaxSteps int `json:"maxSteps,omitempty"`
	// IncludeHistory puts the earlier messages of the conversation first.
	IncludeHistory bool `json:"includeHistory,omitempty"`
	// ResponseSchema is the JSON Schema of an object that the final answer fits.
	ResponseSchema json.RawMessage `json:"responseSchema,omitempty"`
	Limits         Limits          `json:"limits,omitzero"`
	// WaitTimeout bounds waits for humans whose policies do not. 0: they have no end.
	WaitTimeout Duration `json:"waitTimeout,omitempty"`
	// EnableWrite lets the agent use tools that write. It is true unless the file says otherwise.
	EnableWrite bool `json:"enableWrite"`
}

// Limits bound a run. 0 means no limit.
type Limits struct {
	Rounds    int64   `json:"rounds,omitempty"`
	ToolCalls int64   `json:"toolCalls,omitempty"`
	Tokens    int64   `json:"tokens,omitempty"`
	CostUSD   float64 `json:"costUsd,omitempty"`
	Seconds   float64 `json:"seconds,omitempty"`
}

// defaultModel is the model of agents that name none.
const defaultModel = "default"

func readAgent(n node, there names) Agent {
	a := Agent{Model: defaultModel, EnableWrite: true}
	g := n.object(fields{
		"description":    func(n node) { a.Description = n.text() },
		"systemPrompt":   func(n node) { a.SystemPrompt = n.text() },
		"model":          func(n node) { a.Model = n.reference("model", there.models) },
		"temperature":    func(n node) { a.Temperature = n.temperature() },
		"tools":          func(n node) { a.Tools = n.patterns(there.tools) },
		"mcpServers":     func(n node) { a.MCPServers = n.references("MCP server", there.servers) },
		"exclude":        func(n node) { a.Exclude = n.patterns(there.tools) },
		"maxSteps":       func(n node) { a.MaxSteps = int(n.positive(math.MaxInt32)) },
		"includeHistory": func(n node) { a.IncludeHistory = n.boolean() },
		"responseSchema": func(n node) { a.ResponseSchema = n.schema() },
		"limits":         func(n node) { a.Limits = readLimits(n) },
		"waitTimeout":    func(n node) { a.WaitTimeout = n.duration() },
		"enableWrite":    func(n node) { a.EnableWrite = n.boolean() },
	})
	if !g.has("model") && g.node.ShortTag() == "!!map" {
		at := g.node
		at.path = below(at.path, "model")
		at.refer("model", a.Model, there.models)
	}
	return a
}

func readLimits(n node) (l Limits) {
	n.object(fields{
		"rounds":    func(n node) { l.Rounds = n.positive(math.MaxInt32) },
		"toolCalls": func(n node) { l.ToolCalls = n.positive(math.MaxInt32) },
		"tokens":    func(n node) { l.Tokens = n.positive(math.MaxInt64) },
		"costUsd":   func(n node) { l.CostUSD = n.amount() },
		"seconds":   func(n node) { l.Seconds = n.amount() },
	})
	return l
}

// patterns returns names and patterns of tools.
func (n node) patterns(there []string) (patterns []string) {
	for _, each := range n.list() {
		patterns = append(patterns, each.pattern(there))
	}
	return patterns
}

// references returns a list of names of things that there are.
func (n node) references(what string, there []string) (found []string) {
	for _, each := range n.list() {
		found = append(found, each.reference(what, there))
	}
	return found
}
