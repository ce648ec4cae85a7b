package otlp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"mime"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/actlog/actlog/record"
)

// The media types of a body.
const (
	TypeProtobuf = "application/x-protobuf"
	TypeJSON     = "application/json"
)

// Signal is what an exporter tells of.
type Signal string

// The signals. Nothing is kept of metrics.
const (
	Traces  Signal = "traces"
	Logs    Signal = "logs"
	Metrics Signal = "metrics"
)

// Signals are all that there are.
var Signals = []Signal{Traces, Logs, Metrics}

// Path is where exporters send a signal over HTTP.
func (s Signal) Path() string { return "/v1/" + string(s) }

var errLogs = errors.New("the body holds logs, not traces: send it to /v1/logs")

// ErrUnsupported says that a body is of a media type that is not read here.
var ErrUnsupported = errors.New("unsupported")

// Batch is what a body holds.
type Batch struct {
	Spans []Span
	// Rejected counts the spans that cannot be kept, Reason says why.
	Rejected int
	Reason   string
	// Ignored counts log records that belong to no span.
	Ignored int
}

func (b *Batch) reject(reason string) {
	b.Rejected++
	if b.Reason == "" {
		b.Reason = reason
	}
}

// DecodeTraces reads the body of an export of traces. The error says why it
// cannot be read as a whole; it is [ErrUnsupported] or [ErrTooLarge] where it is
// for that.
func DecodeTraces(contentType string, body []byte) (Batch, error) {
	var b Batch
	all, err := unmarshal(contentType, body, traces, ofBody, new(ptrace.ProtoUnmarshaler).UnmarshalTraces, new(ptrace.JSONUnmarshaler).UnmarshalTraces)
	if err != nil {
		if isProtobuf(contentType) && holdsLogs(body) {
			return b, errLogs
		}
		return b, fmt.Errorf("reading traces: %w", err)
	}
	if all.SpanCount() == 0 && !isProtobuf(contentType) && bytes.Contains(body, []byte(`"resourceLogs"`)) {
		return b, errLogs
	}
	if all.SpanCount() > MaxSpans {
		return b, errSpans
	}
	b.Spans = make([]Span, 0, all.SpanCount())
	for _, rs := range all.ResourceSpans().All() {
		var of converter
		resource := of.attributes("resource", rs.Resource().Attributes())
		ofResource := of.truncated
		for _, ss := range rs.ScopeSpans().All() {
			scope := Scope{Name: of.name("scope", ss.Scope().Name()), Version: of.name("scope", ss.Scope().Version())}
			for _, s := range ss.Spans().All() {
				of.truncated = ofResource[:len(ofResource):len(ofResource)]
				out, reason := of.span(s)
				if reason != "" {
					b.reject(reason)
					continue
				}
				out.Scope, out.Resource = scope, resource
				b.Spans = append(b.Spans, out)
			}
		}
	}
	return b, nil
}

// DecodeLogs reads the body of an export of logs: records that name a span are
// stubs of it, which hold the record as an event. The others are only counted.
func DecodeLogs(contentType string, body []byte) (Batch, error) {
	var b Batch
	all, err := unmarshal(contentType, body, logs, ofBody, new(plog.ProtoUnmarshaler).UnmarshalLogs, new(plog.JSONUnmarshaler).UnmarshalLogs)
	if err != nil {
		return b, fmt.Errorf("reading logs: %w", err)
	}
	if all.LogRecordCount() > MaxSpans {
		return b, errSpans
	}
	for _, rl := range all.ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, l := range sl.LogRecords().All() {
				if l.TraceID().IsEmpty() || l.SpanID().IsEmpty() {
					b.Ignored++
					continue
				}
				b.Spans = append(b.Spans, stub(l))
			}
		}
	}
	return b, nil
}

func unmarshal[T any](contentType string, body []byte, root message, of limits, proto, json func([]byte) (T, error)) (all T, err error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil || mediaType != TypeProtobuf && mediaType != TypeJSON:
		return all, fmt.Errorf("%w content type %.80q: send %s or %s", ErrUnsupported, contentType, TypeProtobuf, TypeJSON)
	case mediaType == TypeProtobuf:
		if err := checkWire(body, root, of); err != nil {
			return all, err
		}
		return proto(body)
	}
	if err := checkJSON(body, of); err != nil {
		return all, err
	}
	return json(body)
}

func isProtobuf(contentType string) bool { return strings.HasPrefix(contentType, TypeProtobuf) }

// holdsLogs tells whether a body that holds no traces holds logs: their numbers
// are the same down to the span.
func holdsLogs(body []byte) bool {
	all, err := unmarshal(TypeProtobuf, body, logs, ofBody, new(plog.ProtoUnmarshaler).UnmarshalLogs, nil)
	return err == nil && all.LogRecordCount() > 0
}

// converter makes our spans of pdata's, and notes what it had to cut.
type converter struct{ truncated []string }

func (c *converter) cut(name string) {
	if len(c.truncated) < 100 {
		c.truncated = append(c.truncated, name)
	}
}

// The bits of a span's flags that tell where its parent is.
const parentIsRemote = 0x200

func (c *converter) span(s ptrace.Span) (Span, string) {
	traceID, spanID, parentID := s.TraceID(), s.SpanID(), s.ParentSpanID()
	if traceID.IsEmpty() || spanID.IsEmpty() {
		return Span{}, "spans need a trace id and a span id; a body of logs goes to /v1/logs"
	}
	out := Span{
		TraceID: hex.EncodeToString(traceID[:]), SpanID: hex.EncodeToString(spanID[:]),
		Name: c.name("name", s.Name()), Kind: int32(s.Kind()), Start: nanoseconds(s.StartTimestamp()), End: nanoseconds(s.EndTimestamp()),
		Status: int32(s.Status().Code()), StatusMessage: c.string("status", s.Status().Message()),
		Attributes: c.attributes("attributes", s.Attributes()),
	}
	if !parentID.IsEmpty() && parentID != spanID {
		out.ParentID = hex.EncodeToString(parentID[:])
		out.RemoteParent = s.Flags()&parentIsRemote != 0
	}
	for i, e := range s.Events().All() {
		if i == MaxEvents {
			c.cut("events")
			break
		}
		out.Events = append(out.Events, Event{Name: c.name("events", e.Name()), Time: nanoseconds(e.Timestamp()), Attributes: c.attributes("events", e.Attributes())})
	}
	for i, l := range s.Links().All() {
		if i == MaxLinks {
			c.cut("links")
			break
		}
		linked, in := l.SpanID(), l.TraceID()
		out.Links = append(out.Links, Link{TraceID: hex.EncodeToString(in[:]), SpanID: hex.EncodeToString(linked[:]), Attributes: c.attributes("links", l.Attributes())})
	}
	if len(c.truncated) > 0 {
		out.Truncated = c.truncated
	}
	return out, ""
}

// stub makes of a log record what its span can take from it.
func stub(l plog.LogRecord) Span {
	var c converter
	traceID, spanID := l.TraceID(), l.SpanID()
	e := Event{Name: c.name("events", l.EventName()), Time: nanoseconds(l.Timestamp()), Attributes: c.attributes("events", l.Attributes())}
	if e.Name == "" {
		e.Name = e.Attributes.Get("event.name")
	}
	if e.Time == 0 {
		e.Time = nanoseconds(l.ObservedTimestamp())
	}
	if l.Body().Type() != pcommon.ValueTypeEmpty {
		e.Attributes = sorted(append(e.Attributes, Attribute{logBody, c.value(logBody, l.Body())}))
	}
	return Span{TraceID: hex.EncodeToString(traceID[:]), SpanID: hex.EncodeToString(spanID[:]), Stub: true, Events: []Event{e}, Truncated: c.truncated}
}

// logBody is the attribute that holds the body of a log record.
const logBody = "log.body"

// nanoseconds gives a time, or 0 where none can be meant.
func nanoseconds(t pcommon.Timestamp) int64 {
	if uint64(t) > math.MaxInt64 {
		return 0
	}
	return int64(t)
}

func (c *converter) attributes(of string, m pcommon.Map) Attributes {
	if m.Len() == 0 {
		return nil
	}
	out := make(Attributes, 0, min(m.Len(), MaxAttributes))
	for key, v := range m.All() {
		if len(out) == MaxAttributes {
			c.cut(of)
			break
		}
		if v.Type() == pcommon.ValueTypeEmpty {
			continue
		}
		key = c.name(of, key)
		out = append(out, Attribute{key, c.value(key, v)})
	}
	return sorted(out)
}

// name gives a name or a key, short and clean.
func (c *converter) name(of, s string) string {
	if len(s) > MaxNameBytes {
		s = record.Shorten(s, MaxNameBytes)
		c.cut(of)
	}
	return clean(s)
}

func (c *converter) string(of, s string) string {
	if len(s) > MaxStringBytes {
		s = record.Shorten(s, MaxStringBytes)
		c.cut(of)
	}
	return clean(s)
}

func (c *converter) value(key string, v pcommon.Value) Value {
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return integer(v.Int())
	case pcommon.ValueTypeDouble:
		return number(v.Double())
	case pcommon.ValueTypeBool:
		return Value{Bool, strconv.FormatBool(v.Bool())}
	case pcommon.ValueTypeBytes:
		return Value{Text: c.string(key, binaryText(v.Bytes().AsRaw()))}
	case pcommon.ValueTypeSlice, pcommon.ValueTypeMap:
		b := c.appendValue(nil, key, v, 0)
		if len(b) > MaxStringBytes { // cut, it is no JSON any more
			return Value{Text: c.string(key, string(b))}
		}
		return Value{JSON, string(b)}
	}
	return Value{Text: c.string(key, v.Str())}
}

// appendValue writes a structured value as JSON, as far down as records may nest.
func (c *converter) appendValue(b []byte, of string, v pcommon.Value, depth int) []byte {
	if depth >= record.MaxJSONDepth-2 {
		c.cut(of)
		return append(b, "null"...)
	}
	switch v.Type() {
	case pcommon.ValueTypeMap:
		b = append(b, '{')
		for key, inner := range v.Map().All() {
			if b[len(b)-1] != '{' {
				b = append(b, ',')
			}
			b = append(appendString(b, clean(key)), ':')
			b = c.appendValue(b, of, inner, depth+1)
		}
		return append(b, '}')
	case pcommon.ValueTypeSlice:
		b = append(b, '[')
		for i, inner := range v.Slice().All() {
			if i > 0 {
				b = append(b, ',')
			}
			b = c.appendValue(b, of, inner, depth+1)
		}
		return append(b, ']')
	case pcommon.ValueTypeInt:
		return strconv.AppendInt(b, v.Int(), 10)
	case pcommon.ValueTypeDouble:
		return number(v.Double()).append(b)
	case pcommon.ValueTypeBool:
		return strconv.AppendBool(b, v.Bool())
	case pcommon.ValueTypeBytes:
		return appendString(b, binaryText(v.Bytes().AsRaw()))
	case pcommon.ValueTypeEmpty:
		return append(b, "null"...)
	}
	return appendString(b, clean(v.Str()))
}
