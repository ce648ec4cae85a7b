package store_test

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// fillSQL makes four periods of 500 root plans. A root plan has two sub-plans and 10 steps, and
// a step has two cycles of five calls: 200,000 calls.
const (
	fillRoots = 2000
	fillSQL   = `
SELECT actlog.add_partition(t, day::date, day::date + 7) FROM unnest(ARRAY['think_act_record', 'act_tool_info']) AS t,
	generate_series(TIMESTAMP '2026-01-05', '2026-01-26', '7 days') AS day;
INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, parent_plan_id, tool_call_id, told_state)
	SELECT 'root-' || r, 'root-' || r || CASE WHEN s > 0 THEN '-sub-' || s ELSE '' END, DATE '2026-01-05' + 7 * (r % 4),
		CASE WHEN s > 0 THEN 'root-' || r END, CASE WHEN s > 0 THEN 'call-' || s || '-0-0' END, 'COMPLETED'
	FROM generate_series(0, 1999) AS r, generate_series(0, 2) AS s;
INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, plan_id, part, step_index)
	SELECT root_plan_id, root_plan_id || '-step-' || s, root_plan_id, part, s
	FROM actlog.plan_execution_record, generate_series(0, 9) AS s WHERE root_plan_id = current_plan_id;
INSERT INTO actlog.think_act_record (root_plan_id, step_id, seq, part, think_input)
	SELECT root_plan_id, step_id, c, part, repeat('x', 200) FROM actlog.agent_execution_record, generate_series(0, 1) AS c;
INSERT INTO actlog.act_tool_info (root_plan_id, step_id, seq, tool_call_id, part, result)
	SELECT a.root_plan_id, a.step_id, c, 'call-' || a.step_index || '-' || c || '-' || t, a.part, 'result'
	FROM actlog.agent_execution_record AS a, generate_series(0, 1) AS c, generate_series(0, 4) AS t;
ANALYZE actlog.plan_execution_record, actlog.agent_execution_record, actlog.think_act_record, actlog.act_tool_info`
)

// largeDatabase returns a database with 200,000 tool calls.
func largeDatabase(t testing.TB) *pgtest.DB {
	t.Helper()
	pg := pgtest.Fresh(t)
	execSQL(t, pg.Pool, fillSQL)
	return pg
}

// TestReadQueryPlans checks the query plans of the reads. No read scans a whole table, and none
// reads a partition other than that of its tree, even with a generic plan. Nor does a tree that has
// ended read thoughts, which are signs of life (N9).
func TestReadQueryPlans(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	pg := largeDatabase(t)
	storetest.Upkeep(t, storetest.OpenURL(t, pg.URL), upkeep.Config{}) // adds the empty partitions of the present
	conn, err := pg.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()

	if _, err := conn.Exec(t.Context(),
		"SET plan_cache_mode = force_generic_plan; SET jit = off; PREPARE tree (text, date, text) AS "+store.PlanTreeSQL+
			"; PREPARE detail (text, date, text) AS "+store.StepDetailSQL+
			"; PREPARE step_rows (text, date, text) AS "+store.StepRowsSQL+"; PREPARE cycle (text, text, bigint) AS "+
			store.CycleDetailSQL+"; PREPARE earlier (text, text, bigint) AS "+store.EarlierCyclesSQL+
			"; PREPARE find AS "+store.FindSQL+
			"; PREPARE cycles (text, date) AS "+fieldsql.Export(record.KindThinkAct, true)+"; PREPARE calls (text, date) AS "+
			fieldsql.Export(record.KindActTool, true)); err != nil {
		t.Fatal(err)
	}

	scan := regexp.MustCompile(
		`Seq Scan on \S*(plan_execution_record|agent_execution_record|think_act_record|act_tool_info)|\bon thought\b|wait_open`,
	)
	partition := regexp.MustCompile(`on ((?:think_act_record|act_tool_info)_(?:p[0-9]+|default)) `)
	for _, execute := range []string{
		"tree('root-5', '2026-01-12', NULL)", "tree('root-5-sub-1', '2026-01-12', NULL)",
		"tree('root-5-sub-1', '2026-01-12', 'root-5')",
		"detail('root-5-step-3', '2026-01-12', NULL)", "detail('root-5-step-3', '2026-01-12', 'root-5')",
		"step_rows('root-5-step-3', '2026-01-12', NULL)",
		"find('root-5', '{plan,agentExecution,thinkAct,actTool,wait}', '{\"\",\"\",root-5-step-3,root-5-step-3,root-5}', " +
			"'{0,0,1,1,0}', '{root-5,root-5-step-3,\"\",call-3-1-4,none}', 60000)",
		"cycle('root-5', 'root-5-step-3', 1)", "earlier('root-5', 'root-5-step-3', 2)", "cycles('root-5', '2026-01-12')",
		"calls('root-5', '2026-01-12')",
	} {
		rows, _ := conn.Query(t.Context(), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE "+execute)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string]) // also returns the error of the query
		if err != nil {
			t.Fatal(err)
		}

		read := map[string]bool{} // partitions
		for _, line := range plan {
			if strings.Contains(line, "never executed") {
				continue
			}

			// which reads the thoughts of a plan
			if scan.MatchString(line) && (!strings.HasPrefix(execute, "find") || strings.Contains(line, "Seq Scan")) {
				t.Errorf("%s scans a table, or thoughts: %s", execute, strings.TrimSpace(line))
			}
			if m := partition.FindStringSubmatch(line); m != nil {
				read[m[1]] = true
			}
		}

		for name := range read {
			if !strings.HasSuffix(name, "_p20260112") { // root 5 lies in the second period
				t.Errorf("%s reads partition %s", execute, name)
			}
		}
		if len(read) == 0 {
			t.Errorf("%s reads no partition", execute)
		}
		if t.Failed() {
			t.Log(strings.Join(plan, "\n"))
		}
	}
}

// TestCauseRowsReadThoseRows checks what the rows are looked up by from which the cause of a failure follows: not by
// reading the tree, nor by another partition.
func TestCauseRowsReadThoseRows(t *testing.T) {
	t.Parallel()
	pg := largeDatabase(t)
	execSQL(t, pg.Pool, `
UPDATE actlog.act_tool_info SET told_state = 'FAILED', end_time = now() WHERE root_plan_id = 'root-5' AND part = '2026-01-12' AND tool_call_id = 'call-3-1-2';
UPDATE actlog.agent_execution_record SET plan_id = 'root-5-sub-1', told_state = 'FAILED' WHERE root_plan_id = 'root-5' AND step_id = 'root-5-step-3';
ANALYZE actlog.agent_execution_record, actlog.act_tool_info`)

	const most = 20                                                    // of a table or partition
	for root, want := range map[string]int{"root-5": 9, "root-9": 0} { // two plans, two steps, three cycles, two calls
		conn, err := pgx.Connect(t.Context(), pg.URL) // of others, what they read before counts, too
		if err != nil {
			t.Fatal(err)
		}
		// as the store has it
		if _, err := conn.Exec(t.Context(),
			"SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off"); err != nil {
			t.Fatal(err)
		}

		var rows int
		if err := conn.QueryRow(t.Context(), "SELECT COALESCE(json_array_length(actlog.cause_evidence($1, '2026-01-12')), 0)",
			root).Scan(&rows); err != nil || rows != want {
			t.Errorf("%s: %d rows, %v, want %d", root, rows, err, want)
		}

		read, _ := conn.Query(t.Context(), `
SELECT relname, seq_tup_read + COALESCE(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE schemaname = 'actlog' AND seq_scan + COALESCE(idx_scan, 0) > 0`)
		for read.Next() {
			var table string
			var tuples int64
			if err := read.Scan(&table, &tuples); err != nil {
				t.Fatal(err)
			}
			if tuples > most || strings.Contains(table, "_p2026") && !strings.HasSuffix(table, "_p20260112") {
				t.Errorf("%s: %d rows are read of %s", root, tuples, table)
			}
		}
		if err := errors.Join(read.Err(), conn.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPlanListReadsAPage checks that a list without filters reads the plans of its page, and not
// all to sort them. It does not look for signs of life of plans that have ended (N9).
func TestPlanListReadsAPage(t *testing.T) {
	t.Parallel()
	pg := pgtest.Fresh(t)
	execSQL(t, pg.Pool, `
INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, told_state, start_time)
	SELECT 'root-' || r, 'root-' || r, DATE '2026-01-05', 'COMPLETED', CASE WHEN r % 2 = 0 THEN now() - make_interval(secs => r) END FROM generate_series(1, 20000) AS r;
ANALYZE actlog.plan_execution_record`)

	const page = 5
	forever, hourAgo := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Now().Add(-time.Hour)
	for _, between := range [][4]any{ // as cursors, since and until bound it
		{forever, "\U0010FFFF", time.Time{}, ""},
		{forever, "root-500", time.Time{}, ""},
		{hourAgo, "", time.Time{}, ""},
		{hourAgo, "root-500", hourAgo.Add(-time.Hour), ""},
		{hourAgo, "", hourAgo.Add(-3 * time.Second), "root-500"},
	} {
		rows, _ := pg.Pool.Query(t.Context(), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "+db.PlanList,
			nil, between[0], between[1], between[2], between[3], nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
			nil, nil, nil, page)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}

		if m := regexp.MustCompile(`(?m)^.*\bon (thought|wait_state)\b.*\(actual .*$`).FindString(strings.Join(plan,
			"\n")); m != "" {
			t.Errorf("the list reads what is beside plans that have ended: %s", m)
		}
		for _, m := range regexp.MustCompile(`actual rows=(\d+)`).FindAllStringSubmatch(strings.Join(plan, "\n"), -1) {
			if n, _ := strconv.Atoi(m[1]); n > page {
				t.Fatalf("a page of %d plans reads %d rows:\n%s", page, n, strings.Join(plan, "\n"))
			}
		}
	}
}

// TestListsReadTheirRuns checks that the list of one user or project reads no other runs, however old theirs are, and
// that of one tag no others that have not the tag: not all of them to sort out the rest.
func TestListsReadTheirRuns(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	pg := pgtest.Fresh(t)
	execSQL(t, pg.Pool, `
INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, told_state, start_time, user_id, project, tags)
	SELECT 'root-' || r, 'root-' || r, DATE '2026-01-05', 'COMPLETED', now() - make_interval(secs => r), 'of-' || k, 'of-' || k, ARRAY['of-' || k, 'all']
	FROM generate_series(1, 20000) AS r, LATERAL (SELECT CASE WHEN r > 19990 THEN 'old' ELSE (r % 400)::text END AS k) AS x;
ANALYZE actlog.plan_execution_record`)

	const page, most = 10, 50 // a user has 50 runs
	for _, of := range []string{"of-7", "of-old", "nobody"} {
		for filter, place := range map[string]int{"project": 6, "user": 8, "tag": 11} {
			args := []any{
				nil, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), "\U0010FFFF", time.Time{}, "", nil, nil, nil, nil, nil, nil,
				nil, nil, nil, nil, nil, nil, nil, nil, nil, page,
			}
			args[place] = of

			rows, _ := pg.Pool.Query(t.Context(), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "+db.PlanList, args...)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}

			plan := strings.Join(lines, "\n")
			for _, m := range regexp.MustCompile(`(?:actual rows=|Removed by Filter: )(\d+)`).FindAllStringSubmatch(plan, -1) {
				if n, _ := strconv.Atoi(m[1]); n > most {
					t.Fatalf("a page of %s %s reads %d rows:\n%s", filter, of, n, plan)
				}
			}
			if !strings.Contains(plan, "actual rows=") {
				t.Errorf("a page of %s %s has no plan:\n%s", filter, of, plan)
			}
		}
	}
}

// BenchmarkReads compares the ways in which Postgres plans prepared statements. In mode auto it
// plans for the arguments five times, and may then switch to a generic plan.
func BenchmarkReads(b *testing.B) {
	pg := largeDatabase(b)
	for _, mode := range []string{"auto", "force_generic_plan", "force_custom_plan"} {
		s := storetest.OpenURL(b, withParam(b, pg.URL, "plan_cache_mode", mode), func(c *store.Config) {
			c.Writers, c.MaxConns = 1, 2
		})

		i := 0
		b.Run("tree/"+mode, func(b *testing.B) {
			for b.Loop() {
				i++
				storetest.PlanTree(b, s, fmt.Sprintf("root-%d", i*7%fillRoots))
			}
		})

		b.Run("detail/"+mode, func(b *testing.B) {
			for b.Loop() {
				i++
				storetest.StepDetail(b, s, fmt.Sprintf("root-%d-step-%d", i*7%fillRoots, i%10))
			}
		})
	}
}
