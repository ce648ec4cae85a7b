// Package record is the vocabulary of Actlog: what a plan, an agent execution,
// a think-act cycle, a tool call and their companions are, which states they go
// through, how their ids look, what is valid, and how several tellings of one
// thing become one. It knows no database and no wire format.
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

// Kinds lists every kind, parents before children: the order in which they are
// written.
var Kinds = []Kind{
	KindPlan, KindAgentExecution, KindThinkAct, KindActTool,
	KindThought, KindArtifact, KindSource, KindWait,
}

// Change is something told about one row: its key, and whatever else is known.
// A nil field says nothing; it never un-sets what was told before. The types of
// this package that a pointer makes a Change are [Plan], [AgentExecution],
// [ThinkAct], [ActTool], [Thought], [Artifact], [Source] and [Wait].
type Change interface {
	// Kind names what is told about.
	Kind() Kind
	// Key identifies the row.
	Key() Key
	// Revision orders contradicting changes to one row; nil: by arrival.
	Revision() *int64
}

// New makes an empty change of a kind, or nil where the kind is unknown.
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

// Key is the natural key of a row. Root is the root plan. Parent is the step (of
// cycles and tool calls) or the plan (of thoughts, artifacts, sources and waits)
// that the row belongs to; Seq is the cycle; ID is the row's own id or name.
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
