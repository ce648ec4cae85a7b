package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/upkeep"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/migrations"
	"github.com/actlog/actlog/record"
)

// newMigrator returns a migrator that is closed at the end of the test.
func newMigrator(t testing.TB, url string) *store.Migrator {
	t.Helper()
	m, err := store.NewMigrator(t.Context(), url, slog.New(slog.DiscardHandler))
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

// sqlCatalog lists everything that a migration can make, one line per object.
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

// TestUpDownUp checks that each migration can be taken back, that nothing is left of it then, and
// that the second run makes the same schema as the first.
func TestUpDownUp(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what the schema and rows of before become")
	t.Parallel()
	db := pgtest.Empty(t)
	m := newMigrator(t, db.URL)
	up := func() []string {
		if err := m.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		return storetest.Lines(t, db.Pool, sqlCatalog)
	}

	first := up()
	if len(first) < 200 {
		t.Errorf("the catalog has only %d lines", len(first))
	}
	storetest.Upkeep(t, storetest.OpenURL(t, db.URL), upkeep.Config{}) // adds partitions, which are dropped again
	// Retention renames a partition like this before it drops it.
	execSQL(t, db.Pool, "ALTER TABLE actlog.think_act_record DETACH PARTITION actlog.think_act_record_default; ALTER "+
		"TABLE actlog.think_act_record_default RENAME TO dropping_think_act_record_x")

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
	for _, line := range storetest.Lines(t, db.Pool, sqlCatalog) {
		if !strings.Contains(line, "schema_version") {
			left = append(left, line)
		}
	}
	if diff := cmp.Diff([]string{"schema | actlog", "schema | public", "schema | report"}, left); diff != "" {
		t.Errorf("after down (-want +got):\n%s", diff)
	}

	if err := m.Down(t.Context()); err == nil {
		t.Error("a migration was left to take back")
	}
	if diff := cmp.Diff(first, up()); diff != "" {
		t.Errorf("the schema (-first +second):\n%s", diff)
	}
}

// TestSchemaRules checks the rules of the schema. Each query returns what breaks its rule.
func TestSchemaRules(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	storetest.Upkeep(t, storetest.OpenURL(t, db.URL), upkeep.Config{}) // adds partitions

	// The tables that belong to no tree, or of which the record knows nothing.
	const runtime = `('run', 'worker', 'control_request', 'definition', 'conversation', 'conversation_message', 'login', 'text_vector', 'model_away', 'model_wait', 'bulk', 'bulk_run', 'place', 'place_change', 'schedule', 'schedule_tick', 'worker_grant', 'project_day', 'project_day_change', 'run_message', 'event', 'event_wait', 'event_taken')`
	const tables = `(SELECT * FROM pg_class WHERE relnamespace = 'actlog'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'schema_version') AS c`
	for _, tt := range []struct{ rule, sql string }{
		{"every table has a comment",
			`SELECT relname FROM ` + tables +
				` WHERE (NOT relispartition OR relname LIKE '%\_default') AND obj_description(c.oid, 'pg_class') IS NULL`},
		{"every column has a comment",
			`SELECT relname || '.' || attname FROM ` + tables + ` JOIN pg_attribute AS a ON a.attrelid = c.oid
			WHERE NOT relispartition AND attnum > 0 AND NOT attisdropped AND col_description(c.oid, attnum) IS NULL`},
		{"every function has a comment",
			`SELECT proname FROM pg_proc WHERE pronamespace = 'actlog'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL`},
		{"every view and every column of a view has a comment",
			`SELECT concat_ws('.', v.relname, a.attname) FROM pg_class AS v JOIN pg_attribute AS a ON a.attrelid = v.oid
			WHERE v.relnamespace = 'report'::regnamespace AND v.relkind = 'v' AND attnum > 0 AND col_description(v.oid, attnum) IS NULL
			UNION ALL SELECT relname FROM pg_class WHERE relnamespace = 'report'::regnamespace AND obj_description(oid, 'pg_class') IS NULL`},
		{"views read no text except titles and errors, and no JSON except the size of artifacts, the tiers of prices, " +
			"which models did not answer and, for nodes, the metadata of their steps",
			`SELECT DISTINCT v.relname || ' reads ' || d.refobjid::regclass || '.' || a.attname
			FROM pg_class AS v
			JOIN pg_rewrite AS w ON w.ev_class = v.oid
			JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refobjsubid > 0
			JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
			WHERE v.relnamespace = 'report'::regnamespace AND (a.atttypid = 'json'::regtype AND d.refobjid NOT IN ('actlog.artifact'::regclass, 'actlog.model_price'::regclass) AND v.relname <> 'node' AND a.attname <> 'fallback_from' OR a.attname IN ('user_request', 'summary', 'exception', 'agent_description',
				'agent_request', 'result', 'think_input', 'think_input_parts', 'think_output', 'action_description', 'action_result', 'parameters', 'latest_tool_args', 'form_description', 'decision', 'revs'))`},
		{"every view has a time to filter on, and no JSON except which models did not answer",
			`SELECT v.relname FROM pg_class AS v WHERE v.relnamespace = 'report'::regnamespace AND v.relkind = 'v' AND (
				NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = v.oid AND a.atttypid = 'timestamptz'::regtype)
				OR EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = v.oid AND a.atttypid IN ('json'::regtype, 'jsonb'::regtype) AND a.attname <> 'fallback_from'))`},
		{"primary keys start with the root plan, except those of the feed, the progress of causes and of recent texts, " +
			"their index, dropped periods, daily figures, prices, traces, the index of the search, workers, definitions, " +
			"conversations, logins, vectors of texts, models that are away, jobs, places, budgets, schedules and events",
			`SELECT relname FROM ` + tables + ` JOIN pg_constraint AS k ON k.conrelid = c.oid AND k.contype = 'p'
			JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.conkey[1]
			WHERE attname <> 'root_plan_id' AND relname NOT IN ('change', 'cause_progress', 'recent_progress', 'recent_slice', 'recent_gram', 'dropped_detail', 'tool_daily', 'day_figures', 'closed_day', 'opened_day', 'model_price', 'worker', 'definition', 'conversation', 'conversation_message', 'login', 'text_vector', 'model_away', 'bulk', 'bulk_run', 'place', 'place_change', 'schedule', 'schedule_tick', 'worker_grant', 'project_day', 'project_day_change', 'event') AND relname NOT LIKE 'otlp\_%' AND relname NOT LIKE 'search\_%'`},
		{"every table has a primary key",
			`SELECT relname FROM ` + tables +
				` WHERE NOT EXISTS (SELECT FROM pg_constraint AS k WHERE k.conrelid = c.oid AND k.contype = 'p')`},
		{"foreign keys start with the root plan on both sides, except those to definitions, conversations, jobs, schedules and events",
			`SELECT k.conname FROM pg_constraint AS k
			JOIN pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
			JOIN pg_attribute AS b ON b.attrelid = k.confrelid AND b.attnum = k.confkey[1]
			WHERE k.contype = 'f' AND k.confrelid::regclass::text NOT IN ('actlog.definition', 'actlog.conversation', 'actlog.bulk', 'actlog.schedule', 'actlog.event') AND (a.attname <> 'root_plan_id' OR b.attname <> 'root_plan_id')`},
		{"ids, keys and indexed texts have collation C",
			`SELECT relname || '.' || attname FROM ` + tables + ` JOIN pg_attribute AS a ON a.attrelid = c.oid
			WHERE attnum > 0 AND atttypid = 'text'::regtype AND (attname LIKE '%\_id' AND attcollation <> '"C"'::regcollation
			OR EXISTS (SELECT FROM pg_index AS i CROSS JOIN unnest(i.indkey::smallint[], i.indcollation::oid[]) AS k (num, sorted) WHERE i.indrelid = c.oid AND k.num = a.attnum AND k.sorted <> '"C"'::regcollation))`},
		{"texts and JSON are compressed with lz4, also in partitions",
			`SELECT relname || '.' || attname FROM ` + tables + ` JOIN pg_attribute AS a ON a.attrelid = c.oid
			WHERE attnum > 0 AND atttypid IN ('text'::regtype, 'json'::regtype, 'jsonb'::regtype) AND attcompression <> 'l'
			AND EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals))`},
		{"revisions are stored in the row, uncompressed, also in partitions",
			`SELECT relname || '.' || attname FROM ` + tables +
				` JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE attname = 'revs' AND attstorage <> 'p'`},
		{"a column that changes can set is nullable and has no default",
			`SELECT relname || '.' || attname FROM ` + tables + ` JOIN pg_attribute AS a ON a.attrelid = c.oid
			LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
			WHERE relname NOT IN ('change', 'cause', 'cause_progress', 'failure', 'recent_text', 'recent_slice', 'recent_gram', 'recent_progress', 'dropped_detail', 'tool_daily', 'day_figures', 'closed_day', 'opened_day', 'model_price') AND relname NOT LIKE 'otlp\_%' AND relname NOT LIKE 'search\_%' AND relname NOT IN ` + runtime + ` AND attnum > 0 AND attgenerated = '' AND attidentity = '' AND (attnotnull OR d.adbin IS NOT NULL)
			AND attname NOT IN ('id', 'part', 'first_seen_at', 'origin')
			AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey))`},
	} {
		for _, breach := range storetest.Lines(t, db.Pool, tt.sql) {
			t.Errorf("%s: broken by %s", tt.rule, breach)
		}
	}

	if n := len(storetest.Lines(t, db.Pool, `SELECT relname FROM `+tables+` WHERE relispartition`)); n != 4+4*3 {
		t.Errorf("the rules were checked on %d partitions", n)
	}
}

// TestEveryFieldHasAColumn checks that each stored field has columns of the right type.
func TestEveryFieldHasAColumn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	types := map[field.Type]string{
		field.Text: "text", field.Int: "bigint", field.Float: "double precision", field.Bool: "boolean",
		field.Time: "timestamp with time zone", field.Texts: "text[]", field.JSON: "json", field.Hashes: "bytea[]",
	}

	for _, kind := range record.Kinds {
		got := map[string]string{}
		for _, line := range storetest.Lines(t, db.Pool,
			`SELECT attname || '=' || format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = ('actlog.' || $1)::regclass AND attnum > 0`, fieldsql.TableOf(kind).Name) {
			name, typ, _ := strings.Cut(line, "=")
			got[name] = typ
		}

		for _, f := range field.Fields(kind) {
			if !f.Stored() {
				continue
			}

			want := types[f.Type]
			switch {
			case f.Small:
				want = "integer"
			case f.Decimal:
				want = "numeric"
			}
			for _, column := range []string{f.Column, f.Shown} {
				if got[column] != want {
					t.Errorf("%s.%s: column %s of type %q, want %q", kind, f.Name, column, got[column], want)
				}
			}
		}
	}
}

// TestConcurrentMigrators checks that several migrators can run on one database at once.
func TestConcurrentMigrators(t *testing.T) {
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
	storetest.OpenURL(t, db.URL)
}

// TestNewerDatabase checks that an old server works on a database that a newer version has
// migrated, also after a restart. This is the state while servers are upgraded one by one.
func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	old := storetest.OpenURL(t, db.URL)
	execSQL(t, db.Pool, "INSERT INTO actlog.schema_version (version_id, is_applied) VALUES (99999, true)")
	if _, err := old.Ready(t.Context()); err != nil {
		t.Errorf("an old server: %v", err)
	}

	var warned storetest.Log
	m, err := store.NewMigrator(t.Context(), db.URL, slog.New(slog.NewTextHandler(&warned, nil)))
	if err != nil {
		t.Fatal(err)
	}

	if err := m.Up(t.Context()); err != nil || !strings.Contains(warned.String(), "ahead") ||
		!strings.Contains(warned.String(), "99999") {
		t.Errorf("migrating up: %v; the log:\n%s", err, &warned)
	}
	if err := m.Down(t.Context()); err == nil || !strings.Contains(err.Error(), "newer version of actlog") {
		t.Errorf("migrating down: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}

	again := storetest.OpenURL(t, db.URL)
	storetest.Write(t, again, &record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t"})
	storetest.StepDetail(t, again, "s")
}

// role makes a role for a test and returns the URL with which it connects to db.
func role(t testing.TB, db *pgtest.DB) (name, roleURL string) {
	t.Helper()
	name = "actlog_" + strings.ReplaceAll(record.NewPlanID(), "-", "_")
	execSQL(t, db.Pool, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'secret'", name))

	t.Cleanup(func() { // a role can be dropped only after what it owns
		if _, err := db.Pool.Exec(context.Background(),
			fmt.Sprintf("DROP OWNED BY %[1]s CASCADE; DROP ROLE %[1]s", name)); err != nil {
			t.Error(err)
		}
	})
	return name, editURL(t, db.URL, func(u *url.URL) { u.User = url.UserPassword(name, "secret") })
}

// TestLeastPrivileges checks that migrations and the store need only a role that owns the two
// schemas, and that an error says how to make a schema that is missing.
func TestLeastPrivileges(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	name, roleURL := role(t, db)
	for _, sql := range []string{
		`DO $$ BEGIN EXECUTE format('REVOKE CREATE ON DATABASE %I FROM PUBLIC', current_database()); END $$`,
		`REVOKE CREATE ON SCHEMA public FROM PUBLIC`,
		`CREATE SCHEMA actlog AUTHORIZATION ` + name,
	} {
		execSQL(t, db.Pool, sql)
	}

	prepare := "CREATE SCHEMA report AUTHORIZATION " + name
	if err := newMigrator(t, roleURL).Up(t.Context()); err == nil || !strings.Contains(err.Error(), prepare) {
		t.Errorf("without schema report: %v", err)
	}

	execSQL(t, db.Pool, prepare)
	migrate(t, roleURL)
	s := storetest.OpenURL(t, roleURL)
	storetest.Upkeep(t, s, upkeep.Config{})
	storetest.Write(t, s, &record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t"})
	storetest.StepDetail(t, s, "s")
	if n := storetest.Query[int](t, s, "SELECT count(*) FROM actlog.act_tool_info_default"); n != 0 {
		t.Error("the owner of the schema added no partitions")
	}
}

// TestDatabaseMustBeUTF8 checks that a migration and Open refuse a database with another encoding.
func TestDatabaseMustBeUTF8(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	name := strings.ReplaceAll(record.NewPlanID(), "-", "_")
	execSQL(t, db.Pool, fmt.Sprintf("CREATE DATABASE %s ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE "+
		"template0", name))
	defer func() {
		if _, err := db.Pool.Exec(t.Context(), fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", name)); err != nil {
			t.Error(err)
		}
	}()

	databaseURL := editURL(t, db.URL, func(u *url.URL) { u.Path = "/" + name })
	m, err := store.NewMigrator(t.Context(), databaseURL, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()

	_, openErr := store.Open(t.Context(), store.Config{DatabaseURL: databaseURL})
	for _, err := range []error{m.Up(t.Context()), openErr} {
		if err == nil || !strings.Contains(err.Error(), "SQL_ASCII") || !strings.Contains(err.Error(), "must be UTF8") ||
			errors.Is(err, store.ErrNotMigrated) {
			t.Errorf("error = %v", err)
		}
	}
}

// TestPostgresWithoutLZ4 checks that Open refuses a Postgres without lz4 if the columns are
// compressed with it. Otherwise every write and most reads would fail.
func TestPostgresWithoutLZ4(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	compressed := len(storetest.Lines(t, db.Pool, "SELECT attname::text FROM pg_attribute WHERE attcompression = 'l'")) > 0

	// The view hides that this Postgres has lz4.
	for _, sql := range []string{
		"CREATE VIEW public.pg_settings AS SELECT name, ARRAY['pglz'] AS enumvals FROM pg_catalog.pg_settings",
		"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$",
	} {
		execSQL(t, db.Pool, sql)
	}

	s, err := store.Open(t.Context(), store.Config{DatabaseURL: db.URL})
	if err == nil {
		err = s.Close(t.Context())
	}
	if reported := err != nil && strings.Contains(err.Error(), "lz4"); reported != compressed {
		t.Errorf("error = %v", err)
	}
}

// TestOpenRefuses checks that Open refuses a bad configuration or database, that the error has no
// password in it, and that Open makes no schema.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	empty := pgtest.Empty(t)
	for _, tt := range []struct {
		name   string
		config store.Config
		want   error
	}{
		{"a database that is not migrated", store.Config{DatabaseURL: empty.URL}, store.ErrNotMigrated},
		{"a port without a server", store.Config{DatabaseURL: "postgres://a:b@127.0.0.1:1/c"}, record.ErrUnavailable},
		{"no URL", store.Config{}, nil},
		{"an invalid URL", store.Config{DatabaseURL: "postgres://a:secret@[/"}, nil},
		{"more writers than connections", store.Config{DatabaseURL: empty.URL, Writers: 16}, nil},
		{"a queue smaller than a batch", store.Config{DatabaseURL: empty.URL, QueueRows: 10}, nil},
		{"partitions of a negative number of days", store.Config{DatabaseURL: empty.URL, PartitionDays: -1}, nil},
	} {
		s, err := store.Open(t.Context(), tt.config)
		if s != nil || err == nil || tt.want != nil && !errors.Is(err, tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}

	if got := storetest.Lines(t, empty.Pool,
		"SELECT nspname::text FROM pg_namespace WHERE nspname = 'actlog'"); len(got) > 0 {
		t.Error("Open made a schema")
	}
}

// TestMigrationsGiveWay checks that a migration that waits for the lock of a long transaction does not
// block writers behind it, and that it is done once the transaction ends. So does one that is taken back.
func TestMigrationsGiveWay(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	m := newMigrator(t, db.URL)
	const write = "LOCK TABLE actlog.plan_execution_record, actlog.run IN ROW EXCLUSIVE MODE" // as writers do
	downToRuns(t, m)

	for name, migrate := range map[string]func(context.Context) error{"down": m.Down, "up": m.Up} {
		if name == "up" { // there is something to do, whichever comes first
			if err := m.Down(t.Context()); err != nil {
				t.Fatal(err)
			}
		}

		unlock := holdLock(t, db.Pool, write)
		done := make(chan error, 1)
		go func() { done <- migrate(t.Context()) }()
		storetest.Until(t, "migrate "+name+" waits for the lock", func() bool {
			return storetest.Lines(t, db.Pool, `SELECT count(*)::text FROM pg_locks WHERE NOT granted AND relation IN
				('actlog.plan_execution_record'::regclass, 'actlog.run'::regclass)`)[0] != "0"
		})
		execSQL(t, db.Pool, "BEGIN; "+write+"; COMMIT") // waits behind the migration

		unlock()
		if err := <-done; err != nil {
			t.Errorf("migrate %s: %v", name, err)
		}
	}
}

// downToRuns takes migrations back until the newest is one that changes the table of plans or that of runs.
func downToRuns(t *testing.T, m *store.Migrator) {
	t.Helper()
	all, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	changes := regexp.MustCompile(`ALTER TABLE actlog\.(plan_execution_record|run)\b`)
	for _, newest := range slices.Backward(all) {
		text, err := migrations.FS.ReadFile(newest.Name)
		if err != nil {
			t.Fatal(err)
		}
		if changes.Match(text) {
			return
		}
		if err := m.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no migration changes the runs")
}

// TestBeforeTheBaseline checks that nothing is done with a database of a version before the first baseline, and that
// the error says what to do.
func TestBeforeTheBaseline(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	execSQL(t, db.Pool, `
		CREATE SCHEMA actlog;
		CREATE TABLE `+migrations.TableBeforeBaseline+` (id serial PRIMARY KEY, version_id bigint NOT NULL, is_applied boolean NOT NULL, tstamp timestamp DEFAULT now());
		INSERT INTO `+migrations.TableBeforeBaseline+` (version_id, is_applied) VALUES (0, true), (1, true);
		CREATE TABLE actlog.plan_execution_record (root_plan_id text)`)
	before := storetest.Lines(t, db.Pool, sqlCatalog)

	_, migrateErr := store.NewMigrator(t.Context(), db.URL, slog.New(slog.DiscardHandler))
	_, madeErr := store.Made(t.Context(), db.URL)
	_, openErr := store.Open(t.Context(), store.Config{DatabaseURL: db.URL})

	for of, err := range map[string]error{"migrate": migrateErr, "made": madeErr, "open": openErr} {
		if !errors.Is(err, store.ErrBeforeBaseline) || errors.Is(err, store.ErrNotMigrated) ||
			!strings.Contains(err.Error(), "actlog export") {
			t.Errorf("%s: error %v, want %v", of, err, store.ErrBeforeBaseline)
		}
	}
	if diff := cmp.Diff(before, storetest.Lines(t, db.Pool, sqlCatalog)); diff != "" {
		t.Errorf("the database was changed (-before +after):\n%s", diff)
	}
}
