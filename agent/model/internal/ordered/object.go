// Package ordered owns JSON objects whose members keep their order, as schemas have them: models answer in it.
package ordered

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Object is a JSON object.
type Object struct {
	Names  []string // in their order
	Values map[string]json.RawMessage
}

// Read returns an object; ok is false if a text is none. Of members with one name, the last one counts.
func Read(text json.RawMessage) (o Object, ok bool) {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return Object{}, false
	}

	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return Object{}, false
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return Object{}, false
		}
		o.Set(key, bytes.Clone(value))
	}
	if _, err := d.ReadToken(); err != nil { // the end of the object
		return Object{}, false
	}

	_, err := d.ReadToken()
	return o, errors.Is(err, io.EOF)
}

// Clone returns a copy. The values are shared.
func (o Object) Clone() Object { return Object{slices.Clone(o.Names), maps.Clone(o.Values)} }

// Set replaces a member, or adds it at the end.
func (o *Object) Set(name string, value json.RawMessage) {
	if o.Values == nil {
		o.Values = map[string]json.RawMessage{}
	}
	if _, ok := o.Values[name]; !ok {
		o.Names = append(o.Names, name)
	}
	o.Values[name] = value
}

// Drop removes a member.
func (o *Object) Drop(name string) {
	delete(o.Values, name)
	o.Names = slices.DeleteFunc(o.Names, func(each string) bool { return each == name })
}

// Encode returns the object as JSON.
func (o Object) Encode() json.RawMessage {
	text := []byte{'{'}
	for i, name := range o.Names {
		if i > 0 {
			text = append(text, ',')
		}
		text, _ = jsontext.AppendQuote(text, name) // names were read from JSON
		text = append(append(text, ':'), o.Values[name]...)
	}
	return append(text, '}')
}
