package workflow

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/workflow/flow"
)

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

// Sequential implements [engine.Sequential].
func (Executor) Sequential() {}

// About implements [engine.Described].
func (Executor) About() engine.About {
	return engine.About{
		Text: "input",
		Schema: json.RawMessage(`{"type":"object","description":"agent with user_message or messages, or workflow with input.","properties":{` +
			`"agent":{"type":"string"},"user_message":{"type":"string"},"messages":{"type":"array"},"system_prompt":{"type":"string"},` +
			`"force_include_history":{"type":"boolean"},"workflow":{"type":"string"},` +
			`"type":{"enum":["simple_workflow","custom_workflow"]},"input":{}}}`),
		Startables: func(parts engine.Parts) (all []engine.Startable) {
			for _, t := range define.WorkflowTypes {
				all = append(all, engine.Defined(parts, string(t), func(s *engine.Startable, _ json.RawMessage) {
					s.Type, s.Input = string(t), map[string]any{"workflow": s.Name, "type": t}
					input := engine.LongText("Input", "input")
					input.Hint, input.JSON = "JSON, or a text", true
					s.Fields = []engine.Field{input}
				})...)
			}
			return all
		},
	}
}

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

	d := define.Pinned{Type: define.AgentStep, Servers: engine.Provided(parts, "mcp")}
	session := agentSession
	if p.Name = in.Agent; in.Agent == "" {
		p.Name, session = in.Workflow, workflowSession
		d.Type, err = flow.TypeOf(in, func(t define.StepType) bool {
			_, ok := parts.Definition(string(t), in.Workflow)
			return ok
		})
	}
	if err == nil {
		err = pin(&d, p.Name, parts)
	}

	switch {
	case err != nil:
		return p, err
	case r.Name != "" && r.Name != p.Name:
		return p, engine.BadInput("name", "is not that of input")
	case in.ForceIncludeHistory || d.Remembers():
		p.ConversationID = session + newSession()
	}

	if p.UserRequest = flow.TextOf(in.Input); in.Agent != "" {
		a := d.Agents[in.Agent]
		p.UserRequest, p.ModelName = in.Messages[len(in.Messages)-1].Content, a.Model.Model
		p.Limits, p.Agent = new(engine.Limits(a.Limits)), in.Agent
	}

	in.Input, in.UserMessage = json.RawMessage(parts.Redact(string(in.Input))), ""
	in.SystemPrompt = parts.Redact(in.SystemPrompt)
	for i := range in.Messages {
		in.Messages[i].Content = parts.Redact(in.Messages[i].Content)
	}
	p.UserRequest = parts.Redact(p.UserRequest)
	p.Title, p.Needs = engine.Title(titleOf(p.Name, p.UserRequest)), d.Needs()

	err = p.Keep(in, d)
	return p, err
}

// pin pins what is run. Its errors are those of a request.
func pin(d *define.Pinned, name string, parts engine.Parts) error {
	err := d.Pin(d.Type, name, parts.Definition)
	if unknown, ok := errors.AsType[*define.UnknownStepError](err); ok {
		if unknown.Type == define.AgentStep {
			return &engine.UnknownError{Kind: "agent", Name: unknown.Name, There: parts.Names("agent")}
		}
		var there []string
		for _, t := range define.WorkflowTypes {
			there = append(there, parts.Names(string(t))...)
		}
		return &engine.UnknownError{Kind: "workflow", Name: unknown.Name, There: there}
	}

	if missing, ok := errors.AsType[*define.MissingServerError](err); ok {
		return engine.BadInput("", missing.Error()) // no field of the request is wrong
	}
	return err
}
