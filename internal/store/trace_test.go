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
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/internal/upsert"
	"github.com/actlog/actlog/record"
)

// projecting has a store take traces.
func projecting(c *store.Config) { c.Project = otlp.ProjectChunks }

// runs are the spans of each run that stands among the test data of package otlp, a
// trace each: bodies as exporters sent them, and scripts written by hand.
func runs(t testing.TB) map[string][]otlp.Span {
	t.Helper()
	all := map[string][]otlp.Span{}
	files, err := filepath.Glob(filepath.Join("..", "otlp", "testdata", "*", "*"))
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
		t.Fatalf("%d runs", len(all))
	}
	return all
}

// script reads a trace that was written by hand: ids are small numbers, times
// milliseconds.
func script(t testing.TB, body []byte) (spans []otlp.Span) {
	t.Helper()
	var s struct {
		Scope    otlp.Scope
		Resource otlp.Attributes
		Spans    []struct {
			ID, Parent, Name string
			Remote, Stub     bool
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
			TraceID: traceID(0), SpanID: strings.Repeat("0", 16-len(in.ID)) + in.ID, RemoteParent: in.Remote, Stub: in.Stub, Name: in.Name,
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

// replace tells a store of spans.
func replace(t testing.TB, s *store.Store, spans ...otlp.Span) {
	t.Helper()
	if err := s.ReplaceTraces(t.Context(), chunks(t, spans)); err != nil {
		t.Fatal(err)
	}
}

func chunks(t testing.TB, spans []otlp.Span) (traces []store.Trace) {
	t.Helper()
	for _, of := range otlp.ByTrace(spans) {
		chunk, err := otlp.EncodeChunk(of, new(otlp.MaxChunkBytes))
		if err != nil {
			t.Fatal(err)
		}
		traces = append(traces, store.Trace{ID: of[0].TraceID, Spans: chunk, Count: len(of)})
	}
	return traces
}

// renamed gives spans as those of another trace.
func renamed(spans []otlp.Span, trace string) []otlp.Span {
	out := slices.Clone(spans)
	for i := range out {
		out[i].TraceID = trace
	}
	return out
}

func traceID(i int) string { return fmt.Sprintf("%032x", i+1) }

// TestTracesInAnyOrder: a trace gives the tree that it is, however it comes.
func TestTracesInAnyOrder(t *testing.T) {
	t.Parallel()
	url := newDB(t)
	s, copying := openURL(t, url, projecting), store.CopyNew(openURL(t, url, projecting))
	n := 0
	for name, spans := range runs(t) {
		next := func() []otlp.Span {
			n++
			return renamed(spans, traceID(n))
		}
		whole := next()
		replace(t, s, whole...)
		want := dump(t, s, whole[0].TraceID)
		same := func(how string, of []otlp.Span) {
			t.Helper()
			if diff := cmp.Diff(want, dump(t, s, of[0].TraceID)); diff != "" {
				t.Fatalf("%s %s (-whole +otherwise):\n%s", name, how, diff)
			}
		}
		random := rand.New(rand.NewPCG(1, uint64(n)))
		of := next()
		for _, i := range random.Perm(len(of)) {
			replace(t, s, of[i])
		}
		same("span by span", of)
		of = next()
		replace(t, s, append(slices.Clone(of), of...)...)
		replace(t, s, of[len(of)/2:]...)
		same("repeated", of)
		of = next()
		replace(t, copying, of[:len(of)/2]...)
		replace(t, copying, of...)
		same("copied", of)
		for cut := 1; cut < len(spans); cut += 1 + len(spans)/20 {
			of = next()
			replace(t, s, of[cut:]...)
			replace(t, s, of[:cut]...)
			same(fmt.Sprint("cut at ", cut), of)
		}
	}
}

// run gives the spans of a run with a sub-plan, as an exporter sent them, in the order
// of their ends: the root is the last.
func run(t testing.TB, trace string) []otlp.Span {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "otlp", "testdata", "fixtures", "vercel-ai7-pb-001.pb"))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := otlp.DecodeTraces(otlp.TypeProtobuf, body)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(batch.Spans, func(a, b otlp.Span) int { return stdcmp.Compare(a.End, b.End) })
	return renamed(batch.Spans, trace)
}

// TestALateParent moves what stood for it, and leaves nothing.
func TestALateParent(t *testing.T) {
	t.Parallel()
	s := open(t, projecting)
	for i, spans := range slices.Collect(maps.Values(runs(t))) {
		of := renamed(spans, traceID(i))
		slices.SortFunc(of, func(a, b otlp.Span) int { return int(b.Start - a.Start) }) // children first
		for i := range of {
			replace(t, s, of[i])
		}
		want, got := keys(otlp.Project(of)), onRecord(t, store.Pool(s), of[0].TraceID)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-projected +on record:\n%s", diff)
		}
		rolledUp(t, s)
	}
}

func keys(changes []record.Change) (all []string) {
	for _, c := range changes {
		key := c.Key()
		all = append(all, strings.Join([]string{string(key.Kind), key.Root, key.Parent, fmt.Sprint(key.Seq), key.ID}, " "))
	}
	slices.Sort(all)
	return all
}

// onRecord gives the keys of all rows of a tree.
func onRecord(t testing.TB, pool *pgxpool.Pool, root string) []string {
	t.Helper()
	all := lines(t, pool, `
		SELECT concat_ws(' ', 'plan', root_plan_id, '', 0, current_plan_id) FROM actlog.plan_execution_record WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'agentExecution', root_plan_id, '', 0, step_id) FROM actlog.agent_execution_record WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'thinkAct', root_plan_id, step_id, seq, '') FROM actlog.think_act_record WHERE root_plan_id = $1
		UNION ALL SELECT concat_ws(' ', 'actTool', root_plan_id, step_id, seq, tool_call_id) FROM actlog.act_tool_info WHERE root_plan_id = $1`, root)
	slices.Sort(all)
	return all
}

// rolledUp holds the figures of all steps to what they are when computed anew.
func rolledUp(t testing.TB, s *store.Store) {
	t.Helper()
	const sql = `SELECT concat_ws(' ', root_plan_id, step_id, cycles, completed_cycles, model_calls, tool_calls, failures, input_tokens, output_tokens, cost_usd, think_ms, tool_ms, latest_round, latest_tool_name, md5(latest_tool_args), last_seen_at)
		FROM actlog.agent_execution_record ORDER BY root_plan_id, step_id`
	got := lines(t, store.Pool(s), sql)
	rollUp, err := upsert.Statement(record.KindAgentExecution, upsert.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, s, rollUp, query[[]string](t, s, "SELECT array_agg(root_plan_id ORDER BY root_plan_id, step_id) FROM actlog.agent_execution_record"),
		query[[]string](t, s, "SELECT array_agg(step_id ORDER BY root_plan_id, step_id) FROM actlog.agent_execution_record"))
	if diff := cmp.Diff(lines(t, store.Pool(s), sql), got); diff != "" {
		t.Errorf("roll-ups (-computed +on record):\n%s", diff)
	}
}

// TestTheSameAgain writes nothing, and tells nobody.
func TestTheSameAgain(t *testing.T) {
	t.Parallel()
	s := open(t, projecting)
	spans := run(t, traceID(0))
	replace(t, s, spans...)
	const versions = `SELECT string_agg(v.x, ',' ORDER BY v.x) FROM (
		SELECT concat_ws(' ', 'p', id, xmin) AS x FROM actlog.plan_execution_record UNION ALL SELECT concat_ws(' ', 'a', id, xmin) FROM actlog.agent_execution_record
		UNION ALL SELECT concat_ws(' ', 'c', id, xmin) FROM actlog.think_act_record UNION ALL SELECT concat_ws(' ', 't', id, xmin) FROM actlog.act_tool_info
		UNION ALL SELECT concat_ws(' ', 'f', seq, root_plan_id) FROM actlog.change) AS v`
	want := query[string](t, s, versions)
	replace(t, s, spans...)
	replace(t, s, spans[1:]...)
	if got := query[string](t, s, versions); got != want {
		t.Errorf("rows were written:\n%s\n%s", want, got)
	}
}

// TestUnchangedRowsStay: what a span adds leaves the numbers of the other rows.
func TestUnchangedRowsStay(t *testing.T) {
	t.Parallel()
	s := open(t, projecting)
	spans := run(t, traceID(0))
	root := spans[len(spans)-1]
	if root.ParentID != "" {
		t.Fatal("the last span is no root")
	}
	replace(t, s, spans[:len(spans)-1]...)
	const numbers = `SELECT string_agg(concat_ws(' ', tool_call_id, id), ',' ORDER BY tool_call_id) FROM actlog.act_tool_info WHERE span_id IS NOT NULL AND step_id = $1`
	step := query[string](t, s, "SELECT a.step_id FROM actlog.agent_execution_record AS a WHERE a.shown_plan_id <> a.root_plan_id")
	before, changes := query[string](t, s, numbers, step), query[int](t, s, "SELECT count(*) FROM actlog.change")
	replace(t, s, root)
	if after := query[string](t, s, numbers, step); after != before || after == "" {
		t.Errorf("tool calls were %s, are %s", before, after)
	}
	if n := query[int](t, s, "SELECT count(*) FROM actlog.change"); n != changes+1 {
		t.Errorf("%d rows in the feed, then %d", changes, n)
	}
	if got := planTree(t, s, traceID(0)).Record.State; *got != record.Completed {
		t.Errorf("the plan is %s", *got)
	}
}

// whole gives a tree with its figures, and all that was told of it. Unlike dump it is
// for trees whose steps bear the same ids.
func whole(t testing.TB, s *store.Store, root string) string {
	t.Helper()
	p := planTree(t, s, root)
	said := []any{p.Total}
	var visit func(*tree.Plan)
	visit = func(p *tree.Plan) {
		for _, step := range p.Steps {
			said = append(said, step.Record.StepID, step.Figures, step.LatestToolName, step.CompletedCycles)
		}
		for c := range p.Children() {
			visit(c)
		}
	}
	visit(p)
	if err := s.Told(t.Context(), root, func(c record.Change) error {
		said = append(said, c)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(said, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), root, "ROOT")
}

// TestTwoServers get halves of traces at the same time, span by span, and come to the
// right trees.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	url := newDB(t)
	servers := []*store.Store{openURL(t, url, projecting), openURL(t, url, projecting)}
	spans := run(t, traceID(0))
	const traces = 100
	replace(t, servers[0], spans...)
	want := whole(t, servers[0], traceID(0))
	var group sync.WaitGroup
	for i, s := range servers {
		for part := range 2 {
			group.Go(func() {
				for n := 1; n <= traces; n++ {
					of := renamed(spans, traceID(n))
					var half []otlp.Span
					for j := range of {
						if j%4 == 2*i+part {
							half = append(half, of[j])
						}
					}
					if err := s.ReplaceTraces(t.Context(), chunks(t, half)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	group.Wait()
	for n := 1; n <= traces; n++ {
		if diff := cmp.Diff(want, whole(t, servers[n%2], traceID(n))); diff != "" {
			t.Fatalf("trace %d (-whole +in parts):\n%s", n, diff)
		}
	}
	rolledUp(t, servers[0])
}

// TestANativePlanNamesTheTrace: the rows of the trace are in its tree, whether it was
// told before the spans came, between them or after.
func TestANativePlanNamesTheTrace(t *testing.T) {
	t.Parallel()
	s := open(t, projecting)
	native := func(n int) *record.Plan {
		return &record.Plan{RootPlanID: fmt.Sprint("native", n), CurrentPlanID: fmt.Sprint("native", n), TraceID: new(traceID(n)),
			Title: new("as it was told"), State: new(record.Paused), StartTime: at(1)}
	}
	spans := run(t, "")
	var want string
	for n, when := range []int{0, len(spans) / 2, len(spans)} {
		of := renamed(spans, traceID(n))
		if when > 0 {
			replace(t, s, of[:when]...)
		}
		write(t, s, native(n))
		if when < len(spans) {
			replace(t, s, of[when:]...)
		} else if err := store.ReplaceDue(s, t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := onRecord(t, store.Pool(s), traceID(n)); len(left) > 0 {
			t.Errorf("told after %d spans: there is left\n%s", when, strings.Join(left, "\n"))
		}
		got := strings.ReplaceAll(whole(t, s, fmt.Sprint("native", n)), traceID(n), "TRACE")
		if n == 0 {
			want = got
			if !strings.Contains(got, "as it was told") || !strings.Contains(got, "PAUSED") || planTree(t, s, "native0").Record.UserRequest == nil {
				t.Errorf("the plan is %s", got)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("told after %d spans (-before +then):\n%s", when, diff)
		}
	}
	rolledUp(t, s)
}

// TestBothTell: what others tell of rows that a trace made stays; the rest goes on with
// the trace.
func TestBothTell(t *testing.T) {
	t.Parallel()
	s := open(t, projecting)
	spans := run(t, traceID(0))
	root := traceID(0)
	replace(t, s, spans[:len(spans)-1]...)
	before := planTree(t, s, root).Record
	if before.State.Terminal() {
		t.Fatal("the plan has ended already")
	}
	step := query[string](t, s, "SELECT min(step_id) FROM actlog.agent_execution_record WHERE shown_plan_id <> root_plan_id")
	write(t, s,
		&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("a better title")},
		&record.Thought{RootPlanID: root, PlanID: root, ThoughtID: "t", Content: new("hm")},
		&record.AgentExecution{RootPlanID: root, PlanID: query[string](t, s, "SELECT plan_id FROM actlog.agent_execution_record WHERE step_id = $1", step), StepID: step, Result: new("a better result")})
	replace(t, s, spans...)
	after := planTree(t, s, root).Record
	if *after.Title != "a better title" || *after.State != record.Completed {
		t.Errorf("the plan is %q, %s", *after.Title, *after.State)
	}
	if got := stepDetail(t, s, step).Record; *got.Result != "a better result" || *got.State != record.Completed {
		t.Errorf("the step is %q, %s", *got.Result, *got.State)
	}
	// It moves; what is told of the plan itself stays.
	write(t, s, &record.Plan{RootPlanID: "native", CurrentPlanID: "native", TraceID: &root})
	if err := store.ReplaceDue(s, t.Context()); err != nil {
		t.Fatal(err)
	}
	left := planTree(t, s, root)
	if *left.Record.Title != "a better title" || left.Record.UserRequest != nil || left.Record.Summary != nil {
		t.Errorf("left is %+v", left.Record)
	}
	if thoughts := query[int](t, s, "SELECT count(*) FROM actlog.thought WHERE root_plan_id = $1", root); thoughts != 1 {
		t.Error("the thought is gone")
	}
	if got := planTree(t, s, "native").Record; got.UserRequest == nil || *got.State != record.Completed {
		t.Errorf("the native plan is %+v", got)
	}
}

// TestAPlaceholderIsFilled: something was told beneath a trace before its spans came.
func TestAPlaceholderIsFilled(t *testing.T) {
	t.Parallel()
	s := open(t, projecting)
	spans := run(t, traceID(0))
	write(t, s, &record.Thought{RootPlanID: traceID(0), PlanID: traceID(0), ThoughtID: "t"})
	for i := range spans {
		replace(t, s, spans[i])
	}
	got := dump(t, s, traceID(0))
	replace(t, s, renamed(spans, traceID(1))...)
	if diff := cmp.Diff(dump(t, s, traceID(1)), got); diff != "" {
		t.Errorf("-without +with placeholder:\n%s", diff)
	}
}

// TestWhoeverTellsFirst: of two who tell of the same rows, it does not matter which one
// is first, whether rows of which nothing but their keys is known stand there already, or
// whether the spans come in parts.
func TestWhoeverTellsFirst(t *testing.T) {
	t.Parallel()
	s := open(t, projecting)
	all, n := runs(t), 0
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
			tell := func(parts [][]otlp.Span) {
				for _, part := range parts {
					replace(t, s, renamed(part, trace)...)
				}
			}
			tell(parts[:after])
			write(t, s, append(named, natively(rand.New(rand.NewPCG(11, uint64(i))), otlp.Project(renamed(mixed, root)))...)...)
			tell(parts[after:])
			replace(t, s, renamed(mixed[:1], trace)...) // so that there is one more turn for all
			var got []string
			for table, rows := range tables(t, s, root) {
				for row := range strings.Lines(strings.NewReplacer(root, "ROOT", trace, "TRACE", `"origin": "otlp"`, `"origin": "native"`).Replace(rows)) {
					got = append(got, table+" "+strings.TrimSpace(row))
				}
			}
			slices.Sort(got)
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s, told natively after %d parts (-before +then):\n%s", name, after, diff)
			}
		}
	}
	rolledUp(t, s)
}

// natively tells of some of the rows that a trace has made: a few of their fields, but
// for links, and those of which the rules choose among two who tell; of others that they
// are there, by something beneath them.
func natively(random *rand.Rand, of []record.Change) (changes []record.Change) {
	for _, c := range of {
		key := c.Key()
		if random.IntN(2) == 0 {
			continue
		}
		if key.Kind == record.KindPlan && random.IntN(2) == 0 {
			changes = append(changes, &record.Wait{RootPlanID: key.Root, PlanID: key.ID, WaitID: "w " + key.ID})
			continue
		}
		own := record.New(key.Kind)
		for i := range record.Fields(key.Kind) {
			switch f := &record.Fields(key.Kind)[i]; {
			case f.Key, f.Name == "planId":
				f.In(own).Set(f.In(c))
			case f.Name == "parentPlanId", f.Name == "toolCallId", f.Name == "traceId", f.Rule != record.Newest, !f.Told():
			case random.IntN(4) == 0:
				setField(f, own, 1)
			}
		}
		changes = append(changes, own)
	}
	return changes
}

func TestDeletingATrace(t *testing.T) {
	t.Parallel()
	s := open(t, projecting)
	spans := run(t, traceID(0))
	replace(t, s, spans...)
	if err := s.DeletePlan(t.Context(), traceID(0)); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"otlp_trace", "otlp_span", "plan_execution_record"} {
		if n := query[int](t, s, "SELECT count(*) FROM actlog."+table); n > 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	last := spans[len(spans)-3:]
	replace(t, s, last...)
	if diff := cmp.Diff(keys(otlp.Project(last)), onRecord(t, store.Pool(s), traceID(0))); diff != "" {
		t.Errorf("a new tree (-projected +on record):\n%s", diff)
	}
}

// TestAQuietTrace: nothing comes any more, and no one knows what became of it.
func TestAQuietTrace(t *testing.T) {
	t.Parallel()
	s := open(t, projecting, func(c *store.Config) { c.TraceQuiet = time.Hour })
	spans := run(t, traceID(0))
	replace(t, s, spans[:len(spans)-1]...)
	age := func(by string) {
		exec(t, s, "UPDATE actlog.otlp_trace SET last_seen_at = last_seen_at - $1::interval, due_at = due_at - $1::interval", by)
		if err := store.ReplaceDue(s, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	state := func() record.State { return *planTree(t, s, traceID(0)).Record.State }
	age("30 minutes")
	if got := state(); got != record.Running {
		t.Errorf("after half an hour the plan is %s", got)
	}
	age("31 minutes")
	if got := state(); got != record.Unknown {
		t.Errorf("after an hour the plan is %s", got)
	}
	if n := query[int](t, s, "SELECT count(*) FROM actlog.otlp_trace WHERE due_at IS NOT NULL"); n > 0 {
		t.Error("it is due again")
	}
	replace(t, s, spans...)
	if got := state(); got != record.Completed {
		t.Errorf("when the rest came the plan is %s", got)
	}
}

// TestALargeTrace has its rows made from time to time, by whichever server.
func TestALargeTrace(t *testing.T) {
	t.Parallel()
	url := newDB(t)
	s, other := openURL(t, url, projecting), openURL(t, url, projecting)
	store.MaxProjected(s, 10)
	spans := run(t, traceID(0))
	if len(spans) <= 10 {
		t.Fatalf("%d spans", len(spans))
	}
	replace(t, s, spans[:10]...)
	write(t, s, &record.Plan{RootPlanID: traceID(0), CurrentPlanID: traceID(0), ModelName: new("mine")})
	first := onRecord(t, store.Pool(s), traceID(0))
	replace(t, s, spans[10:]...)
	if diff := cmp.Diff(first, onRecord(t, store.Pool(s), traceID(0))); diff != "" {
		t.Errorf("rows were made at once:\n%s", diff)
	}
	exec(t, s, "UPDATE actlog.otlp_trace SET due_at = now()")
	if err := store.ReplaceDue(other, t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(keys(otlp.Project(spans)), onRecord(t, store.Pool(s), traceID(0))); diff != "" {
		t.Errorf("-projected +on record:\n%s", diff)
	}
	if got := planTree(t, s, traceID(0)).Record; *got.State != record.Completed || *got.ModelName != "mine" {
		t.Errorf("the plan, of which someone else told, is %+v", got)
	}
	// Its spans are dropped: what comes does not take their place.
	want := whole(t, s, traceID(0))
	exec(t, s, "DELETE FROM actlog.otlp_trace")
	store.MaxProjected(s, 0)
	replace(t, s, spans[:2]...)
	exec(t, s, "UPDATE actlog.otlp_trace SET due_at = now()")
	if err := store.ReplaceDue(s, t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, whole(t, s, traceID(0))); diff != "" {
		t.Errorf("-before +after late spans:\n%s", diff)
	}
}

// TestABadTrace does not sink the others.
func TestABadTrace(t *testing.T) {
	t.Parallel()
	s := open(t, func(c *store.Config) {
		c.Project = func(id string, chunks [][]byte) ([]record.Change, error) {
			changes, err := otlp.ProjectChunks(id, chunks)
			switch id {
			case traceID(2): // a row that is not valid is left out
				changes = append(changes, &record.AgentExecution{RootPlanID: id, StepID: "s", PlanID: id, State: new(record.State("NONE"))})
			case traceID(3):
				changes = append(changes, &record.AgentExecution{RootPlanID: id, StepID: "s", PlanID: id, AgentName: new("refused")})
			}
			return changes, err
		}
	})
	exec(t, s, "ALTER TABLE actlog.agent_execution_record ADD CONSTRAINT agent_refused CHECK (agent_name <> 'refused')")
	var traces []store.Trace
	for i := range 6 {
		traces = append(traces, chunks(t, run(t, traceID(i)))...)
	}
	traces[4].Spans = []byte("no chunk")
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
		t.Errorf("rejected (-want +got): %s", diff)
	}
	for i := range 5 {
		if n := len(onRecord(t, store.Pool(s), traceID(i))); n < 5 && i < 3 || n > 0 && i >= 3 {
			t.Errorf("of trace %d there are %d rows", i, n)
		}
	}
}

// TestLateSpans: the spans of which the rows were made are no more. What comes adds to
// them, and changes none.
func TestLateSpans(t *testing.T) {
	t.Parallel()
	s := open(t, projecting, func(c *store.Config) { c.TraceDays = 2 })
	spans := run(t, traceID(0))
	replace(t, s, spans...)
	replace(t, s, renamed(spans, traceID(1))[1:]...)
	want := whole(t, s, traceID(0))
	exec(t, s, "SELECT actlog.add_partition('otlp_span', d - 5, d - 4) FROM (SELECT (now() AT TIME ZONE 'utc')::date AS d) AS x")
	for _, days := range []int{5, 7} { // in a partition, and in none
		exec(t, s, `UPDATE actlog.otlp_span SET part = (now() AT TIME ZONE 'utc')::date - $1::integer`, days)
		exec(t, s, `UPDATE actlog.otlp_trace SET part = (now() AT TIME ZONE 'utc')::date - $1::integer`, days)
		// The first was silent since, the second was not.
		exec(t, s, `UPDATE actlog.otlp_trace SET last_seen_at = now() - INTERVAL '3 days' WHERE trace_id = $1`, traceID(0))
		if err := store.DropSpans(s, t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if got := lines(t, store.Pool(s), "SELECT t.trace_id FROM actlog.otlp_trace AS t JOIN actlog.otlp_span AS s ON s.trace_id = t.trace_id AND s.part = t.part AND t.part = (now() AT TIME ZONE 'utc')::date"); !slices.Equal(got, []string{traceID(1)}) {
			t.Errorf("kept are the spans of %v", got)
		}
		if n := query[int](t, s, "SELECT count(*) FROM actlog.otlp_span"); n != 1 {
			t.Errorf("%d rows of spans are left", n)
		}
		replace(t, s, spans[len(spans)/2:]...)
		if diff := cmp.Diff(want, whole(t, s, traceID(0))); diff != "" {
			t.Errorf("the tree changed (-before +after):\n%s", diff)
		}
	}
	if n := len(partitions(t, store.Pool(s), "otlp_span")); n != 1+1+store.PartitionsAhead {
		t.Errorf("%d partitions are left", n)
	}
	replace(t, s, renamed(spans, traceID(1))[:1]...)
	if diff := cmp.Diff(keys(otlp.Project(renamed(spans, traceID(1)))), onRecord(t, store.Pool(s), traceID(1))); diff != "" {
		t.Errorf("one that still grew (-projected +on record):\n%s", diff)
	}
}

// TestWhoForgetsSpans: a store that takes no traces, as an agent's, does not know how
// long they are kept.
func TestWhoForgetsSpans(t *testing.T) {
	t.Parallel()
	url := newDB(t)
	server, agent := openURL(t, url, projecting, func(c *store.Config) { c.TraceDays = 30 }), openURL(t, url)
	for n, days := range []int{10, 40} {
		replace(t, server, run(t, traceID(n))...)
		exec(t, server, `UPDATE actlog.otlp_span SET part = part - $1::integer WHERE trace_id = $2`, days, traceID(n))
		exec(t, server, `UPDATE actlog.otlp_trace SET part = part - $1::integer, last_seen_at = last_seen_at - make_interval(days => $1) WHERE trace_id = $2`, days, traceID(n))
	}
	for _, tt := range []struct {
		by   *store.Store
		left []string
	}{{agent, []string{traceID(0), traceID(1)}}, {server, []string{traceID(0)}}} {
		if err := tt.by.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := lines(t, store.Pool(server), "SELECT DISTINCT t.trace_id FROM actlog.otlp_trace AS t JOIN actlog.otlp_span AS s USING (trace_id) ORDER BY 1"); !slices.Equal(got, tt.left) {
			t.Errorf("left are the spans of %q, want %q", got, tt.left)
		}
	}
}

// TestTracesMeetOthers: traces, what is told natively of their trees, and those who
// delete these, all at once. Whoever comes last, nothing fails and nothing is in halves.
func TestTracesMeetOthers(t *testing.T) {
	t.Parallel()
	url := newDB(t)
	servers := []*store.Store{openURL(t, url, projecting), store.CopyNew(openURL(t, url, projecting))}
	spans := run(t, "")
	const trees, rounds = 5, 20
	var group sync.WaitGroup
	for worker, s := range slices.Repeat(servers, 2) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(worker)))
			for range rounds {
				n := random.IntN(trees)
				cut := random.IntN(len(spans))
				if err := s.ReplaceTraces(t.Context(), chunks(t, slices.Concat(renamed(spans[cut:], traceID(n)), renamed(spans[:cut], traceID(random.IntN(trees)))))); err != nil {
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
			write(t, servers[i%2], &record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new(fmt.Sprint("title ", i))},
				&record.Thought{RootPlanID: root, PlanID: root, ThoughtID: fmt.Sprint(i)},
				&record.Plan{RootPlanID: native, CurrentPlanID: native, TraceID: new(traceID(trees - 1 - i%2)), Title: new(fmt.Sprint("title ", i))})
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
		replace(t, servers[0], renamed(spans, traceID(n))...)
	}
	if err := store.ReplaceDue(servers[0], t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range trees {
		root := query[string](t, servers[0], "SELECT root_plan_id FROM actlog.otlp_trace WHERE trace_id = $1", traceID(n))
		want := keys(otlp.Project(renamed(spans, traceID(n))))
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], traceID(n), root)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, onRecord(t, store.Pool(servers[0]), root)); diff != "" {
			t.Errorf("trace %d in %s (-projected +on record):\n%s", n, root, diff)
		}
	}
	rolledUp(t, servers[0])
}

// TestALostConnection: a trace is on record once, whenever its connection is cut.
func TestALostConnection(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := openURL(t, pg.URL, projecting, func(c *store.Config) { c.RetryFor = time.Minute })
	spans := run(t, "")
	var cut atomic.Int32
	var group sync.WaitGroup
	group.Go(func() {
		for cut.Load() < 5 {
			var n int32
			if err := pg.Pool.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'actlog' AND state <> 'idle'`).Scan(&n); err != nil {
				t.Error(err)
				return
			}
			cut.Add(n)
			time.Sleep(20 * time.Millisecond)
		}
	})
	defer group.Wait()
	for n := 0; n < 20 || cut.Load() < 5 && !t.Failed(); n++ {
		of := renamed(spans, traceID(n))
		replace(t, s, of[:len(of)/2]...)
		replace(t, s, of[len(of)/2:]...)
	}
	for n := range 20 {
		if diff := cmp.Diff(keys(otlp.Project(renamed(spans, traceID(n)))), onRecord(t, pg.Pool, traceID(n))); diff != "" {
			t.Errorf("-projected +on record:\n%s", diff)
		}
	}
}

func TestTracesAreUnavailable(t *testing.T) {
	t.Parallel()
	s := open(t, projecting, func(c *store.Config) {
		c.RetryFor = 50 * time.Millisecond
		c.Room = func() error { return errors.New("none") }
	})
	of := chunks(t, run(t, traceID(0)))
	if err := s.ReplaceTraces(t.Context(), of); !errors.Is(err, store.ErrDiskFull) || !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("without room: %v", err)
	}
	closed := openClosed(t)
	if err := closed.ReplaceTraces(t.Context(), of); err == nil {
		t.Error("a store without a projection took a trace")
	}
}
