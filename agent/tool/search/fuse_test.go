package search_test

import (
	"math"
	"slices"
	"testing"

	"github.com/actlog/actlog/agent/tool/search"
)

// The score of a part is the sum of 1/(60+place) in both rankings, divided by what the first in both has.
func TestFusedScore(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		words, vectors int
		want           float64
	}{
		{1, 1, 1},
		{1, 0, 0.5},
		{0, 1, 0.5},
		{0, 0, 0},
		{2, 3, (1.0/62 + 1.0/63) * 61 / 2},
		{1, 100, (1.0/61 + 1.0/160) * 61 / 2},
		{0, 20_000, 61.0 / 20_060 / 2},
	} {
		if got := search.Fuse([]int{row.words}, []int{row.vectors})[0]; math.Abs(got-row.want) > 1e-12 {
			t.Errorf("places %d and %d: %v, want %v", row.words, row.vectors, got, row.want)
		}
	}
}

// A part that both rankings have comes before one that is first in only one of them. Of two that both have, the one
// with the better places comes first, whichever ranking has them.
func TestFusedOrder(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name                         string
		words, vectors, worse, other int // places of one part, and of a worse one
	}{
		{"both, and the first in one", 10, 10, 1, 0},
		{"the same in one ranking", 3, 2, 3, 4},
		{"better in one than worse in the other", 1, 2, 3, 1},
		{"a far place counts a little", 5, 500, 5, 0},
	} {
		scores := search.Fuse([]int{row.words, row.worse}, []int{row.vectors, row.other})
		if scores[0] <= scores[1] {
			t.Errorf("%s: %v", row.name, scores)
		}
	}
}

// Equal scores have the same place, and what is below the least score has none.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		scores []float64
		want   []int
	}{
		{[]float64{0.9, 0.7, 0.8, 0.69}, []int{1, 3, 2, 0}},
		{[]float64{0.8, 0.9, 0.8, 0.7}, []int{2, 1, 2, 4}},
		{[]float64{0.1, 0.2}, []int{0, 0}},
		{nil, []int{}},
	} {
		if got := search.Places(row.scores, 0.7); !slices.Equal(got, row.want) {
			t.Errorf("%v: %v, want %v", row.scores, got, row.want)
		}
	}
}
