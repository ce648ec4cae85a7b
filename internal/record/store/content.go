package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/recent"
)

// contents stores long texts once in a tree. It remembers which contents are on record, so that these
// are not sent again. Any process may delete a tree. So a transaction checks each content that it relies
// on, and if one is not there, it is sent again with all contents. A content on record has all that it
// names on record, because they are written together and deleted together. So only what a row or a page
// that is written names directly has to be checked.
type contents struct {
	sizes content.Sizes
	seed  maphash.Seed
	known recent.Map[uint64, struct{}] // by root and hash
}

// knownContents is how many contents are remembered at least, with about 50 bytes each.
const knownContents = 100_000

func newContents(sizes content.Sizes) *contents {
	return &contents{sizes: sizes, seed: maphash.MakeSeed(), known: recent.Map[uint64, struct{}]{Half: knownContents}}
}

type contentKey struct {
	root string
	hash content.Hash
}

func (k contentKey) compare(other contentKey) int {
	return cmp.Or(strings.Compare(k.root, other.root), slices.Compare(k.hash[:], other.hash[:]))
}

// remembered is what stands for a key. Should two keys have the same, the check finds out.
func (c *contents) remembered(k contentKey) uint64 {
	return maphash.String(c.seed, k.root) ^ binary.LittleEndian.Uint64(k.hash[:])
}

// contentPlan says which contents of a batch are sent, and which must be on record.
type contentPlan struct {
	all       map[contentKey]content.Content // that came with the rows
	send      []contentKey                   // of these, those to be added, sorted
	mustExist []contentKey                   // those that have to be on record, sorted
	onRecord  []uint64                       // all that are on record once the batch is, see contents.remembered
}

// planContents decides which contents of a batch are sent with it and which must already be on record. For new trees,
// or if the batch may not trust the cache (a.contents is false), it sends all of them.
func (c *contents) planContents(b *batch, a assumed, fresh newTrees) (s contentPlan) {
	s.all = map[contentKey]content.Content{}
	named := map[contentKey]bool{}
	for key, row := range b.rows {
		for _, has := range row.Contents {
			s.all[contentKey{key.Root, has.Hash}] = has
		}
		for _, hash := range row.Named() {
			named[contentKey{key.Root, content.HashFromBytes(hash)}] = true
		}
	}

	sendsAll := func(root string) bool {
		_, isNew := fresh[root]
		return isNew || !a.contents
	}

	sent := map[contentKey]bool{}
	for key, has := range s.all {
		if !sendsAll(key.root) { // only then: Get counts as a use of the entry
			if _, known := c.known.Get(c.remembered(key)); known {
				continue
			}
		}

		sent[key] = true
		s.send, s.onRecord = append(s.send, key), append(s.onRecord, c.remembered(key))
		for _, hash := range has.Pieces {
			named[contentKey{key.root, hash}] = true
		}
	}

	for key := range named {
		if !sent[key] && !sendsAll(key.root) {
			s.mustExist, s.onRecord = append(s.mustExist, key), append(s.onRecord, c.remembered(key))
		}
	}

	slices.SortFunc(s.send, contentKey.compare)
	slices.SortFunc(s.mustExist, contentKey.compare)
	return s
}

// queue queues the statements that add the contents of a batch, and check those that it relies on. partition
// is where its trees lie; zero: not known.
func (s contentPlan) queue(q *pgx.Batch, partition time.Time) {
	if len(s.send) > 0 {
		roots, hashes := contentColumns(s.send)
		pieces, bodies := make([]*string, len(s.send)), make([]*string, len(s.send))
		for i, key := range s.send {
			if has := s.all[key]; has.Pieces != nil {
				pieces[i] = new(hashesLiteral(content.Bytes(has.Pieces)))
			} else {
				bodies[i] = &has.Body
			}
		}
		q.Queue(db.ContentAdd, optional.Pointer(partition), roots, hashes, pieces, bodies)
	}

	if len(s.mustExist) == 0 {
		return
	}

	roots, hashes := contentColumns(s.mustExist)
	if partition.IsZero() {
		q.Queue(db.ContentCheckAnywhere, roots, hashes)
	} else {
		q.Queue(db.ContentCheck, roots, hashes, partition)
	}
}

func contentColumns(keys []contentKey) (roots []string, hashes [][]byte) {
	for i := range keys {
		roots, hashes = append(roots, keys[i].root), append(hashes, keys[i].hash[:])
	}
	return roots, hashes
}

// copy copies the contents of trees that are new. It returns what is left to do.
func (s contentPlan) copy(ctx context.Context, tx pgx.Tx, fresh newTrees) (left contentPlan, err error) {
	left = contentPlan{all: s.all, mustExist: s.mustExist, onRecord: s.onRecord}

	var rows [][]any
	for _, key := range s.send {
		partition, ok := fresh[key.root]
		if !ok {
			left.send = append(left.send, key)
			continue
		}

		var pieces [][]byte
		var body *string
		if has := s.all[key]; has.Pieces != nil {
			pieces = content.Bytes(has.Pieces)
		} else {
			body = &has.Body
		}
		rows = append(rows, []any{key.root, partition, key.hash[:], pieces, body})
	}

	if len(rows) == 0 {
		return left, nil
	}

	columns := []string{"root_plan_id", "part", "hash", "parts", "body"}
	return left, copyRows(ctx, tx, "content", columns, pgx.CopyFromRows(rows))
}

func (c *contents) learn(kept []uint64) {
	for _, key := range kept {
		c.known.Set(key, struct{}{})
	}
}
