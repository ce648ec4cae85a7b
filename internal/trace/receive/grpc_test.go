package receive_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/trace/otlp"
)

// connect serves OTLP/gRPC and connects to it.
func connect(c *client, options ...grpc.DialOption) *grpc.ClientConn {
	c.T.Helper()
	listener, err := httpd.Listen(c.T.Context(), "127.0.0.1:0", true)
	if err != nil {
		c.T.Fatal(err)
	}

	served := make(chan error, 1)
	listener.ServeGRPC(c.Server.GRPC(), 1000, slog.New(slog.DiscardHandler), served)
	conn, err := grpc.NewClient(listener.Addr().String(),
		append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		c.T.Fatal(err)
	}

	c.T.Cleanup(func() {
		_ = conn.Close()
		if err := httpd.Close(context.Background(), []*httpd.Listener{listener}); err != nil {
			c.T.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			c.T.Error(err)
		}
	})
	return conn
}

// callTraces exports traces over a connection.
func callTraces(
	ctx context.Context, conn *grpc.ClientConn, all ptrace.Traces, options ...grpc.CallOption,
) (ptraceotlp.ExportResponse, error) {
	return ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequestFromTraces(all), options...)
}

func wantCode(t testing.TB, err error, code codes.Code, says string) {
	t.Helper()
	if got := status.Convert(err); got.Code() != code || !strings.Contains(got.Message(), says) {
		t.Errorf("got.Code() = %v %q, want %v %q", got.Code(), got.Message(), code, says)
	}
}

// compressor is a compression that clients of gRPC may register. It compresses as the OpenTelemetry Collector does:
// snappy in frames.
type compressor struct {
	name string
	open func(io.Writer) io.WriteCloser
}

func (c compressor) Name() string                                 { return c.name }
func (c compressor) Compress(w io.Writer) (io.WriteCloser, error) { return c.open(w), nil }
func (c compressor) Decompress(r io.Reader) (io.Reader, error)    { return r, nil } // answers are not compressed

func init() {
	encoding.RegisterCompressor(compressor{"snappy", func(w io.Writer) io.WriteCloser {
		return snappy.NewBufferedWriter(w)
	}})
	encoding.RegisterCompressor(compressor{"deflate", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }})
	encoding.RegisterCompressor(compressor{"br", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }})
	encoding.RegisterCompressor(compressor{"zstd", func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err) // its options are right
		}
		return z
	}})
}

func TestExportsByGRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	conn := connect(c)
	for n, options := range [][]grpc.CallOption{
		nil, {grpc.UseCompressor(gzip.Name)}, {grpc.UseCompressor("snappy")}, {grpc.UseCompressor("zstd")},
		{grpc.UseCompressor("deflate")},
	} {
		all := apitest.AgentTrace(byte(n+1), nil)
		all.ResourceSpans().At(0).ScopeSpans().At(0).Spans().AppendEmpty().SetName("no ids")
		response, err := callTraces(t.Context(), conn, all, options...)
		if p := response.PartialSuccess(); err != nil || p.RejectedSpans() != 1 ||
			!strings.Contains(p.ErrorMessage(), "trace id") {
			t.Fatal(err, p.RejectedSpans(), p.ErrorMessage())
		}

		logs, err := plogotlp.NewGRPCClient(conn).Export(t.Context(), plogotlp.NewExportRequestFromLogs(someLogs(byte(n+1))),
			options...)
		if err != nil || logs.PartialSuccess().RejectedLogRecords() != 0 {
			t.Fatal(err)
		}

		step := lookup(t, c.Details(apitest.TraceID(byte(n+1))), "agentExecutionSequence.0.stepId").(string)
		expect(t, c.Step(step), obj{"thinkActSteps.0.thinkOutput": "Paris is sunny."})
	}

	metrics := pmetric.NewMetrics()
	metrics.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetName("m")
	if _, err := pmetricotlp.NewGRPCClient(conn).Export(
		t.Context(), pmetricotlp.NewExportRequestFromMetrics(metrics),
	); err != nil {
		t.Error(err)
	}

	for _, sg := range []string{"traces", "logs", "metrics"} {
		c.WantMetric(`actlog_otlp_requests_total{door="grpc",signal="`+sg+`",status="200"}`,
			map[string]float64{"traces": 5, "logs": 5, "metrics": 1}[sg])
	}
}

// rawMessages sends and receives messages as they are.
type rawMessages struct{}

func (rawMessages) Name() string { return "proto" }

func (rawMessages) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawMessages) Unmarshal(b []byte, v any) error { *v.(*[]byte) = bytes.Clone(b); return nil }

// call sends a message to the service of traces.
func call(ctx context.Context, conn *grpc.ClientConn, message []byte, options ...grpc.CallOption) error {
	var answer []byte
	options = append(options, grpc.ForceCodec(rawMessages{}), grpc.MaxCallSendMsgSize(1<<30))
	return conn.Invoke(ctx, tracesCall, &message, &answer, options...)
}

// tracesCall is the method of exports of traces.
const tracesCall = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

func TestCallsThatAreRefused(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is refused, and in which words")
	t.Parallel()
	c := serveWith(t, options{Server: func(config *apitest.Config) { config.HTTP.BodyBytes = 4 << 30 }})
	conn := connect(c)
	ctx := t.Context()
	logs := apitest.Marshal(t, someLogs(1), new(plog.ProtoMarshaler).MarshalLogs)

	wantCode(t, call(ctx, conn, []byte("{}")), codes.InvalidArgument, "reading traces")
	wantCode(t, call(ctx, conn, logs), codes.InvalidArgument, "send it to /v1/logs")
	wantCode(t, call(ctx, conn, message(1, message(2, bytes.Repeat([]byte{2<<3 | 2, 0}, otlp.MaxSpans+1)))),
		codes.ResourceExhausted, "over 20000 spans")
	wantCode(t, call(ctx, conn, make([]byte, 65<<20)), codes.ResourceExhausted, "over 67108864 bytes")

	for _, name := range []string{gzip.Name, "snappy", "zstd", "deflate"} {
		wantCode(t, call(ctx, conn, make([]byte, 65<<20), grpc.UseCompressor(name)), codes.ResourceExhausted,
			"over 67108864 bytes")
	}
	wantCode(t, call(ctx, conn, []byte("{}"), grpc.UseCompressor("br")), codes.Unimplemented, "send gzip, zstd")
	wantCode(t, call(ctx, conn, apitest.AsProtobuf(t, manyTraces(100, otlp.MaxStringBytes))), codes.ResourceExhausted,
		"over 268435456 bytes")
	wantCode(t, conn.Invoke(ctx, "/opentelemetry.proto.collector.trace.v1.TraceService/Other", new([]byte), new([]byte),
		grpc.ForceCodec(rawMessages{})), codes.Unimplemented, "404")

	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, tracesCall)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, stream.RecvMsg(new([]byte)), codes.InvalidArgument, "no message")

	if n := c.BodyBytes(); n != 0 {
		t.Errorf("%d bytes of bodies are still held", n)
	}
	if err := call(ctx, conn, nil); err != nil { // an empty message is none too many
		t.Error(err)
	}
	c.WantMetric(`actlog_otlp_requests_total{door="grpc",signal="traces",status="413"}`, 7)
}

func TestKeysOfCalls(t *testing.T) {
	t.Parallel()
	write, writeLine := apitest.NewKey(t, "writer", httpd.ScopeWrite)
	read, readLine := apitest.NewKey(t, "reader", httpd.ScopeRead)
	log := new(apitest.Log)
	c := serveWith(t, options{Log: log, Server: func(config *apitest.Config) {
		config.HTTP.Keys = apitest.Keys(t, writeLine, readLine)
	}})
	conn := connect(c)
	with := func(kv ...string) context.Context { return metadata.AppendToOutgoingContext(t.Context(), kv...) }

	for _, tt := range []struct {
		ctx  context.Context
		code codes.Code
	}{
		{t.Context(), codes.Unauthenticated},
		{with("authorization", "Bearer wrong"), codes.Unauthenticated},
		{with("authorization", "Bearer "+read), codes.PermissionDenied},
		{with("authorization", "Bearer "+write), codes.OK},
		{with("x-api-key", write), codes.OK},
	} {
		_, err := callTraces(tt.ctx, conn, apitest.AgentTrace(1, nil))
		if status.Code(err) != tt.code {
			t.Errorf("callTraces = %v, want %v", err, tt.code)
		}
	}

	// Without a key, the message is not read.
	wantCode(t, call(t.Context(), conn, make([]byte, 65<<20)), codes.Unauthenticated, "API key")
	if found := log.Lines("msg=request", "route=/opentelemetry.proto.collector.trace.v1.TraceService/Export",
		"status=200", "key=writer"); len(found) != 2 {
		t.Errorf("found = %q", found)
	}
	if found := log.Lines(write); len(found) > 0 {
		t.Errorf("the log has the key: %q", found)
	}
	c.As(read).Details(apitest.TraceID(1))
}

// TestCallsThatMayBeRepeated: the answer says when.
func TestCallsThatMayBeRepeated(t *testing.T) {
	t.Parallel()
	full, closed := serve(t), serve(t)
	fillBodies(full)
	closed.CloseStore()

	for says, c := range map[string]*client{"again soon": full, "shutting down": closed} {
		_, err := callTraces(t.Context(), connect(c), manyTraces(1, 200_000))
		wantCode(t, err, codes.Unavailable, says)
		details := status.Convert(err).Details()
		if len(details) != 1 || details[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration() != time.Second {
			t.Errorf("%s: details %v", says, details)
		}
	}
}

// TestMessagesThatNeverEnd: N18: the declared length of a message is held before it is read. What
// does not fit is refused at once, what stalls is cut off, and small calls get through.
func TestMessagesThatNeverEnd(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(config *apitest.Config) { config.HTTP.Patience = 500 * time.Millisecond }})
	conn := connect(c)
	connection := func() *http.Transport {
		one := &http.Transport{Protocols: new(http.Protocols)}
		one.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(one.CloseIdleConnections)
		return one
	}

	connections := []*http.Transport{connection(), connection(), connection(), connection()}
	answers := make(chan codes.Code)
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			body, rest := io.Pipe()
			defer rest.Close()
			go func() { _, _ = rest.Write([]byte{0, 60 << 20 >> 24, 60 << 20 >> 16 & 0xff, 0, 0, 1, 2, 3}) }()

			r := c.Request(t.Context(), http.MethodPost, tracesCall, body, "Content-Type", "application/grpc")
			r.URL.Host = conn.Target()
			resp, err := connections[n%4].RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()

			code, err := strconv.ParseUint(resp.Header.Get("Grpc-Status"), 10, 32)
			if err != nil {
				t.Errorf("resp.Header = %v", resp.Header)
			}
			if (codes.Code(code) == codes.ResourceExhausted) != (resp.Header.Get("Grpc-Status-Details-Bin") != "") {
				t.Errorf("resp.Header = %v", resp.Header)
			}
			answers <- codes.Code(code)
		})
	}
	go func() {
		all.Wait()
		close(answers)
	}()

	got := map[codes.Code]int{}
	for code := range answers {
		if got[code]++; got[code] == 1 {
			if _, err := callTraces(t.Context(), conn, apitest.AgentTrace(1, nil)); err != nil {
				t.Error(err)
			}
		}
		if n := c.BodyBytes(); n > 128<<20 {
			t.Errorf("%d bytes are held for one client", n)
		}
	}

	if got[codes.ResourceExhausted] < 32 || got[codes.DeadlineExceeded] < 2 || len(got) != 2 {
		t.Errorf("%v", got)
	}
	c.WantMetric("actlog_http_body_slow_total", float64(got[codes.DeadlineExceeded]))
	if n := c.BodyBytes(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

// TestOtherRequestsAtTheDoorOfGRPC: a request that is no call is refused, as those of balancers.
func TestOtherRequestsAtTheDoorOfGRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	conn := connect(c)
	via := &http.Transport{Protocols: new(http.Protocols)}
	via.Protocols.SetUnencryptedHTTP2(true)
	defer via.CloseIdleConnections()

	for _, method := range []string{http.MethodGet, http.MethodHead} {
		r := c.Request(t.Context(), method, "/", nil)
		r.URL.Host = conn.Target()

		resp, err := via.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", method, resp.Status)
		}
	}
}
