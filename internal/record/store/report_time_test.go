package store_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// wholeRun returns a run with one record of each kind. Its times begin at start; nil: it has none.
func wholeRun(root string, start *time.Time, state record.State) []record.Change {
	after := func(seconds int) *time.Time {
		if start == nil {
			return nil
		}
		return new(start.Add(time.Duration(seconds) * time.Second))
	}

	var ended, waited *time.Time
	if state != record.Running {
		ended = after(60)
	}
	failed := record.Failed
	waited = after(30)
	return []record.Change{
		&record.Plan{
			RootPlanID: root, CurrentPlanID: root, Name: new("kind"), UserID: new("ada"), Environment: new("production"),
			Release: new("r7"), ConversationID: new("talk"), StartTime: start, EndTime: ended, State: &state,
		},
		&record.AgentExecution{
			RootPlanID: root, PlanID: root, StepID: root + "-step", AgentName: new("writer"), AgentVersion: new("3"),
			StartTime: after(1), EndTime: after(50), State: &failed, ErrorKind: new("oops"),
		},
		&record.ThinkAct{
			RootPlanID: root, StepID: root + "-step", ThinkStartTime: after(2), ThinkEndTime: after(3), ModelName: new("large"),
			InputTokens: new(int64(10)), State: new(record.Completed),
		},
		&record.ActTool{
			RootPlanID: root, StepID: root + "-step", ToolCallID: root + "-call", Name: new("search"), StartTime: after(4),
			EndTime: after(5), State: new(record.Completed),
		},
		&record.Wait{
			RootPlanID: root, PlanID: root, WaitID: "wait", StepID: new(root + "-step"), StartTime: after(6), EndTime: waited,
			State: new(record.Approved),
		},
		&record.Thought{
			RootPlanID: root, PlanID: root, ThoughtID: "thought", StepID: new(root + "-step"),
			Type: new(record.ThoughtDecision), Content: new("Zürich"), Confidence: new(0.5), Time: after(7),
		},
		&record.Artifact{
			RootPlanID: root, PlanID: root, Name: "answer", StepID: new(root + "-step"), ToolCallID: new(root + "-call"),
			Type: new("text"), Value: json.RawMessage(`"done"`),
		},
		&record.Source{
			RootPlanID: root, PlanID: root, SourceID: "page", StepID: new(root + "-step"), ToolCallID: new(root + "-call"),
			URI: new("https://example.com"), Type: new(record.SourceURL), RelevanceScore: new(0.9), Snippet: new("text"),
		},
	}
}

// sqlHappened selects, for a root plan, each view and the day that it counts the run on.
const sqlHappened = `
	SELECT concat_ws(' ', view, (at AT TIME ZONE 'utc')::date) FROM (
		SELECT 'plan' AS view, happened_at AS at FROM report.plan WHERE root_plan_id = $1
		UNION ALL SELECT 'agent_execution', happened_at FROM report.agent_execution WHERE root_plan_id = $1
		UNION ALL SELECT 'think_act', happened_at FROM report.think_act WHERE root_plan_id = $1
		UNION ALL SELECT 'tool_call', happened_at FROM report.tool_call WHERE root_plan_id = $1
		UNION ALL SELECT 'wait', happened_at FROM report.wait WHERE root_plan_id = $1
		UNION ALL SELECT 'failure', failed_at FROM report.failure WHERE root_plan_id = $1
		UNION ALL SELECT 'thought', happened_at FROM report.thought WHERE root_plan_id = $1
		UNION ALL SELECT 'artifact', happened_at FROM report.artifact WHERE root_plan_id = $1
		UNION ALL SELECT 'source', happened_at FROM report.source WHERE root_plan_id = $1
		UNION ALL SELECT 'usage_daily', day FROM report.usage_daily WHERE $1 <> ''
		UNION ALL SELECT 'tool_daily', day FROM report.tool_daily WHERE $1 <> ''
		UNION ALL SELECT 'agent_daily', day FROM report.agent_daily WHERE $1 <> ''
	) AS x ORDER BY 1`

// TestReportsGoByWhenItHappened checks N4: every view counts a run on the day on which it happened,
// not on the day on which it was imported, also after its detail was dropped. Without any reported
// time, that is the day on which it was first seen.
func TestReportsGoByWhenItHappened(t *testing.T) {
	t.Parallel()
	long := time.Date(2025, 3, 4, 12, 0, 0, 0, time.UTC)
	seen := time.Now().UTC().AddDate(0, 0, -3) // another day than the first of its part
	for _, tt := range []struct {
		name  string
		start *time.Time
		day   string
	}{
		{"imported", &long, "2025-03-04"},
		{"without times", nil, seen.Format(time.DateOnly)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Fresh(t)
			s := storetest.OpenURL(t, db.URL)
			storetest.Write(t, s, wholeRun("run", tt.start, record.Completed)...)

			setSeen := func(at time.Time) { // as if it had arrived then
				for _, table := range []string{
					"plan_execution_record", "agent_execution_record", "think_act_record", "act_tool_info", "wait_state", "thought",
				} {
					storetest.Exec(t, s, "UPDATE actlog."+table+" SET first_seen_at = $1", at)
				}
			}
			setSeen(seen)

			check := func(when string, views ...string) {
				t.Helper()
				var want []string
				for _, view := range views {
					want = append(want, view+" "+tt.day)
				}
				if diff := cmp.Diff(want, storetest.Lines(t, db.Pool, sqlHappened, "run")); diff != "" {
					t.Errorf("when = %s (-want +got):\n%s", when, diff)
				}
			}
			check("with detail", "agent_daily", "agent_execution", "artifact", "failure", "plan", "source", "think_act",
				"thought", "tool_call", "tool_daily", "usage_daily", "wait")

			// The list of the REST interface goes by the same time.
			day, err := time.Parse(time.DateOnly, tt.day)
			if err != nil {
				t.Fatal(err)
			}

			for _, since := range []time.Time{day, day.AddDate(0, 0, 1)} {
				page, err := s.Plans(t.Context(), store.PlanFilter{Since: &since, Limit: 10})
				if err != nil {
					t.Fatal(err)
				}
				if n := storetest.Query[int](t, s, "SELECT count(*) FROM report.plan WHERE is_root AND happened_at >= $1",
					since); n != len(page) {
					t.Errorf("since %s: the view has %d plans, the list %d", since, n, len(page))
				}
			}

			storetest.Age(t, s, storetest.OldMonday, "run")
			setSeen(seen)
			u := storetest.Upkeep(t, s, upkeep.Config{DetailDays: 30})
			storetest.Until(t, "the detail is dropped", func() bool {
				if err := u.Run(t.Context()); err != nil {
					t.Log(err) // it waits for locks for less than a second, and tries again
				}
				return storetest.Query[int](t, s,
					"SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_p20260105' AND relnamespace = 'actlog'::regnamespace") == 0
			})
			check("without detail", "agent_daily", "agent_execution", "artifact", "failure", "plan", "source", "thought",
				"tool_daily", "usage_daily", "wait")
		})
	}
}

// TestLastSignOfLife checks N4: a run that was silent for long is not alive because it was imported
// today. When it was first seen counts only if no time was reported, and only in the reports. Else tree
// and list have the same sign of life as the report (N9).
func TestLastSignOfLife(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)
	start := time.Date(2025, 3, 4, 12, 0, 0, 0, time.UTC)
	plan := func(root string, beat *time.Time) *record.Plan {
		return &record.Plan{
			RootPlanID: root, CurrentPlanID: root, State: new(record.Running), StartTime: &start, LastSeenAt: beat,
		}
	}

	storetest.Write(t, s, wholeRun("all", &start, record.Running)...)
	storetest.Write(t, s, []record.Change{
		plan("beats", new(start.Add(time.Hour))), plan("starts", nil),
		plan("thinks", nil), &record.Thought{
			RootPlanID: "thinks", PlanID: "thinks", ThoughtID: "t", Time: new(start.Add(time.Minute)),
		},
		plan("asks", nil), &record.Wait{
			RootPlanID: "asks", PlanID: "asks", WaitID: "w", StartTime: new(start.Add(2 * time.Minute)),
		},
		plan("answered", nil), &record.Plan{
			RootPlanID: "answered", CurrentPlanID: "sub", ParentPlanID: new("answered"), ToolCallID: new("t"),
			State: new(record.Completed),
		},
		&record.Wait{
			RootPlanID: "answered", PlanID: "sub", WaitID: "w", EndTime: new(start.Add(3 * time.Minute)),
			State: new(record.Approved),
		},
		plan("part", nil), &record.AgentExecution{RootPlanID: "part", PlanID: "part", StepID: "part-step"},
		&record.Plan{RootPlanID: "untimed", CurrentPlanID: "untimed", State: new(record.Running)},
	}...)

	want := []string{
		"all 2025-03-04 12:00:50", "answered 2025-03-04 12:03:00", "asks 2025-03-04 12:02:00", "beats 2025-03-04 13:00:00",
		"part 2025-03-04 12:00:00", "starts 2025-03-04 12:00:00", "thinks 2025-03-04 12:01:00", "untimed seen",
	}
	if diff := cmp.Diff(want, storetest.Lines(t, db.Pool, `
		SELECT concat_ws(' ', r.plan_id, CASE WHEN r.last_sign_of_life = p.first_seen_at THEN 'seen' ELSE (r.last_sign_of_life AT TIME ZONE 'utc')::text END)
		FROM report.running AS r JOIN actlog.plan_execution_record AS p ON p.current_plan_id = r.plan_id ORDER BY r.plan_id`)); diff != "" {
		t.Errorf("signs of life (-want +got):\n%s", diff)
	}

	plans, err := s.Plans(t.Context(), store.PlanFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	shown := func(root string, at *time.Time) string {
		if at == nil {
			return root + " seen"
		}
		return root + " " + at.Format("2006-01-02 15:04:05")
	}

	var listed, trees []string
	for _, p := range plans {
		listed = append(listed, shown(p.Record.RootPlanID, p.LastSignOfLife))
		trees = append(trees, shown(p.Record.RootPlanID, storetest.PlanTree(t, s, p.Record.RootPlanID).LastSignOfLife))
	}

	slices.Sort(listed)
	slices.Sort(trees)
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("signs of life in the list (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, trees); diff != "" {
		t.Errorf("signs of life of trees (-want +got):\n%s", diff)
	}
}

// TestReportTimesAreIndexed checks that a range of the time of a view reads an index (N4).
func TestReportTimesAreIndexed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for i := range 300 { // the planner chooses between indexes by what they hold
		fillPlans(t, db, fmt.Sprintf("run-%03d", i), 1, func(int) int { return 0 })
	}
	execSQL(t, db.Pool, "UPDATE actlog.plan_execution_record SET start_time = start_time + interval '1 hour' * "+
		"substr(root_plan_id, 5)::integer, first_seen_at = start_time + interval '1 minute' * hashtext(root_plan_id)")
	execSQL(t, db.Pool, "ANALYZE actlog.plan_execution_record, actlog.agent_execution_record")

	conn := ownConn(t, db, "SET enable_seqscan = off")
	for query, index := range map[string]string{
		"plan WHERE is_root AND happened_at >= now()":                  "plan_root_began",
		"agent_execution WHERE happened_at >= now()":                   "agent_happened",
		"agent_execution WHERE start_time >= now()":                    "agent_happened",
		"think_act WHERE happened_at >= now()":                         "think_act_record_default_happened",
		"tool_call WHERE happened_at >= now()":                         "act_tool_info_default_happened",
		"thought WHERE happened_at >= now()":                           "thought_time",
		"artifact WHERE happened_at >= now()":                          "plan_time",
		"source WHERE happened_at >= now()":                            "plan_time",
		"failure WHERE level = 'plan' AND failed_at >= now()":          "failure_at",
		"failure WHERE level <> 'plan' AND failed_at >= now()":         "failure_at",
		"usage_daily WHERE day >= date_trunc('day', now(), 'UTC')":     "think_act_record_default_happened",
		"tool_daily WHERE day >= date_trunc('day', now(), 'UTC')":      "act_tool_info_default_happened",
		"agent_daily WHERE day >= date_trunc('day', now(), 'UTC')":     "agent_happened",
		"plan WHERE NOT is_root AND root_plan_id = 'r' AND steps > 0":  "plan_execution_record_pkey",
		"plan WHERE NOT is_root AND part > now() AND steps > 0":        "plan_with_subs",
		"run WHERE created_at >= now()":                                "run_created",
		"run WHERE due_at <= now() AND worker_id IS NULL AND NOT done": "run_due",
		"run WHERE worker_id = 'w'":                                    "run_worker",
		"session WHERE last_used_at >= now()":                          "conversation_updated",
		"session WHERE base_session_id = 's'":                          "conversation_base",
	} {
		var plan strings.Builder
		for _, row := range runQuery(t, conn, query, "EXPLAIN SELECT * FROM report."+query).Rows {
			plan.Write(row[0])
			plan.WriteByte('\n')
		}

		pattern := `(?s)(Bitmap Index Scan on |Scan using )` + index
		if strings.HasSuffix(index, "_happened") { // it has more than one time
			pattern += `.*?Index Cond: .*(now\(\)|date_trunc)`
		}
		if !regexp.MustCompile(pattern).MatchString(plan.String()) {
			t.Errorf("%s does not use index %s:\n%s", query, index, plan.String())
		}
	}
}

// planShapes are the ways in which the tests nest n sub-plans: the parent of sub-plan i, from 1; 0
// is the root plan.
var planShapes = map[string]func(i int) int{
	"side by side": func(int) int { return 0 },
	"chain":        func(i int) int { return i - 1 },
}

// fillPlans adds a tree of n sub-plans with a step each, by SQL.
func fillPlans(t *testing.T, db *pgtest.DB, root string, n int, parent func(i int) int) {
	t.Helper()
	id := func(i int) string {
		if i == 0 {
			return root
		}
		return fmt.Sprintf("%s-%d", root, i)
	}

	ids, parents := []string{root}, []*string{nil}
	for i := 1; i <= n; i++ {
		ids, parents = append(ids, id(i)), append(parents, new(id(parent(i))))
	}

	if _, err := db.Pool.Exec(t.Context(),
		`INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, parent_plan_id, tool_call_id, told_state, start_time)
		SELECT $1, id, DATE '2026-01-05', parent, 'call-' || parent, 'COMPLETED', TIMESTAMPTZ '2026-01-05' FROM unnest($2::text[], $3::text[]) AS u (id, parent)`, root, ids, parents); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(),
		`INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, plan_id, part, tool_calls, cost_usd)
		SELECT $1, 'step-' || id, id, DATE '2026-01-05', 1, 0.5 FROM unnest($2::text[]) AS id`, root, ids); err != nil {
		t.Fatal(err)
	}
}

// work runs a query and returns how many buffers and rows its plan touched.
func work(t *testing.T, db *pgtest.DB, sql string) int {
	t.Helper()
	type node struct {
		Hit   int     `json:"Shared Hit Blocks"`
		Read  int     `json:"Shared Read Blocks"`
		Rows  float64 `json:"Actual Rows"`
		Loops float64 `json:"Actual Loops"`
		Plans []node
	}
	var explained []struct{ Plan node }
	if err := json.Unmarshal(
		[]byte(storetest.Lines(t, db.Pool, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+sql)[0]), &explained,
	); err != nil {
		t.Fatal(err)
	}

	var rows func(n node) int
	rows = func(n node) int {
		sum := int(n.Rows * n.Loops)
		for _, p := range n.Plans {
			sum += rows(p)
		}
		return sum
	}

	p := explained[0].Plan
	return p.Hit + p.Read + rows(p)
}

// TestReportPlanIsLinear checks N6: report.plan costs what its rows cost, however sub-plans are
// nested, with and without statistics, and one plan does not cost what all trees cost.
func TestReportPlanIsLinear(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	for name, parent := range planShapes {
		for _, where := range []string{"", "WHERE root_plan_id = 'big'", "WHERE happened_at >= '2026-01-01'"} {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				db := pgtest.Fresh(t)
				last := 0
				for n := 500; n <= 2000; n *= 2 {
					execSQL(t, db.Pool, "TRUNCATE actlog.plan_execution_record CASCADE")
					fillPlans(t, db, "big", n, parent)
					execSQL(t, db.Pool, "VACUUM actlog.plan_execution_record, actlog.agent_execution_record")

					sql := "SELECT * FROM report.plan " + where
					work(t, db, sql) // the first call reads the catalog, too
					got := work(t, db, sql)
					if last > 0 && float64(got) > 2.5*float64(last) {
						t.Errorf("%d sub-plans: %d rows and buffers; half of them: %d", n, got, last)
					}
					last = got
				}
				if last > 100_000 {
					t.Errorf("2,000 sub-plans: %d rows and buffers", last)
				}

				for i := range 50 {
					fillPlans(t, db, fmt.Sprintf("small-%d", i), 4, parent)
				}
				execSQL(t, db.Pool, "ANALYZE actlog.plan_execution_record, actlog.agent_execution_record")
				for one, most := range map[string]int{
					"root_plan_id = 'small-7'": 500, "root_plan_id = 'small-7' AND happened_at >= '2026-01-01'": 500,
					"is_root AND plan_id = 'small-7'": 500,
					"plan_id = 'small-7-3'":           8000, // the index of all sub-plans, a probe per tree, the figures of one tree
				} {
					work(t, db, "SELECT * FROM report.plan WHERE "+one)
					if got := work(t, db, "SELECT * FROM report.plan WHERE "+one); got > most {
						t.Errorf("%s: %d rows and buffers, want at most %d", one, got, most)
					}
				}
			})
		}
	}
}

// TestReportPlanReadsWhatItIsAskedFor checks the rule of docs/reporting.md for large records: with
// is_root, a root plan, or a range of part beside it, a query of report.plan does not cost what the
// sub-plans of other trees cost (N6).
func TestReportPlanReadsWhatItIsAskedFor(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	db := pgtest.Fresh(t)
	fillPlans(t, db, "late", 4, planShapes["chain"])
	execSQL(t, db.Pool, "UPDATE actlog.plan_execution_record SET part = '2026-11-16', start_time = '2026-11-20', "+
		"first_seen_at = '2026-11-20'")

	before := map[string]int{}
	for trees := 500; trees <= 2000; trees *= 2 {
		execSQL(t, db.Pool, fmt.Sprintf(`INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, told_state, start_time, first_seen_at)
			SELECT 'early-' || r, 'early-' || r || CASE WHEN s > 0 THEN '-' || s ELSE '' END, DATE '2026-01-05', 'COMPLETED', '2026-01-05', '2026-01-05'
			FROM generate_series(1, %d) AS r, generate_series(0, 4) AS s ON CONFLICT DO NOTHING`, trees))
		execSQL(t, db.Pool, "VACUUM ANALYZE actlog.plan_execution_record, actlog.agent_execution_record")

		for _, where := range []string{
			"happened_at >= '2026-11-01' AND is_root", "happened_at >= '2026-11-01' AND root_plan_id = 'late'",
			"happened_at >= '2026-11-01' AND part >= '2026-11-01'",
			"plan_id = 'late-3' AND root_plan_id = 'late'", "plan_id = 'late-3' AND part = '2026-11-16'",
			"state = 'FAILED' AND part >= '2026-11-01'",
		} {
			sql := "SELECT * FROM report.plan WHERE " + where
			work(t, db, sql) // the first call reads the catalog, too
			got := work(t, db, sql)
			if got > 500 || before[where] > 0 && got > before[where]+50 {
				t.Errorf("%s: beside %d trees %d rows and buffers; beside half of them %d", where, trees, got, before[where])
			}
			before[where] = got
		}
	}
}

// TestReportRunReadsWhatItIsAskedFor checks that views of the runtime cost what their rows cost, and
// not what other runs cost.
func TestReportRunReadsWhatItIsAskedFor(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	db := pgtest.Fresh(t)
	execSQL(t, db.Pool, "INSERT INTO actlog.worker (worker_id, host, release, provides, slots, lease_until) SELECT "+
		"'w' || i, 'host', '1', '{executor:agent}', 5, now() FROM generate_series(1, 3) AS i")

	runs, before := 0, map[string]int{}
	for _, n := range []int{5_000, 10_000, 20_000} {
		addRuns(t, db, runs, n)
		runs = n
		for query, most := range map[string]int{
			"run WHERE created_at >= '2026-11-20'":                                500,
			"run WHERE root_plan_id = 'run-7'":                                    50,
			"run WHERE due_at <= '2026-11-20' AND worker_id IS NULL AND NOT done": 500,
			"run WHERE worker_id = 'w1'":                                          500,
			"worker":                                                              100,
			"session WHERE last_used_at >= '2026-11-20'":                          1500, // 20 of 4 runs
			"session WHERE session_id = 'talk-7'":                                 100,
			"session WHERE base_session_id = 'talk-7'":                            100,
		} {
			sql := "SELECT * FROM report." + query
			work(t, db, sql) // the first call reads the catalog, too
			got := work(t, db, sql)
			if got > most || before[query] > 0 && got > before[query]+50 {
				t.Errorf("%s: of %d runs %d rows and buffers; of half of them %d", query, n, got, before[query])
			}
			before[query] = got
		}
	}

	// The figures of runs are not looked up for a query that does not ask for them.
	if got := work(t, db, "SELECT name, count(*), sum(takeovers) FROM report.run GROUP BY name"); got > 3*runs {
		t.Errorf("a count of %d runs: %d rows and buffers", runs, got)
	}
	if got := work(t, db, "SELECT workflow_name, count(*) FROM report.session WHERE is_base GROUP BY 1"); got > 5*runs {
		t.Errorf("a count of %d sessions: %d rows and buffers", runs, got)
	}
}

// addRuns adds runs with a step and a wait each, from one number to another. Of them 10 are of the last
// day, 10 are due, and workers w1 to w3 hold 10 each; the others have ended.
func addRuns(t *testing.T, db *pgtest.DB, from, to int) {
	t.Helper()
	for _, sql := range []string{
		`INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, told_state, start_time, conversation_id)
			SELECT 'run-' || i, 'run-' || i, DATE '2026-01-05', 'COMPLETED', '2026-01-05', 'talk-' || (i + 3) / 4 FROM generate_series($1::integer + 1, $2::integer) AS i`,
		`INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, plan_id, part, tool_calls, cost_usd)
			SELECT 'run-' || i, 'step', 'run-' || i, DATE '2026-01-05', 1, 0.5 FROM generate_series($1::integer + 1, $2::integer) AS i`,
		`INSERT INTO actlog.conversation (conversation_id, workflow_name, base_id, updated_at)
			SELECT 'talk-' || i || of, 'w', CASE of WHEN '' THEN NULL ELSE 'talk-' || i END, CASE WHEN i <= 10 THEN timestamptz '2026-11-20' ELSE timestamptz '2026-01-05' + i * interval '1 second' END
			FROM generate_series($1::integer / 4 + 1, $2::integer / 4) AS i, (VALUES (''), ('-0')) AS part (of)`,
		`INSERT INTO actlog.conversation_message (conversation_id, plan_id, position, role, content)
			SELECT 'talk-' || (i + 3) / 4 || of, 'run-' || i, 0, 'user', '-' FROM generate_series($1::integer + 1, $2::integer) AS i, (VALUES (''), ('-0')) AS part (of)`,
		`INSERT INTO actlog.wait_state (root_plan_id, plan_id, wait_id) SELECT 'run-' || i, 'run-' || i, 'w' FROM generate_series($1::integer + 1, $2::integer) AS i`,
		`INSERT INTO actlog.run (root_plan_id, plan_id, executor, needs, input, owner, created_at, due_at, worker_id, done)
			SELECT 'run-' || i, 'run-' || i, 'agent', '{executor:agent}', '{}', 'run-' || i,
				CASE WHEN i <= 10 THEN timestamptz '2026-11-20' ELSE timestamptz '2026-01-05' + i * interval '1 second' END,
				CASE WHEN i BETWEEN 11 AND 20 THEN timestamptz '2026-11-20' END,
				CASE WHEN i BETWEEN 21 AND 50 THEN 'w' || 1 + i % 3 END, i > 50
			FROM generate_series($1::integer + 1, $2::integer) AS i`,
	} {
		if _, err := db.Pool.Exec(t.Context(), sql, from, to); err != nil {
			t.Fatal(err)
		}
	}
	execSQL(t, db.Pool, "VACUUM ANALYZE actlog.plan_execution_record, actlog.agent_execution_record, "+
		"actlog.wait_state, actlog.run, actlog.conversation, actlog.conversation_message")
}

// TestReportRunningIsLinear checks that report.running costs what the trees of its rows cost, however
// many plans of a tree run (N6).
func TestReportRunningIsLinear(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	for _, statistics := range []string{
		"", "ANALYZE actlog.plan_execution_record, actlog.agent_execution_record, actlog.wait_state, actlog.thought",
	} {
		for _, where := range []string{"", "WHERE root_plan_id = 'big'", "WHERE is_root"} {
			t.Run(statistics+where, func(t *testing.T) {
				t.Parallel()
				db := pgtest.Fresh(t)
				last := 0
				for n := 500; n <= 2000; n *= 2 {
					execSQL(t, db.Pool, "TRUNCATE actlog.plan_execution_record CASCADE")
					fillPlans(t, db, "big", n, planShapes["side by side"])
					execSQL(t, db.Pool, "UPDATE actlog.plan_execution_record SET told_state = 'RUNNING'")

					execSQL(t, db.Pool, "INSERT INTO actlog.wait_state (root_plan_id, plan_id, wait_id) SELECT root_plan_id, "+
						"current_plan_id, 'w' FROM actlog.plan_execution_record")
					execSQL(t, db.Pool, "INSERT INTO actlog.thought (root_plan_id, plan_id, thought_id) SELECT root_plan_id, "+
						"current_plan_id, 't' FROM actlog.plan_execution_record")
					execSQL(t, db.Pool, "VACUUM actlog.plan_execution_record, actlog.agent_execution_record, actlog.wait_state, "+
						"actlog.thought")
					if statistics != "" {
						execSQL(t, db.Pool, statistics)
					}

					sql := "SELECT * FROM report.running " + where
					work(t, db, sql) // the first call reads the catalog, too
					got := work(t, db, sql)
					if last > 0 && float64(got) > 2.5*float64(last) {
						t.Errorf("%d sub-plans: %d rows and buffers; half of them: %d", n, got, last)
					}
					last = got
				}
				if last > 100_000 {
					t.Errorf("2,000 sub-plans: %d rows and buffers", last)
				}
			})
		}
	}
}

// TestReportRunning checks the figures of running plans: those of a sub-plan are its own, the signs of
// life and the waits of a root plan are those of its tree.
func TestReportRunning(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	db := pgtest.New(t)
	plan := func(id string, parent *string, state record.State, start int) *record.Plan {
		p := &record.Plan{RootPlanID: "root", CurrentPlanID: id, ParentPlanID: parent, State: &state, StartTime: at(start)}
		if parent != nil {
			p.ToolCallID = new("call-" + id)
		}
		return p
	}

	step := func(plan, id string, start int, state record.State) record.Change {
		return &record.AgentExecution{
			RootPlanID: "root", PlanID: plan, StepID: id, AgentName: new("agent of " + id), StartTime: at(start), State: &state,
		}
	}

	storetest.Write(t, storetest.OpenURL(t, db.URL),
		plan("root", nil, record.Running, 0), step("root", "a", 1, record.Running), step("root", "b", 3, record.Running),
		step("root", "c", 4, record.Completed),
		&record.ActTool{RootPlanID: "root", StepID: "b", ToolCallID: "t", Name: new("search"), StartTime: at(5)},
		&record.ThinkAct{RootPlanID: "root", StepID: "b", CostUSD: new(0.5)},
		plan("beats", new("root"), record.Running, 2), step("beats", "d", 6, record.Running),
		step("beats", "e", 6, record.Running),
		plan("waits", new("root"), record.Waiting, 2), &record.Wait{
			RootPlanID: "root", PlanID: "waits", WaitID: "w", StartTime: at(8),
		},
		plan("thinks", new("root"), record.Running, 2), &record.Thought{
			RootPlanID: "root", PlanID: "thinks", ThoughtID: "h", Time: at(7),
		},
		plan("ended", new("root"), record.Completed, 2), step("ended", "f", 9, record.Running))

	want := []string{
		"beats 2 0 0 d agent of d 6 f",
		"root 3 1 1 0.5 b agent of b search 9 t",
		"thinks 0 0 0 7 f",
		"waits 0 0 0 8 t",
	}
	if diff := cmp.Diff(want, storetest.Lines(t, db.Pool, `
		SELECT concat_ws(' ', plan_id, steps, cycles, tool_calls, cost_usd, step_id, agent_name, latest_tool_name, extract(epoch FROM last_sign_of_life - $1)::integer, waits_for_human)
		FROM report.running ORDER BY plan_id`, *at(0))); diff != "" {
		t.Errorf("running plans (-want +got):\n%s", diff)
	}
}

// TestSubPlanFigures checks the totals of plans against sums over random trees, some with parents
// that are not on record or that are below themselves (N6).
func TestSubPlanFigures(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 6))
		n := 1 + r.IntN(60)
		parents := make([]int, n+1)
		for i := 1; i <= n; i++ {
			parents[i] = r.IntN(i)
			switch {
			case seed%2 == 1 && r.IntN(10) == 0:
				parents[i] = n + 1 // not on record
			case seed%4 == 3 && r.IntN(10) == 0:
				parents[i] = 1 + r.IntN(n) // perhaps below itself
			}
			if parents[i] == i {
				parents[i] = 0
			}
		}

		root := fmt.Sprintf("tree-%d", seed)
		fillPlans(t, db, root, n, func(i int) int { return parents[i] })
		// The first plan of a cycle is directly below the root.
		for i := 1; i <= n; i++ {
			seen := []int{}
			for p := i; p >= 1 && p <= n && !slices.Contains(seen, p); p = parents[p] {
				seen = append(seen, p)
				if parents[p] == i {
					id := func(i int) string { return fmt.Sprintf("%s-%d", root, i) }
					parents[slices.MinFunc(seen, func(a, b int) int { return strings.Compare(id(a), id(b)) })] = 0
					break
				}
			}
		}

		total, depth := make([]int, n+1), make([]int, n+1)
		total[0] = n + 1 // the root plan owns its whole tree
		for i := 1; i <= n; i++ {
			for p := i; p >= 1 && p <= n; p = parents[p] {
				total[p]++
				depth[i]++
			}
		}

		var want []string
		for i := range total {
			id := root
			if i > 0 {
				id = fmt.Sprintf("%s-%d", root, i)
			}
			want = append(want, fmt.Sprintf("%s %d %d %d %.1f", id, depth[i], total[i], total[i], float64(total[i])/2))
		}
		slices.Sort(want)

		got := storetest.Lines(t, db.Pool,
			`SELECT concat_ws(' ', plan_id, depth, total_plans, total_steps, round(total_cost_usd, 1)) FROM report.plan WHERE root_plan_id = $1 ORDER BY plan_id COLLATE "C"`, root)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, parents %v (-want +got):\n%s", root, parents, diff)
		}
	}
}

// TestReportScope checks N29: failures, daily usage, thoughts, artifacts and sources name the user,
// the environment and the release, and the ids above them.
func TestReportScope(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	storetest.Write(t, storetest.OpenURL(t, db.URL), wholeRun("run", at(0), record.Completed)...)
	for view, want := range map[string]string{
		"failure":     "ada|production|r7|talk|kind|writer|3|run|run|run-step",
		"thought":     "ada|production|r7|talk|kind|writer|3|run|run|run-step|thought|decision|0.5|7",
		"artifact":    "ada|production|r7|talk|kind|writer|3|run|run|run-step|0|run-call|answer|text|7",
		"source":      "ada|production|r7|talk|kind|writer|3|run|run|run-step|0|run-call|page|URL|https://example.com|0.9|4",
		"usage_daily": "ada|production|r7|1|10",
	} {
		columns := map[string]string{
			"failure": "plan_name, agent_name, agent_version, root_plan_id, plan_id, step_id",
			"thought": "plan_name, agent_name, agent_version, root_plan_id, plan_id, step_id, thought_id, type, " +
				"confidence, content_bytes",
			"artifact": "plan_name, agent_name, agent_version, root_plan_id, plan_id, step_id, seq, tool_call_id, " +
				"artifact_name, type, stored_bytes",
			"source": "plan_name, agent_name, agent_version, root_plan_id, plan_id, step_id, seq, tool_call_id, " +
				"source_id, type, uri, relevance_score, snippet_bytes",
			"usage_daily": "model_calls, input_tokens",
		}[view]
		if view != "usage_daily" {
			columns = "conversation_id, " + columns
		}

		got := storetest.Lines(t, db.Pool,
			"SELECT concat_ws('|', user_id, environment, release, "+columns+") FROM report."+view)
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("view = %s (-want +got):\n%s", view, diff)
		}
	}
}

// TestNothingRunsInAPlaceholder (N13): a root plan of which only the id is known is not reported as
// running, unless something in it is.
func TestNothingRunsInAPlaceholder(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	running := func(want ...string) {
		t.Helper()
		if got := storetest.Lines(t, s.DB().Pool, "SELECT plan_id FROM report.running ORDER BY 1"); !slices.Equal(got, want) {
			t.Errorf("%q run, want %q", got, want)
		}
	}

	storetest.Write(t, s, &record.Plan{RootPlanID: "q", CurrentPlanID: "q2"})
	running()
	storetest.Write(t, s, &record.Plan{RootPlanID: "q", CurrentPlanID: "q2", Title: new("Sub")})
	running("q2")
	storetest.Write(t, s, &record.AgentExecution{RootPlanID: "q", PlanID: "q", StepID: "q-s", State: new(record.Running)})
	running("q", "q2")
}
