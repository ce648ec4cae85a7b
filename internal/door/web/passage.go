package web

import (
	"cmp"
	"html"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/loosejson"
)

const (
	// maxShown bounds how much of a text the detail shows at first, and maxWhole how much of it on request. What is longer
	// is downloaded.
	maxShown = 64 << 10
	maxWhole = 4 << 20
	// maxMarked bounds what is read as Markdown: for some texts that takes time that grows with the square of their
	// length, 2 s for 64 KiB.
	maxMarked = 32 << 10
	// minShown is how much of a text is shown, however much the texts before it took of maxAtOnce.
	minShown  = 200
	maxAtOnce = 512 << 10
)

type passage struct {
	id    string // in the address of the text
	label string
	about string // what the label is said of; empty: nothing
	at    string // where the text is shown as a whole; empty: here
	text  string // as it is on record
	bad   bool   // it says what went wrong
	aside bool   // it is folded at first
	lost  bool   // its end was cut when it was recorded
	raw   bool   // it is shown as it is, else JSON is indented and made legible
	exact bool   // a human decides on it: it is shown whole, and with what it hides

	shown  string
	cut    bool   // shown is its beginning only
	whole  bool   // all of it was asked for
	marked string // the text as HTML, made of Markdown; empty: that was not asked for
}

// lay decides what is shown of a text. left is how much the detail may still show; it is less by that afterwards.
func (p *passage) lay(l *look, left *int) {
	most := max(min(maxShown, *left), minShown)
	if p.whole = p.id != "" && l.whole == p.id; p.whole || p.exact {
		most = maxWhole
	}

	if p.id != "" && l.markdown == p.id && len(p.text) <= maxMarked {
		p.marked = markdown(p.text)
		return
	}

	switch {
	case p.raw:
		p.shown = p.text
	case p.exact:
		p.shown = exactly(indent(p.text, most))
	default:
		p.shown = indent(legible(p.text), most)
	}

	p.cut = len(p.shown) > most
	p.shown = field.Shorten(p.shown, most)
	*left -= len(p.shown)
}

// isJSON reports whether a text is a JSON object or list.
func (p *passage) isJSON() bool {
	t := strings.TrimSpace(p.text)
	return t != "" && (t[0] == '{' || t[0] == '[') && loosejson.Valid(t)
}

// maxLine is how long an object or a list may be that is shown in one line.
const maxLine = 72

// indent indents a text that is a JSON object or list. Its numbers and strings stay as they are. Of what becomes longer
// than most bytes, it returns so much that this can be seen.
func indent(text string, most int) string {
	t := strings.TrimSpace(text)
	if t == "" || t[0] != '{' && t[0] != '[' || !loosejson.Valid(t) {
		return text
	}

	var b strings.Builder
	depth, until := 0, 0 // what ends before until is in one line
	for i := 0; i < len(t) && b.Len() <= most; i++ {
		c := t[i]
		breaks := false // a line begins here, or behind it
		switch c {
		case ' ', '\n', '\r', '\t':
			continue
		case '"':
			from := i
			i = loosejson.EndOfString(t, i) - 1
			b.WriteString(t[from : i+1])
			continue
		case '{', '[':
			if end, short := line(t, i); short {
				until = max(until, end)
			}
			depth++
			breaks = i >= until
		case '}', ']':
			depth--
			if i >= until {
				newLine(&b, depth)
			}
		case ',':
			breaks = i >= until
		}

		b.WriteByte(c)
		switch {
		case breaks:
			newLine(&b, depth)
		case c == ',' || c == ':':
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func newLine(b *strings.Builder, depth int) {
	b.WriteByte('\n')
	for range depth {
		b.WriteString("  ")
	}
}

// line returns the index after an object or list of valid JSON, if it is short enough for a line.
func line(t string, from int) (end int, short bool) {
	depth, long := 0, 0
	for i := from; i < len(t); i++ {
		switch t[i] {
		case ' ', '\n', '\r', '\t':
			continue
		case '"':
			at := i
			i = loosejson.EndOfString(t, i) - 1
			long += i - at
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}

		if long++; long > maxLine {
			return 0, false
		}
		if depth == 0 {
			return i + 1, true
		}
	}
	return 0, false
}

func size(text string) string {
	if n := len(text); n >= 1<<20 {
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
	}
	return strconv.Itoa((len(text)+1023)>>10) + " KiB"
}

// verbatim is a text of which a browser shows and copies each character: it would read a carriage return as a new line.
func verbatim(text string) templ.Component {
	return templ.Raw(strings.ReplaceAll(html.EscapeString(text), "\r", "&#13;"))
}

func (p *passage) name() string { return cmp.Or(strings.TrimSpace(p.label+" "+p.about), "text") }

// canMark reports whether a text may be Markdown.
func (p *passage) canMark() bool { return !p.raw && !p.isJSON() && len(p.text) <= maxMarked }
