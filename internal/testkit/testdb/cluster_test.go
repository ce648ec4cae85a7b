package testdb

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"
)

// fixture has a schema that is hard to empty: foreign keys, partitions, a trigger that refuses.
var fixture = migration(`
CREATE TABLE actlog.parent (id int PRIMARY KEY);
CREATE TABLE actlog.child (parent int NOT NULL REFERENCES actlog.parent, day date NOT NULL) PARTITION BY RANGE (day);
CREATE TABLE actlog.child_default PARTITION OF actlog.child DEFAULT;
-- +goose StatementBegin
CREATE FUNCTION actlog.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'rows stay'; END $$;
-- +goose StatementEnd
CREATE TRIGGER refuse BEFORE DELETE ON actlog.parent FOR EACH ROW EXECUTE FUNCTION actlog.refuse();
`)

const sqlRows = `INSERT INTO actlog.parent VALUES (1); INSERT INTO actlog.child VALUES (1, '2026-01-01')`

func migration(sql string) fs.FS {
	return fstest.MapFS{"00001_fixture.sql": {Data: []byte("-- +goose Up\n" + sql + "\n-- +goose Down\n")}}
}

// sharedURL returns the address of the server of this test binary.
func sharedURL(t *testing.T) string {
	t.Helper()
	c, err := shared.get(t)
	if err != nil {
		t.Fatal(err)
	}
	return c.url
}

// newCluster opens a cluster as another test program would on the same server.
func newCluster(t *testing.T, url string, fsys fs.FS) *cluster {
	t.Helper()
	c, err := openCluster(t.Context(), &Server{URL: url}, fsys)
	if err != nil {
		t.Fatal(err)
	}

	c.keep = false
	t.Cleanup(func() {
		if err := c.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// open connects to a database of a cluster.
func (c *cluster) open(t *testing.T, name string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), withDatabase(c.url, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func (c *cluster) mustTake(t *testing.T) string {
	t.Helper()
	name, err := c.checkout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func (c *cluster) mustGiveBack(t *testing.T, name string) {
	t.Helper()
	if err := c.giveBack(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) has(t *testing.T, name string) bool {
	t.Helper()
	conn, err := c.admin.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()

	exists, err := hasDatabase(t.Context(), conn.Conn(), name)
	if err != nil {
		t.Fatal(err)
	}
	return exists
}

func TestReset(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedURL(t), fixture)
	name := c.mustTake(t)
	pool := c.open(t, name)
	exec(t, pool, sqlRows)

	// A session that a test left open, with locks on the tables.
	stray, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stray.Rollback(context.Background()) }()
	if _, err := stray.Exec(t.Context(),
		`INSERT INTO actlog.parent VALUES (2); LOCK actlog.parent, actlog.child`); err != nil {
		t.Fatal(err)
	}

	c.mustGiveBack(t, name)
	if _, err := stray.Exec(t.Context(), `SELECT 1`); err == nil {
		t.Error("the stray session is still open")
	}
	if again := c.mustTake(t); again != name {
		t.Fatalf("got %s, want %s again", again, name)
	}

	pool = c.open(t, name)
	if n := count(t, pool, "actlog.parent") + count(t, pool, "actlog.child"); n != 0 {
		t.Errorf("%d rows after reset", n)
	}
	exec(t, pool, sqlRows) // keys and triggers work again
	if _, err := pool.Exec(t.Context(), `DELETE FROM actlog.parent`); err == nil {
		t.Error("the trigger did not run")
	}
	c.mustGiveBack(t, name)
}

func TestDropInsteadOfReset(t *testing.T) {
	t.Parallel()
	url := sharedURL(t)
	for _, tt := range []struct {
		name, sql string
	}{
		{"added table", `CREATE TABLE actlog.more ()`},
		{"added column", `ALTER TABLE actlog.child ADD COLUMN more int`},
		{
			"added partition", `CREATE TABLE actlog.more PARTITION OF actlog.child FOR VALUES FROM ('2027-01-01') TO ('2028-01-01')`,
		},
		{"dropped table", `DROP TABLE actlog.child`},
		{"added schema", `CREATE SCHEMA other CREATE TABLE t ()`},
		{
			"rows that cannot be deleted",
			`INSERT INTO actlog.parent VALUES (1); ALTER TABLE actlog.parent ENABLE ALWAYS TRIGGER refuse`,
		},
		{"damaged catalog", `DELETE FROM pg_class WHERE relname = 'child'`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, url, fixture)
			name := c.mustTake(t)
			exec(t, c.open(t, name), tt.sql)
			c.mustGiveBack(t, name)

			if c.has(t, name) || len(c.free) > 0 {
				t.Errorf("%s is still in use", name)
			}
		})
	}
}

func TestRowsOfMigrationsAreKept(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedURL(t), migration(`CREATE TABLE actlog.price (p int); INSERT INTO actlog.price VALUES (1);`))
	name := c.mustTake(t)
	c.mustGiveBack(t, name)
	name = c.mustTake(t)
	if n := count(t, c.open(t, name), "actlog.price"); n != 1 {
		t.Errorf("%d rows, want the one of the migration", n)
	}
	c.mustGiveBack(t, name)
}

func TestRoleWithoutSuperuser(t *testing.T) {
	t.Parallel()
	admin := newCluster(t, sharedURL(t), fixture)
	role := "pgtest_lesser_" + admin.run
	exec(t, admin.admin, `CREATE ROLE `+role+` LOGIN CREATEDB PASSWORD 'secret'`)
	u, err := url.Parse(admin.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "secret")

	c := newCluster(t, u.String(), fixture)
	name := c.mustTake(t)
	exec(t, c.open(t, name), sqlRows)
	c.mustGiveBack(t, name)

	if again := c.mustTake(t); again != name {
		t.Errorf("got %s, want %s again", again, name)
	}
	if n := count(t, c.open(t, name), "actlog.child"); n != 0 {
		t.Errorf("%d rows after reset", n)
	}
	c.mustGiveBack(t, name)

	t.Cleanup(func() {
		_ = admin.drop(context.Background(), c.template)
		for _, name := range c.free {
			_ = admin.drop(context.Background(), name)
		}
		_, _ = admin.admin.Exec(context.Background(), `DROP ROLE `+role)
	})
}

func TestSweep(t *testing.T) {
	t.Parallel()
	url := sharedURL(t)
	living := newCluster(t, url, fixture)
	mine := living.mustTake(t)
	living.mustGiveBack(t, mine)

	dead, err := openCluster(t.Context(), &Server{URL: url}, fixture)
	if err != nil {
		t.Fatal(err)
	}
	theirs := dead.mustTake(t)
	dead.admin.Close() // as if it were killed

	// The server needs a moment to notice that the sessions have ended.
	exec(t, living.admin, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = '`+
		appPrefix+dead.run+`'`)
	newCluster(t, url, fixture)
	if living.has(t, theirs) {
		t.Error("the database of an ended program still exists")
	}
	if !living.has(t, mine) || !living.has(t, living.template) {
		t.Error("a database in use was dropped")
	}
}

func TestTemplateIsCreatedOnce(t *testing.T) {
	t.Parallel()
	url := sharedURL(t)
	fsys := migration(`SELECT pg_sleep(0.1); -- ` + rand.Text())
	errs := make(chan error)
	const programs = 4
	for range programs {
		go func() {
			c, err := openCluster(context.Background(), &Server{URL: url}, fsys)
			if err == nil {
				if made := c.made.Load(); made > 0 {
					err = errCreated
				}
				err = errors.Join(err, c.close(context.Background()))
			}
			errs <- err
		}()
	}

	made := 0
	for range programs {
		switch err := <-errs; {
		case errors.Is(err, errCreated):
			made++
		case err != nil:
			t.Error(err)
		}
	}

	if made != 1 {
		t.Errorf("the template was created %d times", made)
	}
}

var errCreated = errors.New("created the template")

func TestBrokenMigration(t *testing.T) {
	t.Parallel()
	_, err := openCluster(t.Context(), &Server{URL: sharedURL(t)}, migration(`CREATE TABLE oops;`))
	if err == nil || !strings.Contains(err.Error(), "template") || !strings.Contains(err.Error(), "syntax error") {
		t.Errorf("openCluster = %v", err)
	}
}

// failing is a failed test.
type failing struct {
	testing.TB
	cleanups []func()
	logged   string
}

func (f *failing) Failed() bool           { return true }
func (f *failing) Cleanup(cleanup func()) { f.cleanups = append(f.cleanups, cleanup) }
func (f *failing) Logf(_ string, args ...any) {
	if s, ok := args[len(args)-1].(string); ok {
		f.logged = s
	}
}

func TestFailedTestKeepsDatabase(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedURL(t), fixture)
	c.keep = true
	f := &failing{TB: t}
	db := c.lend(f, (*cluster).checkout, (*cluster).giveBack)
	exec(t, db.Pool, sqlRows)
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}

	u, err := url.Parse(f.logged)
	if err != nil || !strings.HasPrefix(u.Path, "/"+keptPrefix) {
		t.Fatalf("logged %q", f.logged)
	}
	name := u.Path[1:]

	newCluster(t, c.url, fixture) // sweeps
	pool := c.open(t, name)
	if n := count(t, pool, "actlog.child"); n != 1 {
		t.Errorf("%d rows kept", n)
	}
	pool.Close()
	if err := c.drop(t.Context(), name); err != nil {
		t.Error(err)
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://u:p@h:5432/db?sslmode=disable&pool_max_conns=15",
		"postgresql://u:p@h",
		"postgres://u:p@/db?host=%2Fa%2Fb&port=5432&dbname=other",
		"host=h user=u password='p w' dbname=db",
	} {
		cfg, err := pgxpool.ParseConfig(withDatabase(dsn, "mine"))
		if err != nil || cfg.ConnConfig.Database != "mine" || cfg.ConnConfig.User != "u" {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
