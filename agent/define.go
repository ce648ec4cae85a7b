package agent

import (
	"encoding/json"
	"time"

	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/parts"
)

// Agent is what an agent is: its prompt, model, tools and limits, as a configuration file has them. A run
// keeps the definition with which it began.
type Agent struct {
	Description  string // for those who choose an agent, people and models
	SystemPrompt string
	Model        string // of [Parts.Models]. Default: default
	// Temperature is that of the provider if it is nil. From 0 to 2.
	Temperature *float64
	// Tools are names and patterns. MCPServers are the servers all of whose tools the agent has.
	Tools      []string
	MCPServers []string
	// Exclude are names and patterns of tools that the agent does not have all the same.
	Exclude []string
	// MaxSteps bounds the rounds. 0 means the default of the executor.
	MaxSteps int
	// IncludeHistory puts the earlier messages of the conversation first.
	IncludeHistory bool
	// ResponseSchema is the JSON Schema of an object that the final answer fits.
	ResponseSchema json.RawMessage
	Limits         Limits
	// WaitTimeout bounds waits for humans whose policies do not. 0: they have no end.
	WaitTimeout time.Duration
	// ReadOnly takes the tools that write from the agent.
	ReadOnly bool
	// MaxRuns is how many root runs of the agent go on at once, over all workers. 0 means no limit.
	MaxRuns int
}

// definition returns the agent as runs keep it.
func (a Agent) definition() define.Agent {
	return define.Agent{
		Description: a.Description, SystemPrompt: a.SystemPrompt, Model: a.Model, Temperature: a.Temperature,
		Tools: a.Tools, MCPServers: a.MCPServers, Exclude: a.Exclude, MaxSteps: a.MaxSteps, IncludeHistory: a.IncludeHistory,
		ResponseSchema: a.ResponseSchema, Limits: define.Limits(a.Limits), WaitTimeout: define.Duration(a.WaitTimeout),
		EnableWrite: !a.ReadOnly, MaxRuns: a.MaxRuns,
	}
}

// Workflow is a workflow that is a function of the program. It may use what it names, and only that: so the run
// keeps the definitions with which it began, and waits for a worker that has what it needs.
type Workflow struct {
	Description string
	Agents      []string
	Workflows   []string
	Tools       []string
	MCPServers  []string // that have some of the tools
	Run         workflow.Func
}

// definition returns the workflow as runs use it.
func (w Workflow) definition() parts.Workflow {
	return parts.Workflow{Run: w.Run, Flow: define.Flow{
		Description: w.Description, Agents: w.Agents, Workflows: w.Workflows, Tools: w.Tools, MCPServers: w.MCPServers,
	}}
}
