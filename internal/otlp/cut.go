package otlp

import (
	"encoding/binary"
	"fmt"
	"slices"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Part is a protobuf body with some of an export. Bodies of one signal that are
// joined end to end are a body.
type Part struct {
	Signal Signal
	Body   []byte
	Count  int // spans or log records
}

// Cut makes parts of an export of any size, such as files hold: each has at most
// maxCount spans or log records, and, if more than one, at most about maxBytes of
// them. Of metrics there are none. The error says why the export cannot be read.
func Cut(contentType string, body []byte, maxBytes, maxCount int) ([]Part, error) {
	all := limits{parts: 1 << 40, spans: 1 << 40} // it is here already
	spans, err := unmarshal(contentType, body, traces, all, new(ptrace.ProtoUnmarshaler).UnmarshalTraces, new(ptrace.JSONUnmarshaler).UnmarshalTraces)
	if err == nil && spans.SpanCount() > 0 {
		if !isProtobuf(contentType) {
			if body, err = new(ptrace.ProtoMarshaler).MarshalTraces(spans); err != nil {
				return nil, fmt.Errorf("writing traces: %w", err)
			}
		}
		return cut(Traces, body, maxBytes, maxCount), nil
	}
	records, errOfLogs := unmarshal(contentType, body, logs, all, new(plog.ProtoUnmarshaler).UnmarshalLogs, new(plog.JSONUnmarshaler).UnmarshalLogs)
	if errOfLogs == nil && records.LogRecordCount() > 0 {
		if !isProtobuf(contentType) {
			if body, err = new(plog.ProtoMarshaler).MarshalLogs(records); err != nil {
				return nil, fmt.Errorf("writing logs: %w", err)
			}
		}
		return cut(Logs, body, maxBytes, maxCount), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading traces: %w", err)
	}
	return nil, nil
}

// cut cuts a protobuf body that is known to be whole. It goes by numbers of fields,
// which are the same for spans and log records.
func cut(signal Signal, body []byte, maxBytes, maxCount int) (parts []Part) {
	const resources, scopes, items = 1, 2, 2
	next := Part{Signal: signal}
	_, ofResources := split(body, resources)
	for _, resource := range ofResources {
		aboutResource, ofScopes := split(content(resource), scopes)
		for _, scope := range ofScopes {
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

// split gives the fields of a message that have a number, each in whole, and the
// others as they stand.
func split(message []byte, number uint64) (others []byte, found [][]byte) {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		size := n
		switch tag & 7 {
		case 0:
			_, m := binary.Uvarint(message[n:])
			size += m
		case 1:
			size += 8
		case 5:
			size += 4
		case 2:
			length, m := binary.Uvarint(message[n:])
			size += m + int(length)
		}
		if tag == number<<3|2 {
			found = append(found, message[:size])
		} else {
			others = append(others, message[:size]...)
		}
		message = message[size:]
	}
	return others, found
}

// content gives the message in a field.
func content(field []byte) []byte {
	_, n := binary.Uvarint(field)
	_, m := binary.Uvarint(field[n:])
	return field[n+m:]
}

func appendField(b []byte, number uint64, message []byte) []byte {
	b = binary.AppendUvarint(b, number<<3|2)
	b = binary.AppendUvarint(b, uint64(len(message)))
	return append(b, message...)
}
