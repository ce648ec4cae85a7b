// Package testdb lends each test a migrated, empty, isolated database of a real Postgres, in milliseconds. All tests of
// a process share one server, which the first of them starts.
package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/migrations"
)

// keepEnv is an environment variable. If it is not empty, the databases of failed tests are
// kept, and so is the server.
const keepEnv = "ACTLOG_TEST_KEEP"

// DB is the database of one test.
type DB struct {
	// URL is the address of the database. The role is a superuser, unless the address of the server
	// has another role.
	URL string

	// Pool has at most 4 connections, and none before its first use. It is closed at the end
	// of the test.
	Pool *pgxpool.Pool
}

// New returns a migrated, empty database. At the end of the test its sessions are terminated,
// its rows are deleted, and another test may get it. Sequences are not reset. A test that
// changes the schema uses Fresh instead.
func New(t testing.TB) *DB {
	t.Helper()
	return lend(t, (*cluster).checkout, (*cluster).giveBack)
}

// Fresh returns a migrated, empty database, for tests that change the schema. It is dropped at
// the end of the test.
func Fresh(t testing.TB) *DB {
	t.Helper()
	return lend(t, (*cluster).clone, (*cluster).drop)
}

// Empty returns a database without the schema of this product, for tests of the migrations. It
// is dropped at the end of the test.
func Empty(t testing.TB) *DB {
	t.Helper()
	return lend(t, (*cluster).createEmpty, (*cluster).drop)
}

// Starter starts the server of a process, or finds one. It reports which to logf.
type Starter func(ctx context.Context, logf func(format string, args ...any)) (*Server, error)

// Run runs the tests of a package with a server of their own, and stops it with them. It returns the exit code. Without
// Run, the server of a process is that of [Start].
func Run(m *testing.M, start Starter) (code int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	shared.ctx, shared.start = ctx, start

	// Without this, a private server would go on until somebody else starts one.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if sig, ok := <-signals; ok {
			cancel()
			shared.abort()
			fmt.Fprintln(os.Stderr, "test database: stopped by", sig)
			os.Exit(1)
		}
	}()

	code = m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "test database:", err)
		code = max(code, 1)
	}

	signal.Stop(signals)
	close(signals)
	return code
}

// shared is the cluster of this process. The first test that needs it opens it.
var shared = lazyCluster{ctx: context.Background(), start: Start}

// lend takes a database for the test and calls back with it at the end of the test.
func lend(
	t testing.TB, take func(*cluster, context.Context) (string, error), back func(*cluster, context.Context, string) error,
) *DB {
	t.Helper()
	c, err := shared.get(t)
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	return c.lend(t, take, back)
}

func (c *cluster) lend(
	t testing.TB, take func(*cluster, context.Context) (string, error), back func(*cluster, context.Context, string) error,
) *DB {
	t.Helper()
	name, err := take(c, t.Context())
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	db := &DB{URL: withDatabase(c.url, name)}
	t.Cleanup(func() {
		// The context of t has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()

		if t.Failed() && c.keep {
			kept, err := c.keepDatabase(ctx, name)
			if err == nil {
				t.Logf("test database: kept: %s", withDatabase(c.url, kept))
				return
			}
			t.Logf("test database: keep it: %v", err)
		}

		if err := back(c, ctx, name); err != nil {
			t.Errorf("test database: %v", err)
		}
	})

	cfg, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	cfg.MaxConns = 4
	if db.Pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		t.Fatalf("test database: %v", err)
	}
	t.Cleanup(db.Pool.Close)
	return db
}

type lazyCluster struct {
	ctx   context.Context
	start Starter

	mu      sync.Mutex
	cluster *cluster
	err     error
	closed  bool
}

func (l *lazyCluster) get(t testing.TB) (*cluster, error) { //nolint:thelper // the server fails, not the caller
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.cluster != nil || l.err != nil {
		return l.cluster, l.err
	}
	if l.closed {
		return nil, errors.New("the tests have ended")
	}

	// Not the context of t: later tests use the server too.
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Minute)
	defer cancel()
	server, err := l.start(ctx, t.Logf)
	if err != nil {
		l.err = err
		return nil, err
	}

	l.cluster, l.err = openCluster(ctx, server, migrations.FS)
	if l.err != nil {
		l.err = errors.Join(l.err, server.Close(context.WithoutCancel(ctx)))
	}
	return l.cluster, l.err
}

// take returns the cluster, if there is one. From then on, get fails.
func (l *lazyCluster) take() *cluster {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.cluster
	l.cluster, l.closed = nil, true
	return c
}

func (l *lazyCluster) close() error {
	c := l.take()
	if c == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.close(ctx)
}

// abort stops the server although tests are still running.
func (l *lazyCluster) abort() {
	if c := l.take(); c != nil {
		_ = c.server.Close(context.Background())
	}
}
