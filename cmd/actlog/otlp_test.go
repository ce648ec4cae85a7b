package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/trace/otlp"
)

// fixture returns a body that a real exporter sent.
func fixture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "internal", "trace", "otlp", "testdata", "fixtures", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// vercelTrace is the trace in vercel-ai7-001.json and vercel-ai7-002.json.
const vercelTrace = "719271de02eba64f504d5e46e9356777"

// agentRun returns the trace of an agent that makes some model calls, with an output of textBytes
// each.
func agentRun(trace uint32, calls, textBytes int) ptrace.Traces {
	all := ptrace.NewTraces()
	rs := all.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	spans := rs.ScopeSpans().AppendEmpty().Spans()

	for i := range calls + 1 {
		s := spans.AppendEmpty()
		s.SetTraceID([16]byte{0: 1, 12: byte(trace >> 24), 13: byte(trace >> 16), 14: byte(trace >> 8), 15: byte(trace)})
		s.SetSpanID([8]byte{0: 1, 6: byte((i + 1) >> 8), 7: byte(i + 1)})
		s.SetStartTimestamp(1_795_176_000_000_000_000)
		s.SetEndTimestamp(1_795_176_001_000_000_000)
		if i == 0 {
			s.Attributes().PutStr("gen_ai.operation.name", "invoke_agent")
			s.Attributes().PutStr("gen_ai.agent.name", "planner")
			continue
		}

		s.SetParentSpanID([8]byte{0: 1, 7: 1})
		s.Attributes().PutStr("gen_ai.operation.name", "chat")
		s.Attributes().PutStr("gen_ai.output.messages",
			fmt.Sprintf(`[{"role":"assistant","parts":[{"type":"text","content":"call %d %s"}]}]`, i,
				strings.Repeat("x", textBytes)))
	}
	return all
}

func agentRunID(trace uint32) string { return fmt.Sprintf("01%022x%08x", 0, trace) }

func protobuf(t *testing.T, all ptrace.Traces) []byte {
	t.Helper()
	b, err := new(ptrace.ProtoMarshaler).MarshalTraces(all)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func asJSON(t *testing.T, all ptrace.Traces) []byte {
	t.Helper()
	b, err := new(ptrace.JSONMarshaler).MarshalTraces(all)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func fileOf(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// importOf imports a file with this content, and returns the summary.
func importOf(t *testing.T, url string, content []byte) (got imported, code int, stderr string) {
	t.Helper()
	file := fileOf(t, content)
	code, stdout, stderr := actlog(t, "import", file, "--json", "--server", url)
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	got.File = ""
	return got, code, strings.ReplaceAll(stderr, file, "FILE")
}

// TestImportTraces imports the same spans in all formats that exporters and collectors write. The
// tree is always the same.
func TestImportTraces(t *testing.T) {
	t.Parallel()
	one, two := fixture(t, "vercel-ai7-001.json"), fixture(t, "vercel-ai7-002.json")
	unmarshal := new(ptrace.JSONUnmarshaler)
	all, err := unmarshal.UnmarshalTraces(one)
	if err != nil {
		t.Fatal(err)
	}

	more, err := unmarshal.UnmarshalTraces(two)
	if err != nil {
		t.Fatal(err)
	}
	more.ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
	line, proto := asJSON(t, all), protobuf(t, all)
	var pretty, zipped bytes.Buffer
	if err := json.Indent(&pretty, line, "", "  "); err != nil {
		t.Fatal(err)
	}

	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(proto); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	compact := func(b []byte) []byte {
		var out bytes.Buffer
		if err := json.Compact(&out, b); err != nil {
			t.Fatal(err)
		}
		return append(out.Bytes(), '\n')
	}
	metrics := []byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m"}]}]}]}` + "\n")
	var want []any
	for name, content := range map[string][]byte{
		"an export as JSON":          line,
		"spread over lines":          pretty.Bytes(),
		"broken after its beginning": append([]byte(`{"resourceSpans": [`+"\n"), line[len(`{"resourceSpans":[`):]...),
		"an export as protobuf":      proto,
		"compressed":                 zipped.Bytes(),
		"with a byte order mark":     append([]byte("\xef\xbb\xbf"), line...),
		"an export per line":         slices.Concat(compact(one), []byte("\n"), compact(two)),
		"repeated, in another order": slices.Concat(compact(two), compact(one), compact(two)),
		"metrics among the traces":   slices.Concat(metrics, compact(one), metrics, compact(two), metrics),
	} {
		t.Run(name, func(t *testing.T) { // not parallel: the first tree is what the others must equal
			url, _ := serve(t, apitest.Config{}, nil)
			got, code, stderr := importOf(t, url, content)
			if code != exitDone || got.Records != int64(all.SpanCount()) && name != "repeated, in another order" ||
				got.Written != got.Records || got.Rejected != 0 {
				t.Fatalf("exit code %d, %+v of %d spans: %s", code, got, all.SpanCount(), stderr)
			}

			tree := shownPlan(t, url, vercelTrace)
			if want == nil {
				want = tree
			}
			if diff := cmp.Diff(want, tree); diff != "" {
				t.Errorf("(-tree of the first file +tree of this one):\n%s", diff)
			}
		})
	}

	if text := fmt.Sprint(want); !strings.Contains(text, "planner") || !strings.Contains(text, "researcher") ||
		!strings.Contains(text, "COMPLETED") {
		t.Errorf("fmt.Sprint(want) = %.1000s", text)
	}
}

// shownPlan returns what show --json prints of a plan, without row numbers.
func shownPlan(t *testing.T, url, plan string) []any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(must(t, "show", plan, "--json", "--server", url)), &v); err != nil {
		t.Fatal(err)
	}
	return []any{numberless(v)}
}

// TestImportLogs imports GenAI events, which must join their spans.
func TestImportLogs(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, apitest.Config{}, nil)
	logs := plog.NewLogs()
	records := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()

	choice := records.AppendEmpty()
	choice.SetTraceID([16]byte{0: 1, 15: 1})
	choice.SetSpanID([8]byte{0: 1, 7: 2})
	choice.SetEventName("gen_ai.user.message")
	choice.Body().SetEmptyMap().PutStr("content", "What is the weather in Paris?")
	records.AppendEmpty().Body().SetStr("a line of a log")

	line, err := new(plog.JSONMarshaler).MarshalLogs(logs)
	if err != nil {
		t.Fatal(err)
	}
	proto, err := new(plog.ProtoMarshaler).MarshalLogs(logs)
	if err != nil {
		t.Fatal(err)
	}

	traces := asJSON(t, agentRun(1, 1, 0))
	for _, content := range [][]byte{slices.Concat(line, []byte("\n"), traces), proto} {
		if got, code, stderr := importOf(t, url, content); code != exitDone || got.Written != got.Records || got.Written < 2 {
			t.Errorf("exit code %d, %+v: %s", code, got, stderr)
		}
	}
	if out := must(t, "show", agentRunID(1), "--server", url); !strings.Contains(out, "planner") {
		t.Errorf("show = %v", out)
	}
	if out := must(t, "show", agentRunID(1), "--step", "0100000000000001", "--server",
		url); !strings.Contains(out, "weather in Paris") {
		t.Errorf("show = %v", out)
	}
}

// TestImportReportsRejectedTraces also expects the rest to be sent.
func TestImportReportsRejectedTraces(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, apitest.Config{}, nil)
	good := string(asJSON(t, agentRun(2, 3, 0)))
	var withoutIDs bytes.Buffer
	bad := agentRun(3, 3, 0)
	bad.ResourceSpans().At(0).ScopeSpans().At(0).Spans().AppendEmpty().SetName("no ids")
	withoutIDs.Write(asJSON(t, bad))

	for name, tt := range map[string]struct {
		content string
		want    imported
		stderr  []string
	}{
		"no spans":     {`{"resourceSpans":[]}`, imported{Error: "FILE: holds no spans"}, []string{"holds no spans"}},
		"metrics only": {`{"resourceMetrics":[]}`, imported{Error: "FILE: holds no spans"}, []string{"holds no spans"}},
		"a bad line": {
			good + "\n{nonsense\n" + good + "\n[]\n", imported{Records: 10, Written: 8, Rejected: 2},
			[]string{"FILE:2: malformed: reading traces", "FILE:4: malformed: reading traces", "2 of 10 records were rejected"},
		},
		"truncated": {
			good + "\n" + good[:len(good)/2], imported{Records: 5, Written: 4, Rejected: 1},
			[]string{"FILE:2: malformed: reading traces"},
		},
		"one truncated line": {
			good[:len(good)/2], imported{Records: 1, Rejected: 1}, []string{"FILE:1: malformed: reading traces"},
		},
		"truncated protobuf": {
			string(protobuf(t, agentRun(2, 3, 0)))[:50], imported{Records: 1, Rejected: 1},
			[]string{"FILE:1: malformed: reading traces"},
		},
		"without ids": {
			withoutIDs.String(), imported{Records: 5, Written: 4, Rejected: 1}, []string{
				"FILE: 1 of 5 spans were rejected: spans need a trace id",
			},
		},
		"something else": {
			`{"resourceSpans":[]}` + "\n" + strings.Repeat("{\"level\":3,\n", 5000), imported{Records: 1000, Rejected: 1000},
			[]string{"all rejected; the rest is skipped"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, code, stderr := importOf(t, url, []byte(tt.content))
			if code != exitFailed {
				t.Errorf("exit code %d", code)
			}
			if tt.want.Error == "" {
				got.Error = ""
			} else if got.Error != "" {
				got.Error = tt.want.Error
			}

			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, stderr)
			}
			for _, s := range tt.stderr {
				if !strings.Contains(stderr, s) {
					t.Errorf("no %q in %.2000s", s, stderr)
				}
			}
		})
	}
}

// TestImportSplitsAndJoinsExports expects a large export to be sent in several requests, and small
// ones together in one. The server is busy at times.
func TestImportSplitsAndJoinsExports(t *testing.T) {
	t.Parallel()
	var posts, refused atomic.Int64
	url, _ := serve(t, apitest.Config{}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/traces" {
				if refused.Add(1)%2 == 1 {
					w.Header().Set("Retry-After", "0")
					w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusTooManyRequests}[refused.Load()/2%2])
					return
				}
				posts.Add(1)
				if r.Header.Get("Content-Encoding") != "gzip" {
					t.Error("a body is not compressed")
				}
			}
			h.ServeHTTP(w, r)
		})
	})

	large := agentRun(4, 5_000, 4<<10) // 20 MiB
	if got, code, stderr := importOf(t, url, protobuf(t, large)); code != exitDone || got.Written != 5_001 {
		t.Fatalf("exit code %d, %+v: %s", code, got, stderr)
	}
	if n := posts.Swap(0); n < 3 || n > 5 {
		t.Errorf("%d requests", n)
	}

	var small bytes.Buffer
	for i := range uint32(500) {
		small.Write(append(asJSON(t, agentRun(100+i, 1, 10)), '\n'))
	}
	if got, code, stderr := importOf(t, url, small.Bytes()); code != exitDone || got.Written != 1_000 {
		t.Fatalf("exit code %d, %+v: %s", code, got, stderr)
	}
	if n := posts.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}

	for _, id := range []string{agentRunID(4), agentRunID(100), agentRunID(599)} {
		must(t, "show", id, "--server", url)
	}
}

// doors returns the addresses for OTLP that a program prints.
func (p *program) doors(t *testing.T) (overHTTP, overGRPC string) {
	t.Helper()
	for _, m := range regexp.MustCompile(
		`(?m)^actlog takes OTLP (?:on http://|over gRPC on )(\S+) \(--otlp-(grpc-)?listen\)$`,
	).FindAllStringSubmatch(p.stderr.String(), -1) {
		if m[2] == "" {
			overHTTP = "http://" + m[1]
		} else {
			overGRPC = m[1]
		}
	}
	return overHTTP, overGRPC
}

// exporter sends traces of two spans each, one after the other, to one address, and remembers
// which were acknowledged.
type exporter struct {
	send func(context.Context, ptrace.Traces) error
	next *atomic.Uint32

	mu    *sync.Mutex
	acked map[uint32]bool
}

func (e *exporter) run(ctx context.Context, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}

		n := e.next.Add(1)
		if e.send(ctx, agentRun(n, 1, 100)) == nil {
			e.mu.Lock()
			e.acked[n] = true
			e.mu.Unlock()
		}
	}
}

func (e *exporter) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.acked)
}

// overHTTP returns a function that sends traces as OTLP over HTTP.
func overHTTP(client *http.Client, url string) func(context.Context, ptrace.Traces) error {
	return func(ctx context.Context, all ptrace.Traces) error {
		body, err := new(ptrace.ProtoMarshaler).MarshalTraces(all)
		if err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/traces", bytes.NewReader(body))
		if err != nil {
			return err
		}

		r.Header.Set("Content-Type", otlp.TypeProtobuf)
		resp, err := client.Do(r)
		if err != nil {
			return err
		}

		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("answered %s", resp.Status)
		}
		return nil
	}
}

// exporters starts exporters to all addresses of a program. The returned function stops them.
func exporters(t *testing.T, p *program, e *exporter) (stop func()) {
	t.Helper()
	http4318, grpc4317 := p.doors(t)
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	client := &http.Client{Transport: transport}
	conn, err := grpc.NewClient(grpc4317, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}

	service := ptraceotlp.NewGRPCClient(conn)
	done := make(chan struct{})
	var all sync.WaitGroup
	for _, send := range []func(context.Context, ptrace.Traces) error{
		overHTTP(client, p.url), overHTTP(client, http4318),
		func(ctx context.Context, all ptrace.Traces) error {
			_, err := service.Export(ctx, ptraceotlp.NewExportRequestFromTraces(all))
			return err
		},
	} {
		by := *e
		by.send = send
		all.Go(func() { by.run(t.Context(), done) })
	}

	return func() {
		close(done)
		all.Wait()
		transport.CloseIdleConnections()
		_ = conn.Close()
	}
}

// check expects every acknowledged trace to be on record.
func (e *exporter) check(t *testing.T, url string) {
	t.Helper()
	client, err := serverFlags{Server: url}.ProvideClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.http.CloseIdleConnections()

	for n := range e.acked {
		p, err := client.plan(t.Context(), agentRunID(n), nil)
		if err != nil {
			t.Fatalf("trace %d, one of %d that were acknowledged: %v", n, len(e.acked), err)
		}
		if p.Name != "planner" || p.Total.ModelCalls != 1 {
			t.Errorf("trace %d is incomplete: %+v", n, p)
		}
	}
}

func newExporter() *exporter {
	return &exporter{next: new(atomic.Uint32), mu: new(sync.Mutex), acked: map[uint32]bool{}}
}

var allDoors = []string{"--listen", "127.0.0.1:0", "--otlp-listen", "127.0.0.1:0", "--otlp-grpc-listen", "127.0.0.1:0"}

// TestKillDuringExports kills the server with SIGKILL, twice, and starts it again.
func TestKillDuringExports(t *testing.T) {
	t.Parallel()
	args := append([]string{"serve", "--data-dir", t.TempDir()}, allDoors...)
	e := newExporter()
	for range 2 {
		p := start(t, args...)
		stop := exporters(t, p, e)
		target := e.count() + 60
		storetest.Until(t, "60 more spans are acknowledged", func() bool { return e.count() >= target })
		p.kill(t)
		stop()
	}

	p := start(t, args...)
	e.check(t, p.url)
	p.terminate(t)
}

// TestAllDoorsDrain stops the server with SIGTERM during exports. It must exit with code 0, and
// what it acknowledged must be on record.
func TestAllDoorsDrain(t *testing.T) {
	t.Parallel()
	args := append([]string{"serve", "--data-dir", t.TempDir()}, allDoors...)
	e := newExporter()
	p := start(t, args...)
	stop := exporters(t, p, e)
	storetest.Until(t, "30 spans are acknowledged", func() bool { return e.count() >= 30 })

	p.terminate(t)
	stop()
	p = start(t, args...)
	e.check(t, p.url)
	p.terminate(t)
}

// TestDefaultOTLPAddress starts servers while the default address is in use. That is an error only
// if --otlp-listen names the address.
func TestDefaultOTLPAddress(t *testing.T) {
	t.Parallel()
	// otherwise another process listens on it
	if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", defaultOTLPListen); err == nil {
		defer l.Close()
	}
	if code, _, stderr := actlog(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--otlp-listen",
		defaultOTLPListen); code != exitFailed || !strings.Contains(stderr, "listen on "+defaultOTLPListen) {
		t.Errorf("exit code %d: %s", code, stderr)
	}

	p := start(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--otlp-listen", "")
	if log := p.stderr.String(); !strings.Contains(log, "the default address for OTLP is in use") ||
		strings.Contains(log, "takes OTLP on") {
		t.Errorf("log = %v", log)
	}

	if err := overHTTP(http.DefaultClient, p.url)(t.Context(), agentRun(1, 1, 1)); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	p.terminate(t)
}

// TestTracesWithoutAgent expects such traces to be counted, and to make no plan.
func TestTracesWithoutAgent(t *testing.T) {
	t.Parallel()
	c := &serveCmd{
		Listen: "127.0.0.1:0", OTLPListen: "off", MaxConnections: 10, MaxStreams: 1, TraceDays: 1, TraceQuiet: time.Minute,
		ReplicaLag: time.Second, runtimeFlags: runtimeFlags{Slots: 1},
		databaseFlags: databaseFlags{DatabaseURL: pgtest.New(t).URL},
	}
	s, err := startServer(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}

	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})

	page := agentRun(1, 0, 0)
	page.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().Clear()
	for _, all := range []ptrace.Traces{page, agentRun(2, 1, 1)} {
		if err := overHTTP(client, s.url)(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}

	resp, err := client.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	figures, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(figures), "\nactlog_otlp_traces_without_agent_total 1\n") {
		t.Errorf("io.ReadAll(resp.Body) = %v\n%s", err, figures)
	}

	if out := must(t, "list", "--server", s.url); strings.Contains(out, agentRunID(1)) ||
		!strings.Contains(out, "planner") {
		t.Errorf("list = %v", out)
	}
}

// beExporter is a variable that makes the test binary a program with OpenTelemetry
// instrumentation, which exports one run. Its environment says where to.
const beExporter = "ACTLOG_TEST_BE_EXPORTER"

func exportOne() {
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		panic(err)
	}

	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { panic(err) }))

	_, agent := provider.Tracer("test").Start(ctx, "invoke_agent planner",
		trace.WithAttributes(attribute.String("gen_ai.operation.name", "invoke_agent")))
	agent.End()
	if err := provider.Shutdown(ctx); err != nil {
		panic(err)
	}
	fmt.Print(agent.SpanContext().TraceID())
}

// output runs lines of the docs, and returns what they print.
func output(t *testing.T, lines string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", lines)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cmd.Output() = %v\n%s\n%s\n%s", err, lines, out, &stderr)
	}
	return string(out)
}

// TestDocsOTLP does what the docs say, with an exporter, curl and the program.
func TestDocsOTLP(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	door := httptest.NewServer(apitest.New(t, s, apitest.Config{}).OTLP(true))
	t.Cleanup(door.Close)

	secret, line, err := httpd.NewKey("exporter", []httpd.Scope{httpd.ScopeWrite})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := httpd.ReadKeys(strings.NewReader(line))
	if err != nil {
		t.Fatal(err)
	}
	keyed := httptest.NewServer(apitest.New(t, s, apitest.Config{HTTP: httpd.Config{Keys: keys}}))
	t.Cleanup(keyed.Close)

	blocks := under(t, codeBlocks(t, "otlp.md", "sh"), "Point an exporter here", 3)
	export := fmt.Sprintf("\n%s=1 '%s'\n", beExporter, os.Args[0])
	for _, tt := range []struct{ lines, is string }{
		{blocks[0], "OTEL_EXPORTER_OTLP_ENDPOINT=" + door.URL}, // the default of exporters, on another port
		{strings.ReplaceAll(blocks[1], defaultServer, keyed.URL), "ACTLOG_API_KEY=" + secret},
	} {
		trace := output(t, tt.lines+export, tt.is)
		if out := must(t, "show", trace, "--server", url); !strings.Contains(out, "planner") {
			t.Errorf("show = %v", out)
		}
	}

	out := output(t, strings.NewReplacer("http://"+defaultOTLPListen, door.URL, defaultServer, url).Replace(blocks[2]))
	if !strings.HasPrefix(out, "{}") || !strings.Contains(out, `"name":"planner"`) &&
		!strings.Contains(out, "invoke_agent planner") {
		t.Errorf("output = %v", out)
	}

	dir := t.TempDir()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(protobuf(t, agentRun(2, 1, 1))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	copilot, err := os.ReadFile(filepath.Join("testdata", "copilot.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"export.json": asJSON(t, agentRun(1, 1, 1)), "export.pb.gz": packed.Bytes(),
		"collector.jsonl": asJSON(t, agentRun(3, 1, 1)), "copilot.jsonl": copilot,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	runShell(t, dir, under(t, codeBlocks(t, "commands.md", "sh"), "Bring traces", 1)[0], "ACTLOG_SERVER="+url)
	for n := range uint32(3) {
		must(t, "show", agentRunID(n+1), "--server", url)
	}
}
