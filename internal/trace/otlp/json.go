package otlp

import (
	"encoding/json"
	"iter"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actlog/actlog/internal/record/loosejson"
	"github.com/actlog/actlog/record"
)

// Messages are JSON in a dozen shapes, and most of it is never looked at. The functions below
// therefore walk the text without building values: an unused part costs only a scan, and the rest
// keeps its order and spelling. They expect valid JSON and survive any text.

// maxMessageDepth bounds how deep messages may be wrapped.
const maxMessageDepth = 16

// isJSON reports whether s is a JSON object or array that nests within limits. NaN and Infinity are as good as
// numbers.
func isJSON(s string) bool {
	s = strings.TrimSpace(s)
	return s != "" && (s[0] == '{' || s[0] == '[') && withinDepth(s) && loosejson.Valid(s)
}

// withinDepth reports whether a JSON text nests no deeper than records may.
func withinDepth(s string) bool {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			i = loosejson.EndOfString(s, i) - 1
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

// endOfValue returns the index after the value that begins at i.
func endOfValue(s string, i int) int {
	if i >= len(s) {
		return len(s)
	}

	switch s[i] {
	case '"':
		return loosejson.EndOfString(s, i)
	case '{', '[':
		depth := 0
		for i < len(s) {
			switch s[i] {
			case '"':
				i = loosejson.EndOfString(s, i)
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

// members iterates over the members of an object. The values are JSON. The function is small enough
// to be inlined, so that a loop over it allocates nothing.
func members(s string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) { each(s, '{', yield) }
}

// elements iterates over the elements of an array, like members.
func elements(s string) iter.Seq[string] {
	return func(yield func(value string) bool) {
		each(s, '[', func(_, value string) bool { return yield(value) })
	}
}

// each calls yield for each member of an object, or for each element of an array, until it returns
// false. open is the bracket that s must begin with.
func each(s string, open byte, yield func(key, value string) bool) {
	i := skipSpace(s, 0)
	if i >= len(s) || s[i] != open {
		return
	}

	for i++; ; i++ {
		i = skipSpace(s, i)
		key := ""
		if open == '{' {
			if i >= len(s) || s[i] != '"' {
				return
			}
			end := loosejson.EndOfString(s, i)
			key = text(s[i:end])
			i = skipSpace(s, end)
			if i >= len(s) || s[i] != ':' {
				return
			}
			i = skipSpace(s, i+1)
		}

		end := endOfValue(s, i)
		if end <= i || !yield(key, s[i:end]) {
			return
		}
		i = skipSpace(s, end)
		if i >= len(s) || s[i] != ',' {
			return
		}
	}
}

// member returns the JSON of the first of some members that an object has, "" if it has none of
// them. A member that is null does not count.
func member(s string, names ...string) string {
	found := ""
	best := len(names)
	for key, value := range members(s) {
		for i, name := range names[:best] {
			if key == name && value != "null" {
				found, best = value, i
			}
		}
		if best == 0 {
			break
		}
	}
	return found
}

// onlyMember returns the name and the JSON of the member of an object that has no other, "" for any
// other value.
func onlyMember(s string) (name, value string) {
	n := 0
	for key, v := range members(s) {
		if n++; n > 1 {
			return "", ""
		}
		name, value = key, v
	}
	return name, value
}

// memberText is the text of [member].
func memberText(s string, names ...string) string { return text(member(s, names...)) }

// firstElement returns the JSON of the first element of an array.
func firstElement(array string) string {
	for e := range elements(array) {
		return e
	}
	return ""
}

// text returns the content of a JSON string, "" for null, and any other value as it is.
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

	if out, err := jsontext.AppendUnquote(nil, s); err == nil {
		return string(out)
	}
	var out string
	if err := json.Unmarshal([]byte(s), &out); err != nil { // else it is not valid UTF-8
		return s
	}
	return out
}

// unquoted returns the content of s if it is a JSON string, else s.
func unquoted(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' && loosejson.EndOfString(s, 0) == len(s) {
		return text(s)
	}
	return s
}

// compact removes the white space from JSON.
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
			end := loosejson.EndOfString(s, i)
			b.WriteString(s[i:end])
			i = end
		default:
			b.WriteByte(s[i])
			i++
		}
	}
	return b.String()
}

// comma writes the comma before a member or an element that is not the first.
func comma(b []byte) []byte {
	if c := b[len(b)-1]; c != '{' && c != '[' {
		b = append(b, ',')
	}
	return b
}

// appendName writes the name of a member of an object, and the comma before it.
func appendName(b []byte, name string) []byte {
	return append(loosejson.AppendString(comma(b), name), ':')
}

// appendMember writes a member whose value is a text.
func appendMember(b []byte, name, value string) []byte {
	return loosejson.AppendString(appendName(b, name), value)
}

// appendRaw writes a member whose value is JSON.
func appendRaw(b []byte, name, value string) []byte {
	return append(appendName(b, name), value...)
}

// asJSON returns s if it is JSON, else s as a JSON string.
func asJSON(s string) string {
	if isJSON(s) {
		return s
	}
	return string(loosejson.AppendString(nil, s))
}
