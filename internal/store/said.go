package store

import (
	"hash/maphash"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/field"
	"github.com/actlog/actlog/internal/search"
)

// said adds the texts of batches that the search finds to those that are not in its index yet. It
// remembers what was said lately of which tree: an agent names the same tools again and again.
type said struct {
	seed  maphash.Seed
	known recent[uint64, struct{}] // by root and text
}

func newSaid() *said { return &said{seed: maphash.MakeSeed()} }

// queue queues the statement that adds the texts of a batch, if it has new ones, and notes them
// in the batch.
func (s *said) queue(q *pgx.Batch, b *batch) {
	lines := map[string][]string{} // by root
	b.said = nil
	for _, row := range b.rows {
		for _, f := range field.Searched(row.Change.Kind()) {
			text, ok := f.Text(row.Change)
			if !ok {
				continue
			}
			root := row.Change.Key().Root
			hash := s.hash(root, text)
			if _, known := s.known.get(hash); known {
				continue
			}
			b.said = append(b.said, hash)
			lines[root] = append(lines[root], search.Fold(text))
		}
	}
	var roots, texts []string
	for _, root := range slices.Sorted(maps.Keys(lines)) {
		if text := search.Merge("", lines[root]...); text != "" {
			roots, texts = append(roots, root), append(texts, text)
		}
	}
	if len(roots) > 0 {
		q.Queue(db.SearchAppend, roots, texts)
	}
}

func (s *said) hash(root, text string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_, _ = h.WriteString(root) // never fails
	_ = h.WriteByte(0)
	_, _ = h.WriteString(text)
	return h.Sum64()
}

// learn remembers the texts of a committed batch.
func (s *said) learn(b *batch) {
	for _, hash := range b.said {
		s.known.set(hash, struct{}{})
	}
}

// forget is for deleted trees: what is written to them again has to be found again.
func (s *said) forget() {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	s.known.young, s.known.old = nil, nil
}
