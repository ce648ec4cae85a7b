package otlp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/actlog/actlog/record"
)

// Limits of what is accepted. A body over MaxSpans or maxParts is refused before memory is spent on
// it. Everything else is shortened or dropped, and [Span.Truncated] names it.
const (
	// MaxSpans bounds the spans, or log records, of a body.
	MaxSpans = 20_000
	// MaxAttributes bounds the attributes of a span, an event or a resource.
	MaxAttributes = 4_096
	// MaxEvents bounds the events of a span, MaxLinks its links.
	MaxEvents = 1_024
	MaxLinks  = 128
	// MaxStringBytes bounds the text of a value, MaxNameBytes a key or a name.
	MaxStringBytes = record.MaxTextBytes
	MaxNameBytes   = 1_024
	// maxParts bounds the protobuf messages, or JSON objects and arrays, in a body: the smallest
	// takes two bytes of the body and a hundred in memory.
	maxParts = 2_000_000
	// maxNesting bounds how deep those nest, because the decoders recurse. Values are cut at a
	// much smaller depth.
	maxNesting = 2_000
)

// ErrTooLarge says that a body holds more than is accepted at once.
var ErrTooLarge = errors.New("too large")

var (
	errNesting = fmt.Errorf("the body nests deeper than %d levels", maxNesting)
	errParts   = fmt.Errorf("%w: the body consists of over %d parts", ErrTooLarge, maxParts)
	errSpans   = fmt.Errorf("%w: the body holds over %d spans or log records", ErrTooLarge, MaxSpans)
	errWire    = errors.New("the body is not valid protobuf")
)

// limits bound how many parts and spans a body may hold.
type limits struct{ parts, spans int }

var bodyLimits = limits{maxParts, MaxSpans}

// checkProtobuf walks a protobuf message, and enforces the limits that must hold before it is decoded.
// It subtracts what the message holds from the limits.
func (left *limits) checkProtobuf(b []byte, m *message, depth int) error {
	if left.parts--; left.parts < 0 {
		return errParts
	}
	if m.isItem {
		if left.spans--; left.spans < 0 {
			return errSpans
		}
	}
	if depth > maxNesting {
		return errNesting
	}

	for len(b) > 0 {
		tag, content, rest, ok := nextField(b)
		if !ok {
			return errWire
		}

		if tag&7 == 2 {
			if f := m.fields[tag>>3]; f != nil && f.of != nil {
				if err := left.checkProtobuf(content, f.of, depth+1); err != nil {
					return err
				}
			}
		}
		b = rest
	}
	return nil
}

// nextField takes the first field off a protobuf message.
func nextField(b []byte) (tag uint64, content, rest []byte, ok bool) {
	tag, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, nil, false
	}

	rest = b[n:]
	size := uint64(0)
	switch tag & 7 {
	case 0:
		_, n = binary.Uvarint(rest)
		size = uint64(n)
	case 1:
		size = 8
	case 5:
		size = 4
	case 2:
		size, n = binary.Uvarint(rest)
		rest = rest[max(n, 0):]
	default:
		n = 0
	}

	if n <= 0 || size > uint64(len(rest)) {
		return 0, nil, nil, false
	}
	return tag, rest[:size], rest[size:], true
}

// appendField writes a field that holds a message or a text.
func appendField(b []byte, number uint64, content []byte) []byte {
	b = binary.AppendUvarint(b, number<<3|2)
	b = binary.AppendUvarint(b, uint64(len(content)))
	return append(b, content...)
}

// checkJSON enforces the same limits on a JSON body, but does not count spans: the limit on objects
// bounds them until they are decoded.
func (left *limits) checkJSON(body []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxNesting {
				return errNesting
			}
			if left.parts--; left.parts < 0 {
				return errParts
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
