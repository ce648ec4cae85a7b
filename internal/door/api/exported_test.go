package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/internal/door/api"
	"github.com/actlog/actlog/internal/record/wire"
	"github.com/actlog/actlog/internal/testkit/apitest"
)

func exported(root string) string { return "/api/v1/plans/" + root + "/records" }

// everything reads all that the API has of a tree, without row numbers.
func (c *client) everything(root string) (all []any) {
	c.T.Helper()
	var visit func(any)
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case obj:
			if _, isNumber := v["id"].(float64); isNumber {
				delete(v, "id")
			}
			delete(v, "parentExecutionId")
			for _, member := range v {
				strip(member)
			}
		case []any:
			for _, item := range v {
				strip(item)
			}
		}
	}

	read := func(path string) any {
		v := c.Read(path)
		strip(v)
		all = append(all, v)
		return v
	}
	visit = func(v any) {
		switch v := v.(type) {
		case obj:
			if id, ok := v["currentPlanId"].(string); ok {
				for _, beside := range []string{"thoughts", "artifacts", "sources", "waits"} {
					read("/api/v1/plans/" + id + "/" + beside)
				}
			} else if id, ok := v["stepId"].(string); ok {
				read(agentExecution + id)
			}
			for _, name := range []string{"agentExecutionSequence", "subPlanExecutionRecords"} {
				visit(v[name])
			}
		case []any:
			for _, item := range v {
				visit(item)
			}
		}
	}

	visit(read(details + root))
	return all
}

// TestExportMakesTheSameTreeElsewhere: all reads are the same, except for row numbers. Written
// to its own server again, it changes nothing.
func TestExportMakesTheSameTreeElsewhere(t *testing.T) {
	t.Parallel()
	c, other := serve(t), serve(t)
	example, _ := contract().Find("paths", "/api/v1/records", "post", "requestBody", "content", "application/json",
		"examples", "run", "value")
	c.Write(example["records"].([]any)...)

	c.Write(
		tool("plan-7", "step-1", 3, "call-9", obj{
			"attempt": 2, "rev": 12, "spanId": "span-1", "state": "FAILED", "errorMessage": "no", "parameters": "<&>\u2028",
		}),
		tool("plan-7", "step-1", 3, "call-9", obj{"attempt": 2, "rev": 5, "name": "fetch", "callIndex": 1, "endTime": at(9)}),
		step("plan-7", "plan-8", "step-2", obj{"stepIndex": 1, "maxSteps": 4, "metadata": obj{"z": 1, "a": []any{nil, 1.5}}}),
		cycle("plan-7", "unplanned", 0, obj{"inputCharCount": 77, "thinkOutput": "é"}),
		subPlan("plan-7", "plan-9", "plan-8", "lost", obj{
			"project": "p", "tags": []any{}, "lastSeenAt": at(3), "title": strings.Repeat("x", 2000),
			"name": strings.Repeat("é", 200),
		}),
		artifact("plan-7", "plan-8", "text", obj{"value": "just text"}),
		wait("plan-7", "plan-9", "w", obj{"state": "APPROVED", "decision": "yes", "decidedBy": "ops", "expiresAt": at(60)}))

	want := c.everything("plan-7")

	a := wantStatus(t, c.Get(exported("plan-8")), http.StatusOK)
	var records []any
	for line := range bytes.Lines(a.Body) {
		var r any
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}

	other.Write(records...)
	if diff := cmp.Diff(want, other.everything("plan-7")); diff != "" {
		t.Errorf("elsewhere (-original +copy):\n%s", diff)
	}

	c.Write(records...)
	if diff := cmp.Diff(want, c.everything("plan-7")); diff != "" {
		t.Errorf("written again (-before +after):\n%s", diff)
	}
	if again := other.Get(exported("plan-7")); !bytes.Equal(a.Body, again.Body) {
		t.Errorf("the copy's own export differs:\n%s\n%s", a.Body, again.Body)
	}
}

func TestExportOfNothing(t *testing.T) {
	t.Parallel()
	c := serve(t)
	wantProblem(t, c.Get(exported("nobody")), http.StatusNotFound, nil)
	wantProblem(t, c.Get(exported("%20")), http.StatusBadRequest, "planId")
	wantProblem(t, c.Get(exported("%00")), http.StatusNotFound, nil)
}

// large writes a tree that fits into no buffer on the way.
func (c *client) large(root string) {
	c.T.Helper()
	c.Write(cycle(root, "s", 0))
	c.Exec(`INSERT INTO actlog.think_act_record (root_plan_id, step_id, seq, part, think_input)
		SELECT x.root_plan_id, x.step_id, n, x.part, repeat('0123456789', 100000)
		FROM actlog.think_act_record AS x, generate_series(1, 40) AS n WHERE x.root_plan_id = $1`, root)
}

// TestAnExportThatBreaksOffIsSeen: the database goes away while it is sent. Whatever the
// encoding, the client sees an error, and the log has the cause.
func TestAnExportThatBreaksOffIsSeen(t *testing.T) {
	t.Parallel()
	log := new(apitest.Log)
	c := serveWith(t, options{Log: log})
	c.large("p")
	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Base+exported("p"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", encoding)
		r.Header.Set("X-Request-Id", encoding)

		resp, err := c.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if encoding == "identity" { // the others compress it all into what is on the way
			if _, err := io.CopyN(io.Discard, resp.Body, 1000); err != nil {
				t.Fatal(err)
			}
		}

		c.Exec("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid " +
			"<> pg_backend_pid()")
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()

		broken := len(log.Lines("level=ERROR", "id="+encoding)) == 1
		if encoding == "identity" && !broken {
			t.Errorf("%s: it did not break off:\n%.2000s", encoding, log)
		}
		if broken != errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: broken %v, the client saw %v", encoding, broken, err)
		}
		wantStatus(t, c.Get("/livez"), http.StatusOK)
	}
}

// ask sends a request for an export, and does not read the answer.
func (c *client) ask(root, id string) net.Conn {
	c.T.Helper()
	conn := c.Dial()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\n\r\n", exported(root), id)
	return conn
}

// TestExportsAtOnceAreBounded: more of one client are answered 429.
func TestExportsAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	log := new(apitest.Log)
	c := serveWith(t, options{Log: log})
	c.large("p")
	var conns []net.Conn
	for i := range api.MaxLong {
		conns = append(conns, c.ask("p", fmt.Sprint("slow/", i)))
	}

	for api.Long(c.Server.API) < api.MaxLong {
		c.Get("/livez")
	}
	wantProblem(t, c.Get(exported("p")), http.StatusTooManyRequests, nil)

	for _, conn := range conns {
		conn.Close()
	}
	for api.Long(c.Server.API) > 0 {
		c.Get("/livez")
	}

	wantStatus(t, c.Do(http.MethodHead, exported("p"), nil), http.StatusOK)
	if errs := log.Lines("level=ERROR"); len(errs) > 0 {
		t.Errorf("clients that go are no errors: %s", errs)
	}
}

// TestAClientThatDoesNotReadOnIsCutOff, and its connection to Postgres is released.
func TestAClientThatDoesNotReadOnIsCutOff(t *testing.T) {
	t.Parallel()
	log := new(apitest.Log)
	c := serveWith(t, options{Log: log, Server: func(config *apitest.Config) {
		config.HTTP.ReadTimeout, config.HTTP.AnswerPatience = 50*time.Millisecond, 50*time.Millisecond
	}})
	c.large("p")

	c.ask("p", "slow")
	for len(log.Lines("msg=request", "id=slow")) == 0 {
		c.Get("/livez")
	}
	if n := api.Long(c.Server.API); n != 0 {
		t.Errorf("%d exports are held", n)
	}
}

// TestHead: HEAD answers as GET does, without the body, and does not serve the exception.
func TestHead(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p", obj{"title": strings.Repeat("x", 5000)}), plan("q"), step("q", "q", "s"))

	for _, path := range []string{
		details + "p", details + "nobody", details, agentExecution + "s", "/api/v1/plans", "/api/v1/plans?limit=x",
		"/api/v1/plans/q", "/api/v1/steps/s", "/api/v1/plans/q/waits", exported("q"), exported("nobody"), "/livez",
		"/readyz", "/openapi.yaml", "/nowhere",
	} {
		get, head := c.Get(path), c.Do(http.MethodHead, path, nil)
		wantStatus(t, head, get.Status)
		if len(head.Body) > 0 {
			t.Errorf("%s: body %q", path, head.Body)
		}
		for _, name := range []string{"Content-Type", "ETag"} {
			if get.Header.Get(name) != head.Header.Get(name) {
				t.Errorf("%s: %s %q, of GET %q", path, name, head.Header.Get(name), get.Header.Get(name))
			}
		}
	}

	tag := c.Get("/api/v1/plans/p").Header.Get("ETag")
	wantStatus(t, c.Do(http.MethodHead, "/api/v1/plans/p", nil, "If-None-Match", tag), http.StatusNotModified)
	c.Write(plan("p", obj{"exception": "boom"}))
	wantStatus(t, c.Do(http.MethodHead, details+"p", nil), http.StatusOK)
	wantStatus(t, c.Get(details+"p"), http.StatusInternalServerError)
	wantStatus(t, c.Do(http.MethodHead, "/api/v1/records", nil), http.StatusMethodNotAllowed)
	wantProblem(t, c.Get("/api/v1/plans/"), http.StatusNotFound, nil)

	for _, path := range []string{details, details + "%20"} {
		if a := wantStatus(
			t, c.Do(http.MethodDelete, path, nil), http.StatusBadRequest,
		); string(a.Body) != "Plan ID cannot be null or empty" {
			t.Errorf("DELETE %s: %s", path, a.Body)
		}
	}
}

// TestTheExportIsWhatTheRecorderSends: lines of the wire format.
func TestTheExportIsWhatTheRecorderSends(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Write(plan("p", obj{"rev": 3, "state": "RUNNING"}), plan("p", obj{"title": "t"}))
	a := c.Get(exported("p"))
	want := `{"kind":"plan","rootPlanId":"p","currentPlanId":"p","title":"t"}` + "\n" +
		`{"kind":"plan","rootPlanId":"p","currentPlanId":"p","rev":3,"state":"RUNNING"}` + "\n"
	if string(a.Body) != want || a.Header.Get("Content-Type") != wire.TypeNDJSON {
		t.Errorf("a.Header.Get = %s %s", a.Header.Get("Content-Type"), a.Body)
	}
}
