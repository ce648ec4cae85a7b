package api_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/api"
	"github.com/actlog/actlog/internal/wire"
)

// TestTheLogHoldsALineARequest, and nothing of what was in it.
func TestTheLogHoldsALineARequest(t *testing.T) {
	t.Parallel()
	log := new(buffer)
	secret, line := newKey(t, "reader", api.ScopeRead, api.ScopeWrite)
	wrong, _ := newKey(t, "wrong", api.ScopeRead)
	c := serveWith(t, options{log: log, server: func(config *api.Config) { config.Keys = keysOf(t, line) }}).as(secret)
	c.write(plan("hidden-id", obj{"title": "hidden-title"}))
	c.get("/api/v1/plans?q=hidden-query", "X-Request-Id", "told/1")
	c.get(details+"hidden-id", "X-Request-Id", "told/2")
	c.get("/hidden/path", "X-Request-Id", "told/3")
	c.get("/livez", "X-Request-Id", "told/4")
	c.do("HIDDEN", "/api/v1/plans", nil, "X-Request-Id", "told/5")
	c.as(wrong).get("/api/v1/plans", "X-Request-Id", "told/6")
	c.do(http.MethodPost, "/api/v1/records", strings.NewReader("hidden-body"), "X-Request-Id", "told/7", "Content-Type", "application/json")
	for id, want := range map[string][]string{
		"told/1": {"level=INFO", "method=GET", "route=/api/v1/plans", "status=200", "duration=", "bytes=", "key=reader"},
		"told/2": {"level=INFO", "route=/api/executor/details/:planId", "status=200"},
		"told/3": {"level=INFO", "route=unmatched", "status=404"},
		"told/4": {"level=DEBUG", "route=/livez", "status=200"},
		"told/5": {"level=INFO", "method=other", "status=405"},
		"told/6": {"level=INFO", "status=401", `key=""`},
		"told/7": {"level=INFO", "status=400", "route=/api/v1/records"},
	} {
		if found := log.lines(append(want, "id="+id, "msg=request")...); len(found) != 1 {
			t.Errorf("%s: %d lines of %q in\n%s", id, len(found), want, log)
		}
	}
	for _, hidden := range []string{"hidden", "HIDDEN", secret, wrong, secret[7:], "Bearer"} {
		if found := log.lines(hidden); len(found) > 0 {
			t.Errorf("the log tells %q: %s", hidden, found)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, id := range []string{"a", "0af7651916cd43dd8448eb211c80319c", "a-b_c.d:e/f+g=h@i", strings.Repeat("x", 128)} {
		if got := c.get("/livez", "X-Request-Id", id).header.Get("X-Request-Id"); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
	seen := map[string]bool{}
	for _, id := range []string{"", strings.Repeat("x", 129), "a b", "a\"b", "é", "a;b", "<a>"} {
		got := c.get("/livez", "X-Request-Id", id).header.Get("X-Request-Id")
		if len(got) < 20 || got == id || seen[got] {
			t.Errorf("%q became %q", id, got)
		}
		seen[got] = true
	}
}

// TestAnswersAreCompressed as the client likes it, and are the same after it.
func TestAnswersAreCompressed(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.write(plan("p", obj{"title": strings.Repeat("quarterly ", 1000)}), plan("small"))
	plain := c.get("/api/v1/plans/p", "Accept-Encoding", "identity")
	for accept, want := range map[string]string{
		"": "", "identity": "", "br": "", "gzip": "gzip", "zstd": "zstd", "gzip, zstd": "zstd", "gzip;q=0": "", "gzip;q=1, zstd;q=0.1": "gzip", "GZIP": "gzip",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/api/v1/plans/p", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", accept)
		if accept == "" {
			r.Header.Set("Accept-Encoding", "x") // none of ours; an empty one would be filled in
		}
		resp, err := c.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Content-Encoding"); got != want || resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: encoding %q, vary %q", accept, got, resp.Header.Get("Vary"))
		}
		if want != "" && len(raw) > 1000 {
			t.Errorf("%q: still %d bytes", accept, len(raw))
		}
		if got := decompressed(t, resp.Header.Get("Content-Encoding"), raw); !bytes.Equal(got, plain.body) {
			t.Errorf("%q: another answer, %.200s", accept, got)
		}
		tag := resp.Header.Get("ETag")
		if tag != plain.header.Get("ETag") {
			t.Errorf("%q: tag %s", accept, tag)
		}
		a := wantStatus(t, c.get("/api/v1/plans/p", "If-None-Match", tag, "Accept-Encoding", accept), http.StatusNotModified)
		if len(a.body) > 0 || a.header.Get("Content-Encoding") != "" {
			t.Errorf("%q: 304 with %q", accept, a.body)
		}
	}
	if a := c.get("/api/v1/limits", "Accept-Encoding", "gzip"); a.header.Get("Content-Encoding") != "" {
		t.Error("a small answer is compressed")
	}
	if a := c.get("/api/v1/plans/nobody", "Accept-Encoding", "zstd"); a.header.Get("Content-Encoding") != "" {
		t.Error("a small problem is compressed")
	}
}

func decompressed(t *testing.T, encoding string, raw []byte) []byte {
	t.Helper()
	var r io.Reader = bytes.NewReader(raw)
	switch encoding {
	case "gzip":
		gz, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = gz
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAPanicCostsOneRequest(t *testing.T) {
	t.Parallel()
	log := new(buffer)
	c := serveWith(t, options{log: log})
	api.Handle(c.api, "/livez/panic", func(echo.Context) error { panic("a mistake") })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/livez/panic", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusInternalServerError || resp.Header.Get("Content-Type") != "application/problem+json" || bytes.Contains(body, []byte("mistake")) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if len(log.lines("a mistake", "id="+resp.Header.Get("X-Request-Id"), "request_test.go")) != 1 {
		t.Errorf("the log does not say what happened:\n%s", log)
	}
	wantStatus(t, c.get("/livez"), http.StatusOK)
}

// TestEveryErrorIsAProblem: every operation, every way to fail that all share. What
// single ones refuse is in their own tests.
func TestEveryErrorIsAProblem(t *testing.T) {
	t.Parallel()
	secret, line := newKey(t, "all", api.ScopeRead, api.ScopeWrite, api.ScopeAdmin)
	weak, weakLine := newKey(t, "weak", api.ScopeWrite)
	loopback := serveWith(t, options{server: func(c *api.Config) { c.LoopbackOnly = true }})
	keyed := serveWith(t, options{server: func(c *api.Config) { c.Keys = keysOf(t, line, weakLine) }})
	closed := serve(t)
	api.CloseStore(t, closed.api)
	for _, r := range requests() {
		for name, tt := range map[string]struct {
			answer answer
			want   []int
		}{
			"foreign host":   {r.do(loopback, "Host", "evil.example"), []int{403}},
			"no key":         {r.do(keyed), []int{401, 200}},
			"a weak key":     {r.do(keyed.as(weak)), []int{403, 200}},
			"unknown":        {r.do(keyed.as(secret)), []int{404, 200}},
			"another method": {keyed.as(secret).do(http.MethodPatch, r.path, nil), []int{405}},
			"a closed store": {r.do(closed), []int{503, 200}},
		} {
			a := tt.answer
			if a.status != tt.want[0] && a.status != tt.want[len(tt.want)-1] {
				t.Errorf("%s %s, %s: %d %s", r.method, r.path, name, a.status, a.body)
				continue
			}
			switch executor := strings.HasPrefix(r.path, "/api/executor/"); {
			case a.status < 400:
			case executor && a.status == http.StatusNotFound:
				if len(a.body) > 0 {
					t.Errorf("%s %s, %s: body %q", r.method, r.path, name, a.body)
				}
			case strings.HasPrefix(r.path, "/v1/") && a.status != http.StatusMethodNotAllowed:
				wantRefused(t, a, a.status, "application/json", " ")
			default:
				p, _ := a.json(t).(obj)
				detail, _ := p["detail"].(string)
				if a.header.Get("Content-Type") != "application/problem+json" || p["status"] != float64(a.status) || len(strings.Fields(detail)) < 5 {
					t.Errorf("%s %s, %s: %s %s", r.method, r.path, name, a.header.Get("Content-Type"), a.body)
				}
				if a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
					t.Errorf("%s %s, %s: no Retry-After", r.method, r.path, name)
				}
			}
		}
	}
}

// TestBodiesInFlightAreBounded: one more than fits is asked to come again; when the
// others are done, it may.
func TestBodiesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{server: func(c *api.Config) { c.BodyBytes = 1 << 20 }})
	slow := c.dial()
	fmt.Fprintf(slow, "POST /api/v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 900100\r\n\r\n", wire.TypeNDJSON)
	if _, err := io.CopyN(slow, endless(' '), 900_000); err != nil {
		t.Fatal(err)
	}
	for api.BodyBytes(c.api) < 900_000 {
		c.get("/livez")
	}
	body := bytes.Repeat([]byte(" "), 300_000)
	for _, packed := range [][]byte{nil, gzipped(t, body)} { // what counts is what it becomes
		encoding := "gzip"
		if packed == nil {
			packed, encoding = body, ""
		}
		a := c.do(http.MethodPost, "/api/v1/records", bytes.NewReader(packed), "Content-Type", wire.TypeNDJSON, "Content-Encoding", encoding)
		wantProblem(t, a, http.StatusServiceUnavailable, nil)
		if a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	c.write(plan("small")) // a small one still fits
	if _, err := fmt.Fprintf(slow, "%100s", ""); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	for api.BodyBytes(c.api) > 0 {
		c.get("/livez")
	}
	if _, a := c.postBody(wire.TypeNDJSON, body); a.Accepted != 0 {
		t.Errorf("%+v", a)
	}
}

func (c *client) dial() net.Conn {
	c.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(c.t.Context(), "tcp", strings.TrimPrefix(c.base, "http://"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

// TestSlowClientsDoNotHoldUpOthers: 200 of them hold half a request each.
func TestSlowClientsDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	c := serve(t)
	var slow sync.WaitGroup
	for i := range 200 {
		slow.Go(func() {
			conn := c.dial()
			half := "GET /livez HTTP/1.1\r\nHost: loc"
			if i%2 == 0 {
				half = "POST /api/v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n" + `{"records":[{"kind":`
			}
			if _, err := io.WriteString(conn, half); err != nil {
				t.Error(err)
			}
		})
	}
	slow.Wait()
	c.write(plan("p"), step("p", "p", "s"))
	expect(t, c.details("p"), obj{"agentExecutionSequence.#": 1})
	wantStatus(t, c.get("/readyz"), http.StatusOK)
}

// TestGarbage gets an answer or a closed connection, and the server lives.
func TestGarbage(t *testing.T) {
	t.Parallel()
	c := serve(t)
	random := rand.New(rand.NewPCG(1, 2))
	garbage := []string{
		"", "\r\n\r\n", "GET", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "FROB /api/v1/plans HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT evil:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://evil/livez HTTP/1.1\r\nHost: x\r\n\r\n", "GET //livez HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "GET /api/v1/plans/%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 2<<20) + "\r\n\r\n", "GET /" + strings.Repeat("a/", 100_000) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 200_000) + "\r\n",
		"POST /api/v1/records HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "POST /api/v1/records HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST /api/v1/records HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"POST /api/v1/records HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
		"GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: \x00\r\n\r\n", "GET /livez HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\n\r\n",
	}
	for range 100 {
		b := make([]byte, random.IntN(2000))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		garbage = append(garbage, string(b))
	}
	for _, g := range garbage {
		conn := c.dial()
		_, _ = io.WriteString(conn, g) // it may be cut off in the middle
		_ = conn.(*net.TCPConn).CloseWrite()
		answered, _ := io.ReadAll(conn) // or reset
		if len(answered) > 0 && !bytes.HasPrefix(answered, []byte("HTTP/1.")) {
			t.Errorf("%.50q is answered %.100q", g, answered)
		}
		conn.Close()
	}
	c.write(plan("p"))
	wantStatus(t, c.get("/livez"), http.StatusOK)
}

func TestDraining(t *testing.T) {
	t.Parallel()
	c := serve(t)
	wantStatus(t, c.get("/readyz"), http.StatusOK)
	c.api.Drain()
	wantProblem(t, c.get("/readyz"), http.StatusServiceUnavailable, nil)
	wantStatus(t, c.get("/livez"), http.StatusOK)
	c.write(plan("p"))
	c.details("p")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{server: func(c *api.Config) { c.Version = "v1.2.3" }})
	c.write(plan("secret-id"), step("secret-id", "secret-id", "s"))
	c.details("secret-id")
	c.get("/api/v1/plans/nobody")
	c.get("/no/such/secret-path")
	c.do("FROB", "/api/v1/plans", nil)
	body := string(wantStatus(t, c.get("/metrics"), http.StatusOK).body)
	for _, want := range []string{
		`actlog_http_requests_total{method="POST",route="/api/v1/records",status="2xx"} 1`,
		`actlog_http_requests_total{method="GET",route="/api/executor/details/:planId",status="2xx"} 1`,
		`actlog_http_requests_total{method="GET",route="/api/v1/plans/:planId",status="4xx"} 1`,
		`actlog_http_requests_total{method="GET",route="unmatched",status="4xx"} 1`,
		`actlog_http_requests_total{method="other",route="unmatched",status="4xx"} 1`,
		`actlog_http_request_duration_seconds_count{method="POST",route="/api/v1/records"} 1`,
		`actlog_http_requests_in_flight 1`, `actlog_http_body_bytes 0`, `actlog_http_body_bytes_max 5.36870912e+08`,
		`actlog_store_rows_total 2`, `actlog_store_batches_total 1`, `actlog_store_batch_duration_seconds_count 1`, `actlog_store_connections_max 4`,
		`version="v1.2.3"`, "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(body, "secret") || t.Failed() {
		t.Errorf("%s", body)
	}
}
