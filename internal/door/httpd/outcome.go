package httpd

import (
	"hash/maphash"

	"github.com/actlog/actlog/internal/record/recent"
)

type outcome int

const (
	small    outcome = iota
	large            // made in turns
	streamed         // see [Answer.Stream]
)

// outcomes remembers how the last answer of a path turned out, so that the next one is not begun in
// vain: to read rows and drop them again costs more than to refuse a request.
type outcomes struct {
	seed   maphash.Seed
	byPath *recent.Map[uint64, outcome] // by hash of the path
}

func newOutcomes() outcomes {
	return outcomes{maphash.MakeSeed(), new(recent.Map[uint64, outcome])}
}

func (o *outcomes) of(path string) outcome {
	last, _ := o.byPath.Get(maphash.String(o.seed, path))
	return last
}

func (o *outcomes) set(path string, to outcome) { o.byPath.Set(maphash.String(o.seed, path), to) }
