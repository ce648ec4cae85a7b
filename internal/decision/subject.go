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
	Plan       json.RawMessage
	// Decisions are those that are possible; empty: they follow from the type of the wait.
	Decisions []string
}

// SubjectOf reads the subject of a wait. Members that cannot be read are empty, and so is all of a subject
// that was cut.
func SubjectOf(w *record.Wait) (s Subject) {
	_ = json.Unmarshal(w.Subject, &s) // it reads what it can
	return s
}
