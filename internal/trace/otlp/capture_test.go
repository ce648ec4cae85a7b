package otlp_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// captures is the folder with the runs of Python frameworks: one folder of bodies per run.
var captures = filepath.Join("testdata", "fixtures", "python")

// capture reads the bodies of a run, and returns its spans by trace, in the order in which the traces
// began to arrive. Metrics are left out.
func capture(t testing.TB, name string) (traces [][]otlp.Span) {
	t.Helper()
	bodies, err := filepath.Glob(filepath.Join(captures, name, "*.pb"))
	if err != nil || len(bodies) == 0 {
		t.Fatal(name, bodies, err)
	}

	at := map[string]int{}
	for _, path := range bodies {
		_, signal, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".pb"), "-")
		read := otlp.DecodeTraces
		switch signal {
		case "logs":
			read = otlp.DecodeLogs
		case "metrics":
			continue
		}

		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := read(otlp.TypeProtobuf, body)
		if err != nil || batch.Rejected > 0 {
			t.Fatalf("%s: %+v, %v", path, batch, err)
		}

		for _, s := range batch.Spans {
			i, ok := at[s.TraceID]
			if !ok {
				i = len(traces)
				at[s.TraceID] = i
				traces = append(traces, nil)
			}
			traces[i] = append(traces[i], s)
		}
	}
	return traces
}

// sums are the figures of a run.
type sums struct {
	roots, plans, calls, tools, failed int // sub-plans are plans; failed counts tool calls
	input, output                      int64
	cacheRead, cacheWrite, reasoning   int64
	micros                             int64 // told cost, in millionths of a dollar
}

func (s *sums) add(changes []record.Change) {
	r := sorted(changes)
	for _, p := range r.plans {
		s.plans++
		if p.IsRoot() {
			s.roots++
		}
	}

	for _, c := range r.cycles {
		if c.SpanID != nil {
			s.calls++
		}
		if c.CostUSD != nil {
			s.micros += int64(math.Round(*c.CostUSD * 1e6))
		}

		for to, n := range map[*int64]*int64{
			&s.input: c.InputTokens, &s.output: c.OutputTokens,
			&s.cacheRead: c.CacheReadInputTokens, &s.cacheWrite: c.CacheCreationInputTokens, &s.reasoning: c.ReasoningTokens,
		} {
			if n != nil {
				*to += *n
			}
		}
	}

	for _, tool := range r.tools {
		s.tools++
		if *tool.State == record.Failed {
			s.failed++
		}
	}
}

// TestCaptures: each run has the figures of its program, and the rows of its golden file. That has the
// shape of each tree before the rows.
func TestCaptures(t *testing.T) {
	t.Parallel()
	want := map[string]sums{
		// O3: the inner span of the failed call has the error, the outer one of the same name has none.
		"autogen-oi": {roots: 1, plans: 1, calls: 5, tools: 5, failed: 1, input: 500, output: 100},
		// O3, O6: tools start while the model streams; a child of the failed call and a log have the error.
		"claude-agent-sdk": {
			roots: 1, plans: 1, calls: 4, tools: 3, failed: 1, input: 400, output: 80, cacheRead: 120, cacheWrite: 40,
			micros: 2108,
		},
		// O6: "Delegate work to coworker" is delegate_work_to_coworker.
		"crewai": {roots: 1, plans: 2, calls: 7, tools: 5, failed: 1, input: 700, output: 140, cacheRead: 280, reasoning: 35},
		// O1: anthropic's own span is beside OpenLLMetry's of the same call. O9: gen_ai.usage.cache_write.input_tokens.
		"traceloop-anthropic": {
			roots: 1, plans: 2, calls: 6, tools: 5, failed: 1, input: 600, output: 120, cacheRead: 180, cacheWrite: 60,
		},
		// O1: spans that only report usage are no calls. O9: gen_ai.usage.thinking_tokens.
		"ag2": {roots: 1, plans: 2, calls: 6, tools: 5, failed: 1, input: 600, output: 120, cacheRead: 240, reasoning: 30},
		// O1: four calls in traces of their own, two below an agent whose span was overwritten. O9: the cost.
		"litellm": {
			roots: 5, plans: 6, calls: 6, tools: 5, failed: 1, input: 600, output: 120, cacheRead: 240, reasoning: 30,
			micros: 96,
		},
		// O5: the attributes of MLflow.
		"mlflow": {roots: 1, plans: 2, calls: 6, tools: 5, failed: 1, input: 600, output: 120, cacheRead: 240, reasoning: 30},
	}

	folders, err := filepath.Glob(filepath.Join(captures, "*", "main.py"))
	if err != nil || len(folders) < 7 {
		t.Fatalf("folders = %v, %v", folders, err)
	}
	for _, path := range folders {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got sums
			var b strings.Builder
			for _, spans := range capture(t, name) {
				changes := project(t, spans)
				if len(changes) > 0 {
					b.WriteString(outline(changes) + "\n" + lines(t, changes))
				}
				got.add(changes)
				anyOrder(t, spans)
			}

			golden(t, filepath.Join(captures, name+".golden"), b.String())
			if w, ok := want[name]; ok && got != w {
				t.Errorf("got  %+v\nwant %+v", got, w)
			}
		})
	}
}
