package web

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/record/loosejson"
)

// legible returns JSON, or the beginning of it, with the characters in place of escapes such as \u6771. What shows
// nothing or turns the direction of text stays escaped. Any other text stays as it is.
func legible(text string) string {
	if !strings.Contains(text, `\u`) {
		return text
	}

	t := strings.TrimSpace(text)
	if strings.IndexByte(`{["`, t[0]) < 0 || !loosejson.Valid(t) && !loosejson.Unclosed(t) {
		return text
	}

	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if text[i] != '"' {
			b = append(b, text[i])
			i++
			continue
		}
		end := loosejson.EndOfString(text, i)
		b = appendLegible(b, text[i:end])
		i = end
	}
	return string(b)
}

// appendLegible appends a JSON string.
func appendLegible(b []byte, s string) []byte {
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			b = append(b, s[i])
			i++
			continue
		}

		size := 2
		if s[i+1] == 'u' {
			before, _ := utf8.DecodeLastRune(b)
			var r rune
			if r, size = escaped(s[i:]); shows(r, before) {
				b = utf8.AppendRune(b, r)
				i += size
				continue
			}
		}

		b = append(b, s[i:i+size]...)
		i += size
	}

	return b
}

// escaped returns the character of the escape with which s begins, and how long that is. Half a character is 0.
func escaped(s string) (r rune, size int) {
	first, ok := unit(s)
	switch {
	case !ok:
		return 0, 2
	case !utf16.IsSurrogate(first):
		return first, 6
	}

	if second, ok := unit(s[6:]); ok {
		if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
			return r, 12
		}
	}
	return 0, 6
}

func unit(s string) (rune, bool) {
	if len(s) < 6 || s[:2] != `\u` {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}

// shows reports whether a character can be seen behind another: letters, signs, emoji and spaces.
func shows(r, before rune) bool {
	switch r {
	case '"', '\\': // without their escape they would end the string, or escape something
		return false
	case 0xFE0E, 0xFE0F: // how a sign looks
		return unicode.IsSymbol(before) || unicode.IsPunct(before) || unicode.IsDigit(before)
	case 0x200C, 0x200D: // joins emoji, and letters of some scripts
		return before > 0x2FF && before != 0x200C && before != 0x200D &&
			!unicode.In(before, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Zs)
	}
	return unicode.IsGraphic(r) && !unicode.Is(blank, r)
}

// blank has the characters that count as letters, marks or signs and show nothing.
var blank = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x034F, 0x034F, 1}, {0x115F, 0x1160, 1}, {0x17B4, 0x17B5, 1}, {0x180B, 0x180F, 1}, {0x2800, 0x2800, 1},
		{0x3164, 0x3164, 1},
		{0xFE00, 0xFE0D, 1}, {0xFFA0, 0xFFA0, 1},
	},
	R32: []unicode.Range32{{0xE0100, 0xE01EF, 1}},
}
