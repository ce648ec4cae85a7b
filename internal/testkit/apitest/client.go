package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/internal/trace/otlp"
)

// Obj is a JSON object.
type Obj = map[string]any

// Client sends requests to a server of the test's own. It checks every answer against the
// contract.
type Client struct {
	T      testing.TB
	Base   string // the server's address
	HTTP   *http.Client
	Key    string // API key of the requests; empty: none
	DB     *pgtest.DB
	Store  *store.Store
	Runs   *runstore.Store // of Store
	Server *Server
}

// Options say how a test serves. The zero value is ready to use.
type Options struct {
	DB     *pgtest.DB // default: a new one
	Store  func(*store.Config)
	Server func(*Config)
	Log    io.Writer // default: the test's output
	// Runtime returns what starts runs. Default: nothing can be run.
	Runtime func(*runstore.Store) (runapi.Starter, runapi.Catalog)
}

// Serve serves an empty database until the test ends.
func Serve(t testing.TB) *Client {
	t.Helper()
	return ServeWith(t, Options{})
}

// ServeWith is Serve with options.
func ServeWith(t testing.TB, o Options) *Client {
	t.Helper()
	if o.DB == nil {
		o.DB = pgtest.New(t)
	}
	if o.Log == nil {
		o.Log = t.Output()
	}

	log := slog.New(slog.NewTextHandler(o.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := storetest.OpenURL(t, o.DB.URL, func(c *store.Config) {
		c.Logger, c.Project = log, store.Projecting(otlp.NewProjection)
		if o.Store != nil {
			o.Store(c)
		}
	})

	var config Config
	config.HTTP.Logger = log
	if o.Server != nil {
		o.Server(&config)
	}
	runs := runstore.New(s)
	if o.Runtime != nil {
		config.Starter, config.Catalog = o.Runtime(runs)
	}

	handler := New(t, s, config)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &Client{T: t, HTTP: &http.Client{Transport: transport}, DB: o.DB, Store: s, Runs: runs, Server: handler}
	return c.at(handler)
}

// at returns a client of another handler.
func (c *Client) at(h http.Handler) *Client {
	server := httptest.NewServer(h)
	c.T.Cleanup(server.Close)
	other := *c
	other.Base = server.URL
	return &other
}

// Behind returns a client of another door of the server.
func (c *Client) Behind(door http.Handler) *Client { return c.at(door) }

// OTLP returns a client of the door that takes exports only.
func (c *Client) OTLP(loopbackOnly bool) *Client { return c.at(c.Server.OTLP(loopbackOnly)) }

// As returns a client with another key.
func (c *Client) As(key string) *Client {
	other := *c
	other.Key = key
	return &other
}

// For returns a client for a subtest.
func (c *Client) For(t testing.TB) *Client {
	t.Helper()
	other := *c
	other.T = t
	return &other
}

// CloseStore closes the store that the server answers from.
func (c *Client) CloseStore() {
	c.T.Helper()
	if err := c.Store.Close(context.Background()); err != nil {
		c.T.Fatal(err)
	}
}

// Answer is what the server answered.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// JSON decodes the body.
func (a Answer) JSON(t testing.TB) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(a.Body, &v); err != nil {
		t.Fatalf("the answer %d is not JSON: %v: %.300s", a.Status, err, a.Body)
	}
	return v
}

// Request makes a request with the client's key. Headers come in pairs.
func (c *Client) Request(ctx context.Context, method, path string, body io.Reader, header ...string) *http.Request {
	c.T.Helper()
	r, err := http.NewRequestWithContext(ctx, method, c.Base+path, body)
	if err != nil {
		c.T.Fatal(err)
	}

	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	if c.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.Key)
	}
	return r
}

// Do sends a request and checks the answer against the contract. Headers come in pairs.
func (c *Client) Do(method, path string, body io.Reader, header ...string) Answer {
	c.T.Helper()
	r := c.Request(context.WithoutCancel(c.T.Context()), method, path, body, header...) // cleanups send requests, too
	a := c.send(r)

	if a.Header.Get("X-Request-Id") == "" {
		c.T.Errorf("%s %s: no request id", r.Method, r.URL)
	}
	if r.Header.Get("Accept-Encoding") == "" && !slices.Contains(a.Header["Vary"], "Accept-Encoding") {
		c.T.Errorf("%s %s: Vary %q", r.Method, r.URL, a.Header["Vary"])
	}
	if err := TheContract().CheckAnswer(r.Method, r.URL.EscapedPath(), a); err != nil {
		c.T.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	return a
}

// Outside sends a request that the contract does not describe.
func (c *Client) Outside(method, path string, header ...string) Answer {
	c.T.Helper()
	return c.send(c.Request(c.T.Context(), method, path, nil, header...))
}

func (c *Client) send(r *http.Request) Answer {
	c.T.Helper()
	resp, err := c.HTTP.Do(r)
	if err != nil {
		c.T.Fatal(err)
	}
	defer resp.Body.Close()

	var body []byte
	if resp.StatusCode != http.StatusOK || r.URL.Path != "/api/v1/events" { // which has no end
		body, err = io.ReadAll(resp.Body)
	}
	if err != nil {
		c.T.Fatal(err)
	}
	return Answer{resp.StatusCode, resp.Header, body}
}

// Get sends a GET request.
func (c *Client) Get(path string, header ...string) Answer {
	c.T.Helper()
	return c.Do(http.MethodGet, path, nil, header...)
}

// Read returns the JSON at a path. It must exist.
func (c *Client) Read(path string) any {
	c.T.Helper()
	a := c.Get(path)
	if a.Status != http.StatusOK {
		c.T.Fatalf("GET %s: %d %.500s", path, a.Status, a.Body)
	}
	return a.JSON(c.T)
}

// Paths of the executor API.
const (
	DetailsPath = "/api/executor/details/"
	StepPath    = "/api/executor/agent-execution/"
)

// Details returns the hierarchy of a plan.
func (c *Client) Details(id string) any {
	c.T.Helper()
	return c.Read(DetailsPath + url.PathEscape(id))
}

// Step returns a step with its cycles.
func (c *Client) Step(id string) any {
	c.T.Helper()
	return c.Read(StepPath + url.PathEscape(id))
}

// Post sends records as one JSON body.
func (c *Client) Post(records ...any) (int, wire.Answer) {
	c.T.Helper()
	return c.PostBody(wire.TypeJSON, JSON(c.T, Obj{"records": records}))
}

// PostBody sends a body of records. The server must be able to read it.
func (c *Client) PostBody(contentType string, body []byte) (int, wire.Answer) {
	c.T.Helper()
	a := c.Do(http.MethodPost, "/api/v1/records", bytes.NewReader(body), "Content-Type", contentType)
	var out wire.Answer

	if a.Status != http.StatusOK && a.Status != http.StatusMultiStatus && a.Status != http.StatusUnprocessableEntity {
		c.T.Fatalf("POST records: %d %.500s", a.Status, a.Body)
	}
	if err := json.Unmarshal(a.Body, &out); err != nil {
		c.T.Fatal(err)
	}
	return a.Status, out
}

// Write writes records. The server must accept all, and the contract must allow them.
func (c *Client) Write(records ...any) {
	c.T.Helper()
	body := JSON(c.T, Obj{"records": records})
	if err := TheContract().CheckRecords(body); err != nil {
		c.T.Errorf("the contract does not allow these records: %v", err)
	}
	if status, a := c.PostBody(wire.TypeJSON, body); status != http.StatusOK || a.Accepted != len(records) {
		c.T.Fatalf("%d %+v", status, a)
	}
}

// Exec runs a statement in the database.
func (c *Client) Exec(sql string, args ...any) {
	c.T.Helper()
	if _, err := c.DB.Pool.Exec(context.WithoutCancel(c.T.Context()), sql, args...); err != nil {
		c.T.Fatal(err)
	}
}

// Dial opens a connection to the server.
func (c *Client) Dial() net.Conn {
	c.T.Helper()
	conn, err := new(net.Dialer).DialContext(c.T.Context(), "tcp", strings.TrimPrefix(c.Base, "http://"))
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Metric returns a metric, with its labels as /metrics shows them, and 0 if there is none.
func (c *Client) Metric(name string) float64 {
	c.T.Helper()
	for line := range strings.Lines(string(c.Get("/metrics").Body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				c.T.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// WantMetric waits until a metric has a value: an answer that a library sends is counted
// after the client has read it.
func (c *Client) WantMetric(name string, want float64) {
	c.T.Helper()
	got, deadline := c.Metric(name), time.After(10*time.Second)
	for got != want {
		select {
		case <-deadline:
			c.T.Errorf("%s is %v, want %v", name, got, want)
			return
		case <-time.After(10 * time.Millisecond):
			got = c.Metric(name)
		}
	}
}

// BodyBytes returns how many bytes of request bodies the server holds.
func (c *Client) BodyBytes() int64 {
	c.T.Helper()
	return int64(c.Metric("actlog_http_body_bytes"))
}

// AwaitBodyBytes waits until the server holds so many bytes of request bodies.
func (c *Client) AwaitBodyBytes(atLeast int64) {
	c.T.Helper()
	for deadline := time.Now().Add(time.Minute); c.BodyBytes() < atLeast; {
		if time.Now().After(deadline) {
			c.T.Fatalf("the server holds %d bytes of bodies after a minute, want %d", c.BodyBytes(), atLeast)
		}
	}
}

// Outages returns a database of the test's own, its name, and a function that refuses all
// connections to it, or allows them again.
func Outages(t testing.TB) (db *pgtest.DB, name string, allow func(bool)) {
	t.Helper()
	db, admin := pgtest.Fresh(t), pgtest.New(t)
	if err := db.Pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	db.Pool.Reset()

	return db, name, func(v bool) {
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
}
