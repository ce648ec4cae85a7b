// Package converse carries agents that talk over several turns: a text is their final answer, and sessions
// remember what was said.
package converse

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
)

const (
	// defaultIterations is how many turns an agent has.
	defaultIterations = 50
	// historyMessages bounds the messages of its session that an agent reads.
	historyMessages = 200
	// outOfTurns is the error kind of an agent that used all of its turns.
	outOfTurns = "max_iterations"
)

// Request is what an agent is asked.
type Request struct {
	Messages     []workflow.Message
	SystemPrompt string // in place of that of the agent; empty: that
	History      bool   // although the agent does not want it
	Session      engine.Conversation
}

// conversation is that of an agent with its model, over several turns.
type conversation struct {
	run         *engine.Run
	step        *engine.Step
	agent       define.Definition
	servers     []string                  // all MCP servers that there are
	checkAnswer func(answer string) error // says why a text is no final answer; nil: any is
	asked       Request

	messages []model.Message
	ownFrom  int // index of the first message after prompt and history
	kept     int // how many of its own the session has
}

// Carry carries a conversation to its end, as a step of the run. servers are all MCP servers that there are. The error
// is a [*engine.RunError] if the agent did not succeed, with its result, or another of the handle.
func Carry(
	ctx context.Context, run *engine.Run, index int, a define.Definition, servers []string, q Request,
) (workflow.AgentResult, error) {
	a.MaxSteps = run.Rounds(cmp.Or(a.MaxSteps, defaultIterations))

	step, err := run.Step(ctx, index, engine.StepInfo{
		Agent: a.Agent, Description: a.Description, Request: q.Messages[len(q.Messages)-1].Content, Model: a.Model.Model,
		MaxSteps:       a.MaxSteps,
		ConversationID: q.Session.ID,
	})
	if err != nil {
		return workflow.AgentResult{}, err
	}

	t := &conversation{run: run, step: step, agent: a, servers: servers, asked: q}
	if err := t.loadMessages(ctx); err != nil {
		return workflow.AgentResult{}, err
	}

	answer, err := t.turns(ctx)
	failure, failed := errors.AsType[*engine.RunError](err)
	if err != nil && !failed {
		return workflow.AgentResult{}, err
	}
	step.End(answer, failure)
	t.keep()
	return t.result(answer, failure), err
}

// loadMessages sets the messages: the system prompt, the history of the session, and the request.
func (t *conversation) loadMessages(ctx context.Context) (err error) {
	prompt := t.agent.SystemPrompt
	if t.asked.SystemPrompt != "" {
		prompt = t.asked.SystemPrompt
	}
	t.messages = []model.Message{model.System(strings.TrimSpace(prompt + "\n\n" + toolsAreData))}

	if t.asked.History || t.agent.IncludeHistory {
		history, err := t.run.History(ctx, t.asked.Session.ID, historyMessages)
		if err != nil {
			return err
		}
		t.messages = append(t.messages, history...)
	}

	t.ownFrom = len(t.messages)
	for _, m := range t.asked.Messages {
		t.messages = append(t.messages, model.Message{Role: model.Role(m.Role), Parts: []model.Part{{Text: m.Content}}})
	}
	t.keep()
	return nil
}

func (t *conversation) keep() {
	if own := t.messages[t.ownFrom:]; t.asked.Session.ID != "" && len(own) > t.kept {
		t.run.Say(t.asked.Session, t.kept, own[t.kept:]...)
		t.kept = len(own)
	}
}

// turns goes on until there is a final answer, or no turn is left.
func (t *conversation) turns(ctx context.Context) (answer string, err error) {
	if len(t.agent.ResponseSchema) > 0 {
		if t.checkAnswer, err = tool.Checker(t.agent.ResponseSchema); err != nil {
			return "", &engine.RunError{Kind: "configuration", Message: "The response schema is not valid: " + err.Error()}
		}
	}

	for n := 0; ; n++ {
		answer, final, err := t.turn(ctx, n)
		more := false
		if final && err == nil {
			more, err = t.step.OnceMore(ctx, int64(n+1))
		}

		switch {
		case err != nil:
			return "", err
		case final && !more:
			return answer, nil
		case !final && n+1 >= t.step.Copied()+t.agent.MaxSteps:
			return "", &engine.RunError{Kind: outOfTurns, Message: outOfIterations(t.agent.MaxSteps)}
		}
	}
}

// turn asks the model once, and makes the calls that it asks for. Of a step that has ended it takes what is on
// record, and returns the failure where the step came to it.
func (t *conversation) turn(ctx context.Context, n int) (answer string, final bool, err error) {
	_, ended, failure := t.step.Ended()
	answered, acted := t.step.Recorded(int64(n))
	var thinking engine.Thinking
	switch {
	case !ended:
		if thinking, err = t.thinking(ctx); err != nil {
			return "", false, turnError(n, err)
		}
	case failure != nil && !answered:
		return "", false, failure
	}

	thinking.Messages, thinking.InOrder = slices.Clone(t.messages), true
	thinking.MaxTokens = t.agent.Model.MaxTokens // also of a step that has ended
	response, err := t.step.Think(ctx, int64(n), thinking)
	if err != nil {
		return "", false, turnError(n, err)
	}

	t.messages = engine.Append(t.messages, response.Message)
	if len(response.Message.Calls()) == 0 {
		return t.spoken(n, response, thinking)
	}
	if ended && !acted {
		return "", false, failure
	}
	return "", false, t.act(ctx, n, response.Message.Calls(), thinking)
}

// spoken takes a text, which is the final answer if it is whole, and fits.
func (t *conversation) spoken(
	n int, response *model.Response, thinking engine.Thinking,
) (answer string, final bool, err error) {
	cut, err := t.step.Cut(int64(n), thinking)
	switch {
	case err != nil:
		return "", false, turnError(n, err)
	case cut:
		t.messages = append(t.messages, thinking.TellCut())
		return "", false, nil
	}

	answer = response.Message.Text()
	if t.checkAnswer != nil {
		if why := t.checkAnswer(answer); why != nil {
			t.messages = append(t.messages, model.User(doesNotFit(why)))
			return "", false, nil
		}
	}
	return answer, true, nil
}

// act makes the calls of a turn, and adds their results to the conversation.
func (t *conversation) act(ctx context.Context, n int, calls []model.ToolCall, thinking engine.Thinking) error {
	t.keep()
	results, _, err := t.step.Follow(ctx, int64(n), calls, thinking)
	if results != nil { // the calls were made, also if too many answers were cut
		t.messages = append(t.messages, resultsMessage(calls, results))
		t.keep()
	}
	return turnError(n, err)
}

// turnError returns an error of a turn: a failure says which turn it was, others are those of the handle.
func turnError(turn int, err error) error {
	if failure, ok := errors.AsType[*engine.RunError](err); ok {
		return &engine.RunError{Kind: failure.Kind, Message: turnFailed(turn+1, failure.Kind, failure.Message)}
	}
	return err
}

// thinking returns what the agent asks its model in a turn, with the tools that it has then.
func (t *conversation) thinking(ctx context.Context) (engine.Thinking, error) {
	th, err := t.run.Thinking(ctx, t.agent)
	th.Refuse, th.ResponseSchema = t.refuse, t.agent.ResponseSchema
	return th, err
}

// refuse refuses calls whose arguments are bad, and tools of servers that the agent may not use.
func (t *conversation) refuse(call model.ToolCall, _ int) string {
	if err := argumentsError(call.Arguments); err != nil {
		return badArguments(err)
	}
	if server := tool.ServerOf(call.Name, t.servers); server != "" && !slices.Contains(t.agent.MCPServers, server) {
		return notItsServer(t.agent.Agent, call.Name)
	}
	return ""
}

func argumentsError(arguments string) error {
	_, err := tool.Canonical(json.RawMessage(arguments))
	return err
}

// resultsMessage returns the message that tells the model what came of its calls.
func resultsMessage(calls []model.ToolCall, results []tool.Result) model.Message {
	results = slices.Clone(results)
	for i, r := range results {
		switch {
		case r.Failed && argumentsError(calls[i].Arguments) != nil: // it says so
		case r.Failed:
			results[i].Text = ToolFailed(calls[i].Name, r.Text)
		case r.Text == "":
			results[i].Text = noOutput
		}
	}
	return engine.ResultsMessage(calls, results)
}

func (t *conversation) result(answer string, failure *engine.RunError) workflow.AgentResult {
	r := workflow.AgentResult{
		AgentName: t.agent.Agent, Status: workflow.Success, ConversationHistory: workflow.MessagesOf(t.messages),
	}
	if id := t.asked.Session.ID; id != "" {
		r.SessionID = &id
	}

	if failure == nil {
		r.FinalResponse = &workflow.Message{Role: string(model.RoleAssistant), Content: answer}
		return r
	}

	r.Status, r.ErrorMessage = workflow.Error, &failure.Message
	if failure.Kind == outOfTurns {
		r.Status = workflow.MaxIterations
	}
	return r
}
