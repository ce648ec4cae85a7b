// Package wire is the JSON of a change and of the answer to it, with its codes
// and limits: what the API, the recorder, import and export share.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actlog/actlog/record"
)

// Limits of one request.
const (
	// MaxBodyBytes bounds a body after decompression.
	MaxBodyBytes = 64 << 20
	// MaxRecords bounds the records of a request.
	MaxRecords = 1_000
)

// Answer says what became of the records of a request.
type Answer struct {
	Accepted int         `json:"accepted"`
	Rejected []Rejection `json:"rejected"`
}

// Rejection names a record that was refused, by its index in the request, and
// the field at fault, empty where there is no single one.
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

// Decode reads one record, an object with its kind, its key and whatever else is
// known. The error is an [*record.InvalidError]. Values are of the right type;
// whether they are valid is for [record.Clean] to say.
func Decode(raw []byte) (record.Change, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, invalid(record.CodeMalformed, "", "a record must be a JSON object")
	}
	var kind string
	if err := json.Unmarshal(members["kind"], &kind); err != nil || kind == "" {
		if isNull(members["kind"]) {
			return nil, invalid(record.CodeMissingField, "kind", "is required")
		}
		return nil, invalid(record.CodeUnknownKind, "kind", "must be one of "+kinds)
	}
	c := record.New(record.Kind(kind))
	if c == nil {
		return nil, invalid(record.CodeUnknownKind, "kind", fmt.Sprintf("%.80q is none of %s", kind, kinds))
	}
	delete(members, "kind")
	fields := record.Fields(c.Kind())
	for i := range fields {
		f := &fields[i]
		if !f.Told() {
			continue
		}
		value := members[f.Name]
		delete(members, f.Name)
		if isNull(value) {
			if f.Key {
				return nil, invalid(record.CodeMissingField, f.Name, "is required")
			}
			continue
		}
		if err := decodeField(f, f.In(c), value); err != nil {
			return nil, err
		}
	}
	if len(members) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(members)))
		return nil, invalid(record.CodeUnknownField, shown(name), "is no field of "+kind)
	}
	return c, nil
}

var kinds = func() string {
	names := make([]string, len(record.Kinds))
	for i, k := range record.Kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}()

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func invalid(code record.Code, field, reason string) error {
	return &record.InvalidError{Code: code, Field: field, Reason: reason}
}

// shown bounds a name that a client made up before it is sent back.
func shown(name string) string { return record.Shorten(name, 80) }

func decodeField(f *record.Field, v reflect.Value, raw json.RawMessage) error {
	wrong := func(want string) error { return invalid(record.CodeInvalidValue, f.Name, "must be "+want) }
	switch f.Type {
	case record.Text:
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			if !f.AnyJSON {
				return wrong("a string")
			}
			var b bytes.Buffer
			if err := json.Compact(&b, raw); err != nil {
				return wrong("valid JSON")
			}
			s = b.String()
		}
		set(v, reflect.ValueOf(s))
	case record.Int:
		n, ok := integer(string(raw))
		if !ok {
			return wrong("an integer")
		}
		set(v, reflect.ValueOf(n))
	case record.Float:
		var n float64
		if err := json.Unmarshal(raw, &n); err != nil {
			return wrong("a number")
		}
		set(v, reflect.ValueOf(n))
	case record.Time:
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return wrong("a time such as 2026-11-20T13:53:00.123456Z (RFC 3339)")
		}
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return wrong("a time such as 2026-11-20T13:53:00.123456Z (RFC 3339)")
		}
		set(v, reflect.ValueOf(t))
	case record.Texts:
		var list []*string
		if err := json.Unmarshal(raw, &list); err != nil || slices.Contains(list, nil) {
			return wrong("a list of strings")
		}
		texts := make([]string, len(list))
		for i, s := range list {
			texts[i] = *s
		}
		v.Set(reflect.ValueOf(texts))
	case record.JSON:
		v.SetBytes(bytes.Clone(raw))
	}
	return nil
}

// set gives a field, or what it points to, a value of its kind.
func set(v, value reflect.Value) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	v.Set(value.Convert(v.Type()))
}

// integer reads a JSON number that is whole, however it is written.
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

// Encode writes a change as [Decode] reads it, told fields only.
func Encode(c record.Change) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	fmt.Fprintf(&b, `{"kind":%q`, c.Kind())
	fields := record.Fields(c.Kind())
	for i := range fields {
		f := &fields[i]
		v := f.In(c)
		if !f.Told() || v.IsZero() && !f.Key {
			continue
		}
		fmt.Fprintf(&b, `,%q:`, f.Name)
		if err := enc.Encode(v.Interface()); err != nil {
			return nil, fmt.Errorf("encoding %s of %s: %w", f.Name, c.Kind(), err)
		}
		b.Truncate(b.Len() - 1) // the encoder's newline
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
