package otlp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// longTrace returns a trace of n spans: an agent that takes turns, each with a model call and two tool
// calls.
func longTrace(n int) []otlp.Span {
	id := func(i int) string { return fmt.Sprintf("%016x", i+1) }
	at := func(i int) int64 { return (noon + int64(i)) * 1_000_000 }
	str := func(kv ...string) (a otlp.Attributes) {
		for i := 0; i < len(kv); i += 2 {
			a = append(a, otlp.Attribute{Key: kv[i], Value: otlp.Value{Text: kv[i+1]}})
		}
		return a
	}

	said := strings.Repeat("What the user said before. ", 40)
	spans := []otlp.Span{
		{
			SpanID: id(0), Name: "invoke_agent a", Start: at(0), End: at(10 * n),
			Attributes: str("gen_ai.agent.name", "a", "gen_ai.operation.name", "invoke_agent"),
		},
	}
	for i := 1; len(spans) < n; i += 4 {
		call := fmt.Sprintf("call_%d", i)
		spans = append(spans, []otlp.Span{
			{
				SpanID: id(i), ParentID: id(0), Name: "step", Start: at(i), End: at(i + 4),
				Attributes: str("gen_ai.operation.name", "agent_step"),
			},
			{SpanID: id(i + 1), ParentID: id(i), Name: "chat m", Start: at(i), End: at(i + 1), Attributes: str(
				"gen_ai.input.messages", `[{"role":"user","parts":[{"type":"text","content":"`+said+`"}]}]`,
				"gen_ai.operation.name", "chat",
				"gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"tool_call","id":"`+call+
					`","name":"t","arguments":{"q":1}},{"type":"tool_call","id":"`+call+`b","name":"u","arguments":{}}]}]`,
				"gen_ai.request.model", "m", "gen_ai.usage.input_tokens", "100", "gen_ai.usage.output_tokens", "10")},
			{SpanID: id(i + 2), ParentID: id(i), Name: "execute_tool t", Start: at(i + 1), End: at(i + 2),
				Attributes: str("gen_ai.operation.name", "execute_tool",
					"gen_ai.tool.call.arguments", `{"q":1}`, "gen_ai.tool.call.id", call, "gen_ai.tool.call.result", "r",
					"gen_ai.tool.name", "t")},
			{
				SpanID: id(i + 3), ParentID: id(i), Name: "execute_tool u", Start: at(i + 1), End: at(i + 2),
				Attributes: str("gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", "u"),
			},
		}...)
	}

	for i := range spans {
		spans[i].TraceID = strings.Repeat("d", 32)
	}
	return spans[:n]
}

func perSpan(b *testing.B, spans int) {
	b.Helper()
	b.ReportMetric(float64(b.N)*float64(spans)/b.Elapsed().Seconds(), "spans/s")
}

// shapes change a long trace in ways that could take quadratic time.
var shapes = map[string]func(i int, s *otlp.Span){
	"turns": func(int, *otlp.Span) {},
	"flat": func(i int, s *otlp.Span) {
		if i > 0 {
			s.ParentID = fmt.Sprintf("%016x", 1)
		}
	},
	"chain": func(i int, s *otlp.Span) {
		if i > 0 {
			s.ParentID = fmt.Sprintf("%016x", i)
		}
	},
	"orphans": func(i int, s *otlp.Span) { s.ParentID = fmt.Sprintf("%016x", i+1_000_000) },
	"ring": func(i int, s *otlp.Span) { // of two spans, with all others below the first
		s.ParentID = fmt.Sprintf("%016x", 1)
		if i == 0 {
			s.ParentID = fmt.Sprintf("%016x", 2)
		}
	},
	"one call id": func(_ int, s *otlp.Span) {
		for i := range s.Attributes {
			if s.Attributes[i].Key == "gen_ai.tool.call.id" {
				s.Attributes[i].Value.Text = "call_1"
			}
		}
	},
	"cut texts of one call": func(i int, s *otlp.Span) {
		if i > 1 {
			s.ParentID = fmt.Sprintf("%016x", 2)
		}

		name := fmt.Sprintf("gen_ai.input.messages.%d", i)
		s.Truncated = []string{"gen_ai.input.messages", name}
		s.Attributes = otlp.Attributes{
			{Key: "gen_ai.input.messages", Value: otlp.Value{Text: `[{"role":"user","content":"` + name}},
			{Key: "gen_ai.operation.name", Value: otlp.Value{Text: "chat"}},
		}
	},
	"asides in each other": func(i int, s *otlp.Span) {
		if i > 0 {
			s.ParentID = fmt.Sprintf("%016x", i)
			s.Attributes = otlp.Attributes{
				{Key: "gen_ai.operation.name", Value: otlp.Value{Text: "embeddings"}},
				{Key: "gen_ai.usage.cost", Value: otlp.Value{Text: "0.1"}},
			}
		}
	},
	"parts in each other": func(i int, s *otlp.Span) {
		s.Attributes = otlp.Attributes{{Key: "openinference.span.kind", Value: otlp.Value{Text: "CHAIN"}}}
		if i > 0 {
			s.ParentID = fmt.Sprintf("%016x", i)
		}
	},
	"tools": func(i int, s *otlp.Span) {
		if i > 0 {
			s.ParentID = fmt.Sprintf("%016x", 1)
			s.Attributes = otlp.Attributes{{Key: "gen_ai.operation.name", Value: otlp.Value{Text: "execute_tool"}}}
		}
	},
}

// fewRows are the shapes whose spans become a few rows.
var fewRows = map[string]bool{"cut texts of one call": true, "asides in each other": true}

func shaped(n int, shape func(i int, s *otlp.Span)) []otlp.Span {
	spans := longTrace(n)
	for i := range spans {
		shape(i, &spans[i])
	}
	return spans
}

func TestLongTraces(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if changes := project(t, shaped(2_000, shape)); len(changes) < 900 && !fewRows[name] {
				t.Errorf("%d rows", len(changes))
			}
		})
	}
}

// BenchmarkProject reports spans per second, which must not depend on the length of the trace.
func BenchmarkProject(b *testing.B) {
	for name, shape := range shapes {
		for _, n := range []int{20, 2_000, 20_000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				spans := shaped(n, shape)
				b.ReportAllocs()
				for b.Loop() {
					otlp.Project(spans)
				}
				perSpan(b, n)
			})
		}
	}
}

// BenchmarkFixtures decodes and projects what real exporters sent.
func BenchmarkFixtures(b *testing.B) {
	for name, files := range fixtures {
		b.Run(name, func(b *testing.B) {
			spans := len(decode(b, files...))
			b.ReportAllocs()
			for b.Loop() {
				otlp.Project(decode(b, files...))
			}
			perSpan(b, spans)
		})
	}
}
