// Package loosejson owns how texts are read that are nearly JSON: with NaN or Infinity in place of a number, cut off at
// a limit, or too long to be kept. It never changes what it is given, and takes time that grows with the length. Pure
// functions.
package loosejson

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// words stand in the place of a number in what many programs write. Each has a number of the same length.
var words = []struct{ word, number string }{
	{"NaN", "0.0"}, {"Infinity", "0.000000"}, {"-Infinity", "-0.000000"},
}

// Valid reports whether s is JSON in which NaN, Infinity and -Infinity may stand in the place of numbers.
func Valid(s string) bool {
	return json.Valid([]byte(s)) || hasWords(s) && json.Valid([]byte(Strict(s)))
}

// Strict returns a text of the same length with a number for each NaN, Infinity and -Infinity that is a value. So what
// reads JSON can read it, and what it finds has the same place in s.
func Strict(s string) string {
	if !hasWords(s) {
		return s
	}
	return replaced(s, func(_, number string) string { return number })
}

// Quoted returns s with NaN, Infinity and -Infinity as strings, for what must be JSON.
func Quoted(s string) string {
	if !hasWords(s) {
		return s
	}
	return replaced(s, func(word, _ string) string { return `"` + word + `"` })
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. It does not escape HTML, and replaces what is not UTF-8.
func AppendString(b []byte, s string) []byte {
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

func hasWords(s string) bool { return strings.Contains(s, "NaN") || strings.Contains(s, "Infinity") }

func replaced(s string, by func(word, number string) string) string {
	var b strings.Builder
	b.Grow(len(s))
	kept := 0

	for i := 0; i < len(s); {
		switch s[i] {
		case '"':
			i = EndOfString(s, i)
		case 'N', 'I', '-':
			word, number := wordAt(s, i)
			if word == "" {
				i++
				continue
			}
			b.WriteString(s[kept:i])
			b.WriteString(by(word, number))
			i += len(word)
			kept = i
		default:
			i++
		}
	}

	b.WriteString(s[kept:])
	return b.String()
}

// wordAt returns the word that is a value at i, "" if there is none.
func wordAt(s string, i int) (word, number string) {
	if i > 0 && strings.IndexByte("[,: \t\r\n", s[i-1]) < 0 {
		return "", ""
	}

	for _, w := range words {
		end := i + len(w.word)
		if strings.HasPrefix(s[i:], w.word) && (end == len(s) || strings.IndexByte(",]} \t\r\n", s[end]) >= 0) {
			return w.word, w.number
		}
	}
	return "", ""
}

// EndOfString returns the index after the string that begins at i, or the length of s if that does not end.
func EndOfString(s string, i int) int {
	for i++; i < len(s); i++ {
		j := strings.IndexByte(s[i:], '"')
		if j < 0 {
			return len(s)
		}

		i += j
		if slashesBefore(s, i)%2 == 0 {
			return i + 1
		}
	}
	return len(s)
}

func slashesBefore(s string, i int) (n int) {
	for n < i && s[i-n-1] == '\\' {
		n++
	}
	return n
}
