package decision

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/record"
)

// Form is what a human is asked to fill in: its fields, as maps of texts. A field has a label, and may
// have name, type, placeholder, required and options, which are joined by commas.
type Form []map[string]string

// GenericInput is the only field of a form that lists none.
const GenericInput = "genericInput"

// Given stands on record for a password: that it was given, and nothing else.
const Given = "[password]"

// maxTextBytes bounds what a human says. Nothing of it is cut.
const maxTextBytes = 1 << 20

// ReadForm reads the form of a wait.
func ReadForm(raw json.RawMessage) (Form, error) {
	var form Form
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &form); err != nil {
			return nil, invalid("decision", "cannot be submit: the form of the wait is not whole")
		}
	}

	form = slices.DeleteFunc(form, func(field map[string]string) bool { return field == nil })
	if len(form) == 0 {
		form = Form{{"label": GenericInput, "type": "text"}}
	}
	return form, nil
}

// Key is the member of the values that holds the answer to a field.
func Key(field map[string]string) string { return cmp.Or(field["name"], field["label"]) }

// ByLabel returns values that may be keyed by label as if they were keyed by name.
func (f Form) ByLabel(values map[string]json.RawMessage) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(values))
	for given, value := range values {
		named := slices.ContainsFunc(f, func(field map[string]string) bool { return Key(field) == given })
		at := slices.IndexFunc(f, func(field map[string]string) bool { return field["label"] == given })
		if !named && at >= 0 {
			given = Key(f[at])
		}
		out[given] = value
	}
	return out
}

// answered returns the form as JSON with the values in it, after redact.
func (f Form) answered(values map[string]json.RawMessage, redact func(string) string) (json.RawMessage, error) {
	known := make(map[string]bool, len(f))
	for _, field := range f {
		known[Key(field)] = true
	}

	var unknown []string
	for name := range values {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, invalid(shown(slices.Min(unknown)), "is no field of the form")
	}

	size := 0
	for _, field := range f {
		name := Key(field)
		value, err := text(values[name])
		if err == nil {
			value, err = check(field, value)
		}
		if err != nil {
			return nil, invalid(shown(name), err.Error())
		}

		field["value"] = redact(value)
		if size += len(value); size > maxTextBytes {
			return nil, invalid(shown(name),
				fmt.Sprintf("is too long: all values together must not have over %d bytes", maxTextBytes))
		}
	}
	return encode(f)
}

// encode returns a value as JSON whose texts are as they are.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode form: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// shown is a name of a field as an error may show it.
func shown(name string) string {
	if name = strings.ToValidUTF8(name, "\uFFFD"); len(name) > 80 {
		name = strings.ToValidUTF8(name[:80], "")
	}
	return name
}

// fault says what the value of a field must be.
type fault string

func (f fault) Error() string { return string(f) }

// text returns a value as text: a text itself, a number or a truth as JSON has it, a list of these joined
// by commas. Nothing, or null, is an empty text.
func text(raw json.RawMessage) (string, error) {
	const wrong fault = "must be a text, a number, true or false, or a list of these"
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return "", nil
	}

	switch raw[0] {
	case 'n':
		return "", nil
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '{':
		return "", wrong
	case '[':
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return "", wrong
		}

		texts := make([]string, len(items))
		for i, item := range items {
			if item = bytes.TrimSpace(item); item[0] == '[' {
				return "", wrong
			}
			var err error
			if texts[i], err = text(item); err != nil {
				return "", err
			}
		}
		return strings.Join(texts, ","), nil
	}

	return string(raw), nil
}

// Check says what is wrong with the answer to a field, given as text; empty: nothing is. It quotes no value.
func Check(field map[string]string, answer string) (wrong string) {
	if _, err := check(field, answer); err != nil {
		return err.Error()
	}
	return ""
}

// Options are those of a field, of which an answer must be one; nil if it lists none.
func Options(field map[string]string) []string { return split(field["options"]) }

var number = regexp.MustCompile(`^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$`)

// check returns the value of a field as it goes on record.
func check(field map[string]string, value string) (string, error) {
	trimmed := strings.TrimSpace(value)
	kind := strings.ToLower(field["type"])
	if trimmed == "" {
		if strings.EqualFold(field["required"], "true") {
			return "", fault("is required")
		}
		if kind != "password" {
			return value, nil
		}
	}

	switch kind {
	case "number":
		if n, err := strconv.ParseFloat(trimmed, 64); err != nil || math.IsInf(n, 0) || !number.MatchString(trimmed) {
			return "", fault("must be a number")
		}
		return trimmed, nil
	case "email":
		if a, err := mail.ParseAddress(trimmed); err != nil || a.Address != trimmed {
			return "", fault("must be an email address")
		}
		return trimmed, nil
	case "select", "radio":
		return choose(field, trimmed)
	case "checkbox":
		if Options(field) == nil {
			return value, nil
		}

		chosen := split(trimmed)
		for i := range chosen {
			if _, err := choose(field, chosen[i]); err != nil {
				return "", err
			}
		}
		return strings.Join(chosen, ","), nil
	case "password":
		if value == "" {
			return "", nil
		}
		return Given, nil
	}

	return value, nil
}

func choose(field map[string]string, value string) (string, error) {
	if of := Options(field); of != nil && !slices.Contains(of, value) {
		return "", fault("must be one of " + shownOptions(of))
	}
	return value, nil
}

func shownOptions(of []string) string {
	all := strings.Join(of, ", ")
	if len(all) > record.MaxIDBytes {
		return "its options"
	}
	return all
}

func split(list string) (items []string) {
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

func invalid(field, reason string) error {
	return &record.InvalidError{Code: record.CodeInvalidValue, Field: field, Reason: reason}
}
