package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestCopiesCountNothing: reports, lists, charts and details have the same figures of runs whose first rows are copies
// of those of other runs as of runs without these rows, whenever it becomes known that a row is a copy, and also once
// detail is dropped.
func TestCopiesCountNothing(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres counts")
	t.Parallel()
	r := rand.New(rand.NewPCG(27, 1))
	own, copies := forks()
	if len(own) < 300 || len(copies) < 300 {
		t.Fatalf("%d rows are their own, %d are copies", len(own), len(copies))
	}

	var late []record.Change // that these are copies becomes known after they were counted
	with := slices.Clone(own)
	for _, c := range copies {
		switch mark := copyOf(c); r.IntN(3) {
		case 0:
			reflect.ValueOf(c).Elem().FieldByName("ForkedFrom").Set(reflect.ValueOf(mark).Elem().FieldByName("ForkedFrom"))
		case 1:
			late = append(late, mark)
		case 2:
			with = slices.Insert(with, r.IntN(len(with)), mark) // before the row, mostly
		}
		with = append(with, c)
	}

	a, b := openForks(t, with), openForks(t, own)
	storetest.Write(t, a, late...)
	if n := storetest.Query[int](t, a, "SELECT count(DISTINCT day) FROM actlog.opened_day"); n == 0 {
		t.Error("copies that were counted open no day again")
	}
	checkForks(t, "with days that are open", a, b)

	closeDays(t, a)
	cycle := slices.IndexFunc(copies, func(c record.Change) bool { return c.Kind() == record.KindThinkAct })
	again := copyOf(copies[cycle]).(*record.ThinkAct) //nolint:forcetypeassert // as chosen
	again.FinishReason = new("other")
	storetest.Write(t, a, again)

	if n := storetest.Query[int](t, a, "SELECT count(*) FROM actlog.opened_day WHERE day < '2026-11-22'"); n != 0 {
		t.Errorf("a copy that changes opens %d days", n)
	}

	storetest.CheckKept(t, a)
	checkRollUpsOf(t, a, "run-%")
	for _, s := range []*store.Store{a, b} {
		for _, sql := range []string{sqlRuns, sqlReviews, sqlSessions} {
			storetest.Exec(t, s, sql)
		}
		keepCauses(t, s)
	}
	checkForks(t, "with runs, closed days and causes", a, b)

	for _, s := range []*store.Store{a, b} {
		kept := storetest.Upkeep(t, s, upkeep.Config{DetailDays: 30})
		storetest.Age(t, s, storetest.OldMonday, storetest.Lines(t, s.DB(),
			"SELECT root_plan_id FROM actlog.plan_execution_record GROUP BY root_plan_id HAVING bool_and(completed)")...)
		if err := kept.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		storetest.Until(t, "detail is dropped", func() bool {
			return storetest.Query[int](t, s, "SELECT count(*) FROM report.tool_call WHERE part < '2026-01-01'") == 0
		})
	}
	checkViews(t, "without detail", a, b, "usage_daily", "tool_daily", "agent_daily", "agent_execution")
	checkDetails(t, "without detail", a, b)
}

// forks returns the rows of runs. Of every second one, the first rows are copies: the first step with all below it, the
// first cycle of the next one, and the first call of its second cycle.
func forks() (own, copies []record.Change) {
	g := &reportSeed{r: rand.New(rand.NewPCG(20261120, 27))}
	for n := range 60 {
		g.run(reportNow.AddDate(0, 0, -n%4).Add(-time.Duration(n) * time.Minute))
	}

	steps, calls := map[string]bool{}, map[string]bool{}
	plans := map[string]bool{}
	goesOn := map[string]bool{} // steps of which only the first cycles are copies
	isCopy := func(c record.Change) bool {
		switch c := c.(type) {
		case *record.Plan:
			return plans[c.CurrentPlanID] || calls[optional.Value(c.ToolCallID)]
		case *record.AgentExecution:
			return steps[c.StepID] || plans[c.PlanID]
		case *record.ThinkAct:
			return steps[c.StepID] || goesOn[c.StepID] && c.Seq == 0
		case *record.ActTool:
			return calls[c.ToolCallID] || steps[c.StepID] ||
				goesOn[c.StepID] && (c.Seq == 0 || c.Seq == 1 && strings.HasSuffix(c.ToolCallID, "-t0"))
		case *record.Thought:
			return plans[c.PlanID] || steps[optional.Value(c.StepID)]
		case *record.Artifact:
			return plans[c.PlanID] || steps[optional.Value(c.StepID)] || calls[optional.Value(c.ToolCallID)]
		case *record.Source:
			return plans[c.PlanID] || steps[optional.Value(c.StepID)] || calls[optional.Value(c.ToolCallID)]
		case *record.Wait:
			return plans[c.PlanID] || steps[optional.Value(c.StepID)] || calls[optional.Value(c.ToolCallID)]
		}
		return false
	}

	for _, c := range g.changes {
		st, ok := c.(*record.AgentExecution)
		if !ok || st.PlanID != st.RootPlanID || isEven(st.RootPlanID) {
			continue
		}
		steps[st.StepID] = strings.HasSuffix(st.StepID, "-s0")
		goesOn[st.StepID] = strings.HasSuffix(st.StepID, "-s1")
	}

	for range 5 { // sub-plans are below each other
		for _, c := range g.changes {
			switch c := c.(type) {
			case *record.Plan:
				plans[c.CurrentPlanID] = isCopy(c)
			case *record.AgentExecution:
				steps[c.StepID] = isCopy(c)
			case *record.ActTool:
				calls[c.ToolCallID] = isCopy(c)
			}
		}
	}

	for _, c := range g.changes {
		if isCopy(c) {
			copies = append(copies, c)
		} else {
			own = append(own, c)
		}
	}
	return own, copies
}

func isEven(root string) bool { return strings.ContainsAny(root[len(root)-1:], "02468") }

// copyOf is a change which says of a row that it is a copy.
func copyOf(of record.Change) record.Change {
	mark := record.New(of.Kind())
	to, from := reflect.ValueOf(mark).Elem(), reflect.ValueOf(of).Elem()
	for i := range to.NumField() {
		if _, options, _ := strings.Cut(to.Type().Field(i).Tag.Get("record"), ","); strings.HasPrefix(options, "key") {
			to.Field(i).Set(from.Field(i))
		}
	}

	if step, ok := of.(*record.AgentExecution); ok {
		mark.(*record.AgentExecution).PlanID = step.PlanID //nolint:forcetypeassert // of the same kind
	}
	to.FieldByName("ForkedFrom").Set(reflect.ValueOf(new("row:of/another run")))
	return mark
}

// openForks writes changes into a database of their own, and closes all days.
func openForks(t testing.TB, changes []record.Change) *store.Store {
	t.Helper()
	s := storetest.OpenURL(t, pgtest.New(t).URL)
	for part := range slices.Chunk(changes, 200) {
		storetest.Write(t, s, part...)
	}
	closeDays(t, s)
	return s
}

func closeDays(t testing.TB, s *store.Store) {
	t.Helper()
	storetest.Exec(t, s, "SELECT actlog.close_day(d) FROM generate_series(timestamptz '2026-11-14Z', timestamptz "+
		"'2026-11-21Z', interval '24 hours') AS d")
}

// checkForks compares what is said of runs with copies, and of the same runs without.
func checkForks(t *testing.T, when string, a, b *store.Store) {
	t.Helper()
	checkViews(t, when, a, b, storetest.Lines(t, a.DB(), `SELECT relname FROM pg_class
		WHERE relnamespace = 'report'::regnamespace AND relkind = 'v' AND relname <> 'open_time'
			AND (relname <> 'closed_day' OR NOT EXISTS (SELECT FROM actlog.opened_day)) -- else it has fewer days`)...)
	checkDetails(t, when, a, b)

	if diff := cmp.Diff(listedFigures(t, b), listedFigures(t, a)); diff != "" {
		t.Errorf("%s: the list (-without +with copies):\n%.4000s", when, diff)
	}

	why := func(s *store.Store, root string) string {
		p, err := s.Skeleton(t.Context(), "", root)
		if err != nil {
			t.Fatal(err)
		}
		return explained(tree.Explain(p))
	}
	for _, root := range roots(t, b) {
		if without, with := why(b, root), why(a, root); without != with {
			t.Errorf("%s: the cause of %s is\n%s, want\n%s", when, root, with, without)
		}
	}

	for _, by := range []store.ChartBy{store.ByDay, store.ByModel, store.ByAgent, store.ByTool} {
		chart := func(s *store.Store) []store.ChartRow {
			rows, err := s.Chart(t.Context(), by, store.ChartFilter{Since: reportNow.AddDate(0, 0, -30)})
			if err != nil {
				t.Fatal(err)
			}
			for i := range rows { // those of closed days are not exact
				rows[i].P50Seconds, rows[i].P95Seconds = nil, nil
			}
			return rows
		}
		if diff := cmp.Diff(chart(b), chart(a)); diff != "" {
			t.Errorf("%s: the chart by %s (-without +with copies):\n%.4000s", when, by, diff)
		}
	}
}

// checkViews compares the rows of reports.
func checkViews(t *testing.T, when string, a, b *store.Store, views ...string) {
	t.Helper()
	for _, view := range views {
		// The last sign of life and the latest tool of a step may be those of a copy. The others are of the clock.
		sql := `SELECT (
				SELECT jsonb_object_agg(m.key, CASE jsonb_typeof(m.value) WHEN 'number' THEN to_jsonb(round(m.value::numeric, 6)) ELSE m.value END)
				FROM jsonb_each(to_jsonb(v)) AS m
				WHERE m.key <> ALL ('{first_seen_at,last_seen_at,last_sign_of_life,running_seconds,silent_seconds,latest_tool_name}')
			)::text
			FROM report.` + view + ` AS v ORDER BY 1`

		got, want := storetest.Lines(t, a.DB(), sql), storetest.Lines(t, b.DB(), sql)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: report.%s (-without +with copies):\n%.4000s", when, view, diff)
		}
	}
}

// checkDetails compares the figures in the details of the runs.
func checkDetails(t *testing.T, when string, a, b *store.Store) {
	t.Helper()
	for _, root := range roots(t, b) {
		without, with := figuresIn(storetest.PlanTree(t, b, root)), figuresIn(storetest.PlanTree(t, a, root))
		maps.DeleteFunc(with, func(at string, _ tree.Figures) bool { _, known := without[at]; return !known })
		if diff := cmp.Diff(without, with); diff != "" {
			t.Errorf("%s: details of %s (-without +with copies):\n%.2000s", when, root, diff)
		}
	}
}

func roots(t testing.TB, s *store.Store) []string {
	t.Helper()
	return storetest.Lines(t, s.DB(), "SELECT root_plan_id FROM actlog.plan_execution_record WHERE root_plan_id = current_plan_id")
}

// figuresIn returns the figures in the details of a plan, of each plan and step.
func figuresIn(p *tree.Plan) map[string]tree.Figures {
	all := map[string]tree.Figures{
		"plan " + p.Record.CurrentPlanID: p.Figures, "total of plan " + p.Record.CurrentPlanID: p.Total,
	}
	for _, st := range p.Steps {
		all["step "+st.Record.StepID] = st.Figures
	}
	for sub := range p.Children() {
		maps.Copy(all, figuresIn(sub))
	}
	return all
}

// listedFigures returns what the lists say of the runs.
func listedFigures(t testing.TB, s *store.Store) (lines []string) {
	t.Helper()
	for _, failed := range []*bool{nil, new(true), new(false)} {
		list, err := s.Plans(t.Context(), store.PlanFilter{Limit: 1000, Failed: failed})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			p := &list[i]
			lines = append(lines, fmt.Sprintf("%s %d %s %s", p.Record.RootPlanID, p.Steps, figuresLine(t, &p.Total), listed(p)))
		}
	}

	live, err := s.LivePlans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range live {
		lines = append(lines, fmt.Sprintf("live %s %d %s", p.Record.RootPlanID, p.Steps, figuresLine(t, &p.Total)))
	}
	return lines
}

func figuresLine(t testing.TB, f *tree.Figures) string {
	t.Helper()
	line, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// TestForkOfThoughts: a fork has all thoughts of steps that are copied, whenever they were, and those of a step with
// which it goes on from before that goes on.
func TestForkOfThoughts(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	at := time.Date(2026, 11, 28, 6, 0, 0, 0, time.UTC)
	thought := func(id, step string, after time.Duration) *record.Thought {
		return &record.Thought{
			RootPlanID: "a", ThoughtID: id, PlanID: "a", StepID: &step, Time: new(at.Add(after)),
		}
	}

	storetest.Write(t, s,
		&record.Plan{RootPlanID: "a", CurrentPlanID: "a"}, &record.Plan{RootPlanID: "b", CurrentPlanID: "b"},
		&record.AgentExecution{RootPlanID: "a", PlanID: "a", StepID: "copied"},
		&record.AgentExecution{RootPlanID: "a", PlanID: "a", StepID: "opened"},
		thought("1", "copied", time.Hour), thought("2", "opened", -time.Hour), thought("3", "opened", time.Hour),
	)

	err := s.InTx(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.Fork(ctx, store.Fork{
			From: "a", To: "b", Attached: []store.ForkedAttached{{PlanID: "a", NewPlanID: "b", Until: &at}},
			Steps: []store.ForkedStep{
				{ID: "copied", NewID: "copied-b", PlanID: "b"}, {ID: "opened", NewID: "opened-b", PlanID: "b", Opens: true},
			},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	got := storetest.Query[string](t, s,
		"SELECT string_agg(forked_from, ' ' ORDER BY thought_id) FROM actlog.thought WHERE root_plan_id = 'b'")
	if want := "thought:1 thought:2"; got != want {
		t.Errorf("the fork has %q, not %q", got, want)
	}
}
