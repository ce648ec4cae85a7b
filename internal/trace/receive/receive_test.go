package receive_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/trace/otlp"
)

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

// fixtureBodies returns the bodies of a run in an encoding.
func fixtureBodies(t testing.TB, run, contentType string) (bodies [][]byte) {
	t.Helper()
	for _, name := range fixtures[run] {
		body := readFixture(t, name)
		if is := map[bool]string{
			true: otlp.TypeProtobuf, false: otlp.TypeJSON,
		}[strings.HasSuffix(name, ".pb")]; is != contentType {
			unmarshal := new(ptrace.JSONUnmarshaler).UnmarshalTraces
			if is == otlp.TypeProtobuf {
				unmarshal = new(ptrace.ProtoUnmarshaler).UnmarshalTraces
			}

			all, err := unmarshal(body)
			if err != nil {
				t.Fatal(err)
			}
			body = apitest.Encodings[contentType](t, all)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// goldenRecords returns the rows that a run means, and the id of its trace.
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

// seen returns everything that reads show of a tree, except for the numbers of rows, and
// whether a call is inferred, which no record can say.
func seen(c *client, trace string) (all []any) {
	c.T.Helper()
	tree := c.Details(trace)
	all = append(all, tree)

	var visit func(plan any)
	visit = func(plan any) {
		for _, agent := range plan.(obj)["agentExecutionSequence"].([]any) {
			all = append(all, c.Step(agent.(obj)["stepId"].(string)))
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
			wantTaken(c.T, c.Export("/v1/traces", contentType, body), contentType)
		}
	},
	"http": func(c *client, contentType string, bodies [][]byte) {
		d := c.OTLP(true)
		for _, body := range bodies {
			wantTaken(c.T, d.Export("/v1/traces", contentType, body), contentType)
		}
	},
	"grpc": func(c *client, contentType string, bodies [][]byte) {
		if contentType != otlp.TypeProtobuf {
			return
		}
		conn := connect(c)
		for _, body := range bodies {
			request := ptraceotlp.NewExportRequest()
			if err := request.UnmarshalProto(body); err != nil {
				c.T.Fatal(err)
			}
			if response, err := ptraceotlp.NewGRPCClient(conn).Export(c.T.Context(), request); err != nil ||
				response.PartialSuccess().RejectedSpans() > 0 {
				c.T.Fatal(response, err)
			}
		}
	},
}

// TestEveryFixtureMakesItsTree by every door, in every encoding: the tree that its golden rows
// make when they are written as records.
func TestEveryFixtureMakesItsTree(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is written in many orders")
	t.Parallel()
	for run := range fixtures {
		t.Run(run, func(t *testing.T) {
			t.Parallel()
			records, trace := goldenRecords(t, run)
			written := serve(t)
			written.Write(records...)
			want := seen(written, trace)

			for door, send := range senders {
				for contentType := range apitest.Encodings {
					if door == "grpc" && contentType != otlp.TypeProtobuf {
						continue
					}
					t.Run(door+" "+contentType, func(t *testing.T) {
						t.Parallel()
						c := serve(t)
						send(c, contentType, fixtureBodies(t, run, contentType))
						if diff := cmp.Diff(want, seen(c, trace)); diff != "" {
							t.Errorf("(-golden +sent):\n%s", diff)
						}
					})
				}
			}
		})
	}
}

// TestExportsMayBeCompressed, in each encoding.
func TestExportsMayBeCompressed(t *testing.T) {
	t.Parallel()
	c := serve(t)
	n := byte(0)
	for contentType, encode := range apitest.Encodings {
		for encoding, pack := range apitest.Packers {
			n++
			body := encode(t, apitest.AgentTrace(n, nil))
			wantTaken(t, c.Export("/v1/traces", contentType, pack(t, body), "Content-Encoding", encoding), contentType)
			details := c.Details(apitest.TraceID(n))
			expect(t, details, obj{"name": "planner", "state": "COMPLETED", "agentExecutionSequence.#": 1})

			logs := apitest.Marshal(t, someLogs(n), new(plog.ProtoMarshaler).MarshalLogs)
			wantTaken(t, c.Export("/v1/logs", otlp.TypeProtobuf, pack(t, logs), "Content-Encoding", encoding), otlp.TypeProtobuf)
			step := lookup(t, details, "agentExecutionSequence.0.stepId").(string)
			expect(t, c.Step(step), obj{"thinkActSteps.0.thinkOutput": "Paris is sunny."})

			// Metrics are dropped, but what is no metrics is seen, however it is compressed.
			a := c.Export("/v1/metrics", contentType, pack(t, body), "Content-Encoding", encoding)
			wantRefused(t, a, http.StatusBadRequest, contentType, "send it to /v1/traces")
		}
	}

	// As media types may be written.
	a := c.Export("/v1/traces", "Application/X-Protobuf; charset=x",
		apitest.Encodings[otlp.TypeProtobuf](t, apitest.AgentTrace(99, nil)))
	wantTaken(t, a, otlp.TypeProtobuf)
	c.Details(apitest.TraceID(99))
}

func TestSpansThatAreRejectedAreCounted(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for contentType, encode := range apitest.Encodings {
		all := apitest.AgentTrace(1, nil)
		spans := all.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
		spans.AppendEmpty().SetName("no ids")
		spans.AppendEmpty().SetTraceID([16]byte{1})
		a := wantStatus(t, c.Export("/v1/traces", contentType, encode(t, all)), http.StatusOK)

		response := ptraceotlp.NewExportResponse()
		unmarshal := response.UnmarshalJSON
		if contentType == otlp.TypeProtobuf {
			unmarshal = response.UnmarshalProto
		}
		if err := unmarshal(a.Body); err != nil {
			t.Fatal(err)
		}

		if p := response.PartialSuccess(); p.RejectedSpans() != 2 || !strings.Contains(p.ErrorMessage(), "trace id") {
			t.Errorf("%s: %s", contentType, a.Body)
		}
		c.Details(apitest.TraceID(1)) // the others are on record
	}

	c.WantMetric(`actlog_otlp_items_total{result="accepted",signal="traces"}`, 4)
	c.WantMetric(`actlog_otlp_items_total{result="rejected",signal="traces"}`, 4)
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
	for contentType, encode := range apitest.Encodings {
		marshal := new(plog.JSONMarshaler).MarshalLogs
		if contentType == otlp.TypeProtobuf {
			marshal = new(plog.ProtoMarshaler).MarshalLogs
		}
		for _, logsFirst := range []bool{true, false} {
			n++
			traces, logs := encode(t, apitest.AgentTrace(n, nil)), apitest.Marshal(t, someLogs(n), marshal)
			if logsFirst {
				wantTaken(t, c.Export("/v1/logs", contentType, logs), contentType)
				wantStatus(t, c.Get("/api/executor/details/"+apitest.TraceID(n)), http.StatusNotFound)
			}
			wantTaken(t, c.Export("/v1/traces", contentType, traces), contentType)
			if !logsFirst {
				wantTaken(t, c.Export("/v1/logs", contentType, logs), contentType)
			}

			step := lookup(t, c.Details(apitest.TraceID(n)), "agentExecutionSequence.0.stepId").(string)
			expect(t, c.Step(step), obj{"thinkActSteps.0.thinkOutput": "Paris is sunny."})

			wantRefused(t, c.Export("/v1/traces", contentType, logs), http.StatusBadRequest, contentType, "send it to /v1/logs")
		}
	}

	c.WantMetric(`actlog_otlp_items_total{result="accepted",signal="logs"}`, 4)
	c.WantMetric(`actlog_otlp_items_total{result="ignored",signal="logs"}`, 4)
	c.WantMetric(`actlog_otlp_requests_total{door="server",signal="logs",status="200"}`, 4)
	c.WantMetric(`actlog_otlp_requests_total{door="server",signal="traces",status="400"}`, 4)
}

// TestMisplacedBodies checks that a body of one signal that is sent to the path of another is refused,
// with the right path. Nothing of it is dropped in silence.
//
// N28: traces sent to /v1/logs were answered 200 and dropped.
func TestMisplacedBodies(t *testing.T) {
	t.Parallel()
	c := serve(t)
	metrics := pmetric.NewMetrics()
	m := metrics.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("gen_ai.client.token.usage")
	m.SetEmptySum().DataPoints().AppendEmpty().SetIntValue(7)

	bodies := map[string]map[otlp.Signal][]byte{
		otlp.TypeProtobuf: {
			otlp.Traces:  apitest.AsProtobuf(t, apitest.AgentTrace(1, nil)),
			otlp.Logs:    apitest.Marshal(t, someLogs(1), new(plog.ProtoMarshaler).MarshalLogs),
			otlp.Metrics: apitest.Marshal(t, metrics, new(pmetric.ProtoMarshaler).MarshalMetrics),
		},
		otlp.TypeJSON: {
			otlp.Traces:  apitest.AsJSON(t, apitest.AgentTrace(1, nil)),
			otlp.Logs:    apitest.Marshal(t, someLogs(1), new(plog.JSONMarshaler).MarshalLogs),
			otlp.Metrics: apitest.Marshal(t, metrics, new(pmetric.JSONMarshaler).MarshalMetrics),
		},
	}

	for contentType, bySignal := range bodies {
		for signal, body := range bySignal {
			for _, path := range otlp.Signals {
				for _, gzip := range []bool{false, true} {
					sent, header := body, []string(nil)
					if gzip {
						sent, header = apitest.Gzip(t, body), []string{"Content-Encoding", "gzip"}
					}
					a := c.Export(path.Path(), contentType, sent, header...)
					if signal == path {
						wantTaken(t, a, contentType)
					} else {
						wantRefused(t, a, http.StatusBadRequest, contentType,
							fmt.Sprintf("the body holds %s, not %s: send it to %s", signal, path, signal.Path()))
					}
				}
			}
		}
	}
}

// TestSlowWritesAreNotAnOutage checks the answer to an export that is not on record in time.
//
// N28: a large body on a busy machine was answered "the database cannot be reached".
func TestSlowWritesAreNotAnOutage(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(c *apitest.Config) { c.ExportTimeout = 50 * time.Millisecond }})
	other, err := c.DB.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Rollback(context.Background()) })
	if _, err := other.Exec(t.Context(), "LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}

	for contentType, encode := range apitest.Encodings {
		a := c.Export("/v1/traces", contentType, encode(t, apitest.AgentTrace(1, nil)))
		wantRefused(t, a, http.StatusServiceUnavailable, contentType, "took too long")
		if strings.Contains(string(a.Body), "cannot be reached") {
			t.Errorf("a.Body = %s", a.Body)
		}
	}
}

func TestMetricsAreDropped(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for contentType := range apitest.Encodings {
		for _, body := range []string{"", `{"resourceMetrics":[]}`, "whatever", strings.Repeat("x", 1<<20)} {
			wantTaken(t, c.Export("/v1/metrics", contentType, []byte(body)), contentType)
		}
	}

	wantRefused(t, c.Export("/v1/metrics", "text/plain", nil), http.StatusUnsupportedMediaType, otlp.TypeJSON,
		otlp.TypeProtobuf)
	c.WantMetric(`actlog_otlp_requests_total{door="server",signal="metrics",status="200"}`, 8)
	c.WantMetric(`actlog_otlp_requests_total{door="server",signal="metrics",status="415"}`, 1)
}

// message is a field of protobuf that has a message.
func message(number byte, content []byte) []byte {
	return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(content))), content...)
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

// TestExportsThatAreRefused: each limit of a body, and each way that it cannot be read. The
// large bodies come side by side: the budget has room for all of them.
func TestExportsThatAreRefused(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is refused, and in which words")
	t.Parallel()
	c := serveWith(t, options{Server: func(config *apitest.Config) { config.HTTP.BodyBytes = 4 << 30 }})

	manySpans := message(1, message(2, bytes.Repeat([]byte{2<<3 | 2, 0}, otlp.MaxSpans+1)))
	deep := []byte{}
	for range 5_000 {
		deep = message(5, message(1, deep)) // an array with a value
	}
	deep = message(1, message(2, message(2, message(9, message(2, deep)))))
	jsonSpans := func(spans string) string { return `{"resourceSpans":[{"scopeSpans":[{"spans":[` + spans + `]}]}]}` }
	bomb := make([]byte, 65<<20)

	for name, tt := range map[string]struct {
		contentType, encoding string
		body                  []byte
		status                int
		says                  string
	}{
		"no protobuf": {otlp.TypeProtobuf, "", []byte("{}"), 400, "reading traces"},
		"no JSON":     {otlp.TypeJSON, "", []byte("{"), 400, "reading traces"},
		"odd ids":     {otlp.TypeJSON, "", []byte(jsonSpans(`{"traceId":"abc"}`)), 400, "reading traces"},
		"not packed":  {otlp.TypeJSON, "gzip", []byte("{}"), 400, "gzip"},
		"cut off": {
			otlp.TypeProtobuf, "gzip", apitest.Gzip(t, bytes.Repeat([]byte("x"), 1000))[:20], 400, "the body is cut off",
		},
		"deep protobuf": {otlp.TypeProtobuf, "", deep, 400, "deeper than 2000"},
		"deep JSON": {
			otlp.TypeJSON, "", []byte(jsonSpans(strings.Repeat("[", 100_000))), 400, "deeper than 2000",
		},
		"many spans": {otlp.TypeProtobuf, "", manySpans, 413, "over 20000 spans"},
		"many spans as JSON": {
			otlp.TypeJSON, "", []byte(jsonSpans(strings.Repeat("{},", otlp.MaxSpans) + "{}")), 413, "over 20000 spans",
		},
		"many parts": {
			otlp.TypeProtobuf, "gzip", apitest.Gzip(t, bytes.Repeat([]byte("\x0a\x00"), 2_000_001)), 413, "over 2000000 parts",
		},
		"many parts as JSON": {
			otlp.TypeJSON, "zstd", apitest.Zstd(t, []byte(jsonSpans(strings.Repeat("{},", 2_000_001)))), 413,
			"over 2000000 parts",
		},
		"a resource in each trace": {
			otlp.TypeProtobuf, "", apitest.AsProtobuf(t, manyTraces(100, otlp.MaxStringBytes)), 413, "over 268435456 bytes",
		},
		"another packing": {
			otlp.TypeProtobuf, "br", nil, 415, "send gzip, zstd, zlib, deflate, snappy, x-snappy-framed, lz4 or none",
		},
		"twice packed":            {otlp.TypeProtobuf, "gzip, gzip", nil, 415, "lz4 or none"},
		"another type":            {"text/plain", "", []byte("{}"), 415, otlp.TypeProtobuf},
		"a form":                  {"application/x-www-form-urlencoded", "", []byte("{}"), 415, otlp.TypeProtobuf},
		"records":                 {"application/x-ndjson", "", []byte("{}"), 415, otlp.TypeProtobuf},
		"no type":                 {"", "", []byte("{}"), 415, otlp.TypeProtobuf},
		"the type of gRPC":        {"application/grpc", "", nil, 415, otlp.TypeProtobuf},
		"an empty protobuf":       {otlp.TypeProtobuf, "", nil, 200, ""},
		"an empty message":        {otlp.TypeJSON, "", []byte("{}"), 200, ""},
		"what we do not know yet": {otlp.TypeJSON, "", []byte(`{"resourceSpans":[],"new":{"a":1}}`), 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := *c
			c.T = t
			a := c.Export("/v1/traces", tt.contentType, tt.body, "Content-Encoding", tt.encoding)
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

	for encoding, pack := range apitest.Packers {
		if packed := pack(t, bomb); len(packed) < wire.MaxBodyBytes {
			a := c.Export("/v1/traces", otlp.TypeProtobuf, packed, "Content-Encoding", encoding)
			wantRefused(t, a, 413, otlp.TypeProtobuf, "over 67108864 bytes")
			a = c.Export("/v1/logs", otlp.TypeProtobuf, packed[:len(packed)/2], "Content-Encoding", encoding)
			if a.Status != 400 && a.Status != 413 {
				t.Errorf("half a bomb of %s: %d", encoding, a.Status)
			}
		}
	}
	t.Cleanup(func() {
		if n := c.BodyBytes(); n != 0 {
			t.Errorf("%d bytes of bodies are still held", n)
		}
	})
}

// TestBlocksAreReserved: a frame of lz4 takes the room of its blocks before any of them is there. What does not fit
// is refused, and others get through.
func TestBlocksAreReserved(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(config *apitest.Config) { config.HTTP.Patience = time.Hour }})
	const all, fit = 40, 16 // of 8 MiB each, in the 128 MiB of a client
	head := apitest.Packers["lz4"](t, []byte("x"))[:7]
	answers := make(chan string, all)

	var conns []net.Conn
	for range all {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.Base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)

		if _, err := fmt.Fprintf(conn,
			"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Encoding: lz4\r\n"+
				"Transfer-Encoding: chunked\r\n\r\n7\r\n%s\r\n", otlp.TypeProtobuf, head); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}

		go func() {
			var line string
			_, _ = fmt.Fscanf(conn, "HTTP/1.1 %s", &line) // empty once it is closed, or after a minute
			answers <- line
		}()
	}

	for range all - fit {
		if status := <-answers; status != "429" {
			t.Errorf("status %q, want 429 within a minute", status)
		}
	}
	if n := c.BodyBytes(); n > 128<<20 || n < fit*(8<<20-64<<10) {
		t.Errorf("%d bytes are held", n)
	}
	wantTaken(t, c.Export("/v1/traces", otlp.TypeProtobuf, apitest.AsProtobuf(t, apitest.AgentTrace(1, nil))),
		otlp.TypeProtobuf)

	for _, conn := range conns {
		_ = conn.Close()
	}
	for range fit {
		if status := <-answers; status != "" {
			t.Errorf("a connection that was closed had status %q", status)
		}
	}
	c.WantMetric("actlog_http_body_bytes", 0)
}

// TestDeclaredLengthsAreReserved: N18: a body takes the room of its length before any of it is
// read, however it is encoded. What does not fit costs nothing.
func TestDeclaredLengthsAreReserved(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(config *apitest.Config) { config.HTTP.Patience = time.Hour }})
	for n := range 12 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.Base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()

		encoding := []string{"", "identity", "Identity"}[n%3]
		if _, err := fmt.Fprintf(conn,
			"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Encoding: %s\r\n"+
				"Content-Length: %d\r\n\r\nx", otlp.TypeProtobuf, encoding, wire.MaxBodyBytes); err != nil {
			t.Fatal(err)
		}
		if n < 2 { // the share of a client
			c.AwaitBodyBytes(int64(n+1) * (wire.MaxBodyBytes - 64<<10))
		}
	}

	c.WantMetric(`actlog_http_body_refused_total{limit="client"}`, 10)
	if held := c.BodyBytes(); held > 2*wire.MaxBodyBytes {
		t.Errorf("%d bytes are held", held)
	}
}

// TestChunksAreCounted: what the chunks of a body take beyond the body counts as well.
func TestChunksAreCounted(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(config *apitest.Config) { config.HTTP.BodyBytes = 4_000_000 }})
	wantTaken(t, c.Export("/v1/traces", otlp.TypeProtobuf, apitest.AsProtobuf(t, manyTraces(1, 1_000_000))),
		otlp.TypeProtobuf)
	wantRefused(t, c.Export("/v1/traces", otlp.TypeProtobuf, apitest.AsProtobuf(t, manyTraces(20, 1_000_000))), 413,
		otlp.TypeProtobuf, "this request alone")

	// A resource that traces share is held once.
	wantTaken(t, c.Export("/v1/traces", otlp.TypeProtobuf, apitest.AsProtobuf(t, repetitive(200))), otlp.TypeProtobuf)
	if n := c.BodyBytes(); n != 0 {
		t.Errorf("%d bytes of bodies are still held", n)
	}
}

// repetitive is a number of traces whose resource is large, and small when it is compressed.
func repetitive(n int) ptrace.Traces {
	all := manyTraces(n, 0)
	all.ResourceSpans().At(0).Resource().Attributes().PutStr("large", strings.Repeat("x", 100_000))
	return all
}

// TestSpansBeyondLimitsAreCut, which the row says; the rest is there.
func TestSpansBeyondLimitsAreCut(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is refused, and in which words")
	t.Parallel()
	c := serve(t)
	n := byte(0)
	for name, tt := range map[string]struct {
		change func(ptrace.Span)
		cut    string // what the row says; empty: nothing
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
			c.T = t
			for contentType, encode := range apitest.Encodings {
				wantTaken(t, c.Export("/v1/traces", contentType, apitest.Gzip(t, encode(t, apitest.AgentTrace(id, tt.change))),
					"Content-Encoding", "gzip"), contentType)
				step := c.Step(lookup(t, c.Details(apitest.TraceID(id)), "agentExecutionSequence.0.stepId").(string))
				expect(t, step, obj{"thinkActSteps.#": 1, "thinkActSteps.0.modelName": "m"})

				metadata, _ := lookup(t, step, "thinkActSteps.0.metadata").(obj)
				if said, _ := metadata["truncatedAttributes"].([]any); slices.Contains(said, any(tt.cut)) != (tt.cut != "") {
					t.Errorf("%s: cut %q, want %q", contentType, said, tt.cut)
				}
			}
		})
	}
}

// TestMethodsOfExports: only POST is allowed, and no web page may send unless its origin is.
func TestMethodsOfExports(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, c := range []*client{c, c.OTLP(true)} {
		for _, path := range []string{"/v1/traces", "/v1/logs", "/v1/metrics"} {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete} {
				a := wantStatus(t, c.Do(method, path, nil), http.StatusMethodNotAllowed)
				if allow := a.Header.Get("Allow"); !strings.Contains(allow, http.MethodPost) ||
					strings.Contains(allow, http.MethodGet) {
					t.Errorf("%s %s: Allow %q", method, path, allow)
				}
			}

			a := c.Preflight(path, "https://shop.example")
			if a.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: %v", path, a.Header)
			}
		}
	}

	d := c.OTLP(true)
	for _, path := range []string{
		"/", "/v1", "/v1/traces/", "/v1/profiles", "/livez", "/metrics", "/api/v1/plans", "/api/v1/records",
	} {
		wantStatus(t, d.Outside(http.MethodGet, path), http.StatusNotFound)
		wantStatus(t, d.Outside(http.MethodPost, path), http.StatusNotFound)
	}

	// A page that has its own name lead here.
	wantRefused(t, d.Export("/v1/traces", otlp.TypeJSON, []byte("{}"), "Host", "evil.example"), http.StatusForbidden,
		otlp.TypeJSON, "loopback")
	wantTaken(t, c.OTLP(false).Export("/v1/traces", otlp.TypeJSON, []byte("{}"), "Host", "actlog.example"), otlp.TypeJSON)
	c.WantMetric(`actlog_otlp_requests_total{door="http",signal="traces",status="200"}`, 1)
	c.WantMetric(`actlog_otlp_requests_total{door="http",signal="traces",status="403"}`, 1)
}

// TestKeysOfExports: exports need the scope write; either header may bring the key.
func TestKeysOfExports(t *testing.T) {
	t.Parallel()
	write, writeLine := apitest.NewKey(t, "writer", httpd.ScopeWrite)
	read, readLine := apitest.NewKey(t, "reader", httpd.ScopeRead)
	c := serveWith(t, options{Server: func(config *apitest.Config) {
		config.HTTP.Keys = apitest.Keys(t, writeLine, readLine)
	}})

	for _, c := range []*client{c, c.OTLP(false)} {
		for contentType, encode := range apitest.Encodings {
			body := encode(t, apitest.AgentTrace(1, nil))
			wantRefused(t, c.Export("/v1/traces", contentType, body), http.StatusUnauthorized, contentType, "API key")
			wantRefused(t, c.Export("/v1/traces", contentType, body, "X-Api-Key", "wrong"), http.StatusUnauthorized,
				contentType, "API key")
			wantRefused(t, c.Export("/v1/traces", contentType, body, "Authorization", "Bearer "+read, "X-Api-Key", write),
				http.StatusForbidden, contentType, "write")

			wantTaken(t, c.Export("/v1/traces", contentType, body, "Authorization", "Basic x", "X-Api-Key", write), contentType)
			wantTaken(t, c.Export("/v1/traces", contentType, body, "X-Api-Key", write), contentType)
			wantTaken(t, c.Export("/v1/traces", contentType, body, "Authorization", "Bearer "+write), contentType)
		}
	}
	c.As(read).Details(apitest.TraceID(1))
}

func TestExportsThatMayBeSentAgain(t *testing.T) {
	t.Parallel()
	full, closed := serve(t), serve(t)
	fillBodies(full)
	closed.CloseStore()

	for contentType, encode := range apitest.Encodings {
		body := encode(t, manyTraces(1, 200_000)) // smaller ones need no room
		wantRefused(t, full.Export("/v1/traces", contentType, body), http.StatusServiceUnavailable, contentType,
			"send the same again soon")
		wantRefused(t, closed.Export("/v1/traces", contentType, body), http.StatusServiceUnavailable, contentType,
			"shutting down")
	}
}

// notThisOne is a projection that takes no spans.
type notThisOne struct{ store.Projection }

func (notThisOne) Add([][]byte, [][]otlp.Span) error { return errors.New("not this one") }

// TestTracesThatCannotBeKept are counted as rejected; the others are on record.
func TestTracesThatCannotBeKept(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Store: func(c *store.Config) {
		project := c.Project
		c.Project = func(trace string) store.Projection {
			if trace == apitest.TraceID(2) {
				return notThisOne{project(trace)}
			}
			return project(trace)
		}
	}})
	all := apitest.AgentTrace(1, nil)
	apitest.AgentTrace(2, nil).ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
	apitest.AgentTrace(3, nil).ResourceSpans().MoveAndAppendTo(all.ResourceSpans())

	for contentType, encode := range apitest.Encodings {
		a := wantStatus(t, c.Export("/v1/traces", contentType, encode(t, all)), http.StatusOK)
		response := ptraceotlp.NewExportResponse()
		unmarshal := response.UnmarshalJSON
		if contentType == otlp.TypeProtobuf {
			unmarshal = response.UnmarshalProto
		}
		if err := unmarshal(a.Body); err != nil || response.PartialSuccess().RejectedSpans() != 2 ||
			!strings.Contains(response.PartialSuccess().ErrorMessage(), "not this one") {
			t.Errorf("%s: %v %q", contentType, err, a.Body)
		}
	}

	c.Details(apitest.TraceID(1))
	c.Details(apitest.TraceID(3))
	wantStatus(t, c.Get("/api/executor/details/"+apitest.TraceID(2)), http.StatusNotFound)
	logs := apitest.Marshal(t, someLogs(2), new(plog.JSONMarshaler).MarshalLogs)
	if a := c.Export("/v1/logs", otlp.TypeJSON, logs); a.Status != http.StatusOK ||
		!strings.Contains(string(a.Body), `"rejectedLogRecords":"1"`) {
		t.Errorf("a.Status = %d %s", a.Status, a.Body)
	}

	c.WantMetric(`actlog_otlp_items_total{result="accepted",signal="traces"}`, 8)
	c.WantMetric(`actlog_otlp_items_total{result="rejected",signal="traces"}`, 4)
	c.WantMetric(`actlog_otlp_items_total{result="rejected",signal="logs"}`, 1)
}

// TestARealExporterDeliversAll: while the database is away the exporter is answered 503, and
// sends the same again until all is on record.
func TestARealExporterDeliversAll(t *testing.T) {
	t.Parallel()
	db, _, allow := apitest.Outages(t)
	c := serveWith(t, options{DB: db, Store: func(c *store.Config) { c.RetryFor = time.Millisecond }})

	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(c.Base+"/v1/traces"),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: 10 * time.Millisecond, MaxInterval: 100 * time.Millisecond,
			MaxElapsedTime: time.Hour,
		}))
	if err != nil {
		t.Fatal(err)
	}

	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter, sdktrace.WithMaxExportBatchSize(7),
		sdktrace.WithExportTimeout(time.Hour)))
	tracer := provider.Tracer("test")
	allow(false)
	var traces []string
	for i := range 20 {
		ctx, agent := tracer.Start(t.Context(), "invoke_agent planner",
			trace.WithAttributes(attribute.String("gen_ai.operation.name", "invoke_agent"),
				attribute.String("gen_ai.agent.name", fmt.Sprint("planner ", i))))
		_, chat := tracer.Start(ctx, "chat m",
			trace.WithAttributes(attribute.String("gen_ai.operation.name", "chat"),
				attribute.String("gen_ai.request.model", "m")))

		chat.End()
		agent.End()
		traces = append(traces, agent.SpanContext().TraceID().String())
	}

	done := make(chan error, 1)
	go func() { done <- provider.Shutdown(context.WithoutCancel(t.Context())) }()
	for c.Metric(`actlog_otlp_requests_total{door="server",signal="traces",status="503"}`) < 2 {
		runtime.Gosched()
	}

	allow(true)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for i, id := range traces {
		expect(t, c.Details(id), obj{"agentExecutionSequence.0.agentName": fmt.Sprint("planner ", i), "total.modelCalls": 1})
	}
}

// fillBodies leaves no room for request bodies.
func fillBodies(c *client) {
	c.T.Helper()
	for n := 0; ; n++ {
		other := fmt.Sprint("other ", n)
		err := c.Server.HTTP.Bodies().Lease(httpd.Client{Name: other, Connection: other}).Take(1 << 20)
		if errors.Is(err, httpd.ErrBusy) {
			return
		}
		if err != nil {
			c.T.Fatal(err)
		}
	}
}

// TestProjectOfExports (F3): a run is in the project of its service, whether traces or logs name it.
func TestProjectOfExports(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for n, tt := range []struct {
		traces, logs map[string]string // of their resources
		project      string
	}{
		{map[string]string{"service.name": "shop"}, nil, "shop"},
		{map[string]string{"service.name": "shop", "actlog.project": "store"}, nil, "store"},
		{map[string]string{"service.name": "unknown_service:python"}, nil, "default"},
		{nil, map[string]string{"service.name": "shop"}, "shop"},
		{map[string]string{"service.name": "shop"}, map[string]string{"service.name": "other"}, "shop"},
		{map[string]string{"service.name": "shop"}, map[string]string{"actlog.project": "store"}, "store"},
	} {
		id := byte(n + 1)
		traces, logs := apitest.AgentTrace(id, nil), someLogs(id)
		traces.ResourceSpans().At(0).Resource().Attributes().Clear()
		for key, value := range tt.traces {
			traces.ResourceSpans().At(0).Resource().Attributes().PutStr(key, value)
		}
		for key, value := range tt.logs {
			logs.ResourceLogs().At(0).Resource().Attributes().PutStr(key, value)
		}

		body := apitest.Marshal(t, logs, new(plog.ProtoMarshaler).MarshalLogs)
		wantTaken(t, c.Export("/v1/logs", otlp.TypeProtobuf, body), otlp.TypeProtobuf)
		wantTaken(t, c.Export("/v1/traces", otlp.TypeProtobuf, apitest.AsProtobuf(t, traces)), otlp.TypeProtobuf)
		expect(t, c.Details(apitest.TraceID(id)), obj{"project": tt.project})
	}
}
