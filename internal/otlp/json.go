package otlp

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/record"
)

// Messages are JSON in a dozen shapes, most of it never looked at. So it is
// walked as text, without building values: what no one asks for costs a scan, and
// the order and spelling of the rest stay. The functions below expect valid JSON
// and survive any text.

// isJSON tells whether s is a JSON object or array that nests within limits.
func isJSON(s string) bool {
	s = strings.TrimSpace(s)
	return s != "" && (s[0] == '{' || s[0] == '[') && shallow(s) && json.Valid([]byte(s))
}

// shallow tells whether a JSON text nests no deeper than records may.
func shallow(s string) bool {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			i = endOfString(s, i) - 1
		case '{', '[':
			if depth++; depth > record.MaxJSONDepth {
				return false
			}
		case '}', ']':
			depth--
		}
	}
	return true
}

// endOfString gives the place behind the string that begins at i.
func endOfString(s string, i int) int {
	for i++; i < len(s); i++ {
		j := strings.IndexByte(s[i:], '"')
		if j < 0 {
			return len(s)
		}
		i += j
		slashes := 0
		for i-slashes > 0 && s[i-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
	return len(s)
}

// endOfValue gives the place behind the value that begins at i.
func endOfValue(s string, i int) int {
	if i >= len(s) {
		return len(s)
	}
	switch s[i] {
	case '"':
		return endOfString(s, i)
	case '{', '[':
		depth := 0
		for i < len(s) {
			switch s[i] {
			case '"':
				i = endOfString(s, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			i++
			if depth == 0 {
				return i
			}
		}
		return len(s)
	}
	for i < len(s) && strings.IndexByte(",]} \t\r\n", s[i]) < 0 {
		i++
	}
	return i
}

func skipSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\r' || s[i] == '\t') {
		i++
	}
	return i
}

// members calls f with each member of an object until it says no. Values are JSON.
func members(s string, f func(key, value string) bool) {
	i := skipSpace(s, 0)
	if i >= len(s) || s[i] != '{' {
		return
	}
	for i++; ; i++ {
		i = skipSpace(s, i)
		if i >= len(s) || s[i] != '"' {
			return
		}
		end := endOfString(s, i)
		key := text(s[i:end])
		i = skipSpace(s, end)
		if i >= len(s) || s[i] != ':' {
			return
		}
		i = skipSpace(s, i+1)
		end = endOfValue(s, i)
		if end <= i || !f(key, s[i:end]) {
			return
		}
		i = skipSpace(s, end)
		if i >= len(s) || s[i] != ',' {
			return
		}
	}
}

// elements calls f with each element of an array until it says no.
func elements(s string, f func(value string) bool) {
	i := skipSpace(s, 0)
	if i >= len(s) || s[i] != '[' {
		return
	}
	for i++; ; i++ {
		i = skipSpace(s, i)
		end := endOfValue(s, i)
		if end <= i || !f(s[i:end]) {
			return
		}
		i = skipSpace(s, end)
		if i >= len(s) || s[i] != ',' {
			return
		}
	}
}

// member gives a member of an object, as JSON, "" where there is none or null.
func member(s string, names ...string) string {
	found := ""
	best := len(names)
	members(s, func(key, value string) bool {
		for i, name := range names[:best] {
			if key == name && value != "null" {
				found, best = value, i
			}
		}
		return best > 0
	})
	return found
}

// firstElement gives the first element of an array, as JSON.
func firstElement(array string) (first string) {
	elements(array, func(e string) bool { first = e; return false })
	return first
}

// memberAt follows a path of members.
func memberAt(s string, path ...string) string {
	for _, name := range path {
		s = member(s, name)
	}
	return s
}

// text gives what a JSON string says; of other values their JSON, of null "".
func text(s string) string {
	if s == "" || s == "null" {
		return ""
	}
	if s[0] != '"' {
		return s
	}
	if len(s) >= 2 && strings.IndexByte(s, '\\') < 0 {
		return s[1 : len(s)-1]
	}
	var out string
	if err := json.Unmarshal([]byte(s), &out); err != nil {
		return s
	}
	return out
}

// unquoted gives what s says where it is a JSON string, else s.
func unquoted(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return text(s)
	}
	return s
}

// compact takes the white space out of JSON.
func compact(s string) string {
	if strings.IndexByte(s, '\n') < 0 && strings.IndexByte(s, ' ') < 0 && strings.IndexByte(s, '\t') < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		switch s[i] {
		case ' ', '\n', '\r', '\t':
			i++
		case '"':
			end := endOfString(s, i)
			b.WriteString(s[i:end])
			i = end
		default:
			b.WriteByte(s[i])
			i++
		}
	}
	return b.String()
}

// htmlEscapes are what package json writes where it fears HTML or JavaScript.
var htmlEscapes = map[string]string{`\u003c`: "<", `\u003e`: ">", `\u0026`: "&", `\u2028`: "\u2028", `\u2029`: "\u2029"}

// unescaped takes those back, so that a value that was kept is what it had been.
func unescaped(s string) string {
	if !strings.Contains(s, `\u`) {
		return s
	}
	var b strings.Builder
	start := 0
	for i := 0; i+1 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if i+6 <= len(s) {
			if raw, ok := htmlEscapes[s[i:i+6]]; ok {
				b.WriteString(s[start:i])
				b.WriteString(raw)
				start = i + 6
				i += 5
				continue
			}
		}
		i++ // whatever is escaped
	}
	b.WriteString(s[start:])
	return b.String()
}

const hexDigits = "0123456789abcdef"

// appendString writes s as a JSON string. HTML stays as it is.
func appendString(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(b, s[start:]...), '"')
}

// comma writes the comma before a member or an element that is not the first.
func comma(b []byte) []byte {
	if c := b[len(b)-1]; c != '{' && c != '[' {
		b = append(b, ',')
	}
	return b
}

// appendMember writes a member of an object, with the comma before it.
func appendMember(b []byte, name, value string) []byte {
	return appendString(append(appendString(comma(b), name), ':'), value)
}

// appendRaw is appendMember for a value that is JSON.
func appendRaw(b []byte, name, value string) []byte {
	return append(append(appendString(comma(b), name), ':'), value...)
}

// asJSON gives s where it is JSON, else s as a JSON string.
func asJSON(s string) string {
	if isJSON(s) {
		return s
	}
	return string(appendString(nil, s))
}
