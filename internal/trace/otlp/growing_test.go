package otlp_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// growing checks that a trace that grows has at every moment the rows that its spans so far make at
// once. The spans arrive in parts of up to most spans.
func growing(t testing.TB, spans []otlp.Span, most int, r *rand.Rand) {
	t.Helper()
	if len(spans) == 0 {
		return
	}

	p := otlp.NewProjection(spans[0].TraceID)
	rows := map[record.Key]record.Change{}
	for from := 0; from < len(spans); {
		to := min(len(spans), from+1+r.IntN(most))
		if r.IntN(2) == 0 { // as they are kept
			chunk, err := encode(spans[from:to])
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Add([][]byte{chunk}, nil); err != nil {
				t.Fatal(err)
			}
		} else if err := p.Add(nil, [][]otlp.Span{spans[from:to]}); err != nil {
			t.Fatal(err)
		}
		from = to

		changed, gone := p.Changes()
		for _, key := range gone {
			if rows[key] == nil {
				t.Fatalf("after %d of %d spans %+v is gone, but was not there", to, len(spans), key)
			}
			delete(rows, key)
		}
		for _, c := range changed {
			rows[c.Key()] = c
		}

		want := otlp.Project(spans[:to])
		live := slices.ContainsFunc(want, func(c record.Change) bool { return !terminal(c) })
		if got, want := sortedLines(t, rows), sortedLines(t, byKey(want)); got != want || p.Live() != live {
			t.Fatalf("after %d of %d spans, live %v, want %v; rows that differ:\n%s\nat once:\n%s", to, len(spans), p.Live(),
				live, without(got, want), without(want, got))
		}
		if changed, gone = p.Changes(); len(changed)+len(gone) > 0 {
			t.Fatalf("%d changes and %d gone without a span", len(changed), len(gone))
		}
	}
}

// without returns the lines of a that b does not have.
func without(a, b string) string {
	other := strings.Split(b, "\n")
	return strings.Join(slices.DeleteFunc(strings.Split(a, "\n"), func(line string) bool {
		return slices.Contains(other, line)
	}), "\n")
}

func terminal(c record.Change) bool {
	switch c := c.(type) {
	case *record.Plan:
		return c.State.Terminal()
	case *record.AgentExecution:
		return c.State.Terminal()
	case *record.ThinkAct:
		return c.State.Terminal()
	case *record.ActTool:
		return c.State.Terminal()
	}
	return true
}

func byKey(changes []record.Change) map[record.Key]record.Change {
	rows := map[record.Key]record.Change{}
	for _, c := range changes {
		rows[c.Key()] = c
	}
	return rows
}

func sortedLines(t testing.TB, rows map[record.Key]record.Change) string {
	t.Helper()
	var all []string
	for _, c := range rows {
		all = append(all, lines(t, []record.Change{c}))
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// P1: random traces, with rings of parents, repeated ids and so on, while they grow.
func TestRandomTracesGrow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		spans := randomTrace(t, r)
		spans = append(spans, spans[:r.IntN(len(spans))]...)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { growing(t, spans, 5, r) })
	}
}

// P1: long traces of several shapes while they grow, children first, as exporters send them.
func TestLongTracesGrow(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := shaped(300, shape)
			slices.SortStableFunc(spans, func(a, b otlp.Span) int { return int(a.End - b.End) })
			growing(t, spans, 20, rand.New(rand.NewPCG(1, 1)))
		})
	}
}

// P1: one long step with calls that are named alike, results that come late, other agents that work for
// calls, and clocks that go wrong, while it grows in about the order of time.
func TestRandomStepsGrow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3))
		spans := randomStep(r)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { growing(t, spans, 6, r) })
	}
}

func randomStep(r *rand.Rand) (spans []otlp.Span) {
	const ms = 1_000_000
	oneIn := func(n int) bool { return r.IntN(n) == 0 }
	call := func() (id, name string) { return fmt.Sprintf("c%d", r.IntN(8)), string(rune('a' + r.IntN(2))) }

	sort := map[*otlp.Span]int64{}
	var all []*otlp.Span
	add := func(parent, name string, start, end int64, attributes map[string]string) string {
		s := &otlp.Span{
			TraceID: strings.Repeat("b", 32), SpanID: fmt.Sprintf("%016x", len(all)+2), ParentID: parent, Name: name,
			Start: start * ms, End: end * ms,
		}
		for _, key := range slices.Sorted(maps.Keys(attributes)) {
			s.Attributes = append(s.Attributes, otlp.Attribute{Key: key, Value: otlp.Value{Text: attributes[key]}})
		}

		if oneIn(8) { // it arrives twice, first before it ends
			early := *s
			early.End = 0
			all = append(all, &early)
			sort[&early] = start + r.Int64N(10)
		}
		all = append(all, s)
		sort[s] = max(start, end) + r.Int64N(10)
		return s.SpanID
	}

	withInputs, agent := !oneIn(4), "0000000000000001"
	for now := int64(10); now < 60; now += r.Int64N(4) {
		end := now + r.Int64N(5) - 1 // which may be before
		id, name := call()
		switch r.IntN(8) {
		case 0, 1, 2:
			attributes := map[string]string{"gen_ai.operation.name": "chat"}
			if withInputs && !oneIn(3) {
				attributes["gen_ai.input.messages"] = fmt.Sprintf(
					`[{"role":"tool","parts":[{"type":"tool_call_response","id":%q,"response":"%d"}]}]`, id, r.IntN(3),
				)
			}
			if !oneIn(3) {
				id, name = call()
				attributes["gen_ai.output.messages"] = fmt.Sprintf(
					`[{"role":"assistant","parts":[{"type":"tool_call","id":%q,"name":%q,"arguments":{}}]}]`, id, name,
				)
			} else if oneIn(2) {
				attributes["gen_ai.response.finish_reasons"] = `["tool_calls"]`
			}

			parent := add(agent, "chat", now, end, attributes)
			if oneIn(4) {
				add(parent, "execute_tool "+name, now, end, map[string]string{"gen_ai.operation.name": "execute_tool"})
			}
		case 3, 4, 5:
			attributes := map[string]string{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
			if oneIn(2) {
				attributes["gen_ai.tool.call.id"] = id
			}
			if oneIn(4) {
				attributes["gen_ai.tool.call.result"] = "done"
			}
			if oneIn(3) {
				attributes["gen_ai.tool.call.arguments"] = `{"coworker":"x"}`
			}

			parent := add(agent, "execute_tool "+name, now, end, attributes)
			if oneIn(3) {
				add(parent, "chat", now, end, map[string]string{
					"gen_ai.operation.name":  "chat",
					"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"y"}]}]`,
				})
			}
		case 6:
			if oneIn(4) {
				add(agent, "execute_tool (merged)", now, end, map[string]string{
					"gcp.vertex.agent.tool_response": fmt.Sprintf(
						`{"content":{"parts":[{"function_response":{"id":%q,"name":%q,"response":{"result":"r"}}}]}}`, id, name,
					),
				})
			}
		case 7:
			wrapper := add(agent, "turn", now, end, map[string]string{
				"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name,
			})
			add(wrapper, "chat", now, end, map[string]string{"gen_ai.operation.name": "chat"})
		}
	}

	if !oneIn(4) {
		root := &otlp.Span{TraceID: strings.Repeat("b", 32), SpanID: agent, Name: "invoke_agent", Start: 9 * ms, End: 70 * ms,
			Attributes: otlp.Attributes{{Key: "gen_ai.operation.name", Value: otlp.Value{Text: "invoke_agent"}}}}
		all, sort[root] = append(all, root), r.Int64N(80)
	}

	slices.SortStableFunc(all, func(a, b *otlp.Span) int { return cmp.Compare(sort[a], sort[b]) })
	for _, s := range all {
		spans = append(spans, *s)
	}
	return spans
}

// P1: a later version of one span changes rows of others.
func TestLaterVersionsGrow(t *testing.T) {
	t.Parallel()
	for name, trace := range map[string][]string{
		"the result of a call, in the input of the next model call": {
			`{"spanId":"0000000000000001","parentId":"0000000000000009","name":"chat","start":1,"end":2,"attributes":{"gen_ai.operation.name":"chat","gen_ai.output.messages":[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"a","arguments":{}}]}]}}`,
			`{"spanId":"0000000000000002","parentId":"0000000000000009","name":"chat","start":3,"attributes":{"gen_ai.operation.name":"chat","gen_ai.input.messages":[{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"r"}]}]}}`,
			`{"spanId":"0000000000000002","parentId":"0000000000000009","name":"chat","start":3,"end":4,"attributes":{"gen_ai.operation.name":"chat","gen_ai.input.messages":[{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"another"}]}]}}`,
		},
		"what an agent is asked, in the arguments of its call": {
			`{"spanId":"0000000000000001","name":"chat","start":1,"end":2,"attributes":{"gen_ai.operation.name":"chat"}}`,
			`{"spanId":"0000000000000002","name":"execute_tool a","start":3,"attributes":{"gen_ai.operation.name":"execute_tool","gen_ai.tool.call.arguments":"{\"task\":\"this\"}"}}`,
			`{"spanId":"0000000000000003","parentId":"0000000000000002","name":"invoke_agent b","start":4,"end":5,"attributes":{"gen_ai.operation.name":"invoke_agent"}}`,
			`{"spanId":"0000000000000004","parentId":"0000000000000003","name":"chat","start":4,"end":5,"attributes":{"gen_ai.operation.name":"chat"}}`,
			`{"spanId":"0000000000000002","name":"execute_tool a","start":3,"end":6,"attributes":{"gen_ai.operation.name":"execute_tool","gen_ai.tool.call.arguments":"{\"task\":\"that\"}"}}`,
		},
		"the result of a call, in an input that comes after a model call without input": {
			`{"spanId":"0000000000000001","parentId":"0000000000000009","name":"chat","start":1,"end":2,"attributes":{"gen_ai.operation.name":"chat","gen_ai.output.messages":[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"a","arguments":{}}]}]}}`,
			`{"spanId":"0000000000000002","parentId":"0000000000000009","name":"chat","start":3,"end":4,"attributes":{"gen_ai.operation.name":"chat"}}`,
			`{"spanId":"0000000000000003","parentId":"0000000000000009","name":"chat","start":5,"end":6,"attributes":{"gen_ai.operation.name":"chat"}}`,
			`{"spanId":"0000000000000004","parentId":"0000000000000009","name":"chat","start":7,"end":8,"attributes":{"gen_ai.operation.name":"chat","gen_ai.input.messages":[{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"r"}]}]}}`,
		},
		"a result beside its call": {
			`{"spanId":"0000000000000001","name":"invoke_agent a","start":1,"attributes":{"gen_ai.operation.name":"invoke_agent"}}`,
			`{"spanId":"0000000000000002","parentId":"0000000000000001","name":"execute_tool t","start":2,"end":3,"attributes":{"gen_ai.operation.name":"execute_tool","gen_ai.tool.name":"t","gen_ai.tool.call.id":"c"}}`,
			`{"spanId":"0000000000000003","parentId":"0000000000000001","name":"execute_tool (merged)","start":2,"end":4,"attributes":{"gcp.vertex.agent.tool_response":"{\"content\":{\"parts\":[{\"function_response\":{\"id\":\"c\",\"name\":\"t\",\"response\":{\"result\":\"r\"}}}]}}"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var spans []otlp.Span
			for _, line := range trace {
				var s otlp.Span
				if err := json.Unmarshal([]byte(line), &s); err != nil {
					t.Fatal(err)
				}
				s.TraceID = strings.Repeat("b", 32)
				spans = append(spans, s)
			}
			growing(t, spans, 1, rand.New(rand.NewPCG(1, 1)))
		})
	}
}
