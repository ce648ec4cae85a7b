package otlp

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"mime"
	"slices"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/loosejson"
	"github.com/actlog/actlog/internal/trace/spans"
	"github.com/actlog/actlog/record"
)

// ErrUnsupported says that a body has a media type other than [TypeProtobuf] and [TypeJSON].
var ErrUnsupported = errors.New("unsupported")

// Batch is the content of a body.
type Batch struct {
	Spans []Span
	// Rejected counts the spans that cannot be kept. Reason says why the first was rejected.
	Rejected int
	Reason   string
	// Ignored counts log records that belong to no span.
	Ignored int
	// Rowless counts what makes no row.
	Rowless Tally
	// Warning says that no span of the body is understood, if they look like an agent's.
	Warning string
}

// DecodeTraces reads the body of an export of traces. It returns an error if the body as a whole
// cannot be read, among them [ErrUnsupported] and [ErrTooLarge], or if it holds another signal.
func DecodeTraces(contentType string, body []byte) (Batch, error) {
	var b Batch
	all, err := unmarshalTraces(contentType, body, bodyLimits)
	if err != nil {
		return b, cmp.Or(Misplaced(Traces, contentType, body), fmt.Errorf("reading traces: %w", err))
	}

	if all.SpanCount() == 0 {
		return b, Misplaced(Traces, contentType, body)
	}
	if all.SpanCount() > MaxSpans {
		return b, errSpans
	}

	b.Spans, b.Rowless = make([]Span, 0, all.SpanCount()), Tally{}
	for _, rs := range all.ResourceSpans().All() {
		var c converter
		resource := c.attributes("resource", rs.Resource().Attributes())
		inResource := c.truncated
		for _, ss := range rs.ScopeSpans().All() {
			c.truncated = slices.Clip(inResource)
			scope := Scope{Name: c.name("scope", ss.Scope().Name()), Version: c.name("scope", ss.Scope().Version())}
			inScope := c.truncated
			for _, s := range ss.Spans().All() {
				c.truncated = slices.Clip(inScope)
				out, reason := c.span(s)
				if reason != "" {
					b.Rejected, b.Reason = b.Rejected+1, cmp.Or(b.Reason, reason)
					b.Rowless.addOther(Rowless{Reason: Rejected, Scope: scope.Name, Kind: otelKind(int32(s.Kind()))}, s.Attributes())
					continue
				}

				out.Scope, out.Resource = scope, resource
				b.Rowless.addSpan(&out)
				b.Spans = append(b.Spans, out)
			}
		}
	}
	b.Warning = b.Rowless.warning(all.SpanCount())
	return b, nil
}

// DecodeLogs reads the body of an export of logs. A record that names a span becomes a stub of this
// span, with the record as its event. A record of a coding agent becomes a span of its own where that is
// needed. The other records are only counted. The errors are those of DecodeTraces.
func DecodeLogs(contentType string, body []byte) (Batch, error) {
	var b Batch
	all, err := unmarshalLogs(contentType, body, bodyLimits)
	if err != nil {
		return b, cmp.Or(Misplaced(Logs, contentType, body), fmt.Errorf("reading logs: %w", err))
	}

	if all.LogRecordCount() == 0 {
		return b, Misplaced(Logs, contentType, body)
	}
	if all.LogRecordCount() > MaxSpans {
		return b, errSpans
	}

	b.Rowless = Tally{}
	for _, rl := range all.ResourceLogs().All() {
		var c converter
		resource := c.attributes("resource", rl.Resource().Attributes())
		inResource := c.truncated
		for _, sl := range rl.ScopeLogs().All() {
			c.truncated = slices.Clip(inResource)
			scope := Scope{Name: c.name("scope", sl.Scope().Name()), Version: c.name("scope", sl.Scope().Version())}
			inScope := c.truncated
			for _, l := range sl.LogRecords().All() {
				c.truncated = slices.Clip(inScope)
				logged, isAgents := c.logged(l, scope, resource)
				namesNone := l.TraceID().IsEmpty() || l.SpanID().IsEmpty()

				switch {
				case logged != nil:
					b.Spans = append(b.Spans, *logged)
				case !namesNone:
					span := c.stub(l)
					span.Resource = resource
					b.Spans = append(b.Spans, span)
				default:
					b.Ignored++
					if !isAgents {
						b.Rowless.addLog(scope.Name, l)
					}
				}
			}
		}
	}
	return b, nil
}

func unmarshalTraces(contentType string, body []byte, bounds limits) (ptrace.Traces, error) {
	return unmarshal(contentType, body, traces, bounds, new(ptrace.ProtoUnmarshaler).UnmarshalTraces,
		new(ptrace.JSONUnmarshaler).UnmarshalTraces)
}

func unmarshalLogs(contentType string, body []byte, bounds limits) (plog.Logs, error) {
	return unmarshal(contentType, body, logs, bounds, new(plog.ProtoUnmarshaler).UnmarshalLogs,
		new(plog.JSONUnmarshaler).UnmarshalLogs)
}

func unmarshal[T any](
	contentType string, body []byte, root *message, bounds limits, proto, json func([]byte) (T, error),
) (all T, err error) {
	decode, fault := proto, faultOfProtobuf
	mediaType, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil || mediaType != TypeProtobuf && mediaType != TypeJSON:
		return all, fmt.Errorf("%w content type %.80q: send %s or %s", ErrUnsupported, contentType, TypeProtobuf, TypeJSON)
	case mediaType == TypeProtobuf:
		err = bounds.checkProtobuf(body, root, 0)
	default:
		err = bounds.checkJSON(body)
		decode, fault = json, faultOfJSON
	}

	if err == nil {
		if all, err = decode(body); err == nil {
			return all, nil
		}
		err = errWire
	}
	if errors.Is(err, errWire) {
		err = fault(body, root)
	}
	return all, err
}

// converter converts the spans of pdata, and records the names of what it shortens or drops.
type converter struct{ truncated []string }

func (c *converter) cut(name string) {
	if len(c.truncated) < 100 && !slices.Contains(c.truncated, name) {
		c.truncated = append(c.truncated, name)
	}
}

// flagRemoteParent is the bit of a span's flags for a parent in another process.
const flagRemoteParent = 0x200

// span returns a span, or the reason to reject it.
func (c *converter) span(s ptrace.Span) (Span, string) {
	traceID, spanID := s.TraceID(), s.SpanID()
	if traceID.IsEmpty() || spanID.IsEmpty() {
		return Span{}, "spans need a trace id and a span id; a body of logs goes to /v1/logs"
	}

	out := Span{
		TraceID: traceID.String(), SpanID: spanID.String(),
		Name: c.name("name", s.Name()), Kind: int32(s.Kind()), Start: nanoseconds(s.StartTimestamp()),
		End:    nanoseconds(s.EndTimestamp()),
		Status: int32(s.Status().Code()), StatusMessage: c.string("status", s.Status().Message()),
		Attributes: c.attributes("attributes", s.Attributes()),
	}
	if parentID := s.ParentSpanID(); !parentID.IsEmpty() && parentID != spanID {
		out.ParentID = parentID.String()
		out.RemoteParent = s.Flags()&flagRemoteParent != 0
	}

	for i, e := range s.Events().All() {
		if i == MaxEvents {
			c.cut("events")
			break
		}
		out.Events = append(out.Events, Event{
			Name: c.name("events", e.Name()), Time: nanoseconds(e.Timestamp()),
			Attributes: c.attributes("events", e.Attributes()),
		})
	}

	for i, l := range s.Links().All() {
		if i == MaxLinks {
			c.cut("links")
			break
		}
		linked, in := l.SpanID(), l.TraceID()
		out.Links = append(out.Links, Link{
			TraceID: hex.EncodeToString(in[:]), SpanID: hex.EncodeToString(linked[:]),
			Attributes: c.attributes("links", l.Attributes()),
		})
	}

	out.Truncated = c.truncated
	return out, ""
}

// stub returns a log record as a stub of its span with one event.
func (c *converter) stub(l plog.LogRecord) Span {
	e := Event{
		Name: c.name("events", l.EventName()), Time: nanoseconds(l.Timestamp()),
		Attributes: c.attributes("events", l.Attributes()),
	}
	if e.Name == "" {
		e.Name = e.Attributes.Get("event.name")
	}
	if e.Time == 0 {
		e.Time = nanoseconds(l.ObservedTimestamp())
	}
	if l.Body().Type() != pcommon.ValueTypeEmpty {
		e.Attributes = spans.Sorted(append(e.Attributes, Attribute{Key: logBody, Value: c.value(logBody, l.Body())}))
	}

	return Span{
		TraceID: l.TraceID().String(), SpanID: l.SpanID().String(), Stub: true, Events: []Event{e}, Truncated: c.truncated,
	}
}

// logged returns the span that a log record becomes. It reports whether the record is one of a coding
// agent: if it is and there is no span, the record is about nothing that has a row.
func (c *converter) logged(l plog.LogRecord, scope Scope, resource Attributes) (s *Span, isAgents bool) {
	names := []string{shortName(l.EventName())}
	if attribute, ok := l.Attributes().Get(eventName); ok {
		names = append(names, shortName(attribute.Str()))
	}
	if l.Body().Type() == pcommon.ValueTypeStr {
		names = append(names, shortName(l.Body().Str()))
	}

	writer, name := writerOf(names, scope.Name, resource.Get("service.name"))
	if writer == nil {
		return nil, false
	}
	namesSpan := !l.TraceID().IsEmpty() && !l.SpanID().IsEmpty()
	if namesSpan && writer.name != "codex" {
		return nil, true // what names spans of the others is read from the events of those
	}

	a := slices.DeleteFunc(c.attributes("attributes", l.Attributes()), func(a Attribute) bool {
		return isRedacted(a.Value.Text)
	})
	kind := writer.kindOf(name, a)
	if kind == ofNothing || a.First(writer.session...) == "" && !namesSpan {
		return nil, true
	}

	s = &Span{
		Logged: true, Name: writer.prefix + name, Scope: scope, Resource: resource, Attributes: a, Truncated: c.truncated,
	}
	s.End = cmp.Or(nanoseconds(l.Timestamp()), timeIn(a.Get("event.timestamp")), nanoseconds(l.ObservedTimestamp()))
	s.Start = s.End - min(s.End, millisecondsIn(a))
	if namesSpan {
		s.TraceID, s.ParentID = l.TraceID().String(), l.SpanID().String()
	}
	writer.identify(s, kind, name, nanoseconds(l.Timestamp()))

	if kind == ofPrompt {
		s.End = 0
	}
	return s, true
}

func shortName(s string) string { return clean(field.Shorten(s, maxExampleBytes)) }

// nanoseconds returns a time, or 0 if it is too large to be one.
func nanoseconds(t pcommon.Timestamp) int64 {
	if uint64(t) > math.MaxInt64 {
		return 0
	}
	return int64(t)
}

// attributes converts the attributes of a field of a span. The field's name is what truncated will
// hold if some are dropped.
func (c *converter) attributes(field string, m pcommon.Map) Attributes {
	if m.Len() == 0 {
		return nil
	}

	out := make(Attributes, 0, min(m.Len(), MaxAttributes))
	for key, v := range m.All() {
		if len(out) == MaxAttributes {
			c.cut(field)
			break
		}
		if v.Type() == pcommon.ValueTypeEmpty {
			continue
		}
		key = c.name(field, key)
		out = append(out, Attribute{Key: key, Value: c.value(key, v)})
	}
	return spans.Sorted(out)
}

// name returns a name or a key, clean and no longer than MaxNameBytes.
func (c *converter) name(field, s string) string { return c.shorten(field, s, MaxNameBytes) }

// string returns a text, clean and no longer than MaxStringBytes. JSON stays JSON.
func (c *converter) string(field, s string) string {
	if len(s) > MaxStringBytes {
		if short, ok := loosejson.Shorten(s, MaxStringBytes); ok {
			c.cut(field)
			s = short
		}
	}
	return c.shorten(field, s, MaxStringBytes)
}

func (c *converter) shorten(where, s string, maxBytes int) string {
	if len(s) > maxBytes {
		s = field.Shorten(s, maxBytes)
		c.cut(where)
	}
	return clean(s)
}

func (c *converter) value(key string, v pcommon.Value) Value {
	out := scalar(v)
	if t := v.Type(); t == pcommon.ValueTypeSlice || t == pcommon.ValueTypeMap {
		b := c.appendValue(nil, key, v, 0)
		if len(b) <= MaxStringBytes {
			return Value{Type: JSON, Text: string(b)}
		}
		if short, ok := loosejson.Shorten(string(b), MaxStringBytes); ok {
			c.cut(key)
			return Value{Type: JSON, Text: short}
		}
		out.Text = string(b) // once it is cut it is no longer JSON
	}

	if out.Type == String {
		out.Text = c.string(key, out.Text)
		if _, ok := wholeMessages(out.Text); ok { // an SDK cut it
			c.cut(key)
		}
	}
	return out
}

// scalar returns a value that is not structured. Its text may have to be cleaned.
func scalar(v pcommon.Value) Value {
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return Value{Type: Number, Text: strconv.FormatInt(v.Int(), 10)}
	case pcommon.ValueTypeDouble:
		b, err := json.Marshal(v.Double())
		if err != nil { // JSON has no NaN and no infinities
			return Value{Text: fmt.Sprint(v.Double())}
		}
		return Value{Type: Number, Text: string(b)}
	case pcommon.ValueTypeBool:
		return Value{Type: Bool, Text: strconv.FormatBool(v.Bool())}
	case pcommon.ValueTypeBytes:
		return Value{Text: base64.StdEncoding.EncodeToString(v.Bytes().AsRaw())}
	case pcommon.ValueTypeEmpty:
		return Value{Type: JSON, Text: "null"}
	}
	return Value{Text: v.Str()}
}

// appendValue writes a value as JSON, down to the depth that records allow.
func (c *converter) appendValue(b []byte, key string, v pcommon.Value, depth int) []byte {
	if depth >= record.MaxJSONDepth-2 {
		c.cut(key)
		return append(b, "null"...)
	}

	switch v.Type() {
	case pcommon.ValueTypeMap:
		b = append(b, '{')
		for name, inner := range v.Map().All() {
			b = c.appendValue(appendName(b, clean(name)), key, inner, depth+1)
		}
		return append(b, '}')
	case pcommon.ValueTypeSlice:
		b = append(b, '[')
		for _, inner := range v.Slice().All() {
			b = c.appendValue(comma(b), key, inner, depth+1)
		}
		return append(b, ']')
	}

	out := scalar(v)
	out.Text = clean(out.Text)
	return out.Append(b)
}
