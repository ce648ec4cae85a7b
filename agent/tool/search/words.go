package search

import (
	"math"
	"path"
	"slices"
	"strings"
	"unicode"
)

// The parameters of BM25, as most use them.
const (
	saturation = 1.2  // how many times a word must be in a part of usual length to count half
	byLength   = 0.75 // how much it matters that a part has more words than others
)

// What else counts. docs/toolsets.md has the measure.
const (
	nameTimes   = 5   // a word of the name of the file counts as if the text had it so many times
	folderTimes = 1   // so does one of its folders
	tellTimes   = 0.5 // and a word of a line that tells what is there, besides that it is in the text
	testShare   = 0.7 // of the score is left for files of tests, unless the query asks for tests
)

// byWords returns how much of a query is in each part: words that are in few parts weigh more. 0 is
// nothing, and 1 would be each word without end.
func byWords(query string, all []chunk) []float64 {
	in := termsOf(query)
	return bm25(tallyAll(all, in), len(in))
}

// unwanted returns whether a query wants a file less than others: it is one of tests, and the query does not ask for
// them.
func unwanted(query string) func(path string) bool {
	_, asked := termsOf(query)["test"]
	return func(path string) bool { return !asked && isTest(path) }
}

// tally is how often a text has each term of a query, and how many words it has.
type tally struct {
	counts []float64
	length float64
}

func tallyAll(all []chunk, in map[string]int) []tally {
	tallies := make([]tally, len(all))
	for i, c := range all {
		t := &tallies[i]
		t.counts = make([]float64, len(in))
		t.add(path.Base(c.path), in, nameTimes)
		t.add(path.Dir(c.path), in, folderTimes)

		for line := range strings.Lines(c.text) {
			times := 1.0
			if tells(line) {
				times += tellTimes
			}
			t.add(line, in, times)
		}
	}
	return tallies
}

// telling are how lines begin that say what is there: comments, headings and declarations of many languages.
var telling = strings.Fields(`// # * /* """ -- ; <!-- abstract async class const def enum export fn func function impl
	interface let mod module package private protected pub public record static struct trait type var`)

func tells(line string) bool {
	line = strings.TrimSpace(line)
	return slices.ContainsFunc(telling, func(word string) bool {
		rest, ok := strings.CutPrefix(line, word)
		letter := word[0] >= 'a' && word[0] <= 'z'
		return ok && (!letter || strings.HasPrefix(rest, " "))
	})
}

// add counts the terms of a text, each so many times.
func (t *tally) add(text string, in map[string]int, times float64) {
	words(text, func(w string) {
		t.length += times
		if j, ok := in[stem(w)]; ok {
			t.counts[j] += times
		}
	})
}

// bm25 returns the scores of texts, from 0 to 1: BM25, divided by what a text would have that had each term without
// end.
func bm25(texts []tally, terms int) []float64 {
	have := make([]int, terms) // how many texts have the term
	total := 0.0
	for _, t := range texts {
		total += t.length
		for j, n := range t.counts {
			if n > 0 {
				have[j]++
			}
		}
	}

	weights, sum := make([]float64, terms), 0.0
	for j, n := range have {
		weights[j] = math.Log(1 + (float64(len(texts)-n)+0.5)/(float64(n)+0.5))
		sum += weights[j]
	}

	scores := make([]float64, len(texts))
	for i, t := range texts {
		half := saturation * (1 - byLength + byLength*t.length*float64(len(texts))/total)
		for j, n := range t.counts {
			scores[i] += weights[j] / sum * n / (n + half)
		}
	}
	return scores
}

// termsOf returns the terms of a query, with an index for each. Words that say nothing are left out, unless there are
// no others.
func termsOf(query string) map[string]int {
	all, telling := map[string]int{}, map[string]int{}
	words(query, func(w string) {
		if _, ok := all[stem(w)]; !ok {
			all[stem(w)] = len(all)
		}
		if _, ok := telling[stem(w)]; !ok && !common[w] {
			telling[stem(w)] = len(telling)
		}
	})

	if len(telling) > 0 {
		return telling
	}
	return all
}

// common are words of questions that say nothing about what is asked for. Code has few of them, so they would weigh
// much.
var common = setOf(`a an and any are as at be because been but by can could did do does done for from had has have how i if in
	into is it its may me must my no not of on or our shall should so some than that the their them then there these they this
	those to us was we were what when where which while who whom whose why will with would you your`)

func setOf(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}

// suffixes are those of English words, the longer of two first. What is left of a word has at least three letters.
var suffixes = []string{
	"ations", "ation", "ingly", "edly", "ings", "ing", "ied", "ies", "ers", "er", "ed", "es", "ly", "s", "e",
}

// stem returns what forms of an English word have in common, so that a query for validated tokens finds validateToken.
func stem(word string) string {
	for _, suffix := range suffixes {
		left, ok := strings.CutSuffix(word, suffix)
		if !ok || len(left) < 3 || suffix == "s" && strings.HasSuffix(left, "s") {
			continue
		}

		switch {
		case suffix == "ied" || suffix == "ies":
			return left + "y"
		case doubled(left):
			return left[:len(left)-1]
		}
		return strings.TrimSuffix(left, "e")
	}
	return word
}

// doubled reports whether a word ends with a consonant that was doubled before a suffix, as in dropped.
func doubled(word string) bool {
	n := len(word)
	return n > 3 && word[n-1] == word[n-2] && !strings.ContainsRune("slaeiou", rune(word[n-1]))
}

func isTest(at string) bool {
	if strings.HasPrefix(at, "tests/") || strings.Contains(at, "/tests/") || strings.Contains("/"+at, "/testdata/") {
		return true
	}
	name := strings.TrimSuffix(path.Base(at), path.Ext(at))
	return strings.HasPrefix(name, "test_") || strings.HasSuffix(name, "_test") || strings.HasSuffix(name, ".test") ||
		strings.HasSuffix(name, ".spec")
}

// words returns the words of a text in lower case. A name such as readFile or read_file has two, and is a
// word as a whole, too.
func words(text string, each func(string)) {
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
	}) {
		begin, parts := 0, 0
		part := func(end int) {
			if begin < end {
				each(strings.ToLower(field[begin:end]))
				parts++
			}
		}

		var last rune
		for i, r := range field {
			switch {
			case r == '_':
				part(i)
				begin = i + 1
			case unicode.IsUpper(r) && unicode.IsLower(last):
				part(i)
				begin = i
			}
			last = r
		}

		part(len(field))
		if parts > 1 {
			each(strings.ToLower(field))
		}
	}
}
