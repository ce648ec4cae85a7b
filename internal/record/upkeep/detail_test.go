package upkeep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// dropDetail drops what is older than 30 days.
func dropDetail(t testing.TB, s *store.Store) {
	t.Helper()
	if err := upkeep.DropDetail(idle(t, s), t.Context(), 30); err != nil {
		t.Fatal(err)
	}
}

// skeleton returns a tree as it should be after its detail was dropped. It changes p.
func skeleton(p *tree.Plan) *tree.Plan {
	p.StructureResult, p.ToolCall = nil, nil
	p.ParentStepID = ""
	for _, s := range p.Steps {
		s.LatestToolArgs = nil
	}
	for c := range p.Children() {
		skeleton(c)
	}
	return p
}

// gone checks that there are no partitions of a period and no detail in it.
func gone(t testing.TB, s *store.Store, monday string) {
	t.Helper()
	if n := storetest.Query[int](t, s,
		"SELECT count(*) FROM pg_class WHERE relnamespace = 'actlog'::regnamespace AND relname LIKE "+
			"'%\\_p'||to_char($1::text::date, 'YYYYMMDD')", monday); n != 0 {
		t.Errorf("%d partitions of %s are left", n, monday)
	}

	for _, table := range upkeep.PartitionedTables {
		if n := storetest.Query[int](t, s,
			"SELECT count(*) FROM actlog."+table+" WHERE part >= $1::text::date AND part < $1::text::date + 7", monday); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}

// TestDropDetail checks that a tree looks the same without its cycles, and that late detail does
// not change that.
func TestDropDetail(t *testing.T) {
	t.Parallel()
	for _, inDefault := range []bool{false, true} {
		t.Run(fmt.Sprintf("in the default partition %v", inDefault), func(t *testing.T) {
			t.Parallel()
			pg := pgtest.Fresh(t)
			s := open(t, pg.URL)
			root := record.NewPlanID()
			storetest.WriteTree(t, s, root, record.Completed)
			storetest.WriteTree(t, s, root+"young", record.Completed)

			want, young := skeleton(storetest.PlanTree(t, s, root)), storetest.Dump(t, s, root+"young")
			if want.Total.ToolCalls != 4 || want.Steps[1].SubPlans[0].Link != tree.LinkToolCall {
				t.Fatalf("before: %+v", want)
			}
			if inDefault {
				storetest.SetPart(t, s, storetest.OldMonday, root)
			} else {
				storetest.Age(t, s, storetest.OldMonday, root)
			}

			check := func(when string) {
				t.Helper()
				dropDetail(t, s)
				gone(t, s, storetest.OldMonday)
				storetest.CheckKept(t, s)

				if diff := cmp.Diff(want, skeleton(storetest.PlanTree(t, s, root))); diff != "" {
					t.Errorf("%s (-before +after):\n%s", when, diff)
				}
				if got := storetest.PlanTree(t, s, root); got.StructureResult != nil || got.Steps[1].SubPlans[0].ToolCall != nil {
					t.Errorf("%s: %+v", when, got)
				}
				st := storetest.StepDetail(t, s, root+"-a")
				if len(st.Cycles) != 0 || st.Figures.InputTokens != 7 || st.LatestToolArgs != nil || st.LatestToolName == nil {
					t.Errorf("%s: step %+v", when, st)
				}
			}

			check("dropped")
			daily := storetest.Lines(t, pg.Pool,
				"SELECT format('%s %s/%s %s %s %s %s', day, tool_name, server_name, project, calls, failures, total_ms) FROM "+
					"actlog.tool_daily")
			if diff := cmp.Diff([]string{"2026-11-20 fetch/ default 4 1 8000"}, daily); diff != "" {
				t.Errorf("tool_daily (-want +got):\n%s", diff)
			}

			// Late detail: a call that is new and a cycle that was dropped.
			storetest.Write(t, s, &record.ActTool{
				RootPlanID: root, StepID: root + "-a", Seq: 9, ToolCallID: "late", State: new(record.Failed),
			},
				&record.ThinkAct{RootPlanID: root, StepID: root + "-a", Seq: 0, State: new(record.Completed)})
			if f := storetest.PlanTree(t, s, root).Total; f.ToolCalls != 4 || f.InputTokens != 7 {
				t.Errorf("late detail changed the figures: %+v", f)
			}
			check("after late detail")

			if again := storetest.Lines(t, pg.Pool,
				"SELECT format('%s %s/%s %s %s %s %s', day, tool_name, server_name, project, calls, failures, total_ms) FROM "+
					"actlog.tool_daily"); !slices.Equal(daily, again) {
				t.Errorf("tool_daily = %q", again)
			}
			if got := storetest.Dump(t, s, root+"young"); got != young {
				t.Errorf("another tree changed: %s", cmp.Diff(young, got))
			}

			// What is not detail may still change.
			storetest.Write(t, s, &record.AgentExecution{
				RootPlanID: root, PlanID: root, StepID: root + "-a", Result: new("late"),
			})
			if r := storetest.StepDetail(t, s, root+"-a").Record.Result; *r != "late" {
				t.Errorf("result = %q", *r)
			}
		})
	}
}

// O4: no text of cycles and tool calls is left anywhere after they were dropped for their age.
func TestNoTextOfDetailIsLeft(t *testing.T) {
	t.Parallel()
	for _, inDefault := range []bool{false, true} {
		t.Run(fmt.Sprintf("in the default partition %v", inDefault), func(t *testing.T) {
			t.Parallel()
			pg := pgtest.Fresh(t)
			s := open(t, pg.URL, smallPieces)
			for _, root := range []string{"old", "young"} {
				storetest.WriteTree(t, s, root, record.Completed)
				text := func(field string) *string { return new(strings.Repeat("x", 2000) + " planted-" + root + "-" + field) }
				args := json.RawMessage(`{"q":"planted-` + root + `-arguments"}`)

				storetest.Write(t, s,
					&record.ThinkAct{
						RootPlanID: root, StepID: root + "-a", Seq: 7, ThinkInput: text("input"), ThinkOutput: text("output"),
						ErrorMessage:      text("error"),
						ActionDescription: text("action"), ActionResult: text("acted"), Message: args, Metadata: args,
					},
					&record.ActTool{
						RootPlanID: root, StepID: root + "-a", Seq: 7, ToolCallID: root + "-last", Name: new("fetch"),
						Parameters: new(string(args)), Result: text("result"),
						State: new(record.Failed), ErrorMessage: text("failed"),
					},
					&record.Wait{
						RootPlanID: root, PlanID: root, WaitID: root + "-approval", ToolCallID: new(root + "-last"),
						Type:  new(record.WaitActionValidation),
						State: new(record.Approved), Title: new("Approve fetch"),
						Subject: json.RawMessage(`{"tool":"fetch","arguments":` + string(args) + `}`),
					},
					&record.Wait{
						RootPlanID: root, PlanID: root, WaitID: root + "-form", ToolCallID: new(root + "-form"),
						Type: new(record.WaitUserInput), State: new(record.Submitted),
						Title: text("title"), FormDescription: text("description"),
						FormInputs: json.RawMessage(`[{"label":"planted-` + root + `-label"}]`),
					})
			}

			storetest.Until(t, "texts are kept", func() bool {
				keepRecent(t, s)
				return folded(t, s) == "old, young"
			})
			if inDefault {
				storetest.SetPart(t, s, storetest.OldMonday, "old")
			} else {
				storetest.Age(t, s, storetest.OldMonday, "old")
			}

			if n := planted(t, pg.Pool, "old"); n == 0 {
				t.Fatal("nothing was planted")
			}
			dropDetail(t, s)
			if title := storetest.Query[string](t, s,
				"SELECT title FROM actlog.wait_state WHERE wait_id = 'old-approval'"); title != "Approve fetch" {
				t.Errorf("the approval has the title %q", title)
			}
			if n := planted(t, pg.Pool, "old"); n > 0 {
				t.Errorf("%d rows still have texts of detail that was dropped", n)
			}

			// As if the server had ended before it forgot them.
			storetest.Exec(t, s, "UPDATE actlog.agent_execution_record SET latest_tool_args = 'planted-old-again' WHERE "+
				"root_plan_id = 'old'")
			storetest.Exec(t, s, "UPDATE actlog.dropped_detail SET forgotten = false")
			dropDetail(t, s)
			if n := planted(t, pg.Pool, "old"); n > 0 {
				t.Errorf("%d rows still have texts of detail that was dropped before", n)
			}
			if n := planted(t, pg.Pool, "young"); n == 0 {
				t.Error("detail that is young has lost its texts")
			}
		})
	}
}

// TestForgetCopies: what steps copy from the calls of dropped periods goes tree by tree, and it rests in between.
// Nobody reads the other trees.
func TestForgetCopies(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Fresh(t).URL)
	for i := range 120 {
		storetest.WriteTree(t, s, fmt.Sprintf("old%03d", i), record.Completed)
	}
	storetest.WriteTree(t, s, "young", record.Completed)

	storetest.Exec(t, s, "UPDATE actlog.plan_execution_record SET part = '2020-01-01'::date + substr(root_plan_id, 4, "+
		"2)::int WHERE root_plan_id LIKE 'old%'")
	storetest.Exec(t, s, "UPDATE actlog.agent_execution_record SET latest_tool_args = 'planted'")
	storetest.Exec(t, s, "INSERT INTO actlog.dropped_detail (from_day, to_day) SELECT d, d + 1 FROM "+
		"generate_series(0, 5) AS n, LATERAL (SELECT '2020-01-01'::date + n AS d) AS x")
	storetest.Exec(t, s, "INSERT INTO actlog.dropped_detail (from_day, to_day) VALUES ('2020-01-07', '2020-03-01')")

	rests := 0
	keeper := idle(t, s)
	upkeep.SetPause(keeper, func(context.Context, time.Duration) error { rests++; return nil })
	if err := upkeep.DropDetail(keeper, t.Context(), 0); err != nil {
		t.Fatal(err)
	}

	left := storetest.Query[string](t, s, `SELECT string_agg(DISTINCT root_plan_id, ' ') FROM actlog.agent_execution_record
		WHERE latest_tool_args IS NOT NULL`)
	if left != "young" {
		t.Errorf("left in %s", left)
	}
	if rests != 7 { // for each of the periods
		t.Errorf("%d rests", rests)
	}
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.dropped_detail WHERE NOT forgotten"); n > 0 {
		t.Errorf("%d periods are left", n)
	}
}

// TestDropWhileTheSearchIsKept: while another server has its turn at the index of the search, no calls are counted in
// vain.
func TestDropWhileTheSearchIsKept(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL)
	storetest.WriteTree(t, s, "old", record.Completed)
	storetest.Age(t, s, storetest.OldMonday, "old")

	storetest.Exec(t, s, `CREATE SEQUENCE actlog.counted;
		CREATE FUNCTION actlog.count_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM nextval('actlog.counted');
			RETURN NULL;
		END $$;
		CREATE TRIGGER count_it AFTER INSERT ON actlog.tool_daily FOR EACH STATEMENT EXECUTE FUNCTION actlog.count_it()`)
	counted := func() int {
		t.Helper()
		return storetest.Query[int](t, s, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM actlog.counted")
	}

	tx, err := pg.Pool.BeginTx(t.Context(), pgx.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtext('actlog.search'))"); err != nil {
		t.Fatal(err)
	}

	if err := upkeep.DropDetail(idle(t, s), t.Context(), 30); err == nil {
		t.Error("the detail was dropped")
	}
	if n := counted(); n > 0 {
		t.Errorf("calls were counted %d times", n)
	}

	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	dropDetail(t, s)
	gone(t, s, storetest.OldMonday)
	if n := counted(); n != 1 {
		t.Errorf("calls were counted %d times", n)
	}
}

// planted counts the rows of all tables that have a planted text of a run.
func planted(t testing.TB, pool *pgxpool.Pool, root string) (rows int) {
	t.Helper()
	tables := storetest.Lines(t, pool,
		`SELECT quote_ident(nspname) || '.' || quote_ident(relname) FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
		WHERE relkind = 'r' AND nspname IN ('actlog', 'report', 'public')`)

	for _, table := range tables {
		var n int
		if err := pool.QueryRow(t.Context(),
			"SELECT count(*) FROM "+table+
				" AS t WHERE t::text LIKE '%planted-'||$1||'-%' OR t::text LIKE '%'||encode($2, 'hex')||'%'",
			root, []byte("planted-"+root+"-")).Scan(&n); err != nil {
			t.Fatalf("%s: %v", table, err)
		}

		if n > 0 {
			t.Logf("%d rows of %s have texts of %s", n, table, root)
		}
		rows += n
	}
	return rows
}

// TestLivePlansKeepTheirDetail checks that the detail of a period is kept until its plans end.
func TestLivePlansKeepTheirDetail(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	var warned storetest.Log
	s := open(t, pg.URL)
	keeper := upkeep.Idle(s, upkeep.Config{Logger: warned.Logger()})

	live, ended := record.NewPlanID(), record.NewPlanID()
	storetest.WriteTree(t, s, live, record.Waiting)
	storetest.WriteTree(t, s, ended, record.Completed)
	storetest.Age(t, s, storetest.OldMonday, live, ended)
	before := storetest.Dump(t, s, live)

	if err := upkeep.DropDetail(keeper, t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	if got := storetest.Dump(t, s, live); got != before {
		t.Errorf("the live tree changed: %s", cmp.Diff(before, got))
	}
	if w := warned.String(); !strings.Contains(w, "have not ended") || !strings.Contains(w, live) {
		t.Errorf("logged:\n%s", w)
	}

	storetest.Write(t, s, &record.Plan{RootPlanID: live, CurrentPlanID: live, State: new(record.Failed)})
	dropDetail(t, s)
	gone(t, s, storetest.OldMonday)
}

// TestYoungPeriods checks that a period is not dropped before its last day is old enough.
func TestYoungPeriods(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	day := today(t, pg.Pool)
	monday := store.PeriodStart(day, 7).AddDate(0, 0, -21)
	s := open(t, pg.URL)
	keeper := idle(t, s)

	root := record.NewPlanID()
	storetest.WriteTree(t, s, root, record.Completed)
	storetest.Age(t, s, monday.Format(time.DateOnly), root)
	since := int(day.Sub(monday.AddDate(0, 0, 7)).Hours() / 24) // the period ended so many days ago

	if err := upkeep.DropDetail(keeper, t.Context(), since+1); err != nil {
		t.Fatal(err)
	}
	if n := len(storetest.StepDetail(t, s, root+"-a").Cycles); n != 2 {
		t.Errorf("a day too early there are %d cycles", n)
	}
	if err := upkeep.DropDetail(keeper, t.Context(), since); err != nil {
		t.Fatal(err)
	}
	gone(t, s, monday.Format(time.DateOnly))
}

// TestToolDaily checks the daily figures: every call counts once, whichever partition it was in.
func TestToolDaily(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL)
	const second = "2026-01-12"
	for _, monday := range []string{storetest.OldMonday, second} {
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
				&record.ActTool{
					RootPlanID: root, StepID: root + "a", Seq: i, ToolCallID: fmt.Sprint("t", i), Name: new("slow"),
					ServerName: new("mcp"), State: &state, StartTime: storetest.At(0), EndTime: storetest.At(int(i)),
				},
				&record.ActTool{
					RootPlanID: root, StepID: root + "b", Seq: i, ToolCallID: fmt.Sprint("u", i), Name: new("endless"),
					State: new(record.Running), StartTime: storetest.At(24 * 3600),
				})
		}

		changes = append(changes, &record.ActTool{RootPlanID: root, StepID: root + "a", Seq: 100, ToolCallID: "nothing"},
			&record.ActTool{
				RootPlanID: root, StepID: root + "a", Seq: 101, ToolCallID: "skewed", Name: new("slow"), ServerName: new("mcp"),
				StartTime: storetest.At(5), EndTime: storetest.At(4),
			})
		storetest.Write(t, s, changes...)
		storetest.Age(t, s, monday, root)
	}

	dropDetail(t, s)
	dropDetail(t, s)
	got := storetest.Lines(t, pg.Pool,
		`SELECT format('%s %s/%s %s: %s calls, %s failed, %s ms, %s timed, %s entries', day, tool_name, server_name, project, calls, failures, total_ms,
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
		ms := storetest.Query[float64](t, s,
			"SELECT actlog.percentile_ms(histogram, $1) FROM actlog.tool_daily WHERE tool_name = 'slow'", fraction)
		if ms < truth/1.2 || ms > truth*1.2 {
			t.Errorf("p%v is %v ms, want about %v", 100*fraction, ms, truth)
		}
	}

	// Each entry of the histogram has the durations that the comment on it names.
	if n := storetest.Query[int](t, s,
		`SELECT count(*) FROM unnest(ARRAY[0, 1, 2, 3, 4, 5, 7, 8, 1000, 1024, 1025, 86400000, 536870912, 9000000000000]::bigint[]) AS ms,
		actlog.duration_bucket(ms) AS b WHERE NOT (b BETWEEN 1 AND 120 AND (b = 120 OR ms <= power(2, (b - 1) / 4.0) + 1e-6) AND (b = 1 OR ms > power(2, (b - 2) / 4.0) - 1e-6))`); n != 0 {
		t.Errorf("%d durations are in the wrong entry", n)
	}
	if v := storetest.Query[*float64](t, s, "SELECT actlog.percentile_ms('{0,0}', 0.5)"); v != nil {
		t.Errorf("the median of nothing is %v", *v)
	}
}

// TestInterruptedDrop cuts the connection before each statement in turn, and checks that the
// next round completes the work.
func TestInterruptedDrop(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what the schema and rows of before become")
	t.Parallel()
	pg := pgtest.Fresh(t)
	first := open(t, pg.URL)
	var wantDaily []string
	for n, done := 1, false; !done; n++ {
		monday := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).AddDate(0, 0, -7*n).Format(time.DateOnly)
		root := fmt.Sprintf("root-%d", n)
		storetest.WriteTree(t, first, root, record.Completed)
		want := skeleton(storetest.PlanTree(t, first, root))
		storetest.Age(t, first, monday, root)

		cut := &cutter{at: n}
		s, err := store.Open(t.Context(), store.Config{DatabaseURL: pg.URL, MaxConns: 4, Tracer: cut})
		if err != nil {
			t.Fatal(err)
		}
		keeper := idle(t, s)
		storetest.Exec(t, first, "TRUNCATE actlog.tool_daily")

		cut.arm()
		err = upkeep.DropDetail(keeper, t.Context(), 30)
		done = !cut.fired()
		if done != (err == nil) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if diff := cmp.Diff(want, skeleton(storetest.PlanTree(t, first, root))); diff != "" {
			t.Errorf("cut at %d (-before +after):\n%s", n, diff)
		}

		storetest.Until(t, "the next round is done", func() bool { // the dead session may still hold a lock
			err := upkeep.DropDetail(keeper, t.Context(), 30)
			return err == nil && storetest.Query[int](t, first,
				"SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_p' || to_char($1::text::date, 'YYYYMMDD')", monday) == 0
		})
		gone(t, first, monday)
		if diff := cmp.Diff(want, skeleton(storetest.PlanTree(t, first, root))); diff != "" {
			t.Errorf("cut at %d, continued (-before +after):\n%s", n, diff)
		}

		daily := storetest.Lines(t, pg.Pool, "SELECT d::text FROM actlog.tool_daily AS d")
		if wantDaily == nil {
			wantDaily = daily
		}
		if diff := cmp.Diff(wantDaily, daily); diff != "" || len(daily) != 1 {
			t.Errorf("cut at %d: tool_daily (-want +got):\n%s", n, diff)
		}

		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n < 10 && done {
			t.Errorf("there were only %d statements", n)
		}
	}
}

// cutter closes the connection before every statement from a given one on, once it is armed.
type cutter struct {
	mu    sync.Mutex
	armed bool
	n, at int // statements so far, and the first without a connection
}

func (c *cutter) arm() { c.mu.Lock(); c.armed = true; c.mu.Unlock() }

// fired disarms the cutter and reports whether it has closed a connection.
func (c *cutter) fired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	return c.n >= c.at
}

func (c *cutter) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed {
		if c.n++; c.n >= c.at {
			_ = conn.PgConn().Conn().Close() // the server rolls back
		}
	}
	return ctx
}

func (c *cutter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestTwoServersDrop checks that servers which drop the same detail count it once.
func TestTwoServersDrop(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL)
	roots := []string{}
	for i := range 20 {
		roots = append(roots, fmt.Sprint("root-", i))
		storetest.WriteTree(t, s, roots[i], record.Completed)
	}
	storetest.Age(t, s, storetest.OldMonday, roots[:10]...)
	storetest.Age(t, s, "2026-01-12", roots[10:]...)

	var wg sync.WaitGroup
	for range 4 {
		// starts a round by itself, too
		keeper := storetest.Upkeep(t, storetest.OpenURL(t, pg.URL), upkeep.Config{DetailDays: 30})
		wg.Go(func() {
			for range 3 {
				_ = keeper.Run(t.Context()) // may fail on the locks of the others
			}
		})
	}
	wg.Wait()

	storetest.Until(t, "both periods are gone", func() bool {
		_ = upkeep.DropDetail(idle(t, s), t.Context(), 30)
		return storetest.Query[int](t, s, "SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_p202601__'") == 0
	})

	gone(t, s, storetest.OldMonday)
	gone(t, s, "2026-01-12")
	if n := storetest.Query[int](t, s, "SELECT sum(calls)::integer FROM actlog.tool_daily"); n != 80 {
		t.Errorf("%d calls are counted", n)
	}
	storetest.CheckNoDeadlocks(t, s)
}

// TestDropDetailUnderLoad checks that no writer sees an error while detail is dropped, that
// nothing is lost, and that late writes to the dropped period do no harm.
func TestDropDetailUnderLoad(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL, storetest.Patient)
	storetest.WriteTree(t, s, "old", record.Completed)
	storetest.Age(t, s, storetest.OldMonday, "old")
	storetest.Exec(t, s, `INSERT INTO actlog.act_tool_info (root_plan_id, step_id, seq, tool_call_id, part, name, start_time, end_time, parameters)
		SELECT 'old', 'old-a', i, 'x' || i, $1::text::date, 'many', now(), now() + make_interval(secs => i / 1000.0), repeat('x', 500) FROM generate_series(1, 20000) AS i`, storetest.OldMonday)

	load := storetest.StartLoad(t, s)
	load.Await(t, 50)
	late := make(chan struct{})
	go func() {
		defer close(late)
		for i := range int64(50) {
			if _, err := s.Write(context.Background(),
				[]record.Change{
					&record.ActTool{RootPlanID: "old", StepID: "old-a", Seq: i, ToolCallID: fmt.Sprint("late", i)},
				}); err != nil {
				t.Error(err)
			}
		}
	}()

	other := storetest.OpenURL(t, pg.URL)
	keeper := idle(t, other)
	storetest.Until(t, "the detail is gone", func() bool {
		_ = upkeep.DropDetail(keeper, t.Context(), 30)
		return storetest.Query[int](t, s, "SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_p20260105'") == 0
	})

	for range 50 { // the writers continue
		select {
		case <-late:
		case <-load.Acked:
		}
	}
	for writing := true; writing; {
		select {
		case <-late:
			writing = false
		case <-load.Acked:
		}
	}

	load.Check(t, s)
	dropDetail(t, other)
	gone(t, s, storetest.OldMonday)
	if n := storetest.Query[int](t, s,
		"SELECT calls::integer FROM actlog.tool_daily WHERE tool_name = 'many'"); n != 20000 {
		t.Errorf("%d calls are counted", n)
	}
	storetest.CheckNoDeadlocks(t, s)
}

// TestDropDetailDuringALongReport checks that a drop gives way to a report that reads the detail,
// and succeeds after it.
func TestDropDetailDuringALongReport(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL, storetest.Patient)
	storetest.WriteTree(t, s, "old", record.Completed)
	storetest.Age(t, s, storetest.OldMonday, "old")

	report, err := pg.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = report.Rollback(context.Background()) }()
	if _, err := report.Exec(t.Context(), "SELECT count(*) FROM actlog.act_tool_info"); err != nil {
		t.Fatal(err)
	}

	keeper := idle(t, storetest.OpenURL(t, pg.URL))
	if err := upkeep.DropDetail(keeper, t.Context(), 30); err == nil {
		t.Error("the drop did not give way")
	}
	if p := storetest.PlanTree(t, s, "old"); p.Steps[1].SubPlans[0].ToolCall == nil {
		t.Error("a part of the detail is gone")
	}

	storetest.Write(t, s, &record.ActTool{RootPlanID: "new", StepID: "new", Seq: 0, ToolCallID: "t"})
	if err := report.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := upkeep.DropDetail(keeper, t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	gone(t, s, storetest.OldMonday)
}

// TestDropDetailWithoutDDL checks that a server whose role may not drop tables leaves that to
// others and logs nothing about it.
func TestDropDetailWithoutDDL(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	s := open(t, pg.URL)
	storetest.WriteTree(t, s, "old", record.Completed)
	storetest.Age(t, s, storetest.OldMonday, "old")

	var warned storetest.Log
	lesser := storetest.OpenURL(t, storetest.WriterURL(t, pg), logTo(&warned))
	if err := storetest.Upkeep(
		t, lesser, upkeep.Config{DetailDays: 30, Logger: warned.Logger()},
	).Run(t.Context()); err != nil {
		t.Error(err)
	}

	if n := len(storetest.StepDetail(t, s, "old-a").Cycles); n != 2 {
		t.Errorf("%d cycles", n)
	}
	if w := warned.String(); w != "" {
		t.Errorf("logged:\n%s", w)
	}
}

// TestTooManyPartitions checks which settings are warned about.
func TestTooManyPartitions(t *testing.T) {
	t.Parallel()
	url := pgtest.Fresh(t).URL
	for _, tt := range []struct {
		detail, period int
		warns          bool
	}{{0, 7, false}, {90, 7, false}, {189, 7, false}, {190, 7, true}, {365, 30, false}, {60, 1, true}} {
		var warned storetest.Log
		storetest.Upkeep(t, storetest.OpenURL(t, url, days(tt.period)), upkeep.Config{
			DetailDays: tt.detail, Logger: warned.Logger(),
		})
		if w := warned.String(); strings.Contains(w, "DetailDays") != tt.warns ||
			strings.Contains(w, "PartitionDays") != tt.warns {
			t.Errorf("%+v: logged %q", tt, w)
		}
	}
}

// TestWritersLockPlansFirst checks that a writer first waits for the table of plans, even if it
// writes only below plans and steps that exist. A drop relies on that to keep writers out.
func TestWritersLockPlansFirst(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	s := open(t, pg.URL, storetest.Patient)
	call := func(id string) record.Change {
		return &record.ActTool{RootPlanID: "r", StepID: "s", Seq: 0, ToolCallID: id}
	}
	storetest.Write(t, s, call("before"))

	drop, err := pg.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = drop.Rollback(context.Background()) }()
	if _, err := drop.Exec(t.Context(), "LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}

	done := make(chan error, 1)
	go func() {
		result, err := s.Write(t.Context(), []record.Change{call("after")})
		if err == nil && result.Accepted != 1 {
			err = fmt.Errorf("accepted %d changes", result.Accepted)
		}
		done <- err
	}()
	storetest.Until(t, "the writer waits, or is done", func() bool {
		return len(done) > 0 || len(storetest.Lines(t, pg.Pool,
			"SELECT mode FROM pg_locks WHERE NOT granted AND relation = 'actlog.plan_execution_record'::regclass")) > 0
	})

	if len(done) > 0 {
		t.Errorf("the writer did not wait: %v", <-done)
		return
	}
	if err := drop.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
