package search

import (
	"cmp"
	"slices"
)

// closeness is the k of reciprocal rank fusion: with 60, which is usual, the first places of a ranking differ little, so
// that a part which both rankings have is before one that only one of them has.
const closeness = 60

// match is a part that matches, and what found it.
type match struct {
	chunk
	score         float64
	words, vector bool
}

// rank returns the parts that match, the best first, and whether vectors count. near is nil without vectors. With
// vectors, the score is that of the fused rankings. If no part has the least score by vectors, it is that by words.
func rank(all []chunk, words, near []float64, minScore float64) (matches []match, fused bool) {
	byWord := places(words, func(score float64) bool { return score > 0 })
	byVector := places(near, func(score float64) bool { return score >= minScore })
	scores := words
	if fused = slices.ContainsFunc(byVector, func(place int) bool { return place > 0 }); fused {
		scores = fuse(byWord, byVector)
	}

	for i, score := range scores {
		if score > 0 {
			matches = append(matches, match{chunk: all[i], score: score, words: byWord[i] > 0, vector: fused && byVector[i] > 0})
		}
	}
	// else in the order of paths and lines
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(b.score, a.score) })
	return matches, fused
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
// has that is first in all. So 1 is first in all, and with two rankings 0.5 is first in one of them and missing in the other.
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
