// Package search owns what a search matches: how texts are prepared, what the words of a query
// are, and the grams by which an index finds them. Pure functions.
package search

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The bounds of a query and of what is searched.
const (
	MaxQueryBytes = 1_000
	MaxWords      = 16
	// MaxTextBytes is how much of the beginning of a text is searched.
	MaxTextBytes = 8 << 10
	// MaxTreeBytes is how much of the texts of a tree is searched in all.
	MaxTreeBytes = 64 << 10
)

// Fold prepares the beginning of a text for the search: composed characters, lower case, and
// one space wherever there is white space.
func Fold(text string) string {
	if len(text) > MaxTextBytes {
		end := MaxTextBytes
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	return fold(text)
}

// fold is Fold of a whole text. It goes through a text once: most of the time of a search is spent here.
func fold(text string) string {
	b := make([]byte, 0, len(text))
	for i, normal := 0, false; i < len(text); {
		c, size := text[i], 1
		switch {
		case c == ' ' || '\t' <= c && c <= '\r':
			b = space(b)
		case 'A' <= c && c <= 'Z':
			b = append(b, c+'a'-'A')
		case c < utf8.RuneSelf:
			b = append(b, c)
		case !normal:
			if !norm.NFC.IsNormalString(text) {
				text = norm.NFC.String(text)
				b, i = b[:0], 0
			}
			normal, size = true, 0
		default:
			var r rune
			if r, size = utf8.DecodeRuneInString(text[i:]); unicode.IsSpace(r) {
				b = space(b)
			} else {
				b = utf8.AppendRune(b, unicode.ToLower(r))
			}
		}
		i += size
	}

	if n := len(b); n > 0 && b[n-1] == ' ' {
		b = b[:n-1]
	}
	return string(b)
}

// space adds a space to what is folded, but not a second one, and none at the beginning.
func space(b []byte) []byte {
	if len(b) > 0 && b[len(b)-1] != ' ' {
		b = append(b, ' ')
	}
	return b
}

// Text is the text of a tree: lines that Fold returned, each once, as far as there is room. The zero
// value is an empty one.
type Text struct {
	text []byte
	seen map[string]bool // the lines
}

// Add adds a line, unless it stands there or there is no room for it.
func (t *Text) Add(line string) {
	if line == "" || len(t.text)+1+len(line) > MaxTreeBytes || t.seen[line] {
		return
	}

	if t.seen == nil {
		t.seen = map[string]bool{}
	}
	if len(t.text) > 0 {
		t.text = append(t.text, '\n')
	}
	t.text = append(t.text, line...)
	t.seen[line] = true
}

func (t *Text) String() string { return string(t.text) }

// Merge adds lines to the text of a tree.
func Merge(text string, lines ...string) string {
	t := Text{text: []byte(text), seen: map[string]bool{}}
	for line := range strings.SplitSeq(text, "\n") {
		t.seen[line] = true
	}
	for _, line := range lines {
		t.Add(line)
	}
	return t.String()
}

// Query is what a text must have to match: each word somewhere.
type Query struct {
	// Grams are those that the index has for every text that matches. Sorted.
	Grams []int64
	// Like has a pattern of LIKE for each word that may stand anywhere.
	Like []string
	// Regexp has a regular expression of Postgres for each short word that must begin a word
	// of the text.
	Regexp []string
}

// Parse reads a query. The error says what is wrong with it.
func Parse(q string) (Query, error) {
	if len(q) > MaxQueryBytes {
		return Query{}, fmt.Errorf("must be at most %d bytes long", MaxQueryBytes)
	}
	words := strings.Fields(Fold(q))
	slices.Sort(words)
	words = slices.Compact(words)
	switch {
	case len(words) == 0:
		return Query{}, errors.New("must have a word")
	case len(words) > MaxWords:
		return Query{}, fmt.Errorf("must have at most %d words", MaxWords)
	}

	query := Query{Like: []string{}, Regexp: []string{}}
	for _, word := range words {
		runes := []rune(word)
		switch {
		case len(runes) < 3 && plain(runes[0]) && plain(runes[len(runes)-1]):
			query.Regexp = append(query.Regexp, "(^|[^a-z0-9])"+word)
		default:
			query.Like = append(query.Like, "%"+escape.Replace(word)+"%")
		}

		if len(runes) < 3 {
			query.Grams = append(query.Grams, gram(runes...))
			continue
		}
		for i := range len(runes) - 2 {
			query.Grams = append(query.Grams, gram(runes[i:i+3]...))
		}
	}

	slices.Sort(query.Grams)
	query.Grams = slices.Compact(query.Grams)
	return query, nil
}

var escape = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// plain reports whether r is an ASCII letter or digit of a folded text. One or two of them are
// in nearly every text, so alone they must begin a word. Other characters mean something alone.
func plain(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' }

// gram is a sequence of up to three characters, as a number.
func gram(runes ...rune) (g int64) {
	for _, r := range runes {
		g = g<<21 | int64(r)
	}
	return g
}

// EachGram calls f with the grams of a text, some of them more than once: any three characters in
// a row, and one or two of them if they begin a word or are not all ASCII letters and digits.
// White space is in none.
func EachGram(text string, f func(gram int64)) {
	var a, b rune  // the characters before r; 0: white space
	var start bool // whether b begins a word
	for _, r := range text {
		if unicode.IsSpace(r) {
			a, b = 0, 0
			continue
		}

		begins := !plain(r) || !plain(b)
		if begins {
			f(int64(r))
		}
		if b != 0 {
			if start || !plain(r) {
				f(gram(b, r))
			}
			if a != 0 {
				f(gram(a, b, r))
			}
		}

		a, b = b, r
		start = begins
	}
}
