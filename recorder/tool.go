package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/actlog/actlog/record"
)

// ToolInfo is what is known of a tool call when the model asks for it. Fields with their zero
// value are not reported.
type ToolInfo struct {
	// ID is an id of your own, unique in the root plan, at most [record.MaxIDBytes] bytes. Default:
	// a new one. The model's own id does not fit here, because models repeat theirs: it goes to
	// ProviderCallID.
	ID             string
	ProviderCallID string
	Name           string
	// Parameters are recorded as they are if they are a string, otherwise as their JSON.
	Parameters any
	ServerName string // of a remote tool, such as an MCP server's
	// CallIndex is the place among the calls of the cycle, from 0. Default: the next one. Set it
	// if several goroutines start calls.
	CallIndex *int64
	// Attempt counts from 1. Default: the cycle's. A higher one re-opens a call that is on record.
	Attempt  int64
	SpanID   string
	Metadata map[string]any // a JSON object
}

// ToolCall is the handle of a tool call.
type ToolCall struct {
	reporter
	cycle *Cycle
	id    string

	mu    sync.Mutex
	start time.Time
}

// StartTool records a tool call as RUNNING. Call it before the tool runs, and run the tool with
// the context that it returns. That carries the link of the call, so that a plan started in it is
// a sub-plan of the call. The first call of a cycle begins its act phase. Several calls of a cycle
// may run at once. If the cycle, or what it belongs to, has ended, or this attempt at the call or a
// later one, the error wraps [record.ErrEnded].
func (c *Cycle) StartTool(ctx context.Context, info ToolInfo) (context.Context, *ToolCall, error) {
	t, row, encodeErr := c.newToolCall(info, record.Running)
	what := action{"start", t}
	if err := t.admit(what); err != nil { // it begins no act phase either
		return ContextWithLink(ctx, t.Link()), t, err
	}

	t.start = t.rec.now()
	row.StartTime = &t.start
	err := t.report(ctx, what, c.act(t.start, row)...)
	return ContextWithLink(ctx, t.Link()), t, withEncodeError(what, encodeErr, err)
}

// newToolCall returns the handle of a new call and its first change.
func (c *Cycle) newToolCall(info ToolInfo, state record.State) (*ToolCall, *record.ActTool, error) {
	t := c.toolCall(cmp.Or(info.ID, record.NewToolCallID()), info.Attempt)
	c.mu.Lock()
	index := c.nextCall
	if info.CallIndex != nil {
		index = *info.CallIndex
	}
	c.nextCall = max(c.nextCall, index+1)
	c.mu.Unlock()

	parameters, err := textOf("parameters", info.Parameters)
	metadata, metadataErr := metadataOf(info.Metadata)
	row := t.row(state)
	row.CallIndex = &index

	row.ProviderCallID = optional(info.ProviderCallID)
	row.ServerName = optional(info.ServerName)
	row.Name = optional(info.Name)
	row.Parameters = parameters
	row.SpanID = optional(info.SpanID)
	row.Metadata = metadata
	return t, row, errors.Join(err, metadataErr)
}

func (c *Cycle) toolCall(id string, attempt int64) *ToolCall {
	c.mu.Lock()
	l := c.calls.of(id)
	c.mu.Unlock()

	t := &ToolCall{
		reporter: reporter{rec: c.rec, parent: &c.reporter, attempt: cmp.Or(attempt, c.attempt), life: l}, cycle: c, id: id,
	}
	t.handle = t
	return t
}

// ToolRef says which tool call [Cycle.OpenTool] opens.
type ToolRef struct {
	ID        string
	Attempt   int64     // default: the cycle's
	Pending   bool      // the model asked for the call, and it has not started
	StartTime time.Time // as it is on record: the end is never before it
}

// OpenTool returns a handle of a tool call that is on record already, and sends nothing. The
// handle then behaves like one that [Cycle.StartTool] returned or, if ref.Pending is set, like one
// of [Cycle.Tools]: [ToolCall.Start] starts it. The context that OpenTool returns carries the link
// of the call, as that of StartTool does.
func (c *Cycle) OpenTool(ctx context.Context, ref ToolRef) (context.Context, *ToolCall) {
	t := c.toolCall(ref.ID, ref.Attempt)
	if !ref.Pending {
		t.start = cmp.Or(ref.StartTime, t.rec.now())
		c.mu.Lock()
		if c.actStart.IsZero() { // else a row may point to it
			c.actStart = t.start
		}
		c.mu.Unlock()
	}
	return ContextWithLink(ctx, t.Link()), t
}

// row returns a change of the call's row that only sets its state.
func (t *ToolCall) row(state record.State) *record.ActTool {
	r := &struct {
		record.ActTool
		stamp
	}{stamp: t.stamp(t.attempt, state)}

	step := t.cycle.step
	r.RootPlanID, r.StepID = step.plan.link.RootPlanID, step.id
	r.Seq, r.ToolCallID = t.cycle.seq, t.id
	r.Rev, r.Attempt, r.State = r.pointers()
	return &r.ActTool
}

func (t *ToolCall) name() string { return "tool call " + t.id }

// ID is the id of the tool call.
func (t *ToolCall) ID() string { return t.id }

// Link is the link of the tool call. Plans that are started with it are its sub-plans.
func (t *ToolCall) Link() Link {
	link := t.cycle.step.Link()
	link.Seq, link.ToolCallID = t.cycle.seq, t.id
	return link
}

// Start records a call that the model asked for ([ThinkResult.Tools]) as RUNNING, as
// [Cycle.StartTool] does. A call that was started already stays as it is. If it, or what it belongs
// to, has ended, the error wraps [record.ErrEnded].
func (t *ToolCall) Start(ctx context.Context) (context.Context, error) {
	what := action{"start", t}
	if err := t.open(); err != nil {
		return ContextWithLink(ctx, t.Link()), fmt.Errorf("%s: %w", what, err)
	}

	var changes []record.Change
	t.mu.Lock()
	if t.start.IsZero() {
		t.start = t.rec.now()
		row := t.row(record.Running)
		row.StartTime = new(t.start)
		changes = t.cycle.act(t.start, row)
	}
	t.mu.Unlock()
	return ContextWithLink(ctx, t.Link()), t.report(ctx, what, changes...)
}

// SetState records another state that does not end the call, such as [record.AwaitingApproval].
// After the end of the call, or of what it belongs to, the error wraps [record.ErrEnded].
func (t *ToolCall) SetState(ctx context.Context, state record.State) error {
	return t.setState(ctx, t, state, t.row(state))
}

// ToolResult is how a tool call ended.
type ToolResult struct {
	// Result is recorded as it is if it is a string, otherwise as its JSON.
	Result any
	// Err makes the state FAILED, or CANCELLED if it is [context.Canceled].
	Err error
	// State, if set, counts instead of the one that follows from Err: [record.Skipped], for a call
	// that was not allowed.
	State record.State
}

// End records how the tool call ended, as [Plan.End] does.
func (t *ToolCall) End(ctx context.Context, result ToolResult) error {
	what := action{"end", t}
	text, encodeErr := textOf("result", result.Result)
	return withEncodeError(what, encodeErr, t.end(ctx, what, result.State, result.Err, func(o outcome) record.Change {
		t.mu.Lock()
		start := t.start
		t.mu.Unlock()

		row := t.row(o.state)
		row.ErrorMessage, row.ErrorKind = o.message, o.kind
		row.EndTime = new(notBefore(t.rec.now(), start))
		row.Result = text
		return row
	}))
}

// Fail ends the tool call with err, as [Plan.Fail] does.
func (t *ToolCall) Fail(ctx context.Context, err error) error {
	return failed(err, t.End(ctx, ToolResult{Err: err, State: failState(err)}))
}

// Close is the safety net below End, as [Plan.Close] is.
func (t *ToolCall) Close(ctx context.Context) error {
	return t.close(ctx, recover(), func(ctx context.Context, err error) error { return t.End(ctx, ToolResult{Err: err}) })
}
