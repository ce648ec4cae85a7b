package search_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/actlog/actlog/internal/record/search"
)

// TestGrams: runs that have a word have its grams, however their positions are encoded.
func TestGrams(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune("abc01_- \n\u00e9.")), 0, 60, -1), 1,
			100).Draw(t, "texts")
		positions := rapid.SampledFrom([]int{104, 1024, 4096}).Draw(t, "positions")

		var all search.GramsOfRuns
		for i, text := range texts {
			all.Add(i, search.WordsOf(text))
		}
		grams, runs := all.Encode(positions)

		word := rapid.StringOfN(rapid.SampledFrom([]rune("abc01_-")), 3, 5, -1).Draw(t, "word")
		var having [][]byte
		of := search.GramsOf([]string{word})
		for _, gram := range of {
			if at, ok := slices.BinarySearch(grams, gram); ok {
				having = append(having, runs[at])
			}
		}

		var found []int
		if len(having) == len(of) {
			found = search.RunsWithAll(having, positions)
		}

		for i, text := range texts {
			if has := strings.Contains(text, word); has != strings.Contains(search.WordsOf(text), word) || has &&
				!slices.Contains(found, i) {
				t.Errorf("%q has %q: %v; words %q; found %v", text, word, has, search.WordsOf(text), found)
			}
			if slices.Contains(found, i) && len(word) == 3 && !strings.Contains(text, word) {
				t.Errorf("%q has not %q", text, word)
			}
		}
	})
}

// TestWords: a needle has its words, as far as they are looked for.
func TestWords(t *testing.T) {
	t.Parallel()
	for needle, want := range map[string]string{
		"Order-4711 of the Kelvin": "[order-4711 the kelvin]", "a b": "[]", "n\u00e4gel": "[gel]", "a-b-c": "[]",
		"the the":                             "[the]",
		"--------------------------------abc": "[]", strings.Repeat("x", 40): "[" + strings.Repeat("x", 32) + "]",
	} {
		n, err := search.NewNeedle(needle)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(n.Words(3, 32)); got != want {
			t.Errorf("%q has the words %s, want %s", needle, got, want)
		}
	}
}
