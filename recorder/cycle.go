package recorder

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/actlog/actlog/record"
)

// CycleInfo is what is known of a think-act cycle when it starts: what the model
// is asked. What is left at its zero value is not told.
type CycleInfo struct {
	ThinkInput string
	Provider   string
	Model      string
	// Seq is the number of the cycle in its step, from 0. Default: the next one.
	// Give the first one of a step that another process began: the cycles that
	// follow count on from it.
	Seq      *int64
	SpanID   string
	Metadata map[string]any // a JSON object
}

// Cycle is the handle of a think-act cycle: one model call, then the tool calls
// that it asked for.
type Cycle struct {
	t          teller
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
}

// StartCycle puts a cycle on record as RUNNING: its think phase begins now. The
// step's currentStep counts the cycles.
func (s *Step) StartCycle(ctx context.Context, info CycleInfo) (*Cycle, error) {
	c := &Cycle{
		t:          teller{rec: s.t.rec, parent: &s.t},
		step:       s,
		seq:        s.state.claimSeq(info.Seq),
		provider:   info.Provider,
		thinkStart: s.t.rec.now(),
	}
	what := doing{"starting", c}
	metadata, unencoded := metadataOf(info.Metadata)
	row := c.row(record.Running)
	row.ThinkStartTime = &c.thinkStart
	row.ThinkInput = said(info.ThinkInput)
	row.Provider = said(info.Provider)
	row.ModelName = said(info.Model)
	row.SpanID = said(info.SpanID)
	row.Metadata = metadata
	step := s.row("")
	step.CurrentStep = new(c.seq + 1)
	s.begin(step) // where its Start was left out
	return c, withUnencoded(what, unencoded, c.t.tell(ctx, what, step, row))
}

func (c *Cycle) name() string {
	return "cycle " + strconv.FormatInt(c.seq, 10) + " of step " + c.step.id
}

// row makes a change of the cycle's row that tells its state, or "": nothing yet. It
// is one allocation with what each holds.
func (c *Cycle) row(state record.State) *record.ThinkAct {
	r := &struct {
		record.ThinkAct
		rev, attempt int64
		state        record.State
	}{rev: c.t.rec.nextRev(), attempt: c.step.attempt, state: state}
	if state != "" {
		r.State = &r.state
	}
	r.RootPlanID, r.StepID, r.Seq = c.step.plan.link.RootPlanID, c.step.id, c.seq
	r.Rev, r.Attempt = &r.rev, &r.attempt
	return &r.ThinkAct
}

// Seq is the number of the cycle in its step, from 0.
func (c *Cycle) Seq() int64 { return c.seq }

// ThinkResult is what the model answered. What is left at its zero value is not
// told.
type ThinkResult struct {
	Output string
	// Tools are the calls that the model asked for. They are on record as PENDING
	// together with the answer, in this order; [Cycle.Tools] gives their handles.
	Tools             []ToolInfo
	ActionDescription string // what is going to be done
	FinishReason      string
	Model             string // the one that answered, where it differs
	FirstTokenTime    time.Time

	InputTokens              int64 // with those that came from a cache
	OutputTokens             int64
	CacheReadInputTokens     int64
	CacheCreationInputTokens int64
	ReasoningTokens          int64
	CostUSD                  *float64 // nil: unknown; new(0.0): it cost nothing

	// InputChars and OutputChars are counted from the texts where they are 0.
	InputChars, OutputChars int64

	// Err is why there is no answer. It ends the cycle, as [Cycle.Fail] does.
	Err error
}

// EndThink records the model's answer, even after ctx was cancelled. The first
// call counts; to call it again after an error tries again to record that.
func (c *Cycle) EndThink(ctx context.Context, result ThinkResult) error {
	ctx, cancel := c.t.rec.endContext(ctx)
	defer cancel()
	what := doing{"ending the thinking of", c}
	c.mu.Lock()
	first, late := !c.answered, c.thinkEnded
	c.answered, c.thinkEnded = true, true
	c.mu.Unlock()
	if !first {
		return c.t.tell(ctx, what)
	}

	row := c.row("")
	if !late { // after End, as streams tell their figures last, the time is known
		row.ThinkEndTime = new(notBefore(c.t.rec.now(), c.thinkStart))
	}
	row.ThinkOutput = said(result.Output)
	row.ActionDescription = said(result.ActionDescription)
	row.FinishReason = said(result.FinishReason)
	if row.ModelName = said(result.Model); row.ModelName != nil { // a price is that of a provider's model
		row.Provider = said(c.provider)
	}
	row.FirstTokenTime = saidTime(result.FirstTokenTime)
	row.InputTokens = said(result.InputTokens)
	row.OutputTokens = said(result.OutputTokens)
	row.CacheReadInputTokens = said(result.CacheReadInputTokens)
	row.CacheCreationInputTokens = said(result.CacheCreationInputTokens)
	row.ReasoningTokens = said(result.ReasoningTokens)
	row.CostUSD = copied(result.CostUSD)
	row.InputCharCount = said(result.InputChars)
	row.OutputCharCount = said(result.OutputChars)
	if result.Err != nil {
		c.t.mu.Lock()
		if !c.t.ended {
			o := outcomeOf("", result.Err)
			row.State, row.ErrorMessage, row.ErrorKind = &o.state, o.message, o.kind
			c.t.ended = true
		}
		c.t.mu.Unlock()
	}
	changes := []record.Change{row}
	var unencoded error
	for _, info := range result.Tools {
		call, told, err := c.newToolCall(info, record.Pending)
		changes = append(changes, told)
		unencoded = errors.Join(unencoded, err)
		c.mu.Lock()
		c.asked = append(c.asked, call)
		c.mu.Unlock()
	}
	return withUnencoded(what, unencoded, c.t.tell(ctx, what, changes...))
}

// Tools gives the handles of [ThinkResult.Tools], in that order: [ToolCall.Start]
// starts one.
func (c *Cycle) Tools() []*ToolCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*ToolCall(nil), c.asked...)
}

// act begins the act phase with the first tool call: it adds that to what is told
// of the call.
func (c *Cycle) act(now time.Time, call *record.ActTool) []record.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.actStart.IsZero() {
		return []record.Change{call}
	}
	c.actStart = now
	row := c.row("")
	row.ActStartTime = &c.actStart
	return []record.Change{row, call}
}

// CycleResult is how a cycle ended.
type CycleResult struct {
	ActionDescription string // what was done
	ActionResult      string // what came of the tool calls, as it goes back to the model
	// Err makes the state FAILED, or CANCELLED where it is [context.Canceled].
	Err error
	// State, where it is given, counts instead of the one that follows from Err.
	State record.State
}

// End records how the cycle ended, even after ctx was cancelled. It ends the act
// phase where a tool call has begun, and the think phase where [Cycle.EndThink]
// has not. The first end counts; to call it again after an error tries again to
// record that.
func (c *Cycle) End(ctx context.Context, result CycleResult) error {
	what := doing{"ending", c}
	if err := checkEnd(what, result.State); err != nil {
		return err
	}
	return c.t.end(ctx, what, func() []record.Change {
		now := c.t.rec.now()
		o := outcomeOf(result.State, result.Err)
		row := c.row(o.state)
		row.ErrorMessage, row.ErrorKind = o.message, o.kind
		row.ActionDescription, row.ActionResult = said(result.ActionDescription), said(result.ActionResult)
		c.mu.Lock()
		defer c.mu.Unlock()
		thought := now
		if !c.actStart.IsZero() {
			row.ActEndTime = new(notBefore(now, c.actStart))
			thought = c.actStart
		}
		if !c.thinkEnded {
			c.thinkEnded = true
			row.ThinkEndTime = new(notBefore(thought, c.thinkStart))
		}
		return []record.Change{row}
	})
}

// Fail ends the cycle with err and gives err back, joined by what the recording
// itself met: return cycle.Fail(ctx, err).
func (c *Cycle) Fail(ctx context.Context, err error) error {
	return failed(err, c.End(ctx, CycleResult{Err: err, State: failState(err)}))
}

// Close is the net below End: defer it right after the start. It does nothing
// after End or Fail. Else it records FAILED with the panic that it finds, which
// goes on, or INTERRUPTED. Within another deferred function it finds no panic.
func (c *Cycle) Close(ctx context.Context) error {
	return c.t.close(ctx, recover(), func(ctx context.Context, err error) error { return c.End(ctx, CycleResult{Err: err}) })
}
