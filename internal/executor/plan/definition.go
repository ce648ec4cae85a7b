package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/internal/executor/follow"
)

// definition is what the run of a task keeps: what its role is.
type definition struct {
	Role *config.Definition `json:"role"` // nil: the run is one of a template
}

// task is the input of a run that no template describes.
type task struct {
	Task        string      `json:"task"`
	Context     string      `json:"context,omitempty"`
	Role        string      `json:"role"`
	Constraints constraints `json:"constraints"`
	EnableWrite *bool       `json:"enableWrite"` // set once it was read
}

// constraints bound the work on a task.
type constraints struct {
	MaxOperations *int  `json:"max_operations"`
	AbortOnError  *bool `json:"abort_on_error"`
	Iterative     *bool `json:"iterative"`
	MaxIterations *int  `json:"max_iterations"`
}

const (
	defaultRole   = "DEVELOPER"
	maxOperations = 10_000
	maxIterations = 1_000
	maxRole       = 50 // characters
)

// Executor carries runs of tasks that it plans, and of plan templates.
type Executor struct{}

// Kind implements [engine.Executor].
func (Executor) Kind() string { return "plan" }

var _ engine.Callable = Executor{}

// Prepare implements [engine.Executor]. A request with a name is one of that template, whose input is the
// values of its placeholders.
func (Executor) Prepare(parts engine.Parts, r engine.Request) (engine.Prepared, error) {
	if r.Name != "" {
		return follow.Prepare(parts, r)
	}
	return prepareTask(parts, r)
}

func prepareTask(parts engine.Parts, r engine.Request) (p engine.Prepared, err error) {
	var t task
	if err := engine.ReadInput(r.Input, "an object with task and context", &t); err != nil {
		return p, err
	}
	if err := t.complete(); err != nil {
		return p, err
	}
	body, ok := parts.Definition("role", t.Role)
	if !ok {
		return p, &engine.UnknownError{Kind: "role", Name: t.Role, There: parts.Names("role")}
	}
	var role config.Definition
	if err := json.Unmarshal(body, &role); err != nil {
		return p, fmt.Errorf("role %q: %w", t.Role, err)
	}
	t.Task, t.Context = parts.Redact(t.Task), parts.Redact(t.Context)
	if p.Input, err = json.Marshal(t); err != nil {
		return p, err
	}
	if p.Definition, err = json.Marshal(definition{&role}); err != nil {
		return p, err
	}
	if p.Metadata, err = json.Marshal(t.metadata(false)); err != nil {
		return p, err
	}
	p.Name, p.UserRequest, p.Title, p.ModelName, p.Needs = t.Role, t.Task, engine.Title(t.Task), role.Model.Model, needs(parts, role)
	return p, nil
}

// complete sets the defaults, and checks the values.
func (t *task) complete() error {
	if strings.TrimSpace(t.Task) == "" {
		return engine.NoInput("input.task")
	}
	if t.Role == "" {
		t.Role = defaultRole
	}
	if len(t.Role) > maxRole || tool.CleanName(t.Role) != t.Role {
		return engine.BadInput("input.role", fmt.Sprintf("must have at most %d letters, digits, '_' and '-'", maxRole))
	}
	set(&t.EnableWrite, true)
	c := &t.Constraints
	set(&c.MaxOperations, 100)
	set(&c.AbortOnError, true)
	set(&c.Iterative, false)
	set(&c.MaxIterations, 10)
	if n := *c.MaxOperations; n < 1 || n > maxOperations {
		return engine.BadInput("input.constraints.max_operations", fmt.Sprintf("must be from 1 to %d", maxOperations))
	}
	if n := *c.MaxIterations; n < 1 || n > maxIterations {
		return engine.BadInput("input.constraints.max_iterations", fmt.Sprintf("must be from 1 to %d", maxIterations))
	}
	return nil
}

func set[T any](field **T, to T) {
	if *field == nil {
		*field = &to
	}
}

// metadata is what the plan itself says of a task. truncated says that a constraint ended the work early.
func (t *task) metadata(truncated bool) map[string]any {
	m := map[string]any{"role": t.Role, "enable_write": *t.EnableWrite, "constraints": t.Constraints}
	if truncated {
		m["truncated"] = true
	}
	return m
}

// needs returns what a worker must have for a role: its model, its MCP servers, and the tools that there are
// now.
func needs(parts engine.Parts, role config.Definition) []string {
	all := []string{"model:" + role.Model.Name}
	for _, server := range role.MCPServers {
		all = append(all, "mcp:"+server)
	}
	for _, each := range parts.Provides() {
		if name, ok := strings.CutPrefix(each, "tool:"); ok && allows(role, name) {
			all = append(all, each)
		}
	}
	return all
}

// allows reports whether a role may use an operation. Agents and templates are no operations.
func allows(role config.Definition, name string) bool {
	if strings.HasPrefix(name, "agent.") || strings.HasPrefix(name, "plan.") {
		return false
	}
	return slices.ContainsFunc(role.Tools, func(pattern string) bool { return tool.Match(pattern, name) })
}

// Tool implements [engine.Callable]: a template is a tool.
func (Executor) Tool(parts engine.Parts, name string) (description string, schema json.RawMessage, ok bool) {
	return follow.Tool(parts, name)
}

// Call implements [engine.Callable].
func (Executor) Call(_ string, arguments json.RawMessage) (json.RawMessage, error) {
	return arguments, nil
}

// The kinds of errors with which a run ends whose work did not succeed.
const (
	stepFailed   = "step_failed"       // an operation failed, and nothing was done after it
	unsuccessful = "operations_failed" // all was done, but not all succeeded
	invalidPlan  = "invalid_plan"      // the model did not answer with a plan
)

func unreadable(err error) error {
	return &engine.RunError{Kind: "configuration", Message: "The run cannot be read: " + err.Error()}
}
