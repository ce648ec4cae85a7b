package config

import (
	"github.com/actlog/actlog/internal/runtime/define"
)

// readOrchestrator reads the section. What it does not say of an agent stays as it is by default.
func readOrchestrator(n node, there knownNames) define.Orchestrator {
	o := define.DefaultOrchestrator()
	g := n.object(fields{
		"model":            func(n node) { o.Model = n.reference("model", there.models) },
		"maxPlanSteps":     func(n node) { o.MaxPlanSteps = int(n.positive(define.MaxPlanSteps)) },
		"executionTimeout": func(n node) { o.ExecutionTimeout = n.duration() },
		"waitTimeout":      func(n node) { o.WaitTimeout = n.duration() },
		"maxRounds":        func(n node) { o.MaxRounds = int(n.positive(define.MaxRounds)) },
		"agents": func(n node) {
			n.entries(func(name string, n node) {
				n.checkName("", name)
				if name == define.PlannerType {
					n.problem("%s is the orchestrator itself; the agent needs another name", name)
				}
				s, known := o.Agents[name]
				if !known {
					s = define.Specialist{EnableWrite: true, Enabled: true}
				}
				o.Agents[name] = readSpecialist(n, s, known, there)
			})
		},
	})

	if at, lacks := g.lacks("model"); lacks {
		at.refer("model", o.Model, there.models)
	}
	return o
}

// readSpecialist reads a specialist over what it is by default.
func readSpecialist(n node, s define.Specialist, known bool, there knownNames) define.Specialist {
	g := n.object(fields{
		"description":  func(n node) { s.Description = n.text() },
		"systemPrompt": func(n node) { s.SystemPrompt = n.text() },
		"model":        func(n node) { s.Model = n.reference("model", there.models) },
		"temperature":  func(n node) { s.Temperature = n.temperature() },
		"tools":        func(n node) { s.Tools = n.patterns(there.tools) },
		"mcpServers":   func(n node) { s.MCPServers = n.references("MCP server", there.servers) },
		"maxRounds":    func(n node) { s.MaxRounds = int(n.positive(define.MaxRounds)) },
		"enableWrite":  func(n node) { s.EnableWrite = n.boolean() },
		"enabled":      func(n node) { s.Enabled = n.boolean() },
	})

	if !known { // the planner chooses by it
		g.require("description")
	}
	return s
}
