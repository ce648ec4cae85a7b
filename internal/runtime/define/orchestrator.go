package define

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/actlog/actlog/agent/tool"
)

// Orchestrator says how requests are planned, and which agents carry out the steps.
type Orchestrator struct {
	Model string `json:"model"` // of Config.Models; plans and answers
	// MaxPlanSteps bounds the steps of a plan, from 1 to 10.
	MaxPlanSteps int `json:"maxPlanSteps"`
	// ExecutionTimeout bounds how long a run works, without the time that people take.
	ExecutionTimeout Duration `json:"executionTimeout"`
	// WaitTimeout bounds how long a plan or an action waits for a human. 0: no end.
	WaitTimeout Duration `json:"waitTimeout,omitempty"`
	// MaxRounds bounds the rounds of the agents that set none, from 1 to 50. 0: [DefaultMaxRounds].
	MaxRounds int `json:"maxRounds"`
	// Agents are the specialised agents by their types.
	Agents map[string]Specialist `json:"agents"`
}

// Specialist is an agent that carries out steps of a kind.
type Specialist struct {
	Description  string   `json:"description,omitempty"` // for the planner
	SystemPrompt string   `json:"systemPrompt,omitempty"`
	Model        string   `json:"model,omitempty"` // empty: that of the orchestrator
	Temperature  *float64 `json:"temperature,omitempty"`
	Tools        []string `json:"tools,omitempty"` // names and patterns
	MCPServers   []string `json:"mcpServers,omitempty"`
	// MaxRounds bounds how often the agent may act in a step, from 1 to 50. 0: as [Orchestrator.MaxRounds] says.
	MaxRounds   int  `json:"maxRounds,omitempty"`
	EnableWrite bool `json:"enableWrite"`
	Enabled     bool `json:"enabled"`
}

// MaxPlanSteps is the most steps that a plan can have.
const MaxPlanSteps = 10

// The rounds of an agent in a step: those that it has by default, and the most that it can have.
const (
	DefaultMaxRounds = 6
	MaxRounds        = 50
)

// PlannerType is the agent type of the orchestrator itself.
const PlannerType = "ORCHESTRATOR"

// DefaultOrchestrator returns what holds where the file says nothing. Its tools are patterns, so that none of them has
// to be there.
func DefaultOrchestrator() Orchestrator {
	specialist := func(description string, writes bool, tools ...string) Specialist {
		return Specialist{Description: description, Tools: tools, EnableWrite: writes, Enabled: true}
	}

	agents := map[string]Specialist{
		"RAG_SEARCH": specialist("Searches code and documentation by meaning, and finds code that is like other code.", false,
			"search.*"),
		"GIT": specialist("Shows the status, the changes and the history of the Git repository, switches branches, "+
			"stashes and commits.", true, "git.*"),
		"REFACTORING": specialist("Analyses code, suggests refactorings, applies them, and runs the tests.", true,
			"code.*", "files.read_*", "files.list_*", "files.search_*", "files.write_*", "files.edit_*", "tests.*"),
		"CODE_ANALYSIS": specialist("Reads code, measures its complexity, finds dependencies and code smells.", false,
			"code.*", "files.read_*"),
	}

	refactoring := agents["REFACTORING"]
	refactoring.SystemPrompt = refactoringPrompt
	agents["REFACTORING"] = refactoring

	return Orchestrator{
		Model: DefaultModel, MaxPlanSteps: 5, ExecutionTimeout: Duration(300 * time.Second), MaxRounds: DefaultMaxRounds,
		Agents: agents,
	}
}

// refactoringPrompt says how the agent REFACTORING works.
const refactoringPrompt = "You are the agent REFACTORING. You change code so that it does the same as before, and is " +
	"easier to read and to change. " +
	"First read the file that you change, with its line numbers: suggestions of tools are a beginning, and you find " +
	"better ones in the code. " +
	"Then propose a patch with code.apply_refactoring: a unified diff whose lines are copied from the file. " +
	"If it does not fit, read what the error shows, and correct the patch. Then check: read what changed, and run the " +
	"tests if you can."

// OrchestratorDefinition is what a run of the orchestrator pins when it starts. It has no secrets.
type OrchestratorDefinition struct {
	Model            DefinitionModel `json:"model"`
	MaxPlanSteps     int             `json:"maxPlanSteps"`
	ExecutionTimeout Duration        `json:"executionTimeout"`
	WaitTimeout      Duration        `json:"waitTimeout,omitempty"`
	// Agents are those that are enabled, in order of their types.
	Agents []Definition `json:"agents"`
}

// Definition returns what a run pins, among the models, MCP servers and policies that there are.
func (o Orchestrator) Definition(
	model func(name string) DefinitionModel, servers []string, policies tool.Rules,
) OrchestratorDefinition {
	d := OrchestratorDefinition{
		Model: model(o.Model), MaxPlanSteps: o.MaxPlanSteps, ExecutionTimeout: o.ExecutionTimeout, WaitTimeout: o.WaitTimeout,
	}
	for _, name := range slices.Sorted(maps.Keys(o.Agents)) {
		s := o.Agents[name]
		if !s.Enabled {
			continue
		}
		if s.Model == "" {
			s.Model = o.Model
		}

		a := Agent{
			Description: s.Description, SystemPrompt: s.SystemPrompt, Temperature: s.Temperature, Tools: s.Tools,
			MCPServers:  s.MCPServers,
			EnableWrite: s.EnableWrite, WaitTimeout: o.WaitTimeout, MaxSteps: cmp.Or(s.MaxRounds, o.MaxRounds, DefaultMaxRounds),
		}
		d.Agents = append(d.Agents, a.Definition(name, model(s.Model), servers, policies))
	}
	return d
}
