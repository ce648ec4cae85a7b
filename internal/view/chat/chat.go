// Package chat owns how the messages to a model, and from one, are read for people: in whatever form a provider or a
// framework recorded them, they become roles and parts. What is not understood stays in it as it is: nothing is lost.
// Pure functions.
package chat

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/actlog/actlog/internal/record/loosejson"
)

// Kind says what a part of a message is.
type Kind uint8

// The kinds of parts.
const (
	Text    Kind = iota
	Thought      // what the model reasoned before it answered
	Call         // a tool call that the model asks for
	Result       // what a tool call brought
	Other        // anything else, as JSON
)

// Part is a part of a message.
type Part struct {
	Kind Kind
	// Text is what it says: of a call the arguments, of a result what came back.
	Text string
	// ID and Name are those of the tool call; empty: not recorded.
	ID, Name string
	Failed   bool // of a result
}

// Message is a message to a model, or from one.
type Message struct {
	Role  string // as it is recorded, such as user; empty: none
	Name  string // who wrote it; empty: not recorded
	Parts []Part
}

const (
	// maxMessages bounds the messages of a text, maxParts the parts of a message, and maxDepth how deep they may be
	// wrapped. What is beyond is one part, as JSON.
	maxMessages = 1_000
	maxParts    = 1_000
	maxDepth    = 16
)

// ParseMessages returns the messages in a recorded text, which may be a message, a list of messages, a request, a
// response or a list of parts, as JSON. Of truncated JSON it reads the complete values and the beginning of the last
// text. Anything else is one message.
func ParseMessages(s string) []Message {
	trimmed := strings.TrimSpace(s)
	if trimmed == "" {
		return nil
	}

	plain := []Message{{Parts: []Part{{Text: s}}}}
	if trimmed[0] != '{' && trimmed[0] != '[' {
		return plain
	}

	var r reader
	if loosejson.Valid(trimmed) {
		r.value(trimmed, "", 0)
		return r.messages
	}

	if whole, ok := loosejson.Complete(trimmed); ok {
		r.value(whole, "", 0)
	}
	isListOfStrings := trimmed[0] == '[' && strings.HasPrefix(skipBlanks(trimmed[1:]), `"`)
	if !isListOfStrings && anyContent(r.messages) {
		return r.messages
	}
	return plain
}

func anyContent(messages []Message) bool {
	for i := range messages {
		if messages[i].hasContent() {
			return true
		}
	}
	return false
}

// Key is equal for messages that say the same, also where one of them is written in another form. Reasoning does not
// count: few models get it again.
func (m *Message) Key() [sha256.Size]byte {
	h := sha256.New()
	add := func(s string) {
		_ = binary.Write(h, binary.BigEndian, int64(len(s))) // a hash takes anything
		h.Write([]byte(s))
	}

	hasContent := m.hasContent()
	role := m.Role
	if role == "model" {
		role = "assistant"
	}

	add(role)
	for _, p := range m.Parts {
		if p.Kind == Thought || p.Kind == Other && hasContent {
			continue
		}
		add(string(rune(p.Kind)))
		add(p.ID)
		add(p.Name)
		add(compact(p.Text))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// hasContent reports whether a message has more than reasoning and what is not understood.
func (m *Message) hasContent() bool {
	for _, p := range m.Parts {
		if p.Kind != Thought && p.Kind != Other {
			return true
		}
	}
	return false
}

func compact(s string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(loosejson.Quoted(s))) != nil {
		return s
	}
	return b.String()
}

// Reply returns what a model answered: the message itself, if a runtime recorded it, and of its text what is not in
// that.
func Reply(message, text string) []Message {
	reply := ParseMessages(message)
	for i := range reply {
		for _, p := range reply[i].Parts {
			if p.Kind == Text {
				text = strings.Replace(text, p.Text, "", 1)
			}
		}
	}

	reply = append(reply, ParseMessages(text)...)
	for i := range reply {
		reply[i].Role = cmp.Or(reply[i].Role, "assistant")
	}
	return reply
}

// Known reports of each message whether it is among others, each of which stands for one.
func Known(messages []Message, among ...[]Message) []bool {
	left := map[[sha256.Size]byte]int{}
	for _, each := range among {
		for i := range each {
			left[each[i].Key()]++
		}
	}

	known := make([]bool, len(messages))
	for i := range messages {
		key := messages[i].Key()
		if known[i] = left[key] > 0; known[i] {
			left[key]--
		}
	}
	return known
}
