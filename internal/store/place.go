package store

import (
	"sync"
	"time"

	"github.com/actlog/actlog/internal/upsert"
	"github.com/actlog/actlog/record"
)

// places remembers the trees that were written to, and in which part each should lie, so
// that Postgres need not open every partition for a row. It is a guess: each transaction
// makes sure of it as it locks the tree.
type places struct {
	doubtFor time.Duration // as the constant says, but in tests

	mu         sync.Mutex
	young, old map[string]place // by root; the old ones were asked for before the young
}

type place struct {
	part  time.Time
	until time.Time // when it was wrong, it is not relied on until then
}

const (
	// maxPlaces bounds each of the two halves.
	maxPlaces = 4096
	// doubtFor bounds what a tree costs that is never as it is taken to be.
	doubtFor = time.Minute
)

// of gives where all trees of a batch are taken to lie; zero where that is not one place,
// or not known, or a root plan is told of: that takes the statement which may make it.
func (p *places) of(b *batch) (part time.Time) {
	for root := range b.roots {
		at, ok := p.get(root)
		if !ok || time.Now().Before(at.until) || !part.IsZero() && !at.part.Equal(part) || !keyOnly(b.rows[rootKey(root)]) {
			return time.Time{}
		}
		part = at.part
	}
	return part
}

// keyOnly is true where nothing is told of a row but that it is there.
func keyOnly(r *record.Row) bool {
	return shapeOf(r.Change.Kind(), []*record.Row{r}) == upsert.Shape{}
}

// unknown counts the cycles and tool calls of a batch in trees that were not written to.
func (p *places) unknown(b *batch) (rows int) {
	known := make(map[string]bool, len(b.roots))
	for root := range b.roots {
		_, known[root] = p.get(root)
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
		if _, ok := p.get(root); ok {
			continue
		}
		part, ok := b.trees[root]
		if !ok {
			part = likelyPart(root, now, periodDays)
		}
		p.set(root, place{part: part})
	}
}

// doubt notes that not all trees of a batch are as they were taken to be: which is not
// known.
func (p *places) doubt(b *batch) {
	for root := range b.roots {
		p.set(root, place{part: b.part, until: time.Now().Add(p.doubtFor)})
	}
}

func (p *places) get(root string) (at place, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok = p.young[root]; ok {
		return at, true
	}
	if at, ok = p.old[root]; ok {
		p.keep(root, at)
	}
	return at, ok
}

func (p *places) set(root string, at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep(root, at)
}

func (p *places) keep(root string, at place) {
	if p.young == nil || len(p.young) >= maxPlaces {
		p.old, p.young = p.young, map[string]place{}
	}
	p.young[root] = at
}
