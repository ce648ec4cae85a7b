package tree

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/actlog/actlog/record"
)

// Failure is a row with what went wrong there.
type Failure struct {
	// Path are the rows from the plan that was asked for down to this one.
	Path []Node
	// Kind and Message are the error, those of the nearest row above if the row has neither. Each may be nil.
	Kind, Message *string
	// Text is the [Line] of the message; empty: there is none.
	Text string
	// Tool is the name of the tool that was called, or whose call asked; nil: it was none, or it is not known.
	Tool *string
}

// Node returns the row.
func (f *Failure) Node() Node { return f.Path[len(f.Path)-1] }

// CutError leaves of the message its first characters.
func (f *Failure) CutError(chars int) { f.Message = beginning(f.Message, chars) }

// Findings say why a tree is in its state, and what went wrong in it.
type Findings struct {
	// Cause is the row that explains the state: what ended the run or, as long as it is live, the question that it waits for, else
	// what went wrong so far. nil: nothing does.
	Cause *Failure
	// Recovered reports that the run went on after the cause, which is its first failure.
	Recovered bool
	// Failures are what failed, the cause first if it ended: it, and the rows that failed while none below them did, in the order of
	// the tree from the cause on, round to the row before it.
	Failures []Failure
}

// Asks returns the open question that is the cause; nil: the cause is none.
func (f *Findings) Asks() *record.Wait {
	if f.Cause == nil || f.Cause.Node().Wait == nil || f.Cause.Node().State() != record.Waiting {
		return nil
	}
	return f.Cause.Node().Wait
}

// Explain finds the cause of the state of a tree that [Nest] has filled, with the waits of its plans. It is the only place that
// decides about it, see docs/design.md.
func Explain(p *Plan) *Findings {
	f := finder{started: map[*ToolCall][]*Plan{}, hang: map[Node][]Node{}, left: map[Node][]leftRow{}, lines: map[Node]string{}}
	f.place(p)
	root, out := Node{Plan: p}, new(Findings)
	state := root.State()
	live := !state.Terminal()
	won := state == record.Completed || state == record.Skipped

	var path []Node
	if live {
		path = f.oldestQuestion(root)
	}
	switch {
	case path != nil || won:
	case endedBadly(root):
		path = f.cause(root, []Node{root})
	default:
		if r, ok := lastOf(f.leftBelow(root)); ok {
			path = f.cause(r.node(), slices.Concat([]Node{root}, r.path))
		}
	}

	if path != nil {
		f.causeNode = path[len(path)-1]
	}
	f.visit(root)
	if path == nil && !live && len(f.leaves) > 0 {
		path, out.Recovered = f.leaves[0], true
	}
	if path != nil {
		out.Cause = new(f.failure(path))
	}
	f.list(out)
	return out
}

// list fills the failures.
func (f *finder) list(out *Findings) {
	above := map[Node]bool{}
	if out.Cause != nil && out.Asks() == nil {
		out.Failures = append(out.Failures, *out.Cause)
		for _, n := range out.Cause.Path {
			above[n] = true
		}
	}
	for _, path := range slices.Concat(f.leaves[f.causeAt:], f.leaves[:f.causeAt]) {
		if !above[path[len(path)-1]] {
			out.Failures = append(out.Failures, f.failure(path))
		}
	}
}

type finder struct {
	started map[*ToolCall][]*Plan
	hang    map[Node][]Node // questions below plans, steps and calls; below steps first the sub-plans of unknown calls
	asks    bool            // whether there are questions
	left    map[Node][]leftRow
	lines   map[Node]string

	// visit sets these.
	path      []Node
	leaves    [][]Node // the paths of the rows that failed while none below them did
	causeNode Node
	causeAt   int // how many leaves come before the cause
}

// leftRow is a row that is left below another one, with the way there.
type leftRow struct{ path []Node }

func (r leftRow) node() Node { return r.path[len(r.path)-1] }

// place notes what hangs on the rows of a plan, and of those below it.
func (f *finder) place(p *Plan) {
	for _, s := range p.Steps {
		by, others := s.Started()
		for t, plans := range by {
			f.started[t] = plans
		}
		for _, sub := range others {
			f.hang[Node{Step: s}] = append(f.hang[Node{Step: s}], Node{Plan: sub})
		}
	}
	for n, waits := range p.PlacedWaits() {
		f.asks = true
		for _, w := range waits {
			f.hang[n] = append(f.hang[n], Node{Wait: w})
		}
	}
	for c := range p.Children() {
		f.place(c)
	}
}

// below returns the rows directly below one, in the order of the tree.
func (f *finder) below(n Node) (rows []Node) {
	switch {
	case n.Plan != nil:
		rows = make([]Node, 0, len(n.Plan.Steps)+len(n.Plan.SubPlans))
		for _, s := range n.Plan.Steps {
			rows = append(rows, Node{Step: s})
		}
		for _, p := range n.Plan.SubPlans {
			rows = append(rows, Node{Plan: p})
		}
		rows = append(rows, f.hang[n]...)
	case n.Step != nil:
		rows = make([]Node, 0, len(n.Step.Cycles))
		for _, c := range n.Step.Cycles {
			rows = append(rows, Node{Cycle: c})
		}
		rows = append(rows, f.hang[n]...)
	case n.Cycle != nil:
		rows = make([]Node, 0, len(n.Cycle.ToolCalls))
		for _, t := range n.Cycle.ToolCalls {
			rows = append(rows, Node{Call: t})
		}
	case n.Call != nil:
		rows = slices.Clone(f.hang[n])
		for _, p := range f.started[n.Call] {
			rows = append(rows, Node{Plan: p})
		}
	}
	return rows
}

// endedBadly reports whether the row failed, was left behind, was stopped with words, or is a question that nobody answered in time.
func endedBadly(n Node) bool {
	switch n.State() {
	case record.Failed, record.Interrupted, record.TimedOut:
		return true
	case record.Cancelled:
		return n.Wait == nil && hasError(n)
	}
	return false
}

// hasError reports whether an error was recorded of the row.
func hasError(n Node) bool {
	kind, message := n.Error()
	return notBlank(kind) || notBlank(message)
}

func notBlank(s *string) bool { return s != nil && strings.TrimSpace(*s) != "" }

// leftBelow returns the rows below one that ended badly and that nothing recovered.
func (f *finder) leftBelow(n Node) []leftRow {
	rows, known := f.left[n]
	if !known {
		for _, c := range f.candidates(n) {
			rows = append(rows, f.leftOf(c)...)
		}
		f.left[n] = rows
	}
	return rows
}

// leftOf returns the row if it ended badly. Through others than those that ended well it looks at what is below.
func (f *finder) leftOf(n Node) (rows []leftRow) {
	skipped, completed := n.State() == record.Skipped, n.State() == record.Completed
	only := func(Node) bool { return true }
	switch {
	case endedBadly(n) && (n.Cycle == nil || hasError(n)):
		return []leftRow{{[]Node{n}}}
	case n.Cycle != nil && !hasError(n):
	case n.Call != nil && (skipped || n.State() == record.Cancelled):
		only = func(below Node) bool { return below.Wait != nil }
	case skipped || completed:
		return nil
	}

	for _, r := range f.leftBelow(n) {
		if only(r.path[0]) {
			rows = append(rows, leftRow{append([]Node{n}, r.path...)})
		}
	}
	return rows
}

// candidates returns the rows directly below one but those that something recovered: another cycle of the step, or the same tool called
// again in the cycle.
func (f *finder) candidates(n Node) []Node {
	switch {
	case n.Step != nil:
		cycles := len(n.Step.Cycles)
		if cycles == 0 {
			return f.hang[n]
		}
		last := Node{Cycle: n.Step.Cycles[cycles-1]}
		began, _ := last.Times()
		rows := []Node{last}
		for _, h := range f.hang[n] {
			if _, ended := h.Times(); began == nil || ended == nil || ended.After(*began) {
				rows = append(rows, h)
			}
		}
		return rows
	case n.Cycle != nil:
		rows := f.below(n)
		done := map[string]bool{} // by a later call
		var kept []Node
		for _, c := range slices.Backward(rows) {
			name := c.Call.Record.Name
			if !notBlank(name) || !done[*name] {
				kept = append(kept, c)
			}
			if notBlank(name) && c.State() == record.Completed {
				done[*name] = true
			}
		}
		slices.Reverse(kept)
		return kept
	}
	return f.below(n)
}

// cause returns the path of the cause of how a row ended: the row itself, or one that is left below it.
func (f *finder) cause(n Node, path []Node) []Node {
	for !f.ownError(n) {
		last, ok := lastOf(f.leftBelow(n))
		if !ok {
			break
		}
		path = append(path, last.path...)
		n = last.node()
	}
	return path
}

// lastOf returns the row that ended last, of those that ended at the same time or at an unknown one the later in the tree.
func lastOf(rows []leftRow) (last leftRow, ok bool) {
	for _, r := range rows {
		if !ok || !endedBefore(r.node(), last.node()) {
			last, ok = r, true
		}
	}
	return last, ok
}

func endedBefore(a, b Node) bool {
	_, x := a.Times()
	_, y := b.Times()
	return x != nil && y != nil && x.Before(*y)
}

// passedOn are the kinds of errors which say that something below failed.
var passedOn = map[string]bool{
	"tool": true, "step": true, "step_failed": true, "operations_failed": true, "node": true, "dependency": true, "sub_plan": true,
}

// minLine is from how many characters on the line of an error is known again in the text of another.
const minLine = 8

// ownError reports whether a row has an error that it did not get from below.
func (f *finder) ownError(n Node) bool {
	last, ok := lastOf(f.leftBelow(n))
	if !hasError(n) || !ok {
		return hasError(n)
	}
	kind, message := n.Error()
	if last.node().Wait != nil || !notBlank(kind) || passedOn[*kind] {
		return false
	}

	text := ""
	if notBlank(message) {
		text = plain(*message)
	}
	return !f.anyLeft(n, func(below Node) bool {
		k, _ := below.Error()
		return notBlank(k) && *k == *kind
	}) && !f.anyLeft(n, func(below Node) bool {
		line := f.line(below)
		return utf8.RuneCountInString(line) >= minLine && strings.Contains(text, line)
	})
}

// anyLeft reports whether something is true of a row that is left below one, at any depth.
func (f *finder) anyLeft(n Node, is func(Node) bool) bool {
	return slices.ContainsFunc(f.leftBelow(n), func(r leftRow) bool { return is(r.node()) || f.anyLeft(r.node(), is) })
}

// line returns the line of the error of the row itself.
func (f *finder) line(n Node) string {
	line, known := f.lines[n]
	if !known {
		if _, message := n.Error(); message != nil {
			line = lineOf(n, *message)
		}
		f.lines[n] = line
	}
	return line
}

// lineOf returns the line of an error of a row; of a question it is what was asked.
func lineOf(n Node, message string) string {
	if n.Wait != nil {
		return Beginning(firstLine(strings.Split(plain(message), "\n")), MaxLine)
	}
	return Line(message)
}

// failure returns what went wrong at the end of a path.
func (f *finder) failure(path []Node) Failure {
	out := Failure{Path: path}
	n := out.Node()
	called := n.Call
	if n.Wait != nil && len(path) > 1 {
		called = path[len(path)-2].Call
	}
	if called != nil && notBlank(called.Record.Name) {
		out.Tool = called.Record.Name
	}
	if n.State() == record.Waiting && n.Wait != nil {
		return out
	}

	for _, n := range slices.Backward(path) {
		if hasError(n) {
			out.Kind, out.Message = n.Error()
			out.Text = f.line(n)
			break
		}
	}
	return out
}

// visit finds the failures below a row, and where the cause stands among them.
func (f *finder) visit(n Node) {
	f.path = append(f.path, n)
	before := len(f.leaves)
	if n == f.causeNode {
		f.causeAt = before
	}
	for _, c := range f.below(n) {
		f.visit(c)
	}
	if len(f.leaves) == before && n.Failed() {
		f.leaves = append(f.leaves, slices.Clone(f.path))
	}
	f.path = f.path[:len(f.path)-1]
}

// oldestQuestion returns the path of the open question below a row that was asked first; nil: none is open.
func (f *finder) oldestQuestion(root Node) (oldest []Node) {
	if !f.asks {
		return nil
	}
	var path []Node
	var look func(Node)
	look = func(n Node) {
		path = append(path, n)
		if n.Wait != nil && n.State() == record.Waiting &&
			(oldest == nil || CompareNullsLast(n.Wait.StartTime, oldest[len(oldest)-1].Wait.StartTime, time.Time.Compare) < 0) {
			oldest = slices.Clone(path)
		}
		for _, c := range f.below(n) {
			look(c)
		}
		path = path[:len(path)-1]
	}
	look(root)
	return oldest
}
