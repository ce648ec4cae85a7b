package delta

import (
	"strings"

	"github.com/actlog/actlog/internal/record/recent"
)

const (
	// backlogBytes bounds the text that waits for a watcher.
	backlogBytes = 128 << 10
	// backlogCycles bounds the cycles of which something waits for a watcher.
	backlogCycles = 1_000
	// backlogKnown is of how many cycles it is known at least what a watcher has.
	backlogKnown = 512
)

// Backlog is what one watcher has not received yet. It is bounded: texts for a slow watcher are
// dropped. A watcher that lacks a part of an answer receives a reset, and then the rest. It is not
// safe for concurrent use.
type Backlog struct {
	known   recent.Map[Cycle, end] // what the watcher has once it has received what waits
	waiting map[Cycle]*waiting
	order   []*waiting // the same, in the order in which they are received
	bytes   int        // of the texts
}

// NewBacklog returns an empty backlog.
func NewBacklog() *Backlog {
	return &Backlog{known: recent.Map[Cycle, end]{Half: backlogKnown}, waiting: map[Cycle]*waiting{}}
}

// waiting is what waits of one cycle: perhaps a reset, then the texts.
type waiting struct {
	cycle   Cycle
	attempt int64
	reset   bool
	texts   []string
}

// Add adds a delta.
func (b *Backlog) Add(d Delta) {
	known, ok := b.known.Get(d.Cycle)
	if ok && d.Attempt < known.attempt || d.Text == "" && !d.Reset {
		return // of a worker that lost the run, or nothing
	}
	if !ok { // a client that was connected before may have what came before
		known = end{attempt: 1}
	}

	reset := d.Reset || known != end{d.Attempt, d.Offset}
	b.known.Set(d.Cycle, d.end())
	w := b.of(d.Cycle)
	w.attempt = d.Attempt
	if reset {
		b.reset(w)
	}

	if d.Text == "" {
		return
	}

	w.texts = append(w.texts, d.Text)
	if b.bytes += len(d.Text); b.bytes > backlogBytes {
		for _, w := range b.order {
			b.reset(w)
		}
	}
}

func (b *Backlog) of(c Cycle) *waiting {
	w := b.waiting[c]
	if w == nil {
		if len(b.order) >= backlogCycles { // its next delta, if any, brings the reset
			first := b.pop()
			b.known.Set(first.cycle, end{first.attempt, -1})
		}

		w = &waiting{cycle: c}
		b.waiting[c], b.order = w, append(b.order, w)
	}
	return w
}

func (b *Backlog) pop() *waiting {
	w := b.order[0]
	b.order = b.order[1:]
	delete(b.waiting, w.cycle)
	b.drop(w)
	return w
}

func (b *Backlog) drop(w *waiting) {
	for _, text := range w.texts {
		b.bytes -= len(text)
	}
	w.texts = nil
}

// reset drops the texts of a cycle, also those that the watcher has.
func (b *Backlog) reset(w *waiting) {
	b.drop(w)
	w.reset = true
}

// Next removes the first reset, or the first text, and returns it. ok is false if nothing waits.
func (b *Backlog) Next() (d Delta, ok bool) {
	if len(b.order) == 0 {
		return Delta{}, false
	}

	w := b.order[0]
	d = Delta{Cycle: w.cycle, Attempt: w.attempt}
	if w.reset {
		w.reset, d.Reset = false, true
		if len(w.texts) == 0 {
			b.pop()
		}
		return d, true
	}

	d.Text = strings.Join(w.texts, "")
	b.pop()
	return d, true
}
