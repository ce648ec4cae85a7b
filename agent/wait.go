package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Wait is what a run waits for a human to decide: a form to fill in, or a call to approve.
type Wait struct {
	WaitID             string
	PlanID             string // of the run that waits: this one, or one below it
	StepID, ToolCallID string
	Type               record.WaitType
	Title, Description string
	// Decisions are what may be decided.
	Decisions []string
	// Form has the fields of a form: label, and maybe name, type, placeholder, required and options, which
	// are joined by commas.
	Form []map[string]string
	// Tool, Arguments and Touches are the call that waits, and what it would change.
	Tool      string
	Arguments json.RawMessage
	Touches   []string
	// Preview is exactly what the call would do; nil: its tool has no previews.
	Preview            *tool.Preview
	AskedAt, ExpiresAt time.Time // ExpiresAt is zero if the wait has no end
}

// The decisions.
const (
	Submit  = decision.Submit  // a form, with values
	Approve = decision.Approve // a call, once
	Accept  = decision.Accept  // a plan
	Reject  = decision.Reject
	Modify  = decision.Modify // a plan, with a text that says how
	Done    = decision.Done   // a call whose outcome is unknown: it happened
	Retry   = decision.Retry  // such a call: make it again
	Skip    = decision.Skip   // such a call: go on without it
)

// Decision is what a human decided about a wait.
type Decision struct {
	Decision string // one of [Wait.Decisions]
	// Values are the answers to a form, by the names of its fields, or by the labels of those without a name:
	// texts, numbers, booleans, or lists of these.
	Values map[string]any
	Text   string // what the human adds
	// By is who decided, as the program knows them: it vouches for that, and it is on record as decidedBy. Where a policy
	// says notStarter, it must be another one than [Job.Starter], and neither may be empty.
	By string
	// Claim is who decided, as they say themselves. It is on record as by.
	Claim string
}

// ErrDecided means that a wait was decided before, or has expired.
var ErrDecided = runstore.ErrDecided

// ErrSelfApproval means that somebody else than who started the run has to approve, and it is not known that this is
// so.
var ErrSelfApproval = runstore.ErrSelfApproval

// Decide writes a decision about a wait of a run, or of a run below it. The run goes on. The first decision
// counts: a second one is [ErrDecided]. [ErrSelfApproval] means that it is not for who decides. Else the error is a
// [*record.InvalidError] that names the field of the decision or of the form, or wraps [record.ErrNotFound] if the run
// has no such wait.
func (r *Runtime) Decide(ctx context.Context, planID, waitID string, d Decision) error {
	return r.during(func() error { return r.decide(ctx, planID, waitID, d) }, "decide wait %s of run %s", waitID, planID)
}

func (r *Runtime) decide(ctx context.Context, planID, waitID string, d Decision) error {
	if !storable(planID) || !storable(waitID) {
		return record.ErrNotFound
	}
	for field, text := range map[string]string{"text": d.Text, "by": d.By, "claim": d.Claim} {
		if !storable(text) {
			return invalid(field, "must be UTF-8 without NUL")
		}
	}

	made := decision.Decision{
		Decision: d.Decision, Text: d.Text, By: d.By, Claim: d.Claim, Values: map[string]json.RawMessage{},
		Redact: r.source.Redact,
	}
	for field, value := range d.Values {
		b, err := json.Marshal(value)
		if err != nil {
			return invalid(field, "cannot be written as JSON")
		}
		made.Values[field] = b
	}

	at, err := r.store.Reader.RunWait(ctx, planID, waitID)
	if err != nil {
		return err
	}
	return runs.Decide(ctx, r.store, at, func(*record.Wait) (decision.Decision, error) { return made, nil })
}

func waitOf(w *record.Wait) Wait {
	subject := decision.SubjectOf(w)
	out := Wait{
		WaitID: w.WaitID, PlanID: w.PlanID, StepID: optional.Value(w.StepID), ToolCallID: optional.Value(w.ToolCallID),
		Type:  record.WaitUserInput,
		Title: optional.Value(w.Title), Description: optional.Value(w.FormDescription), Decisions: decision.Decisions(w),
		Tool: optional.Value(subject.Name), Arguments: subject.Parameters, Touches: subject.Files,
		AskedAt: optional.Value(w.StartTime), ExpiresAt: optional.Value(w.ExpiresAt),
	}

	if w.Type != nil {
		out.Type = *w.Type
	}
	if p := subject.Preview; p != nil {
		out.Preview = &tool.Preview{Kind: tool.PreviewKind(p.Kind), Text: p.Text, Digest: p.SHA256}
	}
	_ = json.Unmarshal(w.FormInputs, &out.Form) // one that was cut is no form
	return out
}
