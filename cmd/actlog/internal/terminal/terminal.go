// Package terminal owns what a person's terminal is sent: nothing in a recorded text, an answer of a server or the name
// of a file is obeyed by the terminal, or fools who reads it.
package terminal

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns a text of several lines as a terminal may be sent it. Control characters, those that change the
// direction of what follows, and those that nobody sees are written as \uXXXX, as in JSON: JSON stays the same JSON.
// Joiners that form what stands around them are seen in it. Lines end with \n. What is not UTF-8 becomes U+FFFD.
func Text(s string) string { return string(appendText(nil, []byte(s), 0, hidden)) }

// Line is Text for a piece of a line, such as an id or the name of a file: it writes line breaks and tabs as \uXXXX,
// too.
func Line(s string) string {
	return string(appendText(nil, []byte(s), 0, func(r rune) bool { return r == '\n' || r == '\t' || hidden(r) }))
}

// Plain is Text for reading: it leaves out what Text would write as \uXXXX.
func Plain(s string) string {
	var out strings.Builder
	var before rune
	for i, r := range s {
		if !hidden(r) || isJoiner(r) && joins(before, s[i+joinerBytes:]) {
			out.WriteRune(r)
		}
		before = r
	}
	return out.String()
}

// Exact is Text for what a human decides on: it also writes characters as \uXXXX that look like nothing or like a
// space, and the selectors and joiners of emoji. It returns how many characters it wrote so.
func Exact(s string) (text string, escaped int) {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		if r == '\n' || r == '\t' || r == ' ' || seen(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		escaped++
		out = appendEscape(out, r)
	}
	return string(out), escaped
}

// hidden reports whether a terminal is not sent a character: it is obeyed, or it is not shown. Blanks of other widths
// are shown, and so are the selectors that make an emoji of a character. Joiners are hidden but for where they join.
func hidden(r rune) bool {
	switch {
	case r >= ' ' && r <= '~', r == '\n', r == '\t', r == '\ufe0e', r == '\ufe0f':
		return false
	}
	return !seen(r) && !unicode.Is(unicode.Zs, r)
}

// seen reports whether a character shows something of its own, such as a letter.
func seen(r rune) bool {
	return unicode.IsPrint(r) && r != brailleBlank &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// The joiners U+200C and U+200D: Persian and Indic scripts need them, and emoji that are made of others.
const (
	nonJoiner   = '\u200c'
	joiner      = '\u200d'
	joinerBytes = 3
)

func isJoiner(r rune) bool { return r == nonJoiner || r == joiner }

// joins reports whether a joiner between a character and a text forms them: both show something, and they are not both
// ASCII, where it does nothing but hide.
func joins[T string | []byte](before rune, text T) bool {
	after, _ := utf8.DecodeRuneInString(string(text[:min(len(text), utf8.UTFMax)]))
	shows := func(r rune) bool { return seen(r) && r != ' ' && r != utf8.RuneError }
	return (shows(before) || before == '\ufe0f') && shows(after) && max(before, after) > unicode.MaxASCII
}

// brailleBlank is a symbol without ink.
const brailleBlank = '\u2800'

// appendText appends a text with its strange characters written as \uXXXX. Of \r\n it leaves the \r out. before is the
// character before it.
func appendText(to, text []byte, before rune, strange func(rune) bool) []byte {
	for len(text) > 0 {
		plain := bytes.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError || strange(r) })
		if plain < 0 {
			return append(to, text...)
		}
		if plain > 0 {
			before, _ = utf8.DecodeLastRune(text[:plain])
		}
		to, text = append(to, text[:plain]...), text[plain:]

		r, size := utf8.DecodeRune(text)
		text = text[size:]
		switch {
		case r == utf8.RuneError, isJoiner(r) && joins(before, text):
			to = utf8.AppendRune(to, r)
		case r == '\r' && len(text) > 0 && text[0] == '\n':
		default:
			to = appendEscape(to, r)
		}
		before = r
	}

	return to
}

// appendEscape appends \uXXXX, or two of them.
func appendEscape(to []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	units := utf16.AppendRune(nil, r)
	for _, u := range units {
		to = append(to, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	return to
}

// colours are the sequences that views of the program itself write.
var colours = regexp.MustCompile("^\x1b\\[([012]|3[123])m")

// Writer writes what is written to it like [Text]. A character may come in pieces. It is safe for concurrent use.
type Writer struct {
	to      io.Writer
	colours bool

	mu   *sync.Mutex // of all Writers to the same
	last rune        // what was written last
	rest []byte      // the beginning of a character, a joiner, or a \r
}

// New returns a Writer to w.
func New(w io.Writer) *Writer { return &Writer{to: w, mu: new(sync.Mutex)} }

// Coloured returns a Writer to where w writes, which lets the program's own colours through. What is not the program's
// goes through [Text] first.
func Coloured(w io.Writer) *Writer {
	if t, ok := w.(*Writer); ok {
		return &Writer{to: t.to, colours: true, mu: t.mu}
	}
	return &Writer{to: w, colours: true, mu: new(sync.Mutex)}
}

// Raw returns where w writes, if it is a Writer; else w. It is for other programs, and for what moves the cursor.
func Raw(w io.Writer) io.Writer {
	if t, ok := w.(*Writer); ok {
		return t.to
	}
	return w
}

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	text := p
	if len(w.rest) > 0 {
		text = slices.Concat(w.rest, p)
	}
	whole := len(text) - unfinished(text)
	w.rest = slices.Clone(text[whole:])

	if err := w.put(text[:whole]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what is left of a character that never came whole.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := w.rest
	w.rest = nil
	return w.put(rest)
}

func (w *Writer) put(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	_, err := w.to.Write(w.shown(text))
	w.last, _ = utf8.DecodeLastRune(text)
	return err
}

// shown returns a text as it is written.
func (w *Writer) shown(text []byte) []byte {
	out, before := make([]byte, 0, len(text)), w.last
	for w.colours && len(text) > 0 {
		if own := colours.Find(text); own != nil {
			out, text = append(out, own...), text[len(own):]
			before = 0
			continue
		}

		next := len(text)
		if at := bytes.IndexByte(text[1:], '\x1b'); at >= 0 {
			next = at + 1
		}
		out, text = appendText(out, text[:next], before, hidden), text[next:]
	}
	return appendText(out, text, before, hidden)
}

// unfinished returns how many bytes at the end of a text depend on what follows: the beginning of a character or of a
// line break, and a joiner.
func unfinished(text []byte) int {
	n := begun(text)
	if r, _ := utf8.DecodeLastRune(text[:len(text)-n]); isJoiner(r) {
		n += joinerBytes
	}
	return n
}

// begun returns how many bytes at the end of a text may be the beginning of a character, or of a line break.
func begun(text []byte) int {
	if bytes.HasSuffix(text, []byte("\r")) {
		return 1
	}

	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}
