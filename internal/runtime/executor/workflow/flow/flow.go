// Package flow carries workflows: agents and workflows one after the other, and functions, with what these are given.
package flow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/workflow/converse"
	"github.com/actlog/actlog/record"
)

// maxDepth is how deep workflows may be nested.
const maxDepth = 10

// carrier carries the workflows of a run. What they run are the steps of the run, in order.
type carrier struct {
	run *engine.Run
	def define.Pinned
	// functions returns those of custom workflows; nil: there are none.
	functions func(name string) (workflow.Func, bool)
	next      int      // the index of the next step
	nested    int      // how many workflows a function has run
	unknown   *unknown // the last call whose outcome is unknown; nil: there is none
	// stopped is the error of the handle after which nothing goes on.
	stopped error
}

// place is where a workflow stands in a run.
type place struct {
	*carrier
	name    string
	flow    define.Flow
	session string // of the workflow; empty: none
	depth   int

	busy    sync.Mutex // held while a call is under way
	results []workflow.StepResult
}

// begin begins a call: they are made one after the other, so that they have the same order each time.
func (p *place) begin() (done func(), err error) {
	if !p.busy.TryLock() {
		return nil, &failed{"configuration", "a workflow makes its calls one after the other"}
	}
	if p.stopped != nil {
		p.busy.Unlock()
		return nil, p.interrupted(p.stopped)
	}
	if p.unknown != nil {
		p.unknown.GoOn()
	}
	return p.busy.Unlock, nil
}

// interrupted notes an error of the handle, which ends the workflow for now. A failure goes on as it is.
func (p *place) interrupted(err error) error {
	if failure, ok := errors.AsType[*engine.RunError](err); ok {
		return &failed{failure.Kind, failure.Message}
	}
	p.stopped = err
	return fmt.Errorf("%w: %w", workflow.ErrInterrupted, err)
}

// note keeps how a step ended.
func (p *place) note(name string, t define.StepType, result any) {
	p.results = append(p.results, workflow.StepResult{StepName: name, StepType: string(t), Result: result})
}

// below returns the session of the next step.
func (p *place) below() string {
	if p.session == "" {
		return ""
	}
	return fmt.Sprintf("%s-%d", p.session, len(p.results))
}

// Carry carries a run of an agent or of a workflow. functions returns those of custom workflows; nil: there are none.
func Carry(
	ctx context.Context, run *engine.Run, functions func(name string) (workflow.Func, bool),
) (engine.Result, error) {
	var def define.Pinned
	var in workflow.Input
	if err := run.Read(&in, &def); err != nil {
		return engine.Result{}, err
	}

	root := &place{
		carrier: &carrier{run: run, def: def, functions: functions}, name: run.Name(), session: run.ConversationID(),
	}
	result, err := root.root(ctx, in)
	if root.stopped != nil { // whatever the workflow made of it
		return engine.Result{}, root.stopped
	}
	if root.unknown != nil {
		root.unknown.GoOn()
	}

	raw, encoded := workflow.JSON(result, record.MaxTextBytes)
	if encoded != nil {
		return engine.Result{}, fmt.Errorf("encode the result: %w", encoded)
	}
	out := engine.Result{Summary: string(raw), ConversationWritten: true}
	if failure, ok := errors.AsType[*failed](err); ok {
		return out, &engine.RunError{Kind: failure.kind, Message: failure.message}
	}
	return out, err
}

// root carries what the run is one of.
func (p *place) root(ctx context.Context, in workflow.Input) (result any, err error) {
	if p.def.Type != define.AgentStep {
		p.flow = p.def.Workflows[string(p.def.Type)+"."+in.Workflow]
		return p.rooted(ctx, p.def.Type, in.Input)
	}
	return p.agent(ctx, p.def.Agents[in.Agent], converse.Request{
		Messages: in.Messages, SystemPrompt: in.SystemPrompt, History: in.ForceIncludeHistory,
		Session: engine.Conversation{ID: p.session, AgentName: in.Agent},
	})
}

// rooted carries the workflow of the run, and keeps what it was given and returned in its session.
func (p *place) rooted(ctx context.Context, t define.StepType, in json.RawMessage) (workflow.Result, error) {
	say := func(number int, m model.Message) {
		if p.session != "" {
			p.run.Say(engine.Conversation{ID: p.session, WorkflowName: p.name}, number, m)
		}
	}

	say(0, model.User(TextOf(in)))
	r, err := p.do(ctx, t, in)
	if r.Status == workflow.Completed {
		raw, encoded := json.Marshal(r.FinalOutput)
		if encoded != nil {
			return r, fmt.Errorf("encode the output: %w", encoded)
		}
		say(1, model.Message{Role: model.RoleAssistant, Parts: []model.Part{{Text: TextOf(raw)}}})
	}
	return r, err
}

// do carries the workflow. The error wraps [workflow.ErrFailed], or says that it does not go on now.
func (p *place) do(ctx context.Context, t define.StepType, in json.RawMessage) (workflow.Result, error) {
	carry := p.chain
	if t == define.CustomStep {
		carry = p.custom
	}
	output, err := carry(ctx, in)

	r := workflow.Result{WorkflowName: p.name, Status: workflow.Completed, StepResults: p.results, FinalOutput: output}
	if r.StepResults == nil {
		r.StepResults = []workflow.StepResult{}
	}
	if p.session != "" {
		r.SessionID = &p.session
	}
	if err != nil {
		r.Status, r.FinalOutput = workflow.Failed, nil
		r.Error = new(err.Error())
	}
	return r, err
}

// chain carries the steps of a simple workflow: the output of each is the input of the next.
func (p *place) chain(ctx context.Context, in json.RawMessage) (output any, err error) {
	for _, s := range p.flow.Steps {
		output = nil
		switch s.Type {
		case define.AgentStep:
			var r workflow.AgentResult
			if r, err = p.RunAgent(ctx, s.Name, TextOf(in)); err == nil {
				output = r.Text()
			}
		case define.SimpleStep, define.CustomStep:
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
		call, _ = p.functions(cmp.Or(p.flow.Function, p.name))
	}
	if call == nil {
		return nil, &failed{"configuration", setupFailed("this program has no function " + cmp.Or(p.flow.Function, p.name))}
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
	if unknown := p.unknown; p.stopped == nil && unknown != nil && errors.Is(err, workflow.ErrUnknown) {
		_ = errors.As(err, &unknown) // else it is the last one
		err = p.interrupted(unknown.Ask(ctx))
	}

	if err != nil {
		return nil, &failed{kindOf(err), customFailed(p.name, err.Error())}
	}
	if _, err := json.Marshal(output); err != nil {
		return nil, &failed{"workflow", customFailed(p.name, err.Error())}
	}
	return output, nil
}

// TypeOf returns the type of the workflow of a name, also if there is none.
func TypeOf(in workflow.Input, there func(define.StepType) bool) (define.StepType, error) {
	var types []string
	for _, t := range define.WorkflowTypes {
		if (in.Type == "" || in.Type == string(t)) && there(t) {
			types = append(types, string(t))
		}
	}

	switch len(types) {
	case 0:
		return cmp.Or(define.StepType(in.Type), define.SimpleStep), nil
	case 1:
		return define.StepType(types[0]), nil
	}
	return "", engine.BadInput("input.workflow",
		fmt.Sprintf("%q found in multiple types (%s)", in.Workflow, strings.Join(types, ", ")))
}
