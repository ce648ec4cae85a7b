package otlp_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// seen is a span as an exporter sends it.
type seen struct {
	scope, name string
	kind        ptrace.SpanKind
	attributes  map[string]any
}

// send decodes a body with spans.
func send(t testing.TB, all ...seen) otlp.Batch {
	t.Helper()
	body := ptrace.NewTraces()
	for i, s := range all {
		ss := body.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
		ss.Scope().SetName(s.scope)
		span := ss.Spans().AppendEmpty()
		span.SetName(s.name)
		span.SetKind(s.kind)

		if s.name != "without ids" {
			span.SetTraceID([16]byte{1})
			span.SetSpanID([8]byte{1, byte(i >> 8), byte(i)})
		}
		if err := span.Attributes().FromRaw(s.attributes); err != nil {
			t.Fatal(err)
		}
	}

	raw, err := new(ptrace.ProtoMarshaler).MarshalTraces(body)
	if err != nil {
		t.Fatal(err)
	}
	b, err := otlp.DecodeTraces(otlp.TypeProtobuf, raw)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type attrs = map[string]any

// TestWhatMakesNoRowIsCounted: O5, O10: which spans are understood, which are not although they look
// like an agent's, and which are none of ours.
func TestWhatMakesNoRowIsCounted(t *testing.T) {
	t.Parallel()
	const client, server = ptrace.SpanKindClient, ptrace.SpanKindServer
	const internal = ptrace.SpanKindInternal
	for _, tt := range []struct {
		about string
		span  seen
		want  otlp.Rowless // zero: it makes a row
	}{
		{"an agent", seen{"x", "invoke_agent a", internal, attrs{"gen_ai.operation.name": "invoke_agent"}}, otlp.Rowless{}},
		{"a model call by a single attribute", seen{"x", "x", client, attrs{"llm.model_name": "m"}}, otlp.Rowless{}},
		{
			"known, without a row", seen{"s", "embed", client, attrs{"gen_ai.operation.name": "embeddings"}},
			otlp.Rowless{otlp.NoRow, "s", "gen_ai.operation.name", "embeddings"},
		},
		{"known by its name only", seen{"s", "turn", internal, nil}, otlp.Rowless{otlp.NoRow, "s", "", "INTERNAL"}},
		{
			"a new kind of a known convention", seen{"s", "x", internal, attrs{"openinference.span.kind": "PLANNER"}},
			otlp.Rowless{otlp.NotUnderstood, "s", "openinference.span.kind", "PLANNER"},
		},
		{
			"a new operation", seen{"s", "x", internal, attrs{"gen_ai.operation.name": "dream"}},
			otlp.Rowless{otlp.NotUnderstood, "s", "gen_ai.operation.name", "dream"},
		},
		{
			"another convention, in quotes", seen{"s", "x", internal, attrs{"acme.spanType": `"AGENT"`}},
			otlp.Rowless{otlp.NotUnderstood, "s", "acme.spanType", "AGENT"},
		},
		{
			"another convention, with points", seen{"s", "x", internal, attrs{"acme.span.type": "llm"}},
			otlp.Rowless{otlp.NotUnderstood, "s", "acme.span.type", "llm"},
		},
		{
			"another convention, its run type", seen{"s", "x", internal, attrs{"run_type": "chain"}},
			otlp.Rowless{otlp.NotUnderstood, "s", "run_type", "chain"},
		},
		{
			"an attribute of a known convention", seen{"s", "record", internal, attrs{"gen_ai.dream": 5}},
			otlp.Rowless{otlp.NotUnderstood, "s", "", "INTERNAL"},
		},
		{
			"an unknown attribute of a known subject", seen{"s", "x", internal, attrs{"acme.promptText": "p"}},
			otlp.Rowless{otlp.NotUnderstood, "s", "", "INTERNAL"},
		},
		{
			"only the scope", seen{"acme-llm-sdk", "x", internal, nil}, otlp.Rowless{
				otlp.NotUnderstood, "acme-llm-sdk", "", "INTERNAL",
			},
		},
		{"only the name", seen{"acme", "Agent.run", internal, nil}, otlp.Rowless{otlp.NotUnderstood, "acme", "", "INTERNAL"}},
		{
			"a name whose capitals are not ASCII", seen{"acme", "ÄAI", internal, nil},
			otlp.Rowless{otlp.Unrelated, "acme", "", "INTERNAL"},
		},
		{
			"words that only contain others", seen{"acme", "fulfillment of language", internal, attrs{"maintained": true}},
			otlp.Rowless{otlp.Unrelated, "acme", "", "INTERNAL"},
		},
		{
			"a type that is no agent's", seen{
				"next.js", "render", internal, attrs{"next.span_type": "BaseServer.handleRequest"},
			}, otlp.Rowless{otlp.Unrelated, "next.js", "", "INTERNAL"},
		},
		{
			"a request to a page about agents",
			seen{"http", "GET /agents/{id}", server, attrs{"http.route": "/agents/{id}", "user_agent.original": "x"}},
			otlp.Rowless{otlp.Unrelated, "http", "", "SERVER"},
		},
		{
			"a request to a provider", seen{
				"httpx", "POST", client, attrs{
					"http.request.method": "POST", "url.full": "https://api.openai.com/v1/chat/completions",
				},
			}, otlp.Rowless{otlp.Unrelated, "httpx", "", "CLIENT"},
		},
		{
			"a query of a program about agents",
			seen{"agent-shop", "SELECT", client, attrs{"db.system.name": "postgresql", "db.operation.name": "SELECT"}},
			otlp.Rowless{otlp.Unrelated, "agent-shop", "", "CLIENT"},
		},
		{
			"a message between agents", seen{
				"bus", "process", ptrace.SpanKindConsumer, attrs{"messaging.destination": "x", "sender_agent_type": "y"},
			}, otlp.Rowless{otlp.Unrelated, "bus", "", "CONSUMER"},
		},
		{
			"a request with an agent's attributes",
			seen{"bus", "POST", client, attrs{"http.method": "POST", "llm.answer": "y"}},
			otlp.Rowless{otlp.NotUnderstood, "bus", "", "CLIENT"},
		},
		{"nothing", seen{"", "", 0, nil}, otlp.Rowless{otlp.Unrelated, "", "", "UNSPECIFIED"}},
		{"a kind that does not exist", seen{"", "", 77, nil}, otlp.Rowless{otlp.Unrelated, "", "", "UNSPECIFIED"}},
		{
			"no ids", seen{"s", "without ids", client, attrs{"b": 1, "a": "secret"}},
			otlp.Rowless{otlp.Rejected, "s", "", "CLIENT"},
		},
	} {
		t.Run(tt.about, func(t *testing.T) {
			t.Parallel()
			got, want := send(t, tt.span).Rowless, otlp.Tally{}
			if tt.want != (otlp.Rowless{}) {
				want[tt.want] = &otlp.Example{Count: 1, Attributes: slices.Sorted(maps.Keys(tt.span.attributes))}
			}

			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRealFrameworksAreUnderstood: no span of the captures that come out right looks like an agent's
// without being understood.
func TestRealFrameworksAreUnderstood(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/fixtures/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("names = %v, %v", names, err)
	}

	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := otlp.DecodeTraces(otlp.TypeJSON, body)
		if err != nil {
			t.Fatal(err)
		}

		for k := range b.Rowless {
			if k.Reason == otlp.NotUnderstood {
				t.Errorf("%s: %+v", name, k)
			}
		}
	}
}

// TestTalliesAreBounded, whatever is sent, and hold names only.
func TestTalliesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5_000)
	var all []seen
	for i := range 2_000 {
		attributes := attrs{"openinference.span.kind": fmt.Sprint(i, "\x00\xff\x1b[2J", long)}
		for j := range 100 {
			attributes[fmt.Sprint(long[:900], "é\x00\xff", j)] = "secret"
			attributes[fmt.Sprint("k", j)] = "secret"
		}
		all = append(all, seen{fmt.Sprint(i, long), "n", 1, attributes})
	}

	b := send(t, all...)
	count := 0
	for k, e := range b.Rowless {
		count += e.Count
		for _, s := range append([]string{k.Scope, k.Attribute, k.Kind}, e.Attributes...) {
			if len(s) > 100 || !utf8.ValidString(s) || strings.Contains(s, "\x00") || strings.Contains(s, "secret") {
				t.Fatalf("s = %q", s)
			}
		}
		if len(e.Attributes) > otlp.MaxExampleNames {
			t.Fatalf("%d names", len(e.Attributes))
		}
	}

	if rest := b.Rowless[otlp.Rowless{Reason: otlp.NotUnderstood}]; len(b.Rowless) != 201 || rest == nil ||
		rest.Count != 1_800 || count != 2_000 {
		t.Errorf("%d kinds of %d spans, the rest is %+v", len(b.Rowless), count, rest)
	}
}

// TestWarningOfWhatMeansNothing: O5: the answer warns only if no span of the body is understood, and
// some look like an agent's.
func TestWarningOfWhatMeansNothing(t *testing.T) {
	t.Parallel()
	agents := seen{"acme\n", "x", 1, attrs{"acme.span.kind": "AGENT"}}
	request := seen{"httpx", "GET", 3, attrs{"http.request.method": "GET"}}

	for _, tt := range []struct {
		about string
		body  []seen
		want  bool
	}{
		{"nothing is understood", []seen{agents, request, agents}, true},
		{"only requests", []seen{request}, false},
		{"something is understood", []seen{agents, {"x", "x", 1, attrs{"gen_ai.operation.name": "chat"}}}, false},
		{"something is known", []seen{agents, {"x", "turn", 1, nil}}, false},
	} {
		t.Run(tt.about, func(t *testing.T) {
			t.Parallel()
			b := send(t, tt.body...)
			answer, err := b.Answer(otlp.TypeProtobuf)
			if err != nil {
				t.Fatal(err)
			}

			rejected, reason, err := otlp.Partial(answer)
			if err != nil || rejected != 0 || (reason != "") != tt.want || tt.want &&
				(!strings.Contains(reason, `"acme\n", kind "AGENT"`) || !strings.Contains(reason, otlp.RowlessPath)) {
				t.Errorf("rejected %d, %q, %v", rejected, reason, err)
			}
		})
	}
}

// TestLogsOfNoSpanAreCounted by the name of their event.
func TestLogsOfNoSpanAreCounted(t *testing.T) {
	t.Parallel()
	all := plog.NewLogs()
	scope := all.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty()
	scope.Scope().SetName("app")
	for i := range 4 {
		l := scope.LogRecords().AppendEmpty()
		l.Attributes().PutStr("z", "secret")
		switch i {
		case 0:
			l.SetEventName("started")
		case 1:
			l.Attributes().PutStr("event.name", "started")
		case 3:
			l.SetTraceID([16]byte{1})
			l.SetSpanID([8]byte{1})
		}
	}

	raw, err := new(plog.ProtoMarshaler).MarshalLogs(all)
	if err != nil {
		t.Fatal(err)
	}
	b, err := otlp.DecodeLogs(otlp.TypeProtobuf, raw)
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(otlp.Tally{
		{Reason: otlp.NoSpan, Scope: "app", Attribute: "event.name", Kind: "started"}: {Count: 2, Attributes: []string{"z"}},
		{Reason: otlp.NoSpan, Scope: "app"}:                                           {Count: 1, Attributes: []string{"z"}},
	}, b.Rowless); diff != "" || b.Ignored != 3 {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
