// Package pgtest provides each test with a migrated, empty, isolated database of a real
// Postgres, in milliseconds.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// Its tests call New (nearly always), Fresh or Empty. They are never skipped: if no Postgres
// can be found or started, they fail and the error lists what the user can do.
package pgtest

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
	"go.uber.org/goleak"

	"github.com/actlog/actlog/migrations"
)

// keepEnv is an environment variable. If it is not empty, the databases of failed tests are
// kept, and so is the server.
const keepEnv = "ACTLOG_TEST_KEEP"

// DB is the database of one test.
type DB struct {
	// URL is the address of the database. The role is a superuser, unless TEST_DATABASE_URL
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

// Main runs the tests of a package and stops the server that they started. It fails if the
// tests leave goroutines behind, except for those in ignore. It does not return.
func Main(m *testing.M, ignore ...goleak.Option) {
	ctx, cancel := context.WithCancel(context.Background())
	shared.ctx = ctx

	// Without this, a private server would keep running after Ctrl-C.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if sig, ok := <-signals; ok {
			cancel()
			shared.abort()
			fmt.Fprintln(os.Stderr, "pgtest: stopped by", sig)
			os.Exit(1)
		}
	}()

	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}

	signal.Stop(signals)
	close(signals)
	cancel()
	if code == 0 {
		// The reaper of testcontainers stays connected until the program ends.
		ignore = append(
			ignore, goleak.IgnoreAnyFunction("github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1"),
		)
		if err := goleak.Find(ignore...); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// shared is the cluster of this test binary. The first test that needs it opens it.
var shared lazyCluster

// lend takes a database for the test and calls back with it at the end of the test.
func lend(
	t testing.TB, take func(*cluster, context.Context) (string, error), back func(*cluster, context.Context, string) error,
) *DB {
	t.Helper()
	c, err := shared.get(t)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return c.lend(t, take, back)
}

func (c *cluster) lend(
	t testing.TB, take func(*cluster, context.Context) (string, error), back func(*cluster, context.Context, string) error,
) *DB {
	t.Helper()
	name, err := take(c, t.Context())
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	db := &DB{URL: withDatabase(c.url, name)}
	t.Cleanup(func() {
		// The context of t has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()

		if t.Failed() && c.keep {
			kept, err := c.keepDatabase(ctx, name)
			if err == nil {
				t.Logf("pgtest: kept the database: %s", withDatabase(c.url, kept))
				return
			}
			t.Logf("pgtest: keep the database: %v", err)
		}

		if err := back(c, ctx, name); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})

	cfg, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	cfg.MaxConns = 4
	if db.Pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(db.Pool.Close)
	return db
}

type lazyCluster struct {
	ctx context.Context // set by Main

	mu      sync.Mutex
	cluster *cluster
	err     error
	closed  bool
}

func (l *lazyCluster) get(t testing.TB) (*cluster, error) { //nolint:thelper // the server fails, not the caller
	if l.ctx == nil {
		return nil, errors.New("this package needs `func TestMain(m *testing.M) { pgtest.Main(m) }`")
	}

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
	server, err := StartServer(ctx, t.Logf)
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
