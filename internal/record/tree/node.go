package tree

import (
	"cmp"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/record"
)

// Node is a row of a tree: a plan, a step, a cycle, a tool call or a question. One of them is set.
type Node struct {
	Plan  *Plan
	Step  *Step
	Cycle *Cycle
	Call  *ToolCall
	Wait  *record.Wait
}

// State returns the state of the node.
func (n Node) State() record.State {
	var s *record.State
	initial := record.Pending
	switch {
	case n.Plan != nil:
		s = n.Plan.Record.State
	case n.Step != nil:
		s = n.Step.Record.State
	case n.Cycle != nil:
		s = n.Cycle.Record.State
	case n.Call != nil:
		s = n.Call.Record.State
	case n.Wait != nil:
		s, initial = n.Wait.State, record.Waiting
	}

	if s == nil {
		return initial
	}
	return *s
}

// GraphExecutor is the name of the executor whose runs carry out a graph that a model planned.
const GraphExecutor = "dag"

// StepName returns what a step of a plan is called: its agent or, if it carries out a node of a graph, the node, which
// its description names. It may be empty. All steps of a graph are nodes but the first, which plans it.
func StepName(executor, agent, description string, index *int64) (name string, isNode bool) {
	if isNode = executor == GraphExecutor && index != nil && *index > 0; isNode {
		return cmp.Or(description, agent), true
	}
	return agent, false
}

// LeftBehind is how a row is shown that began and has not ended in a run that has: whoever recorded it did not say what
// became of it. No row on record has this state.
const LeftBehind record.State = "LEFT_BEHIND"

// ShownState returns the state in which a row is shown, from those of the row and of the plan at the top.
func ShownState(top, row record.State) record.State {
	if top.Terminal() && row.Status() == record.StatusRunning {
		return LeftBehind
	}
	return row
}

// WaitTimedOut is the kind of the error of a question that nobody answered in time.
const WaitTimedOut = "wait_timed_out"

// Error returns the kind of the error of the node and its message. Each may be nil. The message of a question is what
// was asked.
func (n Node) Error() (kind, message *string) {
	switch {
	case n.Plan != nil:
		return n.Plan.Record.ErrorKind, n.Plan.Record.ErrorMessage
	case n.Step != nil:
		return n.Step.Record.ErrorKind, n.Step.Record.ErrorMessage
	case n.Cycle != nil:
		return n.Cycle.Record.ErrorKind, n.Cycle.Record.ErrorMessage
	case n.Wait != nil:
		if n.State() == record.TimedOut {
			asked := n.Wait.Title
			if !notBlank(asked) {
				asked = n.Wait.FormDescription
			}
			return new(WaitTimedOut), asked
		}
		return nil, nil
	}
	return n.Call.Record.ErrorKind, n.Call.Record.ErrorMessage
}

// CutError leaves of the error's message its first characters.
func (n Node) CutError(chars int) {
	switch {
	case n.Plan != nil:
		n.Plan.Record.ErrorMessage = beginning(n.Plan.Record.ErrorMessage, chars)
	case n.Step != nil:
		n.Step.Record.ErrorMessage = beginning(n.Step.Record.ErrorMessage, chars)
	case n.Cycle != nil:
		n.Cycle.Record.ErrorMessage = beginning(n.Cycle.Record.ErrorMessage, chars)
	case n.Call != nil:
		n.Call.Record.ErrorMessage = beginning(n.Call.Record.ErrorMessage, chars)
	}
}

func beginning(s *string, chars int) *string {
	if s == nil || len(*s) <= chars {
		return s
	}
	return new(strings.Clone(Beginning(*s, chars)))
}

// Record returns the row of the node.
func (n Node) Record() record.Change {
	switch {
	case n.Plan != nil:
		return &n.Plan.Record
	case n.Step != nil:
		return &n.Step.Record
	case n.Cycle != nil:
		return &n.Cycle.Record
	case n.Wait != nil:
		return n.Wait
	}
	return &n.Call.Record
}

// Times returns when the node began and ended. Each may be nil.
func (n Node) Times() (start, end *time.Time) {
	switch {
	case n.Plan != nil:
		return n.Plan.Record.StartTime, n.Plan.Record.EndTime
	case n.Step != nil:
		return n.Step.Record.StartTime, n.Step.Record.EndTime
	case n.Cycle != nil:
		c := &n.Cycle.Record
		return earliest(c.ThinkStartTime, c.ActStartTime), latest(c.ThinkEndTime, c.ActEndTime)
	case n.Wait != nil:
		return n.Wait.StartTime, n.Wait.EndTime
	}
	return n.Call.Record.StartTime, n.Call.Record.EndTime
}

func earliest(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

// ForkedFrom returns the address of the row of another run that the row is a copy of; nil: it is none. A root plan is a
// run of its own, whatever it goes on from.
func (n Node) ForkedFrom() *string {
	switch {
	case n.Plan != nil && n.Plan.Record.IsRoot():
		return nil
	case n.Plan != nil:
		return n.Plan.Record.ForkedFrom
	case n.Step != nil:
		return n.Step.Record.ForkedFrom
	case n.Cycle != nil:
		return n.Cycle.Record.ForkedFrom
	case n.Wait != nil:
		return n.Wait.ForkedFrom
	}
	return n.Call.Record.ForkedFrom
}

// Failed reports whether the node failed, or was left behind by a process that died.
func (n Node) Failed() bool {
	s := n.State()
	return s == record.Failed || s == record.Interrupted
}

// Started returns the sub-plans of the step by the tool calls that started them, and those whose call is not
// known.
func (s *Step) Started() (by map[*ToolCall][]*Plan, others []*Plan) {
	for _, p := range s.SubPlans {
		if t := p.ToolCall; t != nil && t.Record.StepID == s.Record.StepID {
			if by == nil {
				by = map[*ToolCall][]*Plan{}
			}
			by[t] = append(by[t], p)
		} else {
			others = append(others, p)
		}
	}
	return by, others
}

// PlacedWaits returns the waits of the plan by what they hang on: the tool call that they name, else the step that they
// name, else the plan. A call or a step that is not in the plan does not count.
func (p *Plan) PlacedWaits() map[Node][]*record.Wait {
	if len(p.Waits) == 0 {
		return nil
	}

	type key struct{ step, call string }
	places := map[key]Node{}
	for _, s := range p.Steps {
		places[key{step: s.Record.StepID}] = Node{Step: s}
		for _, c := range s.Cycles {
			for _, t := range c.ToolCalls {
				k := key{s.Record.StepID, t.Record.ToolCallID}
				if _, taken := places[k]; !taken {
					places[k] = Node{Call: t}
				}
			}
		}
	}

	placed := map[Node][]*record.Wait{}
	for _, w := range p.Waits {
		n, ok := places[key{optional.Value(w.StepID), optional.Value(w.ToolCallID)}]
		if !ok {
			n, ok = places[key{step: optional.Value(w.StepID)}]
		}
		if !ok {
			n = Node{Plan: p}
		}

		placed[n] = append(placed[n], w)
	}
	return placed
}
