package otlp

import (
	"cmp"
	"errors"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// Span is one span of a trace, or a stub that only adds log records to one. Nothing in this package
// changes a span after it was decoded, so that spans can be kept and projected again.
type Span struct {
	TraceID string `json:"traceId"` // 32 hex digits, lower case
	SpanID  string `json:"spanId"`  // 16 hex digits, lower case
	// ParentID is empty for a root.
	ParentID string `json:"parentId,omitempty"`
	// RemoteParent says that the parent belongs to another process, whose spans may never arrive.
	RemoteParent bool `json:"remoteParent,omitempty"`
	// Stub says that only the events are known. They came as log records.
	Stub bool `json:"stub,omitempty"`
	// Logged says that this was a log record of a coding agent. The parent is the span that it named.
	Logged bool   `json:"logged,omitempty"`
	Name   string `json:"name,omitempty"`
	Kind   int32  `json:"kind,omitempty"`
	// Start and End are nanoseconds since 1970. 0: not known, or not ended.
	Start         int64      `json:"start,omitempty"`
	End           int64      `json:"end,omitempty"`
	Status        int32      `json:"status,omitempty"` // 1 ok, 2 error
	StatusMessage string     `json:"statusMessage,omitempty"`
	Attributes    Attributes `json:"attributes,omitempty"`
	Events        []Event    `json:"events,omitempty"`
	Links         []Link     `json:"links,omitempty"`
	Scope         Scope      `json:"scope,omitzero"`
	Resource      Attributes `json:"resource,omitempty"`
	// Truncated names what was shortened or dropped to keep the limits.
	Truncated []string `json:"truncated,omitempty"`
}

// The kinds of spans that serve what another process asked for, as OpenTelemetry numbers them.
const (
	kindServer   = 2
	kindConsumer = 5
)

// parentIsRemote reports whether the parent of a span, if it has one, belongs to another process.
func (s *Span) parentIsRemote() bool {
	return s.RemoteParent || s.Kind == kindServer || s.Kind == kindConsumer
}

// Event is something that happened within a span.
type Event struct {
	Name       string     `json:"name"`
	Time       int64      `json:"time,omitempty"`
	Attributes Attributes `json:"attributes,omitempty"`
}

// A log record that became an event has its body in the attribute logBody. Records that have no field
// for the name of the event have it in eventName.
const (
	logBody   = "log.body"
	eventName = "event.name"
)

// Link points to a span of this or another trace.
type Link struct {
	TraceID    string     `json:"traceId"`
	SpanID     string     `json:"spanId"`
	Attributes Attributes `json:"attributes,omitempty"`
}

// Scope is the instrumentation that made a span.
type Scope struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// Attributes are sorted by key, and each key occurs once.
type Attributes []Attribute

// Attribute is a key with its value.
type Attribute struct {
	Key   string
	Value Value
}

// Value is a value as text. Numbers, booleans and JSON are written as in JSON.
type Value struct {
	Type ValueType
	Text string
}

// ValueType says what the text of a value is.
type ValueType uint8

// The types of values. Objects and arrays are kept as JSON: half of the conventions send them as a
// string of JSON anyway.
const (
	String ValueType = iota
	Number
	Bool
	JSON // an object or an array
)

// Get returns the text of an attribute, "" if there is none.
func (a Attributes) Get(key string) string {
	if i := a.search(key); i < len(a) && a[i].Key == key {
		return a[i].Value.Text
	}
	return ""
}

// text returns the text of an attribute, "" if there is none or if it is no text.
func (a Attributes) text(key string) string {
	if i := a.search(key); i < len(a) && a[i].Key == key && a[i].Value.Type == String {
		return a[i].Value.Text
	}
	return ""
}

// search returns the index of the first attribute whose key is not less than key.
func (a Attributes) search(key string) int {
	return sort.Search(len(a), func(i int) bool { return a[i].Key >= key })
}

// withPrefix returns the attributes whose keys begin with prefix.
func (a Attributes) withPrefix(prefix string) Attributes {
	a = a[a.search(prefix):]
	n := 0
	for n < len(a) && strings.HasPrefix(a[n].Key, prefix) {
		n++
	}
	return a[:n]
}

// hasPrefix reports whether the key of any attribute begins with prefix.
func (a Attributes) hasPrefix(prefix string) bool {
	i := a.search(prefix)
	return i < len(a) && strings.HasPrefix(a[i].Key, prefix)
}

// first returns the first text of some attributes that is not empty.
func (a Attributes) first(keys ...string) string {
	for _, key := range keys {
		if s := a.Get(key); s != "" {
			return s
		}
	}
	return ""
}

// size returns about how many bytes the attributes take if their keys take few.
func (a Attributes) size() (n int) {
	for i := range a {
		n += len(a[i].Value.Text) + 8
	}
	return n
}

// sorted sorts attributes by key, in place. Of several values of one key it keeps the first text, else the
// first: Rust's instrumentation adds the number of a thread to spans that have a text of that key.
func sorted(a Attributes) Attributes {
	byKey := func(x, y Attribute) int {
		return cmp.Or(strings.Compare(x.Key, y.Key), cmp.Compare(min(x.Value.Type, Number), min(y.Value.Type, Number)))
	}
	if !slices.IsSortedFunc(a, byKey) {
		slices.SortStableFunc(a, byKey)
	}
	return slices.CompactFunc(a, func(x, y Attribute) bool { return x.Key == y.Key })
}

// MarshalJSON implements [json.Marshaler]: an object with one member per attribute.
func (a Attributes) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, a.size()), '{')
	for i := range a {
		b = a[i].Value.append(appendName(b, a[i].Key))
	}
	return append(b, '}'), nil
}

func (v Value) append(b []byte) []byte {
	if v.Type == String {
		return appendString(b, v.Text)
	}
	return append(b, v.Text...)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (a *Attributes) UnmarshalJSON(raw []byte) error {
	s := string(raw)
	if s == "null" {
		return nil
	}
	if !strings.HasPrefix(s, "{") {
		return errors.New("attributes must be an object")
	}
	out := Attributes{}
	for key, value := range members(s) {
		v := Value{Text: value}
		switch value[0] {
		case '"':
			v.Text = text(value)
		case '{', '[':
			v.Type, v.Text = JSON, compact(value)
		case 't', 'f':
			v.Type = Bool
		case 'n':
			continue
		default:
			v.Type = Number
		}
		out = append(out, Attribute{key, v})
	}
	*a = sorted(out)
	return nil
}

// clean replaces what Postgres cannot store: NUL, and bytes that are not UTF-8.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// validID reports whether s is an id of so many lower-case hex digits that are not all 0.
func validID(s string, digits int) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == digits && strings.Trim(s, "0") != ""
}
