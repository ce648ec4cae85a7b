package web

import (
	"slices"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/view/outline"
)

const (
	// keptRows and keptRuns bound the outlines that are kept.
	keptRows = 300_000
	keptRuns = 8
	// keptFor is how long an outline answers for pieces of a page that was made of it.
	keptFor = 10 * time.Second
)

// kept keeps the outlines of which pages were made a moment ago: the pieces that a page of a long run asks for come
// from the same outline, and the run is not read again for each. It is safe for concurrent use.
type kept struct {
	mu  sync.Mutex
	all []keptOutline // the newest last
}

type keptOutline struct {
	id, root string
	outline  *outline.Outline
	at       time.Time
}

// add keeps the outline of a run in place of the last one.
func (k *kept) add(id, root string, o *outline.Outline, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = slices.DeleteFunc(k.all, func(e keptOutline) bool {
		return e.id == id && e.root == root || now.Sub(e.at) > keptFor
	})
	k.all = append(k.all, keptOutline{id, root, o, now})

	rows := 0
	for i, e := range slices.Backward(k.all) {
		if rows += len(e.outline.Rows); rows > keptRows || len(k.all)-i > keptRuns {
			k.all = slices.Delete(k.all, 0, i+1)
			return
		}
	}
}

// age says how old the outline may be of which a piece of a page is made.
type age int

const (
	fresh         age = iota // it is read now
	asPageIfEnded            // of a run that has ended, it is that of its page
	asPage                   // it is that of its page
)

// get returns the outline of a run; nil: none is kept that is good enough.
func (k *kept) get(id, root string, now time.Time, most age) *outline.Outline {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.all {
		if e.id == id && e.root == root && now.Sub(e.at) <= keptFor &&
			(most == asPage || most == asPageIfEnded && e.outline.Rows[0].State().Terminal()) {
			return e.outline
		}
	}
	return nil
}
