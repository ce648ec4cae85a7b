package httpd_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
)

// TestSharesOfABudget: N16: a client has half of it and a connection a quarter, and what is
// returned can be taken again.
func TestSharesOfABudget(t *testing.T) {
	t.Parallel()
	b := httpd.NewBudget(1000)
	lease := func(name, connection string) *httpd.Lease {
		return b.Lease(httpd.Client{Name: name, Connection: connection})
	}
	take := func(l *httpd.Lease, n int64, want error) {
		t.Helper()
		if err := l.Take(n); !errors.Is(err, want) {
			t.Errorf("l.Take(n) = %v, want %v", err, want)
		}
	}

	first := lease("a", "a:1")
	take(first, 251, httpd.ErrOverShare)
	take(first, 250, nil)
	take(lease("a", "a:1"), 1, httpd.ErrConnectionShare)
	take(lease("a", "a:2"), 250, nil)
	take(lease("a", "a:3"), 1, httpd.ErrClientShare)

	take(lease("b", "b:1"), 250, nil)
	take(lease("b", "b:2"), 249, nil)
	take(lease("c", "c:1"), 2, httpd.ErrBusy)
	take(lease("c", "c:1"), 1, nil)
	if b.Held() != 1000 {
		t.Errorf("%d bytes are held", b.Held())
	}

	first.Return()
	first.Return() // nothing is returned twice
	if b.Held() != 750 {
		t.Errorf("%d bytes are held", b.Held())
	}
	take(lease("c", "c:2"), 250, nil)
}

// start sends the head of a request with a chunked body, and some of the body.
func start(c *client, header, body string) net.Conn {
	c.T.Helper()
	conn := c.Dial()
	fmt.Fprintf(conn, "POST /api/v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n"+
		"Transfer-Encoding: chunked\r\nAuthorization: Bearer %s\r\n%s\r\n", wire.TypeNDJSON, c.Key, header)
	more(c, conn, body)
	return conn
}

// more sends more of a chunked body.
func more(c *client, conn net.Conn, body string) {
	c.T.Helper()
	if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", len(body), body); err != nil {
		c.T.Fatal(err)
	}
}

// ended waits for the answer.
func ended(c *client, conn net.Conn) *http.Response {
	c.T.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestBodiesInFlightAreBounded: a body that does not fit is answered 429 if its client holds the
// rest, or else 503, until others are done. Small ones always fit.
func TestBodiesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	greedy, greedyLine := apitest.NewKey(t, "greedy", httpd.ScopeWrite, httpd.ScopeRead)
	good, goodLine := apitest.NewKey(t, "good", httpd.ScopeWrite, httpd.ScopeRead)
	c := serveWith(t, options{Server: func(c *apitest.Config) {
		c.HTTP.BodyBytes, c.HTTP.Patience = 1<<20, time.Hour
		c.HTTP.Keys = apitest.Keys(t, greedyLine, goodLine)
	}}).As(greedy)

	slow := start(c, "", strings.Repeat(" ", 1_000_000))
	c.AwaitBodyBytes(900_000)

	body := bytes.Repeat([]byte(" "), 300_000)
	for key, want := range map[string]struct {
		status int
		says   string
	}{greedy: {http.StatusTooManyRequests, "this API key"}, good: {http.StatusServiceUnavailable, "all clients"}} {
		for _, packed := range [][]byte{nil, apitest.Gzip(t, body)} { // what counts is what it becomes
			encoding := "gzip"
			if packed == nil {
				packed, encoding = body, ""
			}

			a := c.As(key).Do(http.MethodPost, "/api/v1/records", bytes.NewReader(packed), "Content-Type", wire.TypeNDJSON,
				"Content-Encoding", encoding)
			wantProblem(t, a, want.status, nil)
			if a.Header.Get("Retry-After") == "" || !strings.Contains(string(a.Body), want.says) {
				t.Errorf("a.Header = %v %s", a.Header, a.Body)
			}
		}
		c.As(key).Write(plan("small", obj{"title": strings.Repeat("x", 60_000)}))
	}

	c.WantMetric(`actlog_http_body_refused_total{limit="client"}`, 2)
	c.WantMetric(`actlog_http_body_refused_total{limit="server"}`, 2)

	if _, err := io.WriteString(slow, "0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if resp := ended(c, slow); resp.StatusCode != http.StatusOK {
		t.Fatalf("resp = %v", resp)
	}
	c.WantMetric("actlog_http_body_bytes", 0)
	if _, a := c.PostBody(wire.TypeNDJSON, body); a.Accepted != 0 {
		t.Errorf("c.PostBody(wire.TypeNDJSON, body) = %+v", a)
	}
}

// TestBodiesThatStall: N16: whoever holds a part of the budget and sends too little is cut off,
// and what it held is there for others.
func TestBodiesThatStall(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(c *apitest.Config) {
		c.HTTP.BodyBytes, c.HTTP.Patience = 8<<20, 100*time.Millisecond
	}})

	half := strings.Repeat(" ", 400_000)
	packed := func(pack func(testing.TB, []byte) []byte) string {
		all := string(pack(t, []byte(half)))
		return all[:len(all)-4] // all of the content, without the check at the end
	}
	for name, conn := range map[string]net.Conn{
		"plain": start(c, "", half),
		"gzip":  start(c, "Content-Encoding: gzip\r\n", packed(apitest.Gzip)),
		"zstd":  start(c, "Content-Encoding: zstd\r\n", packed(apitest.Zstd)),
	} {
		resp := ended(c, conn)
		if text, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusRequestTimeout ||
			!strings.Contains(string(text), "too slowly") || err != nil {
			t.Errorf("%s: %s %s %v", name, resp.Status, text, err)
		}
	}

	c.WantMetric("actlog_http_body_slow_total", 3)
	c.WantMetric("actlog_http_body_bytes", 0)
}

// TestSmallBodiesMayBeSlow: they hold nothing that others need.
func TestSmallBodiesMayBeSlow(t *testing.T) {
	t.Parallel()
	c := serveWith(t, options{Server: func(c *apitest.Config) { c.HTTP.Patience = time.Nanosecond }})
	record := string(apitest.JSON(t, plan("p"))) + "\n"
	conn := start(c, "", record[:10])

	for range 10 {
		c.Get("/livez")
	}
	more(c, conn, record[10:])
	if _, err := io.WriteString(conn, "0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}

	if resp := ended(c, conn); resp.StatusCode != http.StatusOK {
		t.Errorf("resp.Status = %v", resp.Status)
	}
	c.Details("p")
}

// TestALargestRequestFits the budget as it is by default.
func TestALargestRequestFits(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is refused, and in which words")
	t.Parallel()
	c := serve(t)
	if _, a := c.PostBody(wire.TypeNDJSON, bytes.Repeat([]byte("\n"), wire.MaxBodyBytes)); len(a.Rejected) > 0 {
		t.Errorf("c.PostBody = %+v", a)
	}
}
