// Package codereader is an agent that explores a folder of code with tools and
// sub-agents and answers a question about it: the example that Actlog records.
package codereader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/actlog/actlog/recorder"
)

// ErrNoAnswer is what a run ends with when the model neither answers nor calls a tool.
var ErrNoAnswer = errors.New("the model gave no answer")

// Options bounds an agent; zero values stand for the defaults.
type Options struct {
	MaxSteps    int // rounds with tools in a run, before the final one without; 30
	MaxDepth    int // how deep sub-agents may nest below the root run; 3
	MaxParallel int // tool calls of one turn that run at the same time; 4

	// Recorder puts every run on record. A run that cannot be recorded does not go
	// on. Default: nothing is recorded.
	Recorder *recorder.Recorder
}

// Agent answers questions about a folder. It keeps nothing between runs and is
// safe for concurrent use.
type Agent struct {
	model   *Model
	folder  *Folder
	options Options
}

// New returns an agent that reads folder and thinks with model. options may be nil.
func New(model *Model, folder *Folder, options *Options) *Agent {
	a := &Agent{model: model, folder: folder}
	if options != nil {
		a.options = *options
	}
	if a.options.MaxSteps <= 0 {
		a.options.MaxSteps = 30
	}
	if a.options.MaxDepth <= 0 {
		a.options.MaxDepth = 3
	}
	if a.options.MaxParallel <= 0 {
		a.options.MaxParallel = 4
	}
	if a.options.Recorder == nil {
		a.options.Recorder = recorder.New(recorder.Discard, recorder.Options{})
	}
	return a
}

// Run answers a question, as the plan of the given id; "" makes a new one. The
// error wraps an *APIError when the model's API refused, ErrNoAnswer, or the
// cause of ctx's end.
func (a *Agent) Run(ctx context.Context, planID, question string) (string, error) {
	return a.run(ctx, planID, "code reader", readerPrompt, question, 0)
}

// run is one run of an agent, at depth 0 the user's and below it a sub-agent's:
// a plan of one step. Below a tool call, whose context it is given, it is the
// sub-plan of that call.
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

// converse goes rounds of thinking and acting until the model answers.
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
	// Without tools the model has no choice but to answer.
	c.tools = nil
	c.messages = append(c.messages, Message{Role: "user", Content: lastRoundPrompt(a.options.MaxSteps)})
	answer, err := c.cycle(ctx)
	if answer == "" && err == nil {
		err = ErrNoAnswer
	}
	return answer, err
}

// conversation is what one run has said and seen so far.
type conversation struct {
	agent    *Agent
	step     *recorder.Step
	tools    []tool
	messages []Message
	calls    int // tool calls so far
}

// cycle is one round: one model call and the tool calls it asks for. It gives
// the answer when the model calls no tool.
func (c *conversation) cycle(ctx context.Context) (answer string, err error) {
	input, err := json.Marshal(c.messages)
	if err != nil {
		return "", fmt.Errorf("writing down the conversation: %w", err)
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
		reply.ToolCalls = nil // asked for all the same, but there are none
	}
	if err := cycle.EndThink(ctx, thought(resp)); err != nil {
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
		err = errors.Join(err, fmt.Errorf("calling tools: %w", context.Cause(ctx)))
	}
	if err != nil {
		return "", cycle.Fail(ctx, err)
	}
	c.messages = append(append(c.messages, *reply), results...)
	return "", cycle.End(ctx, recorder.CycleResult{})
}

// thought is what is recorded of a model's answer.
func thought(resp *ChatResponse) recorder.ThinkResult {
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

// think makes the model call of a round. Every tool call in the response has an id.
func (c *conversation) think(ctx context.Context) (*ChatResponse, error) {
	req := ChatRequest{Messages: c.messages}
	for _, t := range c.tools {
		req.Tools = append(req.Tools, ToolDef{Type: "function", Function: t.def})
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
		if call.ID == "" { // some compatible APIs give none, and the results need one
			call.ID = fmt.Sprintf("call_%d", c.calls)
		}
		call.Type = "function"
	}
	return resp, nil
}

// act runs the tool calls of a turn at the same time, no more than MaxParallel
// of them, and gives their results in the order of the calls. The error is one of
// recording; those of tools are for the model to read.
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
				result = "error: " + err.Error() // the model decides how to go on
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
		if t.def.Name == call.Name {
			return t.use(ctx, call.Arguments)
		}
		names = append(names, t.def.Name)
	}
	return "", fmt.Errorf("unknown tool %q; there are %s", call.Name, strings.Join(names, ", "))
}
