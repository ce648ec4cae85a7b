package runs

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/record/delta"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Event is something that happened in the run of an agent.
type Event struct {
	// Number is its place among the events that the record has of the run, from 1; 0: it is a text as it
	// arrives, which is not kept.
	Number int            `json:"-"`
	Type   string         `json:"type"`
	Data   map[string]any `json:"data"`
}

// The types of events.
const (
	SessionInfo        = "session_info"
	TextDelta          = "text_delta"
	ToolUseStart       = "tool_use_start"
	ToolUseInputDelta  = "tool_use_input_delta"
	ToolUseEnd         = "tool_use_end"
	ToolResult         = "tool_result"
	ToolExecutionError = "tool_execution_error"
	ErrorEvent         = "error"
	StreamEnd          = "stream_end"
)

// TalkReader is the record as a talk reads it.
type TalkReader interface {
	RunDetail(ctx context.Context, planID string) (*runstore.RunDetail, error)
	PlanTree(ctx context.Context, rootPlanID, planID string) (*tree.Plan, bool, error)
	StepDetail(ctx context.Context, rootPlanID, stepID string) (*tree.Step, error)
}

// Talk is the run of an agent, as it is sent to somebody who listens.
type Talk struct {
	Watch      *Watch
	Deltas     *delta.Deltas
	Reader     func() TalkReader // is called for each look at the record
	RootPlanID string
	PlanID     string
	After      int // the number of the last event that the listener has
	// Silence is how long nothing may be sent. Then send is called with an event that has no type.
	Silence time.Duration

	live        map[int64]*strings.Builder // the texts that were sent as they arrived, by turn
	lastSent    int                        // the number of the last event that was sent
	textsBefore int64                      // the texts of the turns before it are sent
	sentBefore  int64                      // all events of the turns before it are sent
}

// Follow sends the events of the run in order, those that are on record and texts as they arrive, until the
// run has ended, ctx ends, or the watch is closed. The error is that of send, or of a read. A text that did
// not arrive whole is sent again when it is on record, with reset.
func (t *Talk) Follow(ctx context.Context, send func(Event) error) error {
	wake, stop := t.Watch.subscribe(t.RootPlanID)
	defer stop()

	var mu sync.Mutex
	backlog, texts := delta.NewBacklog(), make(chan struct{}, 1)
	defer t.Deltas.Watch(t.RootPlanID, func(d delta.Delta) {
		if d.PlanID != t.PlanID || d.Answer || d.ToolCallID != "" {
			return
		}

		mu.Lock()
		backlog.Add(d)
		mu.Unlock()
		select {
		case texts <- struct{}{}:
		default:
		}
	})()

	t.live = map[int64]*strings.Builder{}
	for look := true; ; {
		if look {
			if ended, err := t.look(ctx, send); ended || err != nil {
				return err
			}
		}

		look = false
		select {
		case <-wake:
			look = true
		case <-texts:
			for more := true; more; {
				mu.Lock()
				d, ok := backlog.Next()
				mu.Unlock()
				if more = ok; ok {
					if ended, err := t.arrived(ctx, d, send); ended || err != nil {
						return err
					}
				}
			}
		case <-time.After(t.Silence):
			if err := send(Event{}); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		case <-t.Watch.ctx.Done():
			return nil
		}
	}
}

// arrived sends a text that arrives, after all that is on record of the turns before it.
func (t *Talk) arrived(ctx context.Context, d delta.Delta, send func(Event) error) (ended bool, err error) {
	if d.Seq > t.sentBefore {
		if ended, err := t.look(ctx, send); ended || err != nil {
			return ended, err
		}
	}

	if d.Seq < t.textsBefore || d.Seq > t.sentBefore { // it was sent, or will be when it is on record
		return false, nil
	}
	return false, t.text(d, send)
}

func (t *Talk) text(d delta.Delta, send func(Event) error) error {
	text := t.live[d.Seq]
	if text == nil {
		text = &strings.Builder{}
		t.live[d.Seq] = text
	}

	data := map[string]any{"turn": d.Seq, "text": d.Text}
	if d.Reset {
		if text.Len() == 0 {
			return nil
		}
		text.Reset()
		data["reset"] = true
	}
	text.WriteString(d.Text)
	return send(Event{Type: TextDelta, Data: data})
}

// look sends what is on record and was not told yet.
func (t *Talk) look(ctx context.Context, send func(Event) error) (ended bool, err error) {
	r := t.Reader()
	d, err := r.RunDetail(ctx, t.PlanID)
	if err != nil {
		return false, err
	}
	plan, _, err := r.PlanTree(ctx, t.RootPlanID, t.PlanID)
	if err != nil {
		return false, err
	}

	var cycles []*tree.Cycle
	if len(plan.Steps) > 0 {
		step, err := r.StepDetail(ctx, t.RootPlanID, plan.Steps[0].Record.StepID)
		if err != nil {
			return false, err
		}
		cycles = step.Cycles
	}

	out := teller{resumeAfter: max(t.lastSent, t.After), talk: t, send: send}
	out.tell(SessionInfo, map[string]any{"session_id": d.Plan.ConversationID, "plan_id": t.PlanID, "agent_name": d.Name})
	done := out.sendTurns(cycles)
	if done && d.State.Terminal() {
		out.sendEnd(d)
	}
	t.lastSent = max(t.lastSent, out.number)
	return done && d.State.Terminal() || out.err != nil, out.err
}

// teller numbers the events that are on record, and sends those that are new.
type teller struct {
	resumeAfter int // the last event that the listener has
	number      int
	talk        *Talk
	send        func(Event) error
	err         error
}

func (t *teller) tell(kind string, data map[string]any) {
	if t.number++; t.err == nil && t.number > t.resumeAfter {
		t.err = t.send(Event{Number: t.number, Type: kind, Data: data})
	}
}

// sendTurns sends the turns. It reports whether all of them have ended.
func (t *teller) sendTurns(cycles []*tree.Cycle) (done bool) {
	for _, c := range cycles {
		if c.Record.Message == nil {
			return c.Record.State.Terminal()
		}

		t.sendText(c.Record.Seq, optional.Value(c.Record.ThinkOutput))
		for _, call := range c.ToolCalls {
			t.tell(ToolUseStart, dataOf(&call.Record))
			input := dataOf(&call.Record)
			input["input"] = optional.Value(call.Record.Parameters)
			t.tell(ToolUseInputDelta, input)
			t.tell(ToolUseEnd, dataOf(&call.Record))
		}

		for _, call := range c.ToolCalls {
			r, data := &call.Record, dataOf(&call.Record)
			switch {
			case *r.State == record.Completed:
				data["output"] = optional.Value(r.Result)
				t.tell(ToolResult, data)
			case r.State.Terminal() && (*r.State != record.Unknown || r.Result != nil):
				data["error"] = optional.Value(r.Result)
				t.tell(ToolExecutionError, data)
			default:
				return false
			}
		}

		t.talk.sentBefore = max(t.talk.sentBefore, c.Record.Seq+1)
	}
	return true
}

// dataOf returns what all events about a call say of it.
func dataOf(r *record.ActTool) map[string]any {
	return map[string]any{"turn": r.Seq, "id": r.ToolCallID, "tool_call_id": r.ProviderCallID, "name": r.Name}
}

// sendText sends the recorded text of a turn, without the part that this listener has already received as deltas.
func (t *teller) sendText(turn int64, text string) {
	if text == "" {
		return
	}

	t.talk.textsBefore = max(t.talk.textsBefore, turn+1)
	if t.number+1 <= t.resumeAfter { // the listener has this event
		t.number++
		return
	}

	streamed := ""
	if b := t.talk.live[turn]; b != nil {
		streamed = b.String()
	}
	delete(t.talk.live, turn)
	if streamed == text { // all of it was streamed: count the event, send nothing
		t.number++
		return
	}

	data := map[string]any{"turn": turn, "text": text}
	switch rest, isPrefix := strings.CutPrefix(text, streamed); {
	case streamed != "" && isPrefix:
		data["text"] = rest
	case streamed != "" || t.talk.After > 0: // the listener may have some of it, or another version
		data["reset"] = true
	}
	t.tell(TextDelta, data)
}

func (t *teller) sendEnd(d *runstore.RunDetail) {
	var result struct {
		FinalResponse json.RawMessage `json:"final_response"`
	}
	_ = json.Unmarshal([]byte(optional.Value(d.Plan.Summary)), &result) // a run that was stopped has none

	data := map[string]any{"status": "success", "reason": "stop"}
	if d.State != record.Completed {
		message := optional.Value(d.Plan.ErrorMessage)
		data["status"], data["reason"] = "error", "error"
		switch kind := optional.Value(d.Plan.ErrorKind); {
		case kind == "max_iterations":
			data["reason"] = "turn_limit_reached"
		case d.State == record.Cancelled:
			data["reason"] = "stopped"
		}

		data["error_message"] = message
		if data["reason"] != "turn_limit_reached" {
			t.tell(ErrorEvent, map[string]any{"message": message, "error_type": d.Plan.ErrorKind})
		}
	} else if result.FinalResponse != nil {
		data["final_response"] = result.FinalResponse
	}

	t.tell(StreamEnd, data)
}
