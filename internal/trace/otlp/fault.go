package otlp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var errOther = errors.New("the body holds something else")

// The functions below return what is wrong with a body that cannot be decoded, and where, such as
// "resourceSpans[0].scopeSpans[0].spans[3].traceId must be 32 hex digits". The decoders' own errors
// name their functions and no places. They read the body again: they are for errors only.

func faultOfProtobuf(body []byte, root *message) error {
	return cmp.Or(protobufFault(body, root, nil), errOther)
}

func faultOfJSON(body []byte, root *message) error {
	if err := syntaxFault(body); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return cmp.Or(jsonFault(d, root, nil), errOther)
}

// place is where a member of a body is; nil: the body itself.
type place struct {
	in    *place
	name  string
	index int // in a list; -1: it is in none
}

// String is the path to the place.
func (p *place) String() string {
	var names []string
	for ; p != nil; p = p.in {
		name := p.name
		if p.index >= 0 {
			name = fmt.Sprintf("%s[%d]", name, p.index)
		}
		names = append(names, name)
	}
	slices.Reverse(names)
	return strings.Join(names, ".")
}

// protobufFault finds the first field of a message that is not as the schema says.
func protobufFault(b []byte, m *message, at *place) error {
	elements := map[uint64]int{} // how many a list has so far
	for len(b) > 0 {
		tag, content, rest, ok := nextField(b)
		if !ok || tag>>3 == 0 {
			if at == nil {
				return errWire
			}
			return fmt.Errorf("%s is not valid protobuf: it is damaged or cut off", at)
		}

		b = rest
		f := m.fields[tag>>3]
		if f == nil {
			continue
		}

		where := &place{at, f.name, -1}
		if f.list {
			where.index = elements[tag>>3]
			elements[tag>>3]++
		}

		switch {
		case tag&7 != f.value.wire:
			return fmt.Errorf("%s must be %s", where, wireWords[f.value.wire])
		case f.value.size > 0 && len(content) > 0 && len(content) != f.value.size:
			return fmt.Errorf("%s must have %d bytes, not %d", where, f.value.size, len(content))
		case f.of != nil:
			if err := protobufFault(content, f.of, where); err != nil {
				return err
			}
		}
	}
	return nil
}

// syntaxFault returns why a body is not JSON; nil if it is.
func syntaxFault(body []byte) error {
	var syntax *json.SyntaxError
	switch err := json.NewDecoder(bytes.NewReader(body)).Decode(new(json.RawMessage)); {
	case errors.As(err, &syntax):
		return fmt.Errorf("the body is not JSON at byte %d: %w", syntax.Offset, syntax)
	case err != nil: // the end
		return fmt.Errorf("the body is cut off: it ends at byte %d, in the middle of a value", len(body))
	}
	return nil
}

// jsonFault finds the first member of a message that is not as the schema says. The body is valid
// JSON.
func jsonFault(d *json.Decoder, m *message, at *place) error {
	token, err := d.Token()
	switch {
	case err != nil || token == nil: // null is an empty message
		return err
	case token != json.Delim('{'):
		return fmt.Errorf("%s must be an object", cmp.Or(at.String(), "the body"))
	}

	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}

		if f := m.member(name); f != nil {
			err = memberFault(d, f, &place{at, f.name, -1})
		} else {
			err = d.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	_, err = d.Token() // the end of the object
	return err
}

// memberFault is jsonFault for one member.
func memberFault(d *json.Decoder, f *messageField, at *place) error {
	if f.of != nil && !f.list {
		return jsonFault(d, f.of, at)
	}

	token, err := d.Token()
	switch {
	case err != nil || f.list && token == nil:
		return err
	case !f.list && !f.value.valid(token):
		return fmt.Errorf("%s must be %s", at, f.value.must)
	case !f.list:
		return nil
	case token != json.Delim('['):
		return fmt.Errorf("%s must be a list", at)
	}

	for i := 0; d.More(); i++ {
		if err := jsonFault(d, f.of, &place{at.in, at.name, i}); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end of the list
	return err
}
