package store

import (
	"sync"
	"time"

	"github.com/actlog/actlog/internal/upsert"
	"github.com/actlog/actlog/record"
)

// places remembers the trees that were written to, and in which part each should lie, so
// that Postgres need not open every partition for a row; and their cycles, so that a tool
// call need not write its own. These are guesses: each transaction makes sure of the tree
// as it locks it, and of a cycle as it writes the call. So who deletes cycles holds the
// root plan, but for detail of a period that is dropped, which goes with its calls.
type places struct {
	doubtFor time.Duration // as the constant says, but in tests

	trees  recent[string, place] // by root
	cycles recent[record.Key, struct{}]
}

type place struct {
	part  time.Time
	until time.Time // when it was wrong, it is not relied on until then
}

// doubtFor bounds what a tree costs that is never as it is taken to be.
const doubtFor = time.Minute

// assumed is what a batch relies on, until its transaction finds otherwise.
type assumed struct {
	part   time.Time           // where all of its trees lie; zero: that is not known
	cycles map[record.Key]bool // those that are on record, so that they are not written
}

// of gives what may be assumed for a batch: nothing where its trees do not lie in one
// place, or that is not known, or a root plan is told of, which takes the statement that
// may make it.
func (p *places) of(b *batch) (a assumed) {
	for root := range b.roots {
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

// keyOnly is true where nothing is told of a row but that it is there.
func keyOnly(r *record.Row) bool {
	return shapeOf(r.Change.Kind(), []*record.Row{r}) == upsert.Shape{}
}

// unknown counts the cycles and tool calls of a batch in trees that were not written to.
func (p *places) unknown(b *batch) (rows int) {
	known := make(map[string]bool, len(b.roots))
	for root := range b.roots {
		_, known[root] = p.trees.get(root)
	}
	for key := range b.rows {
		if !known[key.Root] && upsert.TableOf(key.Kind).Partitioned {
			rows++
		}
	}
	return rows
}

// learn notes where the trees of a batch that was committed lie, or should.
func (p *places) learn(b *batch, periodDays int) {
	now := time.Now()
	for root := range b.roots {
		if _, ok := p.trees.get(root); ok {
			continue
		}
		part, ok := b.trees[root]
		if !ok {
			part = likelyPart(root, now, periodDays)
		}
		p.trees.set(root, place{part: part})
	}
}

// learnCycles notes the cycles of a batch that was committed.
func (p *places) learnCycles(b *batch) {
	for key := range b.rows {
		if key.Kind == record.KindThinkAct {
			p.cycles.set(key, struct{}{})
		}
	}
}

// doubt notes that a tree of a batch, or a cycle in one, is not as it was taken to be. It
// is not known which.
func (p *places) doubt(b *batch) {
	for root := range b.roots {
		p.trees.set(root, place{part: b.assumed.part, until: time.Now().Add(p.doubtFor)})
	}
}

// recent is a map that forgets what was not asked for lately.
type recent[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]V // the old ones were asked for before the young
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
