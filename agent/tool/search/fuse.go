package search

import (
	"cmp"
	"slices"
)

// closeness is the k of reciprocal rank fusion: with 60, which is usual, the first places of a ranking differ little,
// so that a part which both rankings have is before one that only one of them has.
const closeness = 60

type match struct {
	chunk
	score         float64
	words, vector bool
}

// request is how what matches is ranked.
type request struct {
	minScore float64
	whole    bool                   // a file is there once, by its best part; false: parts count for themselves
	less     func(path string) bool // whether files are wanted less: they have testShare of their score
}

// rank returns what matches, the best first, and whether vectors count. near is nil without vectors. With vectors, the
// score is that of the fused rankings. If no part has the least score by vectors, it is that by words.
func rank(all []chunk, words, near []float64, r request) (matches []match, fused bool) {
	if fused = slices.ContainsFunc(near, r.near); !fused {
		near = nil
	}

	group, groups := grouped(all, r.whole)
	own := r.rankings(words, near)
	shown := make(map[int]int, groups) // the best part of a group
	for i, g := range group {
		if p, ok := shown[g]; !ok || own.scores[i] > own.scores[p] {
			shown[g] = i
		}
	}

	by := r.rankings(best(words, group, groups), best(near, group, groups))
	for g, score := range by.scores {
		part := all[shown[g]]
		if r.less(part.path) {
			score *= testShare
		}
		if score > 0 {
			matches = append(matches, match{chunk: part, score: score, words: by.words[g] > 0, vector: by.vectors[g] > 0})
		}
	}
	// else in the order of paths and lines
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(b.score, a.score) })
	return matches, fused
}

func (r request) near(score float64) bool { return score >= r.minScore }

// rankings are places, from 1, and the scores that come of them.
type rankings struct {
	words, vectors []int // 0: not in the ranking
	scores         []float64
}

// rankings ranks by words, and by vectors unless near is nil.
func (r request) rankings(words, near []float64) rankings {
	byWord := places(words, func(score float64) bool { return score > 0 })
	if near == nil {
		return rankings{byWord, make([]int, len(words)), words}
	}
	byVector := places(near, r.near)
	return rankings{byWord, byVector, fuse(byWord, byVector)}
}

// grouped returns the group of each part, and how many there are: a file has one, or each part has its own.
func grouped(all []chunk, whole bool) (group []int, groups int) {
	group = make([]int, len(all))
	for i, c := range all { // the parts of a file follow each other
		if i == 0 || !whole || c.path != all[i-1].path {
			groups++
		}
		group[i] = groups - 1
	}
	return group, groups
}

// best returns the best score in each group; nothing without scores.
func best(scores []float64, group []int, groups int) []float64 {
	if scores == nil {
		return nil
	}
	found := make([]float64, groups)
	for i, g := range group {
		found[g] = max(found[g], scores[i])
	}
	return found
}

// places returns the place of each part in a ranking, from 1; 0 is that of parts that do not count. Equal scores have
// the same place.
func places(scores []float64, counts func(score float64) bool) []int {
	var order []int
	for i, score := range scores {
		if counts(score) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })

	in := make([]int, len(scores))
	for n, i := range order {
		in[i] = n + 1
		if n > 0 && scores[i] == scores[order[n-1]] {
			in[i] = in[order[n-1]]
		}
	}
	return in
}

// fuse returns the scores of parts by their places in several rankings: the sum of 1/(k+place), divided by what a part
// has that is first in all. So 1 is first in all, and with two rankings 0.5 is first in one of them and missing in the
// other.
func fuse(rankings ...[]int) []float64 {
	best := float64(len(rankings)) / (closeness + 1)
	scores := make([]float64, len(rankings[0]))
	for _, places := range rankings {
		for i, place := range places {
			if place > 0 {
				scores[i] += 1 / (closeness + float64(place)) / best
			}
		}
	}

	for i := range scores {
		scores[i] = min(scores[i], 1) // what is rounded up
	}
	return scores
}
