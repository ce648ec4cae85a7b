package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Cut returns the text as valid UTF-8 of at most limit bytes. If it was longer, its end is replaced
// by a notice that says how long it was.
func Cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}

	notice := fmt.Sprintf("\n... (cut: the whole has %d bytes)", len(text))
	end := max(limit-len(notice), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	if end == 0 {
		return strings.TrimSpace(notice)
	}
	return text[:end] + notice
}
