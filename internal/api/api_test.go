package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/api"
	"github.com/actlog/actlog/internal/otlp"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/wire"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// obj is a JSON object.
type obj = map[string]any

// client talks to a server of the test's own over HTTP. It holds every answer to
// the contract.
type client struct {
	t    testing.TB
	base string
	http *http.Client
	db   *pgtest.DB
	key  string // API key that requests bring
	api  *api.Server
}

type options struct {
	db     *pgtest.DB
	store  func(*store.Config)
	server func(*api.Config)
	log    io.Writer
}

func serve(t testing.TB) *client {
	t.Helper()
	return serveWith(t, options{})
}

func serveWith(t testing.TB, o options) *client {
	t.Helper()
	if o.db == nil {
		o.db = pgtest.New(t)
	}
	if o.log == nil {
		o.log = t.Output()
	}
	log := slog.New(slog.NewTextHandler(o.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	config := store.Config{DatabaseURL: o.db.URL, Logger: log, MaxConns: 4, Project: otlp.ProjectChunks}
	if o.store != nil {
		o.store(&config)
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
	serverConfig := api.Config{Logger: log}
	if o.server != nil {
		o.server(&serverConfig)
	}
	handler := api.New(s, serverConfig)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{t: t, base: server.URL, http: &http.Client{Transport: transport}, db: o.db, api: handler}
}

// answer is what the server said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) json(t testing.TB) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("the answer %d is no JSON: %v: %.300s", a.status, err, a.body)
	}
	return v
}

func (c *client) do(method, path string, body io.Reader, header ...string) answer {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	return c.send(r)
}

func (c *client) send(r *http.Request) answer {
	c.t.Helper()
	resp, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var body []byte
	if resp.StatusCode != http.StatusOK || r.URL.Path != "/api/v1/events" { // which has no end
		body, err = io.ReadAll(resp.Body)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	a := answer{resp.StatusCode, resp.Header, body}
	if a.header.Get("X-Request-Id") == "" {
		c.t.Errorf("%s %s: no request id", r.Method, r.URL)
	}
	if r.Header.Get("Accept-Encoding") == "" && !slices.Contains(a.header["Vary"], "Accept-Encoding") {
		c.t.Errorf("%s %s: Vary %q", r.Method, r.URL, a.header["Vary"])
	}
	if err := contract().checkAnswer(r.Method, r.URL.EscapedPath(), a); err != nil {
		c.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	return a
}

func (c *client) get(path string, header ...string) answer {
	c.t.Helper()
	return c.do(http.MethodGet, path, nil, header...)
}

// read gets what must be there.
func (c *client) read(path string) any {
	c.t.Helper()
	a := c.get(path)
	if a.status != http.StatusOK {
		c.t.Fatalf("GET %s: %d %.500s", path, a.status, a.body)
	}
	return a.json(c.t)
}

func (c *client) details(id string) any {
	c.t.Helper()
	return c.read("/api/executor/details/" + url.PathEscape(id))
}

func (c *client) step(id string) any {
	c.t.Helper()
	return c.read("/api/executor/agent-execution/" + url.PathEscape(id))
}

// post sends records as one JSON body.
func (c *client) post(records ...any) (int, wire.Answer) {
	c.t.Helper()
	return c.postBody(wire.TypeJSON, encode(c.t, obj{"records": records}))
}

func (c *client) postBody(contentType string, body []byte) (int, wire.Answer) {
	c.t.Helper()
	a := c.do(http.MethodPost, "/api/v1/records", bytes.NewReader(body), "Content-Type", contentType)
	var out wire.Answer
	if a.status != http.StatusOK && a.status != http.StatusMultiStatus {
		c.t.Fatalf("POST records: %d %.500s", a.status, a.body)
	}
	if err := json.Unmarshal(a.body, &out); err != nil {
		c.t.Fatal(err)
	}
	return a.status, out
}

// write writes records that must all be taken, and that the contract must allow.
func (c *client) write(records ...any) {
	c.t.Helper()
	body := encode(c.t, obj{"records": records})
	if err := contract().checkRecords(body); err != nil {
		c.t.Errorf("the contract does not allow these records: %v", err)
	}
	if status, a := c.postBody(wire.TypeJSON, body); status != http.StatusOK || a.Accepted != len(records) {
		c.t.Fatalf("%d %+v", status, a)
	}
}

func (c *client) exec(sql string, args ...any) {
	c.t.Helper()
	if _, err := c.db.Pool.Exec(context.WithoutCancel(c.t.Context()), sql, args...); err != nil {
		c.t.Fatal(err)
	}
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Records, as clients write them. more holds members beyond the key.

func rec(kind string, key obj, more []obj) obj {
	out := obj{"kind": kind}
	maps.Copy(out, key)
	for _, m := range more {
		maps.Copy(out, m)
	}
	return out
}

func plan(id string, more ...obj) obj {
	return rec("plan", obj{"rootPlanId": id, "currentPlanId": id}, more)
}

// subPlan is a plan that a tool call of parent started.
func subPlan(root, id, parent, toolCallID string, more ...obj) obj {
	return rec("plan", obj{"rootPlanId": root, "currentPlanId": id, "parentPlanId": parent, "toolCallId": toolCallID}, more)
}

func step(root, planID, id string, more ...obj) obj {
	return rec("agentExecution", obj{"rootPlanId": root, "planId": planID, "stepId": id}, more)
}

func cycle(root, stepID string, seq int, more ...obj) obj {
	return rec("thinkAct", obj{"rootPlanId": root, "stepId": stepID, "seq": seq}, more)
}

func tool(root, stepID string, seq int, id string, more ...obj) obj {
	return rec("actTool", obj{"rootPlanId": root, "stepId": stepID, "seq": seq, "toolCallId": id}, more)
}

func wait(root, planID, id string, more ...obj) obj {
	return rec("wait", obj{"rootPlanId": root, "planId": planID, "waitId": id}, more)
}

func state(s string) obj { return obj{"state": s} }

// at is a time of the day that tests happen on.
func at(second int) string {
	return fmt.Sprintf("2026-11-20T12:%02d:%02dZ", second/60, second%60)
}

// lookup walks into a JSON value: "agentExecutionSequence.0.stepId". "#" is the
// length of a list.
func lookup(t testing.TB, v any, path string) any {
	t.Helper()
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case obj:
			member, ok := x[name]
			if !ok {
				t.Fatalf("%s: no member %s", path, name)
			}
			v = member
		case []any:
			if name == "#" {
				v = float64(len(x))
				continue
			}
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(x) {
				t.Fatalf("%s: no item %s among %d", path, name, len(x))
			}
			v = x[i]
		default:
			t.Fatalf("%s: %s of %v", path, name, v)
		}
	}
	return v
}

// expect compares what stands at some paths.
func expect(t testing.TB, got any, want obj) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		var plain any
		if err := json.Unmarshal(encode(t, want[path]), &plain); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain, lookup(t, got, path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// wantStatus checks a status and gives the answer on.
func wantStatus(t testing.TB, a answer, want int) answer {
	t.Helper()
	if a.status != want {
		t.Errorf("status %d, want %d: %.500s", a.status, want, a.body)
	}
	return a
}

// wantProblem checks a problem document and the field it names.
func wantProblem(t testing.TB, a answer, status int, field any) {
	t.Helper()
	wantStatus(t, a, status)
	p, _ := a.json(t).(obj)
	if diff := cmp.Diff(field, p["field"]); diff != "" {
		t.Errorf("field of %s (-want +got):\n%s", a.body, diff)
	}
}
