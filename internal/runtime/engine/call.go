package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Act makes the calls that the model asked for in a cycle, several at once unless their policies or
// [Thinking.InOrder] forbid it, or returns their results from before. A call that waits, for a human or for
// a sub-plan, does not keep the others from being made: then the error says that the run waits. Without a
// [Step.Think] in the cycle, the executor itself asks for the calls.
func (s *Step) Act(ctx context.Context, seq int64, calls []model.ToolCall, t Thinking) ([]tool.Result, error) {
	s.begin(seq, calls, t)
	results, errs := make([]tool.Result, len(calls)), make([]error, len(calls))
	var together sync.WaitGroup
	var all, alone []*calling
	for i, call := range calls {
		one := &calling{step: s, seq: seq, index: i, of: len(calls), call: call, t: t}
		all = append(all, one)
		if err := one.find(); err != nil {
			return nil, err
		}
	}

	for i, one := range all {
		if len(calls) == 1 || t.InOrder || one.exclusive() {
			alone = append(alone, one)
			continue
		}
		together.Go(func() { results[i], errs[i] = one.make(ctx) })
	}

	together.Wait()
	for _, one := range alone {
		results[one.index], errs[one.index] = one.make(ctx)
		if t.InOrder && errs[one.index] != nil {
			break
		}
	}
	return results, Worst(errs...)
}

// ResultsMessage returns the message that tells the model what came of the calls that it asked for.
func ResultsMessage(calls []model.ToolCall, results []tool.Result) model.Message {
	out := make([]model.ToolResult, len(calls))
	for i, r := range results {
		out[i] = model.ToolResult{CallID: calls[i].ID, Name: calls[i].Name, Text: r.Text, Failed: r.Failed}
	}
	return model.Results(out...)
}

// Waits reports whether an error of a handle says that the run waits, for a human, an event, a time or another run.
func Waits(err error) bool {
	_, ok := errors.AsType[*parkedError](err)
	return ok
}

// Worst returns the error to act on of work that was done side by side: any but that the run waits, else that it
// waits, until the earliest of its times.
func Worst(errs ...error) error {
	var waits *parkedError
	waiting, models := true, map[string]runstore.ModelWait{}
	for _, err := range errs {
		var parked *parkedError
		switch {
		case err == nil:
		case !errors.As(err, &parked):
			return err
		default:
			waiting = waiting && parked.waiting
			maps.Copy(models, parked.models)
			if waits == nil || waits.until.IsZero() || !parked.until.IsZero() && parked.until.Before(waits.until) {
				waits = parked
			}
		}
	}

	if waits == nil {
		return nil
	}
	return &parkedError{until: waits.until, waiting: waiting, models: models}
}

// inRun is a tool that is carried by the run itself: a form, a sub-plan, a wait for an event.
type inRun interface {
	tool.Tool
	callInRun(ctx context.Context, c *calling) (tool.Result, error)
}

func (c *calling) exclusive() bool {
	if c.t.Tools == nil {
		return false
	}
	known, ok := c.t.Tools.Get(c.call.Name)
	return ok && c.t.policy(known.Spec()).Exclusive
}

// find finds the call on record, which must be the same call, and its tool.
func (c *calling) find() error {
	s := c.step
	c.call.Arguments, c.bad = canonical(c.call.Arguments)

	s.mu.Lock()
	defer s.mu.Unlock()
	cycle := s.cycles[c.seq]
	c.row = cycle.calls[derive("toolcall-", s.id, c.seq, c.index)]
	if c.row != nil {
		c.past = cycle.past[c.row.ToolCallID]
	}

	switch {
	case c.row == nil: // the executor calls it, not the model
		c.put(cycle, s.newCall(c.seq, c.index, c.call, c.t))
	case s.run.isAnew(c.row.Attempt, *c.row.State, c.row.StartTime):
		row := s.newCall(c.seq, c.index, c.call, c.t)
		row.Attempt = c.row.Attempt
		c.put(cycle, row)
	case c.row.Name == nil || *c.row.Name != c.call.Name:
		name := cmp.Or(optional.Value(c.row.Name), "a tool without a name")
		return c.mismatch("is on record as %s, not %s", name, c.call.Name)
	}

	if err := c.sameArguments(); err != nil {
		return err
	}

	if c.t.Tools != nil {
		c.tool, _ = c.t.Tools.Get(c.call.Name)
	}
	if c.row.Policy != nil { // what held when the model asked
		if err := json.Unmarshal(c.row.Policy, &c.policy); err != nil {
			return c.mismatch("has a policy that cannot be read: %v", err)
		}
	} else if c.tool != nil { // the tool was not there when the model asked
		c.policy = c.t.policy(c.tool.Spec())
		c.row.Policy, _ = json.Marshal(c.policy) // texts, times and booleans
		s.run.addLater(&record.ActTool{
			RootPlanID: c.row.RootPlanID, StepID: c.row.StepID, Seq: c.row.Seq, ToolCallID: c.row.ToolCallID,
			Policy: c.row.Policy,
		})
	}
	return nil
}

// put adds the call to its cycle, and to the next write. The caller holds the lock of the step.
func (c *calling) put(to *cycle, row *record.ActTool) {
	c.row = row
	to.calls[row.ToolCallID], to.endWritten = row, false
	c.step.run.addLater(new(*row))
}

// make makes the call, goes on with it, or returns its result.
func (c *calling) make(ctx context.Context) (tool.Result, error) {
	if c.over() {
		return resultOf(c.row), nil
	}
	if err := c.step.run.boundary(ctx); err != nil {
		return tool.Result{}, err
	}
	if c.isUndecided() {
		if result, done, err := c.decided(ctx); done || err != nil {
			return result, err
		}
	}

	if !c.begun() && c.isCut() {
		return c.recordEnd(record.Failed, tool.Failure(callCut(c.t.MaxTokens)), CutOff), nil
	}
	if c.t.Refuse != nil {
		if why := c.t.Refuse(c.call, c.of); why != "" {
			return c.recordEnd(record.Failed, tool.Failure(why), Refused), nil
		}
	}
	if c.tool == nil {
		why := fmt.Sprintf("There is no tool %s. There are: %s.", c.call.Name, c.names())
		return c.recordEnd(record.Failed, tool.Failure(why), NoSuchTool), nil
	}

	if !c.begun() { // nobody is asked to approve what is not made
		bad := c.bad
		if bad == nil {
			bad = tool.CheckArguments(c.tool, json.RawMessage(c.call.Arguments))
		}
		if bad != nil {
			return c.recordEnd(record.Failed, tool.BadArguments(bad), "tool"), nil
		}
		c.checked = true
	}

	if !c.begun() {
		c.step.run.count(0, 1)
		if err := c.step.run.used(ctx); err != nil {
			c.step.run.count(0, -1)
			return tool.Result{}, err
		}
	}

	if own, ok := c.tool.(inRun); ok {
		return own.callInRun(ctx, c)
	}
	return c.attempt(ctx)
}

// attempt makes the call, again and again as its policy says.
func (c *calling) attempt(ctx context.Context) (result tool.Result, err error) {
	for {
		if *c.row.State == record.Running || *c.row.State == record.Unknown {
			if result, done, err := c.unknown(ctx); done || err != nil {
				return result, err
			}
		}
		if err := c.rest(ctx); err != nil {
			return tool.Result{}, err
		}
		if c.policy.Approval {
			if result, refused, err := c.approve(ctx); refused || err != nil {
				return result, err
			}
		}

		if result, err = c.execute(ctx); err != nil || c.over() {
			return result, err
		}
	}
}

// isCut reports whether the arguments of the call are incomplete because the answer was cut. The last call has none
// if they had not begun.
func (c *calling) isCut() bool {
	s := c.step
	s.mu.Lock()
	defer s.mu.Unlock()
	if optional.Value(s.cycles[c.seq].record.FinishReason) != string(model.FinishLength) {
		return false
	}

	last := c.index == c.of-1
	return isIncomplete(c.call.Arguments) || last && c.call.Arguments == "{}"
}

// sameArguments returns an error if the call is on record with other arguments than it has now. If only their form
// differs, those of the record are sent: a human may have approved these. Bad ones that were never sent are not
// compared: the record may have changed them.
func (c *calling) sameArguments() error {
	if c.row.Parameters == nil || c.bad != nil && !c.begun() {
		return nil
	}

	r := c.step.run
	now := r.recorded(c.call.Arguments)
	known, bad := canonical(r.redact(*c.row.Parameters))
	if known == now || c.bad != nil && bad != nil {
		return nil //nolint:nilerr // neither could be sent
	}

	if c.bad == nil && bad == nil && Comparable(known) == Comparable(now) {
		if now == c.call.Arguments { // nothing in them is hidden
			c.call.Arguments = known
		}
		return nil
	}
	return c.mismatch("is on record with the arguments %s, not %s", shortText(known), shortText(now))
}

// mismatch says how the call is on record as another one.
func (c *calling) mismatch(format string, args ...any) error {
	return c.step.run.mismatch(c.at(),
		"call %d of cycle %d "+format, append([]any{c.index + 1, c.seq + 1}, args...)...)
}

// at returns the address of the call.
func (c *calling) at() string {
	return fmt.Sprintf("call:%s/%d/%s", c.step.id, c.seq, c.row.ToolCallID)
}

// The error kinds of calls that were not made: [Thinking.Refuse] gave a reason, or there is no such tool.
const (
	Refused    = "refused"
	NoSuchTool = "no_such_tool"
)

func (c *calling) names() string {
	if c.t.Tools == nil {
		return "none"
	}
	return strings.Join(c.t.Tools.Names(), ", ")
}

// maxUnknown bounds how often the outcome of a call may be unknown before it is not made again.
const maxUnknown = 5

// unknown deals with a call that had begun, and of which nobody can say how it ended. done reports that
// it is not made again.
func (c *calling) unknown(ctx context.Context) (result tool.Result, done bool, err error) {
	lost := c.change(record.Unknown)
	if lost.EndTime = c.row.EndTime; lost.EndTime == nil {
		lost.EndTime = new(c.step.run.now())
	}
	lost.ErrorKind, lost.ErrorMessage = new(workerLost), new("The worker that made the call was lost.")
	if c.row.ErrorKind != nil {
		lost.ErrorKind, lost.ErrorMessage = c.row.ErrorKind, c.row.ErrorMessage
	}

	makeAgain := func() (tool.Result, bool, error) {
		c.step.run.addLater(c.nextAttempt(lost))
		return tool.Result{}, false, nil
	}

	result, done, err = c.verified(ctx)
	if done {
		return c.endInNewAttempt(lost, record.Completed, result, ""), true, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return tool.Result{}, true, cause
	}

	twice := errors.Is(err, tool.ErrUnknown) // it could take effect a second time
	switch {
	case c.policy.OnUnknown == tool.Retry && c.attempts(record.Unknown)+1 < maxUnknown && !twice:
		return makeAgain()
	case c.policy.OnUnknown == tool.Ask:
		answer, err := c.step.run.ask(ctx, c.unknownKey(), c.unknownQuestion(), lost)
		if err != nil {
			return tool.Result{}, true, err
		}
		switch result, decided := c.obey(lost, answer); {
		case decided:
			return result, true, nil
		case answer.Decision == again:
			return makeAgain()
		}
	}

	lost.Result = new(unknownText)
	if *lost.ErrorKind == timedOut {
		lost.Result = new("The call timed out. " + unknownText)
	}
	c.keep(lost)
	c.step.run.addResult(lost)
	result, err = c.undecided(tool.Failure(*lost.Result))
	return result, true, err
}

// execute makes the call once, when the limits of its tool let it begin, while the clock of the run goes. The call
// may not be over then.
func (c *calling) execute(ctx context.Context) (tool.Result, error) {
	r := c.step.run
	end, err := c.turn(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	defer end()

	done, err := r.clock.work()
	defer done()
	if err != nil {
		return tool.Result{}, err
	}

	begin := c.change(record.Running)
	begin.StartTime = new(c.step.run.now())
	if c.row.StartTime != nil { // it waited for an answer, and goes on
		begin.StartTime = c.row.StartTime
	}
	if err := r.begin(begin); err != nil {
		return tool.Result{}, err
	}
	c.keep(begin)

	result, err := c.do(ctx)
	var parked *parkedError
	var off *OffRecordError
	switch {
	case err == nil:
		if result.Failed {
			return c.fail(ctx, result, c.failedBy(result))
		}
		return c.recordEnd(record.Completed, result, ""), nil
	case errors.As(err, &parked):
		return tool.Result{}, err
	case errors.As(err, &off):
		return tool.Result{}, r.offRecord(c.at(), off)
	case context.Cause(ctx) != nil: // it stays RUNNING: nobody can say how it ended
		return tool.Result{}, context.Cause(ctx)
	}

	kind := "unknown"
	if errors.Is(err, tool.ErrTimeout) {
		kind = timedOut
	}

	lost := c.change(record.Unknown)
	lost.StartTime, lost.EndTime = begin.StartTime, new(c.step.run.now())
	lost.ErrorKind, lost.ErrorMessage = &kind, new(r.redact(err.Error()))
	c.keep(lost)
	r.addLater(lost)
	return tool.Result{}, nil
}

// do makes the call once.
func (c *calling) do(ctx context.Context) (tool.Result, error) {
	r := c.step.run
	call := tool.Do
	if c.checked {
		call = tool.DoChecked
	}

	c.progress = c.newProgress()
	ctx = tool.ContextWithProgress(c.startedBy(ctx), c.progress.report)
	began := time.Now()
	result, err := call(ctx, c.tool, c.policy, c.toolCall(c.ask), 0)
	c.progress.end()

	r.engine.metrics.called(c.tool.Spec().Name, time.Since(began), err != nil || result.Failed)
	return result, err
}

// timedOut is the error kind of calls that took too long.
const timedOut = "timeout"

func (c *calling) failedBy(result tool.Result) string {
	switch {
	case result.TimedOut:
		return timedOut
	case c.unanswered.Load():
		return WaitTimedOut
	}
	return "tool"
}

// maxAsked bounds what is kept with a question so that its tool can go on, in bytes.
const maxAsked = 64 << 10

// ask puts a question of the tool to a human.
func (c *calling) ask(ctx context.Context, q tool.Question) (tool.Answer, error) {
	r := c.step.run
	w := questionOf(q)
	w.StepID, w.ToolCallID = c.step.id, c.row.ToolCallID
	w.Timeout = c.policy.WaitTimeout
	key := fmt.Sprint("question-", c.row.ToolCallID, "-", q.Key)

	if q.Held {
		a, err := r.hold(ctx, key, w)
		if err != nil {
			return tool.Answer{}, err
		}
		return c.answerTo(q, a)
	}

	waits := c.change(record.Waiting)
	waits.StartTime = c.row.StartTime
	if n := len(q.State); 0 < n && n <= maxAsked && r.redact(string(q.State)) == string(q.State) {
		waits.Metadata, _ = json.Marshal(map[string]json.RawMessage{"asked": q.State}) // is valid
	}

	a, err := r.ask(ctx, key, w, waits)
	if err != nil {
		if parked := new(parkedError); errors.As(err, &parked) {
			c.keep(waits)
		}
		return tool.Answer{}, err
	}
	return c.answerTo(q, a)
}

func (c *calling) answerTo(q tool.Question, a Answer) (tool.Answer, error) {
	if a.State == record.TimedOut {
		c.unanswered.Store(true)
	}
	answer, err := answerTo(q, a)
	if err != nil {
		return tool.Answer{}, c.mismatch("asked something else: %v", err)
	}
	return answer, nil
}
