package config

import (
	"math"

	"github.com/actlog/actlog/internal/runtime/define"
)

// readAgent reads an agent. An agent without a model uses define.DefaultModel, so that must be configured. If the node
// is not a mapping, the mistake is reported already.
func readAgent(n node, known knownNames) define.Agent {
	a := define.Agent{Model: define.DefaultModel, EnableWrite: true}
	g := n.object(fields{
		"description":    func(n node) { a.Description = n.text() },
		"systemPrompt":   func(n node) { a.SystemPrompt = n.text() },
		"model":          func(n node) { a.Model = n.reference("model", known.models) },
		"temperature":    func(n node) { a.Temperature = n.temperature() },
		"tools":          func(n node) { a.Tools = n.patterns(known.tools) },
		"mcpServers":     func(n node) { a.MCPServers = n.references("MCP server", known.servers) },
		"exclude":        func(n node) { a.Exclude = n.patterns(known.tools) },
		"maxSteps":       func(n node) { a.MaxSteps = int(n.positive(math.MaxInt32)) },
		"includeHistory": func(n node) { a.IncludeHistory = n.boolean() },
		"responseSchema": func(n node) { a.ResponseSchema = n.schema() },
		"limits":         func(n node) { a.Limits = readLimits(n) },
		"waitTimeout":    func(n node) { a.WaitTimeout = n.duration() },
		"maxRuns":        func(n node) { a.MaxRuns = int(n.positive(maxRuns)) },
		"enableWrite":    func(n node) { a.EnableWrite = n.boolean() },
	})

	if at, lacks := g.lacks("model"); lacks {
		at.refer("model", a.Model, known.models)
	}
	return a
}

func readLimits(n node) (l define.Limits) {
	n.object(fields{
		"rounds":    func(n node) { l.Rounds = n.positive(math.MaxInt32) },
		"toolCalls": func(n node) { l.ToolCalls = n.positive(math.MaxInt32) },
		"tokens":    func(n node) { l.Tokens = n.positive(math.MaxInt64) },
		"costUsd":   func(n node) { l.CostUSD = n.amount() },
		"seconds":   func(n node) { l.Seconds = n.amount() },
	})
	return l
}

func (n node) patterns(there []string) []string {
	return each(n, func(n node) string { return n.pattern(there) })
}

func (n node) references(what string, there []string) []string {
	return each(n, func(n node) string { return n.reference(what, there) })
}
