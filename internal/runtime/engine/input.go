package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/actlog/actlog/record"
)

// ReadInput decodes the input of a request. The error is a [*record.InvalidError] that names the member at
// fault. shape says what the input must be, such as "an object with agent and request".
func ReadInput(raw json.RawMessage, shape string, to any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		return nil
	}

	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return &record.InvalidError{
			Code: record.CodeUnknownField, Field: "input." + strings.Trim(field, `"`), Reason: "is not known",
		}
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return BadInput("input."+wrong.Field, "must be "+kindOf(wrong.Type.Kind().String()))
	}
	return BadInput("input", "must be "+shape)
}

// kindOf returns what JSON calls a kind of a Go type.
func kindOf(kind string) string {
	switch {
	case kind == "string":
		return "a text"
	case kind == "bool":
		return "true or false"
	case strings.HasPrefix(kind, "int"):
		return "a whole number"
	case kind == "slice":
		return "a list"
	}
	return "an object"
}

// BadInput returns the error of a member that has a wrong value.
func BadInput(field, reason string) error {
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: field, Reason: reason}
}

// NoInput returns the error of a member that lacks.
func NoInput(field string) error {
	return &record.InvalidError{Code: record.CodeMissingField, Field: field, Reason: "is required"}
}

// maxTitle bounds a title, in bytes.
const maxTitle = 100

// Title returns the first line of a request, as the title of its run.
func Title(request string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(request), "\n")
	if len(line) <= maxTitle {
		return line
	}

	end := maxTitle
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + "..."
}
