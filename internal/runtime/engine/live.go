package engine

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// live shows what a model says while it arrives: its text, and what the agent answers.
type live struct {
	text, answer *liveText
	message      growingMessage
}

// newLive returns what shows an attempt of a cycle to watchers.
func (s *Step) newLive(seq, attempt int64) *live {
	r, watcher := s.run, s.run.engine.config.Watcher
	show := func(
		delta func(
			root, plan, step string, seq, attempt int64, text string,
		), reset func(root, plan, step string, seq, attempt int64),
	) *liveText {
		return &liveText{
			redact: r.redact, stable: r.parts.Settling(),
			delta: func(text string) { delta(r.run.RootPlanID, r.run.PlanID, s.id, seq, attempt, text) },
			reset: func() { reset(r.run.RootPlanID, r.run.PlanID, s.id, seq, attempt) },
		}
	}

	return &live{text: show(watcher.Delta, watcher.Reset), answer: show(watcher.Answer, watcher.ResetAnswer)}
}

// stop ends it: nothing is shown any more.
func (l *live) stop() {
	l.text.stop()
	l.answer.stop()
}

// end shows what is left.
func (l *live) end() {
	l.text.end()
	l.answer.end()
}

// resetLive tells watchers that what came of a cycle before an attempt is void.
func (s *Step) resetLive(seq, attempt int64) {
	at, watcher := s.run.run, s.run.engine.config.Watcher
	watcher.Reset(at.RootPlanID, at.PlanID, s.id, seq, attempt)
	watcher.ResetAnswer(at.RootPlanID, at.PlanID, s.id, seq, attempt)
}

const (
	// liveEvery is how often what has arrived is shown.
	liveEvery = 50 * time.Millisecond
	// liveOpen is how much of an answer may be held back, in bytes, until it is asked less often whether it is settled:
	// when there is twice as much of it. To ask takes longer the more there is.
	liveOpen = 4 << 10
)

// liveText shows an answer to watchers while it arrives, as it may be on record. Texts are redacted as a
// whole, so that a secret is found that arrives in pieces. Where more text changes what was shown before,
// all of it is shown again.
type liveText struct {
	redact func(string) string
	// stable returns how much of the text cannot change any more, as that of [Parts] does.
	stable func(text string) int
	delta  func(text string)
	reset  func()

	mu    sync.Mutex
	text  strings.Builder // as it arrived
	upTo  int             // how much of it is stable
	open  int             // how much of it was not, when that was asked
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
		l.showStable()
	case l.timer == nil:
		l.timer = time.AfterFunc(wait, l.late)
	}
}

// late shows what arrived since something was shown.
func (l *liveText) late() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer = nil; !l.over {
		l.showStable()
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

// showStable shows what cannot change any more. The caller holds l.mu.
func (l *liveText) showStable() {
	text := l.text.String()
	if open := len(text) - l.upTo; open > liveOpen && open < 2*l.open {
		l.last = time.Now()
		return
	}
	l.upTo = l.stable(text)
	l.open = len(text) - l.upTo
	l.show(wholeCharacters(text[:l.upTo]))
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
