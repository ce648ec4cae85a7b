package api_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/actlog/actlog/internal/api"
	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// encodings are the media types of bodies, each with what makes them.
var encodings = map[string]func(testing.TB, ptrace.Traces) []byte{otlp.TypeProtobuf: asProtobuf, otlp.TypeJSON: asJSON}

func asProtobuf(t testing.TB, all ptrace.Traces) []byte {
	t.Helper()
	return bodyOf(t, all, new(ptrace.ProtoMarshaler).MarshalTraces)
}

func asJSON(t testing.TB, all ptrace.Traces) []byte {
	t.Helper()
	return bodyOf(t, all, new(ptrace.JSONMarshaler).MarshalTraces)
}

func bodyOf[T any](t testing.TB, all T, marshal func(T) ([]byte, error)) []byte {
	t.Helper()
	body, err := marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// traceID is the id of a trace that is known by a number.
func traceID(n byte) string { return strings.Repeat("0", 30) + fmt.Sprintf("%02x", n) }

// agentTrace makes a trace of one model call by an agent. tell may add to the span
// of the call.
func agentTrace(n byte, tell func(ptrace.Span)) ptrace.Traces {
	all := ptrace.NewTraces()
	spans := all.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	agent, chat := spans.AppendEmpty(), spans.AppendEmpty()
	for i, s := range []ptrace.Span{agent, chat} {
		s.SetTraceID([16]byte{15: n})
		s.SetSpanID([8]byte{6: n, 7: byte(i + 1)})
		s.SetStartTimestamp(1_795_176_000_000_000_000)
		s.SetEndTimestamp(1_795_176_001_000_000_000)
	}
	agent.SetName("invoke_agent planner")
	agent.Attributes().PutStr("gen_ai.operation.name", "invoke_agent")
	agent.Attributes().PutStr("gen_ai.agent.name", "planner")
	chat.SetParentSpanID(agent.SpanID())
	chat.SetName("chat m")
	chat.Attributes().PutStr("gen_ai.operation.name", "chat")
	chat.Attributes().PutStr("gen_ai.request.model", "m")
	if tell != nil {
		tell(chat)
	}
	return all
}

// export sends a body to a path.
func (c *client) export(path, contentType string, body []byte, header ...string) answer {
	c.t.Helper()
	return c.do(http.MethodPost, path, bytes.NewReader(body), append(header, "Content-Type", contentType)...)
}

// wantTaken checks an answer that says nothing but yes.
func wantTaken(t testing.TB, a answer, contentType string) {
	t.Helper()
	wantStatus(t, a, http.StatusOK)
	want := map[string]string{otlp.TypeProtobuf: "", otlp.TypeJSON: "{}"}[contentType]
	if got := a.header.Get("Content-Type"); got != contentType || string(a.body) != want {
		t.Errorf("answered %q of type %s to %s", a.body, got, contentType)
	}
}

// wantRefused checks an answer with a google.rpc.Status in the type of the request.
func wantRefused(t testing.TB, a answer, status int, contentType, says string) {
	t.Helper()
	wantStatus(t, a, status)
	if got := a.header.Get("Content-Type"); got != contentType {
		t.Errorf("the Status is of type %q, want %q", got, contentType)
	}
	var said struct{ Message string }
	if contentType == otlp.TypeProtobuf {
		var st spb.Status
		if err := proto.Unmarshal(a.body, &st); err != nil {
			t.Errorf("no Status: %v: %q", err, a.body)
		}
		said.Message = st.GetMessage()
	} else if err := json.Unmarshal(a.body, &said); err != nil {
		t.Errorf("no Status: %v: %q", err, a.body)
	}
	if !strings.Contains(said.Message, says) {
		t.Errorf("no %q in %q", says, said.Message)
	}
	if again := status == http.StatusServiceUnavailable; again != (a.header.Get("Retry-After") != "") {
		t.Errorf("%d with Retry-After %q", status, a.header.Get("Retry-After"))
	}
}

// fixtures are the bodies of one run each, as exporters sent them.
var fixtures = map[string][]string{
	"vercel":        {"vercel-ai7-001.json", "vercel-ai7-002.json"},
	"vercel-pb":     {"vercel-ai7-pb-001.pb"},
	"openai-agents": {"openai-agents-js-oi-001.json", "openai-agents-js-oi-002.json"},
	"langgraph":     {"langgraph-js-oi-cfg-001.json", "langgraph-js-oi-cfg-002.json", "langgraph-js-oi-cfg-003.json"},
}

func readFixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "otlp", "testdata", "fixtures", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fixtureBodies gives the bodies of a run in an encoding.
func fixtureBodies(t testing.TB, run, contentType string) (bodies [][]byte) {
	t.Helper()
	for _, name := range fixtures[run] {
		body := readFixture(t, name)
		if is := map[bool]string{true: otlp.TypeProtobuf, false: otlp.TypeJSON}[strings.HasSuffix(name, ".pb")]; is != contentType {
			unmarshal := new(ptrace.JSONUnmarshaler).UnmarshalTraces
			if is == otlp.TypeProtobuf {
				unmarshal = new(ptrace.ProtoUnmarshaler).UnmarshalTraces
			}
			all, err := unmarshal(body)
			if err != nil {
				t.Fatal(err)
			}
			body = encodings[contentType](t, all)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// goldenRecords gives the rows that a run means, and the id of its trace.
func goldenRecords(t testing.TB, run string) (records []any, trace string) {
	t.Helper()
	for line := range strings.Lines(string(readFixture(t, run+".golden"))) {
		var r obj
		if err := json.NewDecoder(strings.NewReader(line)).Decode(&r); err != nil { // inferred stands behind it
			t.Fatal(err)
		}
		records = append(records, r)
		trace, _ = r["rootPlanId"].(string)
	}
	return records, trace
}

// seen is everything that the reads show of a tree, but for the numbers of rows
// and whether a call is inferred, which no record can tell.
func (c *client) seen(trace string) (all []any) {
	c.t.Helper()
	tree := c.details(trace)
	all = append(all, tree)
	var visit func(plan any)
	visit = func(plan any) {
		for _, agent := range plan.(obj)["agentExecutionSequence"].([]any) {
			all = append(all, c.step(agent.(obj)["stepId"].(string)))
			for _, sub := range agent.(obj)["subPlanExecutionRecords"].([]any) {
				visit(sub)
			}
		}
	}
	visit(tree)
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case obj:
			if _, number := v["id"].(float64); number {
				delete(v, "id")
			}
			delete(v, "parentExecutionId")
			delete(v, "inferred")
			for _, member := range v {
				strip(member)
			}
		case []any:
			for _, item := range v {
				strip(item)
			}
		}
	}
	strip(all)
	return all
}

// senders are the ways in: each sends bodies of protobuf or JSON.
var senders = map[string]func(c *client, contentType string, bodies [][]byte){
	"server": func(c *client, contentType string, bodies [][]byte) {
		for _, body := range bodies {
			wantTaken(c.t, c.export("/v1/traces", contentType, body), contentType)
		}
	},
	"http": func(c *client, contentType string, bodies [][]byte) {
		d := c.otlp(true)
		for _, body := range bodies {
			wantTaken(c.t, d.export("/v1/traces", contentType, body), contentType)
		}
	},
	"grpc": func(c *client, contentType string, bodies [][]byte) {
		if contentType != otlp.TypeProtobuf {
			return
		}
		conn := c.grpc()
		for _, body := range bodies {
			request := ptraceotlp.NewExportRequest()
			if err := request.UnmarshalProto(body); err != nil {
				c.t.Fatal(err)
			}
			if response, err := ptraceotlp.NewGRPCClient(conn).Export(c.t.Context(), request); err != nil || response.PartialSuccess().RejectedSpans() > 0 {
				c.t.Fatal(response, err)
			}
		}
	},
}

// otlp gives a client of the door that takes exports only.
func (c *client) otlp(loopbackOnly bool) *client {
	server := httptest.NewServer(c.api.OTLP(loopbackOnly))
	c.t.Cleanup(server.Close)
	other := *c
	other.base = server.URL
	return &other
}

// TestEveryFixtureGivesItsTree by every door, in every encoding: what its golden
// rows give when they are written as records.
func TestEveryFixtureGivesItsTree(t *testing.T) {
	t.Parallel()
	for run := range fixtures {
		t.Run(run, func(t *testing.T) {
			t.Parallel()
			records, trace := goldenRecords(t, run)
			told := serve(t)
			told.write(records...)
			want := told.seen(trace)
			for door, send := range senders {
				for contentType := range encodings {
					if door == "grpc" && contentType != otlp.TypeProtobuf {
						continue
					}
					t.Run(door+" "+contentType, func(t *testing.T) {
						t.Parallel()
						c := serve(t)
						send(c, contentType, fixtureBodies(t, run, contentType))
						if diff := cmp.Diff(want, c.seen(trace)); diff != "" {
							t.Errorf("(-golden +sent):\n%s", diff)
						}
					})
				}
			}
		})
	}
}

// TestExportsArePacked as their clients like it.
func TestExportsArePacked(t *testing.T) {
	t.Parallel()
	c := serve(t)
	n := byte(0)
	for contentType, encode := range encodings {
		for encoding, pack := range map[string]func(testing.TB, []byte) []byte{
			"": func(_ testing.TB, b []byte) []byte { return b }, "identity": func(_ testing.TB, b []byte) []byte { return b }, "gzip": gzipped, "zstd": zstandard,
		} {
			n++
			body := encode(t, agentTrace(n, nil))
			wantTaken(t, c.export("/v1/traces", contentType, pack(t, body), "Content-Encoding", encoding), contentType)
			expect(t, c.details(traceID(n)), obj{"name": "planner", "state": "COMPLETED", "agentExecutionSequence.#": 1})
		}
	}
	// As media types may be written.
	a := c.export("/v1/traces", "Application/X-Protobuf; charset=x", encodings[otlp.TypeProtobuf](t, agentTrace(99, nil)))
	wantTaken(t, a, otlp.TypeProtobuf)
	c.details(traceID(99))
}

func TestSpansThatAreRejectedAreCounted(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for contentType, encode := range encodings {
		all := agentTrace(1, nil)
		spans := all.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
		spans.AppendEmpty().SetName("no ids")
		spans.AppendEmpty().SetTraceID([16]byte{1})
		a := wantStatus(t, c.export("/v1/traces", contentType, encode(t, all)), http.StatusOK)
		response := ptraceotlp.NewExportResponse()
		unmarshal := response.UnmarshalJSON
		if contentType == otlp.TypeProtobuf {
			unmarshal = response.UnmarshalProto
		}
		if err := unmarshal(a.body); err != nil {
			t.Fatal(err)
		}
		if p := response.PartialSuccess(); p.RejectedSpans() != 2 || !strings.Contains(p.ErrorMessage(), "trace id") {
			t.Errorf("%s: %s", contentType, a.body)
		}
		c.details(traceID(1)) // the others are on record
	}
	c.wantMetric(`actlog_otlp_items_total{result="accepted",signal="traces"}`, 4)
	c.wantMetric(`actlog_otlp_items_total{result="rejected",signal="traces"}`, 4)
}

// metric gives a figure of the server.
func (c *client) metric(name string) float64 {
	c.t.Helper()
	for line := range strings.Lines(string(c.get("/metrics").body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				c.t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// wantMetric waits for a metric: what a client is refused by a library is counted
// after the client knows.
func (c *client) wantMetric(name string, want float64) {
	c.t.Helper()
	got := c.metric(name)
	for wait := time.Now().Add(10 * time.Second); got != want && time.Now().Before(wait); got = c.metric(name) {
		time.Sleep(10 * time.Millisecond)
	}
	if got != want {
		c.t.Errorf("%s is %v, want %v", name, got, want)
	}
}

func someLogs(n byte) plog.Logs {
	all := plog.NewLogs()
	records := all.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	choice := records.AppendEmpty()
	choice.SetTraceID([16]byte{15: n})
	choice.SetSpanID([8]byte{6: n, 7: 2})
	choice.SetEventName("gen_ai.choice")
	choice.SetTimestamp(1_795_176_000_500_000_000)
	choice.Body().SetEmptyMap().PutEmptyMap("message").PutStr("content", "Paris is sunny.")
	records.AppendEmpty().Body().SetStr("a line of a log")
	return all
}

// TestLogsJoinTheirSpans, whichever comes first.
func TestLogsJoinTheirSpans(t *testing.T) {
	t.Parallel()
	c := serve(t)
	n := byte(0)
	for contentType, encode := range encodings {
		marshal := new(plog.JSONMarshaler).MarshalLogs
		if contentType == otlp.TypeProtobuf {
			marshal = new(plog.ProtoMarshaler).MarshalLogs
		}
		for _, logsFirst := range []bool{true, false} {
			n++
			traces, logs := encode(t, agentTrace(n, nil)), bodyOf(t, someLogs(n), marshal)
			if logsFirst {
				wantTaken(t, c.export("/v1/logs", contentType, logs), contentType)
				wantStatus(t, c.get("/api/executor/details/"+traceID(n)), http.StatusNotFound)
			}
			wantTaken(t, c.export("/v1/traces", contentType, traces), contentType)
			if !logsFirst {
				wantTaken(t, c.export("/v1/logs", contentType, logs), contentType)
			}
			step := lookup(t, c.details(traceID(n)), "agentExecutionSequence.0.stepId").(string)
			expect(t, c.step(step), obj{"thinkActSteps.0.thinkOutput": "Paris is sunny."})

			wantRefused(t, c.export("/v1/traces", contentType, logs), http.StatusBadRequest, contentType, "send it to /v1/logs")
		}
	}
	c.wantMetric(`actlog_otlp_items_total{result="accepted",signal="logs"}`, 4)
	c.wantMetric(`actlog_otlp_items_total{result="ignored",signal="logs"}`, 4)
	c.wantMetric(`actlog_otlp_requests_total{door="server",signal="logs",status="200"}`, 4)
	c.wantMetric(`actlog_otlp_requests_total{door="server",signal="traces",status="400"}`, 4)
}

func TestMetricsAreDropped(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for contentType := range encodings {
		for _, body := range []string{"", `{"resourceMetrics":[]}`, "whatever", strings.Repeat("x", 1<<20)} {
			wantTaken(t, c.export("/v1/metrics", contentType, []byte(body)), contentType)
		}
	}
	wantRefused(t, c.export("/v1/metrics", "text/plain", nil), http.StatusUnsupportedMediaType, otlp.TypeJSON, otlp.TypeProtobuf)
	c.wantMetric(`actlog_otlp_requests_total{door="server",signal="metrics",status="200"}`, 8)
	c.wantMetric(`actlog_otlp_requests_total{door="server",signal="metrics",status="415"}`, 1)
}

// field is a field of protobuf with a message.
func field(number byte, message []byte) []byte {
	return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(message))), message...)
}

// manyTraces is as many traces of a span each, under a resource of so many bytes.
func manyTraces(n, resource int) ptrace.Traces {
	all := ptrace.NewTraces()
	of := all.ResourceSpans().AppendEmpty()
	noise := make([]byte, resource/2)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	of.Resource().Attributes().PutStr("large", hex.EncodeToString(noise))
	spans := of.ScopeSpans().AppendEmpty().Spans()
	for i := range n {
		s := spans.AppendEmpty()
		s.SetTraceID(pcommon.TraceID{15: byte(i + 1)})
		s.SetSpanID(pcommon.SpanID{1})
	}
	return all
}

// TestExportsThatAreRefused: each limit of a body, and each way to be none.
func TestExportsThatAreRefused(t *testing.T) {
	t.Parallel()
	c := serve(t)
	manySpans := field(1, field(2, bytes.Repeat([]byte{2<<3 | 2, 0}, otlp.MaxSpans+1)))
	deep := []byte{}
	for range 5_000 {
		deep = field(5, field(1, deep)) // an array with a value
	}
	deep = field(1, field(2, field(2, field(9, field(2, deep)))))
	jsonSpans := func(spans string) string { return `{"resourceSpans":[{"scopeSpans":[{"spans":[` + spans + `]}]}]}` }
	bomb := make([]byte, 65<<20)
	for name, tt := range map[string]struct {
		contentType, encoding string
		body                  []byte
		status                int
		says                  string
	}{
		"no protobuf":              {otlp.TypeProtobuf, "", []byte("{}"), 400, "reading traces"},
		"no JSON":                  {otlp.TypeJSON, "", []byte("{"), 400, "reading traces"},
		"odd ids":                  {otlp.TypeJSON, "", []byte(jsonSpans(`{"traceId":"abc"}`)), 400, "reading traces"},
		"not packed":               {otlp.TypeJSON, "gzip", []byte("{}"), 400, "gzip"},
		"cut off":                  {otlp.TypeProtobuf, "gzip", gzipped(t, bytes.Repeat([]byte("x"), 1000))[:20], 400, "unexpected EOF"},
		"deep protobuf":            {otlp.TypeProtobuf, "", deep, 400, "deeper than 2000"},
		"deep JSON":                {otlp.TypeJSON, "", []byte(jsonSpans(strings.Repeat("[", 100_000))), 400, "deeper than 2000"},
		"many spans":               {otlp.TypeProtobuf, "", manySpans, 413, "over 20000 spans"},
		"many spans as JSON":       {otlp.TypeJSON, "", []byte(jsonSpans(strings.Repeat("{},", otlp.MaxSpans) + "{}")), 413, "over 20000 spans"},
		"many parts":               {otlp.TypeProtobuf, "gzip", gzipped(t, bytes.Repeat([]byte("\x0a\x00"), 2_000_001)), 413, "over 2000000 parts"},
		"many parts as JSON":       {otlp.TypeJSON, "zstd", zstandard(t, []byte(jsonSpans(strings.Repeat("{},", 2_000_001)))), 413, "over 2000000 parts"},
		"a resource in each trace": {otlp.TypeProtobuf, "", asProtobuf(t, manyTraces(100, otlp.MaxStringBytes)), 413, "over 268435456 bytes"},
		"a bomb of gzip":           {otlp.TypeProtobuf, "gzip", gzipped(t, bomb), 413, "over 67108864 bytes"},
		"a bomb of zstd":           {otlp.TypeJSON, "zstd", zstandard(t, bomb), 413, "over 67108864 bytes"},
		"another packing":          {otlp.TypeProtobuf, "br", nil, 415, "gzip, zstd or none"},
		"twice packed":             {otlp.TypeProtobuf, "gzip, gzip", nil, 415, "gzip, zstd or none"},
		"another type":             {"text/plain", "", []byte("{}"), 415, otlp.TypeProtobuf},
		"a form":                   {"application/x-www-form-urlencoded", "", []byte("{}"), 415, otlp.TypeProtobuf},
		"records":                  {"application/x-ndjson", "", []byte("{}"), 415, otlp.TypeProtobuf},
		"no type":                  {"", "", []byte("{}"), 415, otlp.TypeProtobuf},
		"the type of gRPC":         {"application/grpc", "", nil, 415, otlp.TypeProtobuf},
		"an empty protobuf":        {otlp.TypeProtobuf, "", nil, 200, ""},
		"an empty message":         {otlp.TypeJSON, "", []byte("{}"), 200, ""},
		"what we do not know yet":  {otlp.TypeJSON, "", []byte(`{"resourceSpans":[],"new":{"a":1}}`), 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := *c
			c.t = t
			a := c.export("/v1/traces", tt.contentType, tt.body, "Content-Encoding", tt.encoding)
			if tt.status == http.StatusOK {
				wantTaken(t, a, tt.contentType)
				return
			}
			of := otlp.TypeJSON
			if tt.contentType == otlp.TypeProtobuf {
				of = tt.contentType
			}
			wantRefused(t, a, tt.status, of, tt.says)
		})
	}
	t.Cleanup(func() {
		if n := api.BodyBytes(c.api); n != 0 {
			t.Errorf("%d bytes of bodies are still held", n)
		}
	})
}

// TestChunksAreHeld: what the chunks of a body take beyond the body is held as well.
func TestChunksAreHeld(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{server: func(config *api.Config) { config.BodyBytes = 4_000_000 }})
	wantTaken(t, c.export("/v1/traces", otlp.TypeProtobuf, asProtobuf(t, manyTraces(1, 1_000_000))), otlp.TypeProtobuf)
	wantRefused(t, c.export("/v1/traces", otlp.TypeProtobuf, asProtobuf(t, manyTraces(20, 1_000_000))), 503, otlp.TypeProtobuf, "send the same again")
	if n := api.BodyBytes(c.api); n != 0 {
		t.Errorf("%d bytes of bodies are still held", n)
	}
}

// TestWhatIsTooMuchOfASpanIsCut, and said; the rest is there.
func TestWhatIsTooMuchOfASpanIsCut(t *testing.T) {
	t.Parallel()
	c := serve(t)
	n := byte(0)
	for name, tt := range map[string]struct {
		tell func(ptrace.Span)
		cut  string // what the row says; empty: nothing
	}{
		"attributes": {func(s ptrace.Span) {
			for i := range otlp.MaxAttributes {
				s.Attributes().PutInt(fmt.Sprint("k", i), 1)
			}
		}, "attributes"},
		"a text": {func(s ptrace.Span) { s.Attributes().PutStr("x", strings.Repeat("x", otlp.MaxStringBytes+1)) }, "x"},
		"a name": {func(s ptrace.Span) { s.SetName(strings.Repeat("n", otlp.MaxNameBytes+1)) }, "name"},
		"a key":  {func(s ptrace.Span) { s.Attributes().PutStr(strings.Repeat("k", otlp.MaxNameBytes+1), "") }, "attributes"},
		"events": {func(s ptrace.Span) {
			s.Events().EnsureCapacity(2000)
			for range otlp.MaxEvents + 1 {
				s.Events().AppendEmpty()
			}
		}, "events"},
		"links": {func(s ptrace.Span) {
			for range otlp.MaxLinks + 1 {
				s.Links().AppendEmpty()
			}
		}, "links"},
		"nesting": {func(s ptrace.Span) {
			m := s.Attributes().PutEmptyMap("deep")
			for range 200 {
				m = m.PutEmptyMap("m")
			}
		}, "deep"},
		"an index": {func(s ptrace.Span) {
			for _, i := range []string{"2147483647", "999999999", "99999999999999999999", "-1", "0"} {
				s.Attributes().PutStr("llm.input_messages."+i+".message.role", "user")
				s.Attributes().PutStr("llm.input_messages."+i+".message.contents."+i+".message_content.text", "hello")
			}
		}, ""},
		"NUL": {func(s ptrace.Span) { s.SetName("a\x00\xff"); s.Attributes().PutStr("\x00", "\xff") }, ""},
	} {
		n++
		id := n
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := *c
			c.t = t
			for contentType, encode := range encodings {
				wantTaken(t, c.export("/v1/traces", contentType, gzipped(t, encode(t, agentTrace(id, tt.tell))), "Content-Encoding", "gzip"), contentType)
				step := c.step(lookup(t, c.details(traceID(id)), "agentExecutionSequence.0.stepId").(string))
				expect(t, step, obj{"thinkActSteps.#": 1, "thinkActSteps.0.modelName": "m"})
				metadata, _ := lookup(t, step, "thinkActSteps.0.metadata").(obj)
				if said := texts(metadata["truncatedAttributes"]); slices.Contains(said, tt.cut) != (tt.cut != "") {
					t.Errorf("%s: cut %q, want %q", contentType, said, tt.cut)
				}
			}
		})
	}
}

// TestMethodsOfExports: exporters POST, and browsers ask for nothing that no one
// allowed.
func TestMethodsOfExports(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, c := range []*client{c, c.otlp(true)} {
		for _, path := range []string{"/v1/traces", "/v1/logs", "/v1/metrics"} {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete} {
				a := wantStatus(t, c.do(method, path, nil), http.StatusMethodNotAllowed)
				if allow := a.header.Get("Allow"); !strings.Contains(allow, http.MethodPost) || strings.Contains(allow, http.MethodGet) {
					t.Errorf("%s %s: Allow %q", method, path, allow)
				}
			}
			a := c.preflight(path, "https://shop.example")
			if a.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: %v", path, a.header)
			}
		}
	}
	d := c.otlp(true)
	for _, path := range []string{"/", "/v1", "/v1/traces/", "/v1/profiles", "/livez", "/metrics", "/api/v1/plans", "/api/v1/records"} {
		wantStatus(t, d.outside(http.MethodGet, path), http.StatusNotFound)
		wantStatus(t, d.outside(http.MethodPost, path), http.StatusNotFound)
	}
	// A page that has its own name lead here.
	wantRefused(t, d.export("/v1/traces", otlp.TypeJSON, []byte("{}"), "Host", "evil.example"), http.StatusForbidden, otlp.TypeJSON, "loopback")
	wantTaken(t, c.otlp(false).export("/v1/traces", otlp.TypeJSON, []byte("{}"), "Host", "actlog.example"), otlp.TypeJSON)
	c.wantMetric(`actlog_otlp_requests_total{door="http",signal="traces",status="200"}`, 1)
	c.wantMetric(`actlog_otlp_requests_total{door="http",signal="traces",status="403"}`, 1)
}

// preflight asks what a browser asks before a page may send.
func (c *client) preflight(path, origin string) answer {
	c.t.Helper()
	return c.outside(http.MethodOptions, path, "Origin", origin, "Access-Control-Request-Method", http.MethodPost, "Access-Control-Request-Headers", "authorization,content-type")
}

// outside asks for what the contract does not speak of.
func (c *client) outside(method, path string, header ...string) answer {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, body}
}

// TestPagesThatMaySend are those of the origins that were named, with a key where
// one is needed.
func TestPagesThatMaySend(t *testing.T) {
	t.Parallel()
	secret, line := newKey(t, "page", api.ScopeWrite)
	const shop = "https://shop.example"
	c := serveWith(t, options{server: func(config *api.Config) {
		config.Keys = keysOf(t, line)
		config.Origins = []string{shop}
	}})
	for _, c := range []*client{c, c.otlp(false)} {
		for origin, may := range map[string]bool{shop: true, "https://evil.example": false, "https://shop.example.evil.example": false, "null": false} {
			want := map[bool]string{true: origin}[may]
			a := c.preflight("/v1/traces", origin)
			wantStatus(t, a, http.StatusNoContent)
			if got := a.header.Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("%s: allowed %q", origin, got)
			}
			if may && (a.header.Get("Access-Control-Allow-Headers") != "authorization,content-type" || a.header.Get("Access-Control-Allow-Methods") != http.MethodPost) {
				t.Errorf("%v", a.header)
			}
			for key, status := range map[string]int{secret: http.StatusOK, "": http.StatusUnauthorized} {
				a := wantStatus(t, c.as(key).export("/v1/traces", otlp.TypeJSON, []byte("{}"), "Origin", origin), status)
				if got := a.header.Get("Access-Control-Allow-Origin"); got != want {
					t.Errorf("%s: the answer is for %q", origin, got)
				}
			}
		}
	}
	open := serveWith(t, options{server: func(config *api.Config) { config.Origins = []string{"*"} }})
	if a := open.preflight("/v1/logs", shop); a.status != http.StatusNoContent || a.header.Get("Access-Control-Allow-Origin") != shop {
		t.Errorf("%d %v", a.status, a.header)
	}
	if a := c.preflight("/api/v1/records", shop); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("pages may write records")
	}
}

// TestKeysOfExports are those of other writes, whatever header brings them.
func TestKeysOfExports(t *testing.T) {
	t.Parallel()
	write, writeLine := newKey(t, "writer", api.ScopeWrite)
	read, readLine := newKey(t, "reader", api.ScopeRead)
	c := serveWith(t, options{server: func(config *api.Config) { config.Keys = keysOf(t, writeLine, readLine) }})
	for _, c := range []*client{c, c.otlp(false)} {
		for contentType, encode := range encodings {
			body := encode(t, agentTrace(1, nil))
			wantRefused(t, c.export("/v1/traces", contentType, body), http.StatusUnauthorized, contentType, "API key")
			wantRefused(t, c.export("/v1/traces", contentType, body, "X-Api-Key", "wrong"), http.StatusUnauthorized, contentType, "API key")
			wantRefused(t, c.export("/v1/traces", contentType, body, "Authorization", "Bearer "+read, "X-Api-Key", write), http.StatusForbidden, contentType, "write")
			wantTaken(t, c.export("/v1/traces", contentType, body, "Authorization", "Basic x", "X-Api-Key", write), contentType)
			wantTaken(t, c.export("/v1/traces", contentType, body, "X-Api-Key", write), contentType)
			wantTaken(t, c.export("/v1/traces", contentType, body, "Authorization", "Bearer "+write), contentType)
		}
	}
	c.as(read).details(traceID(1))
}

func TestExportsThatMayBeSentAgain(t *testing.T) {
	t.Parallel()
	full, closed := serve(t), serve(t)
	api.FillBodies(full.api)
	api.CloseStore(t, closed.api)
	for contentType, encode := range encodings {
		body := encode(t, agentTrace(1, nil))
		wantRefused(t, full.export("/v1/traces", contentType, body), http.StatusServiceUnavailable, contentType, "send the same again soon")
		wantRefused(t, closed.export("/v1/traces", contentType, body), http.StatusServiceUnavailable, contentType, "shutting down")
	}
}

// TestTracesThatCannotBeKept are counted as rejected, and keep no other from being
// on record.
func TestTracesThatCannotBeKept(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{store: func(c *store.Config) {
		project := c.Project
		c.Project = func(trace string, chunks [][]byte) ([]record.Change, error) {
			if trace == traceID(2) {
				return nil, errors.New("not this one")
			}
			return project(trace, chunks)
		}
	}})
	all := agentTrace(1, nil)
	agentTrace(2, nil).ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
	agentTrace(3, nil).ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
	for contentType, encode := range encodings {
		a := wantStatus(t, c.export("/v1/traces", contentType, encode(t, all)), http.StatusOK)
		response := ptraceotlp.NewExportResponse()
		unmarshal := response.UnmarshalJSON
		if contentType == otlp.TypeProtobuf {
			unmarshal = response.UnmarshalProto
		}
		if err := unmarshal(a.body); err != nil || response.PartialSuccess().RejectedSpans() != 2 || !strings.Contains(response.PartialSuccess().ErrorMessage(), "not this one") {
			t.Errorf("%s: %v %q", contentType, err, a.body)
		}
	}
	c.details(traceID(1))
	c.details(traceID(3))
	wantStatus(t, c.get("/api/executor/details/"+traceID(2)), http.StatusNotFound)
	logs := bodyOf(t, someLogs(2), new(plog.JSONMarshaler).MarshalLogs)
	if a := c.export("/v1/logs", otlp.TypeJSON, logs); a.status != http.StatusOK || !strings.Contains(string(a.body), `"rejectedLogRecords":"1"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	c.wantMetric(`actlog_otlp_items_total{result="accepted",signal="traces"}`, 8)
	c.wantMetric(`actlog_otlp_items_total{result="rejected",signal="traces"}`, 4)
	c.wantMetric(`actlog_otlp_items_total{result="rejected",signal="logs"}`, 1)
}

// TestARealExporterDeliversAll: while the database is away it is told so, and sends
// the same again until all is on record.
func TestARealExporterDeliversAll(t *testing.T) {
	t.Parallel()
	db, admin := pgtest.Fresh(t), pgtest.New(t)
	var database string
	if err := db.Pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&database); err != nil {
		t.Fatal(err)
	}
	db.Pool.Reset()
	allow := func(v bool) {
		t.Helper()
		for _, sql := range []string{
			fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS %v", pgx.Identifier{database}.Sanitize(), v),
			"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '" + database + "'",
		} {
			if _, err := admin.Pool.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := serveWith(t, options{db: db, store: func(c *store.Config) { c.RetryFor = time.Millisecond }})
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(c.base+"/v1/traces"), otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: 10 * time.Millisecond, MaxInterval: 100 * time.Millisecond, MaxElapsedTime: time.Hour}))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter, sdktrace.WithMaxExportBatchSize(7), sdktrace.WithExportTimeout(time.Hour)))
	tracer := provider.Tracer("test")
	allow(false)
	var traces []string
	for i := range 20 {
		ctx, agent := tracer.Start(t.Context(), "invoke_agent planner", trace.WithAttributes(attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", fmt.Sprint("planner ", i))))
		_, chat := tracer.Start(ctx, "chat m", trace.WithAttributes(attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.request.model", "m")))
		chat.End()
		agent.End()
		traces = append(traces, agent.SpanContext().TraceID().String())
	}
	done := make(chan error, 1)
	go func() { done <- provider.Shutdown(context.WithoutCancel(t.Context())) }()
	for c.metric(`actlog_otlp_requests_total{door="server",signal="traces",status="503"}`) < 2 {
		runtime.Gosched()
	}
	allow(true)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for i, id := range traces {
		expect(t, c.details(id), obj{"agentExecutionSequence.0.agentName": fmt.Sprint("planner ", i), "total.modelCalls": 1})
	}
}
