package decision

import (
	"encoding/json"

	"github.com/actlog/actlog/record"
)

// Subject is what a human decides on: a tool call, or a plan.
type Subject struct {
	Name       *string         // of the tool
	Parameters json.RawMessage // of the call
	Files      []string        // what the call would change
	Preview    *Preview        // exactly what the call would do; nil: its tool has no previews
	Plan       json.RawMessage
	// Decisions are those that are possible; empty: they follow from the type of the wait.
	Decisions []string
}

// Preview is what a call would do, as its tool says.
type Preview struct {
	Kind string `json:"kind"` // diff, statement, request, command or text
	Text string `json:"text"`
	// SHA256 is of all that the call would do, also of what the text leaves out, in hexadecimal digits.
	SHA256 string `json:"sha256"`
}

// Label says what the text of a preview is, for people: "what it would do: diff, sha256 0123...".
func (p Preview) Label() string { return "what it would do: " + p.Kind + ", sha256 " + p.SHA256 }

// SubjectOf reads the subject of a wait. Members that cannot be read are empty, and so is all of a subject
// that was cut.
func SubjectOf(w *record.Wait) (s Subject) {
	_ = json.Unmarshal(w.Subject, &s) // it reads what it can
	return s
}
