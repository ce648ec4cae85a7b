package testdb

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/actlog/actlog/migrations"
)

// Names of the databases on a server. The run of their test program follows testPrefix.
const (
	templatePrefix = "actlog_tpl_"
	testPrefix     = "actlog_test_"
	keptPrefix     = "actlog_kept_"
	// appPrefix and the run are the application name of a running test program.
	appPrefix = "pgtest_"
)

// templateLock is the advisory lock for creating and removing template databases.
const templateLock = 0x6163746c6f67 // "actlog"

// cluster lends the databases of one server to tests.
type cluster struct {
	server   *Server
	url      string
	admin    *pgxpool.Pool
	run      string
	template string
	fileCopy bool // CREATE DATABASE supports STRATEGY
	keep     bool
	kept     atomic.Int64
	made     atomic.Int64

	mu       sync.Mutex
	free     []string
	shape    string // hash of the schema of a new clone, "" before the first clone
	reusable bool   // a used database can be emptied for the next test
}

// openCluster connects to the server and ensures that it has the template database.
func openCluster(ctx context.Context, server *Server, fsys fs.FS) (*cluster, error) {
	c := &cluster{
		server: server,
		url:    server.URL,
		run:    fmt.Sprintf("%d_%s", os.Getpid(), strings.ToLower(rand.Text()[:8])),
		keep:   !server.Private || os.Getenv(keepEnv) != "",
	}
	cfg, err := pgxpool.ParseConfig(c.url)
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}

	cfg.MaxConns = 4
	cfg.ConnConfig.RuntimeParams["application_name"] = appPrefix + c.run
	if c.admin, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}

	if err := c.prepare(ctx, fsys); err != nil {
		c.admin.Close()
		return nil, err
	}
	return c, nil
}

func (c *cluster) prepare(ctx context.Context, fsys fs.FS) error {
	var version int
	var role string
	err := c.admin.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_user`).Scan(&version, &role)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c.fileCopy = version >= 150000

	hash, err := hashFS(fsys, role) // a role cannot use the template of another role
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	c.template = templatePrefix + hash

	return c.locked(ctx, func(conn *pgx.Conn) error {
		c.sweep(ctx, conn)
		exists, err := hasDatabase(ctx, conn, c.template)
		if err != nil {
			return err
		}
		if !exists {
			if err := c.makeTemplate(ctx, conn, fsys); err != nil {
				return fmt.Errorf("create the template database: %w", err)
			}
		}

		// The comment says when the template was last used; sweep reads it.
		_, err = conn.Exec(ctx, fmt.Sprintf(`DO $$ BEGIN EXECUTE format('COMMENT ON DATABASE %s IS %%L', now()); END $$`,
			c.template))
		return err
	})
}

// locked runs f while no other program creates or removes templates.
func (c *cluster) locked(ctx context.Context, f func(*pgx.Conn) error) error {
	return c.admin.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, templateLock); err != nil {
			return err
		}
		err := f(conn.Conn())
		_, unlockErr := conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, templateLock)
		return errors.Join(err, unlockErr)
	})
}

// makeTemplate builds the template under another name and renames it when it is complete.
func (c *cluster) makeTemplate(ctx context.Context, conn *pgx.Conn, fsys fs.FS) error {
	name, err := c.createEmpty(ctx)
	if err != nil {
		return err
	}

	err = migrate(ctx, withDatabase(c.url, name), fsys)
	if err == nil {
		// A template with a session cannot be cloned.
		_, err = conn.Exec(ctx, fmt.Sprintf(`ALTER DATABASE %s ALLOW_CONNECTIONS false`, name))
	}
	if err == nil {
		_, err = conn.Exec(ctx, fmt.Sprintf(`ALTER DATABASE %s RENAME TO %s`, name, c.template))
	}
	if err == nil {
		return nil
	}

	dropErr := c.drop(ctx, name)
	if duplicate := (*pgconn.PgError)(nil); errors.As(err, &duplicate) && duplicate.Code == "42P04" {
		// Another program, which connects to another maintenance database, was faster.
		return dropErr
	}
	return errors.Join(err, dropErr)
}

// Migrate migrates the database at url.
func Migrate(ctx context.Context, url string) error {
	if err := migrate(ctx, url, migrations.FS); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// migrate applies the migrations in the same way as the store.
func migrate(ctx context.Context, url string, fsys fs.FS) error {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}

	db := stdlib.OpenDB(*cfg.ConnConfig)
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+migrations.Schema); err != nil {
		return err
	}

	provider, err := goose.NewProvider(goose.DialectPostgres, db, fsys,
		goose.WithTableName(migrations.VersionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// sweep drops the databases of programs that no longer run, and the templates that were not
// used for a day. It ignores errors.
func (c *cluster) sweep(ctx context.Context, conn *pgx.Conn) {
	const unused = `
		SELECT d.datname FROM pg_database AS d
		WHERE d.datname ~ $1 AND NOT EXISTS (
			SELECT FROM pg_stat_activity WHERE application_name = $2 || substring(d.datname FROM $1))
		OR d.datname ~ $3 AND d.datname <> $4
			AND shobj_description(d.oid, 'pg_database')::timestamptz < now() - interval '1 day'`

	tests, templates := "^"+testPrefix+"(.*)_[0-9]+$", "^"+templatePrefix
	rows, err := conn.Query(ctx, unused, tests, appPrefix, templates, c.template)
	if err != nil {
		return
	}

	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return
	}
	for _, name := range names {
		// Without FORCE: a database with a session is still in use.
		_, _ = conn.Exec(ctx, fmt.Sprintf(`DROP DATABASE IF EXISTS %s`, pgx.Identifier{name}.Sanitize()))
	}
}

// checkout returns a migrated, empty database.
func (c *cluster) checkout(ctx context.Context) (string, error) {
	c.mu.Lock()
	if n := len(c.free); n > 0 {
		name := c.free[n-1]
		c.free = c.free[:n-1]
		c.mu.Unlock()
		return name, nil
	}
	c.mu.Unlock()
	return c.clone(ctx)
}

// giveBack empties a database for the next test. If that is impossible, it drops it.
func (c *cluster) giveBack(ctx context.Context, name string) error {
	if clean, err := c.reset(ctx, name); err != nil || !clean {
		return c.drop(ctx, name)
	}

	c.mu.Lock()
	c.free = append(c.free, name)
	c.mu.Unlock()
	return nil
}

func (c *cluster) clone(ctx context.Context) (string, error) {
	name, err := c.create(ctx, c.template, "")
	if err != nil {
		return "", fmt.Errorf("clone the template: %w", err)
	}
	if err := c.learnShape(ctx, name); err != nil {
		return "", errors.Join(fmt.Errorf("read the schema: %w", err), c.drop(ctx, name))
	}
	return name, nil
}

func (c *cluster) createEmpty(ctx context.Context) (string, error) {
	name, err := c.create(ctx, "template0", "ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
	if err != nil {
		return "", fmt.Errorf("create a database: %w", err)
	}
	return name, nil
}

func (c *cluster) create(ctx context.Context, template, options string) (string, error) {
	name := fmt.Sprintf("%s%s_%d", testPrefix, c.run, c.made.Add(1))
	if c.fileCopy {
		options += " STRATEGY FILE_COPY" // for small databases, half the work of the default
	}
	_, err := c.admin.Exec(ctx, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE %s %s`, name, template, options))
	return name, err
}

func (c *cluster) drop(ctx context.Context, name string) error {
	if _, err := c.admin.Exec(ctx, fmt.Sprintf(`DROP DATABASE IF EXISTS %s WITH (FORCE)`, name)); err != nil {
		return fmt.Errorf("drop %s: %w", name, err)
	}
	return nil
}

// keepDatabase renames a database, so that sweep does not drop it.
func (c *cluster) keepDatabase(ctx context.Context, name string) (string, error) {
	kept := keptPrefix + strings.TrimPrefix(name, testPrefix)
	if _, err := c.admin.Exec(ctx, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1`,
		name); err != nil {
		return "", err
	}
	if _, err := c.admin.Exec(ctx, fmt.Sprintf(`ALTER DATABASE %s RENAME TO %s`, name, kept)); err != nil {
		return "", err
	}
	c.kept.Add(1)
	return kept, nil
}

// close drops the pooled databases and stops the server. If the database of a failed test was
// kept, a private server keeps running.
func (c *cluster) close(ctx context.Context) error {
	var err error
	if !c.server.Private {
		for _, name := range c.free {
			err = errors.Join(err, c.drop(ctx, name))
		}
	}

	c.admin.Close()
	if c.server.Private && c.kept.Load() > 0 {
		fmt.Fprintln(os.Stderr, "test database: the server keeps running with the kept databases:", c.server.URL)
		return err
	}
	return errors.Join(err, c.server.Close(ctx))
}

func hasDatabase(ctx context.Context, conn *pgx.Conn, name string) (exists bool, err error) {
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&exists)
	return exists, err
}

// withDatabase returns dsn with another database.
func withDatabase(dsn, name string) string {
	u, err := url.Parse(dsn)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return dsn + " dbname=" + name // keywords and values: the last dbname wins
	}

	u.Path = "/" + name
	q := u.Query()
	q.Del("dbname") // it would override the path
	u.RawQuery = q.Encode()
	return u.String()
}

// connect opens one connection. url may have parameters of a pool.
func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, cfg.ConnConfig)
}

// hashFS returns a hash of the salt and of all files.
func hashFS(fsys fs.FS, salt string) (string, error) {
	h := sha256.New()
	_, _ = h.Write([]byte(salt))
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(h, "%s %d\n%s", path, len(b), b)
		return err
	})
	return fmt.Sprintf("%.8x", h.Sum(nil)), err
}
