// Package workflow is the executor of agents that talk over several turns, of chains of them, and of
// workflows that are functions of a program.
package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/workflow/converse"
	"github.com/actlog/actlog/record"
)

// Advance implements [engine.Executor].
func (x Executor) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	var def define.Pinned
	var in workflow.Input
	if err := run.Read(&in, &def); err != nil {
		return engine.Result{}, err
	}

	c := &carrier{run: run, def: def, functions: x.Functions}
	root := &place{carrier: c, name: run.Name(), session: run.ConversationID()}
	var result any
	var err error
	if def.Type == define.AgentStep {
		result, err = root.agent(ctx, def.Agents[in.Agent], converse.Request{
			Messages: in.Messages, SystemPrompt: in.SystemPrompt, History: in.ForceIncludeHistory,
			Session: engine.Conversation{ID: root.session, AgentName: in.Agent},
		})
	} else {
		root.flow = def.Workflows[string(def.Type)+"."+in.Workflow]
		result, err = root.rooted(ctx, def.Type, in.Input)
	}

	if c.stopped != nil { // whatever the workflow made of it
		return engine.Result{}, c.stopped
	}

	if c.unknown != nil {
		c.unknown.GoOn()
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

// rooted carries the workflow of the run, and keeps what it was given and returned in its session.
func (p *place) rooted(ctx context.Context, t define.StepType, in json.RawMessage) (workflow.Result, error) {
	say := func(number int, m model.Message) {
		if p.session != "" {
			p.run.Say(engine.Conversation{ID: p.session, WorkflowName: p.name}, number, m)
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
