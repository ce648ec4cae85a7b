package store

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/search"
	"github.com/actlog/actlog/record"
)

// The index of the search over runs consists of slices of up to sliceTrees trees. For each gram, a
// slice has the set of its trees whose texts have the gram. What all grams of a query have in common
// are the candidates of the slice; their texts are checked. Texts that are in no slice yet (fresh
// ones) are searched one by one. See upkeep, which makes slices of them.

// A search looks at few candidates first, and at twice as many each time, because the newest that
// match may be among the first.
const (
	firstCandidates = 256
	mostCandidates  = 4096
	firstSlices     = 16
	mostSlices      = 512
)

type planSearcher struct {
	*Reader
	query    search.Query
	list     db.PlanListParams
	limit    int
	deadline time.Time
	most     int // candidates of the next round
	found    []PlanSummary
}

// searchPlans lists the root plans that a query finds and that the list may have. It goes from the
// newest to the oldest, and ends when it has a page.
func (r *Reader) searchPlans(
	ctx context.Context, text string, list db.PlanListParams, deadline time.Time,
) ([]PlanSummary, error) {
	query, err := search.Parse(text)
	if err != nil {
		return nil, &record.InvalidError{Code: record.CodeInvalidValue, Field: "q", Reason: err.Error()}
	}

	s := &planSearcher{
		Reader: r, query: query, list: list, limit: int(list.PageSize), deadline: deadline,
		most: max(firstCandidates, 2*int(list.PageSize)), found: []PlanSummary{},
	}

	// Fresh texts come first: while this goes on, they may only move into slices.
	if err := s.searchFresh(ctx); err != nil {
		return nil, err
	}
	if err := s.searchSlices(ctx); err != nil {
		return nil, err
	}
	return s.found, nil
}

// floor returns a place that all that can still come on the page is newer than.
func (s *planSearcher) floor() PlanCursor {
	floor := PlanCursor{s.list.AfterTime, s.list.AfterID}
	if len(s.found) == s.limit {
		if last := s.found[s.limit-1].Cursor; compareCursors(last, floor) > 0 {
			return last
		}
	}
	return floor
}

// done reports whether nothing up to a place can be on the page.
func (s *planSearcher) done(newest PlanCursor) bool { return compareCursors(newest, s.floor()) <= 0 }

// add adds those of the trees to the page that the list may have. A tree may come again, because it
// may be in several slices. If it was found, and is not on the page any more, it is behind the whole
// page, which only moves to newer trees: so it falls off again. If the list may not have it, it is
// refused again.
func (s *planSearcher) add(ctx context.Context, roots []string) error {
	s.most = min(2*s.most, mostCandidates)
	have := make(map[string]bool, len(s.found)+len(roots))
	for i := range s.found {
		have[s.found[i].Record.RootPlanID] = true
	}

	s.list.Found = s.list.Found[:0]
	for _, root := range roots {
		if !have[root] {
			have[root] = true
			s.list.Found = append(s.list.Found, root)
		}
	}
	if len(s.list.Found) == 0 {
		return nil
	}

	plans, err := s.listPlans(ctx, s.list, s.deadline)
	if err != nil {
		return err
	}
	s.found = append(s.found, plans...)
	slices.SortFunc(s.found, func(a, b PlanSummary) int { return compareCursors(b.Cursor, a.Cursor) })
	s.found = s.found[:min(len(s.found), s.limit)]
	return nil
}

// searchFresh searches the trees that have texts that are in no slice.
func (s *planSearcher) searchFresh(ctx context.Context) error {
	fresh, err := collectBefore(ctx, s.Reader, s.deadline, genericPlan, pgx.RowToStructByPos[db.SearchFreshRow],
		db.SearchFresh, s.query.Like, s.query.Regexp, s.list.BeforeTime, s.list.BeforeID)
	if err != nil {
		return err
	}

	for len(fresh) > 0 && !s.done(PlanCursor{fresh[0].BeganAt, fresh[0].RootPlanID}) {
		n := min(s.most, len(fresh))
		roots := make([]string, n)
		for i := range roots {
			roots[i] = fresh[i].RootPlanID
		}
		if err := s.add(ctx, roots); err != nil {
			return err
		}
		fresh = fresh[n:]
	}
	return nil
}

// candidate is a tree that has all grams.
type candidate struct {
	slice, position int32
	newest          PlanCursor // nothing of the slice that is still to be looked at is before this
}

func (s *planSearcher) searchSlices(ctx context.Context) error {
	after, lastSlice := PlanCursor{forever, lastOfAll}, int32(math.MaxInt32)
	for most := firstSlices; ; most = min(2*most, mostSlices) {
		rows, err := collectBefore(ctx, s.Reader, s.deadline, genericPlan, pgx.RowToStructByPos[db.SearchSlicesRow],
			db.SearchSlices, s.list.BeforeTime, s.list.BeforeID, after.BeganAt, after.RootPlanID, lastSlice, most, s.query.Grams)
		if err != nil {
			return err
		}

		var candidates []candidate
		for i, row := range rows {
			after, lastSlice = PlanCursor{row.NewestAt, row.NewestID}, row.Slice
			for i := range row.Trees.Len {
				if row.Trees.Bytes[i/8]&(0x80>>(i%8)) != 0 {
					candidates = append(candidates, candidate{row.Slice, i, after})
				}
			}

			if len(candidates) < s.most && i < len(rows)-1 {
				continue // a round may be of several slices
			}
			if err := s.check(ctx, candidates); err != nil {
				return err
			}
			if candidates = candidates[:0]; s.done(after) {
				return nil
			}
		}

		if len(rows) < most {
			return nil
		}
	}
}

// check adds the candidates whose texts match, until the page is full. The slices come newest
// first, and so do the trees of a slice.
func (s *planSearcher) check(ctx context.Context, candidates []candidate) error {
	for len(candidates) > 0 && !s.done(newestOf(candidates)) {
		round := candidates[:min(s.most, len(candidates))]
		candidates = candidates[len(round):]
		inSlices, positions := make([]int32, len(round)), make([]int32, len(round))
		for i, c := range round {
			inSlices[i], positions[i] = c.slice, c.position
		}

		floor := s.floor()
		trees, err := collectBefore(ctx, s.Reader, s.deadline, genericPlan, pgx.RowToStructByPos[db.SearchMatchesRow],
			db.SearchMatches, s.list.BeforeTime, s.list.BeforeID, floor.BeganAt, floor.RootPlanID, s.query.Like,
			s.query.Regexp, inSlices, positions)
		if err != nil {
			return err
		}

		var roots []string
		for _, t := range trees {
			if t.Matches {
				roots = append(roots, t.RootPlanID)
			}
		}
		if err := s.add(ctx, roots); err != nil {
			return err
		}
		if len(trees) < len(round) { // a slice was deleted meanwhile
			continue
		}

		// The rest of a slice is behind the last of its trees that was looked at.
		last := trees[len(trees)-1]
		for i := 0; i < len(candidates) && candidates[i].slice == round[len(round)-1].slice; i++ {
			candidates[i].newest = PlanCursor{last.BeganAt, last.RootPlanID}
		}
	}
	return nil
}

// newestOf returns a place that none of the candidates is before: the first slice may have been
// looked at in part.
func newestOf(candidates []candidate) PlanCursor {
	newest := candidates[0].newest
	for _, c := range candidates {
		if c.slice != candidates[0].slice && compareCursors(c.newest, newest) > 0 {
			return c.newest
		}
	}
	return newest
}

// SearchIncomplete reports whether runs from before the index was made may be missing in what it
// finds, because its index is still being filled.
func (r *Reader) SearchIncomplete(ctx context.Context) (bool, error) {
	return pg.Read(ctx, r.db, func() (bool, error) { return r.queries.SearchIncomplete(ctx, r.db) })
}
