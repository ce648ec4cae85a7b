// Package pgtest gives each test a migrated, empty, isolated database of a real
// Postgres, in milliseconds.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// and its tests call New (nearly always), Fresh or Empty. They never skip: without a
// Postgres, and without a way to get one, they fail and name the ways out.
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

// keepEnv, when not empty, keeps the databases of failed tests, and the server with them.
const keepEnv = "ACTLOG_TEST_KEEP"

// DB is a database of its own for one test.
type DB struct {
	// URL connects to the database, as a superuser unless TEST_DATABASE_URL names a
	// lesser role.
	URL string

	// Pool has at most 4 connections, and none before its first use. It is closed
	// when the test ends.
	Pool *pgxpool.Pool
}

// New returns a migrated, empty database. When the test ends its sessions are
// terminated, its rows deleted, and the next test gets it; so a test may write whatever
// it likes, but one that alters the schema on purpose takes Fresh.
// Sequences go on from where they were.
func New(t testing.TB) *DB {
	t.Helper()
	return lend(t, (*cluster).checkout, (*cluster).giveBack)
}

// Fresh returns a migrated, empty database that is dropped when the test ends: for
// tests that alter the schema.
func Fresh(t testing.TB) *DB {
	t.Helper()
	return lend(t, (*cluster).clone, (*cluster).drop)
}

// Empty returns a database without any schema of ours that is dropped when the test
// ends: for tests of the migrations.
func Empty(t testing.TB) *DB {
	t.Helper()
	return lend(t, (*cluster).createEmpty, (*cluster).drop)
}

// Main runs the tests of a package, stops the server that they started, and fails them
// when they leave goroutines behind, those in ignore apart. It does not return.
func Main(m *testing.M, ignore ...goleak.Option) {
	ctx, cancel := context.WithCancel(context.Background())
	shared.ctx = ctx

	// A private server would outlive a program that ends by Ctrl-C.
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
		// The reaper of testcontainers stays connected for as long as the program lives.
		ignore = append(ignore, goleak.IgnoreAnyFunction("github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1"))
		if err := goleak.Find(ignore...); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// shared is the cluster of this test binary, opened by the first test that needs it.
var shared lazyCluster

// lend takes a database for the test t and gives it back after.
func lend(t testing.TB, take func(*cluster, context.Context) (string, error), back func(*cluster, context.Context, string) error) *DB {
	t.Helper()
	c, err := shared.get(t)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return c.lend(t, take, back)
}

func (c *cluster) lend(t testing.TB, take func(*cluster, context.Context) (string, error), back func(*cluster, context.Context, string) error) *DB {
	t.Helper()
	name, err := take(c, t.Context())
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	db := &DB{URL: withDatabase(c.url, name)}
	t.Cleanup(func() {
		// The context of t is over by now.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if t.Failed() && c.keep {
			kept, err := c.keepDatabase(ctx, name)
			if err == nil {
				t.Logf("pgtest: kept the database: %s", withDatabase(c.url, kept))
				return
			}
			t.Logf("pgtest: keeping the database: %v", err)
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
	ctx context.Context // of Main, nil without it

	mu      sync.Mutex
	cluster *cluster
	err     error
	closed  bool
}

func (l *lazyCluster) get(t testing.TB) (*cluster, error) { //nolint:thelper // no helper: what fails here is the server, not the caller
	if l.ctx == nil {
		return nil, errors.New("this package needs `func TestMain(m *testing.M) { pgtest.Main(m) }`")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cluster != nil || l.err != nil {
		return l.cluster, l.err
	}
	if l.closed {
		return nil, errors.New("the tests are over")
	}
	// Not the context of t: the server is for those that come after, too.
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

// take ends the lending and returns the cluster, if there is one.
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

// abort stops the server under tests that still run.
func (l *lazyCluster) abort() {
	if c := l.take(); c != nil {
		_ = c.server.Close(context.Background())
	}
}
