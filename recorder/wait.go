package recorder

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/actlog/actlog/record"
)

// WaitInfo is what a human is asked. Fields with their zero value are not reported.
type WaitInfo struct {
	ID              string          // default: a new one
	Type            record.WaitType // default: [record.WaitUserInput]
	Title           string
	FormDescription string
	FormInputs      []map[string]string // label, value, name, type, ...
	ExpiresAt       time.Time
}

// Wait is the handle of a wait for a human.
type Wait struct {
	reporter
	plan  *Plan
	id    string
	start time.Time
}

// StartWait records that the plan waits for a human, at the step and tool call of the plan that
// ctx is in. Their states stay as they are. If the plan has ended, the error wraps [record.ErrEnded].
func (p *Plan) StartWait(ctx context.Context, info WaitInfo) (*Wait, error) {
	w := p.OpenWait(cmp.Or(info.ID, record.NewWaitID()))
	what := action{"start", w}
	if err := w.admit(what); err != nil {
		return w, err
	}

	w.start = p.rec.now()
	var inputs json.RawMessage
	var encodeErr error
	if info.FormInputs != nil {
		inputs, encodeErr = jsonOf("formInputs", info.FormInputs)
	}

	row := w.row()
	row.Type = new(cmp.Or(info.Type, record.WaitUserInput))
	row.Title = optional(info.Title)
	row.FormDescription = optional(info.FormDescription)
	row.FormInputs = inputs

	row.State = new(record.Waiting)
	row.StartTime = &w.start
	row.ExpiresAt = optionalTime(info.ExpiresAt)
	row.StepID, row.ToolCallID = p.within(ctx)
	return w, withEncodeError(what, encodeErr, w.report(ctx, what, row))
}

// OpenWait returns a handle of a wait of the plan that is on record already, and sends nothing.
// Use it to decide the wait in the process that receives the human's answer.
func (p *Plan) OpenWait(id string) *Wait {
	w := &Wait{reporter: reporter{rec: p.rec, parent: &p.reporter}, plan: p, id: id}
	w.handle = w
	return w
}

func (w *Wait) name() string { return "wait " + w.id }

// ID is the id of the wait.
func (w *Wait) ID() string { return w.id }

func (w *Wait) row() *record.Wait {
	return &record.Wait{
		RootPlanID: w.plan.link.RootPlanID, PlanID: w.plan.link.PlanID, WaitID: w.id, Rev: new(w.rec.nextRev()),
	}
}

// WaitDecision is the outcome of a wait.
type WaitDecision struct {
	// State is one of [record.Submitted], [record.Accepted], [record.Modified],
	// [record.Approved], [record.Rejected], [record.TimedOut], [record.Cancelled].
	State record.State
	// Decision is what the human said: a string as it is, any other value (the fields of a form)
	// as its JSON.
	Decision any
	By       string // who decided
}

// Decide records the outcome of the wait, even after ctx was cancelled. The first decision counts.
// After an error, call it again to record that decision.
func (w *Wait) Decide(ctx context.Context, decision WaitDecision) error {
	what := action{"decide", w}
	switch decision.State {
	case record.Submitted, record.Accepted, record.Modified, record.Approved, record.Rejected, record.TimedOut,
		record.Cancelled:
	default:
		return invalidState(what, "must be one that decides a wait, not %q", decision.State)
	}

	text, encodeErr := textOf("decision", decision.Decision)
	return withEncodeError(what, encodeErr, w.end(ctx, what, decision.State, nil, func(o outcome) record.Change {
		row := w.row()
		row.State = &o.state
		row.Decision = text
		row.DecidedBy = optional(decision.By)
		row.EndTime = new(notBefore(w.rec.now(), w.start))
		return row
	}))
}
