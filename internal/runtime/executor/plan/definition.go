package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/plan/follow"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
)

// definition is what the run of a task keeps: what its role is.
type definition struct {
	Role *define.Definition `json:"role"` // nil: the run is one of a template
}

// task is the input of a run that no template describes.
type task struct {
	Task        string      `json:"task"`
	Context     string      `json:"context,omitempty"`
	Role        string      `json:"role"`
	Constraints constraints `json:"constraints"`
	EnableWrite bool        `json:"enableWrite"`
}

// constraints bound the work on a task.
type constraints struct {
	MaxOperations int  `json:"max_operations"`
	AbortOnError  bool `json:"abort_on_error"`
	Iterative     bool `json:"iterative"`
	MaxIterations int  `json:"max_iterations"`
}

// metadata is what the plan itself says of a task.
type metadata struct {
	Role        string      `json:"role"`
	EnableWrite bool        `json:"enable_write"`
	Constraints constraints `json:"constraints"`
	Truncated   bool        `json:"truncated,omitempty"` // a constraint ended the work early
}

// defaults are what a task says that does not say it.
var defaults = task{
	Role: "DEVELOPER", EnableWrite: true, Constraints: constraints{
		MaxOperations: 100, AbortOnError: true, MaxIterations: 10,
	},
}

const (
	maxOperations = 10_000
	maxIterations = 1_000
	maxRole       = 50 // characters
)

// Executor carries runs of tasks that it plans, and of plan templates.
type Executor struct{ follow.Tools }

// Kind implements [engine.Executor].
func (Executor) Kind() string { return "plan" }

// About implements [engine.Described].
func (Executor) About() engine.About {
	itself := engine.Startable{
		Title: "Plan a task and carry it out", Sort: "planned by a model",
		Description: "A model plans the task, and its operations are carried out in order.",
		Fields: []engine.Field{
			engine.LongText("Task", "task"),
			{Member: []string{"context"}, Label: "Context", Kind: "textarea"},
			{Member: []string{"role"}, Label: "Role", Kind: "text", Hint: defaults.Role},
			{Member: []string{"enableWrite"}, Label: "Only read, write nothing", Kind: "flag", Value: false},
			{Member: []string{"constraints", "iterative"}, Label: "Plan operation by operation", Kind: "flag", Value: true},
		},
	}

	return engine.About{
		Text: "task",
		Schema: json.RawMessage(`{"type":"object",` +
			`"description":"Without a name: a task. With the name of a template: a text for each placeholder.",` +
			`"properties":{"task":{"type":"string"},"context":{"type":"string"},"role":{"type":"string"},` +
			`"constraints":{"type":"object"},"enableWrite":{"type":"boolean"}}}`),
		AnswersText: true,
		Startables:  func(parts engine.Parts) []engine.Startable { return append(follow.Startables(parts), itself) },
	}
}

// Offered implements [engine.Offering]. The role of a task is told about its tools, and offered none.
func (Executor) Offered(pinned json.RawMessage, d define.Definition) (more []tool.Tool, offers bool, err error) {
	var task definition
	if err := json.Unmarshal(pinned, &task); err != nil || task.Role != nil {
		return nil, false, err
	}
	return thinkact.Executor{}.Offered(pinned, d)
}

// Prepare implements [engine.Executor]. A request with a name is one of that template, whose input is the
// values of its placeholders.
func (Executor) Prepare(parts engine.Parts, r engine.Request) (engine.Prepared, error) {
	if r.Name != "" {
		return follow.Prepare(parts, r)
	}
	return prepareTask(parts, r)
}

func prepareTask(parts engine.Parts, r engine.Request) (p engine.Prepared, err error) {
	t := defaults
	if err := engine.ReadInput(r.Input, "an object with task and context", &t); err != nil {
		return p, err
	}
	t.Role = cmp.Or(t.Role, defaults.Role)
	if err := t.check(); err != nil {
		return p, err
	}

	role, err := engine.Find[define.Definition](parts, "role", t.Role)
	if err != nil {
		return p, err
	}

	required := needs(parts, role)
	if len(role.Tools) > 0 && len(required) == 1 { // its model
		return p, engine.BadInput("input.role",
			fmt.Sprintf("is %s, which has no tools: there are none that match %s", t.Role, strings.Join(role.Tools, ", ")))
	}

	t.Task, t.Context = parts.Redact(t.Task), parts.Redact(t.Context)
	p.Name, p.UserRequest = t.Role, t.Task
	p.Title, p.ModelName = engine.Title(t.Task), role.Model.Model
	p.Needs = required
	p.Metadata, _ = json.Marshal(metadata{t.Role, t.EnableWrite, t.Constraints, false}) // texts, numbers and booleans
	err = p.Keep(t, definition{&role})
	return p, err
}

func (t *task) check() error {
	c := t.Constraints
	switch {
	case strings.TrimSpace(t.Task) == "":
		return engine.NoInput("input.task")
	case len(t.Role) > maxRole || tool.CleanName(t.Role) != t.Role:
		return engine.BadInput("input.role", fmt.Sprintf("must have at most %d letters, digits, '_' and '-'", maxRole))
	case c.MaxOperations < 1 || c.MaxOperations > maxOperations:
		return engine.BadInput("input.constraints.max_operations", fmt.Sprintf("must be from 1 to %d", maxOperations))
	case c.MaxIterations < 1 || c.MaxIterations > maxIterations:
		return engine.BadInput("input.constraints.max_iterations", fmt.Sprintf("must be from 1 to %d", maxIterations))
	}
	return nil
}

// needs returns what a worker must have for a role: its model, its MCP servers, and the tools that there are
// now.
func needs(parts engine.Parts, role define.Definition) []string {
	all := []string{"model:" + role.Model.Name}
	for _, server := range role.MCPServers {
		all = append(all, "mcp:"+server)
	}

	for _, name := range engine.Provided(parts, "tool") {
		if allows(role, name) {
			all = append(all, "tool:"+name)
		}
	}
	return all
}

// allows reports whether a role may use an operation. Agents and templates are no operations.
func allows(role define.Definition, name string) bool {
	if strings.HasPrefix(name, "agent.") || strings.HasPrefix(name, "plan.") {
		return false
	}
	return slices.ContainsFunc(role.Tools, func(pattern string) bool { return tool.Match(pattern, name) })
}

// The kinds of errors with which a run ends whose work did not succeed.
const (
	stepFailed   = "step_failed"       // an operation failed, and nothing was done after it
	unsuccessful = "operations_failed" // all was done, but not all succeeded
	invalidPlan  = "invalid_plan"      // the model did not answer with a plan
)
