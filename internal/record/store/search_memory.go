package store

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/recent"
	"github.com/actlog/actlog/internal/record/search"
	"github.com/actlog/actlog/record"
)

// searchMemory queues the texts of batches for the index of the search, and trees whose start was recorded, so that
// the index has them in their place. It remembers the texts that it queued lately for each tree, because an agent names
// the same tools again and again. If trees were deleted since, by anybody, a remembered text may be missing: so these
// are sent as well, and the transaction adds them if it finds that there were deletions.
type searchMemory struct {
	seed      maphash.Seed
	known     recent.Map[uint64, int64] // by root and text or start: how many deletions there were when it was queued
	deletions atomic.Int64              // as of the last batch
}

func newSearchMemory() *searchMemory { return &searchMemory{seed: maphash.MakeSeed()} }

type queuedTexts struct {
	hashes    []uint64
	deletions int64 // how many there were when it was written
}

// queue queues the statement that adds the texts of a batch, if it has any, and returns them. The passes are those of
// the batch: the texts of root plans come first.
func (s *searchMemory) queue(q *pgx.Batch, passes [][]*field.Row) *queuedTexts {
	out := &queuedTexts{}
	deletions := s.deletions.Load()

	type texts struct{ fresh, known []string }
	byRoot, order := map[string]*texts{}, []string(nil)
	add := func(root, what, text string) {
		t := byRoot[root]
		if t == nil {
			t = new(texts)
			byRoot[root], order = t, append(order, root)
		}

		hash := s.hash(root, what)
		out.hashes = append(out.hashes, hash)
		if at, ok := s.known.Get(hash); ok && at == deletions {
			t.known = append(t.known, search.Fold(text))
		} else {
			t.fresh = append(t.fresh, search.Fold(text))
		}
	}

	for _, rows := range passes {
		for _, row := range rows {
			if p, ok := row.Change.(*record.Plan); ok && p.IsRoot() && p.StartTime != nil {
				add(p.RootPlanID, "\x00"+p.StartTime.UTC().String(), "") // no text begins so
			}
			for _, f := range field.Searched(row.Change.Kind()) {
				if text, ok := f.Text(row.Change); ok {
					add(row.Change.Key().Root, text, text)
				}
				for _, past := range row.Past {
					if text, ok := f.Text(past.Change); ok {
						add(row.Change.Key().Root, text, text)
					}
				}
			}
		}
	}

	p := db.SearchAppendParams{Deletions: deletions}
	for _, root := range order {
		for _, known := range []bool{false, true} {
			lines := byRoot[root].fresh
			if known {
				lines = byRoot[root].known
			}
			if len(lines) > 0 {
				p.RootPlanIds = append(p.RootPlanIds, root)
				p.Texts = append(p.Texts, search.Merge("", lines...))
				p.Known = append(p.Known, known)
			}
		}
	}

	if len(p.RootPlanIds) > 0 {
		q.Queue(db.SearchAppend, p.RootPlanIds, p.Texts, p.Known, p.Deletions).QueryRow(func(row pgx.Row) error {
			return row.Scan(&out.deletions)
		})
	}
	return out
}

func (s *searchMemory) hash(root, what string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_, _ = h.WriteString(root) // never fails
	_ = h.WriteByte(0)
	_, _ = h.WriteString(what)
	return h.Sum64()
}

func (s *searchMemory) learn(of *queuedTexts) {
	if len(of.hashes) == 0 {
		return
	}
	s.deletions.Store(of.deletions)
	for _, hash := range of.hashes {
		s.known.Set(hash, of.deletions)
	}
}

// deleteSearched queues what deletes the texts that the search finds in trees whose root plans were
// deleted.
func deleteSearched(q *pgx.Batch, roots []string) {
	q.Queue(db.TreeDeleteSearchFresh, roots)
	q.Queue(db.TreeDeleteSearchText, roots)
	q.Queue(db.TreeDeleteSearchKnown)
}
