package otlp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/actlog/actlog/record"
)

// Limits of what is taken in. A body over MaxSpans or maxParts is refused before
// memory is spent on it; all else is cut, and [Span.Truncated] says so.
const (
	// MaxSpans bounds the spans, or log records, of a body.
	MaxSpans = 20_000
	// MaxAttributes bounds the attributes of a span, an event, a resource.
	MaxAttributes = 4_096
	// MaxEvents bounds the events of a span, MaxLinks its links.
	MaxEvents = 1_024
	MaxLinks  = 128
	// MaxStringBytes bounds the text of a value; MaxNameBytes a key and a name.
	MaxStringBytes = record.MaxTextBytes
	MaxNameBytes   = 1_024
	// maxParts bounds the messages of the format, or objects of its JSON, in a
	// body: the smallest take two bytes on the wire and a hundred in memory.
	maxParts = 2_000_000
	// maxNesting bounds how deep those nest: the decoders recurse. Values are cut
	// long before.
	maxNesting = 2_000
)

// ErrTooLarge says that a body holds more than is taken in at once.
var ErrTooLarge = errors.New("too large")

var (
	errNesting = fmt.Errorf("the body nests deeper than %d levels", maxNesting)
	errParts   = fmt.Errorf("%w: the body consists of over %d parts", ErrTooLarge, maxParts)
	errSpans   = fmt.Errorf("%w: the body holds over %d spans or log records", ErrTooLarge, MaxSpans)
	errWire    = errors.New("the body is no protobuf")
)

// message names a type of the format's messages that may hold others.
type message uint8

const (
	leaf message = iota
	traces
	logs
	resourceSpans
	resourceLogs
	resource
	scopeSpans
	scopeLogs
	scope
	span
	logRecord
	event
	link
	keyValue
	anyValue
	array
	keyValues
)

// holds is which fields of which messages are messages.
var holds = [...]map[uint64]message{
	leaf:          nil,
	traces:        {1: resourceSpans},
	logs:          {1: resourceLogs},
	resourceSpans: {1: resource, 2: scopeSpans},
	resourceLogs:  {1: resource, 2: scopeLogs},
	resource:      {1: keyValue},
	scopeSpans:    {1: scope, 2: span},
	scopeLogs:     {1: scope, 2: logRecord},
	scope:         {3: keyValue},
	span:          {9: keyValue, 11: event, 13: link},
	logRecord:     {5: anyValue, 6: keyValue},
	event:         {3: keyValue},
	link:          {4: keyValue},
	keyValue:      {2: anyValue},
	anyValue:      {5: array, 6: keyValues},
	array:         {1: anyValue},
	keyValues:     {1: keyValue},
}

// checkWire walks a protobuf body and holds it to the limits that must be known
// before it is decoded.
func checkWire(body []byte, root message, of limits) error {
	w := wire{left: of}
	return w.walk(body, root, 0)
}

// limits are how many of something there may be.
type limits struct{ parts, spans int }

// ofBody are those of a body that someone sends.
var ofBody = limits{maxParts, MaxSpans}

type wire struct{ left limits }

func (w *wire) walk(b []byte, m message, depth int) error {
	if w.left.parts--; w.left.parts < 0 {
		return errParts
	}
	if m == span || m == logRecord {
		if w.left.spans--; w.left.spans < 0 {
			return errSpans
		}
	}
	if depth > maxNesting {
		return errNesting
	}
	fields := holds[m]
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return errWire
		}
		b = b[n:]
		var size uint64
		switch tag & 7 {
		case 0:
			if _, n = binary.Uvarint(b); n <= 0 {
				return errWire
			}
			size = uint64(n)
		case 1:
			size = 8
		case 5:
			size = 4
		case 2:
			if size, n = binary.Uvarint(b); n <= 0 || size > uint64(len(b)-n) {
				return errWire
			}
			b = b[n:]
			if inner := fields[tag>>3]; inner != leaf {
				if err := w.walk(b[:size], inner, depth+1); err != nil {
					return err
				}
			}
		default:
			return errWire
		}
		if size > uint64(len(b)) {
			return errWire
		}
		b = b[size:]
	}
	return nil
}

// checkJSON does the same for a JSON body. Spans are counted when it is decoded:
// their objects bound them here.
func checkJSON(body []byte, of limits) error {
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
			if of.parts--; of.parts < 0 {
				return errParts
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
