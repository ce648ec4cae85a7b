package httpd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/apitest"
)

// entrance is a listener of a server with a key, whose requests to /wait end when the test says so.
type entrance struct {
	t        *testing.T
	listener *httpd.Listener
	server   *httpd.Server
	key      string
	waiting  chan struct{} // receives when a request waits
	let      chan struct{} // lets one go on
}

// enter serves a few routes over a number of connections, with HTTP or with gRPC's HTTP/2.
func enter(t *testing.T, connections int, grpc bool, proxies ...string) *entrance {
	t.Helper()
	secret, line := apitest.NewKey(t, "ops", httpd.ScopeRead)
	e := &entrance{t: t, key: secret, waiting: make(chan struct{}), let: make(chan struct{})}
	e.server = httpd.New(httpd.Config{Logger: slog.New(slog.DiscardHandler), Keys: apitest.Keys(t, line)})

	wait := func(c echo.Context) error {
		e.waiting <- struct{}{}
		<-e.let
		return c.String(http.StatusOK, "done")
	}
	handler := e.server.Handler(true,
		httpd.Route{Method: http.MethodGet, Path: "/now", Need: httpd.ScopeRead, Handle: func(c echo.Context) error {
			return c.String(http.StatusOK, "now")
		}},
		httpd.Route{Method: http.MethodGet, Path: "/wait", Need: httpd.ScopeRead, Handle: wait, Long: true},
		httpd.Route{Method: http.MethodGet, Path: "/open", Need: httpd.ScopeNone, Handle: wait, Long: true},
	)

	var err error
	if e.listener, err = httpd.Listen(t.Context(), "127.0.0.1:0", true); err != nil {
		t.Fatal(err)
	}
	if e.listener.Proxies, err = httpd.ParseProxies(proxies); err != nil {
		t.Fatal(err)
	}

	serve, failed := e.listener.ServeHTTP, make(chan error, 1)
	if grpc {
		serve = e.listener.ServeGRPC
	}
	serve(handler, connections, slog.New(slog.DiscardHandler), failed)

	t.Cleanup(func() {
		close(e.let)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := httpd.Close(ctx, []*httpd.Listener{e.listener}); err != nil {
			t.Error(err)
		}
		if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return e
}

// dial connects from an address of this machine.
func (e *entrance) dial(ctx context.Context, from string) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
	return dialer.DialContext(ctx, "tcp", e.listener.Addr().String())
}

// hold opens a connection that stays open until the test ends, and sends something over it.
func (e *entrance) hold(from, text string) net.Conn {
	e.t.Helper()
	conn, err := e.dial(e.t.Context(), from)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, text) // the server may have closed it by now
	return conn
}

func (e *entrance) head(path, key string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\n\r\n", path, key)
}

// client returns a client with connections of its own.
func (e *entrance) client(from string, grpc bool) *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return e.dial(ctx, from)
	}}

	if transport.Protocols = new(http.Protocols); grpc {
		transport.Protocols.SetUnencryptedHTTP2(true)
	} else {
		transport.Protocols.SetHTTP1(true)
	}
	e.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// ask sends a request with the key.
func (e *entrance) ask(c *http.Client, path string) (string, error) {
	r, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, e.listener.URL()+path, nil)
	if err != nil {
		return "", err
	}
	r.Host = "localhost"
	r.Header.Set("X-Api-Key", e.key)

	resp, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(body)), err
}

// TestIdleConnectionsKeepNobodyOut: S10. As many connections as the server takes are open, of an address that nobody
// trusts or of one's own, with nothing, a part of a head, or a request without a key that is long answered. A client
// with a key is answered at once, and what it does goes on whatever comes after it.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	const most = 20

	for name, text := range map[string]string{
		"nothing":        "",
		"half a head":    "GET /now HTTP/1.1\r\nHost: local",
		"no key":         "GET /now HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a foreign host": "GET /now HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"half a preface": "PRI * HTTP/2.0\r\n\r\n",
		"a preface":      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		for _, grpc := range []bool{false, true} {
			for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
				t.Run(fmt.Sprint(name, " grpc=", grpc, " ", from), func(t *testing.T) {
					t.Parallel()
					e := enter(t, most, grpc)
					flood := func() {
						for range 2 * most {
							e.hold(from, text)
						}
					}
					flood()

					answer := make(chan string)
					go func() {
						got, err := e.ask(e.client("127.0.0.1", grpc), "/wait")
						answer <- fmt.Sprint(got, err)
					}()
					<-e.waiting

					flood()
					for range 3 {
						if got, err := e.ask(e.client("127.0.0.1", grpc), "/now"); err != nil || got != "200 now" {
							t.Errorf("e.ask = %q %v", got, err)
						}
					}

					e.let <- struct{}{}
					if got := <-answer; got != "200 done<nil>" {
						t.Errorf("a request that was under way: %s", got)
					}
				})
			}
		}
	}
}

// TestRequestsWithoutAKeyMakeRoom: when all connections serve requests, those without a key make room for those with
// one.
func TestRequestsWithoutAKeyMakeRoom(t *testing.T) {
	t.Parallel()
	e := enter(t, 4, false)
	for _, from := range []string{"127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"} {
		e.hold(from, e.head("/open", ""))
		<-e.waiting
	}

	if got, err := e.ask(e.client("127.0.0.1", false), "/now"); err != nil || got != "200 now" {
		t.Errorf("e.ask = %q %v", got, err)
	}
}

// TestShareOfConnections: requests with a key keep their connections, so one address can have half of them, and others
// the other half. A proxy that is trusted can have all; then others wait until one is free.
func TestShareOfConnections(t *testing.T) {
	t.Parallel()
	e := enter(t, 4, false, "127.0.0.9")
	busy := func(from string) net.Conn {
		conn := e.hold(from, e.head("/wait", e.key))
		<-e.waiting
		return conn
	}

	busy("127.0.0.2")
	busy("127.0.0.2")
	if _, err := bufio.NewReader(e.hold("127.0.0.2", e.head("/now", e.key))).ReadByte(); err == nil {
		t.Error("one address has more than half of the connections")
	}
	if got, err := e.ask(e.client("127.0.0.3", false), "/now"); err != nil || got != "200 now" {
		t.Errorf("e.ask = %q %v", got, err)
	}
	e.let <- struct{}{}
	e.let <- struct{}{}

	kept := []net.Conn{busy("127.0.0.9"), busy("127.0.0.9"), busy("127.0.0.9"), busy("127.0.0.9")}
	answer := make(chan string)
	go func() {
		got, err := e.ask(e.client("127.0.0.3", false), "/now")
		answer <- fmt.Sprint(got, err)
	}()
	e.let <- struct{}{} // its connection has nothing to do now
	if got := <-answer; got != "200 now<nil>" {
		t.Errorf("after one had ended: %s", got)
	}

	for range 3 {
		e.let <- struct{}{}
	}
	answered := 0
	for _, conn := range kept {
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && resp.StatusCode == http.StatusOK {
			answered++
			_ = resp.Body.Close()
		}
	}
	if answered != 4 {
		t.Errorf("%d of the proxy's 4 requests are answered", answered)
	}
}

// TestConnectionsAreCounted also when they were taken over, or closed by their clients.
func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	e := enter(t, 10, false)
	e.server.Register(httpd.ConnectionMetrics([]*httpd.Listener{e.listener})...)
	metrics := httpmetrics(t, e.server)

	for range 3 {
		if got, err := e.ask(e.client("127.0.0.1", false), "/now"); err != nil || got != "200 now" {
			t.Fatalf("e.ask = %q %v", got, err)
		}
	}
	for range 20 {
		e.hold("127.0.0.2", "")
	}

	for text := metrics(); !strings.Contains(
		text, `actlog_http_connections_closed_total{were="silent"} 15`,
	); text = metrics() {
		if t.Context().Err() != nil {
			t.Fatalf("metrics() = %v", text)
		}
	}
	if text := metrics(); !strings.Contains(text, "\nactlog_http_connections 8\n") {
		t.Errorf("metrics() = %v", text)
	}
}

// httpmetrics returns what reads the metrics of a server.
func httpmetrics(t *testing.T, s *httpd.Server) func() string {
	t.Helper()
	c := echo.New()
	route := s.Metrics()
	c.Add(route.Method, route.Path, route.Handle)

	return func() string {
		w := httptest.NewRecorder()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, route.Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.ServeHTTP(w, r)
		return w.Body.String()
	}
}
