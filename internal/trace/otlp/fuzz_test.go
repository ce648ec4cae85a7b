package otlp_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// maxFuzzed bounds the bytes of an input. A larger one takes longer and shows nothing more: what
// matters about bodies, such as their nesting and their limits, fits or has tests of its own.
const maxFuzzed = 8 << 10

// minimizeLess lets the fuzzer minimize less, unless -fuzzminimizetime says otherwise: by default it spends up to a
// minute on each input that reaches new code.
//
// N25: FuzzDecode and FuzzCut ran 12 and 23 times in two minutes.
func minimizeLess(f *testing.F) {
	f.Helper()
	if minimize := flag.Lookup("test.fuzzminimizetime"); minimize.Value.String() == minimize.DefValue {
		if err := minimize.Value.Set("100x"); err != nil {
			f.Fatal(err)
		}
	}
}

// seeds returns small bodies with the spans of the fixtures, as protobuf and as JSON. It also minimizes less.
func seeds(f *testing.F) (bodies [][]byte) {
	f.Helper()
	minimizeLess(f)
	for _, files := range fixtures {
		contentType := otlp.TypeJSON
		if strings.HasSuffix(files[0], ".pb") {
			contentType = otlp.TypeProtobuf
		}

		parts, err := otlp.Cut(contentType, read(f, files[0]), maxFuzzed/4, 3)
		if err != nil {
			f.Fatal(err)
		}

		for _, p := range parts {
			spans, err := new(ptrace.ProtoUnmarshaler).UnmarshalTraces(p.Body)
			if err != nil {
				f.Fatal(err)
			}
			asJSON, err := new(ptrace.JSONMarshaler).MarshalTraces(spans)
			if err != nil {
				f.Fatal(err)
			}

			for _, body := range [][]byte{p.Body, asJSON} {
				if len(body) <= maxFuzzed/2 {
					bodies = append(bodies, body)
				}
			}
		}
	}
	return bodies
}

// FuzzDecode: every body is read or refused, and spans that were read can be stored and projected.
func FuzzDecode(f *testing.F) {
	for _, body := range seeds(f) {
		f.Add(body, body[0] != '{', false)
	}

	f.Add(
		[]byte(
			`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"traceId":"01000000000000000000000000000000","spanId":"0200000000000000","body":{"kvlistValue":{"values":[{"key":"\u0000"}]}}}]}]}]}`,
		), false, true,
	)
	f.Add(nested(3), true, false)
	for _, name := range []string{"nan.json", "cut.json"} {
		f.Add(read(f, name), false, false)
	}

	f.Fuzz(func(t *testing.T, body []byte, proto, logs bool) {
		if len(body) > maxFuzzed {
			return
		}

		contentType, decode := otlp.TypeJSON, otlp.DecodeTraces
		if proto {
			contentType = otlp.TypeProtobuf
		}
		if logs {
			decode = otlp.DecodeLogs
		}

		batch, err := decode(contentType, body)
		if err != nil {
			if batch.Spans != nil {
				t.Fatalf("spans beside %v", err)
			}
			return
		}

		before, after := lines(t, otlp.Project(batch.Spans)), lines(t, otlp.Project(kept(t, batch.Spans)))
		if before != after {
			t.Fatalf("stored spans have other rows:\n%s\n%s", before, after)
		}
		if err := check(otlp.Project(batch.Spans)); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzProject: any spans make a valid tree, or none, in any order.
func FuzzProject(f *testing.F) {
	for _, path := range scripts(f) {
		b, err := json.Marshal(readScript(f, path))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}

	id := func(n int) string { return fmt.Sprintf("%016x", n) }
	ring := []otlp.Span{}
	for i := range 6 {
		ring = append(ring, otlp.Span{
			TraceID: strings.Repeat("b", 32), SpanID: id(i + 1), ParentID: id((i+1)%3 + 1),
			Name: []string{"execute_tool a", "call_llm"}[i%2],
		})
	}

	b, err := json.Marshal(ring)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)

	f.Fuzz(func(t *testing.T, b []byte) {
		var spans []otlp.Span
		if json.Unmarshal(b, &spans) != nil {
			return
		}
		changes := otlp.Project(spans)
		if err := check(changes); err != nil {
			t.Fatalf("check(changes) = %v\n%s", err, lines(t, changes))
		}

		slices.Reverse(spans)
		if got, want := lines(t, otlp.Project(spans)), lines(t, changes); got != want {
			t.Fatalf("in reverse:\n%s\n%s", got, want)
		}

		models := map[string]bool{}
		for _, c := range changes {
			if cycle, ok := c.(*record.ThinkAct); ok && cycle.SpanID != nil {
				models[*cycle.SpanID] = true
			}
		}
		if len(models) > len(spans) {
			t.Fatalf("%d model calls of %d spans", len(models), len(spans))
		}
	})
}

// FuzzTexts: whatever stands where messages, arguments and results do, rows come of it, and the record has it as it was
// sent.
func FuzzTexts(f *testing.F) {
	minimizeLess(f)
	for _, text := range []string{
		`[{"role":"user","content":"Which la\u67`,
		`{"messages":[{"role":"user","parts":[{"type":"text","content":"a","x":NaN}]},{"role":"assi... [truncated]`,
		`[{"role":"assistant","content":"[{\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]"}]`,
		`{'role': 'assistant', 'text': "It's so.", 'x': (None, -inf)}`, `"a text"`,
	} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxFuzzed {
			return
		}
		value := `{"stringValue":` + quoted(t, text) + `}`
		attributes := func(keys ...string) string {
			for i, key := range keys {
				keys[i] = `{"key":"` + key + `","value":` + value + `}`
			}
			return strings.Join(keys, ",")
		}

		body := `{"resourceSpans":[{"scopeSpans":[{"spans":[` +
			`{"traceId":"01000000000000000000000000000000","spanId":"0100000000000000","name":"call_llm","startTimeUnixNano":"1","endTimeUnixNano":"2","attributes":[` +
			attributes("gen_ai.input.messages", "gen_ai.output.messages", "input.value", "output.value", "metadata",
				"mlflow.spanInputs", "gen_ai.response.tool_calls") + `]},` +
			`{"traceId":"01000000000000000000000000000000","spanId":"0200000000000000","name":"execute_tool x","startTimeUnixNano":"1","endTimeUnixNano":"2","attributes":[` +
			attributes("gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "lmnr.span.input") + `]}]}]}]}`

		batch, err := otlp.DecodeTraces(otlp.TypeJSON, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		changes := otlp.Project(batch.Spans)
		if err := check(changes); err != nil {
			t.Fatal(err)
		}
		if before, after := lines(t, changes), lines(t, otlp.Project(kept(t, batch.Spans))); before != after {
			t.Fatalf("stored spans have other rows:\n%s\n%s", before, after)
		}

		sent := batch.Spans[0].Attributes.Get("gen_ai.input.messages")
		for _, c := range changes {
			if cycle, ok := c.(*record.ThinkAct); ok && cycle.SpanID != nil && cycle.ThinkInput != nil &&
				*cycle.ThinkInput != sent {
				t.Fatalf("%q became %q", sent, *cycle.ThinkInput)
			}
		}
	})
}

// FuzzCut: the parts of any body that can be read hold the same spans.
func FuzzCut(f *testing.F) {
	for _, body := range seeds(f) {
		f.Add(body, body[0] != '{', 2_000, 3)
	}
	f.Add(nested(3), true, 1, 1)
	f.Add([]byte("\x8a\x00\x04\x12\x02\x12\x00\x0a\x00"), true, 1, 1) // a tag that is longer than necessary

	f.Fuzz(func(t *testing.T, body []byte, proto bool, maxBytes, maxCount int) {
		if len(body) > maxFuzzed {
			return
		}

		contentType := otlp.TypeJSON
		if proto {
			contentType = otlp.TypeProtobuf
		}
		maxCount = max(1, min(maxCount, otlp.MaxSpans))

		parts, err := otlp.Cut(contentType, body, maxBytes, maxCount)
		whole, readErr := otlp.DecodeTraces(contentType, body)
		if readErr != nil || len(whole.Spans)+whole.Rejected == 0 {
			return // logs, too much for one request, or nothing
		}
		if err != nil {
			t.Fatal(err)
		}

		var joined []byte
		count := 0
		for _, p := range parts {
			if p.Count < 1 || p.Count > maxCount || p.Signal != otlp.Traces {
				t.Fatalf("a part of %d %s", p.Count, p.Signal)
			}
			joined, count = append(joined, p.Body...), count+p.Count
		}
		got, err := otlp.DecodeTraces(otlp.TypeProtobuf, joined)
		if err != nil || count != len(whole.Spans)+whole.Rejected || !reflect.DeepEqual(got.Spans, whole.Spans) {
			t.Fatalf("%d spans, %v:\n%s", count, err, cmp.Diff(whole.Spans, got.Spans))
		}
	})
}
