package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/store"
)

// turns makes a trace of an agent that takes turns, each a model call and two tool
// calls, with two texts of 1 KiB a span.
func turns(n int, text func(int) *string) []otlp.Span {
	spans := make([]otlp.Span, n)
	resource := otlp.Attributes{{Key: "service.name", Value: otlp.Value{Text: "shop"}}}
	for i := range spans {
		var a otlp.Attributes
		name := "execute_tool search"
		switch {
		case i == 0:
			name = "invoke_agent planner"
			a = attributes("gen_ai.agent.name", "planner", "gen_ai.input.messages", *text(1024), "gen_ai.operation.name", "invoke_agent", "gen_ai.output.messages", *text(1024))
		case i%3 == 1:
			name = "chat m"
			a = attributes("gen_ai.input.messages", *text(1024), "gen_ai.operation.name", "chat", "gen_ai.output.messages", *text(1024), "gen_ai.request.model", "m",
				"gen_ai.usage.input_tokens", "100", "gen_ai.usage.output_tokens", "10")
		default:
			a = attributes("gen_ai.operation.name", "execute_tool", "gen_ai.tool.call.arguments", *text(1024), "gen_ai.tool.call.id", fmt.Sprint("call_", i),
				"gen_ai.tool.call.result", *text(1024), "gen_ai.tool.name", "search")
		}
		start := at(0).UnixNano() + int64(i)*1_000_000
		spans[i] = otlp.Span{SpanID: fmt.Sprintf("%016x", i+1), ParentID: fmt.Sprintf("%016x", 1), Name: name, Start: start, End: start + 900_000, Attributes: a,
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

// BenchmarkReplaceTraces shows spans a second, by four callers at once, encoding
// included: of traces of 100 spans, whole or in ten parts, and five whole ones a call.
func BenchmarkReplaceTraces(b *testing.B) {
	all, from := sources(b), 0
	spans := turns(100, func(n int) *string {
		if from += 7919; from+n > len(all) {
			from %= 7919
		}
		return new(all[from : from+n])
	})
	for _, bench := range []struct {
		name          string
		traces, parts int
	}{{"whole", 1, 1}, {"five", 5, 1}, {"parts", 1, 10}} {
		b.Run(bench.name, func(b *testing.B) {
			s := open(b, projecting, func(c *store.Config) { c.MaxConns = 16 })
			var n atomic.Int64
			b.SetParallelism(2)
			b.ResetTimer() // a server may have been started
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					var of []otlp.Span
					for range bench.traces {
						of = append(of, renamed(spans, traceID(int(n.Add(1))))...)
					}
					size := len(of) / bench.parts
					for len(of) > 0 {
						replace(b, s, of[:size]...)
						of = of[size:]
					}
				}
			})
			b.ReportMetric(float64(n.Load()*100)/b.Elapsed().Seconds(), "spans/s")
		})
	}
}
