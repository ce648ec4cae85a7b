package define

import (
	"encoding/json"
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
	// MaxRuns is how many root runs of the agent go on at once. 0 means no limit.
	MaxRuns int `json:"maxRuns,omitempty"`
}

// Limits bound a run. 0 means no limit.
type Limits struct {
	Rounds    int64   `json:"rounds,omitempty"`
	ToolCalls int64   `json:"toolCalls,omitempty"`
	Tokens    int64   `json:"tokens,omitempty"`
	CostUSD   float64 `json:"costUsd,omitempty"`
	Seconds   float64 `json:"seconds,omitempty"`
}

// DefaultModel is the model of agents that name none.
const DefaultModel = "default"
