package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/api"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
)

// statements counts what the driver sends.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// countedBy has a store's statements counted, without those that look for traces
// whose rows are due.
func countedBy(s *statements) func(*store.Config) {
	return func(c *store.Config) { c.Tracer, c.Project = s, nil }
}

// count tells how many statements do takes.
func (s *statements) count(do func()) int64 {
	before := s.n.Load()
	do()
	return s.n.Load() - before
}

// B13, B20
func TestEachReadIsOneStatement(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	writer := serveWith(t, options{db: db})
	for _, plans := range []int{1, 10, 200} {
		root := fmt.Sprint("tree-", plans)
		s := root + "-s"
		records := []any{plan(root), step(root, root, s), cycle(root, s, 0), wait(root, root, "w")}
		for i := range plans - 1 {
			call, sub := fmt.Sprintf("%s-t%d", root, i), fmt.Sprintf("%s-p%d", root, i)
			records = append(records, tool(root, s, i%7, call, obj{"result": "{}"}), subPlan(root, sub, root, call), step(root, sub, sub+"-s"), tool(root, sub+"-s", 0, call+"-t"))
		}
		writer.write(records...)
		for name, path := range map[string]string{"details": details + root, "step": agentExecution + s, "native": "/api/v1/plans/" + root} {
			t.Run(fmt.Sprintf("%s of %d plans", name, plans), func(t *testing.T) {
				t.Parallel()
				var sent statements
				c := serveWith(t, options{db: db, store: countedBy(&sent)})
				for _, pool := range []string{"cold", "warm"} {
					if n := sent.count(func() { c.read(path) }); n != 1 {
						t.Errorf("%s: %d statements", pool, n)
					}
				}
			})
		}
	}
}

// B2, B13: a second statement takes the exception, and only then.
func TestAWaitingExceptionIsASecondStatement(t *testing.T) {
	t.Parallel()
	var sent statements
	c := serveWith(t, options{store: countedBy(&sent)})
	c.write(plan("p", obj{"exception": "boom"}))
	for i, want := range []int64{2, 1} {
		if n := sent.count(func() { c.exception("p") }); n != want {
			t.Errorf("read %d: %d statements, want %d", i, n, want)
		}
	}
}

func TestForeignHostIsRefused(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{server: func(c *api.Config) { c.LoopbackOnly = true }})
	for _, host := range []string{"localhost", "LOCALHOST:8420", "127.0.0.1:8420", "127.8.9.1", "[::1]:8420", "[::1]", "actlog.localhost:1", "localhost.", "localhost.:8420", "127.0.0.1.", "[::ffff:127.0.0.1]:80"} {
		wantStatus(t, c.get("/livez", "Host", host), http.StatusOK)
	}
	for _, host := range []string{"evil.example", "evil.example:8420", "localhost.evil.example", "127.0.0.1.nip.io", "10.0.0.1:8420", "[2001:db8::1]", "0.0.0.0", "notlocalhost"} {
		for _, path := range []string{"/livez", details + "p", "/api/v1/plans", "/openapi.yaml", "/readyz"} {
			wantProblem(t, c.get(path, "Host", host), http.StatusForbidden, nil)
		}
		wantProblem(t, c.do(http.MethodPost, "/api/v1/records", strings.NewReader(`{"records":[]}`), "Host", host, "Content-Type", "application/json"), http.StatusForbidden, nil)
	}
	open := serve(t)
	wantStatus(t, open.get("/livez", "Host", "evil.example"), http.StatusOK)
}

func TestWithoutADatabase(t *testing.T) {
	t.Parallel()
	db, admin := pgtest.Fresh(t), pgtest.New(t)
	var name string
	if err := db.Pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	db.Pool.Reset()
	serveWith(t, options{db: db}).write(plan("p"), step("p", "p", "s"))
	c := serveWith(t, options{db: db, store: func(c *store.Config) { c.RetryFor = time.Millisecond }})
	patient := serveWith(t, options{
		db: db, store: func(c *store.Config) { c.RetryFor = time.Hour }, server: func(c *api.Config) { c.ExportTimeout = time.Millisecond },
	})
	wantStatus(t, c.get("/readyz"), http.StatusOK)
	allow := func(v bool) {
		t.Helper()
		for _, sql := range []string{
			fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS %v", pgx.Identifier{name}.Sanitize(), v),
			"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '" + name + "'",
		} {
			if _, err := admin.Pool.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	allow(false)
	for range 2 { // with connections that are dead, and without any
		for _, path := range []string{"/readyz", details + "p", details + "nobody", agentExecution + "s", agentExecution + "nobody", "/api/v1/plans", "/api/v1/plans/p", "/api/v1/steps/s"} {
			a := wantStatus(t, c.get(path), http.StatusServiceUnavailable)
			if a.header.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", path)
			}
			if strings.Contains(string(a.body), name) {
				t.Errorf("%s tells of the database: %s", path, a.body)
			}
		}
		wantStatus(t, c.do(http.MethodDelete, details+"p", nil), http.StatusServiceUnavailable)
		wantStatus(t, c.do(http.MethodPost, "/api/v1/records", strings.NewReader(`{"records":[{"kind":"plan","rootPlanId":"p","currentPlanId":"p"}]}`), "Content-Type", "application/json"), http.StatusServiceUnavailable)
		for contentType, encode := range encodings {
			wantRefused(t, c.export("/v1/traces", contentType, encode(t, agentTrace(1, nil))), http.StatusServiceUnavailable, contentType, "cannot be reached")
			wantRefused(t, patient.export("/v1/traces", contentType, encode(t, agentTrace(1, nil))), http.StatusServiceUnavailable, contentType, "") // whichever is first
			wantTaken(t, c.export("/v1/metrics", contentType, nil), contentType)
		}
		wantStatus(t, c.get("/livez"), http.StatusOK)
		wantStatus(t, c.get("/openapi.yaml"), http.StatusOK)
	}
	allow(true)
	wantStatus(t, c.get("/readyz"), http.StatusOK)
	expect(t, c.details("p"), obj{"currentPlanId": "p"})
}

// TestWritesThatWait in vain are told for what. Reads go on, and so the server is
// ready.
func TestWritesThatWait(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var full atomic.Bool
	c := serveWith(t, options{db: db, store: func(c *store.Config) {
		c.RetryFor = 4 * time.Second
		c.Room = func() error {
			if full.Load() {
				return errors.New("no room in /some/folder")
			}
			return nil
		}
	}})
	c.write(plan("p"))
	refused := func(says string) {
		t.Helper()
		a := c.do(http.MethodPost, "/api/v1/records", strings.NewReader(`{"kind":"plan","rootPlanId":"p","currentPlanId":"p","title":"x"}`), "Content-Type", "application/x-ndjson")
		wantProblem(t, a, http.StatusServiceUnavailable, nil)
		if !strings.Contains(string(a.body), says) || strings.Contains(string(a.body), "folder") || a.header.Get("Retry-After") == "" {
			t.Errorf("answered %s, want %q and Retry-After", a.body, says)
		}
		wantStatus(t, c.get("/readyz"), http.StatusOK)
		expect(t, c.details("p"), obj{"currentPlanId": "p", "title": nil})
	}
	full.Store(true)
	refused("disk is full")
	full.Store(false)

	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM actlog.plan_execution_record FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	refused("a row of plan p is locked by another session")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.write(plan("p", obj{"title": "y"}))
	expect(t, c.details("p"), obj{"title": "y"})
}

func TestReadyNeedsMigrations(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	c := serveWith(t, options{db: db})
	c.exec("DELETE FROM actlog.goose_db_version WHERE version_id > 0")
	wantProblem(t, c.get("/readyz"), http.StatusServiceUnavailable, nil)
}

func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	c := serve(t)
	wantProblem(t, c.get("/api/v2/plans"), http.StatusNotFound, nil)
	wantProblem(t, c.do(http.MethodPut, "/api/v1/plans", nil), http.StatusMethodNotAllowed, nil)
}
