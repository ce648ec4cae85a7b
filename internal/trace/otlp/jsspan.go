package otlp

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// jsSpan is a span as OpenTelemetry's SDK for JavaScript has it in memory. Programs that write their
// telemetry to a file, such as GitHub Copilot CLI, write its JSON. The versions of the SDK name some
// members differently.
type jsSpan struct {
	Type               string
	TraceID            string
	SpanID             string
	ID                 string
	SpanContext        *jsContext
	OwnContext         *jsContext `json:"_spanContext"`
	ParentSpanID       string
	ParentID           string
	ParentSpanContext  *jsContext
	Name               string
	Kind               json.RawMessage
	StartTime, EndTime json.RawMessage
	Attributes         map[string]any
	Status             struct {
		Code    json.RawMessage
		Message string
	}
	Events []struct {
		Name       string
		Time       json.RawMessage
		Attributes map[string]any
	}
	Links []struct {
		Context    jsContext
		Attributes map[string]any
	}
	Resource struct {
		Attributes map[string]any
		Raw        [][]any `json:"_rawAttributes"`
	}
	InstrumentationScope, InstrumentationLibrary Scope
}

type jsContext struct {
	TraceID, SpanID string
	IsRemote        bool
}

// lineOfJS matches each line that is telemetry of that SDK, and few others. Only what matches is parsed.
var lineOfJS = regexp.MustCompile(`^\{.*("traceId"|(?i)spanContext"|"type"\s*:\s*"(span|metric)")`)

// SpanOfJS reads a line of a file: a span of the SDK for JavaScript, as a part of an export. It reports
// whether the line is telemetry of that SDK. The part of its metrics is empty.
func SpanOfJS(line []byte) (part Part, isJS bool, err error) {
	var head struct {
		Type        string
		Kind        json.RawMessage
		TraceID     string
		SpanContext json.RawMessage
		OwnContext  json.RawMessage `json:"_spanContext"`
		StartTime   json.RawMessage
	}
	if !lineOfJS.Match(line) || json.Unmarshal(line, &head) != nil && head.Type == "" {
		return Part{}, false, nil
	}

	hasContext := head.TraceID != "" || len(head.SpanContext) > 0 || len(head.OwnContext) > 0
	switch isRecord := bytes.HasPrefix(head.Kind, []byte(`"`)) && head.Type == ""; {
	case head.Type == "metric":
		return Part{Signal: Metrics}, true, nil
	case head.Type != "span" && (head.Type != "" || isRecord || !hasContext || len(head.StartTime) == 0):
		return Part{}, false, nil
	}

	var s jsSpan
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&s); err != nil {
		return Part{}, true, fmt.Errorf("reading a span: %w", err)
	}

	all := ptrace.NewTraces()
	if err := s.writeTo(all); err != nil {
		return Part{}, true, fmt.Errorf("reading a span: %w", err)
	}
	body, err := new(ptrace.ProtoMarshaler).MarshalTraces(all)
	if err != nil {
		return Part{}, true, fmt.Errorf("writing a span: %w", err)
	}
	return Part{Signal: Traces, Body: body, Count: 1}, true, nil
}

func (s *jsSpan) writeTo(all ptrace.Traces) error {
	rs := all.ResourceSpans().AppendEmpty()
	putAll(rs.Resource().Attributes(), s.Resource.Attributes)
	for _, pair := range s.Resource.Raw {
		if len(pair) != 2 {
			continue
		}
		if key, ok := pair[0].(string); ok {
			putAll(rs.Resource().Attributes(), map[string]any{key: pair[1]})
		}
	}

	ss := rs.ScopeSpans().AppendEmpty()
	for _, scope := range []Scope{s.InstrumentationLibrary, s.InstrumentationScope} {
		if scope.Name != "" {
			ss.Scope().SetName(scope.Name)
			ss.Scope().SetVersion(scope.Version)
		}
	}

	out := ss.Spans().AppendEmpty()
	traceID, spanID := s.TraceID, s.SpanID
	if spanID == "" {
		spanID = s.ID
	}
	for _, c := range []*jsContext{s.SpanContext, s.OwnContext} {
		if c != nil {
			traceID, spanID = c.TraceID, c.SpanID
		}
	}

	var trace [16]byte
	var own [8]byte
	if !readID(trace[:], traceID) {
		return errors.New("traceId must be 32 hex digits")
	}
	if !readID(own[:], spanID) {
		return errors.New("spanId must be 16 hex digits")
	}

	out.SetTraceID(trace)
	out.SetSpanID(own)
	s.setParent(out)

	out.SetName(s.Name)
	out.SetKind(ptrace.SpanKind(jsEnum(s.Kind, "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")))
	out.Status().SetCode(ptrace.StatusCode(max(0, jsEnum(s.Status.Code, "UNSET", "OK", "ERROR")-1)))
	out.Status().SetMessage(s.Status.Message)
	putAll(out.Attributes(), s.Attributes)

	start, err := jsTime("startTime", s.StartTime)
	if err != nil {
		return err
	}
	end, err := jsTime("endTime", s.EndTime)
	if err != nil {
		return err
	}
	out.SetStartTimestamp(start)
	out.SetEndTimestamp(end)

	for _, in := range s.Events {
		at, err := jsTime("time of an event", in.Time)
		if err != nil {
			return err
		}

		e := out.Events().AppendEmpty()
		e.SetName(in.Name)
		e.SetTimestamp(at)
		putAll(e.Attributes(), in.Attributes)
	}
	for _, in := range s.Links {
		var to [8]byte
		if readID(trace[:], in.Context.TraceID) && readID(to[:], in.Context.SpanID) {
			l := out.Links().AppendEmpty()
			l.SetTraceID(trace)
			l.SetSpanID(to)
			putAll(l.Attributes(), in.Attributes)
		}
	}
	return nil
}

func (s *jsSpan) setParent(out ptrace.Span) {
	parentID := s.ParentSpanID
	if parentID == "" {
		parentID = s.ParentID
	}
	if c := s.ParentSpanContext; c != nil {
		parentID = c.SpanID
		if c.IsRemote {
			out.SetFlags(flagRemoteParent)
		}
	}

	var parent [8]byte
	if readID(parent[:], parentID) {
		out.SetParentSpanID(parent)
	}
}

// readID reads an id of hex digits, and reports whether it is one.
func readID(to []byte, s string) bool {
	s = strings.ToLower(s)
	if !validID(s, 2*len(to)) {
		return false
	}
	_, err := hex.Decode(to, []byte(s))
	return err == nil
}

// jsEnum returns the place of a value among names, from 1, or 0 if it has none. The value is a name, or
// its place from 0.
func jsEnum(v json.RawMessage, names ...string) int {
	if i, err := strconv.Atoi(string(v)); err == nil && i >= 0 && i < len(names) {
		return i + 1
	}
	name := strings.ToUpper(text(string(v)))
	return 1 + slices.IndexFunc(names, func(n string) bool { return name == n || strings.HasSuffix(name, "_"+n) })
}

// jsTime reads a time: [seconds, nanoseconds], a number of milliseconds, or a text.
func jsTime(name string, v json.RawMessage) (pcommon.Timestamp, error) {
	bad := fmt.Errorf("%s must be [seconds, nanoseconds]", name)
	switch {
	case len(v) == 0 || string(v) == "null":
		return 0, nil
	case v[0] == '"':
		t, err := time.Parse(time.RFC3339Nano, text(string(v)))
		if err != nil {
			return 0, bad
		}
		return pcommon.NewTimestampFromTime(t), nil
	case v[0] != '[':
		ms, err := strconv.ParseFloat(string(v), 64)
		if err != nil || !(ms >= 0 && ms < 1e13) {
			return 0, bad
		}
		return pcommon.Timestamp(ms * 1e6), nil
	}

	var parts []float64
	if json.Unmarshal(v, &parts) != nil || len(parts) != 2 || !(parts[0] >= 0 && parts[0] < 1e10) ||
		!(parts[1] >= 0 && parts[1] < 1e10) {
		return 0, bad
	}

	seconds, rest := math.Modf(parts[0])
	return pcommon.Timestamp(uint64(seconds)*uint64(time.Second) + uint64(rest*1e9) + uint64(parts[1])), nil
}

func putAll(to pcommon.Map, from map[string]any) {
	for key, value := range from {
		if value != nil {
			putValue(to.PutEmpty(key), value)
		}
	}
}

func putValue(to pcommon.Value, v any) {
	switch v := v.(type) {
	case string:
		to.SetStr(v)
	case bool:
		to.SetBool(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			to.SetInt(n)
		} else if f, err := v.Float64(); err == nil {
			to.SetDouble(f)
		} else {
			to.SetStr(v.String())
		}
	case []any:
		list := to.SetEmptySlice()
		for _, e := range v {
			putValue(list.AppendEmpty(), e)
		}
	case map[string]any:
		m := to.SetEmptyMap()
		for key, e := range v {
			putValue(m.PutEmpty(key), e)
		}
	}
}
