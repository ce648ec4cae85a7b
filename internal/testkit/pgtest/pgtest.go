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
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/actlog/actlog/internal/testkit/testdb"
)

// DB is the database of one test.
type DB = testdb.DB

// New returns a migrated, empty database, see [testdb.New].
func New(t testing.TB) *DB {
	t.Helper()
	needsMain(t)
	return testdb.New(t)
}

// Fresh returns a migrated, empty database, for tests that change the schema. It is dropped at
// the end of the test.
func Fresh(t testing.TB) *DB {
	t.Helper()
	needsMain(t)
	return testdb.Fresh(t)
}

// Empty returns a database without the schema of this product, for tests of the migrations. It
// is dropped at the end of the test.
func Empty(t testing.TB) *DB {
	t.Helper()
	needsMain(t)
	return testdb.Empty(t)
}

// inMain says that Main runs the tests.
var inMain atomic.Bool

func needsMain(t testing.TB) {
	t.Helper()
	if !inMain.Load() {
		t.Fatalf("pgtest: this package needs `func TestMain(m *testing.M) { pgtest.Main(m) }`")
	}
}

// Main runs the tests of a package and stops the server that they started. It fails if the
// tests leave goroutines behind, except for those in ignore. It does not return.
func Main(m *testing.M, ignore ...goleak.Option) {
	inMain.Store(true)
	code := testdb.Run(m, StartServer)
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

// Migrate migrates the database at url.
func Migrate(ctx context.Context, url string) error { return testdb.Migrate(ctx, url) }
