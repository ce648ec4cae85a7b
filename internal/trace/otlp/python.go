package otlp

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/record/loosejson"
)

// fromPython returns a literal of Python, as its repr prints a dict, a list or a tuple, as JSON. A
// text that is JSON stays as it is. It returns "" for anything else, such as the repr of an object.
func fromPython(s string) string {
	if isJSON(s) {
		return s
	}

	p := python{s: strings.TrimSpace(s), out: make([]byte, 0, len(s))}
	if p.s == "" || strings.IndexByte("{[(", p.s[0]) < 0 || !p.value(0) || p.at != len(p.s) {
		return ""
	}
	return string(p.out)
}

// withoutObjects returns JSON in which texts that are the repr of an object of Python are JSON objects
// with the fields of that. Names of private fields lose their underscore. Anything else stays as it is.
func withoutObjects(s string) string {
	if !strings.Contains(s, "(") || !isJSON(s) {
		return s
	}
	return string(appendWithoutObjects(nil, strings.TrimSpace(s)))
}

func appendWithoutObjects(b []byte, v string) []byte {
	switch v[0] {
	case '{':
		b = append(b, '{')
		for key, value := range members(v) {
			b = appendWithoutObjects(appendName(b, key), value)
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for value := range elements(v) {
			b = appendWithoutObjects(comma(b), value)
		}
		return append(b, ']')
	case '"':
		p := python{s: strings.TrimSpace(text(v)), objects: true}
		if pythonObject.MatchString(p.s) && p.value(0) && p.at == len(p.s) {
			return append(b, p.out...)
		}
	}
	return append(b, v...)
}

// python writes what it has read of a literal as JSON.
type python struct {
	s       string
	at      int
	out     []byte
	objects bool // reads the repr of objects as well
}

func (p *python) value(depth int) bool {
	if p.at >= len(p.s) || depth > maxMessageDepth {
		return false
	}
	switch p.s[p.at] {
	case '{':
		return p.list('{', '}', depth)
	case '[':
		return p.list('[', ']', depth)
	case '(':
		return p.list('[', ')', depth)
	case '\'', '"':
		return p.text()
	}

	end := p.at
	for end < len(p.s) && strings.IndexByte(",]})(:= ", p.s[end]) < 0 {
		end++
	}
	word := p.s[p.at:end]
	if p.objects && (p.s[p.at] == '<' || end < len(p.s) && p.s[end] == '(') {
		return p.object(end, depth)
	}

	p.at = end
	switch word {
	case "None":
		p.out = append(p.out, "null"...)
	case "nan":
		p.out = append(p.out, "NaN"...)
	case "inf":
		p.out = append(p.out, "Infinity"...)
	case "-inf":
		p.out = append(p.out, "-Infinity"...)
	case "True":
		p.out = append(p.out, "true"...)
	case "False":
		p.out = append(p.out, "false"...)
	default:
		f, err := strconv.ParseFloat(word, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return false
		}
		if _, err := strconv.ParseInt(word, 10, 64); err == nil {
			p.out = append(p.out, word...)
		} else {
			p.out = strconv.AppendFloat(p.out, f, 'g', -1, 64)
		}
	}
	return true
}

// object reads the repr of an object, Name(field=value), whose name ends at end, or of a member of an
// enumeration, <Name.MEMBER: value>. Anything else between < and > is null.
func (p *python) object(end, depth int) bool {
	if p.s[p.at] == '<' {
		closing := strings.IndexByte(p.s[p.at:], '>')
		if closing < 0 {
			return false
		}
		_, value, _ := strings.Cut(p.s[p.at+1:p.at+closing], ": ")
		p.at += closing + 1

		inner := python{s: value}
		if value == "" || !inner.value(depth+1) || inner.at != len(value) {
			inner.out = []byte("null")
		}
		p.out = append(p.out, inner.out...)
		return true
	}

	p.at = end + 1
	p.out = append(p.out, '{')
	for {
		p.at = skipSpace(p.s, p.at)
		if p.at >= len(p.s) {
			return false
		}
		if p.s[p.at] == ')' {
			p.at++
			p.out = append(p.out, '}')
			return true
		}

		name, _, ok := strings.Cut(p.s[p.at:], "=")
		if !ok || strings.ContainsAny(name, " ,()[]{}'\"") {
			return false
		}

		p.at += len(name) + 1
		p.out = appendName(p.out, strings.TrimLeft(name, "_"))
		if !p.value(depth + 1) {
			return false
		}
		if !p.skip(',') && (p.at >= len(p.s) || p.s[p.at] != ')') {
			return false
		}
	}
}

// list reads a dict, a list or a tuple up to its closing bracket.
func (p *python) list(open, closing byte, depth int) bool {
	p.at++
	p.out = append(p.out, open)
	for {
		p.at = skipSpace(p.s, p.at)
		if p.at >= len(p.s) {
			return false
		}
		if p.s[p.at] == closing {
			p.at++
			p.out = append(p.out, open+2) // } of {, ] of [
			return true
		}

		p.out = comma(p.out)
		if open == '{' {
			if c := p.s[p.at]; c != '\'' && c != '"' || !p.text() || !p.skip(':') {
				return false
			}
			p.out = append(p.out, ':')
			p.at = skipSpace(p.s, p.at)
		}
		if !p.value(depth + 1) {
			return false
		}
		if !p.skip(',') && (p.at >= len(p.s) || p.s[p.at] != closing) {
			return false
		}
	}
}

// skip skips space and then a byte, and reports whether it was there.
func (p *python) skip(c byte) bool {
	p.at = skipSpace(p.s, p.at)
	if p.at >= len(p.s) || p.s[p.at] != c {
		return false
	}
	p.at++
	return true
}

// escapes are what a letter after a backslash stands for.
var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\""}

func (p *python) text() bool {
	quote := p.s[p.at]
	var b strings.Builder
	for p.at++; p.at < len(p.s); p.at++ {
		c := p.s[p.at]
		switch {
		case c == quote:
			p.at++
			p.out = loosejson.AppendString(p.out, b.String())
			return true
		case c != '\\':
			b.WriteByte(c)
			continue
		}

		if p.at++; p.at >= len(p.s) {
			return false
		}
		c = p.s[p.at]
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		if digits == 0 {
			if s, ok := escapes[c]; ok {
				b.WriteString(s)
			} else {
				b.WriteString(p.s[p.at-1 : p.at+1])
			}
			continue
		}

		if p.at+digits >= len(p.s) {
			return false
		}
		r, err := strconv.ParseUint(p.s[p.at+1:p.at+1+digits], 16, 32)
		if err != nil {
			return false
		}

		if r > utf8.MaxRune {
			r = utf8.RuneError
		}
		b.WriteRune(rune(r))
		p.at += digits
	}
	return false
}

// pythonObject matches how Python shows an object.
var pythonObject = regexp.MustCompile(`^\s*[\[(]*(` +
	`[A-Za-z_]\w*\(\w+=|` +
	`[A-Z]\w*[a-z]\w*\(\)\s*$|` +
	`[A-Za-z_]\w*=('|"|None|True|False|[\[({<\d]|[A-Za-z_.]+\().*[\s,]\w+=|` +
	`\{'|` +
	`<[\w.]+ object at 0x)`)
