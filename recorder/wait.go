package recorder

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/actlog/actlog/record"
)

// WaitInfo is what a human is asked. What is left at its zero value is not told.
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
	t     teller
	plan  *Plan
	id    string
	start time.Time
}

// StartWait records that the plan waits for a human, at the step and tool call of
// the plan that ctx is in. It leaves their states as they are.
func (p *Plan) StartWait(ctx context.Context, info WaitInfo) (*Wait, error) {
	w := &Wait{
		t:     teller{rec: p.t.rec, parent: &p.t},
		plan:  p,
		id:    cmp.Or(info.ID, record.NewWaitID()),
		start: p.t.rec.now(),
	}
	what := doing{"starting", w}
	var inputs json.RawMessage
	var unencoded error
	if info.FormInputs != nil {
		inputs, unencoded = jsonOf("formInputs", info.FormInputs)
	}
	row := w.row()
	row.Type = new(cmp.Or(info.Type, record.WaitUserInput))
	row.Title = said(info.Title)
	row.FormDescription = said(info.FormDescription)
	row.FormInputs = inputs
	row.State = new(record.Waiting)
	row.StartTime = &w.start
	row.ExpiresAt = saidTime(info.ExpiresAt)
	row.StepID, row.ToolCallID = p.where(ctx)
	return w, withUnencoded(what, unencoded, w.t.tell(ctx, what, row))
}

// OpenWait gives the handle of a wait of the plan that is on record already, and
// tells nothing: to decide it where the human's answer arrives.
func (p *Plan) OpenWait(id string) *Wait {
	return &Wait{t: teller{rec: p.t.rec, parent: &p.t}, plan: p, id: id}
}

func (w *Wait) name() string { return "wait " + w.id }

// ID is the id of the wait.
func (w *Wait) ID() string { return w.id }

func (w *Wait) row() *record.Wait {
	return &record.Wait{
		RootPlanID: w.plan.link.RootPlanID, PlanID: w.plan.link.PlanID, WaitID: w.id, Rev: new(w.t.rec.nextRev()),
	}
}

// WaitDecision is what came of a wait.
type WaitDecision struct {
	// State is one of [record.Submitted], [record.Accepted], [record.Modified],
	// [record.Approved], [record.Rejected], [record.TimedOut], [record.Cancelled].
	State record.State
	// Decision is what the human said: a string, told as it is, or any value (the
	// fields of a form), told as its JSON.
	Decision any
	By       string // who decided
}

// Decide records what came of the wait, even after ctx was cancelled. The first
// decision counts; to call it again after an error tries again to record that.
func (w *Wait) Decide(ctx context.Context, decision WaitDecision) error {
	what := doing{"deciding", w}
	switch decision.State {
	case record.Submitted, record.Accepted, record.Modified, record.Approved, record.Rejected, record.TimedOut, record.Cancelled:
	default:
		return fmt.Errorf("%s: %w", what, &record.InvalidError{
			Code: record.CodeInvalidValue, Field: "state", Reason: fmt.Sprintf("must be one that decides a wait, not %q", string(decision.State)),
		})
	}
	text, unencoded := textOf("decision", decision.Decision)
	return withUnencoded(what, unencoded, w.t.end(ctx, what, func() []record.Change {
		row := w.row()
		row.State = &decision.State
		row.Decision = text
		row.DecidedBy = said(decision.By)
		row.EndTime = new(notBefore(w.t.rec.now(), w.start))
		return []record.Change{row}
	}))
}
