package config

import (
	"fmt"
	"log/slog"
)

const hidden = "[secret]"

// Value is a text of the configuration that may be secret: an API key, a variable of an MCP server, or
// whatever came from the environment. A secret one is printed, logged and written as JSON or YAML as
// "[secret]". [Value.Reveal] returns what it is.
//
// The zero Value is empty.
type Value struct {
	text   *string // a pointer, so that what prints by reflection does not reach the text
	secret bool
}

// Reveal returns the text itself, for those who must have it. Do not put it into errors or logs.
func (v Value) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// IsZero reports whether the value is empty.
func (v Value) IsZero() bool { return v.Reveal() == "" }

// String returns the text, or "[secret]".
func (v Value) String() string {
	if v.secret && !v.IsZero() {
		return hidden
	}
	return v.Reveal()
}

// GoString returns the quoted String.
func (v Value) GoString() string { return fmt.Sprintf("%q", v.String()) }

// MarshalText returns the String.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// LogValue returns the String.
func (v Value) LogValue() slog.Value { return slog.StringValue(v.String()) }
