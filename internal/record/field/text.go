package field

import (
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/record/loosejson"
)

// replacement replaces what Postgres cannot store in a text: NUL, and bytes that are not
// UTF-8.
const replacement = "\uFFFD"

func sanitize(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, replacement), "\x00", replacement)
}

// Shorten cuts s to at most limit bytes, at a character boundary.
func Shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// ShortenText cuts a text to at most limit bytes, and so that it stays JSON if it is: the longest strings in it are cut
// first. Blanks fill it up to the limit, because the length of a text shows whether it was cut, see [Field.FullBytes].
func ShortenText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	if short, ok := loosejson.Shorten(s, limit); ok {
		return short + strings.Repeat(" ", limit-len(short))
	}
	return Shorten(s, limit)
}
