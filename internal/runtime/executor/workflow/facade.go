package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/workflow/converse"
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

// failed is what did not succeed, with its error kind.
type failed struct {
	kind, message string
}

func (f *failed) Error() string { return f.message }

func (f *failed) Unwrap() error { return workflow.ErrFailed }

// timedOutError is an event that was not sent in time.
type timedOutError struct{ key string }

func (e *timedOutError) Error() string { return "event " + e.key + ": " + workflow.ErrTimedOut.Error() }

func (*timedOutError) Unwrap() error { return workflow.ErrTimedOut }

// unknown is a call whose outcome nobody can tell.
type unknown struct{ *engine.UndecidedError }

func (*unknown) Unwrap() error { return workflow.ErrUnknown }

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

// RunAgent implements [workflow.Facade].
func (p *place) RunAgent(ctx context.Context, name, message string) (workflow.AgentResult, error) {
	done, err := p.begin()
	if err != nil {
		return workflow.AgentResult{}, err
	}
	defer done()

	a, ok := p.def.Agents[name]
	if !ok || p.flow.Steps == nil && !slices.Contains(p.flow.Agents, name) {
		return workflow.AgentResult{}, &failed{"configuration", noComponent(name)}
	}

	session := engine.Conversation{
		ID: p.below(), AgentName: name, WorkflowName: p.name, BaseID: p.run.ConversationID(),
	}
	return p.agent(ctx, a, converse.Request{
		Messages: []workflow.Message{{Role: string(model.RoleUser), Content: message}}, Session: session,
	})
}

func noComponent(name string) string { return "No components found with name " + name }

// agent runs an agent as the next step.
func (p *place) agent(ctx context.Context, a define.Definition, q converse.Request) (workflow.AgentResult, error) {
	index := p.next
	p.next++
	r, err := converse.Carry(ctx, p.run, index, a, p.def.Servers, q)
	if err != nil {
		err = p.interrupted(err)
	}

	if p.stopped == nil {
		p.note(a.Agent, define.AgentStep, r)
	}
	return r, err
}

// RunWorkflow implements [workflow.Facade].
func (p *place) RunWorkflow(ctx context.Context, name string, in any) (workflow.Result, error) {
	done, err := p.begin()
	if err != nil {
		return workflow.Result{}, err
	}
	defer done()

	t, err := typeOf(workflow.Input{Workflow: name}, func(t define.StepType) bool {
		_, ok := p.def.Workflows[string(t)+"."+name]
		return ok
	})
	if err == nil && !slices.Contains(p.flow.Workflows, name) {
		err = errors.New(noComponent(name))
	}
	if err != nil {
		return workflow.Result{}, &failed{"configuration", err.Error()}
	}

	raw, err := json.Marshal(in)
	if err != nil {
		return workflow.Result{}, &failed{"configuration", "the input of workflow " + name + " is no JSON: " + err.Error()}
	}
	p.nested++
	if err := p.run.Same(ctx, p.nested, "Runs workflow "+name, string(raw), p.next); err != nil {
		return workflow.Result{}, p.interrupted(err)
	}
	return p.workflow(ctx, t, name, raw)
}

// workflow runs a workflow that is a step of this one.
func (p *place) workflow(
	ctx context.Context, t define.StepType, name string, in json.RawMessage,
) (workflow.Result, error) {
	if p.depth+1 >= maxDepth {
		return workflow.Result{}, &failed{"depth", fmt.Sprintf("workflows can be nested %d deep", maxDepth)}
	}

	inner := &place{
		carrier: p.carrier, name: name, flow: p.def.Workflows[string(t)+"."+name], session: p.below(), depth: p.depth + 1,
	}
	r, err := inner.do(ctx, t, in)
	if err != nil && !errors.Is(err, workflow.ErrFailed) {
		return r, err
	}
	p.note(name, t, r)
	return r, err
}

// toolStep is the type of a step that is one call of a tool.
const toolStep define.StepType = "tool"

// CallTool implements [workflow.Facade].
func (p *place) CallTool(ctx context.Context, name string, arguments any) (string, error) {
	done, err := p.begin()
	if err != nil {
		return "", err
	}
	defer done()

	raw, err := json.Marshal(arguments)
	if err != nil {
		return "", &failed{"configuration", "the arguments of " + name + " are no JSON: " + err.Error()}
	}

	index := p.next
	p.next++

	uses := define.Definition{Tools: p.flow.Tools, MCPServers: p.flow.MCPServers, EnableWrite: true}
	one := model.ToolCall{Name: name, Arguments: string(raw)}
	result, kind, err := p.run.CallTool(ctx, index, one, uses, p.flow.Policies)
	if undecided, ok := errors.AsType[*engine.UndecidedError](err); ok {
		p.unknown = &unknown{undecided}
		p.note(name, toolStep, err.Error())
		return "", p.unknown
	}
	if err != nil {
		return "", p.interrupted(err)
	}

	p.note(name, toolStep, result.Text)
	if kind != "" {
		return result.Text, &failed{kind, converse.ToolFailed(name, result.Text)}
	}
	return result.Text, nil
}

// Version implements [workflow.Facade].
func (p *place) Version(ctx context.Context, name string, n int) (int, error) {
	done, err := p.begin()
	if err != nil {
		return 0, err
	}
	defer done()

	if name == "" || n < 1 {
		return 0, &failed{"configuration", fmt.Sprintf("version %d of %q needs a name, and a number of 1 or more", n, name)}
	}
	version, err := p.run.Version(ctx, name, n, p.next)
	if err != nil {
		return 0, p.interrupted(err)
	}
	return version, nil
}

// Sleep implements [workflow.Facade].
func (p *place) Sleep(ctx context.Context, d time.Duration) error {
	_, _, err := p.waitFor(ctx, "", max(d, 0))
	return err
}

// Event implements [workflow.Facade].
func (p *place) Event(ctx context.Context, key string, timeout time.Duration) (json.RawMessage, error) {
	switch {
	case key == "":
		return nil, &failed{"configuration", "an event needs a key"}
	case timeout < 0:
		return nil, &failed{"configuration", fmt.Sprintf("the timeout of event %s is negative", key)}
	case timeout == 0:
		timeout = engine.NoEnd
	}

	data, over, err := p.waitFor(ctx, key, timeout)
	switch {
	case err != nil:
		return nil, err
	case over:
		return nil, &timedOutError{key}
	}
	return data, nil
}

// waitFor waits for an event, or for some time, as the next step.
func (p *place) waitFor(
	ctx context.Context, key string, d time.Duration,
) (data json.RawMessage, over bool, err error) {
	done, err := p.begin()
	if err != nil {
		return nil, false, err
	}
	defer done()

	index := p.next
	p.next++
	text, over, err := p.run.WaitFor(ctx, index, key, d)
	if err != nil {
		return nil, false, p.interrupted(err)
	}
	p.note(define.WaitForTool, toolStep, text)
	return json.RawMessage(text), over, nil
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
			if r, err = p.RunAgent(ctx, s.Name, textOf(in)); err == nil {
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

// kindOf returns the error kind of a function that returned an error.
func kindOf(err error) string {
	if failure, ok := errors.AsType[*failed](err); ok {
		return failure.kind
	}
	if errors.Is(err, workflow.ErrTimedOut) {
		return engine.WaitTimedOut
	}
	return "workflow"
}
