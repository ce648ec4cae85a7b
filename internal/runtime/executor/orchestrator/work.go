package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/rounds"
	"github.com/actlog/actlog/record"
)

type work struct {
	run        *engine.Run
	own        *engine.Step
	input      input
	definition define.OrchestratorDefinition
	seq        int64 // of the next cycle of the own step

	approved bool      // the actions of the plan, too
	done     []outcome // of the steps of the plan, in their order
}

// carryOut carries a step out, unless it has ended. The error ends the run.
func (w *work) carryOut(ctx context.Context, s step) (outcome, error) {
	agent := w.definition.Agents[slices.IndexFunc(w.definition.Agents, func(a define.Definition) bool {
		return a.Agent == s.Agent
	})]
	about, _ := json.Marshal(s) // texts and numbers
	info := engine.StepInfo{Agent: s.Agent, Description: agent.Description, Request: s.Action, Model: agent.Model.Model,
		MaxSteps: w.run.Rounds(agent.MaxSteps), Metadata: about}

	if before := w.missing(s); before > 0 {
		why := &engine.RunError{Kind: "dependency", Message: needsStep(before), State: record.Skipped}
		w.run.Skip(s.Number-1, info, record.Skipped, why.Message)
		return outcome{step: s, failure: why}, nil
	}

	on, err := w.run.Step(ctx, s.Number-1, info)
	if err != nil {
		return outcome{}, err
	}
	output, ended, err := on.Ended()
	if !ended {
		w.run.Thought(s.Number, record.Thought{
			StepID: new(on.ID()), AgentID: &s.Agent, Iteration: new(int64(s.Number)), Type: new(record.ThoughtDecision),
			Content: &s.Justification,
		})
		output, err = w.use(ctx, on, agent, s)
	}

	failure, failed := errors.AsType[*engine.RunError](err)
	if err != nil && (!failed || engine.OfRun(err)) {
		return outcome{}, err
	}
	on.End(output, failure)
	return outcome{s, output, failure}, nil
}

// missing returns the number of a step that one depends on and that was not completed; 0: there is none.
func (w *work) missing(s step) int {
	for _, before := range s.Dependencies {
		if w.done[before-1].failure != nil {
			return before
		}
	}
	return 0
}

// offered returns the names of the tools of each agent, for the planner.
func (w *work) offered(ctx context.Context) (map[string][]string, error) {
	names := map[string][]string{}
	for _, agent := range w.definition.Agents {
		set, err := w.run.ToolsOf(ctx, agent)
		if err != nil {
			return nil, err
		}
		names[agent.Agent] = set.Names()
	}
	return names, nil
}

// use lets an agent carry out a step in rounds, and returns its result.
func (w *work) use(ctx context.Context, on *engine.Step, agent define.Definition, s step) (string, error) {
	t, err := w.run.Thinking(ctx, agent)
	if err != nil {
		return "", err
	}
	base := messages(agentPrompt(agent), nil, model.User(task(w.input.Request, s, w.done)))

	t.Artifacts, t.Approved = true, w.approved
	t.Refuse = formAlone
	most := w.run.Rounds(agent.MaxSteps)
	return rounds.Work{Step: on, Rounds: most, Thinking: t, Base: base}.Carry(ctx, &rounds.Answering{})
}

func formAlone(call model.ToolCall, of int) string {
	if of > 1 && call.Name == engine.FormTool {
		return notTogether
	}
	return ""
}
