package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
)

// message is a message type of OTLP.
type message uint8

const (
	leaf message = iota // none
	traces
	logs
	resourceSpans
	resourceLogs
	resource
	scopeSpans
	scopeLogs
	scope
	span
	spanStatus
	logRecord
	event
	link
	keyValue
	anyValue
	array
	keyValues
	messages // how many there are
)

// messageField is a field of a message: its number as protobuf, its name as JSON, and what it holds:
// one message or a list of them, or else a value.
type messageField struct {
	number uint64
	name   string
	of     message
	list   bool
	value  value
}

func one(number uint64, name string, m message) messageField {
	return messageField{number: number, name: name, of: m, value: value{wire: wireBytes}}
}

func listOf(number uint64, name string, m message) messageField {
	return messageField{number: number, name: name, of: m, list: true, value: value{wire: wireBytes}}
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

// value is a type of values.
type value struct {
	wire  uint64
	size  int                  // how many bytes of protobuf an id has, unless it is empty
	must  string               // what it must be as JSON
	valid func(token any) bool // whether a token of JSON is that
}

var (
	texts    = value{wireBytes, 0, "a string", func(v any) bool { return v == nil || isString(v) }}
	traceIDs = value{wireBytes, 16, "32 hex digits", isHex(32)}
	spanIDs  = value{wireBytes, 8, "16 hex digits", isHex(16)}
	times    = value{wireFixed8, 0, "nanoseconds, as whole digits in a number or a string", isUint(64)}
	counts   = value{wireNumber, 0, "a whole number from 0 on", isUint(32)}
	flags    = value{wireFixed4, 0, "a whole number from 0 on", isUint(32)}
	indexes  = value{wireNumber, 0, "a whole number", isInt(32)}
	integers = value{wireNumber, 0, "a whole number, or a string of one", isInt(64)}
	doubles  = value{wireFixed8, 0, "a number", isFloat}
	bools    = value{wireNumber, 0, "true or false", func(v any) bool { _, ok := v.(bool); return ok }}
	blobs    = value{wireBytes, 0, "base64", isBase64}
	kinds    = value{
		wireNumber, 0, "a number, or a name such as SPAN_KIND_CLIENT",
		isEnum("SPAN_KIND_", "UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"),
	}
	statuses = value{
		wireNumber, 0, "a number, or a name such as STATUS_CODE_ERROR", isEnum("STATUS_CODE_", "UNSET", "OK", "ERROR"),
	}
	severity = value{wireNumber, 0, "a number, or a name such as SEVERITY_NUMBER_ERROR", isSeverity}
)

// schema has the fields of all messages.
var schema = [messages][]messageField{
	traces: {listOf(1, "resourceSpans", resourceSpans)},
	logs:   {listOf(1, "resourceLogs", resourceLogs)},
	resourceSpans: {
		one(1, "resource", resource), listOf(2, "scopeSpans", scopeSpans), {number: 3, name: "schemaUrl", value: texts},
	},
	resourceLogs: {
		one(1, "resource", resource), listOf(2, "scopeLogs", scopeLogs), {number: 3, name: "schemaUrl", value: texts},
	},
	resource:   {listOf(1, "attributes", keyValue), {number: 2, name: "droppedAttributesCount", value: counts}},
	scopeSpans: {one(1, "scope", scope), listOf(2, "spans", span), {number: 3, name: "schemaUrl", value: texts}},
	scopeLogs:  {one(1, "scope", scope), listOf(2, "logRecords", logRecord), {number: 3, name: "schemaUrl", value: texts}},
	scope: {
		{number: 1, name: "name", value: texts}, {number: 2, name: "version", value: texts},
		listOf(3, "attributes", keyValue),
		{number: 4, name: "droppedAttributesCount", value: counts},
	},
	span: {
		{number: 1, name: "traceId", value: traceIDs}, {number: 2, name: "spanId", value: spanIDs},
		{number: 3, name: "traceState", value: texts},
		{number: 4, name: "parentSpanId", value: spanIDs}, {number: 5, name: "name", value: texts},
		{number: 6, name: "kind", value: kinds},
		{number: 7, name: "startTimeUnixNano", value: times}, {number: 8, name: "endTimeUnixNano", value: times},
		listOf(9, "attributes", keyValue), {number: 10, name: "droppedAttributesCount", value: counts},
		listOf(11, "events", event), {number: 12, name: "droppedEventsCount", value: counts},
		listOf(13, "links", link), {number: 14, name: "droppedLinksCount", value: counts},
		one(15, "status", spanStatus), {number: 16, name: "flags", value: flags},
	},
	spanStatus: {{number: 2, name: "message", value: texts}, {number: 3, name: "code", value: statuses}},
	logRecord: {
		{number: 1, name: "timeUnixNano", value: times}, {number: 2, name: "severityNumber", value: severity},
		{number: 3, name: "severityText", value: texts},
		one(5, "body", anyValue), listOf(6, "attributes", keyValue), {
			number: 7, name: "droppedAttributesCount", value: counts,
		},
		{number: 8, name: "flags", value: flags}, {number: 9, name: "traceId", value: traceIDs},
		{number: 10, name: "spanId", value: spanIDs},
		{number: 11, name: "observedTimeUnixNano", value: times}, {number: 12, name: "eventName", value: texts},
	},
	event: {
		{number: 1, name: "timeUnixNano", value: times}, {number: 2, name: "name", value: texts},
		listOf(3, "attributes", keyValue),
		{number: 4, name: "droppedAttributesCount", value: counts},
	},
	link: {
		{number: 1, name: "traceId", value: traceIDs}, {number: 2, name: "spanId", value: spanIDs},
		{number: 3, name: "traceState", value: texts},
		listOf(4, "attributes", keyValue), {number: 5, name: "droppedAttributesCount", value: counts},
		{number: 6, name: "flags", value: flags},
	},
	keyValue: {
		{number: 1, name: "key", value: texts}, one(2, "value", anyValue), {number: 3, name: "keyStrindex", value: indexes},
	},
	anyValue: {
		{number: 1, name: "stringValue", value: texts}, {number: 2, name: "boolValue", value: bools},
		{number: 3, name: "intValue", value: integers},
		{number: 4, name: "doubleValue", value: doubles}, one(5, "arrayValue", array), one(6, "kvlistValue", keyValues),
		{number: 7, name: "bytesValue", value: blobs}, {number: 8, name: "stringValueStrindex", value: indexes},
	},
	array:     {listOf(1, "values", anyValue)},
	keyValues: {listOf(1, "values", keyValue)},
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

func isEnum(prefix string, names ...string) func(any) bool {
	number := isInt(32)
	return func(v any) bool {
		s, ok := v.(string)
		if !ok {
			return number(v)
		}
		for _, name := range names {
			if s == prefix+name {
				return true
			}
		}
		return false
	}
}

// severities are the names of severities, of which there are four each.
var severities = []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}

var isSeverity = isEnum("SEVERITY_NUMBER_", func() []string {
	names := []string{"UNSPECIFIED"}
	for _, s := range severities {
		names = append(names, s, s+"2", s+"3", s+"4")
	}
	return names
}()...)

// snake returns a name of JSON as it is in protobuf, which decoders take as well.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
