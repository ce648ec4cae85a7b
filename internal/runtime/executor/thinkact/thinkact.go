// Package thinkact is the executor of a single agent: think, act, and again, until it says that it is
// done.
package thinkact

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/rounds"
)

// historyMessages is how much of an earlier conversation an agent is told.
const historyMessages = 20

// defaultMaxSteps is how many rounds an agent has.
const defaultMaxSteps = 30

// Advance implements [engine.Executor].
func (Executor) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	var agent define.Definition
	var in Asked
	if err := run.Read(&in, &agent); err != nil {
		return engine.Result{}, err
	}
	summary, err := Work(ctx, run, 0, run.Name(), agent, in)
	return engine.Result{Summary: summary}, err
}

// Work lets an agent do a step of a run, to its end, and returns its answer.
func Work(
	ctx context.Context, run *engine.Run, index int, name string, agent define.Definition, in Asked,
) (string, error) {
	step, err := run.Step(ctx, index, engine.StepInfo{
		Agent: name, Description: agent.Description, Request: in.Request, Model: agent.Model.Model,
		MaxSteps: Rounds(run, agent),
	})
	if err != nil {
		return "", err
	}
	if summary, ended, err := step.Ended(); ended {
		return summary, err
	}

	summary, err := On(ctx, run, step, agent, in)
	failure, failed := errors.AsType[*engine.RunError](err)
	if err != nil && !failed {
		return "", err
	}
	if failed && failure.Kind == rounds.OutOfRounds { // it ends the run, as its other limits do
		failure.Kind = engine.LimitRounds
	}

	if err == nil || !engine.OfRun(err) {
		step.End(summary, failure)
	}
	return summary, err
}

// Rounds returns how often an agent of a run may act.
func Rounds(run *engine.Run, agent define.Definition) int {
	return run.Rounds(cmp.Or(agent.MaxSteps, defaultMaxSteps))
}

// On lets an agent do a step that has begun, and returns its answer. The caller ends the step. The error is a
// [*engine.RunError] if the agent failed, of the kind [rounds.OutOfRounds] if it used all of its rounds.
func On(ctx context.Context, run *engine.Run, step *engine.Step, agent define.Definition, in Asked) (string, error) {
	base, err := opening(ctx, run, agent, in)
	if err != nil {
		return "", err
	}
	thinking, err := thinkingOf(ctx, run, agent)
	if err != nil {
		return "", err
	}

	work := rounds.Work{Step: step, Rounds: Rounds(run, agent), Thinking: thinking, Base: base}
	return work.Carry(ctx, terminating{schema: agent.ResponseSchema})
}

// opening returns the messages that an agent begins with.
func opening(ctx context.Context, run *engine.Run, agent define.Definition, in Asked) ([]model.Message, error) {
	talk := []model.Message{model.System(systemPrompt(agent))}
	if agent.IncludeHistory {
		history, err := run.History(ctx, run.ConversationID(), historyMessages)
		if err != nil {
			return nil, err
		}
		talk = append(talk, history...)
	}

	for _, m := range in.History {
		talk = append(talk, model.Message{Role: m.Role, Parts: []model.Part{{Text: m.Content}}})
	}
	return append(talk, model.User(in.Request)), nil
}

// thinkingOf returns what an agent asks its model each time, but for the messages.
func thinkingOf(ctx context.Context, run *engine.Run, agent define.Definition) (t engine.Thinking, err error) {
	terminate, err := terminateOf(agent.ResponseSchema)
	if err != nil {
		return t, err
	}

	isTerminate := func(name string) bool { return name == terminateTool } // every agent has it
	agent.Tools = slices.DeleteFunc(slices.Clone(agent.Tools), isTerminate)
	if t, err = run.Thinking(ctx, agent, terminate); err != nil {
		return t, err
	}

	t.Refuse = refuseTogether
	if agent.ResponseSchema == nil { // else the answer is no text
		t.AnswerTool = terminateTool
	}
	return t, nil
}

// refuseTogether refuses tools that only make sense alone.
func refuseTogether(call model.ToolCall, of int) string {
	if of > 1 && (call.Name == terminateTool || call.Name == engine.FormTool) {
		return notTogether
	}
	return ""
}
