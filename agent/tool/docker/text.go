package docker

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/actlog/actlog/agent/tool"
)

const maxWord = 300 // bytes of a text of the daemon in a line

// clean returns a text of the daemon as one line without escapes.
func clean(text string) string {
	return tool.Cut(strings.Join(strings.Fields(cleanLines(text)), " "), maxWord)
}

// escapes are the sequences of terminals: with parameters, titles and other texts, and of one character.
var escapes = regexp.MustCompile("\x1b(?:\\[[0-9;:?<=>!]*[ -/]*[@-~]|" +
	"\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[PX^_][^\x1b]*(?:\x1b\\\\)?|.)?")

// cleanLines returns lines without escapes of terminals and without control characters.
func cleanLines(text string) string {
	text = escapes.ReplaceAllString(strings.ToValidUTF8(text, "\uFFFD"), "")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return -1
		}
		return r
	}, text)
}
