package otlp_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// export is a body of one signal in both formats.
type export struct {
	signal      otlp.Signal
	proto, json []byte
}

func marshalled(t *testing.T, signal otlp.Signal, proto, json func() ([]byte, error)) export {
	t.Helper()
	p, err := proto()
	if err != nil {
		t.Fatal(err)
	}
	j, err := json()
	if err != nil {
		t.Fatal(err)
	}
	return export{signal, p, j}
}

func tracesWith(t *testing.T, change func(ptrace.Span)) export {
	t.Helper()
	all := ptrace.NewTraces()
	all.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty() // without items

	s := all.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID([16]byte{1})
	s.SetSpanID([8]byte{2})
	change(s)
	return marshalled(t, otlp.Traces, func() ([]byte, error) { return new(ptrace.ProtoMarshaler).MarshalTraces(all) },
		func() ([]byte, error) { return new(ptrace.JSONMarshaler).MarshalTraces(all) })
}

func logsWith(t *testing.T, change func(plog.LogRecord)) export {
	t.Helper()
	all := plog.NewLogs()
	all.ResourceLogs().AppendEmpty()
	change(all.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty())
	return marshalled(t, otlp.Logs, func() ([]byte, error) { return new(plog.ProtoMarshaler).MarshalLogs(all) },
		func() ([]byte, error) { return new(plog.JSONMarshaler).MarshalLogs(all) })
}

func metricsWith(t *testing.T, change func(pmetric.Metric)) export {
	t.Helper()
	all := pmetric.NewMetrics()
	m := all.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("http.server.duration")
	change(m)
	return marshalled(t, otlp.Metrics, func() ([]byte, error) { return new(pmetric.ProtoMarshaler).MarshalMetrics(all) },
		func() ([]byte, error) { return new(pmetric.JSONMarshaler).MarshalMetrics(all) })
}

// TestMisplaced checks that a body of one signal is recognized where another one is expected, and never
// where it belongs, whatever it holds. The beginning of a body is enough.
//
// N28: traces sent to /v1/logs were answered 200 and dropped.
func TestMisplaced(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]export{
		"span": tracesWith(t, func(s ptrace.Span) {
			s.SetName("n")
			s.SetKind(ptrace.SpanKindClient)
			s.SetStartTimestamp(5)
			s.SetEndTimestamp(6)
		}),
		"span without an end": tracesWith(t, func(s ptrace.Span) {
			s.SetStartTimestamp(5)
			s.TraceState().FromRaw("a=b")
			s.SetParentSpanID([8]byte{3})
		}),
		"span with more": tracesWith(t, func(s ptrace.Span) {
			s.SetStartTimestamp(5)
			s.Attributes().PutStr("a", strings.Repeat("x", 1000))
			s.Events().AppendEmpty().SetName("e")
			s.Links().AppendEmpty()
		}),
		"log with a time": logsWith(t, func(l plog.LogRecord) { l.SetTimestamp(7) }),
		"observed log": logsWith(t, func(l plog.LogRecord) {
			l.SetObservedTimestamp(7)
			l.Attributes().PutInt("n", 1)
		}),
		"log with a severity": logsWith(t, func(l plog.LogRecord) {
			l.SetSeverityNumber(plog.SeverityNumberError)
			l.SetSeverityText("ERROR")
		}),
		"log of a span": logsWith(t, func(l plog.LogRecord) {
			l.SetTimestamp(7)
			l.SetTraceID([16]byte{1})
			l.SetSpanID([8]byte{2})
			l.SetEventName("e")
		}),
		"log with a body": logsWith(t, func(l plog.LogRecord) { l.Body().SetStr("a line") }),
		"log with a map": logsWith(t, func(l plog.LogRecord) {
			l.Body().SetEmptyMap().PutStr("a", "b")
			l.SetTraceID([16]byte{1})
			l.SetSpanID([8]byte{2})
		}),
		"log without anything": logsWith(t, func(plog.LogRecord) {}),
		"log with attributes":  logsWith(t, func(l plog.LogRecord) { l.Attributes().PutStr("a", "b") }),
		"gauge": metricsWith(t, func(m pmetric.Metric) {
			m.SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(3)
		}),
		"gauge without a name": metricsWith(t, func(m pmetric.Metric) {
			m.SetName("")
			m.SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(3)
		}),
		"metric like a span": metricsWith(t, func(m pmetric.Metric) {
			m.SetName("sixteen.letters.")
			m.SetDescription("eight...")
			m.SetEmptyGauge().DataPoints().AppendEmpty()
		}),
		"sum": metricsWith(t, func(m pmetric.Metric) {
			m.SetUnit("ms")
			m.SetEmptySum().DataPoints().AppendEmpty().SetDoubleValue(3)
		}),
		"histogram": metricsWith(t, func(m pmetric.Metric) {
			m.SetEmptyHistogram().DataPoints().AppendEmpty().SetCount(3)
		}),
		"exponential histogram": metricsWith(t, func(m pmetric.Metric) {
			m.SetEmptyExponentialHistogram().DataPoints().AppendEmpty().SetCount(3)
		}),
		"summary": metricsWith(t, func(m pmetric.Metric) {
			m.SetEmptySummary().DataPoints().AppendEmpty().SetCount(3)
		}),
		"metric without data": metricsWith(t, func(pmetric.Metric) {}),
	} {
		// As protobuf, these could be of the other signal.
		vague := map[string]string{
			"log without anything": "metrics", "log with attributes": "metrics", "log with a body": "metrics",
			"log with a map":       "metrics",
			"gauge without a name": "traces logs", "metric without data": "traces logs",
		}[name]
		for contentType, body := range map[string][]byte{otlp.TypeProtobuf: e.proto, otlp.TypeJSON: e.json} {
			for _, own := range otlp.Signals {
				cut := append(bytes.Clone(body), body[:len(body)*2/3]...) // as if more followed
				for _, beginning := range [][]byte{body, cut} {
					if contentType == otlp.TypeProtobuf && strings.Contains(vague, string(own)) {
						continue
					}

					want := ""
					if own != e.signal {
						want = fmt.Sprintf("the body holds %s, not %s: send it to /v1/%s", e.signal, own, e.signal)
					}
					got := ""
					if err := otlp.Misplaced(own, contentType, beginning); err != nil {
						got = err.Error()
					}

					if got != want {
						t.Errorf("%s as %s to %s: %q, want %q", name, contentType, own.Path(), got, want)
					}
				}
			}
		}
	}
}
