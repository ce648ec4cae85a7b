package otlp_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// protobufField is a field of protobuf with its number, its type on the wire and its content.
func protobufField(number, wire uint64, content ...byte) string {
	b := binary.AppendUvarint(nil, number<<3|wire)
	if wire == 2 {
		b = binary.AppendUvarint(b, uint64(len(content)))
	}
	return string(append(b, content...))
}

// TestFaults (N26) expects the place and the mistake in the error of a body that cannot be read, and
// no words of the decoders.
func TestFaults(t *testing.T) {
	t.Parallel()
	inSpan := func(members string) string {
		return `{"resourceSpans":[{},{"scopeSpans":[{"spans":[{"name":"a"},{"name":"b",` + members + `}]}]}]}`
	}

	const place = "resourceSpans[1].scopeSpans[0].spans[1]."
	message := func(number uint64, content string) string { return protobufField(number, 2, []byte(content)...) }
	protobufSpan := func(span string) string { return message(1, message(2, message(2, span))) }

	for name, tt := range map[string]struct {
		signal     otlp.Signal
		isProtobuf bool
		body       string
		want       string
	}{
		"an empty body": {otlp.Traces, false, "", "cut off: it ends at byte 0"},
		"half a body":   {otlp.Traces, false, `{"resourceSpans":[{"scopeSpans":`, "cut off: it ends at byte 32"},
		"no JSON":       {otlp.Traces, false, `{"resourceSpans":[}`, "the body is not JSON at byte 19"},
		"another list":  {otlp.Traces, false, `[]`, "the body must be an object"},
		"a text":        {otlp.Logs, false, `"logs"`, "the body must be an object"},
		"no list":       {otlp.Traces, false, `{"resourceSpans":{}}`, "resourceSpans must be a list"},
		"an element":    {otlp.Traces, false, `{"resourceSpans":[{},1]}`, "resourceSpans[1] must be an object"},
		"a trace id":    {otlp.Traces, false, inSpan(`"traceId":"abc"`), place + "traceId must be 32 hex digits"},
		"a trace id that is none": {
			otlp.Traces, false, inSpan(`"trace_id":"` + strings.Repeat("z", 32) + `"`), place + "traceId must be 32 hex digits",
		},
		"a span id": {otlp.Traces, false, inSpan(`"spanId":7`), place + "spanId must be 16 hex digits"},
		"a name":    {otlp.Traces, false, inSpan(`"name":7`), place + "name must be a string"},
		"a time": {
			otlp.Traces, false, inSpan(`"startTimeUnixNano":"2026-11-20T13:00:00Z"`),
			place + "startTimeUnixNano must be nanoseconds",
		},
		"a time with an exponent": {
			otlp.Traces, false, inSpan(`"endTimeUnixNano":"1.7e18"`), place + "endTimeUnixNano must be nanoseconds",
		},
		"a negative time": {
			otlp.Traces, false, inSpan(`"endTimeUnixNano":-1`), place + "endTimeUnixNano must be nanoseconds",
		},
		"a kind": {
			otlp.Traces, false, inSpan(`"kind":"CLIENT"`), place + "kind must be a number, or a name such as SPAN_KIND_CLIENT",
		},
		"a status": {
			otlp.Traces, false, inSpan(`"status":{"code":"ERROR"}`),
			place + "status.code must be a number, or a name such as STATUS_CODE_ERROR",
		},
		"a status that is a text": {otlp.Traces, false, inSpan(`"status":"OK"`), place + "status must be an object"},
		"attributes as an object": {otlp.Traces, false, inSpan(`"attributes":{"a":1}`), place + "attributes must be a list"},
		"a key": {
			otlp.Traces, false, inSpan(`"attributes":[{"key":1}]`), place + "attributes[0].key must be a string",
		},
		"a plain value": {
			otlp.Traces, false, inSpan(`"attributes":[{"key":"a","value":"b"}]`),
			place + "attributes[0].value must be an object",
		},
		"a string value": {
			otlp.Traces, false, inSpan(`"attributes":[{"key":"a","value":{"stringValue":1}}]`),
			place + "attributes[0].value.stringValue must be a string",
		},
		"an int value": {
			otlp.Traces, false, inSpan(`"attributes":[{"key":"a","value":{"intValue":"x"}}]`),
			place + "attributes[0].value.intValue must be a whole number",
		},
		"a bool value": {
			otlp.Traces, false, inSpan(`"attributes":[{"key":"a","value":{"boolValue":"true"}}]`),
			place + "attributes[0].value.boolValue must be true or false",
		},
		"a double value": {
			otlp.Traces, false, inSpan(`"attributes":[{"key":"a","value":{"doubleValue":true}}]`),
			place + "attributes[0].value.doubleValue must be a number",
		},
		"a bytes value": {
			otlp.Traces, false, inSpan(`"attributes":[{"key":"a","value":{"bytesValue":"%"}}]`),
			place + "attributes[0].value.bytesValue must be base64",
		},
		"a value in a list": {
			otlp.Traces, false, inSpan(
				`"events":[{"attributes":[{"key":"a","value":{"arrayValue":{"values":[{},{"intValue":[]}]}}}]}]`,
			), place + "events[0].attributes[0].value.arrayValue.values[1].intValue must be",
		},
		"a link": {
			otlp.Traces, false, inSpan(`"links":[{"traceId":1}]`), place + "links[0].traceId must be 32 hex digits",
		},
		"a count": {
			otlp.Traces, false, inSpan(`"droppedEventsCount":-1`), place + "droppedEventsCount must be a whole number",
		},
		"behind what is not known": {
			otlp.Traces, false, inSpan(`"new":{"a":[1,{"b":2}]},"flags":"many"`), place + "flags must be a whole number",
		},
		"a severity": {
			otlp.Logs, false, `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":"bad"}]}]}]}`,
			"resourceLogs[0].scopeLogs[0].logRecords[0].severityNumber must be a number",
		},
		"a body of logs": {
			otlp.Logs, false, `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":"text"}]}]}]}`,
			"resourceLogs[0].scopeLogs[0].logRecords[0].body must be an object",
		},

		"JSON as protobuf": {otlp.Traces, true, `{}`, "the body is not valid protobuf"},
		"text as protobuf": {otlp.Logs, true, `hello`, "the body is not valid protobuf"},
		"half a protobuf":  {otlp.Traces, true, protobufSpan(message(5, "name"))[:8], "the body is not valid protobuf"},
		"a damaged span": {
			otlp.Traces, true, protobufSpan("\x2a\x09name"),
			"resourceSpans[0].scopeSpans[0].spans[0] is not valid protobuf: it is damaged or cut off",
		},
		"a field without number": {
			otlp.Traces, true, protobufSpan("\x00\x01"), "resourceSpans[0].scopeSpans[0].spans[0] is not valid protobuf",
		},
		"a short trace id": {
			otlp.Traces, true, protobufSpan(message(1, "abc")),
			"resourceSpans[0].scopeSpans[0].spans[0].traceId must have 16 bytes, not 3",
		},
		"a long span id": {
			otlp.Logs, true, protobufSpan(message(10, "0123456789")),
			"resourceLogs[0].scopeLogs[0].logRecords[0].spanId must have 8 bytes, not 10",
		},
		"a name that is a number": {otlp.Traces, true, message(1, "") + protobufSpan(protobufField(5, 0, 1)),
			"resourceSpans[1].scopeSpans[0].spans[0].name must be bytes with their length"},
		"a time of another size": {
			otlp.Traces, true, protobufSpan(protobufField(8, 0, 1)), "spans[0].endTimeUnixNano must be 8 bytes of fixed size",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contentType := otlp.TypeJSON
			if tt.isProtobuf {
				contentType = otlp.TypeProtobuf
			}
			decode := otlp.DecodeTraces
			if tt.signal == otlp.Logs {
				decode = otlp.DecodeLogs
			}

			_, err := decode(contentType, []byte(tt.body))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("decode(contentType, []byte(tt.body)) = %v, want %s", err, tt.want)
			}
			for _, word := range []string{
				"proto:", "pdata", "Read", "wireType", "Unmarshal", "iter", "error found in", "EOF", "json:",
			} {
				if strings.Contains(err.Error(), word) {
					t.Errorf("%q in %q", word, err)
				}
			}
		})
	}
}

// TestADeepFaultTakesLittle: finding a mistake behind many elements of a deep list takes time by
// the body, not by its depth as well.
func TestADeepFaultTakesLittle(t *testing.T) { // not parallel: the allocations of all tests are counted
	message := func(number uint64, content string) string { return protobufField(number, 2, []byte(content)...) }
	deep := strings.Repeat(message(1, ""), 300_000) + "\x07" // a tag of no type
	for range 900 {
		deep = message(5, message(1, deep))
	}
	body := []byte(message(1, message(2, message(2, message(9, message(2, deep))))))

	allocated := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := otlp.DecodeTraces(otlp.TypeProtobuf, body); err == nil ||
				!strings.Contains(err.Error(), "is not valid protobuf") {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()

	if allocated > 100<<20 {
		t.Errorf("%d MiB", allocated>>20)
	}
}
