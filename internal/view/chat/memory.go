package chat

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actlog/actlog/internal/record/loosejson"
)

// Key names what a message says, see [Message.Key].
type Key = [sha256.Size]byte

// Memory reads texts that repeat each other, such as the prompts of a step. A message that stood in an earlier text it
// knows by its bytes, wherever it stands now, so it parses only what is new. The zero value has read nothing.
type Memory struct {
	// Parsed is how many bytes were parsed so far, because they were new.
	Parsed int

	byHead map[string][]*element // by the first headBytes
}

const (
	// headBytes is how long the JSON of a message is, at least, that is known again anywhere. A shorter one is known
	// behind the one that it stood behind before.
	headBytes = 128
	// maxAlike bounds the messages with the same head that are compared: the last ones.
	maxAlike = 16
)

// element is an element of a list of messages that says the same in any list: an object that does not belong together
// with the one before.
type element struct {
	json string
	keys []Key    // of its messages: one, as a rule
	next *element // that stood behind it in the last text
}

// Keys returns the keys of the messages that [ParseMessages] reads in a text.
func (m *Memory) Keys(s string) []Key {
	trimmed := strings.TrimSpace(s)
	if keys, n, ok := m.keysOfList(trimmed); ok && n == len(trimmed) {
		return keys
	}
	if keys, ok := m.wrapped(trimmed); ok {
		return keys
	}
	return m.read(s)
}

func (m *Memory) read(s string) []Key {
	m.Parsed += len(s)
	return keysOf(ParseMessages(s))
}

func keysOf(messages []Message) []Key {
	keys := make([]Key, len(messages))
	for i := range messages {
		keys[i] = messages[i].Key()
	}
	return keys
}

// keysOfList returns the keys of the messages in the JSON list at the beginning of s, and the length of the list in
// bytes. ok is false if only [ParseMessages] can read it.
func (m *Memory) keysOfList(s string) (keys []Key, n int, ok bool) {
	rest, isList := strings.CutPrefix(s, "[")
	if !isList {
		return nil, 0, false
	}

	var last *element
	for {
		rest = skipBlanks(rest)
		e := m.element(rest, last)
		if e == nil || len(keys)+len(e.keys) > maxMessages {
			return nil, 0, false
		}

		if last != nil {
			last.next = e
		}
		last = e
		keys, rest = append(keys, e.keys...), skipBlanks(rest[len(e.json):])
		if end, isEnd := strings.CutPrefix(rest, "]"); isEnd {
			return keys, len(s) - len(end), true
		}
		if rest, ok = strings.CutPrefix(rest, ","); !ok {
			return nil, 0, false
		}
	}
}

// skipBlanks returns s without the white space of JSON before it.
func skipBlanks(s string) string { return strings.TrimLeft(s, " \t\r\n") }

// element returns the element with which s begins, nil if there is none that says the same in any list. Objects of JSON
// end where they end: if s begins with one, it is its first value.
func (m *Memory) element(s string, last *element) *element {
	if last != nil && last.next != nil && strings.HasPrefix(s, last.next.json) {
		return last.next
	}
	if len(s) >= headBytes {
		alike := m.byHead[s[:headBytes]]
		for _, e := range alike[max(0, len(alike)-maxAlike):] {
			if strings.HasPrefix(s, e.json) {
				return e
			}
		}
	}

	if !isObject(s) {
		return nil
	}
	value, err := jsontext.NewDecoder(strings.NewReader(s), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true)).ReadValue()
	if m.Parsed += len(value); err != nil || !json.Valid(value) {
		return nil
	}

	e := &element{json: string(value)}
	var r reader
	if r.value(e.json, "", 1); r.bare { // it may belong to the one before
		return nil
	}

	e.keys = keysOf(r.messages)
	if len(e.json) >= headBytes {
		if m.byHead == nil {
			m.byHead = map[string][]*element{}
		}
		m.byHead[e.json[:headBytes]] = append(m.byHead[e.json[:headBytes]], e)
	}
	return e
}

// placeholder stands for a list while what is around it is read. No text has it: it is too long to be guessed.
const placeholder = "actlog: a list of messages stands here, 5f1c0e2ab7d94c3d"

// wrapped reads an object that has a list of messages as a member.
func (m *Memory) wrapped(s string) (keys []Key, ok bool) {
	if !isObject(s) {
		return nil, false
	}

	d := jsontext.NewDecoder(strings.NewReader(s), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	_, _ = d.ReadToken() // the bracket
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, false
		}

		if slices.Contains(wrappers, name.String()) && d.PeekKind() == '[' {
			from := int(d.InputOffset())
			from += strings.IndexByte(s[from:], '[')
			keys, n, ok := m.keysOfList(s[from:])
			if !ok {
				return nil, false
			}
			return m.around(s[:from]+`"`+placeholder+`"`+s[from+n:], keys)
		}
		if d.SkipValue() != nil {
			return nil, false
		}
	}
	return nil, false
}

// around reads what is around a list of messages with these keys, in whose place the placeholder stands.
func (m *Memory) around(s string, list []Key) (keys []Key, ok bool) {
	m.Parsed += len(s)
	if !loosejson.Valid(s) { // what Read makes of a text that was cut depends on the list
		return nil, false
	}

	for _, message := range ParseMessages(s) {
		if len(message.Parts) == 1 && message.Parts[0].Text == placeholder {
			if ok || message.Role != "" { // messages of a list take the role of what is around it
				return nil, false
			}
			ok, keys = true, append(keys, list...)
			continue
		}
		keys = append(keys, message.Key())
	}
	return keys, ok && len(keys) <= maxMessages
}
