package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

type schema struct {
	text     json.RawMessage
	kind     string // its type
	outline  *outline
	resolved *jsonschema.Resolved
}

// schemaFor returns the schema of a Go struct, by its json and jsonschema tags.
func schemaFor(t reflect.Type) (*schema, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("arguments are a JSON object, so their type must be a struct, not %s", t)
	}

	s, err := jsonschema.ForType(t, nil)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return compile(text)
}

// dialects are the values of $schema that the library knows. By others it lets no value pass.
var dialects = []string{
	"", "https://json-schema.org/draft/2020-12/schema",
	"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema#",
}

// compile returns a schema that can be used within the bounds.
func compile(text json.RawMessage) (*schema, error) {
	if err := checkDepth(text); err != nil {
		return nil, err
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}

	if !slices.Contains(dialects, s.Schema) {
		return nil, fmt.Errorf("$schema is %q; want draft 2020-12 or 7", s.Schema)
	}

	outline, err := outlineOf(s)
	if err != nil {
		return nil, err
	}
	resolved, err := s.Resolve(nil)
	return &schema{text: text, kind: s.Type, outline: outline, resolved: resolved}, err
}

// CheckSchema returns an error if no object fits the schema of a tool because of its type.
func CheckSchema(text json.RawMessage) error {
	var schema *struct{ Type any }
	if err := json.Unmarshal(text, &schema); err != nil || schema == nil {
		return errors.New("its input schema is not an object")
	}

	types, isList := schema.Type.([]any)
	if schema.Type == nil || schema.Type == "object" || isList && slices.Contains(types, any("object")) {
		return nil
	}
	return errors.New("its input schema is not one of an object")
}

// readSchema returns a schema of an object from its JSON.
func readSchema(text json.RawMessage) (*schema, error) {
	s, err := compile(text)
	if err == nil && s.kind != "object" {
		return nil, errors.New("its type must be object")
	}
	return s, err
}

// check returns an error for a model if the arguments do not fit the schema. It names the field.
func (s *schema) check(arguments json.RawMessage) error {
	var object map[string]any
	if err := json.Unmarshal(arguments, &object); err != nil || object == nil {
		return errors.New("the arguments are not a JSON object")
	}
	return s.fits(object)
}

// fits returns an error for a model if a value does not fit the schema, and errTooMuch if checking it could take too
// long.
func (s *schema) fits(value any) error {
	if !s.outline.affords(value) {
		return errTooMuch
	}
	if err := s.resolved.Validate(value); err != nil {
		return errors.New(readable(err.Error()))
	}
	return nil
}

// CheckArguments returns what is wrong with the arguments of a call, for a model: they must be in the form of
// [Canonical], fit the schema of the tool, and be what the tool takes. A schema that cannot be read, such as one that
// refers to another place or is of another dialect, or that could take too long, checks nothing.
func CheckArguments(t Tool, arguments json.RawMessage) error {
	arguments, err := Canonical(arguments)
	if err != nil {
		return err
	}
	return check(t, arguments)
}

// check is CheckArguments of those in the form of [Canonical].
func check(t Tool, arguments json.RawMessage) error {
	if own, ok := t.(ArgumentChecker); ok {
		return own.CheckArguments(arguments)
	}
	return SchemaCheck(t.Spec().Schema)(arguments)
}

// SchemaCheck returns what checks arguments by a schema, as [CheckArguments] does.
func SchemaCheck(text json.RawMessage) func(arguments json.RawMessage) error {
	s, err := compile(text)
	if err != nil {
		return func(json.RawMessage) error { return nil }
	}
	return func(arguments json.RawMessage) error {
		err := s.check(arguments)
		if errors.Is(err, errTooMuch) {
			return nil
		}
		return err
	}
}

// Checker returns a function that checks JSON against a schema. Its errors are for a model. A schema that could take
// too long, such as one that leads to itself, is an error, as is a text with which it could.
func Checker(schema json.RawMessage) (check func(text string) error, err error) {
	s, err := compile(schema)
	if err != nil {
		return nil, err
	}
	return func(text string) error {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return fmt.Errorf("it is no JSON: %w", err)
		}
		return s.fits(value)
	}, nil
}

// readable turns an error of the schema's library, which has the path in the schema of each part that
// it was in, into one with the path in the arguments: "validating root: validating
// /properties/files/items: type: ..." becomes "files[]: type: ...".
func readable(text string) string {
	at := ""
	for {
		rest, ok := strings.CutPrefix(text, "validating ")
		where, what, found := strings.Cut(rest, ": ")
		if !ok || !found {
			break
		}
		at, text = where, what
	}

	var field strings.Builder
	for parts := strings.Split(at, "/"); len(parts) > 0; parts = parts[1:] {
		switch {
		case parts[0] == "items":
			field.WriteString("[]")
		case parts[0] == "properties" && len(parts) > 1:
			if field.Len() > 0 {
				field.WriteByte('.')
			}
			parts = parts[1:]
			field.WriteString(parts[0])
		}
	}

	if text = Cut(text, 500); field.Len() > 0 {
		return field.String() + ": " + text
	}
	return text
}
