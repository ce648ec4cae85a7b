package otlp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Span is one span of a trace, or what a log record adds to one. Its JSON is how
// it is kept.
type Span struct {
	TraceID string `json:"traceId"` // 32 hex digits, lower case
	SpanID  string `json:"spanId"`  // 16 hex digits, lower case
	// ParentID is empty for a root.
	ParentID string `json:"parentId,omitempty"`
	// RemoteParent says that the parent belongs to another process, which may
	// never tell of it.
	RemoteParent bool `json:"remoteParent,omitempty"`
	// Stub says that nothing is known but the events, which came as log records.
	Stub bool   `json:"stub,omitempty"`
	Name string `json:"name,omitempty"`
	Kind int32  `json:"kind,omitempty"`
	// Start and End are nanoseconds since 1970; 0: not known, or not ended.
	Start         int64      `json:"start,omitempty"`
	End           int64      `json:"end,omitempty"`
	Status        int32      `json:"status,omitempty"` // 1 ok, 2 error
	StatusMessage string     `json:"statusMessage,omitempty"`
	Attributes    Attributes `json:"attributes,omitempty"`
	Events        []Event    `json:"events,omitempty"`
	Links         []Link     `json:"links,omitempty"`
	Scope         Scope      `json:"scope,omitzero"`
	Resource      Attributes `json:"resource,omitempty"`
	// Truncated names what was cut or dropped to keep the limits.
	Truncated []string `json:"truncated,omitempty"`
}

// Event is something that happened within a span.
type Event struct {
	Name       string     `json:"name"`
	Time       int64      `json:"time,omitempty"`
	Attributes Attributes `json:"attributes,omitempty"`
}

// Link leads to a span of this or another trace.
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

// Attributes are sorted by key; no key stands twice.
type Attributes []Attribute

// Attribute is a key with its value.
type Attribute struct {
	Key   string
	Value Value
}

// Value is a value by its text: that of a number or of JSON is how JSON writes
// it.
type Value struct {
	Type ValueType
	Text string
}

// ValueType says what the text of a value is.
type ValueType uint8

// The types of values. Structured ones are JSON: half of the conventions send
// them as a string that holds JSON anyway.
const (
	String ValueType = iota
	Number
	Bool
	JSON // an object or an array
)

// Get gives the text of an attribute, "" where there is none.
func (a Attributes) Get(key string) string {
	if i, ok := a.find(key); ok {
		return a[i].Value.Text
	}
	return ""
}

// find gives the place of a key, or where it would stand.
func (a Attributes) find(key string) (int, bool) {
	lo, hi := 0, len(a)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if a[mid].Key < key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(a) && a[lo].Key == key
}

// below gives the attributes whose keys begin with prefix.
func (a Attributes) below(prefix string) Attributes {
	lo, _ := a.find(prefix)
	hi := lo
	for hi < len(a) && strings.HasPrefix(a[hi].Key, prefix) {
		hi++
	}
	return a[lo:hi]
}

// has tells whether the key of any attribute begins with prefix.
func (a Attributes) has(prefix string) bool {
	i, _ := a.find(prefix)
	return i < len(a) && strings.HasPrefix(a[i].Key, prefix)
}

// first gives the text of the first of some keys that says anything.
func (a Attributes) first(keys ...string) string {
	for _, key := range keys {
		if s := a.Get(key); s != "" {
			return s
		}
	}
	return ""
}

// sorted orders attributes by key; of several values of one key the first stays.
func sorted(a Attributes) Attributes {
	byKey := func(x, y Attribute) int { return strings.Compare(x.Key, y.Key) }
	if !slices.IsSortedFunc(a, byKey) {
		slices.SortStableFunc(a, byKey)
	}
	return slices.CompactFunc(a, func(x, y Attribute) bool { return x.Key == y.Key })
}

// MarshalJSON implements [json.Marshaler]: an object, a member an attribute.
func (a Attributes) MarshalJSON() ([]byte, error) {
	n := 2
	for i := range a {
		n += len(a[i].Key) + len(a[i].Value.Text) + 8
	}
	b := append(make([]byte, 0, n), '{')
	for i := range a {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, a[i].Key)
		b = append(b, ':')
		b = a[i].Value.append(b)
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
	members(s, func(key, value string) bool {
		v := Value{Text: value}
		switch value[0] {
		case '"':
			v.Text = text(value)
		case '{', '[':
			v.Type, v.Text = JSON, unescaped(compact(value))
		case 't', 'f':
			v.Type = Bool
		case 'n':
			return true
		default:
			v.Type = Number
		}
		out = append(out, Attribute{key, v})
		return true
	})
	*a = sorted(out)
	return nil
}

// clean replaces what Postgres cannot keep: NUL and bytes that are no UTF-8.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func number(f float64) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{Text: fmt.Sprint(f)}
	}
	b, err := json.Marshal(f)
	if err != nil {
		return Value{Text: fmt.Sprint(f)}
	}
	return Value{Number, string(b)}
}

func integer(n int64) Value { return Value{Number, strconv.FormatInt(n, 10)} }

func binaryText(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// validID tells whether s is an id of so many lower-case hex digits, not all 0.
func validID(s string, digits int) bool {
	if len(s) != digits {
		return false
	}
	zero := true
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
		zero = zero && c == '0'
	}
	return !zero
}
