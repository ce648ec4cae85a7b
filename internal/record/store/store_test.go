package store_test

import (
	"context"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// smallQueue makes room for one batch.
func smallQueue(c *store.Config) { c.QueueRows, c.QueueBytes = 2000, 8<<20 }

func withTracer(tracer pgx.QueryTracer) func(*store.Config) {
	return func(c *store.Config) { c.Tracer = tracer }
}

// statementCounter counts the statements that the driver sends.
type statementCounter struct{ n atomic.Int64 }

func (c *statementCounter) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData,
) context.Context {
	c.n.Add(1)
	return ctx
}

func (c *statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// count returns how many statements do sends.
func (c *statementCounter) count(do func()) int64 {
	before := c.n.Load()
	do()
	return c.n.Load() - before
}

var at = storetest.At // used in almost every row

func execSQL(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// editURL returns a URL after a change to it.
func editURL(t testing.TB, raw string, edit func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	edit(u)
	return u.String()
}

// withParam returns a database URL with one more parameter.
func withParam(t testing.TB, databaseURL, name, value string) string {
	t.Helper()
	return editURL(t, databaseURL, func(u *url.URL) {
		q := u.Query()
		q.Set(name, value)
		u.RawQuery = q.Encode()
	})
}

// refused returns the places of the refused changes.
func refused(result record.Result) (places []int) {
	for _, r := range result.Rejected {
		places = append(places, r.Index)
	}
	return places
}

func openClosed(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{DatabaseURL: pgtest.New(t).URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestIdleTransactionTimeout checks that Postgres ends a transaction that is idle for a minute,
// and that the timeout does not outlive the transaction.
func TestIdleTransactionTimeout(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	const timeout = "SELECT current_setting('idle_in_transaction_session_timeout')"
	var within string
	err := s.DB().Transact(t.Context(), func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), timeout).Scan(&within)
	})
	if err != nil {
		t.Fatal(err)
	}

	if after := storetest.Query[string](t, s, timeout); within != "1min" || after != "0" {
		t.Errorf("timeout within the transaction %s, after it %s", within, after)
	}
}
