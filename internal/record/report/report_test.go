package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// bounds are those of the tests.
var bounds = Bounds{Rows: 10, Bytes: 4_000, Cell: 200, Time: 10 * time.Second}

// roleOf returns the name of a role of the test, which is dropped with it.
func roleOf(t *testing.T, db *pgtest.DB) string {
	t.Helper()
	role := "actlog_test_" + strings.ToLower(record.NewPlanID()[len(record.NewPlanID())-12:])
	t.Cleanup(func() {
		if _, err := db.Pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	return role
}

// made opens the reports of a Postgres that is the server's own.
func made(t *testing.T, db *pgtest.DB) *Reports {
	t.Helper()
	at, err := makeLogin(t.Context(), db.URL, roleOf(t, db), "secret", limits)
	if err != nil {
		t.Fatal(err)
	}
	return opened(t, at)
}

// configured opens the reports of a role with options, which is made as the documentation says.
func configured(t *testing.T, db *pgtest.DB, options string) (*Reports, error) {
	t.Helper()
	role := roleOf(t, db)
	if _, err := db.Pool.Exec(t.Context(),
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'secret' %s", role, options)); err != nil {
		t.Fatal(err)
	}

	at, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword(role, "secret")
	return Open(t.Context(), at.String(), storetest.Logger(t))
}

func opened(t *testing.T, at string) *Reports {
	t.Helper()
	r, err := Open(t.Context(), at, storetest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ask returns the rows of a statement as JSON.
func ask(t *testing.T, r *Reports, sql string) string {
	t.Helper()
	result, err := r.Query(t.Context(), sql, bounds)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}

	var rows strings.Builder
	e := json.NewEncoder(&rows)
	e.SetEscapeHTML(false)
	if err := e.Encode(result.Rows); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(rows.String())
}

func TestQuery(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	s := storetest.OpenURL(t, db.URL)
	storetest.Write(t, s, &record.Plan{
		RootPlanID: "p", CurrentPlanID: "p", Title: new("It's <b>"), State: new(record.Failed),
	})
	r := made(t, db)

	if got, want := ask(t, r, "SELECT plan_id, '<b>&' AS html, state, total_cost_usd, is_root, 1.50 AS n, "+
		"'NaN'::float8 AS f, ARRAY[1] AS a FROM plan"), `[["p","<b>&","FAILED",null,true,1.50,"NaN","{1}"]]`; got != want {
		t.Errorf("ask = %s, want %s", got, want)
	}

	result, err := r.Query(t.Context(), "SELECT n::bigint AS n, repeat('ä', 500) AS long FROM generate_series(1, 2) AS n",
		bounds)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(result.Columns, []Column{{"n", "int8"}, {"long", "text"}}) || !result.Complete || result.Cut != 2 ||
		len(result.Rows) != 2 {
		t.Errorf("r.Query = %+v", result)
	}

	for _, c := range []struct {
		sql      string
		rows     int
		complete bool
	}{
		{"SELECT generate_series(1, 10)", 10, true},
		{"SELECT generate_series(1, 11)", 10, false},
		{"SELECT generate_series(1, 10000000)", 10, false},
		{"SELECT repeat('x', 150) FROM generate_series(1, 40)", 10, false},
		{
			"SELECT repeat('x', 190), repeat('x', 190), repeat('x', 190), repeat('x', 190), repeat('x', 190) FROM " +
				"generate_series(1, 10)", 4, false,
		},
		{"SELECT 1 WHERE false", 0, true},
		{"EXPLAIN SELECT 1", 1, true},
	} {
		result, err := r.Query(t.Context(), c.sql, bounds)
		if err != nil || len(result.Rows) != c.rows || result.Complete != c.complete {
			t.Errorf("%s: %+v, %v", c.sql, result, err)
		}
	}
}

func TestViews(t *testing.T) {
	t.Parallel()
	r := made(t, pgtest.Fresh(t))
	views, err := r.Views(t.Context())
	if err != nil || len(views) < 20 {
		t.Fatalf("%d views, %v", len(views), err)
	}

	for _, v := range views {
		columns, err := r.Columns(t.Context(), v.Name)
		if err != nil || len(columns) != len(v.Columns) || v.Comment == "" {
			t.Errorf("%s: %d columns of %d, %q, %v", v.Name, len(columns), len(v.Columns), v.Comment, err)
		}
		for _, c := range columns {
			if c.Comment == "" || c.Type == "" {
				t.Errorf("v.Name = %s.%s: %+v", v.Name, c.Name, c)
			}
		}
	}

	if columns, err := r.Columns(t.Context(), "x'; --"); err != nil || len(columns) > 0 {
		t.Errorf("columns = %v, %v", columns, err)
	}
}

// escape is a statement that tries to do what it must not. Its error has a text.
type escape struct{ sql, want string }

// escapes fail for every role that is let in.
var escapes = []escape{
	{"SELECT * FROM actlog.plan_execution_record", "permission denied for schema actlog"},
	{
		"SELECT set_config('role', 'postgres', false), query_to_xml('SELECT * FROM actlog.plan_execution_record', true, " +
			"false, '')", "permission denied",
	},
	{
		"SELECT query_to_xml('SELECT * FROM actlog.plan_execution_record', true, false, '')",
		"permission denied for schema actlog",
	},
	{"SELECT query_to_xml('SET ROLE postgres', true, false, '')", ""},
	{"SELECT query_to_xml('RESET ROLE; SELECT * FROM actlog.plan_execution_record', true, false, '')", ""},
	{"SELECT query_to_xml('CREATE TEMP TABLE x (a integer)', true, false, '')", ""},
	{"SELECT * FROM pg_authid", "permission denied"},
	{"SELECT * FROM pg_shadow", "permission denied"},
	{"SELECT pg_read_file('/etc/passwd')", "permission denied"},
	{"SELECT * FROM pg_ls_dir('/')", "permission denied"},
	{"SELECT lo_import('/etc/passwd')", "permission denied"},
	{"SELECT lo_export(1, '/tmp/x')", "permission denied"},
	{"SELECT pg_reload_conf()", "permission denied"},
	{"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename <> session_user", "must be a"},
	{"SELECT dblink('host=localhost', 'SELECT 1')", "does not exist"},
	{"SELECT 1; SELECT 2", "cannot insert multiple commands"},
	{"SELECT 1; COMMIT; SELECT 1", "cannot insert multiple commands"},
	{"", "returns no rows"},
	{"-- nothing", "returns no rows"},
	{"COMMIT", "returns no rows"},
	{"ROLLBACK", "returns no rows"},
	{"SET ROLE postgres", "returns no rows"},
	{"SET SESSION AUTHORIZATION postgres", "returns no rows"},
	{"SET transaction_read_only = off", "returns no rows"},
	{"SET statement_timeout = 0", "returns no rows"},
	{"RESET ALL", "returns no rows"},
	{"LISTEN actlog_delta", "returns no rows"},
	{"NOTIFY actlog_delta", "returns no rows"},
	{"DO $$ BEGIN PERFORM 1; END $$", "returns no rows"},
	{"CREATE TABLE x (a integer)", "returns no rows"},
	{"CREATE TEMP TABLE x (a integer)", "returns no rows"},
	{"SELECT 1 AS a INTO x", "returns no rows"},
	{"COPY (SELECT 1) TO PROGRAM 'true'", "returns no rows"},
	{"COPY (SELECT 1) TO STDOUT", "returns no rows"},
	{"DROP VIEW report.plan", "returns no rows"},
	{"GRANT actlog_report TO PUBLIC", "returns no rows"},
	{"LOCK TABLE report.plan", "returns no rows"},
	{"INSERT INTO report.model_price (provider) VALUES ('x')", ""},
	{"INSERT INTO report.model_price (provider) VALUES ('x') RETURNING provider", ""},
	{"UPDATE report.plan SET title = 'x' RETURNING 1", ""},
	{"DELETE FROM report.plan RETURNING 1", ""},
	{"WITH x AS (DELETE FROM report.plan RETURNING 1) SELECT * FROM x", ""},
	{"EXPLAIN ANALYZE DELETE FROM report.plan", ""},
	{"SELECT * FROM report.plan FOR UPDATE", ""},
	{"SELECT $1::text", "parameters"},
	{"SELECT nextval('actlog.change_id_seq')", "permission denied"},
	{"SELECT repeat('x', 2000000)", "more than 1 MiB"},
	{"SELEC 1", `syntax error at or near "SELEC" (at character 1)`},
	{"SELECT pla FROM plan", "does not exist"},
}

// onPrivate fail on a Postgres that is the server's own.
var onPrivate = []escape{
	{"SELECT pg_advisory_lock(1)", "permission denied for function pg_advisory_lock"},
	{"SELECT pg_try_advisory_xact_lock(1, 2)", "permission denied for function pg_try_advisory_xact_lock"},
	{"SELECT pg_logical_emit_message(false, 'a', repeat('x', 1000000))", "permission denied"},
	{"SELECT set_config('work_mem', '10GB', false)", "permission denied for function set_config"},
}

func TestNothingEscapes(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	db := pgtest.Fresh(t)
	s := storetest.OpenURL(t, db.URL)
	storetest.Write(t, s, &record.Plan{RootPlanID: "p", CurrentPlanID: "p", Title: new("secret")})
	documented, err := configured(t, db, "IN ROLE actlog_report") // before functions are taken away
	if err != nil {
		t.Fatal(err)
	}

	check := func(who string, r *Reports, all []escape) {
		for _, e := range all {
			result, err := r.Query(t.Context(), e.sql, bounds)
			if err == nil || !strings.Contains(err.Error(), e.want) {
				t.Errorf("%s: %s: %+v, %v; want %q", who, e.sql, result, err, e.want)
			}
			if statement := new(StatementError); err != nil && !errors.As(err, &statement) && !errors.Is(err, ErrOversized) {
				t.Errorf("%s: %s: %T %v", who, e.sql, err, err)
			}
		}
	}
	check("configured", documented, escapes)

	// Locks, settings and the role do not outlive the statement, and settings of the statement do not change it.
	ask(t, documented, "SELECT pg_advisory_lock(7), pg_advisory_lock_shared(8), pg_notify('actlog_delta', 'x')")
	storetest.Until(t, "no advisory lock is left", func() bool {
		return storetest.Query[int](t, s,
			"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid IN (7, 8) AND database = (SELECT oid FROM "+
				"pg_database WHERE datname = current_database())") == 0
	})
	if _, err := documented.Query(t.Context(), "SELECT set_config('transaction_read_only', 'off', false)",
		bounds); err == nil {
		t.Error("a statement made its transaction write")
	}

	short := bounds
	short.Time = 50 * time.Millisecond
	for _, sql := range []string{
		"SELECT pg_sleep(3600)",
		"SELECT set_config('statement_timeout', '0', false), pg_sleep(3600)",
		"SELECT count(*) FROM generate_series(1, 100000000000)",
		"SELECT query_to_xml('SELECT pg_sleep(3600)', true, false, '')",
	} {
		statement := new(StatementError)
		if result, err := documented.Query(t.Context(), sql, short); !errors.As(err, &statement) || !statement.TimedOut() {
			t.Errorf("%s: %+v, %v", sql, result, err)
		}
	}
	if got := ask(t, documented, "SELECT session_user = current_user, current_setting('transaction_read_only'), "+
		"current_setting('search_path')"); got != `[[true,"on","report"]]` {
		t.Errorf("ask = %v", got)
	}

	short.Time = time.Second
	if result, err := documented.Query(t.Context(), "SELECT repeat('x', 1000000000)", short); err == nil {
		t.Errorf("a value of 1 GB: %+v", result)
	}

	own := made(t, db)
	check("private", own, escapes)
	check("private", own, onPrivate)
	again := made(t, db)
	if got := ask(t, again, "SELECT count(*) FROM plan"); got != "[[1]]" {
		t.Errorf("ask = %v", got)
	}
}

func TestUnsafeRolesAreRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	for options, want := range map[string]string{
		"SUPERUSER":                               "is a superuser",
		"CREATEROLE IN ROLE actlog_report":        "may create roles",
		"CREATEDB IN ROLE actlog_report":          "may create databases",
		"REPLICATION IN ROLE actlog_report":       "may replicate",
		"BYPASSRLS IN ROLE actlog_report":         "bypasses row-level security",
		"":                                        "is no member of actlog_report, and cannot use schema report",
		"IN ROLE actlog_report, pg_read_all_data": "is a member of pg_read_all_data, and may use schema actlog",
		"NOINHERIT IN ROLE actlog_report, pg_execute_server_program, pg_read_server_files": "is a member of pg_execute_server_program, pg_read_server_files",
	} {
		_, err := configured(t, db, options)
		if unsafe := new(UnsafeError); !errors.As(err, &unsafe) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}

	// A role that gets more rights later is refused then.
	r, err := configured(t, db, "IN ROLE actlog_report")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), "GRANT USAGE ON SCHEMA actlog TO "+r.config.User); err != nil {
		t.Fatal(err)
	}

	if _, err := r.Query(t.Context(), "SELECT 1", bounds); err == nil ||
		!strings.Contains(err.Error(), "may use schema actlog") {
		t.Error(err)
	}
}

func TestCancelledQueriesEnd(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	r := made(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	var asked sync.WaitGroup
	asked.Go(func() {
		long := bounds
		long.Time = time.Hour
		if _, err := r.Query(ctx, "SELECT pg_sleep(3600)", long); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})

	sleeping := func() (n int) {
		if err := db.Pool.QueryRow(t.Context(),
			"SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND wait_event = 'PgSleep'",
			r.config.User).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}

	storetest.Until(t, "the statement runs", func() bool { return sleeping() == 1 })
	cancel()
	asked.Wait()
	storetest.Until(t, "the statement has ended", func() bool { return sleeping() == 0 })
}

func TestDatabaseIsAway(t *testing.T) {
	t.Parallel()
	outage := storetest.NewOutage(t)
	at, err := makeLogin(t.Context(), outage.DB.URL, roleOf(t, outage.DB), "secret", limits)
	if err != nil {
		t.Fatal(err)
	}

	outage.Begin(t)
	r := opened(t, at)
	if _, err := r.Query(t.Context(), "SELECT 1", bounds); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("%v, want that the database is away", err)
	}

	outage.End(t)
	if got := ask(t, r, "SELECT 1"); got != "[[1]]" {
		t.Errorf("ask = %v", got)
	}
}
