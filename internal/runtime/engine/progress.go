package engine

import (
	"encoding/json"
	"math"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/record"
)

const (
	// progressLiveEvery is how often watchers are told how far a call has come, at most.
	progressLiveEvery = 100 * time.Millisecond
	// progressWriteEvery is how often that is put on record, at most, and how long a call takes before it is by itself.
	progressWriteEvery = time.Second
	// maxProgressText bounds the part of a message that is looked at, in bytes.
	maxProgressText = 8 << 10
)

// progress is how far an attempt of a call says that it has come. A report costs a lock: what was reported last is
// shown and put on record when that is due, not each report. Its nil value has nothing reported.
type progress struct {
	redact func(string) string
	show   func(record.Progress) // tells the watchers
	write  func(record.Progress) // puts it on record, soon
	late   func(record.Progress) // puts it on record with what is next
	// writeEvery is how often it is put on record by itself, at most.
	writeEvery time.Duration

	mu      sync.Mutex
	last    report           // as the tool said it
	fresh   bool             // last is not shown yet
	shown   *record.Progress // nil: nothing was
	shownAt time.Time
	written time.Time   // when it was put on record, or the attempt began
	unsaved bool        // what is shown is not on record
	timer   *time.Timer // calls wake when something is due; nil: nothing will be
	due     time.Time   // when it does
	over    bool
}

type report struct {
	done, total float64
	message     string
}

// report notes what a tool says.
func (p *progress) report(done, total float64, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.last, p.fresh = report{done, total, message}, true
		p.advance()
	}
}

// wake does what has become due.
func (p *progress) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer = nil; !p.over {
		p.advance()
	}
}

// advance shows what was reported last, and puts it on record, if that is due, else when it is. The caller holds p.mu.
func (p *progress) advance() {
	if p.fresh && time.Since(p.shownAt) >= progressLiveEvery {
		p.showLast()
	}
	if p.unsaved && time.Since(p.written) >= p.writeEvery {
		p.write(*p.shown)
		p.written, p.unsaved = time.Now(), false
	}

	due := p.written.Add(p.writeEvery)
	if p.fresh {
		due = p.shownAt.Add(progressLiveEvery)
	}
	switch {
	case !p.fresh && !p.unsaved:
	case p.timer == nil:
		p.due, p.timer = due, time.AfterFunc(time.Until(due), p.wake)
	case due.Before(p.due):
		p.due = due
		p.timer.Reset(time.Until(due))
	}
}

// showLast shows what was reported last. The caller holds p.mu.
func (p *progress) showLast() {
	p.shown = &record.Progress{
		Done: knownIf(p.last.done, p.last.done >= 0), Total: knownIf(p.last.total, p.last.total > 0),
		Message: progressMessage(p.redact, p.last.message),
	}
	p.last, p.fresh = report{}, false
	p.shownAt, p.unsaved = time.Now(), true
	p.show(*p.shown)
}

// end ends the reports of the attempt. What is not on record of them goes there with what is next, its end or that it
// waits.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.timer != nil {
		p.timer.Stop()
	}

	if p.fresh {
		p.showLast()
	}
	if p.unsaved {
		p.late(*p.shown)
	}
}

// reported reports whether the attempt said how far it has come.
func (p *progress) reported() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown != nil
}

func progressJSON(p record.Progress) json.RawMessage {
	b, _ := json.Marshal(p) // finite numbers, and a text
	return b
}

// knownIf returns a number; nil: it says nothing.
func knownIf(x float64, known bool) *float64 {
	if !known || math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// progressMessage returns a message as one short line that may be on record; nil: it says nothing.
func progressMessage(redact func(string) string, message string) *string {
	message = redact(strings.ToValidUTF8(message[:min(len(message), maxProgressText)], "\uFFFD"))
	message = strings.Join(strings.FieldsFunc(message, func(c rune) bool {
		return unicode.IsSpace(c) || unicode.IsControl(c)
	}), " ")

	if characters := []rune(message); len(characters) > record.MaxProgressMessage {
		message = string(characters[:record.MaxProgressMessage-1]) + "…"
	}
	return optional.Pointer(message)
}
