package loosejson

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep a text nests that is completed.
const maxDepth = 256

// Unclosed reports whether s ends within an object or a list that it begins with. It only looks for that, so it is
// fast.
func Unclosed(s string) bool {
	s = strings.TrimSpace(s)
	if s == "" || s[0] != '{' && s[0] != '[' {
		return false
	}

	depth := 0
	for i := 0; i < len(s); {
		switch s[i] {
		case '"':
			if i = EndOfString(s, i); i == len(s) {
				return true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return false
			}
		}
		i++
	}
	return true
}

// Complete closes an object or a list that was cut off. What was whole before the cut stays, and the beginning of the
// text in which the cut lies. A name, an id or a number of which only the beginning is left is dropped with its member.
// The arguments of a call that were cut become a text. Behind the cut may stand a mark such as "..." or "[truncated]".
// One in brackets is dropped; any other stays in a text, which may itself say that. Complete reports false for a text
// that is whole, or no beginning of JSON.
func Complete(s string) (whole string, ok bool) {
	whole, _, ok = CompleteAndCount(s)
	return whole, ok
}

// CompleteAndCount is [Complete] for a caller that bounds how much it reads: read is how many bytes were read, each as
// often as it was.
func CompleteAndCount(s string) (whole string, read int, ok bool) {
	s = strings.TrimSpace(s)
	if s == "" || s[0] != '{' && s[0] != '[' {
		return "", 0, false
	}

	for _, end := range []int{markOf(s, bracketedMark), len(s), markOf(s, bareMark)} {
		if end <= 0 {
			continue
		}
		whole, n, ok := complete(s[:end])
		if read += n; ok {
			return whole, read, true
		}
	}
	return "", read, false
}

// The marks that programs put behind a text that they cut.
const (
	dots     = `(?:\.{2,}|…)`
	markWord = `(?:trunc|cut|omit|more|char|byte|short|trim|snip|clip)`
	noQuote  = `[^\[\](){}<>"]*`
)

var (
	bracketedMark = regexp.MustCompile(`(?i)\s*` + dots + `?\s*` +
		`[\[(<{]` + noQuote + `(?:` + markWord + `|` + dots + `)` + noQuote + `[\])>}]+` + dots + `?\s*$`)
	bareMark = regexp.MustCompile(`(?i)\s*(?:` + dots + `\s*[\w+,. ]*` + markWord + `[\w,. ]*|` + dots + `|truncated)\s*$`)
)

const maxMark = 100

// markOf returns where a mark of a kind begins that stands behind a text that was cut, -1 if there is none.
func markOf(s string, mark *regexp.Regexp) int {
	from := max(0, len(s)-maxMark)
	if found := mark.FindStringIndex(s[from:]); found != nil {
		return from + found[0]
	}
	return -1
}

// scanner reads the beginning of a JSON text, up to where it was cut.
type scanner struct {
	s     string
	at    int
	next  expected
	open  []container
	whole int // what is before it is JSON, once the open containers are closed
}

// container is an object or a list that is not closed yet.
type container struct {
	from   int    // where it begins
	name   string // of the member that is being read
	isCall bool   // the name of a tool was read
}

// expected is what may come next in a JSON text.
type expected uint8

const (
	value expected = iota
	valueOrEnd
	name
	nameOrEnd
	colon
	commaOrEnd
)

func complete(s string) (whole string, read int, ok bool) {
	c := scanner{s: s}
	text, ok := c.scan()
	if !ok {
		return "", c.at, false
	}

	if i := c.arguments(); i > 0 {
		from := c.open[i].from
		raw, _ := json.Marshal(s[from:]) // a string has no error
		c.whole, c.open = from, c.open[:i]
		text = string(raw)
	}
	whole = c.closed(text)
	return whole, c.at, Valid(whole)
}

// closed returns what is whole, a text behind it, and the end of each container.
func (c *scanner) closed(text string) string {
	var b strings.Builder
	b.Grow(c.whole + len(text) + len(c.open))
	b.WriteString(c.s[:c.whole])
	b.WriteString(text)
	for _, in := range slices.Backward(c.open) {
		b.WriteByte(c.s[in.from] + 2) // ] of [, } of {
	}
	return b.String()
}

// scan reads up to the cut. It returns what remains of the text in which the cut lies, with its name. It reports false
// if s is not the beginning of JSON, or all of it.
func (c *scanner) scan() (text string, ok bool) {
	for {
		for c.at < len(c.s) && strings.IndexByte(" \t\r\n", c.s[c.at]) >= 0 {
			c.at++
		}
		if c.at == len(c.s) {
			return "", len(c.open) > 0
		}

		switch b := c.s[c.at]; {
		case b == '"' && c.next <= nameOrEnd:
			start := c.at
			closed, ok := c.readString()
			if !ok {
				return "", false
			}
			if !closed {
				return c.cutString(start), true
			}
			c.read(c.s[start:c.at])
		case (b == '{' || b == '[') && c.next <= valueOrEnd:
			if len(c.open) == maxDepth {
				return "", false
			}
			c.open = append(c.open, container{from: c.at})
			c.at++
			c.whole = c.at
			if c.next = valueOrEnd; b == '{' {
				c.next = nameOrEnd
			}
		case (b == '}' || b == ']') && c.mayEnd(b):
			c.open = c.open[:len(c.open)-1]
			if len(c.open) == 0 {
				return "", false
			}
			c.at++
			c.whole, c.next = c.at, commaOrEnd
		case b == ':' && c.next == colon:
			c.at++
			c.next = value
		case b == ',' && c.next == commaOrEnd:
			c.at++
			if c.next = value; c.inObject() {
				c.next = name
			}
		case c.next <= valueOrEnd && len(c.open) > 0:
			from := c.at
			for c.at < len(c.s) && strings.IndexByte(",]} \t\r\n", c.s[c.at]) < 0 {
				c.at++
			}
			if c.at == len(c.s) || c.at == from { // more of it may have been cut off
				return "", c.at > from
			}
			c.whole, c.next = c.at, commaOrEnd
		default:
			return "", false
		}
	}
}

// readString reads a string, and reports whether it ends. It reports false for ok if a string of JSON cannot hold it.
func (c *scanner) readString() (closed, ok bool) {
	for c.at++; c.at < len(c.s); c.at++ {
		switch b := c.s[c.at]; {
		case b == '"':
			c.at++
			return true, true
		case b == '\\':
			if !c.isEscape() {
				return false, false
			}
			c.at++
		case b < ' ':
			return false, false
		}
	}
	return false, true
}

// isEscape reports whether the backslash here begins an escape, which may be cut off.
func (c *scanner) isEscape() bool {
	rest := c.s[c.at+1:]
	if rest == "" || strings.IndexByte(`"\/bfnrt`, rest[0]) >= 0 {
		return true
	}
	digits := rest[1:min(len(rest), 5)]
	return rest[0] == 'u' && strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}

// read takes a whole string.
func (c *scanner) read(s string) {
	in := &c.open[len(c.open)-1]
	if c.next == name || c.next == nameOrEnd {
		in.name, c.next = s[1:len(s)-1], colon
		return
	}
	if c.inObject() && (in.name == "name" || in.name == "toolName") {
		in.isCall = true
	}
	c.whole, c.next = c.at, commaOrEnd
}

func (c *scanner) inObject() bool { return c.s[c.open[len(c.open)-1].from] == '{' }

func (c *scanner) mayEnd(with byte) bool {
	if len(c.open) == 0 || c.s[c.open[len(c.open)-1].from]+2 != with {
		return false
	}
	return c.next == commaOrEnd || c.next == valueOrEnd || c.next == nameOrEnd
}

// cutString returns what remains of the string that begins at start, with its name before it. It returns "" for a name,
// and for a string of which the beginning means something else than all of it.
func (c *scanner) cutString(start int) string {
	if c.next == name || c.next == nameOrEnd || c.inObject() && identifies(c.open[len(c.open)-1].name) {
		return ""
	}
	return c.s[c.whole:start+1] + beginning(c.s[start+1:]) + `"`
}

// identifies reports whether a member with this name says which thing is meant, or of what kind it is.
func identifies(name string) bool {
	switch name {
	case "role", "type", "name", "toolName", "kind", "status", "model", "object", "url":
		return true
	}
	lower := strings.ToLower(name)
	return strings.HasSuffix(lower, "id") || strings.HasSuffix(lower, "reason")
}

// beginning returns the content of a JSON string that was cut without the piece of a character or an escape at its end.
func beginning(s string) string {
	if i := strings.LastIndexByte(s, '\\'); i >= 0 {
		first := i - slashesBefore(s, i)
		switch rest := s[i:]; {
		case (i-first)%2 == 1: // the second of two
		case len(rest) == 1, rest[1] == 'u' && len(rest) < 6:
			return withoutHalf(s[:i])
		case rest[1] == 'u' && len(rest) == 6:
			return withoutHalf(s)
		}
	}

	for n := 1; n <= utf8.UTFMax && n <= len(s); n++ {
		if b := s[len(s)-n:]; utf8.RuneStart(b[0]) {
			if r, size := utf8.DecodeRuneInString(b); r == utf8.RuneError && (size <= 1 || n == size) {
				return s[:len(s)-n]
			}
			break
		}
	}
	return s
}

// withoutHalf removes the escape of the first half of a character from the end of s.
func withoutHalf(s string) string {
	if n := len(s); n >= 6 && s[n-6] == '\\' && s[n-5] == 'u' && slashesBefore(s, n-6)%2 == 0 &&
		(s[n-4] == 'd' || s[n-4] == 'D') && strings.IndexByte("89abAB", s[n-3]) >= 0 {
		return s[:n-6]
	}
	return s
}

// arguments returns which of the open containers are the arguments of a call, 0 if none are.
func (c *scanner) arguments() int {
	for i := 1; i < len(c.open); i++ {
		in := &c.open[i-1]
		if in.isCall && (in.name == "arguments" || in.name == "args" || in.name == "input") {
			return i
		}
	}
	return 0
}
