package store_test

import (
	stdcmp "cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/trace/otlp"
	"github.com/actlog/actlog/record"
)

// takeTraces makes the store accept traces.
func takeTraces(c *store.Config) { c.Project = store.Projecting(otlp.NewProjection) }

// traceFixtures returns the traces in the test data of package otlp, by name: bodies as exporters
// sent them, and scripts that were written by hand.
func traceFixtures(t testing.TB) map[string][]otlp.Span {
	t.Helper()
	all := map[string][]otlp.Span{}
	files, err := filepath.Glob(filepath.Join("..", "..", "trace", "otlp", "testdata", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}

	types := map[string]string{".json": otlp.TypeJSON, ".pb": otlp.TypeProtobuf}
	for _, file := range files {
		contentType, folder := types[filepath.Ext(file)], filepath.Base(filepath.Dir(file))
		if contentType == "" {
			continue
		}

		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if folder != "fixtures" {
			all[folder+"/"+filepath.Base(file)] = script(t, body)
			continue
		}

		batch, err := otlp.DecodeTraces(contentType, body)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, spans := range otlp.ByTrace(batch.Spans) {
			all[spans[0].TraceID] = append(all[spans[0].TraceID], spans...)
		}
	}

	if len(all) < 20 {
		t.Fatalf("only %d traces", len(all))
	}
	return all
}

// script reads a trace that was written by hand. Its ids are small numbers and its times are
// milliseconds.
func script(t testing.TB, body []byte) (spans []otlp.Span) {
	t.Helper()
	var s struct {
		Scope    otlp.Scope
		Resource otlp.Attributes
		Spans    []struct {
			ID, Parent, Name string
			Remote, Stub     bool
			Kind             int32
			Logged           bool
			Start, End       int64
			Status           int32
			Message          string
			Scope            otlp.Scope
			Attributes       otlp.Attributes
			Events           []otlp.Event
		}
	}
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatal(err)
	}

	moment := func(ms int64) int64 {
		if ms == 0 {
			return 0
		}
		return at(0).UnixNano() + ms*1_000_000
	}

	for _, in := range s.Spans {
		span := otlp.Span{
			TraceID: traceID(0), SpanID: strings.Repeat("0", 16-len(in.ID)) + in.ID, RemoteParent: in.Remote, Stub: in.Stub,
			Kind: in.Kind, Logged: in.Logged, Name: in.Name,
			Start: moment(in.Start), End: moment(in.End), Status: in.Status, StatusMessage: in.Message,
			Scope: in.Scope, Resource: s.Resource, Attributes: in.Attributes, Events: in.Events,
		}

		if in.Parent != "" {
			span.ParentID = strings.Repeat("0", 16-len(in.Parent)) + in.Parent
		}
		if span.Scope == (otlp.Scope{}) {
			span.Scope = s.Scope
		}
		for i := range span.Events {
			span.Events[i].Time = moment(span.Events[i].Time)
		}
		spans = append(spans, span)
	}
	return spans
}

// writeSpans writes spans to a store.
func writeSpans(t testing.TB, s *store.Store, spans ...otlp.Span) {
	t.Helper()
	if err := s.ReplaceTraces(t.Context(), tracesOf(t, spans)); err != nil {
		t.Fatal(err)
	}
}

// tracesOf groups and encodes spans as the receiver does.
func tracesOf(t testing.TB, spans []otlp.Span) (traces []store.Trace) {
	t.Helper()
	for _, trace := range otlp.ByTrace(spans) {
		chunk, err := otlp.EncodeChunk(trace, new(otlp.MaxChunkBytes))
		if err != nil {
			t.Fatal(err)
		}
		traces = append(traces, store.Trace{ID: trace[0].TraceID, Chunk: chunk, Spans: trace, Count: len(trace)})
	}
	return traces
}

// withTraceID returns a copy of spans that belongs to another trace.
func withTraceID(spans []otlp.Span, trace string) []otlp.Span {
	out := slices.Clone(spans)
	for i := range out {
		out[i].TraceID = trace
	}
	return out
}

func traceID(i int) string { return fmt.Sprintf("%032x", i+1) }

// TestTracesInAnyOrder checks that a trace makes the same tree if its spans come in another order,
// in parts or more than once.
func TestTracesInAnyOrder(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is written in many orders")
	t.Parallel()
	url := pgtest.New(t).URL
	s, copying := storetest.OpenURL(t, url, takeTraces), store.CopyNew(storetest.OpenURL(t, url, takeTraces))

	n := 0
	for name, spans := range traceFixtures(t) {
		newTrace := func() []otlp.Span {
			n++
			return withTraceID(spans, traceID(n))
		}
		atOnce := newTrace()
		writeSpans(t, s, atOnce...)
		want := storetest.Dump(t, s, atOnce[0].TraceID)
		check := func(how string, trace []otlp.Span) {
			t.Helper()
			if diff := cmp.Diff(want, storetest.Dump(t, s, trace[0].TraceID)); diff != "" {
				t.Fatalf("%s (-at once +%s):\n%s", name, how, diff)
			}
		}

		random := rand.New(rand.NewPCG(1, uint64(n)))
		trace := newTrace()
		for _, i := range random.Perm(len(trace)) {
			writeSpans(t, s, trace[i])
		}
		check("span by span", trace)

		trace = newTrace()
		writeSpans(t, s, slices.Concat(trace, trace)...)
		writeSpans(t, s, trace[len(trace)/2:]...)
		check("repeated", trace)

		trace = newTrace()
		writeSpans(t, copying, trace[:len(trace)/2]...)
		writeSpans(t, copying, trace...)
		check("copied", trace)

		for cut := 1; cut < len(spans); cut += 1 + len(spans)/20 {
			trace = newTrace()
			writeSpans(t, s, trace[cut:]...)
			writeSpans(t, s, trace[:cut]...)
			check(fmt.Sprint("cut at ", cut), trace)
		}
	}
}

// agentTrace returns the spans of a run with a sub-plan, as an exporter sent them. They are ordered
// by their ends, so the root is the last.
func agentTrace(t testing.TB, trace string) []otlp.Span {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "..", "trace", "otlp", "testdata", "fixtures", "vercel-ai7-pb-001.pb"))
	if err != nil {
		t.Fatal(err)
	}

	batch, err := otlp.DecodeTraces(otlp.TypeProtobuf, body)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(batch.Spans, func(a, b otlp.Span) int { return stdcmp.Compare(a.End, b.End) })
	return withTraceID(batch.Spans, trace)
}

// TestLateParent checks that a parent that comes after its children moves their rows, and that no
// other row is left.
func TestLateParent(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what the schema and rows of before become")
	t.Parallel()
	s := storetest.Open(t, takeTraces)

	for i, spans := range slices.Collect(maps.Values(traceFixtures(t))) {
		trace := withTraceID(spans, traceID(i))
		slices.SortFunc(trace, func(a, b otlp.Span) int { return int(b.Start - a.Start) }) // children first
		for _, span := range trace {
			writeSpans(t, s, span)
		}
		checkRows(t, s, trace)
		checkRollUps(t, s)
	}
}

// checkRows checks that the rows of a trace on record are those that its spans make.
func checkRows(t testing.TB, s *store.Store, trace []otlp.Span) {
	t.Helper()
	want, got := storetest.RowKeys(otlp.Project(trace)), storetest.StoredKeys(t, s, trace[0].TraceID)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("rows of trace %s (-projected +on record):\n%s", trace[0].TraceID, diff)
	}
}

// checkRollUps checks that the figures of all steps are the same when they are computed from
// scratch.
func checkRollUps(t testing.TB, s *store.Store) {
	t.Helper()
	checkRollUpsOf(t, s, "%")
}

// checkRollUpsOf is checkRollUps for the trees whose roots are like a pattern.
func checkRollUpsOf(t testing.TB, s *store.Store, roots string) {
	t.Helper()
	sql := `SELECT concat_ws(' ', root_plan_id, step_id, COALESCE(cycles::text, 'null'), completed_cycles, model_calls, tool_calls, failures, COALESCE(input_tokens::text, 'null'), COALESCE(output_tokens::text, 'null'), cost_usd, COALESCE(think_ms::text, 'null'), COALESCE(tool_ms::text, 'null'), latest_round, latest_tool_name, md5(latest_tool_args), last_seen_at)
		FROM actlog.agent_execution_record WHERE root_plan_id LIKE '` + roots + `' ORDER BY root_plan_id, step_id`
	got := storetest.Lines(t, store.Pool(s), sql)

	rollUp := fieldsql.Merge(record.KindAgentExecution, fieldsql.Shape{})
	keys := func(column string) []string {
		return storetest.Query[[]string](t, s,
			"SELECT array_agg("+column+" ORDER BY root_plan_id, step_id) FROM actlog.agent_execution_record WHERE "+
				"root_plan_id LIKE $1", roots)
	}
	storetest.Exec(t, s, rollUp, keys("root_plan_id"), keys("step_id"))
	if diff := cmp.Diff(storetest.Lines(t, store.Pool(s), sql), got); diff != "" {
		t.Fatalf("roll-ups (-computed +on record):\n%s", diff)
	}
}

// TestRepeatedSpansWriteNothing checks that repeated spans alter no row and add nothing to the
// feed.
func TestRepeatedSpansWriteNothing(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, takeTraces)
	spans := agentTrace(t, traceID(0))
	writeSpans(t, s, spans...)

	const versions = `SELECT string_agg(v.x, ',' ORDER BY v.x) FROM (
		SELECT concat_ws(' ', 'p', id, xmin) AS x FROM actlog.plan_execution_record UNION ALL SELECT concat_ws(' ', 'a', id, xmin) FROM actlog.agent_execution_record
		UNION ALL SELECT concat_ws(' ', 'c', id, xmin) FROM actlog.think_act_record UNION ALL SELECT concat_ws(' ', 't', id, xmin) FROM actlog.act_tool_info
		UNION ALL SELECT concat_ws(' ', 'f', seq, root_plan_id) FROM actlog.change) AS v`
	want := storetest.Query[string](t, s, versions)

	writeSpans(t, s, spans...)
	writeSpans(t, s, spans[1:]...)
	if got := storetest.Query[string](t, s, versions); got != want {
		t.Errorf("row versions before and after:\n%s\n%s", want, got)
	}
}

// TestUnchangedRowsStay checks that a new span does not replace rows that it does not change.
func TestUnchangedRowsStay(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, takeTraces)
	spans := agentTrace(t, traceID(0))
	root := spans[len(spans)-1]
	if root.ParentID != "" {
		t.Fatal("the last span is not the root")
	}

	writeSpans(t, s, spans[:len(spans)-1]...)
	const numbers = `SELECT string_agg(concat_ws(' ', tool_call_id, id), ',' ORDER BY tool_call_id) FROM actlog.act_tool_info WHERE span_id IS NOT NULL AND step_id = $1`
	step := storetest.Query[string](t, s,
		"SELECT a.step_id FROM actlog.agent_execution_record AS a WHERE a.shown_plan_id <> a.root_plan_id")
	before, changes := storetest.Query[string](t, s, numbers, step),
		storetest.Query[int](t, s, "SELECT count(*) FROM actlog.change")

	writeSpans(t, s, root)
	if after := storetest.Query[string](t, s, numbers, step); after != before || after == "" {
		t.Errorf("numbers of tool calls before %s, after %s", before, after)
	}
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.change"); n != changes+1 {
		t.Errorf("rows in the feed before %d, after %d", changes, n)
	}
	if got := storetest.PlanTree(t, s, traceID(0)).Record.State; *got != record.Completed {
		t.Errorf("the plan is %s", *got)
	}
}

// exportedTree returns the export and the figures of a tree, as JSON. Unlike dump it works if
// several trees have steps with the same ids.
func exportedTree(t testing.TB, s *store.Store, root string) string {
	t.Helper()
	p := storetest.PlanTree(t, s, root)
	all := []any{p.Total}

	var visit func(*tree.Plan)
	visit = func(p *tree.Plan) {
		for _, step := range p.Steps {
			all = append(all, step.Record.StepID, step.Figures, step.LatestToolName, step.CompletedCycles)
		}
		for c := range p.Children() {
			visit(c)
		}
	}
	visit(p)
	for _, c := range exported(t, s, root) {
		all = append(all, c)
	}

	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), root, "ROOT")
}

// TestTwoServers checks that two servers make the right trees if each receives a half of every
// trace at the same time.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	servers := []*store.Store{storetest.OpenURL(t, url, takeTraces), storetest.OpenURL(t, url, takeTraces)}
	spans := agentTrace(t, traceID(0))
	const traces = 100
	writeSpans(t, servers[0], spans...)
	want := exportedTree(t, servers[0], traceID(0))

	var group sync.WaitGroup
	for i, s := range servers {
		for part := range 2 {
			group.Go(func() {
				for n := 1; n <= traces; n++ {
					var quarter []otlp.Span
					for j, span := range withTraceID(spans, traceID(n)) {
						if j%4 == 2*i+part {
							quarter = append(quarter, span)
						}
					}

					if err := s.ReplaceTraces(t.Context(), tracesOf(t, quarter)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	group.Wait()

	for n := 1; n <= traces; n++ {
		if diff := cmp.Diff(want, exportedTree(t, servers[n%2], traceID(n))); diff != "" {
			t.Fatalf("trace %d (-at once +in parts):\n%s", n, diff)
		}
	}
	checkRollUps(t, servers[0])
}

// TestNativePlanNamesTrace checks that the rows of a trace lie in the tree of the native plan that
// names it, whether the plan comes before the spans, between them or after.
func TestNativePlanNamesTrace(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, takeTraces)
	native := func(n int) *record.Plan {
		return &record.Plan{RootPlanID: fmt.Sprint("native", n), CurrentPlanID: fmt.Sprint("native", n),
			TraceID: new(traceID(n)),
			Title:   new("native title"), State: new(record.Paused), StartTime: at(1)}
	}
	spans := agentTrace(t, "")

	var want string
	for n, before := range []int{0, len(spans) / 2, len(spans)} { // spans before the plan
		trace := withTraceID(spans, traceID(n))
		if before > 0 {
			writeSpans(t, s, trace[:before]...)
		}
		storetest.Write(t, s, native(n))
		if before < len(spans) {
			writeSpans(t, s, trace[before:]...)
		} else if err := store.ReplaceDue(s); err != nil {
			t.Fatal(err)
		}

		if left := storetest.StoredKeys(t, s, traceID(n)); len(left) > 0 {
			t.Errorf("the plan after %d spans: rows left in the tree of the trace\n%s", before, strings.Join(left, "\n"))
		}
		got := strings.ReplaceAll(exportedTree(t, s, fmt.Sprint("native", n)), traceID(n), "TRACE")
		if n == 0 {
			want = got
			if !strings.Contains(got, "native title") || !strings.Contains(got, "PAUSED") ||
				storetest.PlanTree(t, s, "native0").Record.UserRequest == nil {
				t.Errorf("the plan is %s", got)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the tree (-plan before the spans +plan after %d spans):\n%s", before, diff)
		}
	}
	checkRollUps(t, s)
}

// TestNativeWritesToTrace checks that native writes to rows of a trace stay when the trace goes on,
// and when a native plan takes over its rows.
func TestNativeWritesToTrace(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, takeTraces)
	spans := agentTrace(t, traceID(0))
	root := traceID(0)
	writeSpans(t, s, spans[:len(spans)-1]...)
	before := storetest.PlanTree(t, s, root).Record
	if before.State.Terminal() {
		t.Fatal("the plan has already ended")
	}

	step := storetest.Query[string](t, s,
		"SELECT min(step_id) FROM actlog.agent_execution_record WHERE shown_plan_id <> root_plan_id")
	storetest.Write(t, s,
		&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("a better title")},
		&record.Thought{RootPlanID: root, PlanID: root, ThoughtID: "t", Content: new("hm")},
		&record.AgentExecution{
			RootPlanID: root, PlanID: storetest.Query[string](t, s,
				"SELECT plan_id FROM actlog.agent_execution_record WHERE step_id = $1", step), StepID: step,
			Result: new("a better result"),
		})

	writeSpans(t, s, spans...)
	after := storetest.PlanTree(t, s, root).Record
	if *after.Title != "a better title" || *after.State != record.Completed {
		t.Errorf("the plan is %q, %s", *after.Title, *after.State)
	}
	if got := storetest.StepDetail(t, s, step).Record; *got.Result != "a better result" || *got.State != record.Completed {
		t.Errorf("the step is %q, %s", *got.Result, *got.State)
	}

	// The rows move to a native plan. Native writes to the old plan stay with it.
	storetest.Write(t, s, &record.Plan{RootPlanID: "native", CurrentPlanID: "native", TraceID: &root})
	if err := store.ReplaceDue(s); err != nil {
		t.Fatal(err)
	}

	left := storetest.PlanTree(t, s, root)
	if *left.Record.Title != "a better title" || left.Record.UserRequest != nil || left.Record.Summary != nil {
		t.Errorf("the old plan is %+v", left.Record)
	}
	if thoughts := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.thought WHERE root_plan_id = $1",
		root); thoughts != 1 {
		t.Error("the thought is gone")
	}
	if got := storetest.PlanTree(t, s, "native").Record; got.UserRequest == nil || *got.State != record.Completed {
		t.Errorf("the native plan is %+v", got)
	}
}

// TestTraceFillsPlaceholder checks that a trace fills a placeholder that a native write made before
// its spans came.
func TestTraceFillsPlaceholder(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, takeTraces)
	spans := agentTrace(t, traceID(0))

	storetest.Write(t, s, &record.Thought{RootPlanID: traceID(0), PlanID: traceID(0), ThoughtID: "t"})
	for i := range spans {
		writeSpans(t, s, spans[i])
	}
	got := storetest.Dump(t, s, traceID(0))
	writeSpans(t, s, withTraceID(spans, traceID(1))...)

	if diff := cmp.Diff(storetest.Dump(t, s, traceID(1)), got); diff != "" {
		t.Errorf("the tree (-without +with placeholder):\n%s", diff)
	}
}

// TestTraceAndNativeInAnyOrder checks that a trace and native writes to the same rows make the same
// rows in any order, also if the spans come in parts and if placeholders stand there first.
func TestTraceAndNativeInAnyOrder(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is written in many orders")
	t.Parallel()
	s := storetest.Open(t, takeTraces)

	all, n := traceFixtures(t), 0
	for i, name := range slices.Sorted(maps.Keys(all)) {
		random := rand.New(rand.NewPCG(10, uint64(i)))
		mixed := slices.Clone(all[name])
		random.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		parts := [][]otlp.Span{mixed[:len(mixed)/3], mixed[len(mixed)/3 : len(mixed)/2], mixed[len(mixed)/2:]}

		var want []string
		for after := range len(parts) + 1 {
			trace := traceID(n)
			n++
			root, named := trace, []record.Change(nil)
			if i%2 > 0 {
				root = "home of " + trace
				named = append(named, &record.Plan{RootPlanID: root, CurrentPlanID: root, TraceID: &trace})
			}
			writeParts := func(parts [][]otlp.Span) {
				for _, part := range parts {
					writeSpans(t, s, withTraceID(part, trace)...)
				}
			}

			writeParts(parts[:after])
			storetest.Write(t, s, append(named,
				nativeChanges(rand.New(rand.NewPCG(11, uint64(i))), otlp.Project(withTraceID(mixed, root)))...)...)
			writeParts(parts[after:])
			writeSpans(t, s, withTraceID(mixed[:1], trace)...) // so that the trace is projected after the native write

			var got []string
			for table, rows := range storedRows(t, s, root) {
				for row := range strings.Lines(
					strings.NewReplacer(root, "ROOT", trace, "TRACE", `"origin": "otlp"`, `"origin": "native"`).Replace(rows),
				) {
					got = append(got, table+" "+strings.TrimSpace(row))
				}
			}
			slices.Sort(got)

			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s (-native first +native after %d parts):\n%s", name, after, diff)
			}
		}
	}
	checkRollUps(t, s)
}

// nativeChanges returns native changes to some rows of a trace. They set a few fields, but no links
// and no fields whose rule decides between two values. For some plans the only change is a wait
// below them.
func nativeChanges(random *rand.Rand, projected []record.Change) (changes []record.Change) {
	for _, c := range projected {
		key := c.Key()
		if random.IntN(2) == 0 {
			continue
		}
		if key.Kind == record.KindPlan && random.IntN(2) == 0 {
			changes = append(changes, &record.Wait{RootPlanID: key.Root, PlanID: key.ID, WaitID: "w " + key.ID})
			continue
		}

		own := record.New(key.Kind)
		for _, f := range field.Fields(key.Kind) {
			switch {
			case f.Key, f.Name == "planId":
				f.In(own).Set(f.In(c))
			case f.Name == "parentPlanId", f.Name == "toolCallId", f.Name == "traceId", f.Name == "startedBy",
				f.Rule != field.Newest, !f.Sent():
			case random.IntN(4) == 0:
				setField(f, own, 1)
			}
		}
		changes = append(changes, own)
	}
	return changes
}

// TestDeleteTrace checks that a delete removes the rows and the spans of a trace, and that later
// spans make a new tree.
func TestDeleteTrace(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, takeTraces)
	spans := agentTrace(t, traceID(0))
	writeSpans(t, s, spans...)

	if err := s.DeletePlan(t.Context(), traceID(0)); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"otlp_trace", "otlp_span", "plan_execution_record"} {
		if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog."+table); n > 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}

	last := spans[len(spans)-3:]
	writeSpans(t, s, last...)
	checkRows(t, s, last)
}

// TestQuietTrace: of a trace to which nothing more comes, the rows are those of what arrived. Only what
// has not ended is UNKNOWN.
func TestQuietTrace(t *testing.T) {
	t.Parallel()
	whole := agentTrace(t, traceID(0))
	partial := slices.Clone(whole[:len(whole)-1])
	for i := range partial {
		if partial[i].ParentID == whole[len(whole)-1].SpanID {
			partial[i].End = 0
		}
	}

	for name, c := range map[string]struct {
		spans []otlp.Span
		want  record.State
	}{
		"the root did not arrive":          {whole[:len(whole)-1], record.Completed},
		"nor has what is below it ended":   {partial, record.Unknown},
		"the root has begun and not ended": {begun(whole), record.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t, takeTraces, func(c *store.Config) { c.TraceQuiet = time.Hour })
			writeSpans(t, s, c.spans...)

			age := func(by string) {
				storetest.Exec(t, s, "UPDATE actlog.otlp_trace SET last_seen_at = last_seen_at - $1::interval, due_at = due_at "+
					"- $1::interval", by)
				if err := store.ReplaceDue(s); err != nil {
					t.Fatal(err)
				}
			}
			plan := func() record.Plan { return storetest.PlanTree(t, s, traceID(0)).Record }

			age("30 minutes")
			if got := *plan().State; got != record.Running {
				t.Errorf("after half an hour the plan is %s", got)
			}

			age("31 minutes")
			if got := plan(); *got.State != c.want || (got.EndTime != nil) != (c.want == record.Completed) {
				t.Errorf("after an hour the plan is %s, ended %v", *got.State, got.EndTime)
			}
			if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.otlp_trace WHERE due_at IS NOT NULL"); n > 0 {
				t.Error("the trace is due again")
			}

			writeSpans(t, s, whole...)
			if got := *plan().State; got != record.Completed {
				t.Errorf("after the last span the plan is %s", got)
			}
		})
	}
}

// begun returns a trace whose last span, the root, has not ended.
func begun(spans []otlp.Span) []otlp.Span {
	spans = slices.Clone(spans)
	spans[len(spans)-1].End = 0
	return spans
}

// TestQuietTracesGoOnTogether checks traces that another server closed because they were quiet. Late spans
// of all of them, in one request, complete them at the server that remembers how they were.
func TestQuietTracesGoOnTogether(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	s, other := storetest.OpenURL(t, url, takeTraces), storetest.OpenURL(t, url, takeTraces)

	var all, first, more [][]otlp.Span
	for i := range 3 {
		spans := agentTrace(t, traceID(i))
		most := len(spans) - 2
		all = append(all, spans)
		first, more = append(first, spans[:most]), append(more, spans[most:most+1])
	}

	writeSpans(t, s, slices.Concat(first...)...)
	storetest.Exec(t, s, "UPDATE actlog.otlp_trace SET last_seen_at = last_seen_at - interval '1 year', due_at = now()")
	if err := store.ReplaceDue(other); err != nil {
		t.Fatal(err)
	}
	writeSpans(t, s, slices.Concat(more...)...)

	for i, want := range []record.State{record.Running, record.Completed} {
		if i > 0 {
			writeSpans(t, s, slices.Concat(all...)...)
		}
		for trace := range all {
			if got := *storetest.PlanTree(t, s, traceID(trace)).Record.State; got != want {
				t.Errorf("trace %d is %s, want %s", trace, got, want)
			}
		}
	}
}

// TestLargeTrace checks that the rows of a large trace are made later, by any server, and that late
// spans do not replace rows whose spans were dropped.
func TestLargeTrace(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	s, other := storetest.OpenURL(t, url, takeTraces), storetest.OpenURL(t, url, takeTraces)
	store.MaxProjected(s, 10)
	spans := agentTrace(t, traceID(0))
	if len(spans) <= 10 {
		t.Fatalf("%d spans", len(spans))
	}

	writeSpans(t, s, spans[:10]...)
	storetest.Write(t, s, &record.Plan{RootPlanID: traceID(0), CurrentPlanID: traceID(0), ModelName: new("mine")})
	first := storetest.StoredKeys(t, s, traceID(0))
	writeSpans(t, s, spans[10:]...)
	if diff := cmp.Diff(first, storetest.StoredKeys(t, s, traceID(0))); diff != "" {
		t.Errorf("rows (-before +after more spans):\n%s", diff)
	}

	storetest.Exec(t, s, "UPDATE actlog.otlp_trace SET due_at = now()")
	if err := store.ReplaceDue(other); err != nil {
		t.Fatal(err)
	}
	checkRows(t, s, spans)
	if got := storetest.PlanTree(t, s, traceID(0)).Record; *got.State != record.Completed || *got.ModelName != "mine" {
		t.Errorf("the plan with a native write is %+v", got)
	}

	// Its spans are dropped, so the rows stay.
	want := exportedTree(t, s, traceID(0))
	storetest.Exec(t, s, "DELETE FROM actlog.otlp_trace")
	store.MaxProjected(s, 0)

	writeSpans(t, s, spans[:2]...)
	storetest.Exec(t, s, "UPDATE actlog.otlp_trace SET due_at = now()")
	if err := store.ReplaceDue(s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, exportedTree(t, s, traceID(0))); diff != "" {
		t.Errorf("the tree (-before +after late spans):\n%s", diff)
	}
}

// badProjection adds bad rows to some traces, and cannot read another one.
type badProjection struct {
	*otlp.Projection
	id string
}

func (p *badProjection) Add(kept [][]byte, fresh [][]otlp.Span) error {
	if p.id == traceID(4) {
		return errors.New("its spans cannot be read")
	}
	return p.Projection.Add(kept, fresh)
}

func (p *badProjection) Changes() (changed []record.Change, gone []record.Key) {
	changed, gone = p.Projection.Changes()
	switch p.id {
	case traceID(2): // an invalid row is left out
		changed = append(changed, &record.AgentExecution{
			RootPlanID: p.id, StepID: "s", PlanID: p.id, State: new(record.State("NONE")),
		})
	case traceID(3):
		changed = append(changed, &record.AgentExecution{
			RootPlanID: p.id, StepID: "s", PlanID: p.id, AgentName: new("refused"),
		})
	}
	return changed, gone
}

// TestBadTraces checks that bad traces of a request are refused and the others are written.
func TestBadTraces(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, func(c *store.Config) {
		c.Project = func(id string) store.Projection { return &badProjection{otlp.NewProjection(id), id} }
	})
	storetest.Exec(t, s, "ALTER TABLE actlog.agent_execution_record ADD CONSTRAINT agent_refused CHECK (agent_name <> "+
		"'refused')")

	var traces []store.Trace
	for i := range 6 {
		traces = append(traces, tracesOf(t, agentTrace(t, traceID(i)))...)
	}
	traces[5].ID = "no id"

	err := s.ReplaceTraces(t.Context(), traces)
	var rejected *store.RejectedTracesError
	if !errors.As(err, &rejected) {
		t.Fatalf("error = %v", err)
	}

	var ids []string
	for _, r := range rejected.Traces {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	if diff := cmp.Diff([]string{traceID(3), traceID(4), "no id"}, ids); diff != "" {
		t.Errorf("rejected traces (-want +got):\n%s", diff)
	}

	for i := range 5 {
		if n := len(storetest.StoredKeys(t, s, traceID(i))); n < 5 && i < 3 || n > 0 && i >= 3 {
			t.Errorf("trace %d has %d rows", i, n)
		}
	}
}

// TestConcurrentTraces checks that traces, native writes to their trees and deletes can run at once
// on two servers. None of them fails, and every trace is complete in the end.
func TestConcurrentTraces(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).URL
	servers := []*store.Store{storetest.OpenURL(t, url, takeTraces), store.CopyNew(storetest.OpenURL(t, url, takeTraces))}
	spans := agentTrace(t, "")
	const trees, rounds = 5, 20

	var group sync.WaitGroup
	for worker, s := range slices.Repeat(servers, 2) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(worker)))
			for range rounds {
				n := random.IntN(trees)
				cut := random.IntN(len(spans))
				if err := s.ReplaceTraces(t.Context(),
					tracesOf(t, slices.Concat(withTraceID(spans[cut:], traceID(n)),
						withTraceID(spans[:cut], traceID(random.IntN(trees)))))); err != nil {
					t.Error(err)
				}
			}
		})
	}

	group.Go(func() {
		random := rand.New(rand.NewPCG(8, 0))
		for i := range rounds {
			root := traceID(random.IntN(trees))
			native := fmt.Sprint("native", i%2)
			storetest.Write(t, servers[i%2], &record.Plan{
				RootPlanID: root, CurrentPlanID: root, Title: new(fmt.Sprint("title ", i)),
			},
				&record.Thought{RootPlanID: root, PlanID: root, ThoughtID: fmt.Sprint(i)},
				&record.Plan{
					RootPlanID: native, CurrentPlanID: native, TraceID: new(traceID(trees - 1 - i%2)),
					Title: new(fmt.Sprint("title ", i)),
				})
		}
	})

	group.Go(func() {
		random := rand.New(rand.NewPCG(9, 0))
		for i := range rounds {
			for _, root := range []string{traceID(random.IntN(trees)), "native0"} {
				if err := servers[i%2].DeletePlan(t.Context(), root); err != nil && !errors.Is(err, record.ErrNotFound) {
					t.Error(err)
				}
			}
		}
	})
	group.Wait()

	for n := range trees {
		writeSpans(t, servers[0], withTraceID(spans, traceID(n))...)
	}
	if err := store.ReplaceDue(servers[0]); err != nil {
		t.Fatal(err)
	}

	for n := range trees {
		root := storetest.Query[string](t, servers[0], "SELECT root_plan_id FROM actlog.otlp_trace WHERE trace_id = $1",
			traceID(n))
		want := storetest.RowKeys(otlp.Project(withTraceID(spans, traceID(n))))
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], traceID(n), root)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, storetest.StoredKeys(t, servers[0], root)); diff != "" {
			t.Errorf("trace %d in %s (-projected +on record):\n%s", n, root, diff)
		}
	}
	checkRollUps(t, servers[0])
}

// TestTracesSurviveLostConnections checks that each trace is on record, once, if connections are
// lost while it is written.
func TestTracesSurviveLostConnections(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := storetest.OpenURL(t, pg.URL, takeTraces, func(c *store.Config) { c.RetryFor = time.Minute })
	spans := agentTrace(t, "")

	var killed atomic.Int32
	var group sync.WaitGroup
	group.Go(func() {
		for killed.Load() < 5 {
			var n int32
			if err := pg.Pool.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'actlog' AND state <> 'idle'`).Scan(&n); err != nil {
				t.Error(err)
				return
			}
			killed.Add(n)
			time.Sleep(20 * time.Millisecond)
		}
	})
	defer group.Wait()

	for n := 0; n < 20 || killed.Load() < 5 && !t.Failed(); n++ {
		trace := withTraceID(spans, traceID(n))
		writeSpans(t, s, trace[:len(trace)/2]...)
		writeSpans(t, s, trace[len(trace)/2:]...)
	}

	group.Wait() // the last reads must not lose their connection
	for n := range 20 {
		checkRows(t, s, withTraceID(spans, traceID(n)))
	}
}

// TestTracesAreUnavailable checks the errors of a store without room, and of a store that takes no
// traces.
func TestTracesAreUnavailable(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, takeTraces, func(c *store.Config) {
		c.RetryFor = 50 * time.Millisecond
		c.CheckRoom = func() error { return errors.New("none") }
	})
	traces := tracesOf(t, agentTrace(t, traceID(0)))
	if err := s.ReplaceTraces(t.Context(), traces); !errors.Is(err, record.ErrDiskFull) ||
		!errors.Is(err, record.ErrUnavailable) {
		t.Errorf("without room: %v", err)
	}

	closed := openClosed(t)
	if err := closed.ReplaceTraces(t.Context(), traces); err == nil {
		t.Error("a store without a projection accepted a trace")
	}
}

// N1: TestTraceBesideAttempts checks a step that a trace and native records write to. What the trace
// says about state, times and error stays with the first attempt, also if more spans come when the
// step is attempted again. A step whose first native record is of a later attempt has none before
// it: the trace fills what that attempt does not say.
func TestTraceBesideAttempts(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, takeTraces)
	spans := agentTrace(t, traceID(0))

	var step record.AgentExecution
	for _, c := range otlp.Project(spans) {
		if a, ok := c.(*record.AgentExecution); ok {
			step = *a
			break
		}
	}

	ended := step.EndTime.Truncate(time.Microsecond)
	again := &record.AgentExecution{
		RootPlanID: step.RootPlanID, PlanID: step.PlanID, StepID: step.StepID, Attempt: new(int64(2)),
		State: new(record.Running),
	}
	read := func() *tree.Step { return storetest.StepDetail(t, s, step.StepID) }

	writeSpans(t, s, spans...)
	storetest.Write(t, s, again)
	for range 2 {
		st := read()
		if r := st.Record; *r.State != record.Running || r.EndTime != nil || r.StartTime != nil {
			t.Errorf("the second attempt: %s from %v to %v", *r.State, r.StartTime, r.EndTime)
		}
		if len(st.PastAttempts) != 1 || st.PastAttempts[0].State != *step.State || !st.PastAttempts[0].EndTime.Equal(ended) {
			t.Errorf("the first attempt: %+v", st.PastAttempts)
		}
		writeSpans(t, s, spans[:1]...) // the trace is projected again
	}

	if err := s.DeletePlan(t.Context(), step.RootPlanID); err != nil {
		t.Fatal(err)
	}
	storetest.Write(t, s, again)
	writeSpans(t, s, spans...)
	st := read()
	if len(st.PastAttempts) != 0 || *st.Record.Attempt != 2 || !st.Record.EndTime.Equal(ended) {
		t.Errorf("attempts %+v before %+v", st.PastAttempts, st.Record)
	}
}
