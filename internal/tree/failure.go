package tree

import (
	"slices"
	"time"

	"github.com/actlog/actlog/record"
)

// Node is a plan, a step, a cycle or a tool call of a tree: one of them is set.
type Node struct {
	Plan  *Plan
	Step  *Step
	Cycle *Cycle
	Call  *ToolCall
}

// State returns the state of the node.
func (n Node) State() record.State {
	var s *record.State
	switch {
	case n.Plan != nil:
		s = n.Plan.Record.State
	case n.Step != nil:
		s = n.Step.Record.State
	case n.Cycle != nil:
		s = n.Cycle.Record.State
	case n.Call != nil:
		s = n.Call.Record.State
	}
	if s == nil {
		return record.Pending
	}
	return *s
}

// Error returns the kind of the error of the node and its message. Each may be nil.
func (n Node) Error() (kind, message *string) {
	switch {
	case n.Plan != nil:
		return n.Plan.Record.ErrorKind, n.Plan.Record.ErrorMessage
	case n.Step != nil:
		return n.Step.Record.ErrorKind, n.Step.Record.ErrorMessage
	case n.Cycle != nil:
		return n.Cycle.Record.ErrorKind, n.Cycle.Record.ErrorMessage
	}
	return n.Call.Record.ErrorKind, n.Call.Record.ErrorMessage
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
	}
	return n.Call.Record.StartTime, n.Call.Record.EndTime
}

func earliest(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

// Failed reports whether the node failed, or was left behind by a process that died.
func (n Node) Failed() bool {
	s := n.State()
	return s == record.Failed || s == record.Interrupted
}

// Failure is something that failed by itself: nothing below it failed.
type Failure struct {
	// Path are the nodes from the plan that was asked for down to what failed.
	Path []Node
	// Spread reports that all steps and plans above failed, too.
	Spread bool
}

// Node returns what failed.
func (f *Failure) Node() Node { return f.Path[len(f.Path)-1] }

// Error returns the kind of the error and its message, those of what is above if the record of what failed has none. Each may be
// nil.
func (f *Failure) Error() (kind, message *string) {
	for _, n := range slices.Backward(f.Path) {
		kind, message = n.Error()
		if kind != nil && *kind != "" || message != nil && *message != "" {
			return kind, message
		}
	}
	return nil, nil
}

// Failures returns what failed by itself in a tree that [Nest] has filled, in the order of the tree.
func Failures(p *Plan) []Failure {
	var f finder
	f.plan(p, true)
	return f.found
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

type finder struct {
	path  []Node
	found []Failure
}

// at visits a node, and what is below it. spread says that all steps and plans above failed.
func (f *finder) at(n Node, spread bool, below func(spread bool)) {
	f.path = append(f.path, n)
	before := len(f.found)
	over := spread
	if n.Plan != nil || n.Step != nil {
		over = spread && n.Failed()
	}
	below(over)
	if len(f.found) == before && n.Failed() {
		f.found = append(f.found, Failure{Path: slices.Clone(f.path), Spread: spread})
	}
	f.path = f.path[:len(f.path)-1]
}

func (f *finder) plan(p *Plan, spread bool) {
	f.at(Node{Plan: p}, spread, func(spread bool) {
		for _, s := range p.Steps {
			f.step(s, spread)
		}
		for _, c := range p.SubPlans {
			f.plan(c, spread)
		}
	})
}

func (f *finder) step(s *Step, spread bool) {
	by, others := s.Started()
	f.at(Node{Step: s}, spread, func(spread bool) {
		for _, c := range s.Cycles {
			f.at(Node{Cycle: c}, spread, func(spread bool) {
				for _, t := range c.ToolCalls {
					f.at(Node{Call: t}, spread, func(spread bool) {
						for _, p := range by[t] {
							f.plan(p, spread)
						}
					})
				}
			})
		}
		for _, p := range others {
			f.plan(p, spread)
		}
	})
}

// Cause returns which failure is the cause of how the tree ended: the last failed call or cycle of which all steps
// and plans above failed; if there is none, the last step or plan of that kind; else the first failure, which the run
// recovered from. -1: nothing failed.
func Cause(failures []Failure) (cause int, recovered bool) {
	cause = -1
	for i := range failures {
		if failures[i].Spread && (cause < 0 || failures[i].after(&failures[cause])) {
			cause = i
		}
	}
	if cause < 0 && len(failures) > 0 {
		return 0, true
	}
	return cause, false
}

// after reports whether f rather than o is the cause. f comes later in the tree.
func (f *Failure) after(o *Failure) bool {
	work := func(n Node) bool { return n.Cycle != nil || n.Call != nil }
	if a, b := work(f.Node()), work(o.Node()); a != b {
		return a
	}
	a, b := f.ended(), o.ended()
	return a == nil || b == nil || !a.Before(*b)
}

func (f *Failure) ended() *time.Time {
	start, end := f.Node().Times()
	return latest(start, end)
}
