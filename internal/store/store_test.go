package store_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// open opens the record in a database of the test's own.
func open(t testing.TB, options ...func(*store.Config)) *store.Store {
	t.Helper()
	return openURL(t, pgtest.New(t).URL, options...)
}

func openURL(t testing.TB, url string, options ...func(*store.Config)) *store.Store {
	t.Helper()
	config := store.Config{DatabaseURL: url, Logger: slog.New(slog.NewTextHandler(logWriter{t}, nil)), MaxConns: 4}
	for _, o := range options {
		o(&config)
	}
	s, err := store.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

type logWriter struct{ t testing.TB }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// write writes changes and fails the test where one is refused.
func write(t testing.TB, s *store.Store, changes ...record.Change) {
	t.Helper()
	result, err := s.Write(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range result.Rejected {
		t.Errorf("change %d was refused: %v", r.Index, r.Err)
	}
}

func planTree(t testing.TB, s *store.Store, id string) *tree.Plan {
	t.Helper()
	p, _, err := s.PlanTree(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func stepDetail(t testing.TB, s *store.Store, id string) *tree.Step {
	t.Helper()
	st, err := s.StepDetail(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// statements counts what the driver sends.
type statements struct{ n atomic.Int64 }

func (c *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (c *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// count tells how many statements do takes.
func (c *statements) count(do func()) int64 {
	before := c.n.Load()
	do()
	return c.n.Load() - before
}

func at(second int) *time.Time {
	return new(time.Date(2026, 11, 20, 12, 0, second, 0, time.UTC))
}

// dump gives everything that the reads say about a plan, without row numbers and
// with the root's own id taken out of it.
func dump(t testing.TB, s *store.Store, root string) string {
	t.Helper()
	p := planTree(t, s, root)
	var out strings.Builder
	var steps []string
	var visit func(*tree.Plan)
	visit = func(p *tree.Plan) {
		p.ID = 0
		if p.ToolCall != nil {
			p.ToolCall.ID = 0
		}
		for _, st := range p.Steps {
			st.ID = 0
			steps = append(steps, st.Record.StepID)
		}
		for c := range p.Children() {
			visit(c)
		}
	}
	visit(p)
	encode := func(v any) {
		b, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
		out.WriteByte('\n')
	}
	encode(p)
	for _, id := range steps {
		st := stepDetail(t, s, id)
		st.ID = 0
		for _, c := range st.Cycles {
			c.ID = 0
			for _, tool := range c.ToolCalls {
				tool.ID = 0
			}
		}
		encode(st)
	}
	return strings.ReplaceAll(out.String(), root, "ROOT")
}

func newDB(t testing.TB) string {
	t.Helper()
	return pgtest.New(t).URL
}

func openClosed(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{DatabaseURL: newDB(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func query[T any](t testing.TB, s *store.Store, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := store.Pool(s).QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func exec(t testing.TB, s *store.Store, sql string, args ...any) {
	t.Helper()
	if _, err := store.Pool(s).Exec(context.Background(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// TestASilentTransactionEnds by itself, and what comes on its connection afterwards is
// as patient as ever.
func TestASilentTransactionEnds(t *testing.T) {
	t.Parallel()
	s := open(t)
	const timeout = "SELECT current_setting('idle_in_transaction_session_timeout')"
	var within string
	err := store.Transact(s, t.Context(), func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), timeout).Scan(&within)
	})
	if err != nil {
		t.Fatal(err)
	}
	if after := query[string](t, s, timeout); within != "1min" || after != "0" {
		t.Errorf("%s within, %s after", within, after)
	}
}
