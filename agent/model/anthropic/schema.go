package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// member is one member of a JSON object. Their order is kept, because the model answers in it.
type member struct {
	name  string
	value json.RawMessage
}

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
	members, err := membersOf(schema)
	if err != nil {
		return nil, err
	}

	has := func(name string) bool { return valueOf(members, name) != nil }
	closed := has("properties") || string(valueOf(members, "type")) == `"object"` && !has("additionalProperties")
	var out, unenforced []member
	description := -1
	for _, m := range members {
		switch m.name {
		case "$ref": // the API wants nothing beside it
			return encodeMembers([]member{m}), nil
		case "properties", "$defs", "definitions":
			m.value, err = each(m.value)
		case "items":
			m.value, err = enforceable(m.value)

		case "oneOf":
			if !has("anyOf") {
				m.name = "anyOf"
				m.value, err = list(m.value)
			}
		case "anyOf", "allOf":
			m.value, err = list(m.value)

		case "additionalProperties":
			if closed {
				continue
			}
			if bytes.HasPrefix(m.value, []byte("{")) {
				m.value, err = enforceable(m.value)
			}
		case "description":
			description = len(out)
		}

		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		if enforces(m) {
			out = append(out, m)
		} else {
			unenforced = append(unenforced, m)
		}
	}

	if closed {
		out = append(out, member{"additionalProperties", json.RawMessage("false")})
	}
	if len(unenforced) > 0 {
		if description < 0 {
			description = len(out)
			out = append(out, member{"description", json.RawMessage(`""`)})
		}
		if out[description].value, err = describe(out[description].value, unenforced); err != nil {
			return nil, err
		}
	}
	return encodeMembers(out), nil
}

func valueOf(members []member, name string) json.RawMessage {
	for _, m := range members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func enforces(m member) bool {
	var format string
	switch m.name {
	case "format":
		return json.Unmarshal(m.value, &format) == nil && slices.Contains(formats, format)
	case "minItems":
		return string(m.value) == "0" || string(m.value) == "1"
	}
	return slices.Contains(enforced, m.name)
}

// describe adds what is not enforced to a description.
func describe(description json.RawMessage, unenforced []member) (json.RawMessage, error) {
	var text string
	if err := json.Unmarshal(description, &text); err != nil {
		return nil, fmt.Errorf("description: %w", err)
	}
	text = strings.TrimSpace(text + "\n" + string(encodeMembers(unenforced)))
	return json.Marshal(text)
}

// each makes the schemas in the members of an object enforceable.
func each(object json.RawMessage) (json.RawMessage, error) {
	members, err := membersOf(object)
	for i, m := range members {
		if members[i].value, err = enforceable(m.value); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return encodeMembers(members), err
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

// membersOf returns the members of an object in their order.
func membersOf(object json.RawMessage) ([]member, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil || all == nil {
		return nil, errors.Join(errors.New("not a JSON object"), err)
	}

	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil { // the brace
		return nil, err
	}

	members := make([]member, 0, len(all))
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: name.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return members, nil
}

func encodeMembers(members []member) json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			out.WriteByte(',')
		}

		name, _ := json.Marshal(m.name) // cannot fail: a text
		out.Write(name)
		out.WriteByte(':')
		out.Write(m.value)
	}

	out.WriteByte('}')
	return out.Bytes()
}
