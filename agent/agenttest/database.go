package agenttest

import (
	"testing"

	"github.com/actlog/actlog/internal/testkit/testdb"
)

// Database returns the URL of a database of a test's own, for [agent.Open]. It is empty, and dropped or emptied at the
// end of the test: what was opened on it is closed before.
//
// The tests of a process share one private Postgres, which the first of them starts, in half a second, from the
// binaries that are installed, or else downloaded. It ends with the process. ACTLOG_TEST_DATABASE_URL names a server to
// take instead, with a role that may create databases. Where there is none, the test fails and says what can be done.
// With ACTLOG_TEST_KEEP=1, the databases of failed tests are kept.
//
// [agent.Open]: https://pkg.go.dev/github.com/actlog/actlog/agent#Open
func Database(tb testing.TB) string {
	tb.Helper()
	return testdb.New(tb).URL
}
