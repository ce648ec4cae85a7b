package receive_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/trace/otlp"
)

const unknownPath = "/api/v1/otlp/unknown"

// foreign returns a trace of a framework that follows no convention, with a request that it sends.
func foreign(n byte) ptrace.Traces {
	all := ptrace.NewTraces()
	add := func(scope string, id byte, kind ptrace.SpanKind, attributes ...string) {
		ss := all.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
		ss.Scope().SetName(scope)
		s := ss.Spans().AppendEmpty()
		s.SetTraceID([16]byte{15: n})
		s.SetSpanID([8]byte{7: id})
		s.SetKind(kind)
		for _, key := range attributes {
			s.Attributes().PutStr(key, "AGENT")
		}
	}

	add("acme.agents", 1, ptrace.SpanKindInternal, "acme.span.kind", "acme.secret")
	add("acme.agents", 2, ptrace.SpanKindInternal, "acme.span.kind")
	add("acme.http", 3, ptrace.SpanKindClient, "http.request.method")
	return all
}

// TestWhatIsNotUnderstoodIsVisible: O5, O10: at an endpoint, in the metrics, in the answer and in the
// log; its names, and none of its values.
func TestWhatIsNotUnderstoodIsVisible(t *testing.T) {
	t.Parallel()
	log := new(apitest.Log)
	c := serveWith(t, options{Log: log})
	if list := c.Read(unknownPath); len(lookup(t, list, "items").([]any)) != 0 {
		t.Errorf("at first: %v", list)
	}

	var answers []string
	for n := range byte(2) {
		a := wantStatus(t, c.Export("/v1/traces", otlp.TypeJSON, apitest.AsJSON(t, foreign(n+1))), http.StatusOK)
		answers = append(answers, string(a.Body))
	}
	for _, a := range answers {
		if !strings.HasPrefix(a, `{"partialSuccess":{"errorMessage":"the spans were kept, but none of them is understood`) ||
			!strings.Contains(a, unknownPath) {
			t.Errorf("answered %s", a)
		}
	}

	grouped := apitest.AgentTrace(9, nil)
	s := grouped.ResourceSpans().At(0).ScopeSpans().At(0).Spans().AppendEmpty()
	grouped.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).CopyTo(s)
	s.SetSpanID([8]byte{7: 99})
	s.Attributes().PutStr("gen_ai.operation.name", "embeddings")
	grouped.ResourceSpans().At(0).ScopeSpans().At(0).Spans().AppendEmpty().Attributes().PutStr("without", "ids")
	wantStatus(t, c.Export("/v1/traces", otlp.TypeProtobuf, apitest.AsProtobuf(t, grouped)), http.StatusOK)

	logs := plog.NewLogs()
	logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Attributes().PutStr("of",
		"no span")
	wantTaken(t, c.Export("/v1/logs", otlp.TypeProtobuf, apitest.Marshal(t, logs, new(plog.ProtoMarshaler).MarshalLogs)),
		otlp.TypeProtobuf)

	metrics := pmetric.NewMetrics()
	metrics.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetName("m")
	wantTaken(t, c.Export("/v1/metrics", otlp.TypeProtobuf,
		apitest.Marshal(t, metrics, new(pmetric.ProtoMarshaler).MarshalMetrics)), otlp.TypeProtobuf)

	list := c.Read(unknownPath)
	expect(t, list, obj{
		"forgotten":      float64(0),
		"items.0.reason": "not_understood", "items.0.count": float64(4), "items.0.scope": "acme.agents",
		"items.0.kindAttribute": "acme.span.kind", "items.0.kind": "AGENT",
		"items.0.attributes": []any{"acme.secret", "acme.span.kind"},
		"items.1.reason":     "rejected", "items.1.count": float64(1), "items.1.attributes": []any{"without"},
		"items.2.reason": "no_plan", "items.2.count": float64(2), "items.2.lastSeen": nil, "items.2.attributes": []any{},
		"items.3.reason": "no_span", "items.3.count": float64(1), "items.3.attributes": []any{"of"}, "items.3.kind": nil,
		"items.4.reason": "metrics", "items.4.count": float64(1), "items.4.scope": nil,
		"items.5.reason": "no_row", "items.5.count": float64(1), "items.5.kindAttribute": "gen_ai.operation.name",
		"items.5.kind":   "embeddings",
		"items.6.reason": "unrelated", "items.6.count": float64(2), "items.6.scope": "acme.http",
		"items.6.kindAttribute": nil, "items.6.kind": "CLIENT",
	})
	if n := len(lookup(t, list, "items").([]any)); n != 7 {
		t.Errorf("%d items", n)
	}

	for reason, want := range map[string]float64{
		"not_understood": 4, "rejected": 1, "no_span": 1, "metrics": 1, "no_row": 1, "unrelated": 2,
	} {
		c.WantMetric(`actlog_otlp_without_row_total{reason="`+reason+`"}`, want)
	}
	if lines := log.Lines("level=WARN", "not understood", "scope=acme.agents", "kind=AGENT"); len(lines) != 1 {
		t.Errorf("lines = %q", lines)
	}
	wantStatus(t, c.Get(unknownPath+"?limit=3"), http.StatusBadRequest)
}

// TestUnknownIsForgotten: whatever is sent, the list is bounded, and so are the log and the metrics.
// What comes again and again stays.
func TestUnknownIsForgotten(t *testing.T) {
	t.Parallel()
	log := new(apitest.Log)
	c := serveWith(t, options{Log: log})
	const bodies, kinds = 12, 100 // fewer kinds than are remembered in any case, twice
	for n := range byte(bodies) {
		all := foreign(n + 1)
		for i := range kinds {
			ss := all.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
			ss.Scope().SetName(fmt.Sprintf("agent\n%d %d", n, i))
			all.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).CopyTo(ss.Spans().AppendEmpty())
			ss.Spans().At(0).SetSpanID([8]byte{5: 1, 7: byte(i)})
		}
		wantStatus(t, c.Export("/v1/traces", otlp.TypeProtobuf, apitest.AsProtobuf(t, all)), http.StatusOK)
	}

	list := c.Read(unknownPath)
	items := len(lookup(t, list, "items").([]any))
	expect(t, list, obj{"items.0.scope": "acme.agents", "items.0.count": float64(2 * bodies)})
	if forgotten := lookup(t, list, "forgotten").(float64); items < 256 || items > 513 ||
		int(forgotten)+items-1 != bodies*kinds+2 {
		t.Errorf("%d items, %v forgotten", items, forgotten)
	}

	c.WantMetric(`actlog_otlp_without_row_total{reason="not_understood"}`, bodies*(kinds+2))
	if lines := log.Lines("level=WARN", "not understood"); len(lines) != 100 {
		t.Errorf("%d lines", len(lines))
	}
}

// TestWhatIsUnderstoodWarnsNobody, by each door: requests that a program sends beside its agents, and
// agents.
func TestWhatIsUnderstoodWarnsNobody(t *testing.T) {
	t.Parallel()
	c := serve(t)
	request := foreign(1)
	request.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		return rs.ScopeSpans().At(0).Scope().Name() == "acme.agents"
	})

	for _, all := range []ptrace.Traces{request, apitest.AgentTrace(2, nil)} {
		wantTaken(t, c.Export("/v1/traces", otlp.TypeProtobuf, apitest.AsProtobuf(t, all)), otlp.TypeProtobuf)
		response, err := callTraces(t.Context(), connect(c), all)
		if err != nil || response.PartialSuccess().ErrorMessage() != "" {
			t.Errorf("response = %v, %v", response, err)
		}
	}

	response, err := callTraces(t.Context(), connect(c), foreign(3))
	if err != nil || response.PartialSuccess().RejectedSpans() != 0 ||
		!strings.Contains(response.PartialSuccess().ErrorMessage(), "acme.agents") {
		t.Errorf("response.PartialSuccess().ErrorMessage() = %v, %v", response.PartialSuccess().ErrorMessage(), err)
	}
}

// TestKeysOfUnknown: only readers may see what others send.
func TestKeysOfUnknown(t *testing.T) {
	t.Parallel()
	write, writeLine := apitest.NewKey(t, "writer", httpd.ScopeWrite)
	read, readLine := apitest.NewKey(t, "reader", httpd.ScopeRead)
	c := serveWith(t, options{Server: func(config *apitest.Config) {
		config.HTTP.Keys = apitest.Keys(t, writeLine, readLine)
	}})

	wantStatus(t, c.Get(unknownPath), http.StatusUnauthorized)
	wantStatus(t, c.As(write).Get(unknownPath), http.StatusForbidden)
	wantStatus(t, c.As(read).Get(unknownPath), http.StatusOK)
}
