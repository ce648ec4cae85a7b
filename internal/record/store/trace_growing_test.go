package store_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// P1: a trace that arrives in parts, through two servers of which one is started anew now and then, has
// at every moment the tree that its spans so far make at once.
func TestTracesGrow(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is written in many orders")
	t.Parallel()
	url := pgtest.New(t).URL
	once := storetest.OpenURL(t, url, takeTraces)
	storetest.Upkeep(t, once, upkeep.Config{}) // adds partitions
	servers := []*store.Store{storetest.OpenURL(t, url, takeTraces), storetest.OpenURL(t, url, takeTraces)}

	fixtures, n := traceFixtures(t), 0
	fixtures["long"] = longTrace(t, 300)
	r := rand.New(rand.NewPCG(1, 1))
	for _, name := range slices.Sorted(maps.Keys(fixtures)) {
		for range 2 {
			n += 100
			spans := slices.Clone(fixtures[name])
			if r.IntN(2) == 0 {
				r.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
			} else {
				slices.SortStableFunc(spans, func(a, b otlp.Span) int { return int(a.End - b.End) })
			}

			remembered := 0
			for from, part := 0, 0; from < len(spans); part++ {
				to := min(len(spans), from+1+r.IntN(max(1, len(spans)/5)))
				i := r.IntN(2)
				if r.IntN(8) == 0 {
					servers[i] = storetest.OpenURL(t, url, takeTraces)
				}
				if store.Remembers(servers[i], traceID(n)) {
					remembered++
				}
				writeSpans(t, servers[i], withTraceID(spans[from:to], traceID(n))...)
				from = to

				if part > 20 && part%10 > 0 && to < len(spans) {
					continue
				}
				writeSpans(t, once, withTraceID(spans[:to], traceID(n+part+1))...)
				if diff := cmp.Diff(treeOrNone(t, once, traceID(n+part+1)), treeOrNone(t, once, traceID(n))); diff != "" {
					t.Fatalf("%s after %d of %d spans (-at once +in parts):\n%s", name, to, len(spans), diff)
				}
			}
			if len(spans) > 20 && remembered == 0 {
				t.Errorf("%s: nothing was remembered", name)
			}
		}
	}
	checkRollUps(t, once)
}

// P1: the rows of a large trace that is remembered are made when enough of it is new, else when it is
// due, and what was remembered goes on.
func TestLargeTracesGrow(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is written in many orders")
	t.Parallel()
	url := pgtest.New(t).URL
	once := storetest.OpenURL(t, url, takeTraces)
	storetest.Upkeep(t, once, upkeep.Config{}) // adds partitions
	servers := []*store.Store{storetest.OpenURL(t, url, takeTraces), storetest.OpenURL(t, url, takeTraces)}
	for _, s := range servers {
		store.MaxProjected(s, 100)
	}

	spans := longTrace(t, 400)
	r := rand.New(rand.NewPCG(1, 1))
	id := traceID(0)
	var later, atOnce, wentOn int
	for from, part := 0, 0; from < len(spans); part++ {
		to := min(len(spans), from+1+r.IntN(20))
		s := servers[part/20%2]
		before := len(storetest.StoredKeys(t, once, id))
		writeSpans(t, s, withTraceID(spans[from:to], id)...)
		from = to

		switch after := len(storetest.StoredKeys(t, once, id)); {
		case after == before:
			later++
		case to > 100:
			atOnce++
		}

		if r.IntN(5) > 0 && to < len(spans) {
			continue
		}
		if store.Remembers(s, id) {
			wentOn++
		}

		storetest.Exec(t, once, "UPDATE actlog.otlp_trace SET due_at = now() WHERE due_at IS NOT NULL")
		if err := store.ReplaceDue(servers[r.IntN(2)]); err != nil {
			t.Fatal(err)
		}
		writeSpans(t, once, withTraceID(spans[:to], traceID(part+1))...)
		if diff := cmp.Diff(treeOrNone(t, once, traceID(part+1)), treeOrNone(t, once, id)); diff != "" {
			t.Fatalf("after %d of %d spans (-at once +in parts):\n%s", to, len(spans), diff)
		}
	}

	if later < 10 || atOnce < 10 || wentOn < 5 {
		t.Errorf("rows were made later %d times, at once %d times, and went on %d times", later, atOnce, wentOn)
	}
	checkRollUps(t, once)
}

// P1: a trace that seems to have ended at each moment, because it has no topmost span, is remembered once
// it has grown.
func TestEndedTraceIsRemembered(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, takeTraces)
	spans := longTrace(t, 20)
	for i := range spans {
		spans[i].RemoteParent = spans[i].ParentID != ""
	}

	id := traceID(0)
	for i, remembered := range []bool{false, true, true} {
		writeSpans(t, s, withTraceID(spans[10*i:10*i+10], id)...)
		if got := store.Remembers(s, id); got != remembered {
			t.Errorf("after request %d it is remembered: %v", i+1, got)
		}
	}
	checkRows(t, s, withTraceID(spans[:30], id))
}

// treeOrNone is exportedTree of a trace that may have no rows.
func treeOrNone(t *testing.T, s *store.Store, id string) string {
	t.Helper()
	if len(storetest.StoredKeys(t, s, id)) == 0 {
		return ""
	}
	return exportedTree(t, s, id)
}

// longTrace is a trace of an agent that takes many turns.
func longTrace(t testing.TB, turns int) (spans []otlp.Span) {
	t.Helper()
	id := func(i int) string { return fmt.Sprintf("%016x", i+1) }
	attributes := func(kv ...string) (a otlp.Attributes) {
		for i := 0; i < len(kv); i += 2 {
			a = append(a, otlp.Attribute{Key: kv[i], Value: otlp.Value{Text: kv[i+1]}})
		}
		return a
	}

	start := at(0).UnixNano()
	ms := int64(time.Millisecond)
	agent := otlp.Span{SpanID: id(0), Name: "invoke_agent a", Start: start, End: start + int64(10*turns)*ms,
		Attributes: attributes("gen_ai.agent.name", "a", "gen_ai.operation.name", "invoke_agent")}

	for i := range turns {
		call, began := fmt.Sprint("c", i), start+int64(10*i)*ms
		spans = append(spans,
			otlp.Span{SpanID: id(3*i + 1), ParentID: id(0), Name: "chat m", Start: began, End: began + 2*ms,
				Attributes: attributes("gen_ai.operation.name", "chat",
					"gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"tool_call","id":"`+call+
						`","name":"t","arguments":{}}]}]`,
					"gen_ai.request.model", "m", "gen_ai.usage.input_tokens", "100", "gen_ai.usage.output_tokens", "10")},
			otlp.Span{SpanID: id(3*i + 2), ParentID: id(0), Name: "execute_tool t", Start: began + 3*ms, End: began + 4*ms,
				Attributes: attributes(
					"gen_ai.operation.name", "execute_tool", "gen_ai.tool.call.id", call, "gen_ai.tool.call.result", "r",
					"gen_ai.tool.name", "t")})
	}
	return append(spans, agent)
}

// P1: what is remembered of a trace does not do once somebody else has written to it, deleted it, or
// closed it.
func TestRememberedTraceIsNotTrusted(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	s, once := storetest.OpenURL(t, url, takeTraces), storetest.OpenURL(t, url, takeTraces)
	spans := longTrace(t, 20)

	for n, change := range []func(id string){
		func(string) {},
		func(id string) { // a native record on a row that changes, and on one that does not
			storetest.Write(t, s, &record.Plan{RootPlanID: id, CurrentPlanID: id, Title: new("native")},
				&record.ThinkAct{RootPlanID: id, StepID: spans[40].SpanID, Seq: 3, ActionDescription: new("native")})
		},
		func(id string) { storetest.Exec(t, s, "DELETE FROM actlog.otlp_trace WHERE trace_id = $1", id) },
		func(id string) {
			storetest.Exec(t, s, "UPDATE actlog.otlp_trace SET due_at = now(), last_seen_at = now() - interval '1 day' "+
				"WHERE trace_id = $1", id)
			if err := store.ReplaceDue(once); err != nil {
				t.Fatal(err)
			}
		},
		func(id string) {
			if err := once.DeletePlan(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			writeSpans(t, once, withTraceID(spans[5:20], id)...)
		},
		func(id string) {
			storetest.Write(t, s, &record.Plan{RootPlanID: "p" + id, CurrentPlanID: "p" + id, TraceID: &id})
		},
	} {
		got, want := traceID(2*n), traceID(2*n+1)
		for _, id := range []string{got, want} {
			writeSpans(t, s, withTraceID(spans[:10], id)...)
			writeSpans(t, s, withTraceID(spans[10:30], id)...)
			if !store.Remembers(s, id) {
				t.Fatalf("case %d: the trace is not remembered", n)
			}
			change(id)
		}

		writeSpans(t, s, withTraceID(spans[30:], got)...)
		writeSpans(t, storetest.OpenURL(t, url, takeTraces), withTraceID(spans[30:], want)...) // remembers nothing

		roots := [2]string{got, want}
		if n == 5 {
			roots = [2]string{"p" + got, "p" + want}
		}
		tree := func(i int, id string) string { return strings.ReplaceAll(exportedTree(t, s, roots[i]), id, "TRACE") }
		if diff := cmp.Diff(tree(1, want), tree(0, got)); diff != "" {
			t.Errorf("case %d (-nothing remembered +remembered):\n%s", n, diff)
		}
	}
	checkRollUps(t, s)
}
