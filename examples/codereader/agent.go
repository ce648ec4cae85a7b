// Package codereader is an example of an agent that Actlog records. It explores a folder of code
// with tools and sub-agents and answers a question about it.
package codereader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/actlog/actlog/recorder"
)

// ErrNoAnswer means that the model neither answered nor called a tool.
var ErrNoAnswer = errors.New("the model gave no answer")

// Options limits an agent. A zero value means the default.
type Options struct {
	MaxSteps    int // rounds with tools in a run, before the last round without; default 30
	MaxDepth    int // levels of sub-agents below the root run; default 3
	MaxParallel int // tool calls of one turn that run at the same time; default 4

	// Recorder records every run. A run that cannot be recorded stops. Default: record
	// nothing.
	Recorder *recorder.Recorder
}

// Agent answers questions about a folder. It keeps no state between runs and is safe for
// concurrent use.
type Agent struct {
	model   *Model
	folder  *Folder
	options Options
}

// New returns an agent that reads folder and asks model. options may be nil.
func New(model *Model, folder *Folder, options *Options) *Agent {
	a := &Agent{model: model, folder: folder}
	if options != nil {
		a.options = *options
	}
	a.options.MaxSteps = cmp.Or(max(0, a.options.MaxSteps), 30)
	a.options.MaxDepth = cmp.Or(max(0, a.options.MaxDepth), 3)
	a.options.MaxParallel = cmp.Or(max(0, a.options.MaxParallel), 4)
	if a.options.Recorder == nil {
		a.options.Recorder = recorder.New(recorder.Discard, recorder.Options{})
	}
	return a
}

// Run answers a question. The run is recorded as the plan with the given id, or with a new id if
// planID is "". The error wraps an *APIError if the API of the model rejected the call,
// ErrNoAnswer, or the cause of the end of ctx.
func (a *Agent) Run(ctx context.Context, planID, question string) (string, error) {
	return a.run(ctx, planID, "code reader", readerPrompt, question, 0)
}

// run runs an agent and records it as a plan with one step. Depth 0 is the run of the user; the
// others are sub-agents. If ctx is that of a tool call, the plan is a sub-plan of that call.
func (a *Agent) run(ctx context.Context, planID, name, prompt, question string, depth int) (string, error) {
	ctx, plan, err := a.options.Recorder.StartPlan(ctx, recorder.PlanInfo{
		ID: planID, Name: name, Title: question, UserRequest: question, Model: a.model.Name(),
	})
	defer plan.Close(ctx)
	if err != nil {
		return "", plan.Fail(ctx, err)
	}
	ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{
		AgentName: name, AgentDescription: prompt, AgentRequest: question, Model: a.model.Name(), MaxSteps: int64(a.options.MaxSteps) + 1,
	})
	defer step.Close(ctx)
	if err != nil {
		return "", plan.Fail(ctx, err)
	}
	answer, err := a.converse(ctx, step, prompt, question, depth)
	return answer, errors.Join(err,
		step.End(ctx, recorder.StepResult{Result: answer, Err: err}),
		plan.End(ctx, recorder.PlanResult{Summary: answer, Err: err}))
}

// converse repeats cycles until the model answers.
func (a *Agent) converse(ctx context.Context, step *recorder.Step, prompt, question string, depth int) (string, error) {
	c := &conversation{
		agent:    a,
		step:     step,
		tools:    a.tools(depth),
		messages: []Message{{Role: "system", Content: prompt}, {Role: "user", Content: question}},
	}
	for range a.options.MaxSteps {
		answer, err := c.cycle(ctx)
		if answer != "" || err != nil {
			return answer, err
		}
	}
	// Without tools the model can only answer.
	c.tools = nil
	c.messages = append(c.messages, Message{Role: "user", Content: lastRoundPrompt(a.options.MaxSteps)})
	answer, err := c.cycle(ctx)
	if answer == "" && err == nil {
		err = ErrNoAnswer
	}
	return answer, err
}

// conversation is the state of one run.
type conversation struct {
	agent    *Agent
	step     *recorder.Step
	tools    []tool
	messages []Message
	calls    int // tool calls so far
}

// cycle makes one model call and the tool calls that the model wants. If the model calls no
// tool, cycle returns its answer.
func (c *conversation) cycle(ctx context.Context) (answer string, err error) {
	input, err := json.Marshal(c.messages)
	if err != nil {
		return "", fmt.Errorf("encode the conversation: %w", err)
	}
	cycle, err := c.step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: string(input), Provider: "openai", Model: c.agent.model.Name()})
	if err != nil {
		return "", cycle.Fail(ctx, err)
	}
	defer cycle.Close(ctx)
	resp, err := c.think(ctx)
	if err != nil {
		return "", cycle.Fail(ctx, err)
	}
	reply := &resp.Choices[0].Message
	if len(c.tools) == 0 {
		reply.ToolCalls = nil // the model may call tools although it was offered none
	}
	if err := cycle.EndThink(ctx, thinkResult(resp)); err != nil {
		return "", cycle.Fail(ctx, err)
	}
	if len(reply.ToolCalls) == 0 {
		if strings.TrimSpace(reply.Content) == "" {
			return "", cycle.Fail(ctx, ErrNoAnswer)
		}
		return reply.Content, cycle.End(ctx, recorder.CycleResult{})
	}
	results, err := c.act(ctx, cycle.Tools(), reply.ToolCalls)
	if ctx.Err() != nil {
		err = errors.Join(err, fmt.Errorf("call tools: %w", context.Cause(ctx)))
	}
	if err != nil {
		return "", cycle.Fail(ctx, err)
	}
	c.messages = append(append(c.messages, *reply), results...)
	return "", cycle.End(ctx, recorder.CycleResult{})
}

// thinkResult returns the record of an answer of the model.
func thinkResult(resp *ChatResponse) recorder.ThinkResult {
	reply, usage := resp.Choices[0].Message, resp.Usage
	result := recorder.ThinkResult{
		Output:               reply.Content,
		FinishReason:         resp.Choices[0].FinishReason,
		Model:                resp.Model,
		InputTokens:          int64(usage.PromptTokens),
		OutputTokens:         int64(usage.CompletionTokens),
		CacheReadInputTokens: int64(usage.PromptTokensDetails.CachedTokens),
		ReasoningTokens:      int64(usage.CompletionTokensDetails.ReasoningTokens),
	}
	for _, call := range reply.ToolCalls {
		result.Tools = append(result.Tools, recorder.ToolInfo{
			ProviderCallID: call.ID, Name: call.Function.Name, Parameters: call.Function.Arguments,
		})
	}
	return result
}

// think makes the model call of a cycle. Every tool call in the response has an id.
func (c *conversation) think(ctx context.Context) (*ChatResponse, error) {
	req := ChatRequest{Messages: c.messages}
	for _, t := range c.tools {
		req.Tools = append(req.Tools, t.definition())
	}
	resp, err := c.agent.model.Chat(ctx, req)
	if err != nil {
		return nil, err
	}
	reply := &resp.Choices[0].Message
	reply.Role = "assistant"
	for i := range reply.ToolCalls {
		call := &reply.ToolCalls[i]
		c.calls++
		if call.ID == "" { // some compatible APIs send no id, but the result needs one
			call.ID = fmt.Sprintf("call_%d", c.calls)
		}
		call.Type = "function"
	}
	return resp, nil
}

// act runs the tool calls of a turn, at most MaxParallel at the same time. It returns the results
// in the order of the calls. The error of a tool is part of the results, for the model. act
// returns only errors of the recorder.
func (c *conversation) act(ctx context.Context, recorded []*recorder.ToolCall, calls []ToolCall) ([]Message, error) {
	results := make([]Message, len(calls))
	errs := make([]error, len(calls))
	slots := make(chan struct{}, c.agent.options.MaxParallel)
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, err := recorded[i].Start(ctx)
			if err != nil {
				errs[i] = recorded[i].Fail(ctx, err)
				return
			}
			defer recorded[i].Close(ctx)
			result, err := c.call(ctx, call.Function)
			errs[i] = recorded[i].End(ctx, recorder.ToolResult{Result: result, Err: err})
			if err != nil {
				result = "error: " + err.Error() // the model decides what to do
			}
			results[i] = Message{Role: "tool", ToolCallID: call.ID, Content: result}
		})
	}
	wg.Wait()
	return results, errors.Join(errs...)
}

// call runs one tool call.
func (c *conversation) call(ctx context.Context, call FunctionCall) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var names []string
	for _, t := range c.tools {
		if t.name == call.Name {
			return t.call(ctx, call.Arguments)
		}
		names = append(names, t.name)
	}
	return "", fmt.Errorf("unknown tool %q; there are %s", call.Name, strings.Join(names, ", "))
}
