package recorder

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/actlog/actlog/record"
)

// ToolInfo is what is known of a tool call when the model asks for it. What is
// left at its zero value is not told.
type ToolInfo struct {
	// ID is an id of your own, unique in the root plan, at most
	// [record.MaxIDBytes] bytes. Default: a new one. The model's own id is no good
	// here, since models repeat theirs: it goes to ProviderCallID.
	ID             string
	ProviderCallID string
	Name           string
	// Parameters are a string, told as it is, or any value, told as its JSON.
	Parameters any
	ServerName string // of a remote tool, such as an MCP server's
	// CallIndex is the place among the calls of the cycle, from 0. Default: the
	// next one; give it where several goroutines start calls.
	CallIndex *int64
	SpanID    string
	Metadata  map[string]any // a JSON object
}

// ToolCall is the handle of a tool call.
type ToolCall struct {
	t     teller
	cycle *Cycle
	id    string

	mu    sync.Mutex
	start time.Time
}

// StartTool puts a tool call on record as RUNNING: do it before the tool runs,
// and run the tool with the context that it gives. That carries the link of the
// call, so that a plan started in it is a sub-plan of the call. The first call of
// a cycle begins its act phase. Several calls of a cycle may run at once.
func (c *Cycle) StartTool(ctx context.Context, info ToolInfo) (context.Context, *ToolCall, error) {
	t, row, unencoded := c.newToolCall(info, record.Running)
	t.start = t.t.rec.now()
	row.StartTime = &t.start
	what := doing{"starting", t}
	err := t.t.tell(ctx, what, c.act(t.start, row)...)
	return ContextWithLink(ctx, t.Link()), t, withUnencoded(what, unencoded, err)
}

func (c *Cycle) newToolCall(info ToolInfo, state record.State) (*ToolCall, *record.ActTool, error) {
	t := &ToolCall{t: teller{rec: c.t.rec, parent: &c.t}, cycle: c, id: cmp.Or(info.ID, record.NewToolCallID())}
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
	row.ProviderCallID = said(info.ProviderCallID)
	row.ServerName = said(info.ServerName)
	row.Name = said(info.Name)
	row.Parameters = parameters
	row.SpanID = said(info.SpanID)
	row.Metadata = metadata
	return t, row, errors.Join(err, metadataErr)
}

func (t *ToolCall) row(state record.State) *record.ActTool {
	step := t.cycle.step
	r := &struct { // see Cycle.row
		record.ActTool
		rev, attempt int64
		state        record.State
	}{rev: t.t.rec.nextRev(), attempt: step.attempt, state: state}
	if state != "" {
		r.State = &r.state
	}
	r.RootPlanID, r.StepID, r.Seq, r.ToolCallID = step.plan.link.RootPlanID, step.id, t.cycle.seq, t.id
	r.Rev, r.Attempt = &r.rev, &r.attempt
	return &r.ActTool
}

func (t *ToolCall) name() string { return "tool call " + t.id }

// ID is the id of the tool call.
func (t *ToolCall) ID() string { return t.id }

// Link is the link of the tool call, which makes sub-plans of it.
func (t *ToolCall) Link() Link {
	link := t.cycle.step.Link()
	link.Seq, link.ToolCallID = t.cycle.seq, t.id
	return link
}

// Start puts a call that the model asked for ([ThinkResult.Tools]) on record as
// RUNNING, as [Cycle.StartTool] does. A call that was started already stays as it
// is.
func (t *ToolCall) Start(ctx context.Context) (context.Context, error) {
	var changes []record.Change
	t.mu.Lock()
	if t.start.IsZero() {
		t.start = t.t.rec.now()
		row := t.row(record.Running)
		row.StartTime = new(t.start)
		changes = t.cycle.act(t.start, row)
	}
	t.mu.Unlock()
	return ContextWithLink(ctx, t.Link()), t.t.tell(ctx, doing{"starting", t}, changes...)
}

// SetState tells that the call is in another state that does not end it, such as
// [record.AwaitingApproval].
func (t *ToolCall) SetState(ctx context.Context, state record.State) error {
	what := doing{"setting the state of", t}
	if err := checkLive(what, state); err != nil {
		return err
	}
	return t.t.send(ctx, what, t.row(state))
}

// ToolResult is how a tool call ended.
type ToolResult struct {
	// Result is a string, told as it is, or any value, told as its JSON.
	Result any
	// Err makes the state FAILED, or CANCELLED where it is [context.Canceled].
	Err error
	// State, where it is given, counts instead of the one that follows from Err:
	// [record.Skipped], for a call that was not allowed.
	State record.State
}

// End records how the tool call ended, even after ctx was cancelled. The first
// end counts; to call it again after an error tries again to record that.
func (t *ToolCall) End(ctx context.Context, result ToolResult) error {
	what := doing{"ending", t}
	if err := checkEnd(what, result.State); err != nil {
		return err
	}
	text, unencoded := textOf("result", result.Result)
	return withUnencoded(what, unencoded, t.t.end(ctx, what, func() []record.Change {
		t.mu.Lock()
		start := t.start
		t.mu.Unlock()
		o := outcomeOf(result.State, result.Err)
		row := t.row(o.state)
		row.ErrorMessage, row.ErrorKind = o.message, o.kind
		row.EndTime = new(notBefore(t.t.rec.now(), start))
		row.Result = text
		return []record.Change{row}
	}))
}

// Fail ends the tool call with err and gives err back, joined by what the
// recording itself met: return call.Fail(ctx, err).
func (t *ToolCall) Fail(ctx context.Context, err error) error {
	return failed(err, t.End(ctx, ToolResult{Err: err, State: failState(err)}))
}

// Close is the net below End: defer it right after the start. It does nothing
// after End or Fail. Else it records FAILED with the panic that it finds, which
// goes on, or INTERRUPTED. Within another deferred function it finds no panic.
func (t *ToolCall) Close(ctx context.Context) error {
	return t.t.close(ctx, recover(), func(ctx context.Context, err error) error { return t.End(ctx, ToolResult{Err: err}) })
}
