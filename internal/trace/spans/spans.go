// Package spans owns what a span of OpenTelemetry is once it is decoded. Package otlp makes spans and reads them; the
// store takes them from one to the other.
package spans

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sort"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actlog/actlog/internal/record/loosejson"
)

// Span is one span of a trace, or a stub that only adds log records to one. Nothing changes
// a span after it was decoded, so that spans can be kept and projected again.
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

// Event is something that happened within a span.
type Event struct {
	Name       string     `json:"name"`
	Time       int64      `json:"time,omitempty"`
	Attributes Attributes `json:"attributes,omitempty"`
}

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

// Text returns the text of an attribute, "" if there is none or if it is no text.
func (a Attributes) Text(key string) string {
	if i := a.search(key); i < len(a) && a[i].Key == key && a[i].Value.Type == String {
		return a[i].Value.Text
	}
	return ""
}

// search returns the index of the first attribute whose key is not less than key.
func (a Attributes) search(key string) int {
	return sort.Search(len(a), func(i int) bool { return a[i].Key >= key })
}

// WithPrefix returns the attributes whose keys begin with prefix.
func (a Attributes) WithPrefix(prefix string) Attributes {
	a = a[a.search(prefix):]
	n := 0
	for n < len(a) && strings.HasPrefix(a[n].Key, prefix) {
		n++
	}
	return a[:n]
}

// HasPrefix reports whether the key of any attribute begins with prefix.
func (a Attributes) HasPrefix(prefix string) bool {
	i := a.search(prefix)
	return i < len(a) && strings.HasPrefix(a[i].Key, prefix)
}

// First returns the first text of some attributes that is not empty.
func (a Attributes) First(keys ...string) string {
	for _, key := range keys {
		if s := a.Get(key); s != "" {
			return s
		}
	}
	return ""
}

// Size returns about how many bytes the attributes take if their keys take few.
func (a Attributes) Size() (n int) {
	for i := range a {
		n += len(a[i].Value.Text) + 8
	}
	return n
}

// Sorted sorts attributes by key, in place. Of several values of one key it keeps the first text, else the
// first: Rust's instrumentation adds the number of a thread to spans that have a text of that key.
func Sorted(a Attributes) Attributes {
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
	b := append(make([]byte, 0, a.Size()), '{')
	for i := range a {
		if i > 0 {
			b = append(b, ',')
		}
		b = a[i].Value.Append(append(loosejson.AppendString(b, a[i].Key), ':'))
	}
	return append(b, '}'), nil
}

// Append appends a value as JSON.
func (v Value) Append(b []byte) []byte {
	if v.Type == String {
		return loosejson.AppendString(b, v.Text)
	}
	return append(b, v.Text...)
}

// UnmarshalJSON implements [json.Unmarshaler]. A member that is null is left out.
func (a *Attributes) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '{' {
		return errors.New("attributes must be an object")
	}

	_, err := d.ReadToken()
	out := Attributes{}
	for err == nil && d.PeekKind() == '"' {
		var name, value jsontext.Value
		if name, err = d.ReadValue(); err != nil {
			break
		}
		key := unquoted(name) // before the decoder reads on
		if value, err = d.ReadValue(); err != nil || value.Kind() == 'n' {
			continue
		}
		out = append(out, Attribute{key, valueOf(value.Clone())})
	}
	*a = Sorted(out)
	return err
}

func valueOf(v jsontext.Value) Value {
	switch v.Kind() {
	case '"':
		return Value{String, unquoted(v)}
	case '{', '[':
		_ = v.Compact() // it is valid
		return Value{JSON, string(v)}
	case 't', 'f':
		return Value{Bool, string(v)}
	default:
		return Value{Number, string(v)}
	}
}

func unquoted(v jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, v) // what is not UTF-8 is replaced
	return string(text)
}
