package upkeep_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// projecting makes a store take traces.
func projecting(c *store.Config) { c.Project = store.Projecting(otlp.NewProjection) }

func traceID(i int) string { return fmt.Sprintf("%032x", i+1) }

// spansOf returns the spans of a real run with a sub-plan, as those of some trace, in the order of
// their ends: the root is the last.
func spansOf(t testing.TB, trace string) []otlp.Span {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "..", "trace", "otlp", "testdata", "fixtures", "vercel-ai7-pb-001.pb"))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := otlp.DecodeTraces(otlp.TypeProtobuf, body)
	if err != nil {
		t.Fatal(err)
	}

	for i := range batch.Spans {
		batch.Spans[i].TraceID = trace
	}
	slices.SortStableFunc(batch.Spans, func(a, b otlp.Span) int { return cmp.Compare(a.End, b.End) })
	return batch.Spans
}

// replace writes spans of one trace.
func replace(t testing.TB, s *store.Store, spans []otlp.Span) {
	t.Helper()
	chunk, err := otlp.EncodeChunk(spans, new(otlp.MaxChunkBytes))
	if err != nil {
		t.Fatal(err)
	}

	if err := s.ReplaceTraces(t.Context(),
		[]store.Trace{{ID: spans[0].TraceID, Chunk: chunk, Spans: spans, Count: len(spans)}}); err != nil {
		t.Fatal(err)
	}
}

// contents returns a tree with its figures and row numbers, and all its rows.
func contents(t testing.TB, s *store.Store, root string) string {
	t.Helper()
	all := []any{storetest.PlanTree(t, s, root)}
	if err := s.Export(t.Context(), "", root, func(c record.Change) error {
		all = append(all, c)
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestLateSpans checks a trace whose spans were dropped: spans that arrive later do not change its
// rows. A trace that still grows keeps its spans.
func TestLateSpans(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, projecting)
	u := storetest.Upkeep(t, s, upkeep.Config{TraceDays: 2})
	silent, growing := spansOf(t, traceID(0)), spansOf(t, traceID(1))

	replace(t, s, silent)
	replace(t, s, growing[1:])
	want := contents(t, s, traceID(0))
	storetest.Exec(t, s, "SELECT actlog.add_partition('otlp_span', d - 5, d - 4) FROM (SELECT (now() AT TIME ZONE "+
		"'utc')::date AS d) AS x")
	for _, days := range []int{5, 7} { // with a partition for that day, and without
		storetest.Exec(t, s, `UPDATE actlog.otlp_span SET part = (now() AT TIME ZONE 'utc')::date - $1::integer`, days)
		storetest.Exec(t, s, `UPDATE actlog.otlp_trace SET part = (now() AT TIME ZONE 'utc')::date - $1::integer`, days)
		storetest.Exec(t, s, `UPDATE actlog.otlp_trace SET last_seen_at = now() - INTERVAL '3 days' WHERE trace_id = $1`,
			traceID(0))
		if err := upkeep.DropSpans(u, t.Context(), 2); err != nil {
			t.Fatal(err)
		}

		if got := storetest.Lines(t, s.DB(),
			"SELECT t.trace_id FROM actlog.otlp_trace AS t JOIN actlog.otlp_span AS s ON s.trace_id = t.trace_id AND s.part "+
				"= t.part AND t.part = (now() AT TIME ZONE 'utc')::date"); !slices.Equal(got, []string{traceID(1)}) {
			t.Errorf("the spans of %v are kept", got)
		}
		if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.otlp_span"); n != 1 {
			t.Errorf("%d rows of spans are left", n)
		}

		replace(t, s, silent[len(silent)/2:])
		if diff := gocmp.Diff(want, contents(t, s, traceID(0))); diff != "" {
			t.Errorf("the tree changed (-before +after):\n%s", diff)
		}
	}

	if n := len(partitions(t, s.DB().Pool, "otlp_span")); n != 1+1+upkeep.PartitionsAhead {
		t.Errorf("%d partitions are left", n)
	}
	replace(t, s, growing[:1])
	if diff := gocmp.Diff(storetest.RowKeys(otlp.Project(growing)), storetest.StoredKeys(t, s, traceID(1))); diff != "" {
		t.Errorf("the trace that still grows (-projected +on record):\n%s", diff)
	}
}

// TestSpansStayWithoutTraceDays checks that only a server that was given a retention drops spans.
// A process that takes no traces, such as an agent, was not.
func TestSpansStayWithoutTraceDays(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	s := storetest.OpenURL(t, url, projecting)
	server := storetest.Upkeep(t, s, upkeep.Config{TraceDays: 30})
	agent := storetest.Upkeep(t, storetest.OpenURL(t, url), upkeep.Config{})

	for n, days := range []int{10, 40} {
		replace(t, s, spansOf(t, traceID(n)))
		storetest.Exec(t, s, `UPDATE actlog.otlp_span SET part = part - $1::integer WHERE trace_id = $2`, days, traceID(n))
		storetest.Exec(
			t, s, `UPDATE actlog.otlp_trace SET part = part - $1::integer, last_seen_at = last_seen_at - make_interval(days => $1) WHERE trace_id = $2`, days, traceID(n),
		)
	}

	for _, tt := range []struct {
		by   *upkeep.Upkeep
		left []string
	}{{agent, []string{traceID(0), traceID(1)}}, {server, []string{traceID(0)}}} {
		if err := tt.by.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := storetest.Lines(t, s.DB(),
			"SELECT DISTINCT t.trace_id FROM actlog.otlp_trace AS t JOIN actlog.otlp_span AS s USING (trace_id) ORDER BY 1"); !slices.Equal(got, tt.left) {
			t.Errorf("the spans of %q are left, want %q", got, tt.left)
		}
	}
}

// TestTracesCloseTheirOwnRows checks that a mark leaves out what only a trace made: its outcome still
// counts when it comes, and a sign of life of the native run does not bring back what it replaced.
//
// N11: a mark not_seen is undone by what is recorded later.
func TestTracesCloseTheirOwnRows(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := storetest.OpenURL(t, pg.URL, projecting)
	spans := spansOf(t, traceID(0))

	beat := func(second int) {
		storetest.Write(t, s, &record.Plan{
			RootPlanID: "p", CurrentPlanID: "p", TraceID: new(traceID(0)), State: new(record.Running),
			LastSeenAt: storetest.At(second),
		})
	}
	ofTrace := func() []string {
		return storetest.Lines(t, pg.Pool, `
			SELECT concat_ws(' ', 'plan', current_plan_id, state, revs) FROM actlog.plan_execution_record WHERE root_plan_id = 'p' AND origin = 'otlp'
			UNION ALL SELECT concat_ws(' ', 'step', step_id, state, revs) FROM actlog.agent_execution_record WHERE root_plan_id = 'p' AND origin = 'otlp'
			UNION ALL SELECT concat_ws(' ', 'cycle', seq, state, revs) FROM actlog.think_act_record WHERE root_plan_id = 'p' AND origin = 'otlp'
			UNION ALL SELECT concat_ws(' ', 'tool', tool_call_id, state, revs) FROM actlog.act_tool_info WHERE root_plan_id = 'p' AND origin = 'otlp'
			ORDER BY 1`)
	}

	beat(1)
	storetest.Write(t, s, &record.AgentExecution{
		RootPlanID: "p", PlanID: "p", StepID: "native", State: new(record.Running),
	})
	replace(t, s, spans[:len(spans)-1])
	before := ofTrace()
	if !slices.ContainsFunc(before, func(row string) bool { return strings.Contains(row, "RUNNING") }) {
		t.Fatalf("nothing of the trace runs: %q", before)
	}

	silent(t, s, "p", "1 hour")
	interrupt(t, idle(t, s))
	if diff := gocmp.Diff(before, ofTrace()); diff != "" {
		t.Errorf("marked (-before +after):\n%s", diff)
	}
	if p, st := storetest.PlanTree(t, s, "p").Record,
		storetest.StepDetail(t, s, "native").Record; *p.State != record.Interrupted || *st.State != record.Interrupted {
		t.Errorf("the native rows are %s and %s", *p.State, *st.State)
	}

	replace(t, s, spans[len(spans)-1:])
	done := ofTrace()
	beat(2)
	if diff := gocmp.Diff(done, ofTrace()); diff != "" {
		t.Errorf("a heartbeat changed rows of the trace (-before +after):\n%s", diff)
	}
	for _, row := range done {
		if strings.Contains(row, "RUNNING") || strings.Contains(row, "INTERRUPTED") {
			t.Errorf("the outcome of the trace does not count: %s", row)
		}
	}
}
