package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/record"
)

// work is the work on a request.
type work struct {
	run        *engine.Run
	own        *engine.Step
	input      input
	definition config.OrchestratorDefinition
	seq        int64 // of the next cycle of the own step

	approved bool      // the actions of the plan, too
	done     []outcome // of the steps of the plan, in their order
}

// maxSelections is how often an agent may choose, until it chooses a tool that there is.
const maxSelections = 3

// carryOut carries a step out, unless it has ended. The error ends the run.
func (w *work) carryOut(ctx context.Context, s step) (outcome, error) {
	agent := w.definition.Agents[slices.IndexFunc(w.definition.Agents, func(a config.Definition) bool { return a.Agent == s.Agent })]
	about, _ := json.Marshal(s) // texts and numbers
	info := engine.StepInfo{Agent: s.Agent, Description: agent.Description, Request: s.Action, Model: agent.Model.Model, Metadata: about}
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
			StepID: new(on.ID()), AgentID: &s.Agent, Iteration: new(int64(s.Number)), Type: new(record.ThoughtDecision), Content: &s.Justification,
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

// toolsOf returns the tools of an agent.
func (w *work) toolsOf(ctx context.Context, agent config.Definition) (*tool.Set, error) {
	all, err := w.run.Tools(ctx, agent.Tools, agent.MCPServers)
	if err != nil {
		return nil, err
	}
	set, err := tool.NewSet(agent.Select(all)...)
	if err != nil {
		return nil, &engine.RunError{Kind: "configuration", Message: err.Error()}
	}
	return set, nil
}

// offered returns the names of the tools of each agent, for the planner.
func (w *work) offered(ctx context.Context) (map[string][]string, error) {
	names := map[string][]string{}
	for _, agent := range w.definition.Agents {
		set, err := w.toolsOf(ctx, agent)
		if err != nil {
			return nil, err
		}
		names[agent.Agent] = set.Names()
	}
	return names, nil
}

// use lets an agent choose a tool for a step, and calls it. An agent without tools does the step itself.
func (w *work) use(ctx context.Context, on *engine.Step, agent config.Definition, s step) (string, error) {
	m, err := w.run.Model(agent.Model.Name)
	if err != nil {
		return "", err
	}
	tools, err := w.toolsOf(ctx, agent)
	if err != nil {
		return "", err
	}
	t := engine.Thinking{
		Model: m, Tools: tools, Policies: agent.Policies, WaitTimeout: time.Duration(agent.WaitTimeout), Artifacts: true, Refuse: oneTool, Approved: w.approved,
		Temperature: agent.Model.Temperature, MaxTokens: agent.Model.MaxTokens,
	}
	talk := messages(agentPrompt(agent), nil, model.User(task(w.input.Request, s, w.done)))
	for seq := range int64(maxSelections) {
		t.Messages = slices.Clone(talk)
		response, err := on.Think(ctx, seq, t)
		if err != nil {
			return "", err
		}
		output, again, err := call(ctx, on, seq, response, t)
		if again == nil || err != nil {
			return output, err
		}
		talk = append(engine.Append(talk, response.Message), *again)
	}
	return "", &engine.RunError{Kind: "no_tool", Message: noTool(agent.Agent)}
}

// call calls the tool that an agent chose, and returns its output; again is what the agent is told if it has to choose again.
func call(ctx context.Context, on *engine.Step, seq int64, response *model.Response, t engine.Thinking) (output string, again *model.Message, err error) {
	calls := response.Message.Calls()
	results, cut, err := on.Follow(ctx, seq, calls, t)
	switch state, kind := on.Called(seq, 0); {
	case err != nil:
		return "", nil, err
	case len(calls) == 0 && cut:
		return "", new(t.TellCut()), nil
	case len(calls) == 0 && len(t.Tools.Names()) == 0:
		return response.Message.Text(), nil, nil
	case len(calls) == 0:
		return "", new(model.User(chooseATool)), nil
	case slices.Contains([]string{engine.Refused, engine.NoSuchTool, engine.CutOff}, kind):
		return "", new(engine.Told(calls, results)), nil
	case state == record.Skipped:
		err = &engine.RunError{Kind: cmp.Or(kind, "rejected"), Message: results[0].Text, State: record.Skipped}
	case results[0].Failed:
		err = &engine.RunError{Kind: "tool", Message: results[0].Text}
	}
	return results[0].Text, nil, err
}

// oneTool refuses the calls of an agent that chose several tools.
func oneTool(_ model.ToolCall, of int) string {
	if of > 1 {
		return chooseATool
	}
	return ""
}
