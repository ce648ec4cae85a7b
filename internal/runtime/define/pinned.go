package define

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

// Pinned is what a run pins of an agent, or of a workflow: all agents and workflows that it may run. It has no
// secrets.
type Pinned struct {
	Type      StepType              `json:"type"` // of what is run
	Agents    map[string]Definition `json:"agents,omitempty"`
	Workflows map[string]Flow       `json:"workflows,omitempty"` // by <type>.<name>
	Servers   []string              `json:"servers,omitempty"`   // all MCP servers that there were
}

// Flow is a simple workflow, which has steps, or a custom one, which names what it uses.
type Flow struct {
	Description string         `json:"description,omitempty"`
	Steps       []WorkflowStep `json:"steps,omitempty"`
	Agents      []string       `json:"agents,omitempty"`
	Workflows   []string       `json:"workflows,omitempty"`
	Tools       []string       `json:"tools,omitempty"`
	MCPServers  []string       `json:"mcpServers,omitempty"`
	Policies    tool.Rules     `json:"policies,omitempty"`
	// Function is under which name a worker has the function of a custom workflow; empty: its own.
	Function string `json:"function,omitempty"`
}

// WorkflowTypes are the types of workflows.
var WorkflowTypes = []StepType{SimpleStep, CustomStep}

// UnknownStepError says that there is nothing of a type with a name. An empty type is any of the workflows.
type UnknownStepError struct {
	Type StepType
	Name string
}

func (e *UnknownStepError) Error() string {
	if e.Type == AgentStep {
		return "no agent is called " + e.Name
	}
	return "no workflow is called " + e.Name
}

// Pin adds what has a name, and all that it may run. find returns a definition by its kind and name, and
// whether there is one. The error wraps an [*UnknownStepError] or a [*MissingServerError].
func (p *Pinned) Pin(t StepType, name string, find func(kind, name string) (json.RawMessage, bool)) error {
	body, ok := find(string(t), name)
	if !ok {
		return &UnknownStepError{t, name}
	}
	if t == AgentStep {
		return p.pinAgent(name, body)
	}

	key := string(t) + "." + name
	if _, known := p.Workflows[key]; known {
		return nil
	}

	var f Flow
	if err := json.Unmarshal(body, &f); err != nil {
		return fmt.Errorf("workflow %q: %w", name, err)
	}
	if p.Workflows == nil {
		p.Workflows = map[string]Flow{}
	}
	p.Workflows[key] = f

	steps, err := f.all(find)
	for _, s := range steps {
		if err == nil {
			err = p.Pin(s.Type, s.Name, find)
		}
	}
	if err != nil {
		return fmt.Errorf("workflow %q: %w", name, err)
	}
	return nil
}

// MissingServerError says that an agent needs all of an MCP server that there is not.
type MissingServerError struct{ Server, Agent string }

func (e *MissingServerError) Error() string {
	return fmt.Sprintf("MCP Server '%s' required by agent '%s' not found.", e.Server, e.Agent)
}

func (p *Pinned) pinAgent(name string, body json.RawMessage) error {
	var a Definition
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("agent %q: %w", name, err)
	}

	for _, server := range a.AllOf {
		if !slices.Contains(p.Servers, server) {
			return &MissingServerError{server, name}
		}
	}

	a.Tools = slices.DeleteFunc(a.Tools, func(tool string) bool { return tool == "terminate" }) // a text is the answer
	if p.Agents == nil {
		p.Agents = map[string]Definition{}
	}
	p.Agents[name] = a
	return nil
}

// all returns what a workflow may run: its steps, or what a custom one names.
func (f Flow) all(find func(kind, name string) (json.RawMessage, bool)) ([]WorkflowStep, error) {
	steps := slices.Clone(f.Steps)
	for _, name := range f.Agents {
		steps = append(steps, WorkflowStep{Name: name, Type: AgentStep})
	}

	for _, name := range f.Workflows {
		before := len(steps)
		for _, t := range WorkflowTypes {
			if _, ok := find(string(t), name); ok {
				steps = append(steps, WorkflowStep{Name: name, Type: t})
			}
		}
		if len(steps) == before {
			return nil, &UnknownStepError{Name: name}
		}
	}
	return steps, nil
}

// Needs returns what a worker must have for all of it.
func (p Pinned) Needs() (all []string) {
	for _, a := range p.Agents {
		all = append(all, a.Needs()...)
	}
	for key, f := range p.Workflows {
		if name, custom := strings.CutPrefix(key, string(CustomStep)+"."); custom {
			all = append(append(all, "workflow:"+cmp.Or(f.Function, name)), needsOf(f.Tools, f.MCPServers)...)
		}
	}
	return all
}

// Remembers reports whether an agent wants to know what was said before.
func (p Pinned) Remembers() bool {
	for _, a := range p.Agents {
		if a.IncludeHistory {
			return true
		}
	}
	return false
}
