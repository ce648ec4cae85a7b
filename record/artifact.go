package record

import "encoding/json"

// Artifact is something that a plan produced, known by its name.
type Artifact struct {
	RootPlanID string          `record:"rootPlanId,key"`
	PlanID     string          `record:"planId,key"`
	Name       string          `record:"name,key"`
	Rev        *int64          `record:"rev,revision"`
	StepID     *string         `record:"stepId,id"`
	ToolCallID *string         `record:"toolCallId,id"`
	Type       *string         `record:"type,name"`
	Value      json.RawMessage `record:"value,json"`

	// ForkedFrom is the artifact of another run that this one is a copy of, as artifact:NAME; nil: it is none. A copy
	// counts in no figure.
	ForkedFrom *string `record:"forkedFrom,address"`
}

// Kind implements [Change].
func (a *Artifact) Kind() Kind { return KindArtifact }

// Key implements [Change].
func (a *Artifact) Key() Key {
	return Key{Kind: KindArtifact, Root: a.RootPlanID, Parent: a.PlanID, ID: a.Name}
}

// Revision implements [Change].
func (a *Artifact) Revision() *int64 { return a.Rev }
