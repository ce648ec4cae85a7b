package db_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/db"
	"github.com/actlog/actlog/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type object = map[string]any

// shop is a database with a table, and roles that may read and write it.
type shop struct {
	t     *testing.T
	db    *pgtest.DB
	login string // a role without powers
	url   string // as that role
	tools *tool.Set
}

// open returns a shop, and the tools of options in which the URL is that of the role without powers.
func open(t *testing.T, o db.Options) *shop {
	t.Helper()
	s := &shop{t: t, db: pgtest.Empty(t)}
	s.login = fmt.Sprintf("shop_%d", time.Now().UnixNano())
	for _, sql := range []string{
		"CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, price numeric, big int8, at timestamptz DEFAULT " +
			"'2026-01-02 03:04:05Z')",
		"INSERT INTO item SELECT i, 'item ' || i, i * 1.5, 9007199254740993 FROM generate_series(1, 10) i",
		"CREATE TABLE line (item int REFERENCES item, n int)", "CREATE TABLE hidden (password text)",
		"CREATE SEQUENCE counter",
		"CREATE ROLE " + s.login + " LOGIN PASSWORD 'hunter2'", "GRANT SELECT, INSERT, UPDATE, DELETE ON item, line TO " +
			s.login,
		"GRANT USAGE ON SEQUENCE counter TO " + s.login,
	} {
		s.exec(sql)
	}
	t.Cleanup(func() {
		s.exec("DROP OWNED BY " + s.login)
		s.exec("DROP ROLE " + s.login)
	})

	u, err := url.Parse(s.db.URL)
	if err != nil {
		t.Fatal(err)
	}

	u.User = url.UserPassword(s.login, "hunter2")
	s.url = u.String()
	if o.URL == "" {
		o.URL = s.url
	}
	s.use(o)
	return s
}

func (s *shop) use(o db.Options) {
	s.t.Helper()
	all, err := db.Tools(o)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.tools, err = tool.NewSet(all...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) exec(sql string) {
	s.t.Helper()
	if _, err := s.db.Pool.Exec(context.Background(), sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

func (s *shop) value(sql string) (v string) {
	s.t.Helper()
	if err := s.db.Pool.QueryRow(context.Background(), "SELECT ("+sql+")::text").Scan(&v); err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *shop) call(name string, arguments any) tool.Call {
	s.t.Helper()
	b, err := json.Marshal(arguments)
	if err != nil {
		s.t.Fatal(err)
	}
	return tool.Call{ID: "call-1", Arguments: b}
}

// do calls a tool, after an approval if its policy wants one.
func (s *shop) do(name, sql string, parameters ...any) (tool.Result, error) {
	s.t.Helper()
	return s.with(name, s.call(name, object{"sql": sql, "parameters": append([]any{}, parameters...)}))
}

func (s *shop) with(name string, call tool.Call) (tool.Result, error) {
	s.t.Helper()
	one, ok := s.tools.Get(name)
	if !ok {
		s.t.Fatalf("there is no %s", name)
	}

	policy := one.Spec().Policy
	if policy.Approval {
		p, _, err := tool.PreviewOf(s.t.Context(), one, policy, call)
		if err != nil {
			return tool.Failure(err.Error()), nil
		}
		call.Approved = p.Digest
	}
	return tool.Do(s.t.Context(), one, policy, call, 0)
}

// failure calls a tool and wants a failed result with a text.
func (s *shop) failure(want, name, sql string, parameters ...any) {
	s.t.Helper()
	result, err := s.do(name, sql, parameters...)
	if err != nil || !result.Failed || !strings.Contains(result.Text, want) {
		s.t.Errorf("%s %s: got %q, %v, want %q", name, sql, result.Text, err, want)
	}
}

// Rows come as a table, and as JSON in which nothing is rounded.
func TestQuery(t *testing.T) {
	t.Parallel()
	s := open(t, db.Options{})
	result, err := s.do("db.query", "SELECT id, name, price, big FROM item WHERE id <= $1 AND name LIKE $2 ORDER BY id", 2,
		"item%")
	if err != nil || result.Failed {
		t.Fatalf("s.do = %v, %v", result, err)
	}

	if want := "id | name | price | big\n1 | item 1 | 1.5 | 9007199254740993\n2 | item 2 | 3.0 | 9007199254740993\n" +
		"(2 rows)"; result.Text != want {
		t.Errorf("result.Text = %q", result.Text)
	}
	if want := `{"columns":["id","name","price","big"],"rows":[[1,"item 1","1.5","9007199254740993"],[2,"item 2","3.0","9007199254740993"]],"command":"SELECT 2"}`; string(result.Data) != want {
		t.Errorf("result.Data = %s", result.Data)
	}

	result, err = s.do("db.query",
		`SELECT NULL, true, 'NaN'::float8, 1.5::float8, 'Infinity'::numeric, '\x00ff'::bytea, '{1,2}'::int[], '{"a": [1]}'::jsonb, E'a|b\nc\t\\', ''`)
	if err != nil || result.Failed {
		t.Fatalf("s.do = %v, %v", result, err)
	}
	if want := `"rows":[[null,true,"NaN",1.5,"Infinity","\\x00ff","{1,2}",{"a":[1]},"a|b\nc\t\\",""]]`; !strings.Contains(string(result.Data), want) {
		t.Errorf("result.Data = %s", result.Data)
	}

	want := "NULL | t | NaN | 1.5 | Infinity | \\\\x00ff | {1,2} | {\"a\": [1]} | a\\|b\\nc\\t\\\\ | \n(1 row)"
	if !strings.HasSuffix(result.Text, want) {
		t.Errorf("result.Text = %q", result.Text)
	}

	// A table without rows has an empty list of them.
	result, err = s.do("db.query", "SELECT id FROM item WHERE false")
	if want := `{"columns":["id"],"rows":[],"command":"SELECT 0"}`; err != nil || string(result.Data) != want {
		t.Errorf("data of no rows = %s, %v, want %s", result.Data, err, want)
	}

	// Parameters are values and nothing else.
	result, err = s.do("db.query", "SELECT $1::text, $2::jsonb, $3::int IS NULL, $4::bool", "'; DROP TABLE item; --",
		object{"a": 1}, nil, true)
	if err != nil || !strings.Contains(result.Text, `'; DROP TABLE item; -- | {"a": 1} | t | t`) {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}
}

// Results have bounds of rows, of bytes and of each value.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := open(t, db.Options{MaxRows: 3, MaxBytes: 10_000})
	for sql, want := range map[string]string{
		"SELECT generate_series(1, 100000000) i":                "i\n1\n2\n3\n(3 rows)\n(There are more rows.",
		"SELECT repeat('x', 50000000)":                          "... (cut: 50000000 bytes)\n(1 row)",
		"SELECT repeat('é', 1900) FROM generate_series(1, 3) i": "(3 rows)",
	} {
		if result, err := s.do("db.query", sql); err != nil || result.Failed || len(result.Text) > 12_000 ||
			!strings.Contains(result.Text, want) {
			t.Errorf("%s: %d bytes, %.200q, %v", sql, len(result.Text), result.Text, err)
		}
	}

	s.failure("a row has more than 64 MiB", "db.query", "SELECT repeat('x', 50000000), repeat('y', 50000000)")
	s.failure("parameters: they have more than", "db.query", "SELECT $1::text", strings.Repeat("x", 20000))
	s.failure("sql: it has more than", "db.query", "SELECT 1 --"+strings.Repeat("x", 40000))
	s.failure("write it in quotes", "db.query", "SELECT $1::int8", 1e17)

	s.use(db.Options{URL: s.url, Timeout: 200 * time.Millisecond})
	begun := time.Now()
	s.failure("The statement took too long", "db.query", "SELECT pg_sleep(60)")
	if time.Since(begun) > 20*time.Second {
		t.Errorf("it took %s", time.Since(begun))
	}
}

// Nothing that db.query runs changes anything, and one call leaves nothing for the next.
func TestQueryOnlyReads(t *testing.T) {
	t.Parallel()
	s := open(t, db.Options{})
	for sql, want := range map[string]string{
		"SELECT 1; DELETE FROM item":    "cannot insert multiple commands into a prepared statement",
		"DELETE FROM item":              "this one returns none",
		"DELETE FROM item RETURNING id": "read-only transaction",
		"WITH gone AS (DELETE FROM item RETURNING id) SELECT * FROM gone": "read-only transaction",
		"SELECT nextval('counter')":                                       "read-only transaction",
		"EXPLAIN ANALYZE DELETE FROM item":                                "read-only transaction",
		"COMMIT":                                                          "this one returns none",
		"ROLLBACK":                                                        "this one returns none",
		"BEGIN":                                                           "this one returns none",
		"DO $$ BEGIN DELETE FROM item; END $$":                            "this one returns none",
		"SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE": "this one returns none",
		"SET TRANSACTION READ WRITE":                            "this one returns none",
		"RESET ROLE":                                            "this one returns none",
		"LISTEN x":                                              "this one returns none",
		"COPY item TO STDOUT":                                   "this one returns none",
		"COPY item FROM STDIN":                                  "this one returns none",
		"LOCK TABLE item":                                       "this one returns none",
		"PREPARE TRANSACTION 'x'":                               "this one returns none", "": "sql: it is empty",
		"/* nothing */": "this one returns none",
		"SELECT set_config('transaction_read_only', 'off', false)": "read-write mode must be set before any query",
		"SELECT * FROM hidden":               "permission denied for table hidden",
		"SELECT pg_read_file('/etc/passwd')": "permission denied for function pg_read_file",
		"SELECT lo_export(1, '/tmp/x')":      "",
		"SELECT nam FROM item":               `column "nam" does not exist (SQLSTATE 42703) at character 8, near "nam FROM item"`,
		"SELEC 1":                            `syntax error at or near "SELEC" (SQLSTATE 42601) at character 1`,
	} {
		s.failure(want, "db.query", sql)
	}
	s.failure("the statement has 1 ($1, $2, ...), and there are 0", "db.query", "SELECT $1::int")

	for _, sql := range []string{"SELECT pg_advisory_lock(7)", "SELECT set_config('search_path', 'nowhere', false)",
		"SELECT set_config('role', 'none', false)"} {
		if result, err := s.do("db.query", sql); err != nil || result.Failed {
			t.Errorf("%s: %v, %v", sql, result, err)
		}
	}

	if result, err := s.do("db.query", "SELECT count(*), pg_try_advisory_lock(7) FROM item"); err != nil ||
		!strings.Contains(result.Text, "\n10 | t\n") {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}
	if got := s.value("SELECT count(*) FROM item"); got != "10" {
		t.Errorf("%s items are left", got)
	}
}

// A role that reaches the machine of the database is refused, also as one that another role hides.
func TestSuperuser(t *testing.T) {
	t.Parallel()
	s := open(t, db.Options{})
	for _, o := range []db.Options{{URL: s.db.URL}, {URL: s.db.URL, Role: s.login}} {
		s.use(o)
		s.failure("is a superuser, or may read files", "db.query", "SELECT 1")
	}
	s.use(db.Options{URL: s.db.URL, Role: s.login, AllowSuperuser: true})
	if result, err := s.do("db.query", "SELECT current_user"); err != nil || !strings.Contains(result.Text, s.login) {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}

	s.use(db.Options{URL: s.url})
	if result, err := s.do("db.query", "SELECT 1"); err != nil || result.Failed {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}
	s.exec("GRANT pg_execute_server_program TO " + s.login)
	s.failure("or may read files or run programs", "db.query", "SELECT 1")
}

// The tables that the role may read are listed with their columns and keys.
func TestSchema(t *testing.T) {
	t.Parallel()
	s := open(t, db.Options{})
	result, err := s.with("db.schema", s.call("db.schema", object{}))
	if err != nil || result.Failed {
		t.Fatalf("s.with = %v, %v", result, err)
	}

	want := "table public.item\n  keys: PRIMARY KEY (id)\n  id integer not null\n  name text not null\n" +
		"  price numeric\n  big bigint\n  at timestamp with time zone\n" +
		"table public.line\n  keys: FOREIGN KEY (item) REFERENCES item(id)\n  item integer\n  n integer\n"
	if result.Text != want {
		t.Errorf("result.Text:\n%q, want\n%q", result.Text, want)
	}

	if result, err := s.with("db.schema", s.call("db.schema", object{"table": "hid"})); err != nil ||
		!strings.HasPrefix(result.Text, "There is no such table") {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}
}

// A statement that writes is shown before, with what it would change, and does what was approved.
func TestExecute(t *testing.T) {
	t.Parallel()
	s := open(t, db.Options{Write: true})
	execute, ok := s.tools.Get("db.execute")
	if !ok || !execute.Spec().Policy.Approval || !execute.Spec().Policy.Writes ||
		execute.Spec().Policy.OnUnknown == tool.Retry {
		t.Fatalf("execute = %+v", execute)
	}

	s.exec("ANALYZE item")
	call := s.call("db.execute", object{"sql": " UPDATE item SET name = $1 WHERE id > 0", "parameters": []any{"new"}})
	p, _, err := tool.PreviewOf(t.Context(), execute, execute.Spec().Policy, call)

	want := "UPDATE item SET name = $1 WHERE id > 0\n-- $1 = \"new\"\n" +
		"-- Postgres expects 10 rows (an estimate; it did not run)\n"
	if err != nil || p.Text != want || p.Kind != tool.PreviewStatement {
		t.Errorf("p.Text = %q, %v", p.Text, err)
	}
	if got := s.value("SELECT count(*) FROM item WHERE name = 'new'"); got != "0" {
		t.Error("the preview changed something")
	}

	call.Approved = p.Digest
	other := call
	other.Arguments = json.RawMessage(strings.Replace(string(call.Arguments), "new", "old", 1))
	if result, err := tool.Do(t.Context(), execute, execute.Spec().Policy, other, 0); err != nil ||
		result.Text != tool.ErrChanged.Error() {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}

	if result, err := tool.Do(t.Context(), execute, execute.Spec().Policy, call, 0); err != nil || result.Failed ||
		result.Text != "(UPDATE 10)" || string(result.Data) != `{"columns":[],"rows":[],"command":"UPDATE 10"}` {
		t.Errorf("result.Text = %q, %v, data %s", result.Text, err, result.Data)
	}
	if got := s.value("SELECT count(*) FROM item WHERE name = 'new'"); got != "10" {
		t.Errorf("%s items changed", got)
	}
	if result, err := s.do("db.execute", "DELETE FROM item WHERE id = 1 RETURNING name"); err != nil ||
		result.Text != "name\nnew\n(DELETE 1)" {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}
}

// What cannot work fails before anybody is asked, and what fails changes nothing.
func TestExecuteFails(t *testing.T) {
	t.Parallel()
	s := open(t, db.Options{Write: true})
	for sql, want := range map[string]string{
		"UPDATE items SET id = 1": `relation "items" does not exist`, "UPDATE item SET id = 1 WHERE": "syntax error",
		"DELETE FROM hidden": "permission denied",
		"COMMIT":             `db.execute does not run "COMMIT"`, "-- x\n /* y */ rollback": `does not run "ROLLBACK"`,
		"SET ROLE postgres": "does not run", "COPY item FROM PROGRAM 'id'": "does not run",
		"DO $$ BEGIN END $$": "does not run", "LISTEN x": "does not run", "": "sql: it is empty",
		"DELETE FROM line; DELETE FROM item":          "multiple commands",
		"INSERT INTO item (id, name) VALUES (1, 'x')": "duplicate key", "INSERT INTO line VALUES (99, 1)": "foreign key",
		"VACUUM": "does not run",
	} {
		s.failure(want, "db.execute", sql)
	}
	if got := s.value("SELECT count(*) FROM item") + s.value("SELECT count(*) FROM line"); got != "100" {
		t.Errorf("%s", got)
	}

	s.use(db.Options{URL: s.url})
	if _, ok := s.tools.Get("db.execute"); ok {
		t.Error("there is db.execute")
	}
}

// With idempotency, a call is noted in the transaction of its statement: it can be found again, and is not made twice.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	s := open(t, db.Options{Write: true, Idempotency: true})
	execute, _ := s.tools.Get("db.execute")
	if execute.Spec().Policy.OnUnknown != tool.Retry {
		t.Error("it is not tried again")
	}

	call := s.call("db.execute", object{"sql": "UPDATE item SET price = price + 1 WHERE id = 1"})
	if _, done, err := tool.Verify(t.Context(), execute, execute.Spec().Policy, call); err != nil || done {
		t.Errorf("done = %v, %v", done, err)
	}
	if result, err := s.with("db.execute", call); err != nil ||
		!strings.Contains(result.Text, "actlog_tool.call, the table of the calls that took effect, cannot be made") {
		t.Errorf("result.Text = %q, %v", result.Text, err)
	}

	s.exec("DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO " + s.login + "', current_database()); END $$")
	for i, want := range []string{"(UPDATE 1)", "this very call took effect before"} {
		if result, err := s.with("db.execute", call); err != nil || !strings.Contains(result.Text, want) {
			t.Errorf("%d: %q, %v", i, result.Text, err)
		}
	}
	if got := s.value("SELECT price FROM item WHERE id = 1"); got != "2.5" {
		t.Errorf("s.value = %s", got)
	}

	result, done, err := tool.Verify(t.Context(), execute, execute.Spec().Policy, call)
	if err != nil || !done || result.Text != "(UPDATE 1)" {
		t.Errorf("result.Text = %q, %v, %v", result.Text, done, err)
	}
	call.ID = "call-2"
	if _, done, err := tool.Verify(t.Context(), execute, execute.Spec().Policy, call); err != nil || done {
		t.Errorf("done = %v, %v", done, err)
	}
}

// A statement has the rights of the write role, and what it left for the end of the transaction has no others.
func TestWriteRole(t *testing.T) {
	t.Parallel()
	s := open(t, db.Options{})
	writer := s.login + "_w"
	s.exec("CREATE ROLE " + writer)
	t.Cleanup(func() { s.exec("DROP OWNED BY " + writer); s.exec("DROP ROLE " + writer) })

	s.exec("GRANT " + writer + " TO " + s.login)
	s.exec("CREATE TABLE who (name text, at text)")
	s.exec("GRANT INSERT ON who TO " + writer + ", " + s.login)
	s.exec("CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO who VALUES (current_user, " +
		"'end'); RETURN NULL; END $$")
	s.exec("CREATE CONSTRAINT TRIGGER later AFTER INSERT ON who DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.at " +
		"= 'now') EXECUTE FUNCTION note()")
	s.exec("DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO " + s.login + "', current_database()); END $$")

	s.use(db.Options{URL: s.url, Write: true, WriteRole: writer, Idempotency: true})
	if result, err := s.do("db.execute", "INSERT INTO who VALUES (current_user, 'now')"); err != nil || result.Failed {
		t.Fatalf("s.do = %v, %v", result, err)
	}
	if got, want := s.value("SELECT string_agg(name, ',') FROM who"), writer+","+writer; got != want {
		t.Errorf("s.value = %s, want %s", got, want)
	}
	s.failure("permission denied", "db.execute", "DELETE FROM item")
}

// A database that is not there, or refuses, is a failed result without credentials.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := open(t, db.Options{})
	s.use(db.Options{URL: "postgres://me:hunter2@127.0.0.1:1/x"})
	s.failure("the database cannot be reached now", "db.query", "SELECT 1")
	s.use(db.Options{URL: s.url, Role: "nobody_there"})
	s.failure(`role "nobody_there" does not exist`, "db.query", "SELECT 1")

	s.use(db.Options{URL: s.url})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	query, _ := s.tools.Get("db.query")
	if _, err := tool.Do(ctx, query, query.Spec().Policy, s.call("db.query", object{"sql": "SELECT 1"}),
		0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Options are checked, and errors do not have the URL.
func TestOptions(t *testing.T) {
	t.Parallel()
	const u = "postgres://localhost/x"
	for want, o := range map[string]db.Options{
		"url: it is no URL of a Postgres database": {URL: "postgres://me:hunter2@[bad/x"},
		"maxRows: want 1 to 1000":                  {URL: u, MaxRows: 5000},
		"maxBytes: want 1 to 61440":                {URL: u, MaxBytes: 1 << 20},
		"writeRole: it needs enableWrite: true":    {URL: u, WriteRole: "w"},
		"idempotency: it needs enableWrite: true":  {URL: u, Idempotency: true},
	} {
		if err := o.Check(); err == nil || err.Error() != want {
			t.Errorf("o.Check() = %v, want %s", err, want)
		}
	}
}
