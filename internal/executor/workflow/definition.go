package workflow

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/record"
)

// definition is what a run keeps: all agents and workflows that it may run.
type definition struct {
	Type      config.StepType              `json:"type"` // of what is run
	Agents    map[string]config.Definition `json:"agents,omitempty"`
	Workflows map[string]flow              `json:"workflows,omitempty"` // by <type>.<name>
	Servers   []string                     `json:"servers,omitempty"`   // all MCP servers that there were
}

// flow is a simple workflow, which has steps, or a custom one, which names what it uses.
type flow struct {
	Description string                `json:"description,omitempty"`
	Steps       []config.WorkflowStep `json:"steps,omitempty"`
	Agents      []string              `json:"agents,omitempty"`
	Workflows   []string              `json:"workflows,omitempty"`
	Tools       []string              `json:"tools,omitempty"`
	MCPServers  []string              `json:"mcpServers,omitempty"`
	Policies    tool.Rules            `json:"policies,omitempty"`
}

// The prefixes of sessions that nobody named.
const (
	agentSession    = "agent-"
	workflowSession = "workflow-"
)

// Executor carries runs of agents and of workflows.
type Executor struct {
	// Functions returns the function of a custom workflow, if the program has it. nil: it has none.
	Functions func(name string) (workflow.Func, bool)
}

// Kind implements [engine.Executor].
func (Executor) Kind() string { return "workflow" }

// newSession returns what makes the id of a session its own.
func newSession() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Prepare implements [engine.Executor].
func (x Executor) Prepare(parts engine.Parts, r engine.Request) (p engine.Prepared, err error) {
	in, err := workflow.ReadInput(r.Input)
	if err != nil {
		return p, err
	}
	d := definition{Agents: map[string]config.Definition{}, Workflows: map[string]flow{}, Servers: provided(parts, "mcp:")}
	g := gathering{parts: parts, into: &d}
	var session string
	if in.Agent != "" {
		p.Name, d.Type, session = in.Agent, config.AgentStep, agentSession
		p.UserRequest = in.Messages[len(in.Messages)-1].Content
		err = g.agent(in.Agent)
	} else {
		p.Name, session = in.Workflow, workflowSession
		p.UserRequest = textOf(in.Input)
		if d.Type, err = typeOf(in, func(t config.StepType) bool { _, ok := parts.Definition(string(t), in.Workflow); return ok }); err == nil && d.Type == "" {
			err = &engine.UnknownError{Kind: "workflow", Name: in.Workflow, There: slices.Concat(parts.Names(string(config.SimpleStep)), parts.Names(string(config.CustomStep)))}
		}
		if err == nil {
			err = g.workflow(d.Type, in.Workflow)
		}
	}
	if err != nil {
		return p, err
	}
	if r.Name != "" && r.Name != p.Name {
		return p, invalid("name", "is not that of input")
	}
	remembers := in.ForceIncludeHistory
	for _, a := range d.Agents {
		remembers = remembers || a.IncludeHistory
	}
	if remembers {
		p.ConversationID = session + newSession()
	}
	if a, ok := d.Agents[in.Agent]; ok {
		p.ModelName, p.Limits = a.Model.Model, new(engine.Limits(a.Limits))
	}
	in.Input, in.UserMessage = json.RawMessage(parts.Redact(string(in.Input))), ""
	in.SystemPrompt = parts.Redact(in.SystemPrompt)
	for i := range in.Messages {
		in.Messages[i].Content = parts.Redact(in.Messages[i].Content)
	}
	p.UserRequest = parts.Redact(p.UserRequest)
	p.Title = title(p.UserRequest)
	p.Needs = g.needed()
	if p.Input, err = json.Marshal(in); err == nil {
		p.Definition, err = json.Marshal(d)
	}
	return p, err
}

// typeOf returns the type of the workflow that is asked for; empty: there is none of its name.
func typeOf(in workflow.Input, there func(config.StepType) bool) (config.StepType, error) {
	var types []string
	for _, t := range []config.StepType{config.SimpleStep, config.CustomStep} {
		if (in.Type == "" || in.Type == string(t)) && there(t) {
			types = append(types, string(t))
		}
	}
	switch len(types) {
	case 0:
		return "", nil
	case 1:
		return config.StepType(types[0]), nil
	}
	return "", invalid("input.workflow", fmt.Sprintf("%q found in multiple types (%s)", in.Workflow, strings.Join(types, ", ")))
}

// gathering collects the definitions of what a run may run.
type gathering struct {
	parts engine.Parts
	into  *definition
	needs []string
}

func (g *gathering) agent(name string) error {
	body, ok := g.parts.Definition("agent", name)
	if !ok {
		return &engine.UnknownError{Kind: "agent", Name: name, There: g.parts.Names("agent")}
	}
	var a config.Definition
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("agent %q: %w", name, err)
	}
	for _, server := range a.AllOf {
		if !slices.Contains(g.into.Servers, server) {
			return invalid("input", fmt.Sprintf("MCP Server '%s' required by agent '%s' not found.", server, name))
		}
	}
	a.Tools = slices.DeleteFunc(a.Tools, func(tool string) bool { return tool == "terminate" }) // a text is the answer
	g.into.Agents[name] = a
	g.needs = append(g.needs, "model:"+a.Model.Name)
	g.need(a.Tools, a.MCPServers)
	return nil
}

// need adds tools and servers to what a worker must have. Tools of servers are known only when those are
// asked, and a pattern may match nothing.
func (g *gathering) need(tools, servers []string) {
	for _, server := range servers {
		g.needs = append(g.needs, "mcp:"+server)
	}
	for _, name := range tools {
		ofServer := slices.ContainsFunc(servers, func(server string) bool { return strings.HasPrefix(name, server+"-") })
		if name != engine.FormTool && !ofServer && !strings.Contains(name, "*") {
			g.needs = append(g.needs, "tool:"+name)
		}
	}
}

func (g *gathering) needed() []string {
	slices.Sort(g.needs)
	return slices.Compact(g.needs)
}

func (g *gathering) workflow(t config.StepType, name string) error {
	key := string(t) + "." + name
	if _, known := g.into.Workflows[key]; known {
		return nil
	}
	body, ok := g.parts.Definition(string(t), name)
	if !ok {
		return &engine.UnknownError{Kind: "workflow", Name: name, There: g.parts.Names(string(t))}
	}
	var f flow
	if err := json.Unmarshal(body, &f); err != nil {
		return fmt.Errorf("workflow %q: %w", name, err)
	}
	g.into.Workflows[key] = f
	if t == config.CustomStep {
		g.needs = append(g.needs, "workflow:"+name)
		g.need(f.Tools, f.MCPServers)
	}
	steps := f.Steps
	for _, name := range f.Agents {
		steps = append(steps, config.WorkflowStep{Name: name, Type: config.AgentStep})
	}
	for _, name := range f.Workflows {
		found := false
		for _, t := range []config.StepType{config.SimpleStep, config.CustomStep} {
			if _, ok := g.parts.Definition(string(t), name); ok {
				steps, found = append(steps, config.WorkflowStep{Name: name, Type: t}), true
			}
		}
		if !found {
			return &engine.UnknownError{Kind: "workflow", Name: name, There: g.parts.Names(string(config.SimpleStep))}
		}
	}
	for _, s := range steps {
		var err error
		if s.Type == config.AgentStep {
			err = g.agent(s.Name)
		} else {
			err = g.workflow(s.Type, s.Name)
		}
		if err != nil {
			return fmt.Errorf("workflow %q: %w", name, err)
		}
	}
	return nil
}

// provided returns the names of a kind that there are.
func provided(parts engine.Parts, kind string) (names []string) {
	for _, each := range parts.Provides() {
		if name, ok := strings.CutPrefix(each, kind); ok {
			names = append(names, name)
		}
	}
	return names
}

// textOf returns JSON as an agent reads it: a text as it is.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// maxTitle bounds a title, in bytes.
const maxTitle = 100

// title returns the first line of a request.
func title(request string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(request), "\n")
	return tool.Cut(line, maxTitle)
}

func invalid(field, reason string) error {
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: field, Reason: reason}
}
