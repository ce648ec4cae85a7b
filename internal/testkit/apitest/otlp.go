package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// Encodings are the media types of exports, each with a function that encodes traces.
var Encodings = map[string]func(testing.TB, ptrace.Traces) []byte{otlp.TypeProtobuf: AsProtobuf, otlp.TypeJSON: AsJSON}

// AsProtobuf encodes traces.
func AsProtobuf(t testing.TB, all ptrace.Traces) []byte {
	t.Helper()
	return Marshal(t, all, new(ptrace.ProtoMarshaler).MarshalTraces)
}

// AsJSON encodes traces.
func AsJSON(t testing.TB, all ptrace.Traces) []byte {
	t.Helper()
	return Marshal(t, all, new(ptrace.JSONMarshaler).MarshalTraces)
}

// Marshal encodes an export.
func Marshal[T any](t testing.TB, all T, marshal func(T) ([]byte, error)) []byte {
	t.Helper()
	body, err := marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TraceID is the id of trace number n.
func TraceID(n byte) string { return strings.Repeat("0", 30) + fmt.Sprintf("%02x", n) }

// AgentTrace makes trace number n: an agent with one model call. change may change the span
// of the call; nil: as it is.
func AgentTrace(n byte, change func(ptrace.Span)) ptrace.Traces {
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

	if change != nil {
		change(chat)
	}
	return all
}

// Export sends an export. Headers come in pairs.
func (c *Client) Export(path, contentType string, body []byte, header ...string) Answer {
	c.T.Helper()
	return c.Do(http.MethodPost, path, bytes.NewReader(body), append(header, "Content-Type", contentType)...)
}

// WantTaken checks the answer to an export that was accepted as a whole.
func WantTaken(t testing.TB, a Answer, contentType string) {
	t.Helper()
	WantStatus(t, a, http.StatusOK)
	want := map[string]string{otlp.TypeProtobuf: "", otlp.TypeJSON: "{}"}[contentType]
	if got := a.Header.Get("Content-Type"); got != contentType || string(a.Body) != want {
		t.Errorf("answered %q of type %s to %s", a.Body, got, contentType)
	}
}

// WantRefused checks the answer to an export that was refused: a google.rpc.Status in the
// type of the request.
func WantRefused(t testing.TB, a Answer, status int, contentType, message string) {
	t.Helper()
	WantStatus(t, a, status)
	if got := a.Header.Get("Content-Type"); got != contentType {
		t.Errorf("the Status is of type %q, want %q", got, contentType)
	}

	var got struct{ Message string }
	if contentType == otlp.TypeProtobuf {
		var st spb.Status
		if err := proto.Unmarshal(a.Body, &st); err != nil {
			t.Errorf("no Status: %v: %q", err, a.Body)
		}
		got.Message = st.GetMessage()
	} else if err := json.Unmarshal(a.Body, &got); err != nil {
		t.Errorf("no Status: %v: %q", err, a.Body)
	}
	if !strings.Contains(got.Message, message) {
		t.Errorf("no %q in %q", message, got.Message)
	}

	if again := status == http.StatusServiceUnavailable ||
		status == http.StatusTooManyRequests; again != (a.Header.Get("Retry-After") != "") {
		t.Errorf("%d with Retry-After %q", status, a.Header.Get("Retry-After"))
	}
}

// Preflight asks what a browser asks before a web page of an origin may send.
func (c *Client) Preflight(path, origin string) Answer {
	c.T.Helper()
	return c.Outside(http.MethodOptions, path, "Origin", origin, "Access-Control-Request-Method", http.MethodPost,
		"Access-Control-Request-Headers", "authorization,content-type")
}
