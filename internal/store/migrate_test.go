package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

func newMigrator(t testing.TB, url string) *store.Migrator {
	t.Helper()
	m, err := store.NewMigrator(t.Context(), url, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func migrate(t testing.TB, url string) {
	t.Helper()
	if err := newMigrator(t, url).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// lines gives the rows of a query that selects one text.
func lines(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// sqlCatalog tells all that a migration can make, one line an object.
const sqlCatalog = `
SELECT concat_ws(' | ', 'relation', c.relname, c.relkind, c.relispartition, pg_get_expr(c.relpartbound, c.oid), pg_get_partkeydef(c.oid), CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END, c.relacl, obj_description(c.oid, 'pg_class'))
	FROM pg_class AS c WHERE c.relnamespace::regnamespace::text IN ('actlog', 'report')
UNION ALL
SELECT concat_ws(' | ', 'column', c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
		pg_get_expr(d.adbin, d.adrelid), a.attcollation::regcollation, a.attstorage, a.attcompression, col_description(c.oid, a.attnum))
	FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
	WHERE c.relnamespace::regnamespace::text IN ('actlog', 'report') AND a.attnum > 0
UNION ALL
SELECT concat_ws(' | ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace::regnamespace::text IN ('actlog', 'report')
UNION ALL
SELECT concat_ws(' | ', 'index', indexdef) FROM pg_indexes WHERE schemaname = 'actlog'
UNION ALL
SELECT concat_ws(' | ', 'function', pg_get_functiondef(oid), obj_description(oid, 'pg_proc')) FROM pg_proc WHERE pronamespace::regnamespace::text IN ('actlog', 'report')
UNION ALL
SELECT concat_ws(' | ', 'trigger', tgrelid::regclass, pg_get_triggerdef(oid)) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL
SELECT concat_ws(' | ', 'type', typname) FROM pg_type WHERE typnamespace::regnamespace::text IN ('actlog', 'report') AND typtype <> 'b' AND typrelid = 0
UNION ALL
SELECT concat_ws(' | ', 'schema', nspname) FROM pg_namespace WHERE nspname <> 'information_schema' AND nspname NOT LIKE 'pg\_%'
ORDER BY 1`

func TestUpDownUp(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	m := newMigrator(t, db.URL)
	up := func() []string {
		if err := m.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		return lines(t, db.Pool, sqlCatalog)
	}
	first := up()
	if len(first) < 200 {
		t.Errorf("the catalog has but %d lines", len(first))
	}
	openURL(t, db.URL) // makes partitions, which go down, too
	if _, err := db.Pool.Exec(t.Context(), "ALTER TABLE actlog.think_act_record DETACH PARTITION actlog.think_act_record_default; ALTER TABLE actlog.think_act_record_default RENAME TO dropping_think_act_record_x"); err != nil {
		t.Fatal(err) // as retention has it for a while
	}
	all, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, migration := range all {
		if !migration.Applied {
			t.Errorf("%+v is not applied", migration)
		}
		if err := m.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var left []string
	for _, line := range lines(t, db.Pool, sqlCatalog) {
		if !strings.Contains(line, "goose_db_version") {
			left = append(left, line)
		}
	}
	if diff := gocmp.Diff([]string{"schema | actlog", "schema | public", "schema | report"}, left); diff != "" {
		t.Errorf("after down (-want +got):\n%s", diff)
	}
	if err := m.Down(t.Context()); err == nil {
		t.Error("there was more to take back")
	}
	if diff := gocmp.Diff(first, up()); diff != "" {
		t.Errorf("the second up (-first +second):\n%s", diff)
	}
}

// TestSchemaRules asks the catalog for whatever breaks a rule of the schema.
func TestSchemaRules(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	openURL(t, db.URL) // makes partitions
	const tables = `(SELECT * FROM pg_class WHERE relnamespace = 'actlog'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'goose_db_version') AS c`
	for _, tt := range []struct{ rule, sql string }{
		{"every table has a comment",
			`SELECT relname FROM ` + tables + ` WHERE (NOT relispartition OR relname LIKE '%\_default') AND obj_description(c.oid, 'pg_class') IS NULL`},
		{"every column has a comment",
			`SELECT relname || '.' || attname FROM ` + tables + ` JOIN pg_attribute AS a ON a.attrelid = c.oid
			WHERE NOT relispartition AND attnum > 0 AND NOT attisdropped AND col_description(c.oid, attnum) IS NULL`},
		{"every function has a comment",
			`SELECT proname FROM pg_proc WHERE pronamespace = 'actlog'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL`},
		{"every view has a comment, and so have their columns",
			`SELECT concat_ws('.', v.relname, a.attname) FROM pg_class AS v JOIN pg_attribute AS a ON a.attrelid = v.oid
			WHERE v.relnamespace = 'report'::regnamespace AND v.relkind = 'v' AND attnum > 0 AND col_description(v.oid, attnum) IS NULL
			UNION ALL SELECT relname FROM pg_class WHERE relnamespace = 'report'::regnamespace AND obj_description(oid, 'pg_class') IS NULL`},
		{"the text that a view reads is a title, or an error",
			`SELECT DISTINCT v.relname || ' reads ' || d.refobjid::regclass || '.' || a.attname
			FROM pg_class AS v
			JOIN pg_rewrite AS w ON w.ev_class = v.oid
			JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refobjsubid > 0
			JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
			WHERE v.relnamespace = 'report'::regnamespace AND (a.atttypid = 'json'::regtype OR a.attname IN ('user_request', 'summary', 'exception', 'agent_description',
				'agent_request', 'result', 'think_input', 'think_output', 'action_description', 'action_result', 'parameters', 'latest_tool_args', 'form_description', 'decision', 'revs'))`},
		{"a view has a column of time to filter on, and no JSON",
			`SELECT v.relname FROM pg_class AS v WHERE v.relnamespace = 'report'::regnamespace AND v.relkind = 'v' AND (
				NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = v.oid AND a.atttypid = 'timestamptz'::regtype)
				OR EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = v.oid AND a.atttypid IN ('json'::regtype, 'jsonb'::regtype)))`},
		{"primary keys start with the root plan (the feed, what outlives detail, prices, and what becomes of traces belong to no tree)",
			`SELECT relname FROM ` + tables + ` JOIN pg_constraint AS k ON k.conrelid = c.oid AND k.contype = 'p'
			JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.conkey[1]
			WHERE attname <> 'root_plan_id' AND relname NOT IN ('change', 'dropped_detail', 'tool_daily', 'model_price') AND relname NOT LIKE 'otlp\_%'`},
		{"every table has a primary key",
			`SELECT relname FROM ` + tables + ` WHERE NOT EXISTS (SELECT FROM pg_constraint AS k WHERE k.conrelid = c.oid AND k.contype = 'p')`},
		{"foreign keys start with the root plan on both sides",
			`SELECT k.conname FROM pg_constraint AS k
			JOIN pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
			JOIN pg_attribute AS b ON b.attrelid = k.confrelid AND b.attnum = k.confkey[1]
			WHERE k.contype = 'f' AND (a.attname <> 'root_plan_id' OR b.attname <> 'root_plan_id')`},
		{"ids, keys and indexed texts have the order of C",
			`SELECT relname || '.' || attname FROM ` + tables + ` JOIN pg_attribute AS a ON a.attrelid = c.oid
			WHERE attnum > 0 AND atttypid = 'text'::regtype AND attcollation <> '"C"'::regcollation
			AND (attname LIKE '%\_id' OR EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND a.attnum = ANY (i.indkey)))`},
		{"texts and JSON are compressed with lz4, on partitions as well",
			`SELECT relname || '.' || attname FROM ` + tables + ` JOIN pg_attribute AS a ON a.attrelid = c.oid
			WHERE attnum > 0 AND atttypid IN ('text'::regtype, 'json'::regtype) AND attcompression <> 'l'
			AND EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals))`},
		{"revisions are stored plainly, on partitions as well",
			`SELECT relname || '.' || attname FROM ` + tables + ` JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE attname = 'revs' AND attstorage <> 'p'`},
		{"what can be told anew is nullable and has no default",
			`SELECT relname || '.' || attname FROM ` + tables + ` JOIN pg_attribute AS a ON a.attrelid = c.oid
			LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
			WHERE relname NOT IN ('change', 'dropped_detail', 'tool_daily', 'model_price') AND relname NOT LIKE 'otlp\_%' AND attnum > 0 AND attgenerated = '' AND attidentity = '' AND (attnotnull OR d.adbin IS NOT NULL)
			AND attname NOT IN ('id', 'part', 'first_seen_at', 'origin')
			AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey))`},
	} {
		for _, breach := range lines(t, db.Pool, tt.sql) {
			t.Errorf("%s: not so %s", tt.rule, breach)
		}
	}
	if n := len(lines(t, db.Pool, `SELECT relname FROM `+tables+` WHERE relispartition`)); n != 3+3*(1+store.PartitionsAhead) {
		t.Errorf("the rules were put to %d partitions", n)
	}
}

func TestEveryFieldHasItsColumn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tables := map[record.Kind]string{
		record.KindPlan: "plan_execution_record", record.KindAgentExecution: "agent_execution_record",
		record.KindThinkAct: "think_act_record", record.KindActTool: "act_tool_info", record.KindThought: "thought",
		record.KindArtifact: "artifact", record.KindSource: "source_reference", record.KindWait: "wait_state",
	}
	types := map[record.Type][]string{
		record.Text: {"text"}, record.Int: {"integer", "bigint"}, record.Float: {"numeric", "double precision"}, record.Bool: {"boolean"},
		record.Time: {"timestamp with time zone"}, record.Texts: {"text[]"}, record.JSON: {"json"},
	}
	for _, kind := range record.Kinds {
		got := map[string]string{}
		for _, line := range lines(t, db.Pool, `SELECT attname || '=' || format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = ('actlog.' || $1)::regclass AND attnum > 0`, tables[kind]) {
			name, typ, _ := strings.Cut(line, "=")
			got[name] = typ
		}
		for _, f := range record.Fields(kind) {
			if f.Name != "rev" && !slices.Contains(types[f.Type], got[f.Column]) {
				t.Errorf("%s.%s: column %s of type %q, want %v", kind, f.Name, f.Column, got[f.Column], types[f.Type])
			}
		}
	}
}

func TestTwoMigratorsAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			m, err := store.NewMigrator(t.Context(), db.URL, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(m.Up(t.Context()), m.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	openURL(t, db.URL)
}

// TestADatabaseThatIsAhead: while servers are upgraded one by one, the old ones
// serve a database that a new one has migrated, and may be started anew.
func TestADatabaseThatIsAhead(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	old := openURL(t, db.URL)
	if _, err := db.Pool.Exec(t.Context(), "INSERT INTO actlog.goose_db_version (version_id, is_applied) VALUES (99999, true)"); err != nil {
		t.Fatal(err)
	}
	if err := old.Ready(t.Context()); err != nil {
		t.Errorf("an old server: %v", err)
	}
	var warned warnings
	m, err := store.NewMigrator(t.Context(), db.URL, slog.New(slog.NewTextHandler(&warned, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Up(t.Context()); err != nil || !strings.Contains(warned.String(), "ahead") || !strings.Contains(warned.String(), "99999") {
		t.Errorf("migrating up: %v; it was said:\n%s", err, &warned)
	}
	if err := m.Down(t.Context()); err == nil || !strings.Contains(err.Error(), "newer version of actlog") {
		t.Errorf("migrating down: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	again := openURL(t, db.URL)
	write(t, again, &record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t"})
	stepDetail(t, again, "s")
}

// role makes a role for a test, and the URL by which it connects to db.
func role(t testing.TB, db *pgtest.DB) (name, roleURL string) {
	t.Helper()
	name = "actlog_" + strings.ReplaceAll(record.NewPlanID(), "-", "_")
	if _, err := db.Pool.Exec(t.Context(), fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'secret'", name)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a role goes only after what it owns
		if _, err := db.Pool.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %[1]s CASCADE; DROP ROLE %[1]s", name)); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "secret")
	return name, u.String()
}

func TestLeastPrivileges(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	name, roleURL := role(t, db)
	for _, sql := range []string{
		`DO $$ BEGIN EXECUTE format('REVOKE CREATE ON DATABASE %I FROM PUBLIC', current_database()); END $$`,
		`REVOKE CREATE ON SCHEMA public FROM PUBLIC`,
		`CREATE SCHEMA actlog AUTHORIZATION ` + name,
	} {
		if _, err := db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	prepare := "CREATE SCHEMA report AUTHORIZATION " + name
	if err := newMigrator(t, roleURL).Up(t.Context()); err == nil || !strings.Contains(err.Error(), prepare) {
		t.Errorf("without schema report: %v", err)
	}
	if _, err := db.Pool.Exec(t.Context(), prepare); err != nil {
		t.Fatal(err)
	}
	migrate(t, roleURL)
	s := openURL(t, roleURL)
	write(t, s, &record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t"})
	stepDetail(t, s, "s")
	if n := query[int](t, s, "SELECT count(*) FROM actlog.act_tool_info_default"); n != 0 {
		t.Error("the owner of the schema made no partitions")
	}
}

func TestADatabaseThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	name := strings.ReplaceAll(record.NewPlanID(), "-", "_")
	if _, err := db.Pool.Exec(t.Context(), fmt.Sprintf("CREATE DATABASE %s ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0", name)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := db.Pool.Exec(t.Context(), fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", name)); err != nil {
			t.Error(err)
		}
	}()
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	_, err = store.Open(t.Context(), store.Config{DatabaseURL: u.String()})
	if err == nil || !strings.Contains(err.Error(), "SQL_ASCII") || !strings.Contains(err.Error(), "must be UTF8") || errors.Is(err, store.ErrNotMigrated) {
		t.Errorf("error = %v", err)
	}
}

// TestAPostgresWithoutLZ4 reads texts that one with it has compressed: every write
// and most reads would fail.
func TestAPostgresWithoutLZ4(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	compressed := len(lines(t, db.Pool, "SELECT attname::text FROM pg_attribute WHERE attcompression = 'l'")) > 0
	// A Postgres that has it, and says that it has not.
	for _, sql := range []string{
		"CREATE VIEW public.pg_settings AS SELECT name, ARRAY['pglz'] AS enumvals FROM pg_catalog.pg_settings",
		"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$",
	} {
		if _, err := db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(t.Context(), store.Config{DatabaseURL: db.URL})
	if err == nil {
		err = s.Close(t.Context())
	}
	if said := err != nil && strings.Contains(err.Error(), "lz4"); said != compressed {
		t.Errorf("error = %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	empty := pgtest.Empty(t)
	for _, tt := range []struct {
		name   string
		config store.Config
		want   error
	}{
		{"a database that is not migrated", store.Config{DatabaseURL: empty.URL}, store.ErrNotMigrated},
		{"a port where nobody answers", store.Config{DatabaseURL: "postgres://a:b@127.0.0.1:1/c"}, record.ErrUnavailable},
		{"no URL", store.Config{}, nil},
		{"a URL that is none", store.Config{DatabaseURL: "postgres://a:secret@[/"}, nil},
		{"more writers than connections", store.Config{DatabaseURL: empty.URL, Writers: 16}, nil},
		{"a queue smaller than a batch", store.Config{DatabaseURL: empty.URL, QueueRows: 10}, nil},
		{"periods of no days", store.Config{DatabaseURL: empty.URL, PartitionDays: -1}, nil},
	} {
		s, err := store.Open(t.Context(), tt.config)
		if s != nil || err == nil || tt.want != nil && !errors.Is(err, tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if got := cmp.Or(lines(t, empty.Pool, "SELECT nspname::text FROM pg_namespace WHERE nspname = 'actlog'")...); got != "" {
		t.Error("opening made a schema")
	}
}
