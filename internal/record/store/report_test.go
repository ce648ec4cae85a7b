package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

var update = flag.Bool("update", false, "rewrite the answers in docs/reporting.md")

// reportNow is the time at which the queries of docs/reporting.md run.
var reportNow = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// question is a query of docs/reporting.md with its answer.
type question struct{ title, sql, answer string }

const reportingPage = "../../../docs/reporting.md"

var questionPattern = regexp.MustCompile("(?s)### (\\d+\\. [^\n]+)\n\n```sql\n(.*?)```\n\n```text\n(.*?)```\n")

// questions reads the page and its questions.
func questions(t testing.TB) (page string, all []question) {
	t.Helper()
	content, err := os.ReadFile(reportingPage)
	if err != nil {
		t.Fatal(err)
	}

	for _, m := range questionPattern.FindAllStringSubmatch(string(content), -1) {
		all = append(all, question{
			title: m[1], sql: strings.ReplaceAll(m[2], "now()", "timestamptz '"+reportNow.Format(time.RFC3339)+"'"),
			answer: m[3],
		})
	}

	if len(all) < 32 {
		t.Fatalf("%d questions, want 32 or more", len(all))
	}
	return string(content), all
}

// TestReportingPage checks the answers on the page. It runs every query of the page with the role
// for reports.
func TestReportingPage(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	page, all := questions(t)

	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)
	writeTwoWeeks(t, s)
	storetest.Exec(t, s, sqlRuns)
	storetest.Exec(t, s, sqlReviews)
	storetest.Exec(t, s, sqlSessions)
	conn := ownConn(t, db, "ANALYZE; SET TimeZone = 'UTC'; SET ROLE actlog_report")

	for _, q := range all {
		got := psqlTable(t, conn, q.sql)
		if strings.Count(got, "\n") < 3 {
			t.Errorf("%s: the answer has no rows:\n%s", q.title, got)
		}

		if *update {
			page = strings.Replace(page, "```\n\n```text\n"+q.answer+"```", "```\n\n```text\n"+got+"```", 1)
			continue
		}
		if diff := cmp.Diff(q.answer, got); diff != "" {
			t.Errorf("%s (-page +now; -update rewrites the page):\n%s", q.title, diff)
		}
	}

	if *update {
		if err := os.WriteFile(reportingPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// ownConn takes a connection out of the pool, because sql changes its role or settings, and closes
// it at the end of the test.
func ownConn(t testing.TB, db *pgtest.DB, sql string) *pgx.Conn {
	t.Helper()
	pooled, err := db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	conn := pooled.Hijack()
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	runQuery(t, conn, "set up the connection", sql)
	return conn
}

// runQuery returns the result of a query, with values as text.
func runQuery(t testing.TB, conn *pgx.Conn, what, sql string) *pgconn.Result {
	t.Helper()
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v\n%s", what, err, sql)
	}
	return results[0]
}

// psqlTable returns the rows of a query as psql shows them.
func psqlTable(t testing.TB, conn *pgx.Conn, sql string) string {
	t.Helper()
	r := runQuery(t, conn, "query", sql)

	cells := make([][]string, 1, len(r.Rows)+1)
	widths := make([]int, len(r.FieldDescriptions))
	numeric := make([]bool, len(widths))
	for i, f := range r.FieldDescriptions {
		cells[0] = append(cells[0], f.Name)
		numeric[i] = slices.Contains([]uint32{20, 21, 23, 700, 701, 1700}, f.DataTypeOID)
	}

	for _, row := range r.Rows {
		var line []string
		for _, v := range row {
			line = append(line, strings.TrimSuffix(string(v), "+00"))
		}
		cells = append(cells, line)
	}

	for _, line := range cells {
		for i, c := range line {
			widths[i] = max(widths[i], len([]rune(c)))
		}
	}

	var b bytes.Buffer
	for n, line := range cells {
		for i, c := range line {
			if i > 0 {
				b.WriteString(" | ")
			}
			pad := strings.Repeat(" ", widths[i]-len([]rune(c)))
			if numeric[i] {
				c = pad + c
			} else if i < len(line)-1 {
				c += pad
			}
			b.WriteString(c)
		}
		b.WriteString("\n")

		if n == 0 {
			for i, w := range widths {
				if i > 0 {
					b.WriteString("-+-")
				}
				b.WriteString(strings.Repeat("-", w))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// TestReportRole checks that the role for reports can read the views and nothing else.
func TestReportRole(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	views := storetest.Lines(t, db.Pool,
		"SELECT relname FROM pg_class WHERE relnamespace = 'report'::regnamespace AND relkind = 'v'")
	if len(views) < 12 {
		t.Errorf("only %d views", len(views))
	}

	conn := ownConn(t, db, "SET ROLE actlog_report")
	for _, view := range views {
		runQuery(t, conn, view, "SELECT * FROM report."+view)
	}

	for _, sql := range []string{
		"SELECT * FROM actlog.plan_execution_record", "SELECT * FROM actlog.act_tool_info",
		"SELECT * FROM actlog.schema_version",
		"CREATE VIEW report.mine AS SELECT 1", "CREATE TABLE public.mine ()", "DROP VIEW report.plan",
		"INSERT INTO report.model_price (provider, model) VALUES ('', 'm')", "DELETE FROM report.model_price",
	} {
		if _, err := conn.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "permission denied") &&
			!strings.Contains(err.Error(), "must be owner") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// sqlFigures selects the figures of a plan from report.plan.
const sqlFigures = `
	SELECT jsonb_build_object('steps', steps, 'modelCalls', model_calls, 'toolCalls', tool_calls, 'failures', failures, 'input', input_tokens, 'output', output_tokens,
		'cached', cache_read_input_tokens, 'cost', round(cost_usd, 9), 'think', round(think_seconds::numeric, 3), 'tool', round(tool_seconds::numeric, 3))::text
	|| jsonb_build_object('plans', total_plans, 'modelCalls', total_model_calls, 'toolCalls', total_tool_calls, 'failures', total_failures, 'input', total_input_tokens,
		'output', total_output_tokens, 'cached', total_cache_read_input_tokens, 'cost', round(total_cost_usd, 9), 'think', round(total_think_seconds::numeric, 3),
		'tool', round(total_tool_seconds::numeric, 3))::text
	FROM report.plan WHERE plan_id = $1`

// figuresOf returns the same text as sqlFigures, made from the tree of the plan.
func figuresOf(t testing.TB, pool *pgxpool.Pool, p *tree.Plan) string {
	t.Helper()
	object := func(head string, n int, f tree.Figures) string {
		var cost any
		if f.CostUSD != nil {
			cost = fmt.Sprintf("%.9f", *f.CostUSD)
		}

		return storetest.Lines(t, pool,
			`SELECT jsonb_build_object($1::text, $2::bigint, 'modelCalls', $3::bigint, 'toolCalls', $4::bigint, 'failures', $5::bigint, 'input', $6::bigint, 'output', $7::bigint,
			'cached', $8::bigint, 'cost', $9::text::numeric, 'think', round($10::bigint / 1000.0, 3), 'tool', round($11::bigint / 1000.0, 3))::text`,
			head, n, f.ModelCalls, f.ToolCalls, f.Failures, f.InputTokens, f.OutputTokens, f.CacheReadInputTokens, cost,
			f.ThinkMs, f.ToolMs)[0]
	}

	return object("steps", len(p.Steps), p.Figures) + object("plans", countPlans(p), p.Total)
}

func countPlans(p *tree.Plan) int {
	n := 1
	for sub := range p.Children() {
		n += countPlans(sub)
	}
	return n
}

// TestReportFigures checks that the views have the same figures as the tree and as each other,
// before and after detail is dropped.
func TestReportFigures(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	db := pgtest.Fresh(t)
	s := storetest.OpenURL(t, db.URL)
	kept := storetest.Upkeep(t, s, upkeep.Config{DetailDays: 30})
	writeTwoWeeks(t, s)

	plans := storetest.Lines(t, db.Pool,
		"SELECT current_plan_id FROM actlog.plan_execution_record WHERE current_plan_id <> root_plan_id OR "+
			"current_plan_id LIKE '%0'")
	check := func(when string) {
		t.Helper()
		for _, id := range plans {
			if diff := cmp.Diff(figuresOf(t, db.Pool, storetest.PlanTree(t, s, id)),
				storetest.Lines(t, db.Pool, sqlFigures, id)[0]); diff != "" {
				t.Fatalf("%s, plan %s (-tree +view):\n%s", when, id, diff)
			}
		}
	}
	check("with detail")

	// sqlDays selects what the daily figures add up to.
	const sqlDays = `
		SELECT concat_ws(' ', 'agent', agent_name, sum(executions), sum(model_calls), sum(tool_calls), round(sum(cost_usd), 9)) FROM report.agent_daily GROUP BY agent_name
		UNION ALL SELECT concat_ws(' ', 'model', agent_name, model_name, sum(model_calls), sum(input_tokens), sum(output_tokens), round(sum(cost_usd), 9), round(sum(think_seconds)::numeric, 3))
			FROM report.usage_daily GROUP BY agent_name, model_name
		UNION ALL SELECT concat_ws(' ', 'tool', day, project, tool_name, calls, failures, total_seconds, p50_seconds, p95_seconds, p99_seconds) FROM report.tool_daily
		ORDER BY 1`
	days := storetest.Lines(t, db.Pool, sqlDays)

	rows := storetest.Lines(t, db.Pool, `
		SELECT concat_ws(' ', 'model', agent_name, model_name, count(*), sum(input_tokens), sum(output_tokens), round(sum(cost_usd), 9), round(sum(think_seconds)::numeric, 3))
			FROM report.think_act GROUP BY agent_name, model_name ORDER BY 1`)
	if diff := cmp.Diff(rows, slices.DeleteFunc(slices.Clone(days), func(l string) bool {
		return !strings.HasPrefix(l, "model")
	})); diff != "" {
		t.Errorf("model calls (-cycles +days):\n%s", diff)
	}

	if n, m := storetest.Query[int](t, s, "SELECT sum(calls) FROM report.tool_daily"),
		storetest.Query[int](t, s, "SELECT count(*) FROM report.tool_call"); n != m || n < 1000 {
		t.Errorf("%d tool calls in the daily figures, %d in report.tool_call", n, m)
	}

	// The daily percentiles come from a histogram, so they are only near those of the calls.
	if off := storetest.Query[float64](t, s, `
		SELECT max(abs(ln(d.p95_seconds / c.p95))) FROM report.tool_daily AS d
		JOIN (SELECT date_trunc('day', start_time, 'UTC') AS day, project, tool_name, percentile_disc(0.95) WITHIN GROUP (ORDER BY duration_seconds) AS p95, count(*) AS n
			FROM report.tool_call GROUP BY 1, 2, 3) AS c USING (day, project, tool_name) WHERE c.n > 20`); off > 0.2 {
		t.Errorf("a percentile is off by %.0f%%", 100*(math.Exp(off)-1))
	}

	storetest.Age(t, s, storetest.OldMonday,
		storetest.Lines(t, db.Pool, "SELECT DISTINCT root_plan_id FROM actlog.plan_execution_record AS p WHERE NOT "+
			"EXISTS (SELECT FROM actlog.plan_execution_record AS q WHERE q.root_plan_id = p.root_plan_id AND NOT q.completed)")...)
	if err := kept.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	// The background pass may do the work instead of Run, so it may end later.
	countCalls := func() int { return storetest.Query[int](t, s, "SELECT count(*) FROM report.tool_call") }
	storetest.Until(t, "only the tool calls of a few live runs are left", func() bool { return countCalls() <= 200 })
	if countCalls() == 0 {
		t.Error("the tool calls of live runs were dropped")
	}

	check("without detail")
	if diff := cmp.Diff(days, storetest.Lines(t, db.Pool, sqlDays)); diff != "" {
		t.Errorf("days (-with +without detail):\n%s", diff)
	}
}

// TestReportWaits checks that the waits of a plan are its own, and that its total includes those of
// its sub-plans. A wait is open until it is answered, or until its root plan has ended and its own plan
// does not run.
func TestReportWaits(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)

	plan := func(root, id, parent string, state record.State) *record.Plan {
		p := &record.Plan{RootPlanID: root, CurrentPlanID: id, State: &state}
		if parent != "" {
			p.ParentPlanID, p.ToolCallID = &parent, new("call-"+id)
		}
		return p
	}
	wait := func(root, plan, id string, seconds int) *record.Wait {
		w := &record.Wait{RootPlanID: root, PlanID: plan, WaitID: id, StartTime: at(0)}
		if seconds > 0 {
			w.State, w.EndTime = new(record.Approved), at(seconds)
		}
		return w
	}

	storetest.Write(t, storetest.OpenURL(t, db.URL),
		plan("root", "root", "", record.Running), plan("root", "sub", "root", record.Running),
		plan("root", "deep", "sub", record.Running), plan("root", "other", "root", record.Failed),
		wait("root", "root", "a", 10), wait("root", "sub", "b", 20), wait("root", "deep", "c", 40),
		wait("root", "deep", "open", 0), wait("root", "other", "d", 0),
		plan("ended", "ended", "", record.Completed), plan("ended", "cut-off", "ended", record.Running),
		wait("ended", "cut-off", "e", 0))

	got := storetest.Lines(t, db.Pool,
		"SELECT concat_ws(' ', plan_id, waits, wait_seconds, total_waits, total_wait_seconds) FROM report.plan WHERE "+
			"root_plan_id = 'root' ORDER BY plan_id")
	if diff := cmp.Diff([]string{"deep 2 40 2 40", "other 1 0 1 0", "root 1 10 5 70", "sub 1 20 3 60"}, got); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"d", "e", "open"},
		storetest.Lines(t, db.Pool, "SELECT wait_id FROM report.wait WHERE open ORDER BY 1")); diff != "" {
		t.Errorf("open waits (-want +got):\n%s", diff)
	}
}

// N1: TestReportAttempts checks that each attempt at what was attempted again has a row that says
// how it went, and that failed attempts are failures, too. What was attempted once has no row.
func TestReportAttempts(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)

	step := record.AgentExecution{
		RootPlanID: "p", PlanID: "p", StepID: "s", AgentName: new("writer"), State: new(record.Failed), StartTime: at(1),
		EndTime: at(3), ErrorKind: new("io"), ErrorMessage: new("disk full\nat /data"),
	}
	cycle := record.ThinkAct{
		RootPlanID: "p", StepID: "s", Seq: 1, State: new(record.Interrupted), ActStartTime: at(2), ThinkEndTime: at(4),
		ActEndTime: at(3),
	}
	call := record.ActTool{
		RootPlanID: "p", StepID: "s", Seq: 1, ToolCallID: "t", Name: new("fetch"), State: new(record.Cancelled),
	}

	steps := step
	steps.Attempt, steps.State = new(int64(2)), new(record.Completed)
	steps.StartTime, steps.EndTime = at(10), at(14)
	steps.ErrorKind, steps.ErrorMessage = nil, nil
	cycles := cycle
	cycles.Attempt, cycles.State = new(int64(2)), new(record.Failed)
	calls := call
	calls.Attempt, calls.State = new(int64(3)), new(record.Running)

	once := &record.ActTool{RootPlanID: "p", StepID: "s", Seq: 1, ToolCallID: "once", State: new(record.Completed)}
	storetest.Write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p", Name: new("report"), UserID: new("ada")},
		once, &cycles, &steps, &call, &step, &cycle, &calls)

	got := storetest.Lines(t, db.Pool, `
		SELECT concat_ws(' ', level, plan_name, user_id, agent_name, tool_name, step_id, seq, tool_call_id, attempt, retried, state, last_state, error_kind, error,
			extract(second FROM start_time)::integer, extract(second FROM end_time)::integer, duration_seconds, happened_at IS NOT NULL)
		FROM report.attempt ORDER BY level, attempt`)
	want := []string{
		"agent_execution report ada writer s 1 t FAILED COMPLETED io disk full 1 3 2 t",
		"agent_execution report ada writer s 2 f COMPLETED COMPLETED 10 14 4 t",
		"think_act report ada writer s 1 1 t INTERRUPTED FAILED 2 4 2 t",
		"think_act report ada writer s 1 2 f FAILED FAILED 2 4 2 t",
		"tool_call report ada writer fetch s 1 t 1 t CANCELLED RUNNING t",
		"tool_call report ada writer fetch s 1 t 3 f RUNNING RUNNING t",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}

	got = storetest.Lines(t, db.Pool,
		"SELECT concat_ws(' ', level, plan_name, agent_name, attempt, state, error_kind, error, extract(second FROM "+
			"failed_at)::integer) FROM report.failure ORDER BY level, attempt")
	want = []string{
		"agent_execution report writer 1 FAILED io disk full 3", "think_act report writer 1 INTERRUPTED 4",
		"think_act report writer 2 FAILED 4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

// TestReportSession checks whose runs and steps count for a session: those of its own root plans with all below, and of
// the session of a step those of that step. Conversations of neither agents nor workflows are no sessions.
func TestReportSession(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)

	cycle := func(root, step string, tokens int64, cost float64) record.Change {
		return &record.ThinkAct{
			RootPlanID: root, StepID: step, Seq: 0, ModelName: new("m"), InputTokens: &tokens, OutputTokens: new(int64(1)),
			CostUSD: &cost, State: new(record.Completed),
		}
	}
	talk := new("talk")

	storetest.Write(t, s,
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "p", ConversationID: talk, State: new(record.Completed), Project: new("support"),
		},
		&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "first", ConversationID: new("talk-0")},
		cycle("p", "first", 10, 0.5),
		&record.AgentExecution{RootPlanID: "p", PlanID: "p", StepID: "second", ConversationID: new("talk-1")},
		cycle("p", "second", 100, 0.25),
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "below", ParentPlanID: new("p"), ToolCallID: new("c"), State: new(record.Completed),
		},
		&record.AgentExecution{RootPlanID: "p", PlanID: "below", StepID: "third"}, cycle("p", "third", 1000, 1),
	)

	storetest.Write(t, s,
		&record.Plan{
			RootPlanID: "q", CurrentPlanID: "q", ConversationID: talk, State: new(record.Failed), ErrorKind: new("limit_cost"),
			Project: new("sales"),
		},
		&record.AgentExecution{RootPlanID: "q", PlanID: "q", StepID: "q first", ConversationID: new("talk-0")},
		cycle("q", "q first", 10000, 2),
	)

	storetest.Write(t, s, &record.Plan{
		RootPlanID: "r", CurrentPlanID: "r", ConversationID: talk, State: new(record.Waiting),
	})
	storetest.Exec(t, s, `INSERT INTO actlog.conversation (conversation_id, user_id, agent_name, workflow_name, base_id) VALUES
		('talk', 'ada', NULL, 'w', NULL), ('talk-0', 'ada', 'a', 'w', 'talk'), ('talk-1', 'ada', 'b', 'w', 'talk'), ('silent', NULL, 'a', NULL, NULL), ('other', 'ada', NULL, NULL, NULL)`)
	storetest.Exec(t, s, `INSERT INTO actlog.conversation_message (conversation_id, plan_id, position, role, content) VALUES
		('talk', 'p', 0, 'user', '-'), ('talk', 'q', 0, 'user', '-'), ('talk-0', 'p', 0, 'user', '-'), ('talk-0', 'p', 1, 'assistant', '-'), ('talk-0', 'q', 0, 'user', '-'), ('talk-1', 'p', 0, 'user', '-')`)

	got := storetest.Lines(t, s.DB(),
		`SELECT concat_ws(' ', session_id, is_base, user_id, project, messages, 'runs', runs, open_runs, waiting_runs, ended_runs, failed_runs, last_state, last_error_kind,
		'figures', steps, model_calls, tool_calls, failures, input_tokens, output_tokens, cost_usd) FROM report.session ORDER BY session_id`)
	if diff := cmp.Diff([]string{
		"silent t default 0 runs 0 0 0 0 0 figures 0 0 0 0 0 0",
		"talk t ada default 2 runs 3 1 1 2 1 WAITING figures 4 4 0 0 11110 4 3.75",
		"talk-0 f ada sales 3 runs 2 0 0 2 1 FAILED limit_cost figures 2 2 0 0 10010 2 2.5",
		"talk-1 f ada support 1 runs 1 0 0 1 0 COMPLETED figures 1 1 0 0 100 1 0.25",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStuckRuns checks which runs the page and the dashboard list as stuck. A run is not stuck if
// its sub-plan works, waits for a human or was paused.
func TestStuckRuns(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := storetest.OpenURL(t, db.URL)
	began, lately := reportNow.Add(-2*time.Hour), reportNow.Add(-time.Minute)

	root := func(id string, state record.State) {
		storetest.Write(t, s, &record.Plan{RootPlanID: id, CurrentPlanID: id, StartTime: &began, State: &state})
	}
	sub := func(root string, state record.State, change ...record.Change) {
		id := root + "-sub"
		storetest.Write(t, s, append(change,
			&record.Plan{
				RootPlanID: root, CurrentPlanID: id, ParentPlanID: &root, ToolCallID: new("call-" + id), StartTime: &began,
				State: &state,
			})...)
	}

	root("stuck", record.Running)
	sub("stuck", record.Completed, &record.Wait{
		RootPlanID: "stuck", PlanID: "stuck-sub", WaitID: "w", StartTime: &began, State: new(record.Approved),
	})
	root("busy", record.Running)
	sub("busy", record.Running, &record.AgentExecution{
		RootPlanID: "busy", PlanID: "busy-sub", StepID: "busy-step", StartTime: &lately,
	})
	root("asks", record.Running)
	sub("asks", record.Running, &record.Wait{RootPlanID: "asks", PlanID: "asks-sub", WaitID: "w", StartTime: &began})

	root("asked-before-the-end", record.Running)
	sub("asked-before-the-end", record.Completed, &record.Wait{
		RootPlanID: "asked-before-the-end", PlanID: "asked-before-the-end-sub", WaitID: "w", StartTime: &began,
	})
	root("sub-pauses", record.Running)
	sub("sub-pauses", record.Paused)
	root("pauses", record.Paused)
	root("waits", record.Waiting)

	_, all := questions(t)
	d := readGrafanaDashboard(t)
	panel := d.panel(t, "Stuck runs")
	conn := asReporter(t, db)
	for what, sql := range map[string]string{
		"page": all[5].sql, "panel": grafanaRange{}.expand(t, panel.Targets[0].RawSQL),
	} {
		var stuck []string
		for _, row := range runQuery(t, conn, what, sql).Rows {
			stuck = append(stuck, string(row[0]))
		}
		if diff := cmp.Diff([]string{"stuck"}, stuck); diff != "" {
			t.Errorf("what = %s (-want +got):\n%s", what, diff)
		}
	}
}

// sqlRuns lets the runtime have carried all root plans of the two weeks: of three workers one was
// killed, and no other has what some runs need that it held.
const sqlRuns = `
	WITH worker AS (
		INSERT INTO actlog.worker (worker_id, host, release, provides, slots, started_at, lease_until) VALUES
			('w-1', 'node-a', '1.4', '{executor:agent,executor:workflow,model:default}', 500, '2026-11-19 20:00Z', 'infinity'),
			('w-2', 'node-b', '1.4', '{executor:agent,executor:workflow,model:default}', 500, '2026-11-19 20:05Z', 'infinity'),
			('w-3', 'node-c', '1.3', '{executor:agent,executor:workflow,model:default,model:inhouse}', 500, '2026-11-06 06:00Z', '2026-11-20 04:11:07Z')
	), plan AS (
		SELECT p.*, substr(p.root_plan_id, 5)::integer AS n,
			CASE WHEN p.name = 'weekly-figures' OR p.state = 'RUNNING' THEN 'model:inhouse' ELSE 'model:default' END AS model,
			CASE p.name WHEN 'weekly-figures' THEN 'workflow' ELSE 'agent' END AS kind
		FROM actlog.plan_execution_record AS p
		WHERE p.root_plan_id = p.current_plan_id
	)
	INSERT INTO actlog.run (root_plan_id, plan_id, executor, name, needs, input, owner, created_at, first_claimed_at, claimed_at,
		epoch, takeovers, done, done_at, worker_id, due_at)
	SELECT p.root_plan_id, p.root_plan_id, p.kind, p.name, ARRAY['executor:' || p.kind, p.model], '{}', p.user_id,
		p.start_time - p.n % 41 * interval '3 milliseconds', p.start_time, p.start_time, 1 + (p.n % 29 = 0)::integer, (p.n % 29 = 0)::integer,
		p.completed, CASE WHEN p.completed THEN p.end_time END,
		CASE WHEN p.state = 'WAITING' THEN 'w-' || 1 + p.n % 2 END, -- other calls of the cycle go on
		CASE WHEN p.state = 'RUNNING' THEN timestamptz '2026-11-20 04:11:07Z' END
	FROM plan AS p`

// sqlReviews lets each user have one session for all reviews, and sqlSessions has the sessions of all runs: those of
// tickets are of a workflow, in which each triage has a session of its own.
const (
	sqlReviews = "UPDATE actlog.plan_execution_record SET conversation_id = 'review-' || user_id WHERE name = " +
		"'review-docs' AND root_plan_id = current_plan_id"
	sqlSessions = `
	WITH said AS (
		SELECT p.conversation_id, p.root_plan_id, p.name, p.user_id, p.start_time, COALESCE(p.end_time, p.start_time) AS end_time
		FROM actlog.plan_execution_record AS p
		WHERE p.root_plan_id = p.current_plan_id AND p.conversation_id IS NOT NULL
	), session AS (
		INSERT INTO actlog.conversation (conversation_id, user_id, agent_name, workflow_name, base_id, created_at, updated_at)
		SELECT conversation_id, min(user_id), CASE min(name) WHEN 'review-docs' THEN 'reviewer' END, CASE min(name) WHEN 'answer-ticket' THEN 'answer-ticket' END,
			NULL, min(start_time), max(end_time)
		FROM said GROUP BY conversation_id
		UNION ALL
		SELECT conversation_id || '-0', user_id, 'triage', name, conversation_id, start_time, end_time FROM said WHERE name = 'answer-ticket'
	), step AS (
		UPDATE actlog.agent_execution_record AS a SET conversation_id = said.conversation_id || '-0'
		FROM said WHERE said.name = 'answer-ticket' AND a.root_plan_id = said.root_plan_id AND a.agent_name = 'triage'
	)
	INSERT INTO actlog.conversation_message (conversation_id, plan_id, position, role, content, created_at)
	SELECT said.conversation_id || part.of, root_plan_id, n, CASE n % 2 WHEN 0 THEN 'user' ELSE 'assistant' END, '-', start_time
	FROM said, generate_series(0, 1) AS n, (VALUES (''), ('-0')) AS part (of)
	WHERE part.of = '' OR said.name = 'answer-ticket'`
)

// writeTwoWeeks writes the two weeks of docs/reporting.md: about thirty runs a day, of three kinds
// of plan. They are the same each time.
func writeTwoWeeks(t testing.TB, s *store.Store) {
	t.Helper()
	for model, price := range map[string][4]float64{
		"gpt-5-mini": {0.25, 2, 0.025, 0.25}, "claude-sonnet-4-5": {3, 15, 0.3, 3.75},
	} {
		if err := s.SetPrice(t.Context(), store.Price{
			Model: model, FromDay: reportNow.AddDate(-1, 0, 0),
			Rates: store.Rates{Input: price[0], Output: price[1], CacheRead: &price[2], CacheWrite: &price[3]},
		}); err != nil {
			t.Fatal(err)
		}
	}

	g := &reportSeed{r: rand.New(rand.NewPCG(20261120, 1))}
	for day := 13; day >= 0; day-- {
		date := reportNow.Truncate(24*time.Hour).AddDate(0, 0, -day)
		for range 24 + g.r.IntN(12) {
			start := date.Add(time.Duration(g.r.IntN(24*3600)) * time.Second)
			if day == 0 {
				start = date.Add(time.Duration(g.r.IntN(9*3600)) * time.Second)
			}
			g.run(start)
		}
	}

	for part := range slices.Chunk(g.changes, 1000) {
		result, err := s.Write(t.Context(), part)
		if err != nil || len(result.Rejected) > 0 {
			t.Fatalf("s.Write(part) = %v, %v", err, result.Rejected)
		}
	}
}

// reportSeed makes the changes of random runs.
type reportSeed struct {
	r       *rand.Rand
	runs    int
	changes []record.Change
}

func (g *reportSeed) add(c record.Change) { g.changes = append(g.changes, c) }

// seconds returns a random duration. Short ones are more likely.
func (g *reportSeed) seconds(least, most float64) time.Duration {
	f := g.r.Float64()
	return time.Duration((least + (most-least)*f*f*f) * float64(time.Second)).Truncate(time.Millisecond)
}

func (g *reportSeed) chance(percent float64) bool { return g.r.Float64()*100 < percent }

func oneOf[T any](g *reportSeed, values ...T) T { return values[g.r.IntN(len(values))] }

type reportAgent struct {
	name, model, provider string
	tools                 []string
}

var (
	reportTriage     = reportAgent{"triage", "gpt-5-mini", "openai", []string{"read_ticket", "find_customer"}}
	reportResearcher = reportAgent{
		"researcher", "claude-sonnet-4-5", "anthropic", []string{"search_docs", "run_sql", "fetch_page"},
	}
	reportWriter  = reportAgent{"writer", "claude-sonnet-4-5", "anthropic", []string{"save_draft"}}
	reportCounter = reportAgent{"counter", "inhouse-7b", "", []string{"run_sql"}}
)

// run adds one run that begins at start.
func (g *reportSeed) run(start time.Time) {
	g.runs++
	id := fmt.Sprintf("run-%03d", g.runs)
	p := &record.Plan{
		RootPlanID: id, CurrentPlanID: id, Name: new("answer-ticket"), Title: new(fmt.Sprintf("Ticket %d", 4100+g.runs)),
		UserID: new(oneOf(g, "ada", "grace", "linus")), Project: new("support"), Environment: new("production"),
		ConversationID: new(fmt.Sprintf("ticket-%d", 4100+g.runs)), StartTime: &start, State: new(record.Completed),
		Release: new("2026.46"),
	}
	if start.After(reportNow.AddDate(0, 0, -3)) {
		p.Release = new("2026.47")
	}

	agents := []reportAgent{reportTriage, reportResearcher, reportWriter}
	switch {
	case g.chance(15):
		p.Name, p.Title = new("weekly-figures"), new("Figures of the week")
		p.Project, p.ConversationID = new("finance"), nil
		agents = []reportAgent{reportCounter, reportWriter}
	case g.chance(20):
		p.Name, p.Title = new("review-docs"), new("Find pages that are out of date")
		p.ConversationID = nil
		agents = []reportAgent{reportResearcher, reportWriter}
	}

	end, state := g.steps(id, id, start, agents, 0)
	if *p.Name != "weekly-figures" && state == record.Completed && g.chance(12) { // a human reviews the answer
		asked := end
		w := &record.Wait{
			RootPlanID: id, PlanID: id, WaitID: "approval", StepID: new(id + "-s2"), ToolCallID: new(id + "-s2-c0-t0"),
			Type:  new(oneOf(g, record.WaitActionValidation, record.WaitUserInput)),
			Title: new("Send this answer?"), StartTime: &asked,
		}

		end = end.Add(g.seconds(30, 7200))
		switch {
		case end.After(reportNow), start.After(reportNow.AddDate(0, 0, -2)) && g.chance(40):
			p.State = new(record.Waiting)
		case g.chance(10):
			w.State, w.EndTime = new(record.TimedOut), new(end)
		default:
			w.State, w.EndTime = new(record.Approved), new(end)
			w.DecidedBy = new("grace")
		}
		g.add(w)
	}

	switch {
	case state == record.Failed:
		p.State = new(record.Failed)
		p.ErrorKind, p.ErrorMessage = new("step_failed"), new("a step failed")
	case g.runs == 406: // all its steps succeeded
		p.State = new(record.Failed)
		p.ErrorKind, p.ErrorMessage = new("budget_spent"), new("the budget of $0.15 is spent")
	case *p.State == record.Waiting:
	case end.After(reportNow.Add(-time.Hour)) && g.chance(50), g.runs == 380: // it works, or its process has died
		p.State = new(record.Running)
	}

	if *p.State != record.Waiting && *p.State != record.Running {
		p.EndTime = &end
	}
	g.add(p)
}

// steps adds the steps of a plan and returns its end and its state.
func (g *reportSeed) steps(
	root, plan string, start time.Time, agents []reportAgent, depth int,
) (end time.Time, state record.State) {
	end, state = start, record.Completed
	for i, agent := range agents {
		began := end.Add(g.seconds(0.01, 0.2))
		step := &record.AgentExecution{
			RootPlanID: root, PlanID: plan, StepID: fmt.Sprintf("%s-s%d", plan, i), StepIndex: new(int64(i)),
			AgentName:    new(agent.name),
			AgentVersion: new("1.4"), ModelName: new(agent.model), StartTime: &began, State: new(record.Completed),
		}

		if began.After(reportNow.AddDate(0, 0, -5)) {
			step.AgentVersion = new("1.5")
		}
		if g.chance(4) {
			step.Attempt = new(int64(2))
			g.add(g.failedAttempt(step, i))
		}

		end = began
		for seq := range int64(1 + g.r.IntN(3)) {
			var failed bool
			if end, failed = g.cycle(root, plan, step, agent, seq, end, depth); failed && g.chance(40) {
				step.State = new(record.Failed)
				step.ErrorKind, step.ErrorMessage = new("tool_failed"), new("gave up after a tool failed")
				break
			}
		}

		step.EndTime = new(end)
		g.add(step)
		g.leave(root, plan, step)
		if *step.State == record.Failed {
			return end, record.Failed
		}
	}
	return end, state
}

// failedAttempt returns why a step is attempted again.
func (g *reportSeed) failedAttempt(step *record.AgentExecution, i int) record.Change {
	first := &record.AgentExecution{
		RootPlanID: step.RootPlanID, PlanID: step.PlanID, StepID: step.StepID, State: new(record.Failed),
		ErrorKind: new("overloaded"), ErrorMessage: new("the model is overloaded\ntry later"),
		StartTime: new(step.StartTime.Add(-30 * time.Second)), EndTime: new(step.StartTime.Add(-time.Second)),
	}

	if i == 1 {
		first.ErrorKind, first.ErrorMessage = new("context_length"), new("the input is longer than the model accepts")
	}
	return first
}

// leave adds what a step leaves behind: what it decided, and what it produced or relied on.
func (g *reportSeed) leave(root, plan string, step *record.AgentExecution) {
	n := len(g.changes) // differs from step to step
	g.add(&record.Thought{
		RootPlanID: root, PlanID: plan, ThoughtID: step.StepID + "-thought", StepID: &step.StepID,
		Type:    new(record.ThoughtDecision),
		Content: new("I shall go on."), Confidence: new(float64(35+n%60) / 100), Time: step.EndTime,
	})

	switch *step.AgentName {
	case "writer":
		g.add(&record.Artifact{
			RootPlanID: root, PlanID: plan, Name: "answer", StepID: &step.StepID, Type: new([]string{"text", "table"}[n%2]),
			Value: json.RawMessage(`"Dear customer"`),
		})
	case "researcher":
		g.add(&record.Source{
			RootPlanID: root, PlanID: plan, SourceID: step.StepID + "-source", StepID: &step.StepID, Type: new(record.SourceURL),
			URI: new(fmt.Sprintf("https://docs.example.com/%d", n*n%7)), RelevanceScore: new(float64(50+n%50) / 100),
			Snippet: new("What it says"),
		})
	}
}

// cycle adds one cycle of a step and its calls. It returns the end of the cycle, and whether a call
// failed.
func (g *reportSeed) cycle(
	root, plan string, step *record.AgentExecution, agent reportAgent, seq int64, start time.Time, depth int,
) (end time.Time, failed bool) {
	start = start.Add(g.seconds(0.01, 0.1))
	first := start.Add(g.seconds(0.3, 2))
	thought := first.Add(g.seconds(0.5, 12))
	input := int64(800 + g.r.IntN(6000))

	c := &record.ThinkAct{
		RootPlanID: root, StepID: step.StepID, Seq: seq, Attempt: step.Attempt, ModelName: new(agent.model),
		ThinkStartTime: &start, FirstTokenTime: &first, ThinkEndTime: &thought, State: new(record.Completed),
		InputTokens: &input, CacheReadInputTokens: new(input * int64(g.r.IntN(80)) / 100),
		OutputTokens: new(int64(40 + g.r.IntN(700))),
		ThinkInput:   new("What now?"), ThinkOutput: new("Let me see."), FinishReason: new("tool_calls"),
	}
	if agent.provider != "" {
		c.Provider = new(agent.provider)
	}

	end = thought
	for n := range int64(1 + g.r.IntN(2)) {
		name := oneOf(g, agent.tools...)
		began := thought.Add(g.seconds(0.01, 0.05))
		took := g.seconds(0.05, 1.5)
		switch name {
		case "run_sql":
			took = g.seconds(0.2, 20)
		case "fetch_page":
			took = g.seconds(0.3, 6)
			if began.After(reportNow.AddDate(0, 0, -7)) {
				took *= 2
			}
		}

		call := &record.ActTool{
			RootPlanID: root, StepID: step.StepID, Seq: seq, ToolCallID: fmt.Sprintf("%s-c%d-t%d", step.StepID, seq, n),
			CallIndex: &n,
			Attempt:   step.Attempt, Name: &name, StartTime: &began, State: new(record.Completed), Parameters: new(`{}`),
			Result: new("ok"),
		}

		if name == "search_docs" && depth < 2 && g.chance(20) { // a sub-plan does the work
			sub := fmt.Sprintf("%s-p%d%d", call.StepID, seq, n)
			subEnd, state := g.steps(root, sub, began, []reportAgent{reportResearcher}, depth+1)
			g.add(&record.Plan{
				RootPlanID: root, CurrentPlanID: sub, ParentPlanID: &plan, ToolCallID: &call.ToolCallID, Name: new("search"),
				StartTime: &began, EndTime: &subEnd, State: &state,
			})
			took = subEnd.Sub(began)
		}

		chance := 1.5
		if agent.name == "researcher" && *step.AgentVersion == "1.5" {
			chance = 4
		}
		if g.chance(chance) {
			failed = true
			call.State, call.Result = new(record.Failed), nil
			call.ErrorKind, call.ErrorMessage = new("timeout"), new(name+" did not answer within 10 s\nstack: ...")
			if name == "fetch_page" {
				call.ErrorKind, call.ErrorMessage = new("http_429"), new("429 Too Many Requests")
				if began.After(reportNow.AddDate(0, 0, -3)) {
					call.ErrorKind, call.ErrorMessage = new("tls_expired"), new("certificate has expired")
				}
			}
		}

		called := began.Add(took)
		call.EndTime = &called
		if called.After(end) {
			end = called
		}
		g.add(call)
	}

	c.ActStartTime, c.ActEndTime = &thought, new(end)
	g.add(c)
	return end, failed
}

// TestReportsReadNoLargeText checks that views read no large texts, except titles and errors, which
// they cut. Postgres stores large texts outside the row, so a report that reads one per row is
// slow.
func TestReportsReadNoLargeText(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)

	large := map[string]bool{}
	for _, kind := range record.Kinds {
		table, fields := fieldsql.TableOf(kind), field.Fields(kind)
		for _, f := range fields {
			if f.Type == field.JSON || takesText(t, table.Kind, f) {
				large[table.Name+"."+f.Column] = true
			}
		}
	}
	if !large["think_act_record.think_input"] || !large["act_tool_info.result"] || large["act_tool_info.name"] ||
		large["act_tool_info.state"] {
		t.Fatalf("large texts: %v", large)
	}

	read := storetest.Lines(t, db.Pool, `SELECT DISTINCT concat_ws(' ', v.relname, t.relname || '.' || a.attname)
		FROM pg_depend AS d
		JOIN pg_rewrite AS r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
		JOIN pg_class AS v ON v.oid = r.ev_class AND v.relnamespace = 'report'::regnamespace
		JOIN pg_class AS t ON d.refclassid = 'pg_class'::regclass AND t.oid = d.refobjid
		JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid`)
	if len(read) < 100 {
		t.Fatalf("views read only %d columns", len(read))
	}

	read = slices.DeleteFunc(read, func(column string) bool {
		_, name, _ := strings.Cut(column, " ")
		return !large[name]
	})
	slices.Sort(read)

	cut := []string{
		"artifact artifact.value", // only its size
		"attempt act_tool_info.error_message", "attempt plan_execution_record.error_message", "attempt think_act_record.error_message",
		"failure act_tool_info.error_message", "failure plan_execution_record.error_message",
		"failure think_act_record.error_message",
		"node agent_execution_record.metadata", // an id and two numbers
		"plan plan_execution_record.title", "running plan_execution_record.title",
		"source source_reference.snippet", // only its size
		"source source_reference.uri",
		"think_act think_act_record.fallback_from",
		"thought thought.content", // only its size
		"wait wait_state.title",
	}
	if diff := cmp.Diff(cut, read); diff != "" {
		t.Errorf("large texts that views read (-want +got):\n%s", diff)
	}
}

// takesText reports whether a field accepts a text that is longer than a name or an address.
func takesText(t *testing.T, kind record.Kind, wanted *field.Field) bool {
	t.Helper()
	c := record.New(kind)
	long := strings.Repeat("x", record.MaxAddressBytes+1)
	for _, f := range append([]*field.Field{wanted}, field.Fields(kind)...) {
		v := f.In(c)
		switch {
		case f.Type != field.Text || f.Name != wanted.Name && !f.Key:
		case v.Kind() == reflect.String:
			v.SetString("key")
		default:
			v.Set(reflect.New(v.Type().Elem()))
			v.Elem().SetString(long)
		}
	}

	row, err := field.NewRow(c)
	if err != nil || wanted.Type != field.Text || wanted.Key {
		return false
	}
	text, _ := wanted.Text(row.Change)
	return text == long
}
