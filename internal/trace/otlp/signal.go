package otlp

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// The media types of a body.
const (
	TypeProtobuf = "application/x-protobuf"
	TypeJSON     = "application/json"
)

// Signal is a kind of telemetry that exporters send.
type Signal string

// The signals. Metrics are accepted and dropped.
const (
	Traces  Signal = "traces"
	Logs    Signal = "logs"
	Metrics Signal = "metrics"
)

// Signals lists all signals.
var Signals = []Signal{Traces, Logs, Metrics}

// Path is where exporters send a signal over HTTP.
func (s Signal) Path() string { return "/v1/" + string(s) }

func isProtobuf(contentType string) bool { return strings.HasPrefix(contentType, TypeProtobuf) }

// Misplaced returns an error that says where to send a body, if it clearly holds another signal than
// own. The beginning of a body is enough. It checks nothing else: the error is nil for a body that
// cannot be read.
func Misplaced(own Signal, contentType string, body []byte) error {
	held := jsonSignal(body, own)
	if isProtobuf(contentType) {
		held = protobufSignal(body, own)
	}
	if held == "" || held == own {
		return nil
	}
	return fmt.Errorf("the body holds %s, not %s: send it to %s", held, own, held.Path())
}

// signalMembers are the members of a JSON body that hold its items.
var signalMembers = map[string]Signal{
	"resourceSpans": Traces, "resource_spans": Traces,
	"resourceLogs": Logs, "resource_logs": Logs,
	"resourceMetrics": Metrics, "resource_metrics": Metrics,
}

// jsonSignal returns another signal than own that a JSON body has a member for, or "".
func jsonSignal(body []byte, own Signal) Signal {
	d := json.NewDecoder(bytes.NewReader(body))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return ""
	}

	for {
		name, err := d.Token()
		if err != nil {
			return ""
		}
		key, _ := name.(string)
		if held := signalMembers[key]; held != "" && held != own {
			return held
		}
		if d.Decode(new(json.RawMessage)) != nil {
			return ""
		}
	}
}

// protobufSignal returns the signal of the first item of a protobuf body that shows one, or "". All
// signals have the same field numbers down to their items.
func protobufSignal(body []byte, own Signal) (held Signal) {
	const resources = 1
	const scopes, items = 2, 2
	eachMessage(body, resources, func(resource []byte) bool {
		return eachMessage(resource, scopes, func(scope []byte) bool {
			return eachMessage(scope, items, func(item []byte) bool {
				held = itemSignal(item, own)
				return held == ""
			})
		})
	})
	return held
}

// eachMessage calls f for each field of a message with a number, until f returns false, and reports
// whether it never did.
func eachMessage(message []byte, number uint64, f func([]byte) bool) bool {
	for tag, content := range beginningFields(message) {
		if tag == number<<3|2 && !f(content) {
			return false
		}
	}
	return true
}

// beginningFields iterates over the tags and contents of the fields at the beginning of a message. The
// last one may be cut off.
func beginningFields(message []byte) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		for len(message) > 0 {
			tag, content, rest, ok := nextField(message)
			if !ok {
				tag, content = cutField(message)
			}
			if tag == 0 || !yield(tag, content) {
				return
			}
			message = rest
		}
	}
}

// cutField returns what there is of a field that is cut off. The tag is 0 if there is no content.
func cutField(b []byte) (tag uint64, content []byte) {
	tag, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil
	}

	content = b[n:]
	if tag&7 == 2 {
		_, size := binary.Uvarint(content)
		content = content[max(size, 0):]
	}
	if len(content) == 0 {
		return 0, nil
	}
	return tag, content
}

// itemSignal returns the signal of a span, a log record or a metric, by fields of one number that have
// different types in them, or "".
func itemSignal(item []byte, own Signal) Signal {
	const ( // how a field is encoded
		varint, fixed64 = 0, 1
		text, absent    = 2, 8
	)

	var is [16]uint64
	var contents [16][]byte
	for i := range is {
		is[i] = absent
	}
	for tag, content := range beginningFields(item) {
		if number := tag >> 3; number < uint64(len(is)) {
			is[number], contents[number] = tag&7, content
		}
	}

	hasIDs := is[1] == text && len(contents[1]) == 16 && is[2] == text && len(contents[2]) == 8
	hasKindOrTime := is[6] == varint || is[7] == fixed64 || is[8] == fixed64
	switch {
	case hasIDs && hasKindOrTime:
		return Traces
	case is[1] == fixed64 || is[11] == fixed64 || is[2] == varint: // a time, or a severity
		return Logs
	case own == Traces && is[1] == absent && is[5] == text && isValue(contents[5]) && !hasKindOrTime:
		// a body; spans have an id
		return Logs
	case is[1] == text && !hasKindOrTime &&
		(is[5] == text || is[7] == text || is[9] == text || is[10] == text || is[11] == text):
		// a name and data
		return Metrics
	}
	return ""
}

// isValue reports whether the content of a field looks like a value of an attribute or a log record,
// by its first tag, and not like a name. Exporters write empty values, but no empty names.
func isValue(content []byte) bool {
	return len(content) == 0 || bytes.IndexByte([]byte{1<<3 | 2, 2 << 3, 3 << 3, 4<<3 | 1, 5<<3 | 2, 6<<3 | 2, 7<<3 | 2},
		content[0]) >= 0
}
