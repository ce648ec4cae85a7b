package recorder

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/actlog/actlog/record"
)

// CycleInfo is what is known of a think-act cycle when it starts: what the model is asked. Fields
// with their zero value are not reported.
type CycleInfo struct {
	ThinkInput string
	Provider   string
	Model      string
	// Seq is the number of the cycle in its step, from 0. Default: the next one. The cycles that
	// follow count on from it.
	Seq *int64
	// Attempt counts from 1. Default: the step's. A higher one re-opens a cycle that is on record.
	Attempt  int64
	SpanID   string
	Metadata map[string]any // a JSON object
}

// Cycle is the handle of a think-act cycle: one model call, then the tool calls that it asked for.
type Cycle struct {
	reporter
	step       *Step
	seq        int64
	provider   string
	thinkStart time.Time

	mu         sync.Mutex
	actStart   time.Time
	thinkEnded bool
	answered   bool
	nextCall   int64
	asked      []*ToolCall
	calls      lives[string]
}

// StartCycle records a cycle as RUNNING: its think phase begins now. The step's currentStep counts
// the cycles. If the step or its plan has ended, or this attempt at the cycle or a later one, the
// error wraps [record.ErrEnded].
func (s *Step) StartCycle(ctx context.Context, info CycleInfo) (*Cycle, error) {
	refused := s.open()
	c := s.newCycle(s.state.claimSeq(info.Seq, refused == nil), info.Attempt)
	c.refused = refused
	what := action{"start", c}
	if err := c.admit(what); err != nil {
		return c, err
	}
	c.provider, c.thinkStart = info.Provider, s.rec.now()

	metadata, encodeErr := metadataOf(info.Metadata)
	row := c.row(record.Running)
	row.ThinkStartTime = &c.thinkStart
	row.ThinkInput = optional(info.ThinkInput)
	row.Provider = optional(info.Provider)
	row.ModelName = optional(info.Model)
	row.SpanID = optional(info.SpanID)
	row.Metadata = metadata

	step := s.row("")
	step.CurrentStep = new(c.seq + 1)
	s.begin(step) // if Start was left out
	return c, withEncodeError(what, encodeErr, c.report(ctx, what, step, row))
}

func (s *Step) newCycle(seq, attempt int64) *Cycle {
	c := &Cycle{
		reporter: reporter{rec: s.rec, parent: &s.reporter, attempt: cmp.Or(attempt, s.attempt), life: s.state.cycle(seq)},
		step:     s, seq: seq,
	}
	c.handle = c
	return c
}

// CycleRef says which cycle [Step.OpenCycle] opens, and where to go on in it. The times are as
// they are on record.
type CycleRef struct {
	Seq      int64
	Attempt  int64  // default: the step's
	Provider string // recorded again with [ThinkResult.Model]: a price is for a provider's model
	// ThinkStartTime is when thinking began: its end is never before it.
	ThinkStartTime time.Time
	// ThinkEndTime is when thinking ended. Zero: the model's answer is not on record. Otherwise
	// [Cycle.EndThink] does nothing.
	ThinkEndTime time.Time
	// ActStartTime is when the first tool call began. Zero: the first one that is started or
	// opened begins the act phase.
	ActStartTime time.Time
	// NextCall is the CallIndex of the next new tool call: more than any on record. Default: 0,
	// for a cycle without tool calls.
	NextCall int64
}

// OpenCycle returns a handle of a cycle that is on record already, and sends nothing. The handle
// then behaves like one that [Step.StartCycle] returned. New cycles of the step count on from it.
func (s *Step) OpenCycle(ref CycleRef) *Cycle {
	c := s.newCycle(s.state.claimSeq(&ref.Seq, true), ref.Attempt)
	c.provider, c.nextCall = ref.Provider, ref.NextCall
	c.thinkStart, c.actStart = ref.ThinkStartTime, ref.ActStartTime
	c.thinkEnded = !ref.ThinkEndTime.IsZero()
	c.answered = c.thinkEnded
	return c
}

func (c *Cycle) name() string {
	return "cycle " + strconv.FormatInt(c.seq, 10) + " of step " + c.step.id
}

// row returns a change of the cycle's row that only sets its state; "" sets none.
func (c *Cycle) row(state record.State) *record.ThinkAct {
	r := &struct {
		record.ThinkAct
		stamp
	}{stamp: c.stamp(c.attempt, state)}
	r.RootPlanID = c.step.plan.link.RootPlanID
	r.StepID, r.Seq = c.step.id, c.seq
	r.Rev, r.Attempt, r.State = r.pointers()
	return &r.ThinkAct
}

// Seq is the number of the cycle in its step, from 0.
func (c *Cycle) Seq() int64 { return c.seq }

// ThinkResult is what the model answered. Fields with their zero value are not reported.
type ThinkResult struct {
	Output string
	// Tools are the calls that the model asked for. They are recorded as PENDING together with the
	// answer, in this order. [Cycle.Tools] returns their handles.
	Tools             []ToolInfo
	ActionDescription string // what is going to be done
	FinishReason      string
	Model             string // the one that answered, if it differs
	FirstTokenTime    time.Time

	InputTokens              int64 // including those that came from a cache
	OutputTokens             int64
	CacheReadInputTokens     int64
	CacheCreationInputTokens int64
	// CacheCreation1hInputTokens are those of CacheCreationInputTokens that the cache keeps for an hour.
	CacheCreation1hInputTokens int64
	ReasoningTokens            int64
	CostUSD                    *float64 // nil: unknown; new(0.0): it cost nothing

	// InputChars and OutputChars are counted from the texts if they are 0.
	InputChars, OutputChars int64

	// Err is why there is no answer. It ends the cycle, as [Cycle.Fail] does.
	Err error
}

// EndThink records the model's answer, even after ctx was cancelled. The first call counts. After
// an error, call it again to record that answer.
func (c *Cycle) EndThink(ctx context.Context, result ThinkResult) error {
	ctx, cancel := c.rec.endContext(ctx)
	defer cancel()
	what := action{"end the thinking of", c}

	c.mu.Lock()
	first, late := !c.answered, c.thinkEnded
	c.answered, c.thinkEnded = true, true
	c.mu.Unlock()
	if !first {
		return c.report(ctx, what)
	}

	row := c.row("")
	if !late { // streams report their figures last, after End, which knows the time
		row.ThinkEndTime = new(notBefore(c.rec.now(), c.thinkStart))
	}
	row.ThinkOutput = optional(result.Output)
	row.ActionDescription = optional(result.ActionDescription)
	row.FinishReason = optional(result.FinishReason)
	if row.ModelName = optional(result.Model); row.ModelName != nil { // a price is for a provider's model
		row.Provider = optional(c.provider)
	}

	row.FirstTokenTime = optionalTime(result.FirstTokenTime)
	row.InputTokens = optional(result.InputTokens)
	row.OutputTokens = optional(result.OutputTokens)
	row.CacheReadInputTokens = optional(result.CacheReadInputTokens)
	row.CacheCreationInputTokens = optional(result.CacheCreationInputTokens)
	row.CacheCreation1hInputTokens = optional(result.CacheCreation1hInputTokens)
	row.ReasoningTokens = optional(result.ReasoningTokens)

	row.CostUSD = copied(result.CostUSD)
	row.InputCharCount = optional(result.InputChars)
	row.OutputCharCount = optional(result.OutputChars)

	if result.Err != nil && c.markEnded() {
		o := outcomeOf("", result.Err)
		row.State = &o.state
		row.ErrorMessage, row.ErrorKind = o.message, o.kind
	}

	changes := []record.Change{row}
	var encodeErr error
	for _, info := range result.Tools {
		call, callRow, err := c.newToolCall(info, record.Pending)
		changes = append(changes, callRow)
		encodeErr = errors.Join(encodeErr, err)
		c.mu.Lock()
		c.asked = append(c.asked, call)
		c.mu.Unlock()
	}
	return withEncodeError(what, encodeErr, c.report(ctx, what, changes...))
}

// Tools returns the handles of [ThinkResult.Tools], in that order. [ToolCall.Start] starts one.
func (c *Cycle) Tools() []*ToolCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

// act returns what to report of a call that starts. The first call also begins the act phase.
func (c *Cycle) act(now time.Time, call *record.ActTool) []record.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.actStart.IsZero() {
		return []record.Change{call}
	}

	c.actStart = now
	row := c.row("")
	row.ActStartTime = &c.actStart // it does not change any more
	return []record.Change{row, call}
}

// CycleResult is how a cycle ended.
type CycleResult struct {
	ActionDescription string // what was done
	ActionResult      string // the outcome of the tool calls, as it goes back to the model
	// Err makes the state FAILED, or CANCELLED if it is [context.Canceled].
	Err error
	// State, if set, counts instead of the one that follows from Err.
	State record.State
}

// End records how the cycle ended, as [Plan.End] does. It ends the act phase if a tool call has begun, and
// the think phase if [Cycle.EndThink] has not.
func (c *Cycle) End(ctx context.Context, result CycleResult) error {
	return c.end(ctx, action{"end", c}, result.State, result.Err, func(o outcome) record.Change {
		now := c.rec.now()
		row := c.row(o.state)
		row.ErrorMessage, row.ErrorKind = o.message, o.kind
		row.ActionDescription, row.ActionResult = optional(result.ActionDescription), optional(result.ActionResult)

		c.mu.Lock()
		defer c.mu.Unlock()
		thinkEnd := now
		if !c.actStart.IsZero() {
			row.ActEndTime = new(notBefore(now, c.actStart))
			thinkEnd = c.actStart
		}
		if !c.thinkEnded {
			c.thinkEnded = true
			row.ThinkEndTime = new(notBefore(thinkEnd, c.thinkStart))
		}
		return row
	})
}

// Fail ends the cycle with err, as [Plan.Fail] does.
func (c *Cycle) Fail(ctx context.Context, err error) error {
	return failed(err, c.End(ctx, CycleResult{Err: err, State: failState(err)}))
}

// Close is the safety net below End, as [Plan.Close] is.
func (c *Cycle) Close(ctx context.Context) error {
	return c.close(ctx, recover(), func(ctx context.Context, err error) error { return c.End(ctx, CycleResult{Err: err}) })
}
