// Package decision owns what a human may decide about a wait, and what goes on record of it.
package decision

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/record"
)

// The decisions.
const (
	Submit  = "submit" // a form, with values
	Approve = "approve"
	Accept  = "accept"
	Reject  = "reject"
	Modify  = "modify" // a plan, with a text that says how
	Done    = "done"   // a call whose outcome is unknown: it happened
	Retry   = "retry"  // such a call: make it again
	Skip    = "skip"   // such a call: go on without it
)

// states are those of a wait after a decision.
var states = map[string]record.State{
	Submit: record.Submitted, Approve: record.Approved, Accept: record.Accepted, Reject: record.Rejected,
	Modify: record.Modified,
	Done:   record.Accepted, Retry: record.Approved, Skip: record.Rejected,
}

// All returns all decisions, in the order of their names.
func All() []string { return slices.Sorted(maps.Keys(states)) }

// byType are the decisions about waits whose subject names none.
var byType = map[record.WaitType][]string{
	record.WaitUserInput:        {Submit},
	record.WaitPlanValidation:   {Accept, Reject, Modify},
	record.WaitActionValidation: {Approve, Reject},
}

// Decision is what a human decided about a wait.
type Decision struct {
	Decision string
	// Values are the answers to a form, by the names of its fields, or by the labels of those that have no
	// name.
	Values map[string]json.RawMessage
	Text   string
	By     string // who decides, as the server or the program knows them; empty: they do not
	Claim  string // who decides, as they say themselves; may be empty
	// Redact returns a text without what must not be on record; nil: as it is.
	Redact func(string) string
}

// Decisions returns what may be decided about a wait: what its subject lists as decisions, else what
// follows from its type.
func Decisions(w *record.Wait) []string {
	if listed := SubjectOf(w).Decisions; len(listed) > 0 {
		return listed
	}

	of := record.WaitUserInput
	if w.Type != nil {
		of = *w.Type
	}
	return slices.Clone(byType[of])
}

// About returns what goes on record of the decision about a wait. The error is a [*record.InvalidError]
// that names the member, or the field of the form, that is at fault. It quotes no value.
func (d Decision) About(w *record.Wait) (*record.Wait, error) {
	allowed := Decisions(w)
	if !slices.Contains(allowed, d.Decision) || states[d.Decision] == "" {
		return nil, invalid("decision", "must be one of "+strings.Join(allowed, ", "))
	}

	switch {
	case d.Decision == Modify && strings.TrimSpace(d.Text) == "":
		return nil, invalid("text", "is required: it says what to change")
	case len(d.Text) > maxTextBytes:
		return nil, invalid("text", fmt.Sprintf("must not be longer than %d bytes", maxTextBytes))
	case max(len(d.By), len(d.Claim)) > record.MaxIDBytes:
		return nil, invalid("by", fmt.Sprintf("must not be longer than %d bytes", record.MaxIDBytes))
	case !d.Fills(w) && len(d.Values) > 0:
		return nil, invalid("values", "go with the answer to a form only")
	}

	if d.Redact == nil {
		d.Redact = func(s string) string { return s }
	}
	out := &record.Wait{
		RootPlanID: w.RootPlanID, PlanID: w.PlanID, WaitID: w.WaitID,
		State: new(states[d.Decision]), Decision: &d.Decision,
		DecidedBy: optional.Pointer(d.By), By: optional.Pointer(d.Redact(d.Claim)),
		DecisionText: optional.Pointer(d.Redact(d.Text)),
		EndTime:      new(time.Now()),
	}

	if d.Fills(w) {
		form, err := ReadForm(w.FormInputs)
		if err != nil {
			return nil, err
		}
		if out.FormInputs, err = form.answered(d.Values, d.Redact); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Fills reports whether a decision answers the form of a wait: a question may come with one, beside what is to be
// accepted.
func (d Decision) Fills(w *record.Wait) bool {
	return d.Decision == Submit || d.Decision == Accept && len(w.FormInputs) > 0
}

// ByWhom says by whom something was done: who was authenticated, and who they say they are. It is empty if neither is
// known, and begins with a space otherwise.
func ByWhom(known, claim string) string {
	switch {
	case known == "" && claim == "":
		return ""
	case known == "":
		return " by " + claim + " (not verified)"
	case claim == "" || claim == known:
		return " by " + known
	}
	return " by " + known + " (says: " + claim + ")"
}
