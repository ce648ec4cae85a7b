package otlp

import (
	"fmt"
	"slices"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Part is a protobuf body with a part of an export. Bodies of one signal can be concatenated into
// one body.
type Part struct {
	Signal Signal
	Body   []byte
	Count  int // spans or log records
}

// Cut cuts an export of any size, such as a file, into parts. Each part has at most maxCount spans
// or log records, and at most about maxBytes unless it has only one. Metrics have no parts. Cut
// returns an error if the export cannot be read.
func Cut(contentType string, body []byte, maxBytes, maxCount int) ([]Part, error) {
	unbounded := limits{parts: 1 << 40, spans: 1 << 40} // the body is in memory already
	signal := Traces
	spans, err := unmarshalTraces(contentType, body, unbounded)
	marshal := func() ([]byte, error) { return new(ptrace.ProtoMarshaler).MarshalTraces(spans) }

	if err != nil || spans.SpanCount() == 0 {
		records, logsErr := unmarshalLogs(contentType, body, unbounded)
		switch {
		case logsErr == nil && records.LogRecordCount() > 0:
		case err != nil:
			return nil, fmt.Errorf("reading traces: %w", err)
		default:
			return nil, nil
		}
		signal = Logs
		marshal = func() ([]byte, error) { return new(plog.ProtoMarshaler).MarshalLogs(records) }
	}

	if !isProtobuf(contentType) {
		if body, err = marshal(); err != nil {
			return nil, fmt.Errorf("writing %s: %w", signal, err)
		}
	}
	return cut(signal, body, maxBytes, maxCount), nil
}

// cut cuts a valid protobuf body by field numbers, which are the same for spans and log records.
func cut(signal Signal, body []byte, maxBytes, maxCount int) (parts []Part) {
	const (
		resources = 1 // of the export
		scopes    = 2 // of a resource
		items     = 2 // of a scope
	)
	next := Part{Signal: signal}

	_, inBody := split(body, resources)
	for _, resource := range inBody {
		aboutResource, inResource := split(content(resource), scopes)
		for _, scope := range inResource {
			aboutScope, rest := split(content(scope), items)
			for len(rest) > 0 {
				n, size := 0, len(next.Body)
				for n < len(rest) && next.Count+n < maxCount && (next.Count+n == 0 || size+len(rest[n]) <= maxBytes) {
					size += len(rest[n])
					n++
				}
				if n == 0 {
					parts, next = append(parts, next), Part{Signal: signal}
					continue
				}

				some := appendField(slices.Clip(aboutResource), scopes, slices.Concat(aboutScope, slices.Concat(rest[:n]...)))
				next.Body, next.Count = appendField(next.Body, resources, some), next.Count+n
				rest = rest[n:]
			}
		}
	}
	return append(parts, next)
}

// split returns the fields of a message with a number, each with its tag, and the others
// concatenated.
func split(message []byte, number uint64) (others []byte, found [][]byte) {
	for {
		tag, _, rest, ok := nextField(message)
		if !ok {
			return others, found
		}

		field := message[:len(message)-len(rest)]
		if tag == number<<3|2 {
			found = append(found, field)
		} else {
			others = append(others, field...)
		}
		message = rest
	}
}

// content returns the message in a field.
func content(field []byte) []byte {
	_, content, _, _ := nextField(field)
	return content
}
