package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// refusedAtTop are the keywords that providers refuse at the top of a tool's schema.
var refusedAtTop = []string{"anyOf", "oneOf", "allOf", "enum", "not"}

// anyArguments is the schema of a tool that takes any object.
const anyArguments = `{"type":"object","properties":{}}`

// OfferedSchema returns the form of a tool's schema that providers accept: of type object and with properties at
// the top, and there without anyOf, oneOf, allOf, enum, not and $ref. The properties of what these lead to are
// offered as well; all that every choice requires stays required. So a model may be offered more than the tool
// takes, never less. Schemas that are fine, and text that is no JSON, are returned byte for byte.
func OfferedSchema(schema json.RawMessage) json.RawMessage {
	top, ok := readMembers(schema)
	switch {
	case len(schema) > 0 && !json.Valid(schema), ok && top.isAccepted():
		return schema
	case !ok:
		return json.RawMessage(anyArguments)
	}

	folder := schemaFolder{root: top, left: maxFolded}
	offered := folder.fold(top)
	if folder.left < 0 {
		return json.RawMessage(anyArguments)
	}

	for _, name := range append(slices.Clone(refusedAtTop), "$ref") {
		offered.drop(name)
	}
	offered.set("type", json.RawMessage(`"object"`))
	if _, ok := readMembers(offered.values["properties"]); !ok {
		offered.set("properties", json.RawMessage(`{}`))
	}

	text := offered.encode()
	for _, name := range refusedAtTop { // what is no longer there cannot be referred to
		if bytes.Contains(text, []byte(`"#/`+name+`/`)) {
			return json.RawMessage(anyArguments)
		}
	}
	return text
}

// isAccepted reports whether providers accept a schema as it is.
func (m members) isAccepted() bool {
	_, hasProperties := readMembers(m.values["properties"])
	refused := slices.ContainsFunc(refusedAtTop, func(name string) bool { return m.values[name] != nil })
	return string(m.values["type"]) == `"object"` && hasProperties && !refused && m.values["$ref"] == nil
}

// maxFolded bounds how many schemas are folded into one: references can multiply without an end. Beyond it, any
// object is offered.
const maxFolded = 100

// schemaFolder folds schemas into one.
type schemaFolder struct {
	root members
	left int
}

// fold returns a schema with the properties of all that it refers to or is composed of at its top.
func (f *schemaFolder) fold(schema members) members {
	folded := schema.clone()
	if f.left--; f.left < 0 {
		return folded
	}

	for _, each := range f.conjuncts(schema) {
		for _, name := range each.names { // a description, additionalProperties, $defs
			if folded.values[name] == nil {
				folded.set(name, each.values[name])
			}
		}
		folded.addProperties(each)
		folded.require(each.required())
	}

	for _, keyword := range []string{"anyOf", "oneOf"} {
		choices := f.choices(schema.values[keyword])
		for _, choice := range choices {
			folded.addProperties(choice)
		}
		folded.require(requiredByAll(choices))
	}
	return folded
}

// conjuncts returns the folded schemas that a value must match in addition to schema: the target of its $ref, and those
// of its allOf.
func (f *schemaFolder) conjuncts(schema members) []members {
	all := f.choices(schema.values["allOf"])
	var at string
	if json.Unmarshal(schema.values["$ref"], &at) != nil {
		return all
	}
	if target, ok := f.lookUp(at); ok {
		all = append(all, f.fold(target))
	}
	return all
}

// choices returns the schemas of a list that an object may fit, folded.
func (f *schemaFolder) choices(list json.RawMessage) []members {
	var texts []json.RawMessage
	if json.Unmarshal(list, &texts) != nil {
		return nil
	}

	var choices []members
	for _, text := range texts {
		choice, ok := readMembers(text)
		if ok && choice.mayBeObject() {
			choices = append(choices, f.fold(choice))
		}
	}
	return choices
}

// lookUp returns the schema at a reference into the whole schema, such as #/$defs/Order.
func (f *schemaFolder) lookUp(reference string) (members, bool) {
	path, ok := strings.CutPrefix(reference, "#/")
	if !ok {
		return members{}, false
	}

	at := f.root
	for _, part := range strings.Split(path, "/") {
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if at, ok = readMembers(at.values[name]); !ok {
			return members{}, false
		}
	}
	return at, true
}

func requiredByAll(choices []members) []string {
	if len(choices) == 0 {
		return nil
	}

	all := choices[0].required()
	for _, choice := range choices[1:] {
		required := choice.required()
		all = slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(required, name) })
	}
	return all
}

// members are those of a JSON object, in their order.
type members struct {
	names  []string
	values map[string]json.RawMessage
}

func readMembers(text json.RawMessage) (members, bool) {
	m := members{values: map[string]json.RawMessage{}}
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return members{}, false
	}

	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return members{}, false
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return members{}, false
		}
		m.set(key, bytes.Clone(value))
	}
	if _, err := d.ReadToken(); err != nil { // the end of the object
		return members{}, false
	}

	_, err := d.ReadToken()
	return m, errors.Is(err, io.EOF)
}

func (m members) clone() members {
	return members{names: slices.Clone(m.names), values: maps.Clone(m.values)}
}

func (m *members) set(name string, value json.RawMessage) {
	if _, ok := m.values[name]; !ok {
		m.names = append(m.names, name)
	}
	m.values[name] = value
}

func (m *members) drop(name string) {
	delete(m.values, name)
	m.names = slices.DeleteFunc(m.names, func(each string) bool { return each == name })
}

func (m members) encode() json.RawMessage {
	text := []byte{'{'}
	for i, name := range m.names {
		if i > 0 {
			text = append(text, ',')
		}
		text, _ = jsontext.AppendQuote(text, name) // names were read from JSON
		text = append(append(text, ':'), m.values[name]...)
	}
	return append(text, '}')
}

// mayBeObject reports whether the type of a schema lets it be that of an object.
func (m members) mayBeObject() bool {
	var types []string
	var one string
	switch {
	case json.Unmarshal(m.values["type"], &one) == nil:
		return one == "object"
	case json.Unmarshal(m.values["type"], &types) == nil:
		return slices.Contains(types, "object")
	}
	return true
}

func (m members) required() []string {
	var names []string
	_ = json.Unmarshal(m.values["required"], &names) // of another shape, it requires nothing
	return names
}

// require adds to what is required.
func (m *members) require(names []string) {
	required := m.required()
	for _, name := range names {
		if !slices.Contains(required, name) {
			required = append(required, name)
		}
	}

	if len(required) > 0 {
		text, _ := json.Marshal(required) // a list of texts
		m.set("required", text)
	}
}

// addProperties adds the properties of other. A property that both have, with different schemas, becomes an anyOf of
// the two.
func (m *members) addProperties(other members) {
	added, ok := readMembers(other.values["properties"])
	if !ok {
		return
	}
	merged, ok := readMembers(m.values["properties"])
	if !ok {
		merged = members{values: map[string]json.RawMessage{}}
	}

	for _, name := range added.names {
		switch existing := merged.values[name]; {
		case existing == nil:
			merged.set(name, added.values[name])
		case !bytes.Equal(existing, added.values[name]):
			merged.set(name, slices.Concat([]byte(`{"anyOf":[`), existing, []byte{','}, added.values[name], []byte(`]}`)))
		}
	}
	m.set("properties", merged.encode())
}
