package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/workflow/converse"
)

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

	t, err := TypeOf(workflow.Input{Workflow: name}, func(t define.StepType) bool {
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
