package search

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Needle is a text that is looked for in others, as [Fold] prepares it.
type Needle struct{ folded string }

// NewNeedle reads what is looked for. The error says what is wrong with it.
func NewNeedle(text string) (Needle, error) {
	if len(text) > MaxQueryBytes {
		return Needle{}, fmt.Errorf("must be at most %d bytes long", MaxQueryBytes)
	}
	n := Needle{fold(text)}
	if n.folded == "" {
		return Needle{}, errors.New("must not be empty")
	}
	return n, nil
}

// Snippet is where a text has a needle, in one line: white space is one space, and what cannot be printed is left out.
type Snippet struct {
	Before, Match, After string
}

const (
	// snippetBefore and snippetAfter are how much of a text stands around the match, in bytes.
	snippetBefore = 80
	snippetAfter  = 160
	// maxEscaped is how often a text is freed of the escapes of JSON, which may have JSON in its strings.
	maxEscaped = 3
)

// In returns the first place where a text has the needle. A text with escapes of JSON is also searched without
// them. ok is false if the needle is not there.
func (n Needle) In(text string) (s Snippet, ok bool) {
	for range maxEscaped {
		if at := strings.Index(fold(text), n.folded); at >= 0 {
			start, end := unfold(text, at, at+len(n.folded))
			return snippet(text, start, end), true
		}

		plain := unescape(text)
		if len(plain) == len(text) {
			return Snippet{}, false
		}
		text = plain
	}
	return Snippet{}, false
}

// unfold returns where that part of a text stands of which fold made the bytes from start to end.
func unfold(text string, start, end int) (from, to int) {
	var it norm.Iter
	it.InitString(norm.NFC, text)
	folded, space := 0, false // how much fold has made so far, and whether a space comes before the next character
	from = -1
	for !it.Done() {
		at := it.Pos()
		for piece := it.Next(); len(piece) > 0; {
			r, size := utf8.DecodeRune(piece)
			piece = piece[size:]
			if unicode.IsSpace(r) {
				space = folded > 0
				continue
			}

			if space {
				folded, space = folded+1, false
			}
			if from < 0 && folded+utf8.RuneLen(unicode.ToLower(r)) > start {
				from = at
			}
			if folded += utf8.RuneLen(unicode.ToLower(r)); folded >= end {
				return from, it.Pos()
			}
		}
	}
	return max(from, 0), len(text)
}

func snippet(text string, start, end int) Snippet {
	before, after := text[:start], text[end:]
	s := Snippet{Match: line(text[start:end])}

	if cut := len(before) - snippetBefore; cut > 0 {
		for cut < len(before) && !utf8.RuneStart(before[cut]) {
			cut++
		}
		s.Before = "…"
		before = before[cut:]
	}
	s.Before += line(before)

	rest := ""
	if cut := snippetAfter; len(after) > cut {
		for cut > 0 && !utf8.RuneStart(after[cut]) {
			cut--
		}
		after, rest = after[:cut], "…"
	}
	s.After = line(after) + rest
	return s
}

// line returns a text with one space wherever there is white space, and without what cannot be printed.
func line(text string) string {
	var b strings.Builder
	space := false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			space = true
			continue
		case !unicode.IsPrint(r):
			continue
		}

		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}

	if space {
		b.WriteByte(' ')
	}
	return b.String()
}

// unescape returns a text with the characters that the escapes of JSON in it stand for. Without any, it is the same
// text.
func unescape(text string) string {
	next := strings.IndexByte(text, '\\')
	if next < 0 {
		return text
	}

	b := make([]byte, 0, len(text))
	for ; next >= 0; next = strings.IndexByte(text, '\\') {
		b = append(b, text[:next]...)
		text = text[next:]
		size := 2
		switch c := text[min(1, len(text)-1)]; c {
		case 'n', 'r', 't', 'b', 'f':
			b = append(b, '\n')
		case '"', '/':
			b = append(b, c)
		case '\\':
			b, size = append(b, c), min(size, len(text))
		default:
			r, ok := escapedRune(text)
			if !ok {
				b, size = append(b, '\\'), 1
				break
			}

			size = 6
			if low, ok := escapedRune(text[size:]); ok && utf16.IsSurrogate(r) {
				if r = utf16.DecodeRune(r, low); r != unicode.ReplacementChar {
					size = 12
				}
			}
			b = utf8.AppendRune(b, r)
		}
		text = text[size:]
	}
	return string(append(b, text...))
}

// escapedRune returns the code unit of the escape \u with which a text begins. ok is false if it does not.
func escapedRune(text string) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(n), err == nil
}

// Word is a sequence of small ASCII letters, digits, - and _ that every text has, in some form, that has a needle.
type Word struct {
	Text string // may be empty
	// Bare is the longest part without letters, if it is worth a look: it is the same in every form but an escape.
	Bare string
	// Alike are the characters that are no ASCII letters and may become letters of the word when texts are compared.
	Alike []string
	// InRow is how many letters and digits stand in a row in it, at most.
	InRow int
}

// leastBare is how long a part without letters has to be.
const leastBare = 3

// Word returns the longest word of the needle.
func (n Needle) Word() (w Word) {
	w.Text = longest(n.folded, inWord)
	if bare := longest(w.Text, func(r rune) bool { return r < 'a' || r > 'z' }); len(bare) >= leastBare {
		w.Bare = bare
	}

	for _, l := range becomesPlain {
		if strings.Contains(w.Text, l.plain) {
			w.Alike = append(w.Alike, l.from...)
		}
	}
	w.InRow = len(longest(w.Text, plain))
	return w
}

// mostWords is how many words [Needle.Words] returns, at most.
const mostWords = 8

// Words returns the first words of the needle, as [Needle.Word] understands them, that have so many letters and digits
// in a row. Of a long one, it returns the first most characters. Every text that has the needle has all of them, in
// some form.
func (n Needle) Words(inRow, most int) (words []string) {
	for word := range strings.FieldsFuncSeq(n.folded, func(r rune) bool { return !inWord(r) }) {
		word = word[:min(len(word), most)]
		if len(longest(word, plain)) >= inRow && len(words) < mostWords && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}

// inWord reports whether a character belongs to a word.
func inWord(r rune) bool { return plain(r) || r == '-' || r == '_' }

// longest returns the first of the longest sequences of some characters.
func longest(text string, of func(rune) bool) (found string) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return !of(r) }) {
		if len(part) > len(found) {
			found = part
		}
	}
	return found
}

// becomesPlain are the characters that are no ASCII letters and become such. The migrations know them as well.
var becomesPlain = []struct {
	plain string
	from  []string
}{
	{"i", []string{"İ", "I\u0307"}},
	{"k", []string{"\u212a"}}, // the sign of the unit kelvin
}
