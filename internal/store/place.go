package store

import (
	"sync"
	"time"

	"github.com/actlog/actlog/internal/upsert"
	"github.com/actlog/actlog/record"
)

// places remembers in which part trees lie that were written to, so that Postgres need
// not open every partition for a row, and what should be there is looked for rather than
// made. A place is a guess: each transaction makes sure of it, under the lock of the tree.
// What proves wrong is refused, and written as if nothing were known.
type places struct {
	doubtFor time.Duration // as the constant says, but in tests

	mu         sync.Mutex
	young, old map[string]place // by root; the old ones were asked for before the young
}

type place struct {
	part  time.Time
	until time.Time // when something was wrong, it is not relied on until then
}

const (
	// maxPlaces bounds each of the two halves.
	maxPlaces = 4096
	// doubtFor bounds what a tree costs that is never as it is taken to be: which tree of
	// a transaction was wrong is not known.
	doubtFor = time.Minute
)

// find puts a batch where its trees are taken to lie, if that is one place. One that
// tells of a root plan itself locks it by doing so.
func (p *places) find(b *batch) (found bool) {
	var part time.Time
	for root := range b.roots {
		at, ok := p.get(root)
		if !ok || time.Now().Before(at.until) || !part.IsZero() && !at.part.Equal(part) || !keyOnly(b.rows[rootKey(root)]) {
			return false
		}
		part = at.part
	}
	b.place(part)
	return true
}

// learn notes where the trees of a batch that was committed should lie.
func (p *places) learn(b *batch, periodDays int) {
	now := time.Now()
	for root := range b.roots {
		if _, ok := p.get(root); !ok {
			p.set(root, place{part: likelyPart(root, now, periodDays)})
		}
	}
}

// doubt notes that not all of a batch's trees are as they were taken to be.
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

// place leaves out of a batch what is looked for instead: its root plans, which are
// locked first, and cycles that no one told of, one a step.
func (b *batch) place(part time.Time) {
	b.part, b.cycles = part, map[record.Key]int64{}
	for key, r := range b.rows {
		switch {
		case key == rootKey(key.Root):
			delete(b.rows, key)
		case key.Kind == record.KindThinkAct && keyOnly(r):
			if _, ok := b.cycles[stepOf(key)]; !ok {
				b.cycles[stepOf(key)] = key.Seq
				delete(b.rows, key)
			}
		}
	}
}

// keyOnly is true where nothing is told of a row but that it is there.
func keyOnly(r *record.Row) bool {
	return shapeOf(r.Change.Kind(), []*record.Row{r}) == upsert.Shape{}
}

// cyclesOf gives the cycle that each of some steps has to have, or nil.
func (b *batch) cyclesOf(steps []*record.Row) []*int64 {
	seqs := make([]*int64, len(steps))
	for i, r := range steps {
		if seq, ok := b.cycles[r.Change.Key()]; ok {
			seqs[i] = &seq
		}
	}
	return seqs
}
