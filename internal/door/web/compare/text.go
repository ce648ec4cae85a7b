package compare

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// Line is a line of a text, or of two texts if both have it.
type Line struct {
	// Side is - if only the first text has it, + if only the second has it, and else a space.
	Side byte
	// Words are the pieces of the line, of which the marked ones differ from the other text. The line ends with them.
	Words []Word
	// Hidden is how many lines follow that both texts have, and that are left out.
	Hidden int
}

// Word is a piece of a line.
type Word struct {
	Text   string
	Marked bool
}

const (
	// contextLines is how many lines are shown before and after those that differ.
	contextLines = 3
	// maxWords bounds the texts that are compared word by word, in bytes.
	maxWords = 16 << 10
)

// Lines returns what differs in two texts, line by line, and word by word in lines that took the place of others.
// Longer parts that both have are left out.
func Lines(a, b string) (lines []Line) {
	x, y := slices.Collect(strings.Lines(a)), slices.Collect(strings.Lines(b))
	at := 0
	for _, d := range lcs.DiffLines(x, y) {
		lines = appendContext(lines, x[at:d.Start], at == 0, false)
		lines = changed(lines, strings.Join(x[d.Start:d.End], ""), strings.Join(y[d.ReplStart:d.ReplEnd], ""))
		at = d.End
	}
	return appendContext(lines, x[at:], at == 0, true)
}

// appendContext adds unchanged lines between two changes: contextLines at each end that touches a change. Longer
// middles become one Line with Hidden; a single line is shown, because its mark would take as much room.
func appendContext(lines []Line, unchanged []string, atStart, atEnd bool) []Line {
	head, tail := contextLines, contextLines
	if atStart {
		head = 0
	}
	if atEnd {
		tail = 0
	}

	hidden := len(unchanged) - head - tail
	for i, text := range unchanged {
		switch {
		case hidden <= 1 || i < head || i >= head+hidden:
			lines = append(lines, Line{Side: ' ', Words: []Word{{Text: text}}})
		case i == head:
			lines = append(lines, Line{Side: ' ', Hidden: hidden})
		}
	}
	return lines
}

// changed adds lines of the first text, and those that took their place.
func changed(lines []Line, a, b string) []Line {
	x, y := []Word{{Text: a}}, []Word{{Text: b}}
	if a != "" && b != "" && len(a)+len(b) <= maxWords {
		x, y = marked(words(a), words(b))
	}
	return inLines(inLines(lines, '-', x), '+', y)
}

// marked marks the words that differ.
func marked(a, b []string) (x, y []Word) {
	add := func(to []Word, some []string, differ bool) []Word {
		if len(some) == 0 {
			return to
		}
		return append(to, Word{strings.Join(some, ""), differ})
	}

	fromA, fromB := 0, 0
	for _, d := range lcs.DiffLines(a, b) {
		x, y = add(x, a[fromA:d.Start], false), add(y, b[fromB:d.ReplStart], false)
		x, y = add(x, a[d.Start:d.End], true), add(y, b[d.ReplStart:d.ReplEnd], true)
		fromA, fromB = d.End, d.ReplEnd
	}
	return add(x, a[fromA:], false), add(y, b[fromB:], false)
}

// words cuts a text into words and what is between them.
func words(s string) (all []string) {
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if inWord(r) {
			for n < len(s) {
				next, size := utf8.DecodeRuneInString(s[n:])
				if !inWord(next) {
					break
				}
				n += size
			}
		}

		all, s = append(all, s[:n]), s[n:]
	}
	return all
}

// inLines adds pieces of a text, line by line.
func inLines(lines []Line, side byte, pieces []Word) []Line {
	line := Line{Side: side}
	for _, p := range pieces {
		for text := range strings.SplitAfterSeq(p.Text, "\n") {
			if text == "" {
				continue
			}
			line.Words = append(line.Words, Word{text, p.Marked})
			if strings.HasSuffix(text, "\n") {
				lines, line = append(lines, line), Line{Side: side}
			}
		}
	}

	if len(line.Words) > 0 {
		lines = append(lines, line)
	}
	return lines
}
