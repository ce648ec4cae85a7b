package store

import (
	"time"

	"github.com/actlog/actlog/internal/field"
	"github.com/actlog/actlog/internal/fieldsql"
	"github.com/actlog/actlog/internal/recent"
	"github.com/actlog/actlog/record"
)

// places remembers in which part the trees that were written to should lie, so that Postgres
// need not open every partition for a row, and which cycles are on record, so that a tool call
// need not write its own. These are guesses: the transaction checks the tree when it locks it,
// and the cycle when it writes the call. So code that deletes cycles has to hold the root plan.
// Detail of a period that is dropped goes with its calls.
type places struct {
	tuning        *tuning
	partitionDays int

	trees  recent.Map[string, place] // by root
	cycles recent.Map[record.Key, struct{}]
}

type place struct {
	part  time.Time
	until time.Time // after a wrong guess, the place is not relied on until then
}

// assumed is what a batch relies on, until its transaction finds otherwise.
type assumed struct {
	part   time.Time           // where all of its trees lie; zero: not known
	cycles map[record.Key]bool // on record, so they are not written
}

// of returns what may be assumed for a batch: nothing if its trees do not lie in one place, if
// that is not known, or if the batch writes to a root plan.
func (p *places) of(b *batch) (a assumed) {
	for root := range b.touched {
		at, ok := p.trees.Get(root)
		if !ok || time.Now().Before(at.until) || !a.part.IsZero() && !at.part.Equal(a.part) || !keyOnly(b.rows[rootKey(root)]) {
			return assumed{}
		}
		a.part = at.part
	}
	a.cycles = map[record.Key]bool{}
	for key := range b.rows {
		if key.Kind != record.KindActTool {
			continue
		}
		cycle := cycleOf(key)
		if _, known := p.cycles.Get(cycle); known && keyOnly(b.rows[cycle]) {
			a.cycles[cycle] = true
		}
	}
	return a
}

// keyOnly reports whether nothing is known of a row but its key.
func keyOnly(r *field.Row) bool {
	return fieldsql.ShapeOf(r.Change.Kind(), r) == fieldsql.Shape{}
}

// unknown counts the cycles and tool calls of a batch in trees that were not written to.
func (p *places) unknown(b *batch) (rows int) {
	known := make(map[string]bool, len(b.touched))
	for root := range b.touched {
		_, known[root] = p.trees.Get(root)
	}
	for key := range b.rows {
		if !known[key.Root] && fieldsql.TableOf(key.Kind).Partitioned {
			rows++
		}
	}
	return rows
}

// learn notes where the trees of a committed batch lie, or should. fresh are those that the
// batch began.
func (p *places) learn(b *batch, fresh newTrees) {
	now := time.Now()
	for root := range b.touched {
		if _, ok := p.trees.Get(root); ok {
			continue
		}
		part, ok := fresh[root]
		if !ok {
			part = likelyPart(root, now, p.partitionDays)
		}
		p.trees.Set(root, place{part: part})
	}
	if len(b.rows) > p.tuning.fewRows {
		return
	}
	for key := range b.rows {
		if key.Kind == record.KindThinkAct {
			p.cycles.Set(key, struct{}{})
		}
	}
}

// doubt notes that a guess about a tree of a batch was wrong. It is not known which.
func (p *places) doubt(b *batch, a assumed) {
	for root := range b.touched {
		p.trees.Set(root, place{part: a.part, until: time.Now().Add(p.tuning.doubtFor)})
	}
}
