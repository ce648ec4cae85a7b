package httpd_test

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/trace/otlp"
)

// TestAReadThatTakesTooLong ends here, whatever holds up the database.
func TestAReadThatTakesTooLong(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(c *apitest.Config) { c.HTTP.ReadTimeout = 10 * time.Millisecond }})
	c.Write(plan("p"))
	tx, err := c.DB.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE actlog.plan_execution_record"); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{"/api/v1/plans", "/api/v1/plans/p", details + "p", "/api/v1/plans/p/waits"} {
		a := c.Get(path)
		wantProblem(t, a, http.StatusServiceUnavailable, nil)
		if !strings.Contains(string(a.Body), "in time") {
			t.Errorf("a.Body = %s", a.Body)
		}
	}

	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for c.Get("/api/v1/plans/p").Status != http.StatusOK { // the machine may be slow
	}
}

// TestPagesThatMaySend: only web pages of allowed origins may send, with a key if one is needed.
func TestPagesThatMaySend(t *testing.T) {
	t.Parallel()
	secret, line := apitest.NewKey(t, "page", httpd.ScopeWrite)
	const shop = "https://shop.example"
	c := serveWith(t, options{Server: func(config *apitest.Config) {
		config.HTTP.Keys = apitest.Keys(t, line)
		config.HTTP.Origins = []string{shop}
	}})

	for _, c := range []*client{c, c.OTLP(false)} {
		for origin, may := range map[string]bool{
			shop: true, "https://evil.example": false, "https://shop.example.evil.example": false, "null": false,
		} {
			want := map[bool]string{true: origin}[may]
			a := c.Preflight("/v1/traces", origin)
			wantStatus(t, a, http.StatusNoContent)
			if got := a.Header.Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("%s: allowed %q", origin, got)
			}
			if may && (a.Header.Get("Access-Control-Allow-Headers") != "authorization,content-type" ||
				a.Header.Get("Access-Control-Allow-Methods") != http.MethodPost) {
				t.Errorf("a.Header = %v", a.Header)
			}

			for key, status := range map[string]int{secret: http.StatusOK, "": http.StatusUnauthorized} {
				if !may {
					status = http.StatusForbidden
				}
				a := wantStatus(t, c.As(key).Export("/v1/traces", otlp.TypeJSON, []byte("{}"), "Origin", origin), status)
				if got := a.Header.Get("Access-Control-Allow-Origin"); got != want {
					t.Errorf("%s: the answer is for %q", origin, got)
				}
			}
		}
	}

	open := serveWith(t, options{Server: func(config *apitest.Config) { config.HTTP.Origins = []string{"*"} }})
	if a := open.Preflight("/v1/logs", shop); a.Status != http.StatusNoContent ||
		a.Header.Get("Access-Control-Allow-Origin") != shop {
		t.Errorf("a.Status = %d %v", a.Status, a.Header)
	}
	if a := c.Preflight("/api/v1/records", shop); a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("pages may write records")
	}
}

// TestForeignPages: N24: what a web page of another site makes a browser send changes nothing, and
// no browser guesses what an answer is.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p", obj{"exception": "boom"}))
	record := func() io.Reader {
		return strings.NewReader(`{"records":[{"kind":"plan","rootPlanId":"q","currentPlanId":"q"}]}`)
	}

	for _, path := range []string{details + "p", "/api/v1/plans/p"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodDelete} {
			a := c.Do(method, path, nil, "Sec-Fetch-Site", "cross-site")
			want := http.StatusForbidden
			if method != http.MethodDelete {
				want = http.StatusOK // and the exception stays
			}
			wantStatus(t, a, want)
			if a.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s %s: %v", method, path, a.Header)
			}
		}
	}

	wantProblem(t, c.Do(http.MethodPost, "/api/v1/records", record(), "Content-Type", "application/json",
		"Sec-Fetch-Site", "cross-site"), http.StatusForbidden, nil)
	wantStatus(t, c.Get("/api/v1/plans/q"), http.StatusNotFound)
	// a link leads there
	wantStatus(t, c.Get(details+"p", "Sec-Fetch-Site", "none"), http.StatusOK)
	// the exception, once
	wantStatus(t, c.Get(details+"p", "Sec-Fetch-Site", "same-origin"), http.StatusInternalServerError)

	for site, status := range map[string]int{
		"same-origin": http.StatusOK, "none": http.StatusOK, "same-site": http.StatusForbidden,
	} {
		wantStatus(t, c.Get(details+"p", "Sec-Fetch-Site", site), http.StatusOK)
		wantStatus(t, c.Do(http.MethodPost, "/api/v1/records", record(), "Content-Type", "application/json",
			"Sec-Fetch-Site", site), status)
	}

	const shop = "https://shop.example"
	c = serveWith(t, options{Server: func(config *apitest.Config) { config.HTTP.Origins = []string{shop} }})
	for origin, want := range map[string]int{shop: http.StatusOK, "https://evil.example": http.StatusForbidden} {
		wantStatus(t, c.Export("/v1/traces", otlp.TypeJSON, []byte("{}"), "Origin", origin, "Sec-Fetch-Site", "cross-site"),
			want)
	}
}

// TestTheLogHasALinePerRequest, and nothing of its content.
func TestTheLogHasALinePerRequest(t *testing.T) {
	t.Parallel()
	log := new(apitest.Log)
	secret, line := apitest.NewKey(t, "reader", httpd.ScopeRead, httpd.ScopeWrite)
	wrong, _ := apitest.NewKey(t, "wrong", httpd.ScopeRead)
	c := serveWith(t, options{Log: log, Server: func(config *apitest.Config) {
		config.HTTP.Keys = apitest.Keys(t, line)
	}}).As(secret)
	c.Write(plan("hidden-id", obj{"title": "hidden-title"}))

	c.Get("/api/v1/plans?q=hidden-query", "X-Request-Id", "id/1")
	c.Get(details+"hidden-id", "X-Request-Id", "id/2")
	c.Get("/hidden/path", "X-Request-Id", "id/3")
	c.Get("/livez", "X-Request-Id", "id/4")
	c.Do("HIDDEN", "/api/v1/plans", nil, "X-Request-Id", "id/5")
	c.As(wrong).Get("/api/v1/plans", "X-Request-Id", "id/6")
	c.Do(http.MethodPost, "/api/v1/records", strings.NewReader("hidden-body"), "X-Request-Id", "id/7", "Content-Type",
		"application/json")

	for id, want := range map[string][]string{
		"id/1": {"level=INFO", "method=GET", "route=/api/v1/plans", "status=200", "duration=", "bytes=", "key=reader"},
		"id/2": {"level=INFO", "route=/api/executor/details/:planId", "status=200"},
		"id/3": {"level=INFO", "route=unmatched", "status=404"},
		"id/4": {"level=DEBUG", "route=/livez", "status=200"},
		"id/5": {"level=INFO", "method=other", "status=405"},
		"id/6": {"level=INFO", "status=401", `key=""`},
		"id/7": {"level=INFO", "status=400", "route=/api/v1/records"},
	} {
		if found := log.Lines(append(want, "id="+id, "msg=request")...); len(found) != 1 {
			t.Errorf("%s: %d lines of %q in\n%s", id, len(found), want, log)
		}
	}

	for _, hidden := range []string{"hidden", "HIDDEN", secret, wrong, secret[7:], "Bearer"} {
		if found := log.Lines(hidden); len(found) > 0 {
			t.Errorf("the log has %q: %s", hidden, found)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, id := range []string{"a", "0af7651916cd43dd8448eb211c80319c", "a-b_c.d:e/f+g=h@i", strings.Repeat("x", 128)} {
		if got := c.Get("/livez", "X-Request-Id", id).Header.Get("X-Request-Id"); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}

	seen := map[string]bool{}
	for _, id := range []string{"", strings.Repeat("x", 129), "a b", "a\"b", "é", "a;b", "<a>"} {
		got := c.Get("/livez", "X-Request-Id", id).Header.Get("X-Request-Id")
		if len(got) < 20 || got == id || seen[got] {
			t.Errorf("%q became %q", id, got)
		}
		seen[got] = true
	}
}

func TestAPanicCostsOneRequest(t *testing.T) {
	t.Parallel()
	log := new(apitest.Log)
	server := httpd.New(httpd.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	handler := server.Handler(false,
		httpd.Route{Method: http.MethodGet, Path: "/panic", Need: httpd.ScopeNone, Handle: func(echo.Context) error {
			panic("a mistake")
		}},
		httpd.Route{Method: http.MethodGet, Path: "/fine", Need: httpd.ScopeNone, Handle: func(c echo.Context) error {
			return c.NoContent(http.StatusOK)
		}})

	get := func(path string) *http.Response {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Result()
	}

	resp := get("/panic")
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusInternalServerError ||
		resp.Header.Get("Content-Type") != "application/problem+json" || bytes.Contains(body, []byte("mistake")) {
		t.Errorf("resp.StatusCode = %d %s", resp.StatusCode, body)
	}
	if len(log.Lines("a mistake", "id="+resp.Header.Get("X-Request-Id"), "request_test.go")) != 1 {
		t.Errorf("the log does not say what happened:\n%s", log)
	}

	fine := get("/fine")
	defer fine.Body.Close()
	if fine.StatusCode != http.StatusOK {
		t.Errorf("the next request: %d", fine.StatusCode)
	}
}

// TestSlowClientsDoNotHoldUpOthers: 200 clients send half a request each.
func TestSlowClientsDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	c := serve(t)

	var slow sync.WaitGroup
	for i := range 200 {
		slow.Go(func() {
			conn := c.Dial()
			half := "GET /livez HTTP/1.1\r\nHost: loc"
			if i%2 == 0 {
				half = "POST /api/v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
					"Content-Length: 1000\r\n\r\n" + `{"records":[{"kind":`
			}
			if _, err := io.WriteString(conn, half); err != nil {
				t.Error(err)
			}
		})
	}

	slow.Wait()
	c.Write(plan("p"), step("p", "p", "s"))
	expect(t, c.Details("p"), obj{"agentExecutionSequence.#": 1})
	wantStatus(t, c.Get("/readyz"), http.StatusOK)
}

// TestGarbage gets an answer or a closed connection, and the server lives.
func TestGarbage(t *testing.T) {
	t.Parallel()
	c := serve(t)
	random := rand.New(rand.NewPCG(1, 2))
	garbage := []string{
		"", "\r\n\r\n", "GET", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "FROB /api/v1/plans HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT evil:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://evil/livez HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET //livez HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "GET /api/v1/plans/%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 2<<20) + "\r\n\r\n",
		"GET /" + strings.Repeat("a/", 100_000) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 200_000) + "\r\n",
		"POST /api/v1/records HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"POST /api/v1/records HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST /api/v1/records HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"zz\r\n",
		"POST /api/v1/records HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"ffffffffffffffff\r\n",
		"GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: \x00\r\n\r\n",
		"GET /livez HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\n\r\n",
	}
	for range 100 {
		b := make([]byte, random.IntN(2000))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		garbage = append(garbage, string(b))
	}

	for _, g := range garbage {
		conn := c.Dial()
		_, _ = io.WriteString(conn, g) // it may be cut off in the middle
		_ = conn.(*net.TCPConn).CloseWrite()
		answered, _ := io.ReadAll(conn) // or reset
		if len(answered) > 0 && !bytes.HasPrefix(answered, []byte("HTTP/1.")) {
			t.Errorf("%.50q is answered %.100q", g, answered)
		}
		conn.Close()
	}

	c.Write(plan("p"))
	wantStatus(t, c.Get("/livez"), http.StatusOK)
}

func TestForeignHostIsRefused(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(c *apitest.Config) { c.LoopbackOnly = true }})
	for _, host := range []string{
		"localhost", "LOCALHOST:8420", "127.0.0.1:8420", "127.8.9.1", "[::1]:8420", "[::1]", "actlog.localhost:1",
		"localhost.", "localhost.:8420", "127.0.0.1.", "[::ffff:127.0.0.1]:80",
	} {
		wantStatus(t, c.Get("/livez", "Host", host), http.StatusOK)
	}

	for _, host := range []string{
		"evil.example", "evil.example:8420", "localhost.evil.example", "127.0.0.1.nip.io", "10.0.0.1:8420", "[2001:db8::1]",
		"0.0.0.0", "notlocalhost",
	} {
		for _, path := range []string{"/livez", details + "p", "/api/v1/plans", "/openapi.yaml", "/readyz"} {
			wantProblem(t, c.Get(path, "Host", host), http.StatusForbidden, nil)
		}
		wantProblem(t, c.Do(http.MethodPost, "/api/v1/records", strings.NewReader(`{"records":[]}`), "Host", host,
			"Content-Type", "application/json"), http.StatusForbidden, nil)
	}

	open := serve(t)
	wantStatus(t, open.Get("/livez", "Host", "evil.example"), http.StatusOK)
}

// TestHostsWithoutKeys: S11. A server that others can reach without a key answers to its addresses and names only, or a
// web page could read the record by a name of its own that leads here.
func TestHostsWithoutKeys(t *testing.T) {
	t.Parallel()
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}

	good := []string{
		"localhost", "LOCALHOST:8420", "a.localhost", "127.0.0.1:8420", "[::1]:8420", "10.0.0.1:8420", "10.0.0.1",
		"[2001:db8::1]:1", "[2001:db8::1]",
		machine, strings.ToUpper(machine) + ":8420", machine + ".", "actlog.example", "Actlog.Example.:443", "actlog",
	}
	bad := []string{
		"evil.example", "evil.example:8420", "actlog.example.evil", "evil.actlog.example", "x" + machine,
		machine + ".evil.example", "10.0.0.1.nip.io",
		"0x7f.1", "2130706433", "localhost.evil.example", "notlocalhost", "a@10.0.0.1",
	}

	c := serveWith(t, options{Server: func(c *apitest.Config) {
		c.HTTP.CheckHosts, c.HTTP.Hosts = true, []string{"actlog.example", "ACTLOG"}
	}})
	wantStatus(t, c.Get("/livez"), http.StatusOK)
	for _, host := range good {
		wantStatus(t, c.Get("/api/v1/plans", "Host", host), http.StatusOK)
	}
	for _, host := range bad {
		for _, path := range []string{
			"/livez", "/readyz", "/openapi.yaml", "/api/v1/plans", "/api/v1/events", "/ws/p", "/nowhere",
		} {
			wantStatus(t, c.Outside(http.MethodGet, path, "Host", host), http.StatusForbidden)
		}
		wantProblem(t, c.Do(http.MethodPost, "/api/v1/records", strings.NewReader(`{"records":[]}`), "Host", host,
			"Content-Type", "application/json"), http.StatusForbidden, nil)
		wantStatus(t, c.OTLP(false).Export("/v1/traces", otlp.TypeJSON, []byte("{}"), "Host", host), http.StatusForbidden)
	}

	local := serveWith(t, options{Server: func(c *apitest.Config) {
		c.LoopbackOnly, c.HTTP.Hosts = true, []string{"actlog.example"}
	}})
	for host, status := range map[string]int{
		"actlog.example": 200, "localhost": 200, "10.0.0.1": 403, machine: 403, "evil.example": 403,
	} {
		if host != "localhost" {
			wantStatus(t, local.Get("/livez", "Host", host), status)
		}
	}
}

// TestOldClientsNameNoHost: programs that speak HTTP/1.0 need not; browsers always do.
func TestOldClientsNameNoHost(t *testing.T) {
	t.Parallel()
	for status, config := range map[string]func(*apitest.Config){
		"200": func(c *apitest.Config) { c.HTTP.CheckHosts = true },
		"403": func(c *apitest.Config) { c.LoopbackOnly = true },
	} {
		conn := serveWith(t, options{Server: config}).Dial()
		if _, err := io.WriteString(conn, "GET /livez HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 "+status) {
			t.Errorf("%s: %v %s", status, err, answer)
		}
	}
}

// TestOddPaths: a path that is written otherwise opens nothing, and no header makes another method of a request.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	reads, line := apitest.NewKey(t, "reader", httpd.ScopeRead)
	c := serveWith(t, options{Server: func(c *apitest.Config) {
		c.HTTP.Keys, c.HTTP.Origins = apitest.Keys(t, line), []string{"*"}
	}})
	c = c.As(reads)

	for _, path := range []string{
		"//api/v1/records", "/api//v1/records", "/api/v1/records/", "/api/v1/./records", "/api/v1/x/../records",
		"/api/v1/%2e%2e/v1/records",
		"/api%2fv1%2frecords", "/API/V1/RECORDS", "/api/v1/records%00", "/api/v1/records;x", "/livez/../api/v1/records",
		"/livez%2f..%2fapi/v1/records",
		"/openapi.yaml/../metrics", "/v1/%74races", "/v1%2ftraces",
	} {
		for _, origin := range []string{"", "https://evil.example"} {
			var header []string
			if origin != "" {
				header = []string{"Origin", origin, "Sec-Fetch-Site", "cross-site"}
			}

			for _, c := range []*client{c, c.As("")} {
				a := c.Outside(http.MethodPost, path, header...)
				if a.Status != http.StatusNotFound && a.Status != http.StatusUnauthorized && a.Status != http.StatusForbidden &&
					a.Status != http.StatusMethodNotAllowed && a.Status != http.StatusUnsupportedMediaType {
					t.Errorf("POST %s from %q: %d %s", path, origin, a.Status, a.Body)
				}
			}
		}
	}

	c.As("").Get("/livez")
	for _, header := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		wantStatus(t, c.Get("/api/v1/plans/p", header, "DELETE"), http.StatusNotFound) // not 403, as a DELETE would be
	}
	wantStatus(t, c.Get("/api/v1/plans?_method=DELETE&limit=x"), http.StatusBadRequest)
	for _, header := range []string{"X-Original-URL", "X-Rewrite-URL"} {
		wantStatus(t, c.As("").Get("/livez", header, "/api/v1/plans"), http.StatusOK)
		wantStatus(t, c.As("").Get("/api/v1/plans", header, "/livez"), http.StatusUnauthorized)
	}
}

// TestAnswersAreNotKept: nothing between a client and the server keeps what needs a key, nor what is said about that.
func TestAnswersAreNotKept(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p"))

	for _, path := range []string{
		"/livez", "/readyz", "/api/v1/plans", "/api/v1/plans/p", "/api/v1/plans/none", "/nowhere", details + "p",
		"/api/v1/plans/p/records", "/api/v1/runs", "/metrics", "/openapi.yaml",
	} {
		a := c.Outside(http.MethodGet, path)
		if kept := a.Header.Get("Cache-Control"); kept != "no-store" && (kept != "no-cache" || a.Header.Get("ETag") == "") {
			t.Errorf("%s: %q", path, kept)
		}
	}
}
