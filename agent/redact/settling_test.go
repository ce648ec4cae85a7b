package redact

import (
	"strings"
	"testing"
)

// However long a text is, only what is new in it is searched.
func TestSettlingSearchesWhatIsNew(t *testing.T) {
	t.Parallel()
	searched := 0
	count := func(k kind) kind {
		find := k.find
		k.hint = nil
		k.find = func(text string) []span {
			searched += len(text)
			return find(text)
		}
		return k
	}
	r := &Redactor{patterns: []kind{count(kinds[0]), count(kinds[4])}}

	for name, line := range map[string]string{
		"nothing": "Some words, and some more. ", "an email": "Write to ann@example.org. ",
	} {
		searched = 0
		settled, text := r.Settling(), strings.Repeat(line, 100)
		for end := range text {
			if settled(text[:end]) < end-len(line) {
				t.Fatalf("%s: much is held back of %q", name, text[:end])
			}
		}

		if most := 100 * len(text); searched > most {
			t.Errorf("%s: %d bytes were searched, want at most %d", name, searched, most)
		}
	}
}

// No marker is longer than what is searched again.
func TestMarkersAreShort(t *testing.T) {
	t.Parallel()
	for _, name := range append(Kinds(), kindOther) {
		if n := len("[" + name + "]"); n > maxMarker {
			t.Errorf("%s has a marker of %d bytes", name, n)
		}
	}
}
