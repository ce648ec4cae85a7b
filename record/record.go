// Package record owns the vocabulary of Actlog: what a plan, an agent execution, a think-act
// cycle, a tool call and their companions are, their states, ids, limits and errors. It knows
// no database and no wire format.
//
// The struct tags say how each field is kept; internal/record/field reads them.
package record

import "strings"

// Kind names one of the eight things that can be recorded.
type Kind string

// The kinds, by their names on the wire.
const (
	KindPlan           Kind = "plan"
	KindAgentExecution Kind = "agentExecution"
	KindThinkAct       Kind = "thinkAct"
	KindActTool        Kind = "actTool"
	KindThought        Kind = "thought"
	KindArtifact       Kind = "artifact"
	KindSource         Kind = "source"
	KindWait           Kind = "wait"
)

// Kinds lists every kind, parents before children.
var Kinds = []Kind{
	KindPlan, KindAgentExecution, KindThinkAct, KindActTool,
	KindThought, KindArtifact, KindSource, KindWait,
}

// Change says something about one row: its key, and whatever else is known. A nil field says
// nothing; it never clears an earlier value. Pointers to [Plan], [AgentExecution],
// [ThinkAct], [ActTool], [Thought], [Artifact], [Source] and [Wait] are changes.
type Change interface {
	// Kind is the kind of the row.
	Kind() Kind
	// Key identifies the row.
	Key() Key
	// Revision orders contradicting changes to one row. nil: the later arrival wins.
	Revision() *int64
}

// New returns an empty change of a kind, or nil if the kind is unknown.
func New(k Kind) Change {
	switch k {
	case KindPlan:
		return new(Plan)
	case KindAgentExecution:
		return new(AgentExecution)
	case KindThinkAct:
		return new(ThinkAct)
	case KindActTool:
		return new(ActTool)
	case KindThought:
		return new(Thought)
	case KindArtifact:
		return new(Artifact)
	case KindSource:
		return new(Source)
	case KindWait:
		return new(Wait)
	}
	return nil
}

// Key is the natural key of a row. Root is the root plan. Parent is the step that a cycle or
// tool call belongs to, or the plan that a thought, artifact, source or wait belongs to. Seq
// is the cycle. ID is the row's own id or name.
type Key struct {
	Kind   Kind
	Root   string
	Parent string
	Seq    int64
	ID     string
}

// Compare orders keys of one kind as the database does: root, parent, seq, id.
func (k Key) Compare(o Key) int {
	if c := strings.Compare(k.Root, o.Root); c != 0 {
		return c
	}
	if c := strings.Compare(k.Parent, o.Parent); c != 0 {
		return c
	}

	switch {
	case k.Seq < o.Seq:
		return -1
	case k.Seq > o.Seq:
		return 1
	}
	return strings.Compare(k.ID, o.ID)
}
