package otlp

import (
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/internal/trace/spans"
)

// Spans and their parts are in package spans, because the store knows them, too.
type (
	// Span is one span of a trace.
	Span = spans.Span
	// Event is something that happened within a span.
	Event = spans.Event
	// Link points to a span.
	Link = spans.Link
	// Scope is the instrumentation that made a span.
	Scope = spans.Scope
	// Attributes are sorted by key.
	Attributes = spans.Attributes
	// Attribute is a key with its value.
	Attribute = spans.Attribute
	// Value is a value as text.
	Value = spans.Value
	// ValueType says what the text of a value is.
	ValueType = spans.ValueType
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
