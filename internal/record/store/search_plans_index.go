package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/search"
)

// sliceTrees is how many trees a slice of the index has at most. The statements know it.
const sliceTrees = 4096

// sliceGrams ends a slice once its trees have so many grams: they are collected in memory.
const sliceGrams = 100_000

// FreshTexts is how many rows of fresh texts are worth a slice. A search reads fewer in a few
// milliseconds.
const FreshTexts = sliceTrees

const (
	// freshBytes of fresh texts are worth a slice as well, however few rows they are.
	freshBytes = 8 << 20
	// indexBytes of texts are indexed at once, or little more.
	indexBytes = 16 << 20
	// readTrees are read from the records by one statement. They have at most indexBytes.
	readTrees = indexBytes / search.MaxTreeBytes
)

// planAgain makes Postgres plan each statement of a transaction for tables as they are: the index
// begins empty and grows fast, and a plan for an empty table reads all of it.
const planAgain = "SET LOCAL plan_cache_mode = 'force_custom_plan'"

// sweptSlices are looked at by one sweep: a transaction stays short even if all of them go.
const sweptSlices = 16

// IndexFresh moves fresh texts into the index, in the caller's transaction, if there are
// more rows of them than least, or many bytes. more reports that there may be others to move. One
// transaction at a time may do this.
func (s *Store) IndexFresh(ctx context.Context, tx pgx.Tx, least int) (more bool, err error) {
	if _, err := tx.Exec(ctx, planAgain); err != nil {
		return false, err
	}
	if more, err = s.queries.SearchFreshDue(ctx, tx,
		db.SearchFreshDueParams{Most: int32(least) + 1, Bytes: freshBytes}); err != nil || !more {
		return false, err
	}
	fresh, err := s.queries.SearchFreshFirst(ctx, tx, db.SearchFreshFirstParams{Most: FreshTexts, Bytes: indexBytes})
	if err != nil || len(fresh) == 0 {
		return false, err
	}

	ids := make([]int64, len(fresh))
	lines, saidAt := map[string][]string{}, map[string][]time.Time{}
	for i, f := range fresh {
		ids[i] = f.ID
		lines[f.RootPlanID] = append(lines[f.RootPlanID], strings.Split(f.Text, "\n")...)
		saidAt[f.RootPlanID] = append(saidAt[f.RootPlanID], f.SaidAt)
	}

	trees, err := s.queries.SearchHold(ctx, tx, slices.Sorted(maps.Keys(lines)))
	if err != nil {
		return false, err
	}

	// What was written before the fresh texts, without the index, is in the records only.
	var partly []string
	for _, t := range trees {
		if !t.Indexed && !slices.ContainsFunc(saidAt[t.RootPlanID], t.FirstSeenAt.Equal) {
			partly = append(partly, t.RootPlanID)
		}
	}
	recorded, err := readTexts(ctx, tx, partly)
	if err != nil {
		return false, err
	}
	for i, root := range partly {
		if i < len(recorded) {
			lines[root] = append(strings.Split(recorded[i], "\n"), lines[root]...)
			continue
		}
		delete(lines, root) // it has its turn later
	}

	trees = slices.DeleteFunc(trees, func(t db.SearchHoldRow) bool { return lines[t.RootPlanID] == nil })
	if err := s.index(ctx, tx, trees, lines); err != nil {
		return false, err
	}
	return true, s.queries.SearchFreshDelete(ctx, tx, db.SearchFreshDeleteParams{
		RootPlanIds: slices.Collect(maps.Keys(lines)), Ids: ids,
	})
}

// IndexMissing adds trees that the search does not know to the index, in the caller's transaction:
// those from before there was an index, and those that other programs wrote or to which they gave
// another start. It goes from the
// oldest to the newest, a slice at a time, and returns where the next call goes on; nil: there are
// no others.
func (s *Store) IndexMissing(ctx context.Context, tx pgx.Tx, after PlanCursor) (next *PlanCursor, err error) {
	if _, err := tx.Exec(ctx, planAgain); err != nil {
		return nil, err
	}
	if err := s.queries.PlanLockTable(ctx, tx); err != nil { // first, as every writer
		return nil, err
	}

	missing, err := s.queries.SearchMissing(ctx, tx, db.SearchMissingParams{
		AfterTime: after.BeganAt, AfterID: after.RootPlanID, Most: sliceTrees,
	})
	if err != nil {
		return nil, err
	}
	if len(missing) == 0 {
		return nil, s.queries.SearchBackfilled(ctx, tx)
	}

	roots := make([]string, len(missing))
	for i, m := range missing {
		roots[i] = m.RootPlanID
	}
	recorded, err := readTexts(ctx, tx, roots)
	if err != nil {
		return nil, err
	}

	roots = roots[:len(recorded)]
	trees, err := s.queries.SearchHold(ctx, tx, slices.Sorted(slices.Values(roots))) // as writers lock them
	if err != nil {
		return nil, err
	}

	lines := map[string][]string{}
	for i, root := range roots {
		lines[root] = strings.Split(recorded[i], "\n")
	}
	last := missing[len(roots)-1]
	return &PlanCursor{last.BeganAt, last.RootPlanID}, s.index(ctx, tx, trees, lines)
}

// readTexts reads the texts of trees from their records, in the order of the roots: of as many trees
// as have indexBytes together, or little more.
func readTexts(ctx context.Context, tx pgx.Tx, roots []string) (texts []string, err error) {
	bytes := 0
	for some := range slices.Chunk(roots, readTrees) {
		if bytes > indexBytes {
			break
		}
		rows, err := tx.Query(ctx, searchedTexts, some, search.MaxTextBytes)
		if err != nil {
			return nil, err
		}

		trees := map[string]*search.Text{}
		for _, root := range some {
			trees[root] = new(search.Text)
		}
		var root, text string
		if _, err := pgx.ForEachRow(rows, []any{&root, &text}, func() error {
			trees[root].Add(search.Fold(text))
			return nil
		}); err != nil {
			return nil, err
		}

		for _, root := range some {
			text := trees[root].String()
			texts, bytes = append(texts, text), bytes+len(text)
		}
	}
	return texts, nil
}

var searchedTexts = fieldsql.Searched()

// SweepSlices deletes slices of the index whose trees are all gone, in the caller's transaction. It
// looks at some slices behind one, and returns where the next call goes on; 0: there are no others.
func (s *Store) SweepSlices(ctx context.Context, tx pgx.Tx, after int32) (next int32, err error) {
	return s.queries.SearchSliceSweep(ctx, tx, db.SearchSliceSweepParams{After: after, Most: sweptSlices})
}

// index adds lines to the texts of trees that are held, and the trees to new slices. A tree that is
// in a slice already comes into the new one with all of its texts, so that one slice has all words of
// a query. A tree that began at another time than its latest slice knows comes into a new one, too: so
// one slice has it in its place.
func (s *Store) index(ctx context.Context, tx pgx.Tx, held []db.SearchHoldRow, lines map[string][]string) error {
	var roots, texts []string
	var began []time.Time
	trees := held[:0]
	for _, t := range held {
		text := search.Merge(t.Text, lines[t.RootPlanID]...)
		if t.Indexed && text == t.Text && t.IndexedAt != nil && t.IndexedAt.Equal(t.BeganAt) {
			continue
		}

		roots, texts = append(roots, t.RootPlanID), append(texts, text)
		began = append(began, t.BeganAt)
		if t.Text = text; text != "" {
			trees = append(trees, t)
		}
	}

	if len(roots) > 0 {
		if err := s.queries.SearchTextKeep(ctx, tx,
			db.SearchTextKeepParams{RootPlanIds: roots, Texts: texts, BeganAt: began}); err != nil {
			return err
		}
	}

	// Newest first, as the list.
	slices.SortFunc(trees, func(a, b db.SearchHoldRow) int {
		return compareCursors(PlanCursor{b.BeganAt, b.RootPlanID}, PlanCursor{a.BeganAt, a.RootPlanID})
	})
	for len(trees) > 0 {
		sets, n := gather(trees)
		if err := s.addSlice(ctx, tx, trees[:n], sets); err != nil {
			return err
		}
		trees = trees[n:]
	}
	return nil
}

// gather returns the grams of the next slice, each with the places of the trees that have it, and how
// many trees the slice has.
func gather(trees []db.SearchHoldRow) (sets map[int64]*treeSet, n int) {
	sets = map[int64]*treeSet{}
	for n < min(len(trees), sliceTrees) && len(sets) < sliceGrams {
		search.EachGram(trees[n].Text, func(gram int64) {
			set := sets[gram]
			if set == nil {
				set = new(treeSet)
				sets[gram] = set
			}
			set.add(n)
		})
		n++
	}
	return sets, n
}

// addSlice makes a slice of trees, newest first.
func (s *Store) addSlice(ctx context.Context, tx pgx.Tx, trees []db.SearchHoldRow, sets map[int64]*treeSet) error {
	newest, oldest := trees[0], trees[len(trees)-1]
	slice, err := s.queries.SearchSliceAdd(ctx, tx, db.SearchSliceAddParams{
		NewestAt: newest.BeganAt, NewestID: newest.RootPlanID, OldestAt: oldest.BeganAt, OldestID: oldest.RootPlanID,
	})
	if err != nil {
		return err
	}

	columns := []string{"slice", "position", "began_at", "root_plan_id"}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"actlog", "search_member"}, columns,
		pgx.CopyFromSlice(len(trees), func(i int) ([]any, error) {
			return []any{slice, int32(i), trees[i].BeganAt, trees[i].RootPlanID}, nil
		}))
	if err != nil {
		return fmt.Errorf("copy the trees of a slice: %w", err)
	}

	grams := slices.Sorted(maps.Keys(sets)) // in the order of the index
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"actlog", "search_gram"}, []string{"slice", "gram", "trees"},
		pgx.CopyFromSlice(len(grams), func(i int) ([]any, error) {
			return []any{slice, grams[i], sets[grams[i]].bits()}, nil
		}))
	return pg.Wrap(err, "copy the grams of a slice")
}

// treeSet is a set of positions in a slice. Most grams are in few trees, so it is a list until it
// would take as much memory as a bit for each position.
type treeSet struct {
	few  []uint16
	many []byte
	end  int // after the last position
}

// add adds a position that is not less than those that are there.
func (t *treeSet) add(i int) {
	switch {
	case t.end == i+1:
		return
	case t.many != nil:
		setBit(t.many, i)
	case len(t.few) < sliceTrees/16:
		t.few = append(t.few, uint16(i))
	default:
		t.many, t.few = t.bytes(sliceTrees), nil
		setBit(t.many, i)
	}
	t.end = i + 1
}

// bytes returns the bits of the first end positions.
func (t *treeSet) bytes(end int) []byte {
	if t.many != nil {
		return t.many[:(end+7)/8]
	}

	b := make([]byte, (end+7)/8)
	for _, i := range t.few {
		setBit(b, int(i))
	}
	return b
}

func (t *treeSet) bits() pgtype.Bits {
	return pgtype.Bits{Bytes: t.bytes(t.end), Len: int32(t.end), Valid: true}
}

// setBit sets a bit as Postgres counts them.
func setBit(b []byte, i int) { b[i/8] |= 0x80 >> (i % 8) }

// Beginning is before every plan.
func Beginning() PlanCursor { return PlanCursor{BeganAt: beginning} }
