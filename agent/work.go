package agent

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/record"
)

// Work is what a [Job] runs. The types of this package implement it.
type Work interface {
	// input returns the work as its executor takes it. The error is about its texts.
	input() (Input, error)
}

// Input is work as its executor takes it: of an executor for which this package has no type, or in the words of the
// HTTP API. [Runtime.Result] reads what comes of it.
type Input struct {
	Executor string // such as agent
	Name     string // of what is run, if the executor has names
	Input    any    // as JSON; nil: nothing
}

func (i Input) input() (Input, error) {
	return i, checkTexts(record.MaxIDBytes, map[string]string{"executor": i.Executor, "name": i.Name})
}

// Request asks an agent to do something. [Run.Result] is its answer.
type Request struct {
	Agent   string // its name
	Request string // what it is to do
}

func (q Request) input() (Input, error) {
	return Input{"agent", q.Agent, map[string]string{"agent": q.Agent, "request": q.Request}},
		cmp.Or(checkTexts(record.MaxIDBytes, map[string]string{"agent": q.Agent}),
			checkTexts(record.MaxTextBytes, map[string]string{"request": q.Request}))
}

// Talk asks an agent to talk: over several turns, until it answers with a text instead of tool calls. Its result is a
// [workflow.AgentResult].
type Talk struct {
	Agent   string
	Message string // of the user
	// Messages come before Message; one of both is needed. The last message is the user's.
	Messages []workflow.Message
	// SystemPrompt replaces that of the agent.
	SystemPrompt string
	// History lets the agent know what was said before in the conversation, with tool calls, as one with IncludeHistory
	// does. Without an id such a talk gets a conversation of its own.
	History bool
}

func (t Talk) input() (Input, error) {
	return Input{"workflow", "", workflow.Input{
		Agent: t.Agent, UserMessage: t.Message, Messages: t.Messages, SystemPrompt: t.SystemPrompt,
		ForceIncludeHistory: t.History,
	}}, checkTexts(record.MaxIDBytes, map[string]string{"agent": t.Agent})
}

// Flow asks for a workflow: a chain of the configuration, or a function of the program. Its result is a
// [workflow.Result].
type Flow struct {
	Workflow string
	Input    any // as JSON
}

func (f Flow) input() (Input, error) {
	in, err := json.Marshal(f.Input)
	if err != nil {
		err = invalid("input", "cannot be written as JSON")
	}
	return Input{"workflow", "", workflow.Input{Workflow: f.Workflow, Input: in}}, err
}

// Task asks for work that a model plans, in one call or operation by operation, and whose operations are then
// made in order. Its result is a [plan.Result].
type Task struct {
	Task    string // what is to be done
	Context string // what the model must know for it
	Role    string // who works on it. Default: DEVELOPER
	// ReadOnly refuses operations that write.
	ReadOnly bool
	// Iterative asks the model for one operation at a time.
	Iterative bool
	// GoOn makes the operations after one that failed, too.
	GoOn bool
	// MaxOperations and MaxIterations end the work early. Default: 100 and 10.
	MaxOperations, MaxIterations int
}

func (t Task) input() (Input, error) {
	constraints := map[string]any{"abort_on_error": !t.GoOn, "iterative": t.Iterative}
	for field, n := range map[string]int{"max_operations": t.MaxOperations, "max_iterations": t.MaxIterations} {
		if n != 0 {
			constraints[field] = n
		}
	}

	return Input{"plan", "", map[string]any{
		"task": t.Task, "context": t.Context, "role": t.Role, "constraints": constraints, "enableWrite": !t.ReadOnly,
	}}, checkTexts(record.MaxTextBytes, map[string]string{"task": t.Task, "context": t.Context})
}

// Template asks for a run of a plan template of the configuration, whose steps are agents. [Run.Result] is what its
// last agent answered.
type Template struct {
	Name   string
	Values map[string]string // of the placeholders
}

func (t Template) input() (in Input, err error) {
	if err := checkTexts(record.MaxTextBytes, t.Values); err != nil {
		return in, err
	}
	if t.Name == "" {
		return in, invalid("name", "is required")
	}
	if err := checkTexts(record.MaxIDBytes, map[string]string{"name": t.Name}); err != nil {
		return in, err
	}

	in = Input{Executor: "plan", Name: t.Name}
	if t.Values != nil {
		in.Input = t.Values
	}
	return in, nil
}

// Graph asks for a task that a model plans as a graph of nodes, which run at the same time where they do not need each
// other. Its result is a [GraphResult]; [Run.Result] is what those nodes found whose results no other one needs.
type Graph struct {
	// Prompt is the task. PlanID, instead, is a run that planned a graph before: its graph is carried out again. One
	// without a graph is an error.
	Prompt string
	PlanID string
	// Provider and Model choose the model of the planner and of all nodes: Provider is a kind, such as openai, or the
	// name of a model. Without them the planner chooses the models of the nodes.
	Provider, Model string
	// Eager nodes begin as soon as the nodes that they need have completed. Others begin with their wave: when all
	// nodes of the wave before have ended.
	Eager bool
	// Draft plans the graph and no more.
	Draft bool
}

func (g Graph) input() (Input, error) {
	in := map[string]any{
		"prompt": g.Prompt, "plan_id": g.PlanID, "provider": g.Provider, "model": g.Model, "draft": g.Draft,
	}
	if g.Eager {
		in["scheduling"] = "eager"
	}

	ids := map[string]string{"plan_id": g.PlanID, "provider": g.Provider, "model": g.Model}
	return Input{"dag", "", in}, cmp.Or(checkTexts(record.MaxIDBytes, ids),
		checkTexts(record.MaxTextBytes, map[string]string{"prompt": g.Prompt}))
}

// Orchestration asks for a run of the orchestrator: a model plans, a human accepts, and specialised agents carry the
// plan out. [Run.Result] is its answer.
type Orchestration struct {
	Request string // what the user wants
	// Chat answers at once, without a plan.
	Chat bool
	// MaxPlanSteps bounds the plan, from 1 to 10. 0: as it is configured.
	MaxPlanSteps int
	// ExecutionTimeout bounds the run, with the time that humans take. 0: as it is configured.
	ExecutionTimeout time.Duration
}

func (o Orchestration) input() (Input, error) {
	in := map[string]any{"request": o.Request}
	if o.Chat {
		in["mode"] = "chat"
	}
	if o.MaxPlanSteps != 0 {
		in["maxPlanSteps"] = o.MaxPlanSteps
	}
	if o.ExecutionTimeout != 0 {
		in["executionTimeout"] = o.ExecutionTimeout.Seconds()
	}

	return Input{"orchestrator", "", in}, checkTexts(record.MaxTextBytes, map[string]string{"request": o.Request})
}
