package loosejson

import (
	"slices"
	"strings"
)

// Shorten returns a text that is an object, a list or a string of JSON in at most limit bytes, so that it stays that.
// It cuts the longest strings inside first, each to the same length, and so texts survive beside an image. If long
// strings alone do not make it short enough, it drops what is at the end. It reports false for any other text.
func Shorten(s string, limit int) (string, bool) {
	s = strings.TrimSpace(s)
	if s == "" || strings.IndexByte(`{["`, s[0]) < 0 || !Valid(s) {
		return "", false
	}
	if len(s) <= limit {
		return s, true
	}

	all := longTexts(s)
	most := bound(all, len(s)-limit)
	if most < 0 {
		return dropEnd(s, limit)
	}

	var b strings.Builder
	b.Grow(limit)
	kept := 0
	for _, t := range all {
		if t.to-t.from > most {
			b.WriteString(s[kept:t.from])
			b.WriteString(beginning(onCharacter(s[t.from:t.to], most)))
			kept = t.to
		}
	}
	b.WriteString(s[kept:])
	return b.String(), true
}

// span is where something is in a text.
type span struct{ from, to int }

// minText is the least content of a string that is worth cutting. There may be millions of shorter ones, and to note
// where each of them is would take much more memory than the text.
const minText = 65

// longTexts returns where the contents of the long strings are that are values.
func longTexts(s string) (all []span) {
	for i := 0; i < len(s); {
		if s[i] != '"' {
			i++
			continue
		}

		t := span{i + 1, EndOfString(s, i) - 1}
		i = t.to + 1
		if t.to-t.from >= minText && !isName(s[i:]) {
			all = append(all, t)
		}
	}
	return all
}

func isName(behind string) bool {
	return strings.HasPrefix(strings.TrimLeft(behind[:min(len(behind), 64)], " \t\r\n"), ":")
}

// bound returns how long strings may be so that they take so many bytes less, -1 if that cannot be.
func bound(all []span, less int) int {
	lengths := make([]int, len(all))
	for i, t := range all {
		lengths[i] = t.to - t.from
	}
	slices.SortFunc(lengths, func(a, b int) int { return b - a })

	sum := 0 // of the longest
	for i, n := range lengths {
		sum += n
		shorter := 0
		if i+1 < len(lengths) {
			shorter = lengths[i+1]
		}
		if sum-(i+1)*shorter >= less {
			return (sum - less) / (i + 1)
		}
	}
	return -1
}

// onCharacter returns at most so many bytes of the content of a string, to the end of a character or an escape.
func onCharacter(s string, most int) string {
	end := most
	for end > 0 && s[end]&0xC0 == 0x80 {
		end--
	}
	return s[:end]
}

func dropEnd(s string, limit int) (string, bool) {
	room := limit - maxDepth - 2
	if room <= 0 {
		return "", false
	}

	c := scanner{s: s[:room]}
	text, ok := c.scan()
	if !ok {
		return "", false
	}
	whole := c.closed(text)
	return whole, Valid(whole)
}
