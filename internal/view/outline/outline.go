// Package outline owns how a tree is laid out in lines: which row stands where, below what, under which address, which
// rows are open at first, and where the failures are. Pure functions.
package outline

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// Row is a line of an outline: a plan, a step, a cycle, a tool call or a wait.
type Row struct {
	tree.Node
	// step is what a step is called, see [tree.StepName]; empty: what its record says, which does not know of graphs.
	step string
	// At is the address of the row in its run, such as step:<stepId>. See [At].
	At string
	// Depth is 0 for the first row, and Parent is -1 there; else Parent is the row above that this one is under.
	Depth, Parent int
	// Below is how many rows are under this one, at any depth; they are those that follow it.
	Below int
	// Failures is how many failures there are below the row, itself not counted. Number is which one it is itself, from
	// 1 as [Outline.Failures] has them; 0: none.
	Failures, Number int
	// Left says that the row was left behind: it had begun and has not ended, but the first row has. So nothing is known
	// to go on there.
	Left bool
	// Place and Siblings say which of the rows of its parent this is, from 1, and how many these are.
	Place, Siblings int
}

// Outline is a tree in lines.
type Outline struct {
	Plan *tree.Plan
	Rows []Row
	// Found says why the run is in its state, and what failed.
	Found *tree.Findings
	// Failures are the rows of what failed, in the order of the findings.
	Failures []int
	// Cause is the row of the cause; -1: there is none.
	Cause int

	places map[string]int // of the rows, by their addresses
}

// Of lays out a skeleton.
func Of(p *tree.Plan) *Outline {
	n := size(p)
	b := builder{
		Outline: &Outline{
			Plan: p, Found: tree.Explain(p), Rows: make([]Row, 0, n), Cause: -1, places: make(map[string]int, n),
		},
	}

	b.plan(p, -1, 0)
	b.failures()
	for i := range b.Rows {
		b.Rows[i].Left = tree.ShownState(b.Rows[0].State(), b.Rows[i].State()) == tree.LeftBehind
	}
	return b.Outline
}

// Children returns the rows directly under a row, in order.
func (o *Outline) Children(row int) (rows []int) {
	for i := row + 1; i <= row+o.Rows[row].Below; i += o.Rows[i].Below + 1 {
		rows = append(rows, i)
	}
	return rows
}

// errorChars is how many characters of an error a row keeps, once its cause and lines are known.
const errorChars = 300

type builder struct {
	*Outline
	waits map[tree.Node][]*record.Wait // of the plan being laid out, by what they hang on
}

// size returns how many rows there will be, or a few more.
func size(p *tree.Plan) (n int) {
	n = 1 + len(p.Waits)
	for _, s := range p.Steps {
		n += 1 + len(s.Cycles)
		for _, c := range s.Cycles {
			n += len(c.ToolCalls)
		}
	}

	for sub := range p.Children() {
		n += size(sub)
	}
	return n
}

// add appends a row and returns its index. close sets how many rows are below it.
func (b *builder) add(r Row, parent, depth int) (index int) {
	r.Parent, r.Depth = parent, depth
	index = len(b.Rows)
	b.places[r.At] = index
	if parent >= 0 {
		b.Rows[parent].Siblings++ // of its rows, until close
		r.Place = b.Rows[parent].Siblings
	}

	b.Rows = append(b.Rows, r)
	return index
}

// close ends a row: all below it was added. children is kept until then in Siblings.
func (b *builder) close(at int) {
	r := &b.Rows[at]
	r.Below = len(b.Rows) - at - 1
	children := r.Siblings
	for i := at + 1; i < len(b.Rows); i += b.Rows[i].Below + 1 {
		b.Rows[i].Siblings = children
	}
	if r.Parent < 0 {
		r.Place, r.Siblings = 1, 1
	}
}

func (b *builder) plan(p *tree.Plan, parent, depth int) {
	at := b.add(Row{Node: tree.Node{Plan: p}, At: At("plan", p.Record.CurrentPlanID)}, parent, depth)
	outer := b.waits
	b.waits = p.PlacedWaits()

	for _, s := range p.Steps {
		name, _ := tree.StepName(optional.Value(p.Record.Executor), optional.Value(s.Record.AgentName),
			optional.Value(s.Record.AgentDescription), s.Record.StepIndex)
		b.step(s, name, at, depth+1)
	}
	for _, c := range p.SubPlans {
		b.plan(c, at, depth+1)
	}
	b.wait(tree.Node{Plan: p}, at, depth+1)
	b.waits = outer
	b.close(at)
}

func (b *builder) wait(on tree.Node, parent, depth int) {
	for _, w := range b.waits[on] {
		b.close(b.add(Row{Node: tree.Node{Wait: w}, At: At("wait", w.WaitID)}, parent, depth))
	}
}

func (b *builder) step(s *tree.Step, name string, parent, depth int) {
	at := b.add(Row{Node: tree.Node{Step: s}, step: name, At: At("step", s.Record.StepID)}, parent, depth)
	started, others := s.Started()
	for _, c := range s.Cycles {
		in := b.add(Row{Node: tree.Node{Cycle: c}, At: At("cycle", s.Record.StepID, strconv.FormatInt(c.Record.Seq, 10))},
			at, depth+1)
		for _, t := range c.ToolCalls {
			call := b.add(Row{
				Node: tree.Node{Call: t}, At: At("call", s.Record.StepID, strconv.FormatInt(c.Record.Seq, 10), t.Record.ToolCallID),
			}, in, depth+2)
			b.wait(tree.Node{Call: t}, call, depth+3)
			for _, p := range started[t] {
				b.plan(p, call, depth+3)
			}
			b.close(call)
		}
		b.close(in)
	}

	for _, p := range others {
		b.plan(p, at, depth+1)
	}
	b.wait(tree.Node{Step: s}, at, depth+1)
	b.close(at)
}

func (b *builder) failures() {
	rows := make(map[tree.Node]int, len(b.Found.Failures)+1)
	for i := range b.Found.Failures {
		rows[b.Found.Failures[i].Node()] = -1
	}
	if b.Found.Cause != nil {
		rows[b.Found.Cause.Node()] = -1
	}

	for i := range b.Rows {
		if _, ok := rows[b.Rows[i].Node]; ok {
			rows[b.Rows[i].Node] = i
		}
		b.Rows[i].CutError(errorChars)
	}

	if f := b.Found.Cause; f != nil {
		b.Cause = rows[f.Node()]
		f.CutError(errorChars)
	}

	for i := range b.Found.Failures {
		b.Found.Failures[i].CutError(errorChars)
		at := rows[b.Found.Failures[i].Node()]
		b.Failures = append(b.Failures, at)
		b.Rows[at].Number = i + 1
	}

	for i := len(b.Rows) - 1; i > 0; i-- { // what is below a row comes after it
		r := &b.Rows[i]
		b.Rows[r.Parent].Failures += r.Failures
		if r.Number > 0 {
			b.Rows[r.Parent].Failures++
		}
	}
}

// At returns the address of something in its run: step:<stepId>, cycle:<stepId>/<seq>,
// call:<stepId>/<seq>/<toolCallId>, plan:<planId> or wait:<waitId>.
func At(kind string, parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return kind + ":" + strings.Join(parts, "/")
}

// AtOf returns the address of a row of the record, and its state; empty: it stands in no outline.
func AtOf(c record.Change) (at string, state record.State) {
	var recorded *record.State
	switch r := c.(type) {
	case *record.Plan:
		at, recorded = At("plan", r.CurrentPlanID), r.State
	case *record.AgentExecution:
		at, recorded = At("step", r.StepID), r.State
	case *record.ThinkAct:
		at, recorded = At("cycle", r.StepID, strconv.FormatInt(r.Seq, 10)), r.State
	case *record.ActTool:
		at, recorded = At("call", r.StepID, strconv.FormatInt(r.Seq, 10), r.ToolCallID), r.State
	case *record.Wait:
		at, recorded = At("wait", r.WaitID), r.State
	}

	return at, optional.Value(recorded)
}

// Failure returns what went wrong in a row that failed by itself, or is the cause; nil: it is neither.
func (o *Outline) Failure(row int) *tree.Failure {
	switch number := o.Rows[row].Number; {
	case number > 0:
		return &o.Found.Failures[number-1]
	case row == o.Cause:
		return o.Found.Cause
	}
	return nil
}

// Find returns the row of an address. ok is false if there is none.
func (o *Outline) Find(at string) (row int, ok bool) {
	row, ok = o.places[at]
	return row, ok
}

// Path returns the rows from the first one down to a row.
func (o *Outline) Path(row int) (path []int) {
	for ; row >= 0; row = o.Rows[row].Parent {
		path = append(path, row)
	}
	slices.Reverse(path)
	return path
}

// Newest returns the row of the step that began last of those that run. ok is false if none does, as in a run that has
// ended.
func (o *Outline) Newest() (row int, ok bool) {
	for i := range o.Rows {
		s := o.Rows[i].Step
		if s == nil || o.Rows[i].Left || o.Rows[i].State().Status() != record.StatusRunning {
			continue
		}
		if !ok || !before(s.Record.StartTime, o.Rows[row].Step.Record.StartTime) {
			row, ok = i, true
		}
	}
	return row, ok
}

// before reports whether a time is before another. One that is not known is before all others.
func before(a, b *time.Time) bool {
	if a == nil || b == nil {
		return b != nil
	}
	return a.Before(*b)
}

// foldAbove is how many rows a tree has that is not folded at first.
const foldAbove = 200

// Fold says which rows are folded.
type Fold string

// The folds of a tree.
const (
	FoldFew  Fold = ""     // in a tree of many rows, sub-plans that have ended, with all below them, without a failure
	FoldNone Fold = "none" // none
	FoldOK   Fold = "ok"   // what has ended without a failure
	FoldAll  Fold = "all"  // all but the first
)

// Folds are all of them.
var Folds = []Fold{FoldFew, FoldNone, FoldOK, FoldAll}

// Folded returns which rows are folded. The open row is not, nor what is above it and above the others that are seen.
func (o *Outline) Folded(how Fold, open int, seen ...int) map[int]bool {
	folded := map[int]bool{}
	if how == FoldNone || how == FoldFew && len(o.Rows) <= foldAbove {
		return folded
	}

	goesOn := make([]bool, len(o.Rows)) // the row, or one below it
	for i := range o.Rows {
		for at := i; at >= 0 && !o.Rows[i].State().Terminal() && !goesOn[at]; at = o.Rows[at].Parent {
			goesOn[at] = true
		}
	}
	for i := range o.Rows {
		r := &o.Rows[i]
		well := r.Wait == nil && r.State().Terminal() && r.Failures == 0 && r.Number == 0
		if r.Below > 0 && (how == FoldAll && i > 0 || how == FoldOK && well || how == FoldFew && well && !goesOn[i] &&
			r.Plan != nil && i > 0) {
			folded[i] = true
		}
	}

	delete(folded, open)
	for _, row := range append(seen, open) {
		for i := o.Rows[row].Parent; i >= 0; i = o.Rows[i].Parent {
			delete(folded, i)
		}
	}
	return folded
}

// Visible returns the rows that are under no folded one, in their order.
func (o *Outline) Visible(folded map[int]bool) (rows []int) {
	for i := 0; i < len(o.Rows); i++ {
		rows = append(rows, i)
		if folded[i] {
			i += o.Rows[i].Below
		}
	}
	return rows
}

// Shown returns the state in which the row is shown.
func (r *Row) Shown() record.State {
	if r.Left {
		return tree.LeftBehind
	}
	return r.State()
}

// Key returns the key of what the row shows.
func (r *Row) Key() record.Key {
	return r.Record().Key()
}

// Name returns what a row is called; empty: it has no name.
func (r *Row) Name() string {
	first := func(all ...*string) string {
		for _, s := range all {
			if s != nil && *s != "" {
				return *s
			}
		}
		return ""
	}

	switch {
	case r.Wait != nil:
		return first(r.Wait.Title, r.Wait.FormDescription)
	case r.Plan != nil:
		p := &r.Plan.Record
		return cmp.Or(first(p.Title, p.UserRequest, p.Name), p.CurrentPlanID)
	case r.Step != nil:
		return cmp.Or(r.step, first(r.Step.Record.AgentName))
	case r.Call != nil:
		return first(r.Call.Record.Name)
	}
	return ""
}
