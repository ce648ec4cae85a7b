package plan_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/db"
	"github.com/actlog/actlog/agent/tool/docker"
	httptool "github.com/actlog/actlog/agent/tool/http"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/plan"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// hired returns a house in which one of the roles that nobody configured works with tools.
func hired(t *testing.T, role string, tools []tool.Tool, steps ...object) *enginetest.House {
	t.Helper()
	d := define.DefaultRole(role).Definition(role, define.DefinitionModel{Name: "default", Model: "scripted"}, nil, nil)
	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{{Name: "plan", Turns: says(planned(steps...))}}, Tools: tools,
		Definitions: map[string]any{"role." + role: d}, Executors: []engine.Executor{plan.Executor{}},
	})
	h.Work(h.Engine)
	return h
}

// approve approves all that a run asks for, and returns what whoever approved was shown.
func approve(h *enginetest.House, id string) (shown []string) {
	h.T.Helper()
	storetest.Until(h.T, "run "+id+" ends", func() bool {
		if h.Plan(id).Record.State.Terminal() {
			return true
		}

		for _, w := range h.Waits() {
			full := waitOf(h, w.WaitID)
			if s := decision.SubjectOf(&full); s.Preview != nil {
				shown = append(shown, s.Preview.Kind+": "+s.Preview.Text)
			}
			if err := h.Decide(w, record.Approved, "approve", ""); err != nil {
				h.T.Log(err) // it was decided a moment ago
			}
		}
		return false
	})
	return shown
}

func waitOf(h *enginetest.House, id string) (w record.Wait) {
	h.T.Helper()
	err := h.DB.Pool.QueryRow(context.Background(), "SELECT type, subject FROM actlog.wait_state WHERE wait_id = $1",
		id).Scan(&w.Type, &w.Subject)
	if err != nil {
		h.T.Fatal(err)
	}
	return w
}

// daemon is a Docker daemon on a socket with one container, which a restart makes well.
func daemon(t *testing.T) (socket string, requests func() []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "docker-") //nolint:usetesting // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	socket = filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	var posted []string
	s := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if r.Method == http.MethodPost {
				posted = append(posted, r.URL.Path)
				w.WriteHeader(http.StatusNoContent)
				return
			}
			fmt.Fprintf(
				w, `[{"Id": "aaaaaaaaaaaa", "Names": ["/web-1"], "Image": "shop:1", "State": "running", "Status": "Up (restarts: %d)"}]`, len(posted),
			)
		})}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() { s.Close() })
	return socket, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(posted) }
}

// DEVOPS looks at the health of a service, restarts its container once that is approved, and reports to an API.
func TestDevops(t *testing.T) {
	t.Parallel()
	var reported []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		reported = append(reported, fmt.Sprintf("%s %s %s", r.Method, r.URL, body))
		io.WriteString(w, `{"healthy": false}`)
	}))
	t.Cleanup(api.Close)

	host, err := url.Parse(api.URL)
	if err != nil {
		t.Fatal(err)
	}
	web, err := httptool.Tools(httptool.Options{Hosts: []string{host.Host}, Methods: []string{"GET", "POST"},
		AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}

	socket, posted := daemon(t)
	containers, err := docker.Tools(docker.Options{Socket: socket, Write: true, Containers: []string{"web-*"}})
	if err != nil {
		t.Fatal(err)
	}

	h := hired(t, "DEVOPS", append(web, containers...),
		step("http.request", object{"url": api.URL + "/health"}), step("docker.list_containers", object{}),
		step("docker.restart", object{"container": "web-1"}),
		step("http.send", object{"method": "POST", "url": api.URL + "/reports", "body": "web-1 was restarted"}))

	id := start(h, object{"task": "Make it healthy", "role": "DEVOPS"})
	shown := approve(h, id)
	d := ended(h, id)
	if *d.plan.Record.State != record.Completed {
		t.Fatalf("%s: %s\n%s", *d.plan.Record.State, text(d.plan.Record.ErrorMessage), d.operations())
	}

	got := d.operations()
	for _, want := range []string{`{"healthy": false}`, "web-1: running, Up (restarts: 0)",
		"docker.restart COMPLETED web-1 is restarted.", "http.send COMPLETED 200 OK"} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}

	if len(shown) != 2 ||
		shown[0] != "command: docker restart web-1\nimage: shop:1\nid: aaaaaaaaaaaa\nstate now: running\n" ||
		!strings.HasPrefix(shown[1], "request: POST "+api.URL+"/reports\nIdempotency-Key: ") ||
		!strings.HasSuffix(shown[1], "\n\nweb-1 was restarted") {
		t.Errorf("shown = %q", shown)
	}

	if got, want := posted(), []string{"/containers/aaaaaaaaaaaa/restart"}; !slices.Equal(got, want) {
		t.Errorf("posted() = %q", got)
	}
	if want := []string{"GET /health ", "POST /reports web-1 was restarted"}; !slices.Equal(reported, want) {
		t.Errorf("reported = %q", reported)
	}
}

// DATA asks a database, and changes it once that is approved.
func TestData(t *testing.T) {
	t.Parallel()
	shop := pgtest.Empty(t)
	if _, err := shop.Pool.Exec(t.Context(), "CREATE TABLE item (id int PRIMARY KEY, price numeric); INSERT INTO item "+
		"SELECT i, i FROM generate_series(1, 3) i"); err != nil {
		t.Fatal(err)
	}
	tools, err := db.Tools(db.Options{URL: shop.URL, Write: true, Idempotency: true, AllowSuperuser: true})
	if err != nil {
		t.Fatal(err)
	}

	h := hired(t, "DATA", tools,
		step("db.schema", object{}),
		step("db.query", object{"sql": "SELECT sum(price) FROM item WHERE id > $1", "parameters": []any{1}}),
		step("db.execute", object{"sql": "UPDATE item SET price = price * $1", "parameters": []any{2}}),
		step("db.query", object{"sql": "SELECT sum(price) FROM item"}))
	id := start(h, object{"task": "Double the prices", "role": "DATA"})
	shown := approve(h, id)
	d := ended(h, id)

	want := "db.schema COMPLETED table public.item\n  keys: PRIMARY KEY (id)\n  id integer not null\n  price numeric\n\n" +
		"db.query COMPLETED sum\n5\n(1 row)\ndb.execute COMPLETED (UPDATE 3)\ndb.query COMPLETED sum\n12\n(1 row)\n"
	d.want("operations", d.operations(), want)
	if len(shown) != 1 ||
		!strings.HasPrefix(shown[0], "statement: UPDATE item SET price = price * $1\n-- $1 = 2\n-- Postgres expects ") {
		t.Errorf("shown = %q", shown)
	}

	var calls int
	if err := shop.Pool.QueryRow(t.Context(), "SELECT count(*) FROM actlog_tool.call").Scan(&calls); err != nil ||
		calls != 1 {
		t.Errorf("%d calls are noted, %v", calls, err)
	}
}

// A role of which no tool is there cannot work, and says so before a run begins.
func TestRoleWithoutTools(t *testing.T) {
	t.Parallel()
	h := hired(t, "DATA", words)
	_, err := h.Engine.Start(t.Context(),
		engine.Request{Executor: "plan", Input: []byte(`{"task": "Do it", "role": "DATA"}`)})
	if err == nil || !strings.Contains(err.Error(),
		"is DATA, which has no tools: there are none that match db.*, db-*, files.*, files-*, tests.*, tests-*") {
		t.Error(err)
	}
}
