package chat

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actlog/actlog/internal/record/loosejson"
)

// object is a JSON object of which members are taken. What is left is not understood.
type object struct {
	names, values []string
	taken         []bool
}

// newObject reads an object of valid JSON, in which NaN and Infinity are as good as numbers. The spelling of its values
// stays.
func newObject(v string) *object {
	o := new(object)
	d := newDecoder(v)
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			break
		}

		key := name.String()
		value, ok := d.value()
		if !ok {
			break
		}
		o.names, o.values = append(o.names, key), append(o.values, value)
	}

	o.taken = make([]bool, len(o.names))
	return o
}

// elements returns the elements of an array of valid JSON.
func elements(v string) (all []string) {
	d := newDecoder(v)
	for d.PeekKind() != ']' {
		value, ok := d.value()
		if !ok {
			break
		}
		all = append(all, value)
	}
	return all
}

// decoder reads the values in an object or an array.
type decoder struct {
	*jsontext.Decoder
	of string
}

// newDecoder returns a decoder behind the first bracket of a value.
func newDecoder(v string) decoder {
	d := decoder{
		jsontext.NewDecoder(bytes.NewBufferString(loosejson.Strict(v)), jsontext.AllowDuplicateNames(true),
			jsontext.AllowInvalidUTF8(true)), v,
	}
	_, _ = d.ReadToken() // the bracket
	return d
}

func (d decoder) value() (string, bool) {
	value, err := d.ReadValue()
	end := int(d.InputOffset())
	return d.of[end-len(value) : end], err == nil
}

// find returns the place of the first of some members that there is and that is not null; -1: none.
func (o *object) find(names []string) int {
	for _, name := range names {
		for i := range o.names {
			if o.names[i] == name && !o.taken[i] && o.values[i] != "null" {
				return i
			}
		}
	}
	return -1
}

// peek returns the JSON of the first of some members that there is; empty: none.
func (o *object) peek(names ...string) string {
	if i := o.find(names); i >= 0 {
		return o.values[i]
	}
	return ""
}

// take is peek, and the member is understood.
func (o *object) take(names ...string) string {
	i := o.find(names)
	if i < 0 {
		return ""
	}
	o.taken[i] = true
	return o.values[i]
}

// rest returns the members that are left, as an object; empty: there are none that say anything.
func (o *object) rest() string {
	var b []byte
	for i, name := range o.names {
		if o.taken[i] || slices.Contains([]string{"null", `""`, "[]", "{}"}, o.values[i]) {
			continue
		}

		if b == nil {
			b = append(b, '{')
		} else {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, name) // of a name that is not UTF-8, what can be read
		b = append(append(b, ':'), o.values[i]...)
	}

	if b == nil {
		return ""
	}
	return string(append(b, '}'))
}

func isObject(v string) bool { return strings.HasPrefix(v, "{") }

func isString(v string) bool { return strings.HasPrefix(v, `"`) }

// text returns the content of a JSON string, and any other value as it is; of null, nothing.
func text(v string) string {
	switch {
	case v == "null":
		return ""
	case !isString(v):
		return v
	}

	s, err := jsontext.AppendUnquote(nil, v)
	if err != nil && len(s) == 0 {
		return v
	}
	return string(s)
}
