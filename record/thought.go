package record

import "time"

// Thought is an entry of the reasoning log. Iteration is -1 for a fatal error. Confidence is from 0
// to 1.
type Thought struct {
	RootPlanID        string       `record:"rootPlanId,key"`
	PlanID            string       `record:"planId,key"`
	ThoughtID         string       `record:"thoughtId,key"`
	Rev               *int64       `record:"rev,revision"`
	StepID            *string      `record:"stepId,id"`
	AgentID           *string      `record:"agentId,id"`
	Role              *string      `record:"role,name"`
	Iteration         *int64       `record:"iteration,min=-1,small"`
	Type              *ThoughtType `record:"type,enum"`
	Content           *string      `record:"content,text"`
	RelatedOperations []string     `record:"relatedOperations,name"`
	Confidence        *float64     `record:"confidence,fraction"`
	Time              *time.Time   `record:"time"`

	// ForkedFrom is the thought of another run that this one is a copy of, as thought:THOUGHT; nil: it is none. A copy
	// counts in no figure.
	ForkedFrom *string `record:"forkedFrom,address"`
}

// ThoughtType is the type of an entry of the reasoning log.
type ThoughtType string

// The thought types.
const (
	ThoughtAnalysis    ThoughtType = "analysis"
	ThoughtDecision    ThoughtType = "decision"
	ThoughtAction      ThoughtType = "action"
	ThoughtObservation ThoughtType = "observation"
	ThoughtConclusion  ThoughtType = "conclusion"
	ThoughtError       ThoughtType = "error"
)

// Kind implements [Change].
func (t *Thought) Kind() Kind { return KindThought }

// Key implements [Change].
func (t *Thought) Key() Key {
	return Key{Kind: KindThought, Root: t.RootPlanID, Parent: t.PlanID, ID: t.ThoughtID}
}

// Revision implements [Change].
func (t *Thought) Revision() *int64 { return t.Rev }
