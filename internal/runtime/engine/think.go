package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/record"
)

// Thinking is what a step asks a model in a cycle.
type Thinking struct {
	Model    Model
	Messages []model.Message
	Tools    *tool.Set // that the model may call; nil: none
	Policies tool.Rules
	// WaitTimeout bounds waits for humans whose policies do not. 0: they have no end.
	WaitTimeout time.Duration
	// Artifacts puts what the calls produce on record, with their ends.
	Artifacts bool
	// InOrder says that the calls are made one after the other. One that waits keeps those after it from
	// being made.
	InOrder bool
	// Refuse returns why one of several calls is not made; empty: it is. nil refuses none.
	Refuse func(call model.ToolCall, of int) string
	// Approved says that a human approved all calls before, so that none waits for an approval but those that who started
	// the run may not approve.
	Approved bool
	// ResponseSchema, Temperature and MaxTokens are as in [model.Request].
	ResponseSchema json.RawMessage
	Temperature    *float64
	MaxTokens      int64
	// Undecided says that a call whose outcome is unknown returns an [UndecidedError], unless its policy says what
	// follows: the code that makes the call decides.
	Undecided bool
	// NotMade says why no call of the answer is made; empty: they are.
	NotMade string
	// AnswerTool is the tool whose argument message is what the agent answers, as a text. Watchers see it while it
	// arrives. Empty: there is none.
	AnswerTool string
}

// by returns what the model is asked that is, and how. One that answers in place of the first has its own settings,
// unless the agent has others than the first.
func (t Thinking) by(c *candidates) Thinking {
	if t.Model = c.model(); c.at == 0 {
		return t
	}

	parts := c.run.parts
	own, first := parts.ModelDefinition(t.Model.Configured), parts.ModelDefinition(c.models[0].Configured)
	if t.MaxTokens = own.MaxTokens; reflect.DeepEqual(t.Temperature, first.Temperature) {
		t.Temperature = own.Temperature
	}
	return t
}

// TellCut returns what a model is told whose answer was cut.
func (t Thinking) TellCut() model.Message {
	return model.User("Your answer was cut at " + limitOfTokens(t.MaxTokens) +
		". Answer in fewer words, or do less at once.")
}

// notMade returns why the calls of an answer are not made; empty: they are.
func (t Thinking) notMade(refused *RunError) string {
	switch {
	case refused != nil:
		return "The answer of the model ended before this call was made."
	case t.NotMade != "":
		return t.NotMade
	case t.Tools == nil:
		return "No tool was offered, so this call was not made."
	}
	return ""
}

// Whole returns the text of an answer, or the failure of one that was cut.
func (t Thinking) Whole(answer *model.Response) (string, error) {
	if answer.Finish == model.FinishLength {
		return "", cutError(1, t.MaxTokens)
	}
	return answer.Message.Text(), nil
}

// Prompt asks a model of the configuration in a cycle of the step, see [Step.Think], and returns the text of its
// answer, or the failure of one that was cut.
func (s *Step) Prompt(ctx context.Context, seq int64, of define.DefinitionModel, t Thinking) (text string, err error) {
	if t.Model, err = s.run.Model(of.Name); err != nil {
		return "", err
	}
	if t.MaxTokens = of.MaxTokens; t.Temperature == nil {
		t.Temperature = of.Temperature
	}

	answer, err := s.Think(ctx, seq, t)
	if err != nil {
		return "", err
	}
	return t.Whole(answer)
}

// Think asks the model of a cycle, or returns what it said before. The calls of the answer are on record
// when it returns, see [Step.Act]. Errors of the model that may pass are tried again, and each try is on
// record as an attempt.
func (s *Step) Think(ctx context.Context, seq int64, t Thinking) (*model.Response, error) {
	s.mu.Lock()
	c := s.cycles[seq]
	s.mu.Unlock()
	if err := s.tellAgain(c, t.Messages); err != nil {
		return nil, err
	}
	if c != nil && c.record.ThinkEndTime != nil && c.record.Message != nil {
		s.mu.Lock()
		s.last = s.withMessages(seq, t.Messages)
		s.mu.Unlock()
		return unlessRefused(s.answered(&c.record))
	}

	if c != nil && *c.record.State == record.Failed && c.record.ErrorKind != nil &&
		!(&model.Error{Kind: model.Kind(*c.record.ErrorKind)}).Retryable() {
		return nil, modelFailed(*c.record.ErrorKind, optional.Value(c.record.ErrorMessage))
	}

	if err := s.run.boundary(ctx); err != nil {
		return nil, err
	}
	if err := s.run.mayAsk(t.Model.Provider(), t.Model.Name()); err != nil {
		return nil, err
	}
	if err := s.mayThink(ctx, c == nil); err != nil {
		return nil, err
	}

	asked := s.run.candidates(t.Model)
	if err := asked.next(ctx); err != nil {
		return nil, err
	}

	done, err := s.run.clock.work()
	defer done()
	if err != nil {
		return nil, err
	}
	return s.think(ctx, seq, c, t, asked)
}

// unlessRefused returns an answer, or the failure of a step whose model refused to give one.
func unlessRefused(r *model.Response, err error) (*model.Response, error) {
	if err != nil {
		return nil, err
	}
	if refused := refusalOf(r); refused != nil {
		return nil, refused
	}
	return r, nil
}

// mayThink checks the limits of the run.
func (s *Step) mayThink(ctx context.Context, fresh bool) error {
	if fresh {
		s.run.count(1, 0)
	}
	err := s.run.used(ctx)
	if err != nil && fresh {
		s.run.count(-1, 0)
	}
	return err
}

// answered returns the answer of a cycle that is on record.
func (s *Step) answered(c *record.ThinkAct) (*model.Response, error) {
	answer, err := RecordedAnswer(c)
	if err != nil {
		return nil, s.run.mismatch(s.at(c.Seq), "%v", err)
	}
	return answer, nil
}

// at returns the address of a cycle.
func (s *Step) at(seq int64) string { return fmt.Sprintf("cycle:%s/%d", s.id, seq) }

// RecordedAnswer returns the answer of a model that is on record.
func RecordedAnswer(c *record.ThinkAct) (*model.Response, error) {
	r := &model.Response{
		ID: optional.Value(c.ResponseID), Model: optional.Value(c.ModelName),
		Finish: model.Finish(optional.Value(c.FinishReason)),
		Usage: model.Usage{
			Input: c.InputTokens, Output: c.OutputTokens, Reasoning: c.ReasoningTokens, CacheRead: c.CacheReadInputTokens,
			CacheWrite: c.CacheCreationInputTokens, CacheWrite1h: c.CacheCreation1hInputTokens,
		},
	}
	if err := json.Unmarshal(c.Message, &r.Message); err != nil {
		return nil, fmt.Errorf("the message of cycle %d cannot be read: %w", c.Seq+1, err)
	}
	return r, nil
}

func (s *Step) think(
	ctx context.Context, seq int64, c *cycle, t Thinking, asked *candidates,
) (*model.Response, error) {
	r := s.run
	row := func(attempt int64) *record.ThinkAct {
		return &record.ThinkAct{RootPlanID: r.run.RootPlanID, StepID: s.id, Seq: seq, Attempt: &attempt}
	}
	req := model.Request{ResponseSchema: t.ResponseSchema}
	said := t.Messages
	if t.Tools != nil {
		for _, each := range t.Tools.Tools() {
			spec := each.Spec()
			req.Tools = append(req.Tools, model.ToolSpec{Name: spec.Name, Description: spec.Description, Schema: spec.Schema})
		}
	}

	attempt := int64(1)
	var changes []record.Change
	if c != nil { // it began before, and the worker was lost, or stopped
		attempt = max(optional.Value(c.record.Attempt), 1)
		if c.record.ThinkStartTime != nil {
			lost := row(attempt)
			lost.State = new(record.Unknown)
			lost.ErrorKind, lost.ErrorMessage = new(workerLost), new("The worker that asked was lost.")
			if !c.record.State.Terminal() {
				changes = append(changes, lost)
			}
			attempt++
			s.resetLive(seq, attempt)
		}
	}

	for first := true; ; first = false {
		t := t.by(asked)
		req.Messages = asked.heard(t.Messages)
		req.Temperature, req.MaxTokens = t.Temperature, t.MaxTokens
		end, err := r.modelTurn(ctx, t.Model, req)
		if err != nil {
			return nil, err
		}

		begin := row(attempt)
		begin.State, begin.ThinkStartTime = new(record.Running), new(asked.begin())
		begin.Provider, begin.ModelName = optional.Pointer(t.Model.Provider()), optional.Pointer(t.Model.Name())
		begin.FallbackFrom = asked.fallbackFrom(c)
		if first {
			s.mu.Lock()
			begin.ThinkInput, begin.InputCharCount = s.recordedInput(s.withMessages(seq, said))
			changes = append(s.endCycles(), changes...)
			s.mu.Unlock()
		}

		if t.Messages, err = s.beginAsking(begin, said, append(changes, s.taken(seq))...); err != nil {
			end(nil)
			return nil, err
		}
		changes = nil

		req.Messages = asked.heard(t.Messages)
		response, firstToken, err := s.generate(ctx, t, req, seq, attempt)
		end(response)
		if errors.Is(err, errInterrupted) { // it is asked again at once
			r.addLater(interrupted(row(attempt), r.now()))
			attempt++
			s.resetLive(seq, attempt)
			asked.tries--
			continue
		}

		asked.noteAnswer(ctx, err)
		if err == nil {
			response.Message.Model = asked.saidBy()
			asked.fellBack()
			return s.keep(row(attempt), response, firstToken, t)
		}
		if err := cmp.Or(context.Cause(ctx), r.offRecord(s.at(seq), err)); err != nil {
			return nil, err
		}

		failed, next := row(attempt), row(attempt+1)
		failed.State, failed.ThinkEndTime = new(record.Failed), new(s.run.now())
		failed.ErrorKind, failed.ErrorMessage = new(modelErrorKind(err)), new(r.redact(err.Error()))
		if err := s.asksAgain(ctx, asked, failed, next, err); err != nil {
			return nil, err
		}
		attempt++
	}
}

// asksAgain puts on record that the model of a cycle failed, and waits until one is asked in its next attempt: the
// same, or the next one that may answer. The error says why none is.
func (s *Step) asksAgain(ctx context.Context, asked *candidates, failed, next *record.ThinkAct, why error) error {
	kind, message := *failed.ErrorKind, *failed.ErrorMessage
	if passes(kind) {
		if err := s.run.write([]record.Change{failed}); err != nil {
			return err
		}
		s.resetLive(next.Seq, *next.Attempt)
		if again, err := asked.again(ctx, why); again || err != nil {
			return err
		}
		return asked.passOver(ctx, kind, message)
	}

	none := modelFailed(kind, message)
	if fallsBack(kind) && len(asked.models) > 1 {
		none = asked.passOver(ctx, kind, message)
	}

	changes := []record.Change{failed}
	if _, ends := errors.AsType[*RunError](none); !ends { // on record alone, the failure would end the cycle
		next.State = new(record.Pending)
		changes = append(changes, next)
		s.resetLive(next.Seq, *next.Attempt)
	}
	if err := s.run.write(changes); err != nil {
		return err
	}
	return none
}

// taken returns the row of the step that has begun a cycle.
func (s *Step) taken(seq int64) *record.AgentExecution {
	row := s.row()
	row.CurrentStep = new(seq + 1)
	return row
}

// workerLost is the error kind of what a worker began that was lost.
const workerLost = "worker_lost"

// asking returns the context in which the model of a cycle is asked.
func (s *Step) asking(ctx context.Context, seq int64) context.Context {
	return context.WithValue(ctx, askedKey{}, Asked{StepID: s.id, Agent: s.info.Agent, Seq: seq})
}

func (s *Step) generate(
	ctx context.Context, t Thinking, req model.Request, seq, attempt int64,
) (*model.Response, *time.Time, error) {
	var first *time.Time
	live := s.newLive(seq, attempt)
	defer live.stop()
	ctx, heard := s.run.hearing.listen(ctx, s.id)

	began := time.Now()
	response, err := t.Model.Generate(s.asking(ctx, seq), req, func(d model.Delta) {
		if d.Text == "" {
			if d.Tool != "" && d.Tool == t.AnswerTool { // what others are called with is shown when it is on record
				live.answer.add(live.message.add(d.Arguments))
			}
			return
		}

		if first == nil {
			first = new(s.run.now())
		}
		live.text.add(d.Text)
	})
	if err == nil {
		live.end()
	}
	s.run.engine.metrics.asked(t.Model.Name(), time.Since(began), err)
	return response, first, heard(err)
}

// keep puts an answer on record, and the calls that it asks for. One that cannot be kept, or in which the model
// refused, fails the cycle.
func (s *Step) keep(
	row *record.ThinkAct, response *model.Response, first *time.Time, t Thinking,
) (*model.Response, error) {
	s.clean(&response.Message)
	message, err := json.Marshal(response.Message)
	if err != nil {
		return nil, fmt.Errorf("encode the message of a model: %w", err)
	}

	response.Finish = model.FinishOf(string(response.Finish))
	usage := response.Usage
	row.ThinkEndTime, row.FirstTokenTime = new(s.run.now()), first
	row.FinishReason, row.ResponseID = optional.Pointer(string(response.Finish)), optional.Pointer(response.ID)
	row.ModelName = optional.Pointer(response.Model)
	if row.ModelName != nil { // a price is for a provider's model
		row.Provider = optional.Pointer(t.Model.Provider())
	}

	row.InputTokens, row.OutputTokens = usage.Input, usage.Output
	row.CacheReadInputTokens, row.ReasoningTokens = usage.CacheRead, usage.Reasoning
	row.CacheCreationInputTokens, row.CacheCreation1hInputTokens = usage.CacheWrite, usage.CacheWrite1h

	if len(message) > record.MaxTextBytes {
		why := fmt.Sprintf("Its answer has %d bytes, more than can be kept.", len(message))
		row.State = new(record.Failed)
		row.ErrorKind, row.ErrorMessage = new(modelError), &why
		s.run.addResult(row)
		return nil, modelFailed(modelError, why)
	}

	row.Message, row.ThinkOutput = message, new(response.Message.Text())
	refused := refusalOf(response)
	if refused != nil {
		row.State = new(record.Failed)
		row.ErrorKind, row.ErrorMessage = &refused.Kind, &refused.Message
	}

	kept, changes := s.newCycle(row, response.Message.Calls(), t, t.notMade(refused))
	s.run.addResult(changes...)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.cycles[row.Seq], s.last = kept, t.Messages
	switch {
	case refused != nil:
		return nil, refused
	case row.ModelName == nil:
		return response, nil
	}
	return response, s.run.mayAsk(t.Model.Provider(), *row.ModelName) // it may be another one that answered
}

// begin puts a cycle on record in which no model is asked, unless the cycle is there.
func (s *Step) begin(seq int64, calls []model.ToolCall, t Thinking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cycles[seq] != nil {
		return
	}

	kept, changes := s.newCycle(&record.ThinkAct{
		RootPlanID: s.run.run.RootPlanID, StepID: s.id, Seq: seq, Attempt: new(int64(1)),
	}, calls, t, "")
	s.run.addLater(append(append(s.endCycles(), changes...), s.taken(seq))...)
	s.cycles[seq] = kept
}

// newCycle returns a cycle that has calls, and the changes that put it on record. It has ended if it has no calls, or
// if notMade says why they are not made.
func (s *Step) newCycle(
	row *record.ThinkAct, calls []model.ToolCall, t Thinking, notMade string,
) (*cycle, []record.Change) {
	kept := &cycle{
		calls: map[string]*record.ActTool{}, past: map[string][]record.Attempt{},
		endWritten: len(calls) == 0 || notMade != "",
	}
	changes := []record.Change{row}
	names, skipped := make([]string, len(calls)), make([]string, len(calls))
	for i, call := range calls {
		c := s.newCall(row.Seq, i, call, t)
		s.replaceCall(row.Seq, c, kept)
		kept.calls[c.ToolCallID], names[i] = c, call.Name
		if notMade != "" {
			c.State, c.EndTime = new(record.Skipped), row.ThinkEndTime
			c.Result = &notMade
			skipped[i] = call.Name + ": " + notMade
		}
		changes = append(changes, new(*c)) // the call goes on before they are written
	}

	if len(calls) > 0 {
		row.ActionDescription = new("Call " + strings.Join(names, ", "))
	}
	if len(calls) > 0 && notMade != "" {
		row.ActionResult = new(strings.Join(skipped, "\n"))
	}

	switch {
	case row.State != nil:
	case kept.endWritten:
		row.State = new(record.Completed)
	default:
		row.State = new(record.Running)
	}
	kept.record = *row
	return kept, changes
}

// replaceCall makes a call another attempt of that in its place, if there was one: its model is asked again. The caller
// holds s.mu, or is alone.
func (s *Step) replaceCall(seq int64, call *record.ActTool, kept *cycle) {
	c := s.cycles[seq]
	if c == nil || c.calls[call.ToolCallID] == nil {
		return
	}
	was := c.calls[call.ToolCallID]
	call.Attempt, call.Result = new(max(optional.Value(was.Attempt), 1)+1), new("")
	kept.past[call.ToolCallID] = append(slices.Clone(c.past[call.ToolCallID]), record.Attempt{
		Number: *call.Attempt - 1, State: *was.State, StartTime: was.StartTime, EndTime: was.EndTime,
		ErrorKind: was.ErrorKind, ErrorMessage: was.ErrorMessage,
	})
}

// clean redacts a message of the model, and puts the arguments of its calls into their one form: before, so that
// no escape hides what is redacted, and after. Its provider's form is dropped if that changed something:
// providers refuse a message whose signature does not fit.
func (s *Step) clean(m *model.Message) {
	changed := false
	clean := func(text *string) {
		if cleaned := s.run.redact(*text); cleaned != *text {
			*text, changed = cleaned, true
		}
	}

	m.Parts = slices.Clone(m.Parts)
	for i := range m.Parts {
		clean(&m.Parts[i].Text)
		if call := m.Parts[i].Call; call != nil {
			copied := *call
			clean(&copied.Name)
			copied.Arguments, _ = canonical(copied.Arguments)
			clean(&copied.Arguments)
			copied.Arguments, _ = canonical(copied.Arguments)
			m.Parts[i].Call = &copied
		}
	}

	if changed || len(m.Raw) > 0 && s.run.redact(string(m.Raw)) != string(m.Raw) {
		m.Provider, m.Raw = "", nil
	}
}

// newCall returns a call that the model asks for, as it is put on record before it begins.
func (s *Step) newCall(seq int64, index int, call model.ToolCall, t Thinking) *record.ActTool {
	parameters := s.run.recorded(call.Arguments)
	c := &record.ActTool{
		RootPlanID: s.run.run.RootPlanID, StepID: s.id, Seq: seq, ToolCallID: derive("toolcall-", s.id, seq, index),
		CallIndex:      new(int64(index)),
		ProviderCallID: optional.Pointer(call.ID), Name: &call.Name, Parameters: &parameters, State: new(record.Pending),
	}

	if t.Tools == nil {
		return c
	}
	if known, ok := t.Tools.Get(call.Name); ok {
		spec := known.Spec()
		c.ServerName = optional.Pointer(spec.Server)
		c.Policy, _ = json.Marshal(t.policy(spec)) // texts, times and booleans
	}
	return c
}

// policy returns what holds for the calls of a tool.
func (t Thinking) policy(s tool.Spec) tool.Policy {
	p := t.Policies.Of(s)
	if p.WaitTimeout == 0 {
		p.WaitTimeout = t.WaitTimeout
	}
	// Who approved all of them may be who started the run, and has not seen what an untrusted server is sent.
	p.Approval = p.Approval && (!t.Approved || p.NotStarter || s.Untrusted)
	return p
}
