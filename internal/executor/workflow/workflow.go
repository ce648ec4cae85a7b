// Package workflow is the executor of agents that talk over several turns, of chains of them, and of
// workflows that are functions of a program.
package workflow

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/record"
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

// Advance implements [engine.Executor].
func (x Executor) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	var def definition
	var in input
	if err := errors.Join(json.Unmarshal(run.Definition(), &def), json.Unmarshal(run.Input(), &in)); err != nil {
		return engine.Result{}, &engine.RunError{Kind: "configuration", Message: "The run cannot be read: " + err.Error()}
	}
	c := &carrier{run: run, def: def, functions: x.Functions}
	root := &place{carrier: c, name: run.Name(), session: run.ConversationID()}
	var result any
	var err error
	if def.Type == config.AgentStep {
		result, err = root.agent(ctx, def.Agents[in.Agent], asked{
			messages: in.Messages, systemPrompt: in.SystemPrompt, history: in.ForceIncludeHistory,
			session: engine.Conversation{ID: root.session, Agent: in.Agent},
		})
	} else {
		root.flow = def.Workflows[string(def.Type)+"."+in.Workflow]
		result, err = root.rooted(ctx, def.Type, in.Input)
	}
	if c.stopped != nil { // whatever the workflow made of it
		return engine.Result{}, c.stopped
	}
	raw, encoded := workflow.JSON(result, record.MaxTextBytes)
	if encoded != nil {
		return engine.Result{}, fmt.Errorf("encode the result: %w", encoded)
	}
	out := engine.Result{Summary: string(raw), Said: true}
	if failure, ok := errors.AsType[*failed](err); ok {
		return out, &engine.RunError{Kind: failure.kind, Message: failure.message}
	}
	return out, err
}

// rooted carries the workflow of the run, and keeps what it was given and returned in its session.
func (p *place) rooted(ctx context.Context, t config.StepType, in json.RawMessage) (workflow.Result, error) {
	say := func(number int, m model.Message) {
		if p.session != "" {
			p.run.Say(engine.Conversation{ID: p.session, Workflow: p.name}, number, m)
		}
	}
	say(0, model.User(textOf(in)))
	r, err := p.do(ctx, t, in)
	if r.Status == workflow.Completed {
		raw, encoded := json.Marshal(r.FinalOutput)
		if encoded != nil {
			return r, fmt.Errorf("encode the output: %w", encoded)
		}
		say(1, model.Message{Role: model.RoleAssistant, Parts: []model.Part{{Text: textOf(raw)}}})
	}
	return r, err
}

// do carries the workflow. The error wraps [workflow.ErrFailed], or says that it does not go on now.
func (p *place) do(ctx context.Context, t config.StepType, in json.RawMessage) (workflow.Result, error) {
	var output any
	var err error
	if t == config.CustomStep {
		output, err = p.custom(ctx, in)
	} else {
		output, err = p.chain(ctx, in)
	}
	r := workflow.Result{WorkflowName: p.name, Status: workflow.Completed, StepResults: p.results, FinalOutput: output}
	if r.StepResults == nil {
		r.StepResults = []workflow.StepResult{}
	}
	if p.session != "" {
		r.SessionID = &p.session
	}
	if err != nil {
		r.Status, r.FinalOutput, r.Error = workflow.Failed, nil, new(err.Error())
	}
	return r, err
}

// chain carries the steps of a simple workflow: the output of each is the input of the next.
func (p *place) chain(ctx context.Context, in json.RawMessage) (output any, err error) {
	for _, s := range p.flow.Steps {
		output = nil
		switch s.Type {
		case config.AgentStep:
			var r workflow.AgentResult
			if r, err = p.RunAgent(ctx, s.Name, textOf(in)); err == nil {
				output = r.Text()
			}
		case config.SimpleStep, config.CustomStep:
			var r workflow.Result
			if r, err = p.workflow(ctx, s.Type, s.Name, in); err == nil {
				output = r.FinalOutput
			}
		default:
			return nil, &failed{"configuration", setupFailed(noComponent(s.Name))}
		}
		if err == nil {
			in, err = json.Marshal(output)
		}
		if failure, ok := errors.AsType[*failed](err); ok {
			return nil, &failed{failure.kind, stepFailed(s.Name, failure.message)}
		}
		if err != nil {
			return nil, err
		}
	}
	return output, nil
}

// custom calls the function of a custom workflow. What it makes of an error of the handle does not count.
func (p *place) custom(ctx context.Context, in json.RawMessage) (output any, err error) {
	var call workflow.Func
	if p.functions != nil {
		call, _ = p.functions(p.name)
	}
	if call == nil {
		return nil, &failed{"configuration", setupFailed("this program has no function of the workflow " + p.name)}
	}
	defer func() {
		if problem := recover(); problem != nil {
			output, err = nil, &failed{"workflow", customFailed(p.name, fmt.Sprint(problem))}
		}
		if p.stopped != nil {
			output, err = nil, p.interrupted(p.stopped)
		}
	}()
	output, err = call(ctx, p, in, p.session)
	if failure, ok := errors.AsType[*failed](err); ok {
		return nil, &failed{failure.kind, customFailed(p.name, err.Error())}
	}
	if err != nil {
		return nil, &failed{"workflow", customFailed(p.name, err.Error())}
	}
	if _, err := json.Marshal(output); err != nil {
		return nil, &failed{"workflow", customFailed(p.name, err.Error())}
	}
	return output, nil
}
