package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

func keepDetail(n int) func(*store.Config) { return func(c *store.Config) { c.DetailDays = n } }

// oldMonday begins the period that these tests drop.
const oldMonday = "2026-01-05"

// age moves trees into a period that is long over, with partitions of its own.
func age(t testing.TB, pool *pgxpool.Pool, monday string, roots ...string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, table := range store.PartitionedTables {
			if _, err := tx.Exec(t.Context(), `SELECT actlog.add_partition($1, $2::date, $2::date + 7) WHERE to_regclass('actlog.' || $1 || '_p' || to_char($2::date, 'YYYYMMDD')) IS NULL`, table, monday); err != nil {
				return err
			}
		}
		return setPart(t.Context(), tx, monday, roots)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func setPart(ctx context.Context, tx pgx.Tx, day string, roots []string) error {
	for _, table := range append([]string{"plan_execution_record", "agent_execution_record"}, store.PartitionedTables...) {
		if _, err := tx.Exec(ctx, "UPDATE actlog."+table+" SET part = $1 WHERE root_plan_id = ANY ($2)", day, roots); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "UPDATE actlog.plan_execution_record SET first_seen_at = $1::date WHERE root_plan_id = ANY ($2)", day, roots)
	return err
}

// tellTree writes a tree that has ended: two steps, a sub-plan with a step, two
// calls of the same id, waits and thoughts beside it.
func tellTree(t testing.TB, s *store.Store, root string, state record.State) {
	t.Helper()
	call := func(step string, seq int, id string, more func(*record.ActTool)) *record.ActTool {
		c := &record.ActTool{RootPlanID: root, StepID: root + step, Seq: int64(seq), ToolCallID: root + id, Name: new("fetch"), State: new(record.Completed), StartTime: at(10), EndTime: at(12), Result: new("42")}
		if more != nil {
			more(c)
		}
		return c
	}
	write(t, s,
		&record.Plan{RootPlanID: root, CurrentPlanID: root, Title: new("old"), State: &state, StartTime: at(1), EndTime: at(30)},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-a", StepIndex: new(int64(0)), StartTime: at(8), State: new(record.Completed)},
		&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-b", StepIndex: new(int64(1)), StartTime: at(2), State: new(record.Completed)},
		&record.ThinkAct{RootPlanID: root, StepID: root + "-a", Seq: 0, InputTokens: new(int64(7)), CostUSD: new(0.5), State: new(record.Completed), ThinkInput: new("in")},
		call("-a", 0, "-t", nil),
		call("-b", 1, "-t", func(c *record.ActTool) { c.State = new(record.Failed) }),
		call("-a", 2, "-u", nil),
		&record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", ParentPlanID: &root, ToolCallID: new(root + "-t"), State: new(record.Completed), StartTime: at(11)},
		&record.Plan{RootPlanID: root, CurrentPlanID: root + "-lost", ParentPlanID: &root, ToolCallID: new("lost"), State: new(record.Completed), StartTime: at(12)},
		&record.AgentExecution{RootPlanID: root, PlanID: root + "-sub", StepID: root + "-c", State: new(record.Completed)},
		call("-c", 0, "-v", nil),
		&record.Wait{RootPlanID: root, PlanID: root, WaitID: "w"},
		&record.Thought{RootPlanID: root, PlanID: root, ThoughtID: "th"},
		&record.Artifact{RootPlanID: root, PlanID: root, Name: "ar"},
		&record.Source{RootPlanID: root, PlanID: root, SourceID: "so"},
	)
}

// dropDetail drops what is older than 30 days.
func dropDetail(t testing.TB, s *store.Store) {
	t.Helper()
	if err := store.DropDetail(s, t.Context(), 30); err != nil {
		t.Fatal(err)
	}
}

// skeleton is a tree as it should be after its detail was dropped.
func skeleton(p *tree.Plan) *tree.Plan {
	p.StructureResult, p.ParentStepID, p.ToolCall = nil, "", nil
	for c := range p.Children() {
		skeleton(c)
	}
	return p
}

func gone(t testing.TB, s *store.Store, monday string) {
	t.Helper()
	if n := query[int](t, s, "SELECT count(*) FROM pg_class WHERE relnamespace = 'actlog'::regnamespace AND relname LIKE '%\\_p'||to_char($1::text::date, 'YYYYMMDD')", monday); n != 0 {
		t.Errorf("%d partitions of %s are left", n, monday)
	}
	for _, table := range store.PartitionedTables {
		if n := query[int](t, s, "SELECT count(*) FROM actlog."+table+" WHERE part >= $1::text::date AND part < $1::text::date + 7", monday); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}

// TestDroppedDetail: the tree says the same without its cycles, and goes on
// saying it whatever is told late.
func TestDroppedDetail(t *testing.T) {
	t.Parallel()
	for _, inDefault := range []bool{false, true} {
		t.Run(fmt.Sprintf("in the default partition %v", inDefault), func(t *testing.T) {
			t.Parallel()
			pg := pgtest.Fresh(t)
			s := openURL(t, pg.URL)
			root := record.NewPlanID()
			tellTree(t, s, root, record.Completed)
			tellTree(t, s, root+"young", record.Completed)
			want, young := skeleton(planTree(t, s, root)), dump(t, s, root+"young")
			if want.Total.ToolCalls != 4 || want.Steps[1].SubPlans[0].Link != tree.LinkToolCall {
				t.Fatalf("before: %+v", want)
			}
			if inDefault {
				if err := pgx.BeginFunc(t.Context(), pg.Pool, func(tx pgx.Tx) error { return setPart(t.Context(), tx, oldMonday, []string{root}) }); err != nil {
					t.Fatal(err)
				}
			} else {
				age(t, pg.Pool, oldMonday, root)
			}
			check := func(when string) {
				t.Helper()
				dropDetail(t, s)
				gone(t, s, oldMonday)
				if diff := cmp.Diff(want, skeleton(planTree(t, s, root))); diff != "" {
					t.Errorf("%s (-before +after):\n%s", when, diff)
				}
				if got := planTree(t, s, root); got.StructureResult != nil || got.Steps[1].SubPlans[0].ToolCall != nil {
					t.Errorf("%s: %+v", when, got)
				}
				st := stepDetail(t, s, root+"-a")
				if len(st.Cycles) != 0 || st.Figures.InputTokens != 7 || *st.LatestToolArgs == "" {
					t.Errorf("%s: step %+v", when, st)
				}
			}
			exec(t, s, "UPDATE actlog.agent_execution_record SET latest_tool_args = 'x' WHERE step_id = $1", root+"-a")
			want.Steps[0].LatestToolArgs = new("x")
			check("dropped")
			daily := lines(t, pg.Pool, "SELECT format('%s %s/%s %s %s %s %s', day, tool_name, server_name, project, calls, failures, total_ms) FROM actlog.tool_daily")
			if diff := cmp.Diff([]string{"2026-11-20 fetch/ default 4 1 8000"}, daily); diff != "" {
				t.Errorf("tool_daily (-want +got):\n%s", diff)
			}
			// Late detail of a known step, and of one more.
			write(t, s, &record.ActTool{RootPlanID: root, StepID: root + "-a", Seq: 9, ToolCallID: "late", State: new(record.Failed)},
				&record.ThinkAct{RootPlanID: root, StepID: root + "-a", Seq: 0, State: new(record.Completed)})
			if f := planTree(t, s, root).Total; f.ToolCalls != 4 || f.InputTokens != 7 {
				t.Errorf("late detail altered the figures: %+v", f)
			}
			check("after late detail")
			if again := lines(t, pg.Pool, "SELECT format('%s %s/%s %s %s %s %s', day, tool_name, server_name, project, calls, failures, total_ms) FROM actlog.tool_daily"); !slices.Equal(daily, again) {
				t.Errorf("tool_daily = %q", again)
			}
			if got := dump(t, s, root+"young"); got != young {
				t.Errorf("another tree changed: %s", cmp.Diff(young, got))
			}
			// What is not detail may still be told.
			write(t, s, &record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "-a", Result: new("late")})
			if r := stepDetail(t, s, root+"-a").Record.Result; *r != "late" {
				t.Errorf("result = %q", *r)
			}
		})
	}
}

// TestLivePlansKeepTheirDetail: until they end.
func TestLivePlansKeepTheirDetail(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	var warned warnings
	s := openURL(t, pg.URL, warned.logger)
	live, ended := record.NewPlanID(), record.NewPlanID()
	tellTree(t, s, live, record.Waiting)
	tellTree(t, s, ended, record.Completed)
	age(t, pg.Pool, oldMonday, live, ended)
	before := dump(t, s, live)
	dropDetail(t, s)
	if got := dump(t, s, live); got != before {
		t.Errorf("it changed: %s", cmp.Diff(before, got))
	}
	if w := warned.String(); !strings.Contains(w, "have not ended") || !strings.Contains(w, live) {
		t.Errorf("it was said:\n%s", w)
	}
	write(t, s, &record.Plan{RootPlanID: live, CurrentPlanID: live, State: new(record.Failed)})
	dropDetail(t, s)
	gone(t, s, oldMonday)
}

// TestPeriodsThatAreNotOver: a period is old when its last day is.
func TestPeriodsThatAreNotOver(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	day := today(t, pg.Pool)
	monday := store.PeriodStart(day, 7).AddDate(0, 0, -21)
	s := openURL(t, pg.URL)
	root := record.NewPlanID()
	tellTree(t, s, root, record.Completed)
	age(t, pg.Pool, monday.Format(time.DateOnly), root)
	since := int(day.Sub(monday.AddDate(0, 0, 7)).Hours() / 24) // the days since it was over
	if err := store.DropDetail(s, t.Context(), since+1); err != nil {
		t.Fatal(err)
	}
	if n := len(stepDetail(t, s, root+"-a").Cycles); n != 2 {
		t.Errorf("%d cycles a day too early", n)
	}
	if err := store.DropDetail(s, t.Context(), since); err != nil {
		t.Fatal(err)
	}
	gone(t, s, monday.Format(time.DateOnly))
}

// TestToolDaily counts exactly, a call once, whatever the partition it was in.
func TestToolDaily(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := openURL(t, pg.URL)
	const second = "2026-01-12"
	for _, monday := range []string{oldMonday, second} {
		root := "root-" + monday
		changes := []record.Change{
			&record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Completed), Project: new("alpha")},
			&record.Plan{RootPlanID: root, CurrentPlanID: root + "-sub", Project: new("beta")},
			&record.AgentExecution{RootPlanID: root, PlanID: root, StepID: root + "a"},
			&record.AgentExecution{RootPlanID: root, PlanID: root + "-sub", StepID: root + "b"},
		}
		for i := range int64(100) { // 0 to 99 seconds
			state := record.Completed
			if i%10 == 0 {
				state = record.Failed
			}
			changes = append(changes,
				&record.ActTool{RootPlanID: root, StepID: root + "a", Seq: i, ToolCallID: fmt.Sprint("t", i), Name: new("slow"), ServerName: new("mcp"), State: &state, StartTime: at(0), EndTime: at(int(i))},
				&record.ActTool{RootPlanID: root, StepID: root + "b", Seq: i, ToolCallID: fmt.Sprint("u", i), Name: new("endless"), State: new(record.Running), StartTime: at(24 * 3600)})
		}
		changes = append(changes, &record.ActTool{RootPlanID: root, StepID: root + "a", Seq: 100, ToolCallID: "nothing"},
			&record.ActTool{RootPlanID: root, StepID: root + "a", Seq: 101, ToolCallID: "skewed", Name: new("slow"), ServerName: new("mcp"), StartTime: at(5), EndTime: at(4)})
		write(t, s, changes...)
		age(t, pg.Pool, monday, root)
	}
	dropDetail(t, s)
	dropDetail(t, s)
	got := lines(t, pg.Pool, `SELECT format('%s %s/%s %s: %s calls, %s failed, %s ms, %s timed, %s entries', day, tool_name, server_name, project, calls, failures, total_ms,
		(SELECT sum(n) FROM unnest(histogram) AS n), cardinality(histogram)) FROM actlog.tool_daily ORDER BY day, tool_name`)
	want := []string{
		"2026-01-05 / alpha: 1 calls, 0 failed, 0 ms, 0 timed, 120 entries",
		"2026-01-12 / alpha: 1 calls, 0 failed, 0 ms, 0 timed, 120 entries",
		"2026-11-20 slow/mcp alpha: 202 calls, 20 failed, 9900000 ms, 202 timed, 120 entries",
		"2026-11-21 endless/ beta: 200 calls, 0 failed, 0 ms, 0 timed, 120 entries",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for fraction, truth := range map[float64]float64{0.5: 49_000, 0.95: 94_000, 0.99: 98_000} {
		ms := query[float64](t, s, "SELECT actlog.percentile_ms(histogram, $1) FROM actlog.tool_daily WHERE tool_name = 'slow'", fraction)
		if ms < truth/1.2 || ms > truth*1.2 {
			t.Errorf("p%v is %v ms, truly %v", 100*fraction, ms, truth)
		}
	}
	// Each entry takes what its comment says.
	if n := query[int](t, s, `SELECT count(*) FROM unnest(ARRAY[0, 1, 2, 3, 4, 5, 7, 8, 1000, 1024, 1025, 86400000, 536870912, 9000000000000]::bigint[]) AS ms,
		actlog.duration_bucket(ms) AS b WHERE NOT (b BETWEEN 1 AND 120 AND (b = 120 OR ms <= power(2, (b - 1) / 4.0) + 1e-6) AND (b = 1 OR ms > power(2, (b - 2) / 4.0) - 1e-6))`); n != 0 {
		t.Errorf("%d durations are in the wrong entry", n)
	}
	if v := query[*float64](t, s, "SELECT actlog.percentile_ms('{0,0}', 0.5)"); v != nil {
		t.Errorf("the median of nothing is %v", *v)
	}
}

// TestDroppingIsInterrupted: the backend is killed before each statement in turn.
// Whoever goes on finds everything in a state to go on from.
func TestDroppingIsInterrupted(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	first := openURL(t, pg.URL)
	var wantDaily []string
	for n, done := 1, false; !done; n++ {
		monday := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).AddDate(0, 0, -7*n).Format(time.DateOnly)
		root := fmt.Sprintf("root-%d", n)
		tellTree(t, first, root, record.Completed)
		want := skeleton(planTree(t, first, root))
		age(t, pg.Pool, monday, root)
		k := &killer{at: n}
		s, err := store.Open(t.Context(), store.Config{DatabaseURL: pg.URL, MaxConns: 4, Tracer: k})
		if err != nil {
			t.Fatal(err)
		}
		exec(t, first, "TRUNCATE actlog.tool_daily")
		k.arm()
		err = store.DropDetail(s, t.Context(), 30)
		done = !k.fired()
		if done != (err == nil) {
			t.Fatalf("killed at %d: %v", n, err)
		}
		if diff := cmp.Diff(want, skeleton(planTree(t, first, root))); diff != "" {
			t.Errorf("killed at %d (-before +after):\n%s", n, diff)
		}
		until(t, "it is continued", func() bool { // the dead session may still hold a lock
			err := store.DropDetail(s, t.Context(), 30)
			return err == nil && query[int](t, first, "SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_p' || to_char($1::text::date, 'YYYYMMDD')", monday) == 0
		})
		gone(t, first, monday)
		if diff := cmp.Diff(want, skeleton(planTree(t, first, root))); diff != "" {
			t.Errorf("killed at %d, continued (-before +after):\n%s", n, diff)
		}
		daily := lines(t, pg.Pool, "SELECT d::text FROM actlog.tool_daily AS d")
		if wantDaily == nil {
			wantDaily = daily
		}
		if diff := cmp.Diff(wantDaily, daily); diff != "" || len(daily) != 1 {
			t.Errorf("killed at %d: tool_daily (-want +got):\n%s", n, diff)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n < 10 && done {
			t.Errorf("there were but %d statements", n)
		}
	}
}

// killer cuts the connection of every statement from the nth on, once it is armed.
type killer struct {
	mu    sync.Mutex
	armed bool
	n, at int
}

func (k *killer) arm() { k.mu.Lock(); k.armed = true; k.mu.Unlock() }

func (k *killer) fired() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed = false
	return k.n >= k.at
}

func (k *killer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.armed {
		if k.n++; k.n >= k.at {
			_ = conn.PgConn().Conn().Close() // the server rolls back
		}
	}
	return ctx
}

func (k *killer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestTwoServersDrop at once: everything is counted once.
func TestTwoServersDrop(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := openURL(t, pg.URL)
	roots := []string{}
	for i := range 20 {
		roots = append(roots, fmt.Sprint("root-", i))
		tellTree(t, s, roots[i], record.Completed)
	}
	age(t, pg.Pool, oldMonday, roots[:10]...)
	age(t, pg.Pool, "2026-01-12", roots[10:]...)
	var wg sync.WaitGroup
	for range 4 {
		keeper := openURL(t, pg.URL, keepDetail(30)) // begins by itself, too
		wg.Go(func() {
			for range 3 {
				_ = keeper.Upkeep(t.Context()) // may meet the others' locks
			}
		})
	}
	wg.Wait()
	until(t, "both periods are gone", func() bool {
		_ = store.DropDetail(s, t.Context(), 30)
		return query[int](t, s, "SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_p202601__'") == 0
	})
	gone(t, s, oldMonday)
	gone(t, s, "2026-01-12")
	if n := query[int](t, s, "SELECT sum(calls)::integer FROM actlog.tool_daily"); n != 80 {
		t.Errorf("%d calls are counted", n)
	}
	if n := query[int](t, s, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// TestWritersWhileDetailIsDropped: none sees an error, nothing is lost, and what
// is written late into a dropped period is harmless.
func TestWritersWhileDetailIsDropped(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := openURL(t, pg.URL, patient)
	tellTree(t, s, "old", record.Completed)
	age(t, pg.Pool, oldMonday, "old")
	exec(t, s, `INSERT INTO actlog.act_tool_info (root_plan_id, step_id, seq, tool_call_id, part, name, start_time, end_time, parameters)
		SELECT 'old', 'old-a', i, 'x' || i, $1::text::date, 'many', now(), now() + make_interval(secs => i / 1000.0), repeat('x', 500) FROM generate_series(1, 20000) AS i`, oldMonday)
	c := startCounters(t, s)
	c.await(t, 50)
	late := make(chan struct{})
	go func() {
		defer close(late)
		for i := range int64(50) {
			if _, err := s.Write(context.Background(), []record.Change{&record.ActTool{RootPlanID: "old", StepID: "old-a", Seq: i, ToolCallID: fmt.Sprint("late", i)}}); err != nil {
				t.Error(err)
			}
		}
	}()
	keeper := openURL(t, pg.URL)
	until(t, "the detail is gone", func() bool {
		_ = store.DropDetail(keeper, t.Context(), 30)
		return query[int](t, s, "SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_p20260105'") == 0
	})
	for range 50 { // the writers go on
		select {
		case <-late:
		case <-c.acked:
		}
	}
	for open := true; open; {
		select {
		case <-late:
			open = false
		case <-c.acked:
		}
	}
	c.check(t, s)
	dropDetail(t, keeper)
	gone(t, s, oldMonday)
	if n := query[int](t, s, "SELECT calls::integer FROM actlog.tool_daily WHERE tool_name = 'many'"); n != 20000 {
		t.Errorf("%d calls are counted", n)
	}
	if n := query[int](t, s, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// TestALongReportOverOldDetail: dropping gives way to it, and succeeds after it.
func TestALongReportOverOldDetail(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := openURL(t, pg.URL, patient)
	tellTree(t, s, "old", record.Completed)
	age(t, pg.Pool, oldMonday, "old")
	report, err := pg.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = report.Rollback(context.Background()) }()
	if _, err := report.Exec(t.Context(), "SELECT count(*) FROM actlog.act_tool_info"); err != nil {
		t.Fatal(err)
	}
	keeper := openURL(t, pg.URL)
	if err := store.DropDetail(keeper, t.Context(), 30); err == nil {
		t.Error("it did not give way")
	}
	if p := planTree(t, s, "old"); p.Steps[1].SubPlans[0].ToolCall == nil {
		t.Error("detail is gone in part")
	}
	write(t, s, &record.ActTool{RootPlanID: "new", StepID: "new", Seq: 0, ToolCallID: "t"})
	if err := report.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := store.DropDetail(keeper, t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	gone(t, s, oldMonday)
}

// TestWhoMayNotDrop: a role without DDL leaves it to others, without a word.
func TestWhoMayNotDrop(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := openURL(t, pg.URL)
	tellTree(t, s, "old", record.Completed)
	age(t, pg.Pool, oldMonday, "old")
	var warned warnings
	lesser := openURL(t, restrict(t, pg), keepDetail(30), warned.logger)
	if err := lesser.Upkeep(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(stepDetail(t, s, "old-a").Cycles); n != 2 {
		t.Errorf("%d cycles", n)
	}
	if w := warned.String(); w != "" {
		t.Errorf("it was said:\n%s", w)
	}
}

func TestTooManyPartitions(t *testing.T) {
	t.Parallel()
	url := pgtest.Fresh(t).URL
	for _, tt := range []struct {
		detail, period int
		warns          bool
	}{{0, 7, false}, {90, 7, false}, {189, 7, false}, {190, 7, true}, {365, 30, false}, {60, 1, true}} {
		var warned warnings
		openURL(t, url, keepDetail(tt.detail), days(tt.period), warned.logger)
		if w := warned.String(); strings.Contains(w, "DetailDays") != tt.warns || strings.Contains(w, "PartitionDays") != tt.warns {
			t.Errorf("%+v: it was said %q", tt, w)
		}
	}
}

var treeTables = []string{"plan_execution_record", "agent_execution_record", "think_act_record", "act_tool_info", "thought", "artifact", "source_reference", "wait_state"}

// rowsOf counts the rows of a tree in each table.
func rowsOf(t testing.TB, s *store.Store, root string) (counts []int) {
	t.Helper()
	for _, table := range treeTables {
		counts = append(counts, query[int](t, s, "SELECT count(*) FROM actlog."+table+" WHERE root_plan_id = $1", root))
	}
	return counts
}

func TestDeletePlan(t *testing.T) {
	t.Parallel()
	s := open(t)
	tellTree(t, s, "a", record.Running)
	tellTree(t, s, "b", record.Completed)
	other := dump(t, s, "b")
	if slices.Contains(rowsOf(t, s, "a"), 0) {
		t.Fatalf("rows = %v", rowsOf(t, s, "a"))
	}
	exec(t, s, "DELETE FROM actlog.change")
	for id, want := range map[string]string{"none": "not found", "a-sub": "invalid_relation: planId is a sub-plan of a; delete its root"} {
		err := s.DeletePlan(t.Context(), id)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", id, err)
		}
		var invalid *record.InvalidError
		if errors.As(err, &invalid) == errors.Is(err, record.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := s.DeletePlan(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(make([]int, len(treeTables)), rowsOf(t, s, "a")); diff != "" {
		t.Errorf("rows that are left (-want +got):\n%s", diff)
	}
	if got := dump(t, s, "b"); got != other {
		t.Errorf("another tree changed: %s", cmp.Diff(other, got))
	}
	if got := query[string](t, s, "SELECT string_agg(root_plan_id || ' ' || kinds::text, ',') FROM actlog.change"); got != "a {deleted}" {
		t.Errorf("the feed says %q", got)
	}
	if err := s.DeletePlan(t.Context(), "a"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("again: %v", err)
	}
	write(t, s, &record.ActTool{RootPlanID: "a", StepID: "a-a", Seq: 3, ToolCallID: "late"})
	if p := planTree(t, s, "a"); p.Record.Title != nil || p.Total.ToolCalls != 1 {
		t.Errorf("the placeholder is %+v", p)
	}
	if n := s.Stats().TreesDeleted; n != 1 {
		t.Errorf("%d trees deleted", n)
	}
}

// TestDeletePlanAmongWriters: writers who tell of the tree all the time never see
// an error, nor leave rows without their parents.
func TestDeletePlanAmongWriters(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := openURL(t, pg.URL, patient, func(c *store.Config) { c.MaxConns = 8 })
	deleter := openURL(t, pg.URL, patient)
	stop, told := make(chan struct{}), make(chan struct{}, 1000)
	var writers sync.WaitGroup
	for w := range 6 {
		writers.Go(func() {
			for i := range int64(1 << 30) {
				sub := fmt.Sprintf("busy-p%d", (int64(w)+i)%3)
				changes := []record.Change{
					&record.Plan{RootPlanID: "busy", CurrentPlanID: sub, Title: new(fmt.Sprint(i))},
					&record.ActTool{RootPlanID: "busy", StepID: fmt.Sprintf("busy-s%d", w%3), Seq: i, ToolCallID: fmt.Sprintf("t%d-%d", w, i)},
					&record.Thought{RootPlanID: "busy", PlanID: "busy", ThoughtID: fmt.Sprint(w), Content: new(fmt.Sprint(i))},
					&record.Wait{RootPlanID: "busy", PlanID: sub, WaitID: fmt.Sprint(w)},
				}
				if w == 0 {
					changes = changes[:1] // a sub-plan and nothing else
				}
				if result, err := s.Write(context.Background(), changes); err != nil || len(result.Rejected) > 0 {
					t.Errorf("an error came to the surface: %+v %v", result, err)
				}
				select {
				case <-stop:
					return
				case told <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 25 {
		<-told
		if err := deleter.DeletePlan(t.Context(), "busy"); err != nil && !errors.Is(err, record.ErrNotFound) {
			t.Error(err)
		}
	}
	close(stop)
	writers.Wait()
	if n := deleter.Stats().TreesDeleted; n == 0 {
		t.Error("nothing was deleted")
	}
	if n := query[int](t, s, `SELECT count(*) FROM actlog.plan_execution_record AS p WHERE NOT EXISTS (
		SELECT FROM actlog.plan_execution_record AS r WHERE r.root_plan_id = p.root_plan_id AND r.current_plan_id = p.root_plan_id AND r.part = p.part)`); n != 0 {
		t.Errorf("%d plans without their root", n)
	}
	if err := deleter.DeletePlan(t.Context(), "busy"); err != nil && !errors.Is(err, record.ErrNotFound) {
		t.Error(err)
	}
	if diff := cmp.Diff(make([]int, len(treeTables)), rowsOf(t, s, "busy")); diff != "" {
		t.Errorf("rows that are left (-want +got):\n%s", diff)
	}
	if n := query[int](t, s, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// TestASubPlanIsToldMeanwhile: its writer found the root there, and has not
// committed. It must not outlive its root.
func TestASubPlanIsToldMeanwhile(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	tellTree(t, openURL(t, pg.URL), "a", record.Completed)
	s := openURL(t, pg.URL, impatient)
	writer, err := pg.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(context.Background()) }()
	if _, err := writer.Exec(t.Context(), "INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part) SELECT 'a', 'a-new', part FROM actlog.plan_execution_record WHERE current_plan_id = 'a'"); err != nil {
		t.Fatal(err)
	}
	if err := s.DeletePlan(t.Context(), "a"); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("error = %v", err)
	}
	if err := writer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.DeletePlan(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(make([]int, len(treeTables)), rowsOf(t, s, "a")); diff != "" {
		t.Errorf("rows that are left (-want +got):\n%s", diff)
	}
}

// TestEveryWriterBeginsWithPlans: also one that tells only of what is beneath plans
// and steps that are on record. Upkeep keeps writers out by that.
func TestEveryWriterBeginsWithPlans(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := openURL(t, pg.URL, patient)
	call := func(id string) record.Change {
		return &record.ActTool{RootPlanID: "r", StepID: "s", Seq: 0, ToolCallID: id}
	}
	write(t, s, call("before"))
	upkeep, err := pg.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = upkeep.Rollback(context.Background()) }()
	if _, err := upkeep.Exec(t.Context(), "LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	done := writing(t.Context(), s, []record.Change{call("after")})
	until(t, "the writer waits, or is done", func() bool {
		return len(done) > 0 || len(lines(t, pg.Pool, "SELECT mode FROM pg_locks WHERE NOT granted AND relation = 'actlog.plan_execution_record'::regclass")) > 0
	})
	if len(done) > 0 {
		t.Errorf("it did not wait: %v", <-done)
		return
	}
	if err := upkeep.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestABusyTree is deleted as soon as no one holds a row of it.
func TestABusyTree(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := openURL(t, pg.URL, patient)
	tellTree(t, s, "a", record.Completed)
	writer, err := pg.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(context.Background()) }()
	if _, err := writer.Exec(t.Context(), "UPDATE actlog.wait_state SET title = 'held'"); err != nil {
		t.Fatal(err)
	}
	impatient := openURL(t, pg.URL, impatient)
	var locked *store.LockedError
	if err := impatient.DeletePlan(t.Context(), "a"); !errors.Is(err, record.ErrUnavailable) || !errors.As(err, &locked) || locked.RootPlanID != "a" {
		t.Errorf("while a row is held: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.DeletePlan(t.Context(), "a") }()
	if err := writer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestKeepDays(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := openURL(t, pg.URL)
	var changes []record.Change
	for i := range 450 { // several batches
		root := fmt.Sprintf("old-%03d", i)
		changes = append(changes, &record.Plan{RootPlanID: root, CurrentPlanID: root, State: new(record.Completed)},
			&record.ActTool{RootPlanID: root, StepID: root + "s", Seq: 0, ToolCallID: "t"})
	}
	write(t, s, changes...)
	for _, root := range []string{"full", "busy", "young", "dropped"} {
		tellTree(t, s, root, record.Completed)
	}
	tellTree(t, s, "live", record.Running)
	age(t, pg.Pool, oldMonday, "dropped")
	dropDetail(t, s)
	exec(t, s, "UPDATE actlog.plan_execution_record SET first_seen_at = now() - interval '31 days' WHERE root_plan_id <> 'young'")
	exec(t, s, "UPDATE actlog.plan_execution_record SET first_seen_at = now() - interval '29 days' WHERE root_plan_id = 'young'")
	exec(t, s, "DELETE FROM actlog.change")
	writer, err := pg.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(context.Background()) }()
	if _, err := writer.Exec(t.Context(), "UPDATE actlog.agent_execution_record SET agent_name = 'held' WHERE step_id = 'busy-a'"); err != nil {
		t.Fatal(err)
	}
	roots := func() []string {
		return lines(t, pg.Pool, "SELECT root_plan_id FROM actlog.plan_execution_record WHERE root_plan_id = current_plan_id ORDER BY 1")
	}
	keep := func() {
		if err := store.DeleteOutdated(s, t.Context(), 30); err != nil {
			t.Fatal(err)
		}
	}
	keep()
	if diff := cmp.Diff([]string{"busy", "live", "young"}, roots()); diff != "" {
		t.Errorf("with a busy one (-want +got):\n%s", diff)
	}
	if err := writer.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	keep()
	if diff := cmp.Diff([]string{"live", "young"}, roots()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, table := range treeTables {
		if n := query[int](t, s, "SELECT count(*) FROM actlog."+table+" WHERE root_plan_id NOT IN ('live', 'young')"); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
	if n := query[int](t, s, "SELECT count(DISTINCT root_plan_id) FROM actlog.change"); n != 453 {
		t.Errorf("the feed tells of %d trees", n)
	}
}

// TestPlansOfUpkeep: what runs each minute or for every batch goes by indexes.
func TestPlansOfUpkeep(t *testing.T) {
	t.Parallel()
	pg := filled(t)
	conn, err := pg.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; PREPARE unseen (text, float8) AS "+db.PlanUnseen+
		"; PREPARE outdated (int, timestamptz, text) AS "+db.PlanOutdated+"; PREPARE changes (int) AS "+db.ChangeSweep+"; PREPARE live (date, date) AS "+db.PlanLive); err != nil {
		t.Fatal(err)
	}
	for _, execute := range []string{"unseen('', 60)", "outdated(30, '-infinity', '')", "changes(24)", "live('2026-01-01', '2026-02-01')"} {
		for _, line := range lines2(t, conn, "EXPLAIN EXECUTE "+execute) {
			if strings.Contains(line, "Seq Scan on") {
				t.Errorf("%s goes through a table: %s", execute, strings.TrimSpace(line))
			}
		}
	}
}

func lines2(t testing.TB, conn *pgxpool.Conn, sql string) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return got
}
