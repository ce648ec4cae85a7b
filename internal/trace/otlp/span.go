package otlp

import (
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/trace/spans"
)

// What spans are is known to the store, too.
type (
	Span       = spans.Span
	Event      = spans.Event
	Link       = spans.Link
	Scope      = spans.Scope
	Attributes = spans.Attributes
	Attribute  = spans.Attribute
	Value      = spans.Value
	ValueType  = spans.ValueType
)

// The types of values.
const (
	String = spans.String
	Number = spans.Number
	Bool   = spans.Bool
	JSON   = spans.JSON
)

// The kinds of spans that serve what another process asked for, as OpenTelemetry numbers them.
const (
	kindServer   = 2
	kindConsumer = 5
)

// parentIsRemote reports whether the parent of a span, if it has one, belongs to another process.
func parentIsRemote(s *Span) bool {
	return s.RemoteParent || s.Kind == kindServer || s.Kind == kindConsumer
}

// A log record that became an event has its body in the attribute logBody. Records that have no field
// for the name of the event have it in eventName.
const (
	logBody   = "log.body"
	eventName = "event.name"
)

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
