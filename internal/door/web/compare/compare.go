// Package compare owns which rows of two runs do the same work, and what differs in them. Pure functions.
package compare

import (
	"cmp"
	"strconv"
	"time"

	"github.com/aymanbagabas/go-udiff/lcs"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/view/outline"
	"github.com/actlog/actlog/record"
)

// Side is one of two runs.
type Side struct {
	*outline.Outline
	// Sums returns the hashes of the texts of a row, by the names of the fields. ok is false if it was not read.
	Sums func(record.Key) (sums map[string]int64, ok bool)
}

// The names of what differs in a pair of rows beside its texts, which have the names of their fields.
const (
	State  = "state"
	Time   = "time"
	Tokens = "tokens"
	Cost   = "cost"
)

// Pair is a row of one run or of both.
type Pair struct {
	// A and B are the rows; -1: that run has none. Then the pair stands for everything below its row, too.
	A, B int
	// Depth is that of the row, and Below how many pairs are under this one; they follow it.
	Depth, Below int
	// Differs names what differs in the rows themselves.
	Differs []string
	// Inside is how many pairs below this one differ.
	Inside int
	// Unread reports that not all texts of the pair were compared.
	Unread bool
}

// Different reports whether something differs in the rows themselves.
func (p *Pair) Different() bool { return p.A < 0 || p.B < 0 || len(p.Differs) > 0 }

// Align pairs the rows of two runs, in their order.
func Align(a, b Side) []Pair {
	c := comparison{a: a, b: b}
	c.pair(0, 0, 0)
	return c.pairs
}

type comparison struct {
	a, b  Side
	pairs []Pair
}

// pair adds two rows that do the same, and those below them. It returns how many pairs differ.
func (c *comparison) pair(a, b, depth int) (different int) {
	at := len(c.pairs)
	p := Pair{A: a, B: b, Depth: depth}
	p.Differs, p.Unread = c.differences(a, b)
	c.pairs = append(c.pairs, p)

	for _, m := range c.align(c.a.Children(a), c.b.Children(b), 0) {
		if m.a >= 0 && m.b >= 0 {
			different += c.pair(m.a, m.b, depth+1)
			continue
		}
		c.pairs = append(c.pairs, Pair{A: m.a, B: m.b, Depth: depth + 1})
		different++
	}

	c.pairs[at].Below, c.pairs[at].Inside = len(c.pairs)-at-1, different
	if c.pairs[at].Different() {
		different++
	}
	return different
}

type match struct{ a, b int } // -1: none

// likeness says what two rows must have in common to do the same: first also what they were asked; then who does it;
// then, of plans, cycles and waits, only that they are such. Steps of other agents and calls of other tools do other
// work.
type likeness int

const (
	sameRequest likeness = iota
	sameName
	sameKind
	noLikeness
)

// align pairs rows that are alike, without crossing; between them, those that are less alike.
func (c *comparison) align(a, b []int, how likeness) (all []match) {
	if how == noLikeness || len(a) == 0 || len(b) == 0 {
		for _, row := range a {
			all = append(all, match{row, -1})
		}
		for _, row := range b {
			all = append(all, match{-1, row})
		}
		return all
	}

	keys := func(s Side, rows []int) []string {
		names := make([]string, len(rows))
		for i, row := range rows {
			names[i] = s.likeness(row, how)
		}
		return names
	}

	fromA, fromB := 0, 0
	for _, d := range lcs.DiffLines(keys(c.a, a), keys(c.b, b)) {
		all = append(all, pairs(a[fromA:d.Start], b[fromB:d.ReplStart])...)
		all = append(all, c.align(a[d.Start:d.End], b[d.ReplStart:d.ReplEnd], how+1)...)
		fromA, fromB = d.End, d.ReplEnd
	}
	return append(all, pairs(a[fromA:], b[fromB:])...)
}

func pairs(a, b []int) []match {
	all := make([]match, len(a))
	for i := range a {
		all[i] = match{a[i], b[i]}
	}
	return all
}

// asked are the fields of which the texts say what was to be done.
var asked = []string{"userRequest", "agentRequest", "parameters", "thinkOutput", "formDescription"}

// likeness returns what a row must have in common with another one.
func (s Side) likeness(row int, how likeness) string {
	r := &s.Rows[row]
	key := r.Key()
	like := string(key.Kind)
	if how == sameKind && r.Step == nil && r.Call == nil {
		return like
	}

	like += "\x00" + name(r)
	if r.Cycle != nil { // it has no name, but calls
		for _, call := range s.Children(row) {
			like += "\x00" + s.Rows[call].Name()
		}
	}

	if how == sameRequest {
		sums, _ := s.Sums(key)
		for _, field := range asked {
			like += "\x00" + strconv.FormatInt(sums[field], 36)
		}
	}
	return like
}

// name returns what a row is called, without what is an id.
func name(r *outline.Row) string {
	if r.Plan != nil {
		p := &r.Plan.Record
		return cmp.Or(optional.Value(p.Title), optional.Value(p.Name))
	}
	return r.Name()
}

// texts are the fields with texts, those first that tell most of a difference.
var texts = []string{
	"errorMessage", "result", "summary", "thinkOutput", "decision", "decisionText", "parameters", "agentRequest",
	"userRequest", "formDescription", "thinkInput",
}

// differences names what differs in two rows.
func (c *comparison) differences(a, b int) (names []string, unread bool) {
	ra, rb := &c.a.Rows[a], &c.b.Rows[b]
	if ra.State() != rb.State() {
		names = append(names, State)
	}

	sa, readA := c.a.Sums(ra.Key())
	sb, readB := c.b.Sums(rb.Key())
	for _, field := range texts {
		sum, hasA := sa[field]
		other, hasB := sb[field]
		// What a cycle is asked begins with what was said before. That is told once, where it differs.
		if hasA && hasB && sum != other && (field != "thinkInput" || ra.Place == 1) {
			names = append(names, field)
		}
	}

	if slower(ra, rb) {
		names = append(names, Time)
	}
	if ra.Cycle != nil && rb.Cycle != nil {
		x, y := &ra.Cycle.Record, &rb.Cycle.Record
		if optional.Value(x.InputTokens) != optional.Value(y.InputTokens) ||
			optional.Value(x.OutputTokens) != optional.Value(y.OutputTokens) {
			names = append(names, Tokens)
		}
		if optional.Value(x.CostUSD) != optional.Value(y.CostUSD) {
			names = append(names, Cost)
		}
	}
	return names, !readA || !readB
}

// slower reports whether one of two rows took at least twice as long as the other, and a second longer.
func slower(a, b *outline.Row) bool {
	x, okA := Took(a)
	y, okB := Took(b)
	return okA && okB && max(x, y) >= 2*min(x, y) && max(x, y)-min(x, y) >= time.Second
}

// Took returns how long a row took. ok is false if that is not known.
func Took(r *outline.Row) (d time.Duration, ok bool) {
	start, end := r.Times()
	if start == nil || end == nil {
		return 0, false
	}
	return end.Sub(*start), true
}
