package engine

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// liveTail is how much of an answer that still grows is held back, in bytes: its end may be the
	// beginning of something that must not be shown.
	liveTail = 64
	// liveEvery is how often what has arrived is shown.
	liveEvery = 50 * time.Millisecond
)

// liveText shows an answer to watchers while it arrives, as it may be on record. Texts are redacted as a
// whole, so that a secret is found that arrives in pieces. Where more text changes what was shown before,
// all of it is shown again.
type liveText struct {
	redact func(string) string
	delta  func(text string)
	reset  func()

	text  strings.Builder // as it arrived
	shown string          // as it was shown
	last  time.Time       // when
}

// add adds a piece.
func (l *liveText) add(piece string) {
	l.text.WriteString(piece)
	if time.Since(l.last) >= liveEvery {
		l.show(settled(l.text.String()))
	}
}

// end shows what is left.
func (l *liveText) end() { l.show(l.text.String()) }

func (l *liveText) show(text string) {
	l.last = time.Now()
	text = l.redact(text)
	more, ok := strings.CutPrefix(text, l.shown)
	if !ok {
		l.reset()
		more = text
	}
	if more != "" {
		l.delta(more)
	}
	l.shown = text
}

// settled returns the part of a growing text that can be shown. It ends before a space, or before a
// character that words of secrets do not have, so that no word is shown in part.
func settled(text string) string {
	for end := len(text) - liveTail; end > 0; {
		r, size := utf8.DecodeLastRuneInString(text[:end])
		if unicode.IsSpace(r) || r >= utf8.RuneSelf && r != utf8.RuneError {
			return text[:end]
		}
		end -= size
	}
	return ""
}
