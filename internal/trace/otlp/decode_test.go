package otlp_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// oneSpan returns a body with one span, in both encodings.
func oneSpan(t testing.TB, set func(ptrace.Span)) (proto, js []byte) {
	t.Helper()
	all := ptrace.NewTraces()
	s := all.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID([16]byte{1})
	s.SetSpanID([8]byte{2})
	set(s)

	proto, err := new(ptrace.ProtoMarshaler).MarshalTraces(all)
	if err != nil {
		t.Fatal(err)
	}
	if js, err = new(ptrace.JSONMarshaler).MarshalTraces(all); err != nil {
		t.Fatal(err)
	}
	return proto, js
}

func decodeOne(t testing.TB, set func(ptrace.Span)) otlp.Span {
	t.Helper()
	body, _ := oneSpan(t, set)
	batch, err := otlp.DecodeTraces(otlp.TypeProtobuf, body)
	if err != nil || len(batch.Spans) != 1 {
		t.Fatalf("otlp.DecodeTraces(otlp.TypeProtobuf, body) = %v %+v", err, batch)
	}
	return batch.Spans[0]
}

func TestDecodeKeepsEveryField(t *testing.T) {
	t.Parallel()
	proto, js := oneSpan(t, func(s ptrace.Span) {
		s.SetParentSpanID([8]byte{3})
		s.SetFlags(0x301)
		s.SetName("n <&> \u2028")
		s.SetKind(ptrace.SpanKindClient)
		s.SetStartTimestamp(5)
		s.SetEndTimestamp(pcommon.Timestamp(1) << 63)
		s.Status().SetCode(ptrace.StatusCodeError)
		s.Status().SetMessage("m")

		a := s.Attributes()
		a.PutStr("string", `{"a": "<"}`)
		a.PutInt("int", -1<<63)
		a.PutDouble("double", 1.5e300)
		a.PutBool("bool", true)
		a.PutEmptyBytes("bytes").FromRaw([]byte{0, 255})
		a.PutEmpty("empty")

		m := a.PutEmptyMap("map")
		m.PutStr("<z>", "\"\\\n\u2028é")
		m.PutEmptySlice("list").AppendEmpty().SetInt(1)
		m.PutEmpty("nil")

		e := s.Events().AppendEmpty()
		e.SetName("exception")
		e.SetTimestamp(6)
		e.Attributes().PutStr("exception.type", "T")

		l := s.Links().AppendEmpty()
		l.SetTraceID([16]byte{7})
		l.SetSpanID([8]byte{8})
	})

	want := otlp.Span{
		TraceID: "01" + strings.Repeat("0", 30), SpanID: "02" + strings.Repeat("0", 14),
		ParentID: "03" + strings.Repeat("0", 14), RemoteParent: true,
		Name: "n <&> \u2028", Kind: 3, Start: 5, Status: 2, StatusMessage: "m",
		Attributes: otlp.Attributes{
			{Key: "bool", Value: otlp.Value{Type: otlp.Bool, Text: "true"}},
			{Key: "bytes", Value: otlp.Value{Type: otlp.String, Text: "AP8="}}, {
				Key: "double", Value: otlp.Value{Type: otlp.Number, Text: "1.5e+300"},
			},
			{Key: "int", Value: otlp.Value{Type: otlp.Number, Text: "-9223372036854775808"}}, {
				Key: "map", Value: otlp.Value{Type: otlp.JSON, Text: `{"<z>":"\"\\\n` + "\u2028" + `é","list":[1],"nil":null}`},
			},
			{Key: "string", Value: otlp.Value{Type: otlp.String, Text: `{"a": "<"}`}},
		},
		Events: []otlp.Event{
			{Name: "exception", Time: 6, Attributes: otlp.Attributes{{Key: "exception.type", Value: otlp.Value{Text: "T"}}}},
		},
		Links: []otlp.Link{{TraceID: "07" + strings.Repeat("0", 30), SpanID: "08" + strings.Repeat("0", 14)}},
	}

	for contentType, body := range map[string][]byte{otlp.TypeProtobuf: proto, "application/json; charset=utf-8": js} {
		batch, err := otlp.DecodeTraces(contentType, body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]otlp.Span{want}, batch.Spans); diff != "" {
			t.Errorf("contentType = %s (-want +got):\n%s", contentType, diff)
		}
		if diff := cmp.Diff(batch.Spans, kept(t, batch.Spans)); diff != "" {
			t.Errorf("%s (-decoded +stored):\n%s", contentType, diff)
		}
	}
}

func TestInvalidTextIsReplacedAndLongTextIsCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", otlp.MaxStringBytes/2) + "-cut"
	got := decodeOne(t, func(s ptrace.Span) {
		s.SetName("a\x00b\xff" + strings.Repeat("n", otlp.MaxNameBytes))
		s.Status().SetMessage("\x00")
		a := s.Attributes()
		a.PutStr("long", long)
		a.PutStr("bad\x00", "\xff")

		m := a.PutEmptyMap("map")
		m.PutStr("\x00", "\xff\x00")
		for range 200 {
			m = m.PutEmptyMap("deeper")
		}

		for i := range otlp.MaxEvents + 1 {
			s.Events().AppendEmpty().SetName(string(rune('a' + i%26)))
		}
		for range otlp.MaxLinks + 1 {
			s.Links().AppendEmpty()
		}
	})

	if !strings.HasPrefix(got.Name, "a\uFFFDb\uFFFDnn") || got.StatusMessage != "\uFFFD" ||
		got.Attributes.Get("bad\uFFFD") != "\uFFFD" {
		t.Errorf("got.Name = %.20q %q %.80v", got.Name, got.StatusMessage, got.Attributes)
	}
	if s := got.Attributes.Get("long"); s != strings.TrimSuffix(long, "-cut") {
		t.Errorf("%d bytes of a long text", len(s))
	}
	if s := got.Attributes.Get("map"); !json.Valid([]byte(s)) || !utf8.ValidString(s) ||
		strings.Count(s, "deeper") >= record.MaxJSONDepth {
		t.Errorf("map %.200s", s)
	}

	if len(got.Events) != otlp.MaxEvents || len(got.Links) != otlp.MaxLinks {
		t.Errorf("%d events, %d links", len(got.Events), len(got.Links))
	}
	if diff := cmp.Diff([]string{"name", "long", "map", "events", "links"}, got.Truncated); diff != "" {
		t.Errorf("truncated:\n%s", diff)
	}

	many := decodeOne(t, func(s ptrace.Span) {
		for i := range otlp.MaxAttributes + 1 {
			s.Attributes().PutInt(strings.Repeat("k", i%100)+string(rune(i)), 1)
		}
	})
	if len(many.Attributes) > otlp.MaxAttributes || !slices.Contains(many.Truncated, "attributes") {
		t.Errorf("%d attributes, truncated %q", len(many.Attributes), many.Truncated)
	}
}

// TestNamesOfScopesThatWereCut checks that each span, and each log record that becomes a span, says that the name of
// its scope was cut, and no other does.
func TestNamesOfScopesThatWereCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("s", otlp.MaxNameBytes+1)
	spans, records := ptrace.NewTraces(), plog.NewLogs()
	resourceSpans, resourceLogs := spans.ResourceSpans().AppendEmpty(), records.ResourceLogs().AppendEmpty()
	for i, name := range []string{"short", long, "short"} {
		inScope := resourceSpans.ScopeSpans().AppendEmpty()
		inScope.Scope().SetName(name)
		logs := resourceLogs.ScopeLogs().AppendEmpty()
		logs.Scope().SetName("com.anthropic.claude_code.events")
		logs.Scope().SetVersion(name)
		for j := range 2 {
			s := inScope.Spans().AppendEmpty()
			s.SetTraceID([16]byte{1})
			s.SetSpanID([8]byte{1, byte(i), byte(j)})

			l := logs.LogRecords().AppendEmpty()
			l.SetTimestamp(pcommon.Timestamp(1 + 2*i + j))
			l.Body().SetStr("claude_code.user_prompt")
			l.Attributes().PutStr("event.name", "user_prompt")
			l.Attributes().PutStr("session.id", "s")
			l.Attributes().PutStr("prompt", "Hi")
		}
	}

	proto, err := new(ptrace.ProtoMarshaler).MarshalTraces(spans)
	if err != nil {
		t.Fatal(err)
	}
	ofSpans, err := otlp.DecodeTraces(otlp.TypeProtobuf, proto)
	if err != nil {
		t.Fatal(err)
	}

	if proto, err = new(plog.ProtoMarshaler).MarshalLogs(records); err != nil {
		t.Fatal(err)
	}
	ofLogs, err := otlp.DecodeLogs(otlp.TypeProtobuf, proto)
	if err != nil {
		t.Fatal(err)
	}

	for signal, batch := range map[string]otlp.Batch{"spans": ofSpans, "logs": ofLogs} {
		var got []string
		for i := range batch.Spans {
			got = append(got, strings.Join(batch.Spans[i].Truncated, " "))
		}
		if diff := cmp.Diff([]string{"", "", "scope", "scope", "", ""}, got); diff != "" {
			t.Errorf("signal = %s (-want +got):\n%s", signal, diff)
		}
	}
}

func TestRowsNameWhatWasCut(t *testing.T) {
	t.Parallel()
	s := decodeOne(t, func(s ptrace.Span) {
		s.SetStartTimestamp(1)
		s.Attributes().PutStr("gen_ai.operation.name", "chat")
		s.Attributes().PutStr("gen_ai.input.messages", strings.Repeat("x", otlp.MaxStringBytes+1))
	})

	for _, c := range project(t, []otlp.Span{s}) {
		if cycle, ok := c.(*record.ThinkAct); ok &&
			string(cycle.Metadata) != `{"truncatedAttributes":["gen_ai.input.messages"]}` {
			t.Errorf("metadata %s", cycle.Metadata)
		}
	}
}

func TestSpansWithoutIDsAreRejected(t *testing.T) {
	t.Parallel()
	all := ptrace.NewTraces()
	spans := all.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	spans.AppendEmpty()
	spans.AppendEmpty().SetTraceID([16]byte{1})
	spans.AppendEmpty().SetSpanID([8]byte{1})

	good := spans.AppendEmpty()
	good.SetTraceID([16]byte{1})
	good.SetSpanID([8]byte{1})
	good.SetParentSpanID([8]byte{1}) // its own parent: a root

	body, err := new(ptrace.ProtoMarshaler).MarshalTraces(all)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := otlp.DecodeTraces(otlp.TypeProtobuf, body)
	if err != nil || batch.Rejected != 3 || len(batch.Spans) != 1 || !strings.Contains(batch.Reason, "trace id") ||
		batch.Spans[0].ParentID != "" {
		t.Errorf("otlp.DecodeTraces(otlp.TypeProtobuf, body) = %v %+v", err, batch)
	}
}

func someLogs() plog.Logs {
	all := plog.NewLogs()
	records := all.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()

	l := records.AppendEmpty()
	l.SetTraceID([16]byte{1})
	l.SetSpanID([8]byte{2})
	l.SetEventName("gen_ai.choice")
	l.SetTimestamp(9)
	l.Attributes().PutStr("gen_ai.system", "openai")
	l.Body().SetEmptyMap().PutStr("content", "hi")

	older := records.AppendEmpty()
	older.SetTraceID([16]byte{1})
	older.SetSpanID([8]byte{2})
	older.SetObservedTimestamp(8)
	older.Attributes().PutStr("event.name", "gen_ai.user.message")
	records.AppendEmpty().Body().SetStr("a line of a log")
	return all
}

// TestNamesOfWhatIsCutAroundLogs checks that a log record that becomes a stub has the names of what was dropped from
// its resource and from its scope.
func TestNamesOfWhatIsCutAroundLogs(t *testing.T) {
	t.Parallel()
	logs := someLogs()
	resource := logs.ResourceLogs().At(0)
	resource.Resource().Attributes().PutStr(strings.Repeat("k", otlp.MaxNameBytes+1), "v")
	resource.ScopeLogs().At(0).Scope().SetName(strings.Repeat("s", otlp.MaxNameBytes+1))

	body, err := new(plog.ProtoMarshaler).MarshalLogs(logs)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := otlp.DecodeLogs(otlp.TypeProtobuf, body)
	if err != nil || len(batch.Spans) != 2 {
		t.Fatalf("%d spans, %v", len(batch.Spans), err)
	}

	for _, s := range batch.Spans {
		if diff := cmp.Diff([]string{"resource", "scope"}, s.Truncated); diff != "" {
			t.Errorf("what is cut (-want +got):\n%s", diff)
		}
	}
}

func TestLogRecordsBecomeEvents(t *testing.T) {
	t.Parallel()
	proto, err := new(plog.ProtoMarshaler).MarshalLogs(someLogs())
	if err != nil {
		t.Fatal(err)
	}
	js, err := new(plog.JSONMarshaler).MarshalLogs(someLogs())
	if err != nil {
		t.Fatal(err)
	}

	stub := func(e otlp.Event) otlp.Span {
		return otlp.Span{
			TraceID: "01" + strings.Repeat("0", 30), SpanID: "02" + strings.Repeat("0", 14), Stub: true, Events: []otlp.Event{e},
		}
	}
	want := otlp.Batch{Ignored: 1, Rowless: otlp.Tally{{Reason: otlp.NoSpan}: {Count: 1}}, Spans: []otlp.Span{
		stub(otlp.Event{
			Name: "gen_ai.choice", Time: 9, Attributes: otlp.Attributes{
				{Key: "gen_ai.system", Value: otlp.Value{Text: "openai"}}, {
					Key: "log.body", Value: otlp.Value{Type: otlp.JSON, Text: `{"content":"hi"}`},
				},
			},
		}),
		stub(otlp.Event{
			Name: "gen_ai.user.message", Time: 8, Attributes: otlp.Attributes{
				{Key: "event.name", Value: otlp.Value{Text: "gen_ai.user.message"}},
			},
		}),
	}}

	for contentType, body := range map[string][]byte{otlp.TypeProtobuf: proto, otlp.TypeJSON: js} {
		got, err := otlp.DecodeLogs(contentType, body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("contentType = %s (-want +got):\n%s", contentType, diff)
		}
		if _, err := otlp.DecodeTraces(contentType, body); err == nil || !strings.Contains(err.Error(), "/v1/logs") {
			t.Errorf("%s as traces: %v", contentType, err)
		}
	}
}

// nested returns a protobuf body with a value that nests to a depth.
func nested(depth int) []byte {
	wrap := func(field byte, b []byte) []byte {
		return append(binary.AppendUvarint([]byte{field<<3 | 2}, uint64(len(b))), b...)
	}

	inner := []byte{}
	for range depth {
		inner = wrap(5, wrap(1, inner)) // an array with a value
	}
	b := wrap(2, inner)
	for _, field := range []byte{9, 2, 2, 1} { // attribute, span, scope, resource
		b = wrap(field, b)
	}
	return b
}

func TestInvalidBodiesAreRefused(t *testing.T) {
	t.Parallel()
	deepJSON := `{"resourceSpans":` + strings.Repeat(`[`, 100_000) + strings.Repeat(`]`, 100_000) + `}`
	spans := bytes.Repeat([]byte{2<<3 | 2, 0}, otlp.MaxSpans+1)
	scope := append(binary.AppendUvarint([]byte{2<<3 | 2}, uint64(len(spans))), spans...)
	tooMany := append(binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(scope))), scope...)

	for name, tt := range map[string]struct {
		contentType string
		body        string
		is          error
		says        string
	}{
		"no media type": {"", "{}", otlp.ErrUnsupported, "content type"},
		"another":       {"text/plain", "{}", otlp.ErrUnsupported, "text/plain"},
		"no JSON":       {otlp.TypeJSON, "{", nil, "reading traces"},
		"no protobuf":   {otlp.TypeProtobuf, "{}", nil, "reading traces"},
		"cut off":       {otlp.TypeProtobuf, string(nested(3)[:20]), nil, "reading traces"},
		"ids of odd length": {
			otlp.TypeJSON, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"abc"}]}]}]}`, nil, "reading traces",
		},
		"deep JSON":      {otlp.TypeJSON, deepJSON, nil, "nests"},
		"deep protobuf":  {otlp.TypeProtobuf, string(nested(5_000)), nil, "nests"},
		"too many spans": {otlp.TypeProtobuf, string(tooMany), otlp.ErrTooLarge, "over 20000 spans"},
		"too many parts": {otlp.TypeProtobuf, strings.Repeat("\x0a\x00", 2_000_001), otlp.ErrTooLarge, "parts"},
		"too many references to entities": {
			otlp.TypeProtobuf, protobufField(1, 2, []byte(protobufField(1, 2,
				[]byte(strings.Repeat("\x1a\x00", 2_000_001))...))...), otlp.ErrTooLarge, "parts",
		},
		"too many JSON ones": {
			otlp.TypeJSON, `{"resourceSpans":[` + strings.Repeat("{},", 2_000_001) + `{}]}`, otlp.ErrTooLarge, "parts",
		},
		"too many JSON spans": {otlp.TypeJSON,
			`{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Repeat("{},", otlp.MaxSpans) + `{}]}]}]}`,
			otlp.ErrTooLarge, "over 20000 spans"},
	} {
		_, err := otlp.DecodeTraces(tt.contentType, []byte(tt.body))
		if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}

		_, err = otlp.DecodeLogs(tt.contentType, []byte(tt.body))
		if tt.is == otlp.ErrUnsupported && !errors.Is(err, tt.is) {
			t.Errorf("%s as logs: %v", name, err)
		}
	}

	for _, contentType := range []string{otlp.TypeProtobuf, otlp.TypeJSON} {
		empty := map[string]string{otlp.TypeProtobuf: "", otlp.TypeJSON: "{}"}[contentType]
		if batch, err := otlp.DecodeTraces(contentType, []byte(empty)); err != nil || len(batch.Spans) > 0 ||
			batch.Rejected > 0 {
			t.Errorf("empty %s: %v %+v", contentType, err, batch)
		}
	}
	if _, err := otlp.DecodeTraces(otlp.TypeProtobuf, nested(40)); err != nil {
		t.Errorf("a value of 80 levels: %v", err)
	}
}
