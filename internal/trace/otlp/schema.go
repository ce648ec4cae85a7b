package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"

	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// message is a message type of OTLP.
type message struct {
	fields map[uint64]*messageField // by their numbers as protobuf
	isItem bool                     // a span, or a log record
}

// messageField is a field of a message: its names as JSON, and what it holds: one message or a list of them, or else a
// value.
type messageField struct {
	name, snake string // decoders take both
	of          *message
	list        bool
	value       value
}

// member returns the field that has a name as JSON; nil: there is none.
func (m *message) member(name any) *messageField {
	for _, f := range m.fields {
		if name == f.name || name == f.snake {
			return f
		}
	}
	return nil
}

// messages are all types, by their names in the schema of OTLP.
var messages = map[protoreflect.FullName]*message{}

// The types of the bodies.
var (
	traces = messageOf((*tracepb.TracesData)(nil).ProtoReflect().Descriptor())
	logs   = messageOf((*logspb.LogsData)(nil).ProtoReflect().Descriptor())
)

func messageOf(d protoreflect.MessageDescriptor) *message {
	if m := messages[d.FullName()]; m != nil {
		return m
	}

	m := &message{fields: map[uint64]*messageField{}, isItem: d.Name() == "Span" || d.Name() == "LogRecord"}
	messages[d.FullName()] = m
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		out := &messageField{name: f.JSONName(), snake: string(f.Name()), list: f.IsList()}
		switch {
		case f.Message() != nil:
			out.of, out.value = messageOf(f.Message()), value{wire: wireBytes}
		case f.IsList():
			continue // strings of entity references: their faults have no place
		default:
			out.value = valueOf(f)
		}
		m.fields[uint64(f.Number())] = out
	}
	return m
}

// The types of fields on the wire of protobuf.
const (
	wireNumber = 0
	wireFixed8 = 1
	wireBytes  = 2
	wireFixed4 = 5
)

// wireWords says what a field of each type holds.
var wireWords = map[uint64]string{
	wireNumber: "a varint", wireFixed8: "8 bytes of fixed size", wireBytes: "bytes with their length",
	wireFixed4: "4 bytes of fixed size",
}

type value struct {
	wire  uint64
	size  int                  // how many bytes of protobuf an id has, unless it is empty
	must  string               // what it must be as JSON
	valid func(token any) bool // whether a token of JSON is that
}

// values are the types of fields by their kinds.
var values = map[protoreflect.Kind]value{
	protoreflect.StringKind:  {wireBytes, 0, "a string", func(v any) bool { return v == nil || isString(v) }},
	protoreflect.BytesKind:   {wireBytes, 0, "base64", isBase64},
	protoreflect.Fixed64Kind: {wireFixed8, 0, "nanoseconds, as whole digits in a number or a string", isUint(64)},
	protoreflect.Uint32Kind:  {wireNumber, 0, "a whole number from 0 on", isUint(32)},
	protoreflect.Fixed32Kind: {wireFixed4, 0, "a whole number from 0 on", isUint(32)},
	protoreflect.Int32Kind:   {wireNumber, 0, "a whole number", isInt(32)},
	protoreflect.Int64Kind:   {wireNumber, 0, "a whole number, or a string of one", isInt(64)},
	protoreflect.DoubleKind:  {wireFixed8, 0, "a number", isFloat},
	protoreflect.BoolKind:    {wireNumber, 0, "true or false", func(v any) bool { _, ok := v.(bool); return ok }},
}

// exampleNames are names of values by their enumerations.
var exampleNames = map[protoreflect.Name]string{
	"SpanKind": "SPAN_KIND_CLIENT", "StatusCode": "STATUS_CODE_ERROR", "SeverityNumber": "SEVERITY_NUMBER_ERROR",
}

func valueOf(f protoreflect.FieldDescriptor) value {
	switch enum := f.Enum(); {
	case enum != nil:
		return value{wireNumber, 0, "a number, or a name such as " + exampleNames[enum.Name()], isEnum(enum)}
	case f.Name() == "trace_id":
		return value{wireBytes, 16, "32 hex digits", isHex(32)}
	case f.Name() == "span_id", f.Name() == "parent_span_id":
		return value{wireBytes, 8, "16 hex digits", isHex(16)}
	}
	return values[f.Kind()]
}

func isString(v any) bool { _, ok := v.(string); return ok }

// digits returns the digits of a number, or of a string.
func digits(v any) string {
	if n, ok := v.(json.Number); ok {
		return n.String()
	}
	s, _ := v.(string)
	return s
}

func isInt(bits int) func(any) bool {
	return func(v any) bool {
		_, err := strconv.ParseInt(digits(v), 10, bits)
		return err == nil
	}
}

func isUint(bits int) func(any) bool {
	return func(v any) bool {
		_, err := strconv.ParseUint(digits(v), 10, bits)
		return err == nil
	}
}

func isFloat(v any) bool {
	_, err := strconv.ParseFloat(digits(v), 64)
	return err == nil
}

func isHex(digits int) func(any) bool {
	return func(v any) bool {
		s, ok := v.(string)
		_, err := hex.DecodeString(s)
		return ok && err == nil && (s == "" || len(s) == digits)
	}
}

func isBase64(v any) bool {
	s, ok := v.(string)
	_, err := base64.StdEncoding.DecodeString(s)
	return ok && err == nil
}

func isEnum(of protoreflect.EnumDescriptor) func(any) bool {
	number := isInt(32)
	return func(v any) bool {
		s, ok := v.(string)
		return ok && of.Values().ByName(protoreflect.Name(s)) != nil || !ok && number(v)
	}
}
