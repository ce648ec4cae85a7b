package engine

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/record"
)

// calling is the making of one call.
type calling struct {
	step  *Step
	seq   int64
	index int
	of    int // how many the model asked for
	call  model.ToolCall
	t     Thinking

	row    *record.ActTool  // as it is on record
	past   []record.Attempt // before the one that it is at
	tool   tool.Tool
	policy tool.Policy
	bad    error // what is wrong with the arguments
	// approved is the digest of the preview that a human approved; empty: there was none.
	approved string
	// checked says that the tool has checked the arguments.
	checked bool
	// progress is how far the call says that it has come.
	progress *progress
	// unanswered says that nobody answered a question of the tool in time.
	unanswered atomic.Bool
}

func (c *calling) change(state record.State) *record.ActTool {
	return &record.ActTool{
		RootPlanID: c.row.RootPlanID, StepID: c.row.StepID, Seq: c.row.Seq, ToolCallID: c.row.ToolCallID, State: &state,
		Attempt: c.row.Attempt,
	}
}

// number returns the attempt that the call is at.
func (c *calling) number() int64 { return max(optional.Value(c.row.Attempt), 1) }

// nextAttempt moves on to the next attempt. How the one before ended is put on record with the next thing that is.
// The result is the row of the next one, which begins without what was only of the one before.
func (c *calling) nextAttempt(ended *record.ActTool) *record.ActTool {
	c.step.run.addLater(ended)
	c.past = append(slices.Clone(c.past), record.Attempt{
		Number: c.number(), State: *ended.State, StartTime: c.row.StartTime, EndTime: ended.EndTime,
		ErrorKind: ended.ErrorKind, ErrorMessage: ended.ErrorMessage,
	})

	next := *c.row
	next.Attempt, next.State = new(c.number()+1), new(record.Pending)
	next.StartTime, next.EndTime = nil, nil
	next.ErrorKind, next.ErrorMessage = nil, nil
	c.keep(&next)

	row := c.change(record.Pending)
	if c.row.Metadata != nil { // what it had asked
		row.Metadata, c.row.Metadata = json.RawMessage(`{}`), nil
	}
	if c.row.Progress != nil || c.progress.reported() {
		row.Progress, c.row.Progress = progressJSON(record.Progress{}), nil
	}
	return row
}

// asItEnded returns how the attempt ended that the call is at.
func (c *calling) asItEnded() *record.ActTool {
	row := c.change(*c.row.State)
	row.StartTime, row.EndTime = c.row.StartTime, c.row.EndTime
	row.ErrorKind, row.ErrorMessage = c.row.ErrorKind, c.row.ErrorMessage
	return row
}

// endInNewAttempt ends the call in another attempt: how the one before ended stays unknown.
func (c *calling) endInNewAttempt(
	lost *record.ActTool, state record.State, result tool.Result, kind string,
) tool.Result {
	c.nextAttempt(lost)
	return c.recordEnd(state, result, kind)
}

// attempts returns how many attempts before this one ended in a state.
func (c *calling) attempts(state record.State) (n int) {
	for _, a := range c.past {
		if a.State == state {
			n++
		}
	}
	return n
}

// begun reports whether an attempt of the call began.
func (c *calling) begun() bool { return begun(c.row, c.past) }

// over reports whether the call has its result. One whose outcome is unknown has none until somebody has decided what
// follows.
func (c *calling) over() bool {
	return c.row.State.Terminal() && (*c.row.State != record.Unknown || c.hasResult() && !c.t.Undecided)
}

// hasResult reports whether a call whose outcome is unknown has what is told of that. The result of an attempt before
// was made empty.
func (c *calling) hasResult() bool { return optional.Value(c.row.Result) != "" }

// keep notes how the call stands.
func (c *calling) keep(row *record.ActTool) {
	s := c.step
	s.mu.Lock()
	defer s.mu.Unlock()

	merged := *c.row
	merged.State, merged.Attempt = row.State, row.Attempt
	merged.Result = row.Result
	merged.StartTime, merged.EndTime = row.StartTime, row.EndTime
	merged.ErrorKind, merged.ErrorMessage = row.ErrorKind, row.ErrorMessage
	*c.row = merged
	s.cycles[c.seq].past[c.row.ToolCallID] = c.past
}

// newProgress returns what listens to the attempt that the call is at.
func (c *calling) newProgress() *progress {
	r, attempt := c.step.run, c.number()
	row := c.change("")
	row.State = nil

	with := func(p record.Progress) *record.ActTool {
		now := *row
		now.Progress = progressJSON(p)
		return &now
	}

	return &progress{
		redact: r.redact, written: time.Now(), writeEvery: r.engine.progressEvery,
		show: func(p record.Progress) {
			r.engine.config.Watcher.Progress(r.run.RootPlanID, r.run.PlanID, c.step.id, c.seq, row.ToolCallID, attempt, p)
		},
		write: func(p record.Progress) { r.addSoon(with(p)) },
		late:  func(p record.Progress) { r.addLater(with(p)) },
	}
}

// startedBy returns a context in which what the tool starts can say which call started it.
func (c *calling) startedBy(ctx context.Context) context.Context {
	return record.ContextWithStartedBy(ctx, record.StartedBy{PlanID: c.step.run.ID(), ToolCallID: c.row.ToolCallID})
}

// about is what a human sees of a call besides its name and its arguments.
type about struct {
	Files     []string      `json:"files,omitempty"` // what it would change
	Preview   *tool.Preview `json:"preview,omitempty"`
	Decisions []string      `json:"decisions,omitempty"` // those that there are; none: approve and reject
}

// subject is what a human approves: exactly this call, with the text that the tool gets as its arguments.
func (c *calling) subject(a about) json.RawMessage {
	b, _ := json.Marshal(struct {
		Name       string          `json:"name"`
		ToolCallID string          `json:"toolCallId"`
		Parameters json.RawMessage `json:"parameters"`
		about
	}{c.call.Name, c.row.ToolCallID, c.parameters(), a}) // valid JSON and texts
	return b
}

// parameters returns the arguments of the call as JSON, as they may be on record. Bad ones, of a call that an earlier
// version made, are a text.
func (c *calling) parameters() json.RawMessage {
	shown := c.step.run.recorded(c.call.Arguments)
	if c.bad == nil && json.Valid([]byte(shown)) {
		return json.RawMessage(shown)
	}
	text, _ := json.Marshal(shown) // a text
	return text
}

// toolCall returns the call as the tool gets it.
func (c *calling) toolCall(ask func(context.Context, tool.Question) (tool.Answer, error)) tool.Call {
	var kept struct{ Asked json.RawMessage }
	_ = json.Unmarshal(c.row.Metadata, &kept) // without a question there is nothing
	return tool.Call{
		ID: c.row.ToolCallID, PlanID: c.step.run.ID(), Arguments: json.RawMessage(c.call.Arguments), Approved: c.approved,
		Ask: ask, State: kept.Asked,
	}
}

// recordEnd puts the end of the call on record, with its sources and artifacts, and returns the result as recorded:
// redacted.
func (c *calling) recordEnd(state record.State, result tool.Result, kind string) tool.Result {
	r := c.step.run
	result.Text, result.Summary = r.redact(result.Text), r.redact(result.Summary)
	row := c.change(state)
	row.StartTime, row.EndTime = c.row.StartTime, new(c.step.run.now())
	row.Result = &result.Text
	if state == record.Failed || kind != "" {
		row.ErrorKind, row.ErrorMessage = optional.Pointer(kind), new(tool.Cut(result.Text, maxToolError))
	}
	row.Metadata = r.metadataOf(result, *row.EndTime)

	changes := []record.Change{row}
	for i, each := range result.Sources {
		changes = append(changes, r.source(c.step.id, c.row.ToolCallID, i, each))
	}
	if c.t.Artifacts && state == record.Completed {
		for _, each := range result.Artifacts {
			changes = append(changes, r.artifact(&c.step.id, new(c.row.ToolCallID), each))
		}
	}

	r.addResult(changes...)
	c.keep(row)
	return result
}

// metadataOf returns the metadata of a call; nil: there are none.
func (r *Run) metadataOf(result tool.Result, at time.Time) json.RawMessage {
	type embedding struct {
		*tool.Embedding
		CostUSD *float64 `json:"costUsd,omitempty"`
	}
	var about struct {
		Summary   string     `json:"summary,omitempty"`
		Embedding *embedding `json:"embedding,omitempty"`
	}

	about.Summary = result.Summary
	if e := result.Embedding; e != nil {
		about.Embedding = &embedding{e, r.engine.store.InputCost(e.Model, at, e.InputTokens)}
	}
	if about.Summary == "" && about.Embedding == nil {
		return nil
	}
	b, _ := json.Marshal(about) // texts and numbers
	return b
}

// maxToolError bounds the error message of a call whose whole text is its result.
const maxToolError = 2 << 10
