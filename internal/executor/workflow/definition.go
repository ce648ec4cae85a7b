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
	session := agentSession
	if in.Agent != "" {
		p, err = g.ofAgent(in)
	} else {
		p, err = g.ofWorkflow(in)
		session = workflowSession
	}
	if err != nil {
		return p, err
	}
	if r.Name != "" && r.Name != p.Name {
		return p, engine.BadInput("name", "is not that of input")
	}
	if in.ForceIncludeHistory || g.remembers {
		p.ConversationID = session + newSession()
	}
	in.Input, in.UserMessage = json.RawMessage(parts.Redact(string(in.Input))), ""
	in.SystemPrompt = parts.Redact(in.SystemPrompt)
	for i := range in.Messages {
		in.Messages[i].Content = parts.Redact(in.Messages[i].Content)
	}
	p.UserRequest = parts.Redact(p.UserRequest)
	p.Title, p.Needs = engine.Title(p.UserRequest), g.needed()
	if p.Input, err = json.Marshal(in); err == nil {
		p.Definition, err = json.Marshal(d)
	}
	return p, err
}

// ofAgent prepares a run of an agent.
func (g *gathering) ofAgent(in workflow.Input) (p engine.Prepared, err error) {
	g.into.Type = config.AgentStep
	if err := g.agent(in.Agent); err != nil {
		return p, err
	}
	a := g.into.Agents[in.Agent]
	p.Name, p.UserRequest = in.Agent, in.Messages[len(in.Messages)-1].Content
	p.ModelName, p.Limits = a.Model.Model, new(engine.Limits(a.Limits))
	return p, nil
}

// ofWorkflow prepares a run of a workflow.
func (g *gathering) ofWorkflow(in workflow.Input) (p engine.Prepared, err error) {
	g.into.Type, err = typeOf(in, func(t config.StepType) bool { _, ok := g.parts.Definition(string(t), in.Workflow); return ok })
	if err != nil {
		return p, err
	}
	if g.into.Type == "" {
		return p, g.unknown(in.Workflow)
	}
	p.Name, p.UserRequest = in.Workflow, textOf(in.Input)
	return p, g.workflow(g.into.Type, in.Workflow)
}

// unknown returns the error of a workflow that is not there.
func (g *gathering) unknown(name string) error {
	return &engine.UnknownError{Kind: "workflow", Name: name, There: slices.Concat(g.parts.Names(string(config.SimpleStep)), g.parts.Names(string(config.CustomStep)))}
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
	return "", engine.BadInput("input.workflow", fmt.Sprintf("%q found in multiple types (%s)", in.Workflow, strings.Join(types, ", ")))
}

// gathering collects the definitions of what a run may run.
type gathering struct {
	parts     engine.Parts
	into      *definition
	needs     []string
	remembers bool // an agent does
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
			return engine.BadInput("input", fmt.Sprintf("MCP Server '%s' required by agent '%s' not found.", server, name))
		}
	}
	a.Tools = slices.DeleteFunc(a.Tools, func(tool string) bool { return tool == "terminate" }) // a text is the answer
	g.into.Agents[name], g.remembers = a, g.remembers || a.IncludeHistory
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
		return g.unknown(name)
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
	steps, err := g.steps(f)
	for _, s := range steps {
		if err == nil && s.Type == config.AgentStep {
			err = g.agent(s.Name)
		} else if err == nil {
			err = g.workflow(s.Type, s.Name)
		}
	}
	if err != nil {
		return fmt.Errorf("workflow %q: %w", name, err)
	}
	return nil
}

// steps returns what a workflow may run: its steps, or what a custom one names.
func (g *gathering) steps(f flow) ([]config.WorkflowStep, error) {
	steps := slices.Clone(f.Steps)
	for _, name := range f.Agents {
		steps = append(steps, config.WorkflowStep{Name: name, Type: config.AgentStep})
	}
	for _, name := range f.Workflows {
		before := len(steps)
		for _, t := range []config.StepType{config.SimpleStep, config.CustomStep} {
			if _, ok := g.parts.Definition(string(t), name); ok {
				steps = append(steps, config.WorkflowStep{Name: name, Type: t})
			}
		}
		if len(steps) == before {
			return nil, g.unknown(name)
		}
	}
	return steps, nil
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
