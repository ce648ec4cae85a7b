package engine

import (
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// liveTail is how much of an answer that still grows is held back at most, in bytes, up to the word that it begins
	// in: its end may be the beginning of something that must not be shown.
	liveTail = 64
	// liveEvery is how often what has arrived is shown.
	liveEvery = 50 * time.Millisecond
)

// liveText shows an answer to watchers while it arrives, as it may be on record. Texts are redacted as a
// whole, so that a secret is found that arrives in pieces. Where more text changes what was shown before,
// all of it is shown again.
type liveText struct {
	redact func(string) string
	// settled returns how much of the text cannot change any more, as [Parts] do; nil: that is not known.
	settled func(text string, from int) int
	delta   func(text string)
	reset   func()

	mu    sync.Mutex
	text  strings.Builder // as it arrived
	upTo  int             // how much of it is settled
	shown string          // as it was shown
	last  time.Time       // when
	timer *time.Timer     // shows what arrived since; nil: there is nothing
	over  bool
}

// add adds a piece. It is shown at once, or when some time has passed since something was shown.
func (l *liveText) add(piece string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(piece)
	switch wait := liveEvery - time.Since(l.last); {
	case wait <= 0:
		l.showSettled()
	case l.timer == nil:
		l.timer = time.AfterFunc(wait, l.late)
	}
}

// late shows what arrived since something was shown.
func (l *liveText) late() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer = nil; !l.over {
		l.showSettled()
	}
}

// stop ends it: nothing is shown any more.
func (l *liveText) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// end shows what is left.
func (l *liveText) end() {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.show(l.text.String())
}

// showSettled shows what cannot change any more. The caller holds l.mu.
func (l *liveText) showSettled() {
	text := l.text.String()
	upTo := settled(text)
	if l.settled != nil {
		l.upTo = l.settled(text, l.upTo)
		upTo = max(upTo, l.upTo)
	}
	l.show(wholeCharacters(text[:upTo]))
}

// show shows a text from its beginning, as far as it is not shown yet. The caller holds l.mu.
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

// settled returns how much of a growing text can be shown whatever is replaced in it. It ends before a space, or before
// a character that words of secrets do not have, so that no word is shown in part.
func settled(text string) int {
	for end := len(text) - liveTail; end > 0; {
		r, size := utf8.DecodeLastRuneInString(text[:end])
		if unicode.IsSpace(r) || r >= utf8.RuneSelf && r != utf8.RuneError {
			return end
		}
		end -= size
	}
	return 0
}

// wholeCharacters returns a text without the beginning of a character at its end.
func wholeCharacters(text string) string {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if !utf8.FullRuneInString(text[len(text)-n:]) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}
