// Package wire owns the JSON of a change and of the answer to it, with its codes and limits. The
// API, the recorder, import and export share it.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/nearest"
	"github.com/actlog/actlog/record"
)

// Limits of one request.
const (
	// MaxBodyBytes bounds a body after decompression.
	MaxBodyBytes = 64 << 20
	// MaxRecords bounds the records of a request.
	MaxRecords = 1_000
	// MaxMembers bounds the members of a record, known or not. No kind has more than 64 fields.
	MaxMembers = 1_000
)

// Answer says how many records of a request are on record, and which were rejected.
type Answer struct {
	Accepted int         `json:"accepted"`
	Rejected []Rejection `json:"rejected"`
}

// Rejection names a record that was refused by its index in the request, and the field at fault;
// empty if no single field is.
type Rejection struct {
	Index   int         `json:"index"`
	Code    record.Code `json:"code"`
	Field   string      `json:"field"`
	Message string      `json:"message"`
}

// Reject makes a rejection of an error.
func Reject(index int, err *record.InvalidError) Rejection {
	message := err.Reason
	if err.Field != "" {
		message = err.Field + " " + err.Reason
	}
	return Rejection{Index: index, Code: err.Code, Field: err.Field, Message: message}
}

// Decode reads one record: an object with its kind, its key and whatever else is known. The error
// is a [*record.InvalidError]. The values have the right type; [field.Clean] checks whether they
// are valid.
func Decode(raw []byte) (record.Change, error) {
	members, err := split(raw)
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(members)
	if err != nil {
		return nil, err
	}
	return decode(kind, members, (*field.Field).Sent)
}

func kindOf(members []member) (string, error) {
	var named jsontext.Value
	for _, m := range members {
		if m.name == "kind" {
			named = m.value
		}
	}

	kind, ok := text(named)
	switch {
	case ok && kind != "":
		return kind, nil
	case isNull(named):
		return "", invalid(record.CodeMissingField, "kind", "is required")
	}
	return "", invalid(record.CodeUnknownKind, "kind", "must be one of "+kinds)
}

// decode reads a record of a kind from the fields that are taken.
func decode(kind string, members []member, taken func(*field.Field) bool) (record.Change, error) {
	c := record.New(record.Kind(kind))
	if c == nil {
		return nil, invalid(record.CodeUnknownKind, "kind", fmt.Sprintf("%.80q is none of %s", kind, kinds))
	}

	fields := field.Fields(c.Kind())
	sent := make([]member, len(fields))
	var unknown []string
	for _, m := range members {
		f := field.ByName(c.Kind(), m.name)
		switch {
		case f != nil && taken(f):
			if m.name == f.Alias && !isNull(m.value) && has(members, f.Name) {
				return nil, invalid(record.CodeInvalidValue, m.name, "is another name of "+f.Name+", which is there too")
			}
			if sent[f.Index()].value == nil || !isNull(m.value) {
				sent[f.Index()] = m
			}
		case m.name != "kind":
			unknown = append(unknown, m.name)
		}
	}

	for i, f := range fields {
		if isNull(sent[i].value) {
			if f.Key {
				return nil, invalid(record.CodeMissingField, f.Name, "is required")
			}
			continue
		}
		if err := decodeField(f, f.In(c), sent[i]); err != nil {
			return nil, err
		}
	}
	if len(unknown) > 0 {
		return nil, unknownField(slices.Min(unknown), kind, fields, taken)
	}
	return c, nil
}

// unknownField returns the error for a field that a kind does not have. It names the one that was likely meant.
func unknownField(name, kind string, fields []*field.Field, taken func(*field.Field) bool) error {
	var there []string
	for _, f := range fields {
		if taken(f) {
			there = append(there, f.Name, f.Alias)
		}
	}

	reason := "is no field of " + kind
	if meant := nearest.Name(name, there); meant != "" {
		reason += "; did you mean " + meant + "?"
	}
	return invalid(record.CodeUnknownField, shown(name), reason)
}

func has(members []member, name string) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.name == name && !isNull(m.value) })
}

// member is a member of a JSON object, with its raw value.
type member struct {
	name  string
	value jsontext.Value
}

var (
	errNoObject = invalid(record.CodeMalformed, "", "a record must be a JSON object")
	errMembers  = invalid(record.CodeMalformed, "", fmt.Sprintf("a record must not have over %d members", MaxMembers))
)

// split returns the members of a JSON object, in one pass over it.
func split(raw []byte) ([]member, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, errNoObject
	}

	members := make([]member, 0, 32)
	for dec.PeekKind() == '"' {
		if len(members) == MaxMembers {
			return nil, errMembers
		}
		token, err := dec.ReadToken()
		if err != nil {
			return nil, errNoObject
		}

		name := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, errNoObject
		}
		end := dec.InputOffset() // the decoder's value is valid until its next call only
		members = append(members, member{name, raw[int(end)-len(value) : end]})
	}

	if _, err := dec.ReadToken(); err != nil { // the end of the object
		return nil, errNoObject
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errNoObject
	}
	return members, nil
}

// text reads a JSON string; ok is false if raw is not one. Invalid UTF-8 becomes U+FFFD.
func text(raw jsontext.Value) (s string, ok bool) {
	if raw.Kind() != '"' {
		return "", false
	}
	if inside := raw[1 : len(raw)-1]; bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return string(inside), true
	}
	unquoted, _ := jsontext.AppendUnquote(make([]byte, 0, len(raw)), raw) // the error says that something was replaced
	return string(unquoted), true
}

// texts reads a list of strings; ok is false if raw is not one. Of a list that is too long it
// returns one item more than is kept, so that [field.Clean] notices.
func texts(raw jsontext.Value) (list []string, ok bool) {
	list = []string{}
	ok = eachText(raw, func(s string) bool {
		if len(list) <= record.MaxListItems {
			list = append(list, s)
		}
		return true
	})
	return list, ok
}

// eachText calls take with each item of a list of strings. It reports false if raw is not one, or take refuses an item.
func eachText(raw jsontext.Value, take func(string) bool) bool {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowInvalidUTF8(true))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '[' {
		return false
	}
	for dec.PeekKind() == '"' {
		if token, err := dec.ReadToken(); err != nil || !take(token.String()) {
			return false
		}
	}
	return dec.PeekKind() == ']'
}

var kinds = func() string {
	names := make([]string, len(record.Kinds))
	for i, k := range record.Kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}()

func isNull(raw jsontext.Value) bool { return len(raw) == 0 || string(raw) == "null" }

func invalid(code record.Code, field, reason string) error {
	return &record.InvalidError{Code: code, Field: field, Reason: reason}
}

// shown bounds a name that a client made up, before it is sent back.
func shown(name string) string { return field.Shorten(name, 80) }

// decodeField sets a field to the value of the member that a client sent for it.
func decodeField(f *field.Field, v reflect.Value, sent member) error {
	raw := sent.value
	put := func(value any, ok bool, want string) error {
		if !ok {
			return invalid(record.CodeInvalidValue, sent.name, "must be "+want)
		}
		set(v, reflect.ValueOf(value))
		return nil
	}

	switch f.Type {
	case field.Text:
		s, ok := text(raw)
		if ok || !f.AnyJSON {
			return put(s, ok, "a string")
		}
		if err := field.CheckDepth(raw); err != nil {
			return invalid(record.CodeInvalidValue, sent.name, err.Error())
		}
		var b bytes.Buffer
		err := json.Compact(&b, raw)
		return put(b.String(), err == nil, "valid JSON")
	case field.Int:
		n, ok := integer(string(raw))
		return put(n, ok, "an integer")
	case field.Float:
		var n float64
		err := json.Unmarshal(raw, &n)
		return put(n, err == nil, "a number")
	case field.Time:
		s, ok := text(raw)
		t, err := time.Parse(time.RFC3339Nano, s)
		return put(t, ok && err == nil, "a time such as 2026-11-20T13:53:00.123456Z (RFC 3339)")
	case field.Texts:
		list, ok := texts(raw)
		return put(list, ok, "a list of strings")
	case field.Hashes:
		list, ok := hashes(raw)
		return put(content.Bytes(list), ok, "a list of hashes in hex")
	case field.JSON:
		v.SetBytes(bytes.Clone(raw))
	}
	return nil
}

// set sets a field, or what it points to, to a value of its kind.
func set(v, value reflect.Value) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	v.Set(value.Convert(v.Type()))
}

// integer reads a JSON number that is whole, in any notation.
func integer(s string) (int64, bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, true
	}

	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Encode writes a change as [Decode] reads it: the fields that clients send.
func Encode(c record.Change) ([]byte, error) { return encode(c, (*field.Field).Sent) }

func encode(c record.Change, sent func(*field.Field) bool) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	fmt.Fprintf(&b, `{"kind":%q`, c.Kind())

	for _, f := range field.Fields(c.Kind()) {
		v := f.In(c)
		if !sent(f) || v.IsZero() && !f.Key {
			continue
		}

		fmt.Fprintf(&b, `,%q:`, f.Name)
		value := v.Interface()
		if f.Type == field.Hashes {
			value = content.Hashes(value.([][]byte))
		}
		if err := enc.Encode(value); err != nil {
			return nil, fmt.Errorf("encode %s of %s: %w", f.Name, c.Kind(), err)
		}
		b.Truncate(b.Len() - 1) // the encoder's newline
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
