package store_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/trace/otlp"
)

// agentSpans makes n spans of one agent. It takes turns of one model call and two tool calls.
// Each span has two texts of 1 KiB.
func agentSpans(n int, text func(int) *string) []otlp.Span {
	spans := make([]otlp.Span, n)
	resource := otlp.Attributes{{Key: "service.name", Value: otlp.Value{Text: "shop"}}}
	for i := range spans {
		var a otlp.Attributes
		name := "execute_tool search"
		switch {
		case i == 0:
			name = "invoke_agent planner"
			a = attributes("gen_ai.agent.name", "planner", "gen_ai.input.messages", *text(1024), "gen_ai.operation.name",
				"invoke_agent", "gen_ai.output.messages", *text(1024))
		case i%3 == 1:
			name = "chat m"
			a = attributes("gen_ai.input.messages", *text(1024), "gen_ai.operation.name", "chat", "gen_ai.output.messages",
				*text(1024), "gen_ai.request.model", "m",
				"gen_ai.usage.input_tokens", "100", "gen_ai.usage.output_tokens", "10")
		default:
			a = attributes("gen_ai.operation.name", "execute_tool", "gen_ai.tool.call.arguments", *text(1024),
				"gen_ai.tool.call.id", fmt.Sprint("call_", i),
				"gen_ai.tool.call.result", *text(1024), "gen_ai.tool.name", "search")
		}

		start := at(0).UnixNano() + int64(i)*1_000_000
		spans[i] = otlp.Span{SpanID: fmt.Sprintf("%016x", i+1), ParentID: fmt.Sprintf("%016x", 1), Name: name, Start: start,
			End: start + 900_000, Attributes: a,
			Scope: otlp.Scope{Name: "shop"}, Resource: resource}
	}

	spans[0].ParentID, spans[0].End = "", at(0).UnixNano()+int64(n)*1_000_000
	return spans
}

func attributes(pairs ...string) (a otlp.Attributes) {
	for i := 0; i < len(pairs); i += 2 {
		a = append(a, otlp.Attribute{Key: pairs[i], Value: otlp.Value{Text: pairs[i+1]}})
	}
	return a
}

// BenchmarkReplaceTraces measures spans per second, encoding included. Four callers at once send
// traces of 100 spans: one whole trace per call, five whole traces per call, or a trace in ten
// parts.
func BenchmarkReplaceTraces(b *testing.B) {
	spans := agentSpans(100, sourceText(b))
	for _, bench := range []struct {
		name          string
		traces, parts int
	}{{"whole", 1, 1}, {"five", 5, 1}, {"parts", 1, 10}} {
		b.Run(bench.name, func(b *testing.B) {
			s := storetest.Open(b, takeTraces, func(c *store.Config) { c.MaxConns = 16 })
			var n atomic.Int64
			b.SetParallelism(2)
			b.ResetTimer() // opening may have started a server

			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					var sent []otlp.Span
					for range bench.traces {
						sent = append(sent, withTraceID(spans, traceID(int(n.Add(1))))...)
					}
					for part := range slices.Chunk(sent, len(sent)/bench.parts) {
						writeSpans(b, s, part...)
					}
				}
			})
			b.ReportMetric(float64(n.Load()*100)/b.Elapsed().Seconds(), "spans/s")
		})
	}
}
