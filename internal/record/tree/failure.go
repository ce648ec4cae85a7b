package tree

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/actlog/actlog/record"
)

// Failure is a row with what went wrong there.
type Failure struct {
	// Kind and Message are the error, those of the nearest row above if the row has neither. Each may be nil.
	Kind, Message *string
	// Tool is the name of the tool that was called, or whose call asked; nil: it was none, or it is not known.
	Tool *string

	row  Node
	of   Node    // the row that has the error, which is the row or one above
	text *string // nil: it was not looked for yet
}

// StoredFailure returns a failure of which the text is known.
func StoredFailure(row Node, kind, message, tool *string, text string) *Failure {
	return &Failure{Kind: kind, Message: message, Tool: tool, row: row, text: &text}
}

// Node returns the row.
func (f *Failure) Node() Node { return f.row }

// Text returns the [Line] of the message; empty: there is none. It is looked for at the first call.
func (f *Failure) Text() string {
	if f.text == nil {
		f.text = new("")
		if f.Message != nil {
			*f.text = lineOf(f.of, *f.Message)
		}
	}
	return *f.text
}

// CutError leaves of the message its first characters. The text stays.
func (f *Failure) CutError(chars int) {
	if f.Message != nil && len(*f.Message) > chars {
		f.Text()
		f.Message = beginning(f.Message, chars)
	}
}

// Findings say why a tree is in its state, and what went wrong in it.
type Findings struct {
	// Cause is the row that explains the state: what ended the run or, as long as it is live, the question that it
	// waits for, else what went wrong so far. nil: nothing does.
	Cause *Failure
	// Path are the rows from the plan that was asked for down to the cause.
	Path []Node
	// Recovered reports that the run went on after the cause, which is its first failure.
	Recovered bool
	// Failures are all rows that failed with no failed row below them, and the cause, unless it is an open question.
	// The cause is first. The others follow in the order of the tree: first those after the cause, then those before it.
	Failures []Failure
}

// Asks returns the open question that is the cause; nil: the cause is none.
func (f *Findings) Asks() *record.Wait {
	if f.Cause == nil || f.Cause.row.Wait == nil || f.Cause.row.State() != record.Waiting {
		return nil
	}
	return f.Cause.row.Wait
}

// Explain finds the cause of the state of a tree that [Nest] has filled, with the waits of its plans. It is the only
// place that decides about it, see docs/design.md. Its work grows with the rows of the tree, however deep it is.
func Explain(p *Plan) *Findings {
	f := finder{
		started: map[*ToolCall][]*Plan{},
		hang:    map[Node][]Node{},
		left:    map[Node]left{},
		places:  map[Node]place{},
	}
	f.place(p)
	root, out := Node{Plan: p}, new(Findings)
	f.visit(root, Node{}, Node{})

	cause := f.causeOf(root)
	if cause == (Node{}) && root.State().Terminal() && len(f.leaves) > 0 {
		cause, out.Recovered = f.leaves[0], true
	}
	if cause != (Node{}) {
		out.Cause, out.Path = new(f.failure(cause)), f.path(cause)
	}
	f.list(out)
	return out
}

// causeOf returns the cause of the state of the tree; the zero Node: nothing ended it, or is left in it.
func (f *finder) causeOf(root Node) Node {
	state := root.State()
	switch {
	case !state.Terminal() && f.oldest != (Node{}):
		return f.oldest
	case state == record.Completed || state == record.Skipped:
		return Node{}
	}

	below := f.findLeft(root)
	if endedBadly(root) {
		return f.cause(root)
	}
	if below.last != (Node{}) {
		return f.cause(below.last)
	}
	return Node{}
}

func (f *finder) list(out *Findings) {
	out.Failures = make([]Failure, 0, len(f.leaves)+1)
	above := map[Node]bool{}
	from := 0
	if out.Cause != nil {
		from = f.places[out.Cause.row].leaves
		if out.Asks() == nil {
			out.Failures = append(out.Failures, *out.Cause)
			for _, n := range out.Path {
				above[n] = true
			}
		}
	}

	for _, leaves := range [][]Node{f.leaves[from:], f.leaves[:from]} {
		for _, n := range leaves {
			if !above[n] {
				out.Failures = append(out.Failures, f.failure(n))
			}
		}
	}
}

type finder struct {
	started map[*ToolCall][]*Plan
	hang    map[Node][]Node // questions below plans, steps and calls; below steps first the sub-plans of unknown calls

	// visit sets these.
	places map[Node]place // of what ended badly or asks, and of all above it
	leaves []Node         // the rows that failed while none below them did
	oldest Node           // the open question that was asked first

	// findLeft sets these.
	left map[Node]left
	bad  []Node // all rows that are left below the root, at any depth, in the order of the tree

	kinds map[string][]int // where in bad the rows with an error of this kind are; nil: they were not looked for
	lines *lineIndex       // of the errors in bad; nil as well
}

type place struct {
	up        Node // the row above
	withError Node // the nearest row that has an error: the row or one above
	leaves    int  // how many leaves come before it
}

// left is what is left below a row: the rows that ended badly and that nothing recovered.
type left struct {
	last     Node // the one that ended last of those directly below; zero: nothing is left
	unknown  bool // whether it is not known of one of them when it ended
	from, to int  // those at any depth, in finder.bad
}

// add adds what comes later in the tree. The last row is the one that ended last, of those that ended at the same time
// or at an unknown one the later in the tree. So a row without a time takes the place of all before it.
func (l *left) add(o left) {
	if o.last == (Node{}) {
		return
	}
	if l.last == (Node{}) || o.unknown || !endedBefore(o.last, l.last) {
		l.last = o.last
	}
	l.unknown = l.unknown || o.unknown
}

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

// endedBadly reports whether the row failed, was left by a process that died, was stopped with words, or is a question
// that nobody answered in time. A copy did so in another run.
func endedBadly(n Node) bool {
	if n.ForkedFrom() != nil {
		return false
	}

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

// findLeft finds what is left below a row, and below all that is left there.
func (f *finder) findLeft(n Node) left {
	l := left{from: len(f.bad)}
	for _, c := range f.candidates(n) {
		switch {
		case c.Wait == nil && hidesAllButQuestions(n):
		case endedBadly(c) && (c.Cycle == nil || hasError(c)):
			f.bad = append(f.bad, c)
			f.findLeft(c)
			_, ended := c.Times()
			l.add(left{last: c, unknown: ended == nil})
		case looksThrough(c):
			l.add(f.findLeft(c))
		}
	}

	l.to = len(f.bad)
	f.left[n] = l
	return l
}

// hidesAllButQuestions reports whether only the questions below a row count: it is a call that was skipped, or stopped
// without a word.
func hidesAllButQuestions(n Node) bool {
	return n.Call != nil && !endedBadly(n) && (n.State() == record.Skipped || n.State() == record.Cancelled)
}

// looksThrough reports whether what is below a row, which did not end badly itself, counts as if it were below the row
// above.
func looksThrough(n Node) bool {
	endedWell := n.State() == record.Skipped || n.State() == record.Completed
	return !endedWell || n.Cycle != nil && !hasError(n) || hidesAllButQuestions(n)
}

// candidates returns the rows directly below one but those that something recovered: another cycle of the step, or the
// same tool called again in the cycle.
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

// cause returns the cause of how a row ended: the row itself, or one that is left below it.
func (f *finder) cause(n Node) Node {
	for !f.ownError(n) && f.left[n].last != (Node{}) {
		n = f.left[n].last
	}
	return n
}

// endedBefore reports whether both times are known, and that of a is the earlier one.
func endedBefore(a, b Node) bool {
	_, x := a.Times()
	_, y := b.Times()
	return x != nil && y != nil && x.Before(*y)
}

// passedOn are the kinds of errors which say that something below failed.
var passedOn = map[string]bool{
	"tool": true, "step": true, "step_failed": true, "operations_failed": true, "node": true, "dependency": true,
	"sub_plan": true,
}

// minLine is from how many characters on the line of an error is known again in the text of another.
const minLine = 8

// ownError reports whether a row has an error that it did not get from below.
func (f *finder) ownError(n Node) bool {
	below := f.left[n]
	if !hasError(n) || below.last == (Node{}) {
		return hasError(n)
	}
	kind, message := n.Error()
	if below.last.Wait != nil || !notBlank(kind) || passedOn[*kind] {
		return false
	}

	gotIt := f.hasKind(below, *kind) || notBlank(message) && f.quotes(below, plain(*message))
	return !gotIt
}

func (f *finder) hasKind(below left, kind string) bool {
	if f.kinds == nil {
		f.kinds = map[string][]int{}
		for i, n := range f.bad {
			if k, _ := n.Error(); notBlank(k) {
				f.kinds[*k] = append(f.kinds[*k], i)
			}
		}
	}
	return below.hasOneOf(f.kinds[kind])
}

func (f *finder) quotes(below left, text string) bool {
	if f.lines == nil {
		f.lines = newLineIndex(f.bad)
	}
	return f.lines.isIn(text, below)
}

// hasOneOf reports whether one of some places in finder.bad, in ascending order, is of what is left.
func (l left) hasOneOf(places []int) bool {
	i, _ := slices.BinarySearch(places, l.from)
	return i < len(places) && places[i] < l.to
}

// lineIndex has the lines of errors, to find those that are in a text without a look at each.
type lineIndex struct {
	lines  []string // sorted
	prefix []int    // which other line is the longest one that the line begins with; -1: there is none
	places [][]int  // where in finder.bad the errors with this line are
}

func newLineIndex(bad []Node) *lineIndex {
	places := map[string][]int{}
	for i, n := range bad {
		if _, message := n.Error(); message != nil {
			if line := lineOf(n, *message); utf8.RuneCountInString(line) >= minLine {
				places[line] = append(places[line], i)
			}
		}
	}

	x := &lineIndex{lines: slices.Sorted(maps.Keys(places))}
	for i, line := range x.lines {
		at := i - 1
		for at >= 0 && !strings.HasPrefix(line, x.lines[at]) {
			at = x.prefix[at]
		}

		x.prefix = append(x.prefix, at)
		x.places = append(x.places, places[line])
	}
	return x
}

// isIn reports whether one of the lines of what is left is in a text. The lines with which the rest of a text begins
// are in a chain, the longest first: each line of it begins with the next. The chain starts at the last line that is
// not sorted after the rest.
func (x *lineIndex) isIn(text string, below left) bool {
	for from := range text {
		rest := text[from:]
		at, found := slices.BinarySearch(x.lines, rest)
		if !found {
			at--
		}

		for ; at >= 0; at = x.prefix[at] {
			if strings.HasPrefix(rest, x.lines[at]) && below.hasOneOf(x.places[at]) {
				return true
			}
		}
	}
	return false
}

// lineOf returns the line of an error of a row; of a question it is what was asked.
func lineOf(n Node, message string) string {
	if n.Wait != nil {
		return Beginning(firstLine(strings.Split(plain(message), "\n")), MaxLine)
	}
	return Line(message)
}

func (f *finder) failure(n Node) Failure {
	at := f.places[n]
	out := Failure{row: n}
	called := n.Call
	if n.Wait != nil {
		called = at.up.Call
	}
	if called != nil && notBlank(called.Record.Name) {
		out.Tool = called.Record.Name
	}

	if n.State() == record.Waiting && n.Wait != nil || at.withError == (Node{}) {
		return out
	}

	out.of = at.withError
	out.Kind, out.Message = at.withError.Error()
	return out
}

// visit finds the failures below a row, and notes the places of what ended badly or asks. It reports whether there is
// any of that. withError is the nearest row above that has an error.
func (f *finder) visit(n, up, withError Node) (noted bool) {
	if hasError(n) {
		withError = n
	}
	before := len(f.leaves)
	asks := n.Wait != nil && n.State() == record.Waiting && n.ForkedFrom() == nil
	if asks && (f.oldest == (Node{}) || askedBefore(n.Wait, f.oldest.Wait)) {
		f.oldest = n
	}

	noted = asks || endedBadly(n)
	for _, c := range f.below(n) {
		if f.visit(c, n, withError) {
			noted = true
		}
	}

	if len(f.leaves) == before && n.Failed() && n.ForkedFrom() == nil {
		f.leaves = append(f.leaves, n)
	}
	if noted {
		f.places[n] = place{up, withError, before}
	}
	return noted
}

func askedBefore(a, b *record.Wait) bool {
	return CompareNullsLast(a.StartTime, b.StartTime, time.Time.Compare) < 0
}

func (f *finder) path(n Node) (rows []Node) {
	for ; n != (Node{}); n = f.places[n].up {
		rows = append(rows, n)
	}
	slices.Reverse(rows)
	return rows
}
