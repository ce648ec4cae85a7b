package store

import (
	"sync"
	"time"

	"github.com/actlog/actlog/internal/field"
	"github.com/actlog/actlog/internal/fieldsql"
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

	trees  recent[string, place] // by root
	cycles recent[record.Key, struct{}]
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
		at, ok := p.trees.get(root)
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
		if _, known := p.cycles.get(cycle); known && keyOnly(b.rows[cycle]) {
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
		_, known[root] = p.trees.get(root)
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
		if _, ok := p.trees.get(root); ok {
			continue
		}
		part, ok := fresh[root]
		if !ok {
			part = likelyPart(root, now, p.partitionDays)
		}
		p.trees.set(root, place{part: part})
	}
	if len(b.rows) > p.tuning.fewRows {
		return
	}
	for key := range b.rows {
		if key.Kind == record.KindThinkAct {
			p.cycles.set(key, struct{}{})
		}
	}
}

// doubt notes that a guess about a tree of a batch was wrong. It is not known which.
func (p *places) doubt(b *batch, a assumed) {
	for root := range b.touched {
		p.trees.set(root, place{part: a.part, until: time.Now().Add(p.tuning.doubtFor)})
	}
}

// recent is a map that forgets what was not asked for lately.
type recent[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]V // what is old was asked for before what is young
}

// maxYoung bounds each of the two halves.
const maxYoung = 4096

func (r *recent[K, V]) get(key K) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok = r.young[key]; ok {
		return v, true
	}
	if v, ok = r.old[key]; ok {
		r.keep(key, v)
	}
	return v, ok
}

func (r *recent[K, V]) set(key K, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(key, v)
}

func (r *recent[K, V]) keep(key K, v V) {
	if r.young == nil || len(r.young) >= maxYoung {
		r.old, r.young = r.young, map[K]V{}
	}
	r.young[key] = v
}
