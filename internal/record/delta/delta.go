// Package delta owns the texts of models' answers while they arrive, and how far tool calls have come: their way from
// the process that asks a model, or makes a call, to the watchers of the tree, on any server of the database. They are
// not stored here, and may be lost on the way; watchers learn of what they lack.
package delta

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/record"
)

// Cycle names a think-act cycle.
type Cycle struct {
	RootPlanID string `json:"r"`
	PlanID     string `json:"p"`
	StepID     string `json:"s"`
	Seq        int64  `json:"c"`
	// Answer says that the texts are what the agent answers, by the tool that ends its work, and not what the model
	// writes.
	Answer bool `json:"n,omitempty"`
	// ToolCallID is the call of the cycle whose progress the texts are: each is a [record.Progress] as JSON, and comes
	// with a reset, since it replaces the one before. Empty: they are no progress.
	ToolCallID string `json:"k,omitempty"`
}

// Delta is a piece of the text of a cycle's answer.
type Delta struct {
	Cycle
	Attempt int64  `json:"a"`
	Reset   bool   `json:"x,omitempty"` // the pieces before it are void
	Offset  int64  `json:"o"`           // how many bytes of the answer are before the text
	Text    string `json:"t,omitempty"` // UTF-8
}

// Progress returns how far a call has come. ok is false if the delta does not say that: it is a piece of a text, or a
// reset, after which the progress follows.
func (d *Delta) Progress() (p record.Progress, ok bool) {
	ok = d.ToolCallID != "" && json.Unmarshal([]byte(d.Text), &p) == nil
	return p, ok
}

// end is how far an answer has come.
type end struct{ attempt, offset int64 }

func (d *Delta) end() end { return end{d.Attempt, d.Offset + int64(len(d.Text))} }

// payloadBytes bounds what one notification carries. Postgres takes less than 8,000 bytes.
const payloadBytes = 7_000

// letter is what one process sends to the others.
type letter struct {
	From string `json:"f"` // the process
	*Delta
	Watched []string `json:"w,omitempty"` // root plans of trees that are watched there
	Ask     bool     `json:"q,omitempty"` // the others should announce theirs
}

func (l letter) encode() string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // they would take six bytes each
	_ = e.Encode(l)        // texts and numbers: it cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// letters returns a delta as the texts of as many letters as it takes. No two are equal: Postgres
// delivers only one of equal notifications of a transaction.
func (d Delta) letters(from string) (texts []string) {
	for {
		part := d
		part.Text = ""
		part.Text = cut(d.Text, payloadBytes-len(letter{From: from, Delta: &part}.encode())-len(`,"t":""`))
		if part.Text == "" && d.Text != "" {
			return texts // its ids leave no room
		}

		texts = append(texts, letter{From: from, Delta: &part}.encode())
		d.Text = d.Text[len(part.Text):]
		d.Offset, d.Reset = part.end().offset, false
		if d.Text == "" {
			return texts
		}
	}
}

// announcements returns the letters that say which trees are watched in a process, or ask for
// those of others.
func announcements(from string, roots []string, ask bool) (texts []string) {
	for len(roots) > 0 || ask {
		l, room := letter{From: from, Ask: ask}, payloadBytes-100
		for len(roots) > 0 {
			id, _ := json.Marshal(roots[0]) // a text: it cannot fail
			if room -= len(id) + 1; room < 0 && len(l.Watched) > 0 {
				break
			}
			l.Watched, roots = append(l.Watched, roots[0]), roots[1:]
		}

		texts = append(texts, l.encode())
		ask = false
	}
	return texts
}

// cut returns the beginning of a text that takes at most room bytes as JSON, to the end of a
// character.
func cut(text string, room int) string {
	for i, r := range text {
		switch {
		case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
			room -= 2
		case r < ' ', r == 0x7f, r == '\u2028', r == '\u2029':
			room -= 6
		default:
			room -= utf8.RuneLen(r)
		}
		if room < 0 {
			return text[:i]
		}
	}
	return text
}
