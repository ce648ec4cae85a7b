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

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
)

// statements counts what the driver sends.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// countedBy counts a store's statements, without those that look for traces whose rows are due.
func countedBy(s *statements) func(*store.Config) {
	return func(c *store.Config) { c.Tracer, c.Project = s, nil }
}

// count returns how many statements do takes.
func (s *statements) count(do func()) int64 {
	before := s.n.Load()
	do()
	return s.n.Load() - before
}

// B13, B20
func TestEachReadIsOneStatement(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what Postgres plans and reads")
	t.Parallel()
	db := pgtest.New(t)
	writer := serveWith(t, options{DB: db})
	for _, plans := range []int{1, 10, 200} {
		root := fmt.Sprint("tree-", plans)
		s := root + "-s"
		records := []any{plan(root), step(root, root, s), cycle(root, s, 0), wait(root, root, "w")}
		for i := range plans - 1 {
			call, sub := fmt.Sprintf("%s-t%d", root, i), fmt.Sprintf("%s-p%d", root, i)
			records = append(records, tool(root, s, i%7, call, obj{"result": "{}"}), subPlan(root, sub, root, call),
				step(root, sub, sub+"-s"), tool(root, sub+"-s", 0, call+"-t"))
		}
		writer.Write(records...)

		for name, path := range map[string]string{
			"details": details + root, "step": agentExecution + s, "native": "/api/v1/plans/" + root,
		} {
			t.Run(fmt.Sprintf("%s of %d plans", name, plans), func(t *testing.T) {
				t.Parallel()
				var sent statements
				c := serveWith(t, options{DB: db, Store: countedBy(&sent)})
				for _, pool := range []string{"cold", "warm"} {
					if n := sent.count(func() { c.Read(path) }); n != 1 {
						t.Errorf("%s: %d statements", pool, n)
					}
				}
			})
		}
	}
}

// B2, B13: a second statement serves the exception, if one waits.
func TestAWaitingExceptionIsASecondStatement(t *testing.T) {
	t.Parallel()
	var sent statements
	c := serveWith(t, options{Store: countedBy(&sent)})
	c.Write(plan("p", obj{"exception": "boom"}))
	for i, want := range []int64{2, 1} {
		if n := sent.count(func() { c.exception("p") }); n != want {
			t.Errorf("read %d: %d statements, want %d", i, n, want)
		}
	}
}

func TestWithoutADatabase(t *testing.T) {
	t.Parallel()
	db, name, allow := apitest.Outages(t)
	serveWith(t, options{DB: db}).Write(plan("p"), step("p", "p", "s"))
	c := serveWith(t, options{DB: db, Store: func(c *store.Config) { c.RetryFor = time.Millisecond }})
	patient := serveWith(t, options{
		DB: db, Store: func(c *store.Config) {
			c.RetryFor = time.Hour
		}, Server: func(c *apitest.Config) { c.ExportTimeout = time.Millisecond },
	})

	wantStatus(t, c.Get("/readyz"), http.StatusOK)
	allow(false)
	for range 2 { // with connections that are dead, and without any
		for _, path := range []string{
			"/readyz", details + "p", details + "nobody", agentExecution + "s", agentExecution + "nobody", "/api/v1/plans",
			"/api/v1/plans/p", "/api/v1/steps/s",
		} {
			a := wantStatus(t, c.Get(path), http.StatusServiceUnavailable)
			if a.Header.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", path)
			}
			if strings.Contains(string(a.Body), name) {
				t.Errorf("%s names the database: %s", path, a.Body)
			}
		}

		wantStatus(t, c.Do(http.MethodDelete, details+"p", nil), http.StatusServiceUnavailable)
		wantStatus(t, c.Do(http.MethodPost, "/api/v1/records",
			strings.NewReader(`{"records":[{"kind":"plan","rootPlanId":"p","currentPlanId":"p"}]}`), "Content-Type",
			"application/json"), http.StatusServiceUnavailable)

		for contentType, encode := range apitest.Encodings {
			apitest.WantRefused(t, c.Export("/v1/traces", contentType, encode(t, apitest.AgentTrace(1, nil))),
				http.StatusServiceUnavailable, contentType, "cannot be reached")
			// whichever is first
			apitest.WantRefused(t, patient.Export("/v1/traces", contentType, encode(t, apitest.AgentTrace(1, nil))),
				http.StatusServiceUnavailable, contentType, "")
			apitest.WantTaken(t, c.Export("/v1/metrics", contentType, nil), contentType)
		}

		wantStatus(t, c.Get("/livez"), http.StatusOK)
		wantStatus(t, c.Get("/openapi.yaml"), http.StatusOK)
	}

	allow(true)
	wantStatus(t, c.Get("/readyz"), http.StatusOK)
	expect(t, c.Details("p"), obj{"currentPlanId": "p"})
}

// TestWritesThatWait too long are answered with the cause. Reads go on, so the server is ready.
func TestWritesThatWait(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var full atomic.Bool
	c := serveWith(t, options{DB: db, Store: func(c *store.Config) {
		c.RetryFor = 4 * time.Second
		c.CheckRoom = func() error {
			if full.Load() {
				return errors.New("no room in /some/folder")
			}
			return nil
		}
	}})

	c.Write(plan("p"))

	refused := func(says string) {
		t.Helper()
		a := c.Do(http.MethodPost, "/api/v1/records",
			strings.NewReader(`{"kind":"plan","rootPlanId":"p","currentPlanId":"p","title":"x"}`), "Content-Type",
			"application/x-ndjson")
		wantProblem(t, a, http.StatusServiceUnavailable, nil)
		if !strings.Contains(string(a.Body), says) || strings.Contains(string(a.Body), "folder") ||
			a.Header.Get("Retry-After") == "" {
			t.Errorf("answered %s, want %q and Retry-After", a.Body, says)
		}

		wantStatus(t, c.Get("/readyz"), http.StatusOK)
		expect(t, c.Details("p"), obj{"currentPlanId": "p", "title": nil})
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
	c.Write(plan("p", obj{"title": "y"}))
	expect(t, c.Details("p"), obj{"title": "y"})
}

func TestReadyNeedsMigrations(t *testing.T) {
	t.Parallel()
	db := pgtest.Fresh(t)
	c := serveWith(t, options{DB: db})
	c.Exec("DELETE FROM actlog.schema_version WHERE version_id > 0")
	wantProblem(t, c.Get("/readyz"), http.StatusServiceUnavailable, nil)
}

// TestHealthTellsLittle: S11. Without a key that may read, health checks say whether the server works and nothing of
// its database. Where no key is needed, or with one, they say how the database stands.
func TestHealthTellsLittle(t *testing.T) {
	t.Parallel()
	reads, readsLine := apitest.NewKey(t, "reader", httpd.ScopeRead)
	writes, writesLine := apitest.NewKey(t, "writer", httpd.ScopeWrite)
	wrong, _ := apitest.NewKey(t, "wrong", httpd.ScopeRead)
	c := serveWith(t, options{Server: func(c *apitest.Config) { c.HTTP.Keys = apitest.Keys(t, readsLine, writesLine) }})

	for key, all := range map[string]bool{"": false, wrong: false, writes: false, reads: true} {
		if body := string(wantStatus(t, c.As(key).Get("/readyz"), http.StatusOK).Body); (body != "ok\n") != all || all &&
			!strings.Contains(body, "timeline: ") {
			t.Errorf("/readyz: %q", body)
		}
		wantStatus(t, c.As(key).Get("/readyz", "X-Api-Key", reads), http.StatusOK)
		if body := string(wantStatus(t, c.As(key).Get("/livez"), http.StatusOK).Body); body != "ok\n" {
			t.Errorf("/livez: %q", body)
		}
	}

	if body := string(serve(t).Get("/readyz").Body); !strings.Contains(body, "timeline: ") {
		t.Errorf("without keys: %q", body)
	}

	c.CloseStore()
	a := wantStatus(t, c.Get("/readyz"), http.StatusServiceUnavailable)
	for _, told := range []string{"postgres", "127.0.0.1", "timeline", "primary", "dial"} {
		if strings.Contains(string(a.Body), told) {
			t.Errorf("a.Body = %s", a.Body)
		}
	}
}

// TestErrorsTellLittle: who has no key learns no version, path or name from what refuses him, and the same of an id
// that is there and of one that is not.
func TestErrorsTellLittle(t *testing.T) {
	t.Parallel()
	secret, line := apitest.NewKey(t, "reader", httpd.ScopeRead, httpd.ScopeWrite)
	c := serveWith(t, options{Server: func(c *apitest.Config) {
		c.HTTP.Keys, c.HTTP.Version = apitest.Keys(t, line), "v9.9.9-hidden"
	}})
	c.As(secret).Write(plan("there"))
	wrong, _ := apitest.NewKey(t, "wrong", httpd.ScopeRead)

	for _, key := range []string{"", wrong, "x", secret[:len(secret)-1], secret + "x"} {
		var said string
		for _, path := range []string{
			"/metrics", "/api/v1/plans/there", "/api/v1/plans/none", "/api/v1/limits", "/nowhere", "/api/v1/events",
		} {
			a := wantStatus(t, c.As(key).Outside(http.MethodGet, path), http.StatusUnauthorized)
			if said == "" {
				said = string(a.Body)
			}

			if string(a.Body) != said || a.Header.Get("Server") != "" {
				t.Errorf("%s: %v %s", path, a.Header, a.Body)
			}
			for _, hidden := range []string{"hidden", "reader", "go1.", "/work", "labstack"} {
				if strings.Contains(string(a.Body), hidden) {
					t.Errorf("%s: %s", path, a.Body)
				}
			}
		}
	}
}
