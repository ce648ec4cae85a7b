package search

import (
	"encoding/binary"
	"slices"
	"strings"
)

// A gram is three characters of a word in a row, as a number.

const (
	wordChars = 38 // letters, digits, _ and -
	gramChars = 3
	allGrams  = wordChars * wordChars * wordChars
)

// WordsOf returns the words of a folded text that have a gram, each once, in lines.
func WordsOf(folded string) string {
	var b strings.Builder
	seen := map[string]bool{}
	for word := range strings.FieldsFuncSeq(folded, func(r rune) bool { return !inWord(r) }) {
		if len(word) < gramChars || seen[word] {
			continue
		}

		seen[word] = true
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(word)
	}
	return b.String()
}

// GramsOf returns the grams of words, each once.
func GramsOf(words []string) (grams []int32) {
	for _, w := range words {
		eachGram(w, func(gram int) { grams = append(grams, int32(gram)) })
	}
	slices.Sort(grams)
	return slices.Compact(grams)
}

// eachGram calls f with each gram of words, which are separated by other characters. A gram is the number of the last
// gramChars characters in base wordChars: the modulus drops the character before them.
func eachGram(words string, f func(gram int)) {
	gram, inRow := 0, 0
	for i := range len(words) {
		n := wordChar(words[i])
		if n < 0 {
			inRow = 0
			continue
		}

		gram = (gram*wordChars + n) % allGrams
		if inRow++; inRow >= gramChars {
			f(gram)
		}
	}
}

// wordChar returns the number of a character of words; -1: it is none.
func wordChar(c byte) int {
	switch {
	case c >= 'a' && c <= 'z':
		return int(c - 'a')
	case c >= '0' && c <= '9':
		return 26 + int(c-'0')
	case c == '_':
		return 36
	case c == '-':
		return 37
	}
	return -1
}

// GramsOfRuns is which runs have which grams. The zero value has none.
type GramsOfRuns struct{ runs [][]uint16 }

// Add adds the words of a run, which are in lines. Runs are added in the order of their positions.
func (g *GramsOfRuns) Add(position int, words string) {
	if g.runs == nil {
		g.runs = make([][]uint16, allGrams)
	}
	at := uint16(position)
	eachGram(words, func(gram int) {
		if had := g.runs[gram]; len(had) == 0 || had[len(had)-1] != at {
			g.runs[gram] = append(had, at)
		}
	})
}

// Encode returns the grams that some run has, and which runs these are: two bytes for each, or one bit for each of all
// positions if that is shorter.
func (g *GramsOfRuns) Encode(positions int) (grams []int32, runs [][]byte) {
	for gram, having := range g.runs {
		if len(having) == 0 {
			continue
		}

		var b []byte
		if 2*len(having) < positions/8 {
			for _, at := range having {
				b = binary.BigEndian.AppendUint16(b, at)
			}
		} else {
			b = make([]byte, positions/8)
			for _, at := range having {
				b[at/8] |= 1 << (at % 8)
			}
		}

		grams, runs = append(grams, int32(gram)), append(runs, b)
	}
	return grams, runs
}

// RunsWithAll returns the positions that all of some encoded runs have.
func RunsWithAll(encoded [][]byte, positions int) (all []int) {
	count := make([]int, positions)
	for _, b := range encoded {
		if len(b) == positions/8 {
			for at := range positions {
				count[at] += int(b[at/8] >> (at % 8) & 1)
			}
			continue
		}

		for ; len(b) >= 2; b = b[2:] {
			if at := int(binary.BigEndian.Uint16(b)); at < positions {
				count[at]++
			}
		}
	}

	for at, n := range count {
		if n == len(encoded) {
			all = append(all, at)
		}
	}
	return all
}
