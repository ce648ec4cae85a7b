package web

import (
	"slices"
	"sync"
	"time"

	"github.com/actlog/actlog/internal/view/outline"
)

const (
	// cachedRows and cachedRuns bound the cache.
	cachedRows = 300_000
	cachedRuns = 8
	// cachedFor is how long an outline answers for pieces of a page that was made of it.
	cachedFor = 10 * time.Second
)

// outlineCache has the outlines of which pages were made a moment ago: the pieces that a page of a long run asks for
// come from the same outline, and the run is not read again for each. It is safe for concurrent use.
type outlineCache struct {
	mu  sync.Mutex
	all []cachedOutline // the newest last
}

type cachedOutline struct {
	id, root string
	outline  *outline.Outline
	at       time.Time
}

// add stores the outline of a run in place of the last one.
func (k *outlineCache) add(id, root string, o *outline.Outline, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = slices.DeleteFunc(k.all, func(e cachedOutline) bool {
		return e.id == id && e.root == root || now.Sub(e.at) > cachedFor
	})
	k.all = append(k.all, cachedOutline{id, root, o, now})

	rows := 0
	for i, e := range slices.Backward(k.all) {
		if rows += len(e.outline.Rows); rows > cachedRows || len(k.all)-i > cachedRuns {
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

// get returns the outline of a run; nil: none is there that is good enough.
func (k *outlineCache) get(id, root string, now time.Time, most age) *outline.Outline {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.all {
		if e.id == id && e.root == root && now.Sub(e.at) <= cachedFor &&
			(most == asPage || most == asPageIfEnded && e.outline.Rows[0].State().Terminal()) {
			return e.outline
		}
	}
	return nil
}
