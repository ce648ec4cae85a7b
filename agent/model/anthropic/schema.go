package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model/internal/ordered"
)

// enforced are the keywords of a schema that the API enforces. It refuses others.
var enforced = []string{
	"$ref", "$defs", "definitions", "type", "anyOf", "allOf", "description", "title", "enum", "const",
	"properties", "additionalProperties", "required", "items", "pattern", "format", "minItems",
}

// formats are the formats that the API enforces.
var formats = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}

// enforceable returns a schema that the API accepts. Objects with properties are closed; a choice of one
// is a choice of any; and what cannot be enforced is said in the description instead. What fits it may
// break the rest of the schema, so an answer is still checked.
func enforceable(schema json.RawMessage) (json.RawMessage, error) {
	members, err := read(schema)
	if err != nil {
		return nil, err
	}

	has := func(name string) bool { return members.Values[name] != nil }
	closed := has("properties") || string(members.Values["type"]) == `"object"` && !has("additionalProperties")
	var out, unenforced ordered.Object
	for _, name := range members.Names {
		value := members.Values[name]
		switch name {
		case "$ref": // the API wants nothing beside it
			only := ordered.Object{}
			only.Set(name, value)
			return only.Encode(), nil
		case "properties", "$defs", "definitions":
			value, err = each(value)
		case "items":
			value, err = enforceable(value)

		case "oneOf":
			if !has("anyOf") {
				name = "anyOf"
				value, err = list(value)
			}
		case "anyOf", "allOf":
			value, err = list(value)

		case "additionalProperties":
			if closed {
				continue
			}
			if bytes.HasPrefix(value, []byte("{")) {
				value, err = enforceable(value)
			}
		}

		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if enforces(name, value) {
			out.Set(name, value)
		} else {
			unenforced.Set(name, value)
		}
	}

	if closed {
		out.Set("additionalProperties", json.RawMessage("false"))
	}
	if len(unenforced.Names) == 0 {
		return out.Encode(), nil
	}
	description, err := describe(out.Values["description"], unenforced)
	out.Set("description", description)
	return out.Encode(), err
}

func read(object json.RawMessage) (ordered.Object, error) {
	members, ok := ordered.Read(object)
	if ok {
		return members, nil
	}
	var all map[string]json.RawMessage
	return ordered.Object{}, errors.Join(errors.New("not a JSON object"), json.Unmarshal(object, &all))
}

func enforces(name string, value json.RawMessage) bool {
	var format string
	switch name {
	case "format":
		return json.Unmarshal(value, &format) == nil && slices.Contains(formats, format)
	case "minItems":
		return string(value) == "0" || string(value) == "1"
	}
	return slices.Contains(enforced, name)
}

// describe adds what is not enforced to a description, if there is one.
func describe(description json.RawMessage, unenforced ordered.Object) (json.RawMessage, error) {
	var text string
	if err := json.Unmarshal(description, &text); err != nil && description != nil {
		return nil, fmt.Errorf("description: %w", err)
	}
	return json.Marshal(strings.TrimSpace(text + "\n" + string(unenforced.Encode())))
}

// each makes the schemas in the members of an object enforceable.
func each(object json.RawMessage) (json.RawMessage, error) {
	members, err := read(object)
	for _, name := range members.Names {
		if members.Values[name], err = enforceable(members.Values[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return members.Encode(), err
}

// list makes the schemas in a list enforceable.
func list(of json.RawMessage) (json.RawMessage, error) {
	var schemas []json.RawMessage
	if err := json.Unmarshal(of, &schemas); err != nil {
		return nil, err
	}

	for i, s := range schemas {
		var err error
		if schemas[i], err = enforceable(s); err != nil {
			return nil, err
		}
	}
	return json.Marshal(schemas)
}
