package runapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/record"
)

// TestRun checks a run from its start to its end.
func TestRun(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})

	a := c.post("/api/v1/runs", request())
	wantStatus(t, a, http.StatusAccepted)
	started := a.JSON(t)
	expect(t, started, obj{"executor": "agent", "state": "PENDING"})
	id := started.(obj)["planId"].(string)
	expect(t, c.run(id), obj{
		"planId": id, "rootPlanId": id, "name": "reader", "state": "PENDING", "result": nil, "waits.#": 0, "waitingFor.#": 0,
		"endTime": nil, "takeovers": 0, "priority": 5, "concurrencyKey": nil,
	})

	claimed, err := enginetest.Claim(t.Context(), c.Runs, "w", provided, 1)
	if err != nil {
		t.Fatal(err)
	}
	c.work(claimed[0].Lease, []record.Change{
		&record.Plan{RootPlanID: id, CurrentPlanID: id, State: new(record.Running)},
		&record.AgentExecution{RootPlanID: id, PlanID: id, StepID: "s"},
		&record.ThinkAct{RootPlanID: id, StepID: "s", ModelName: new("m"), InputTokens: new(int64(7))},
	})
	expect(t, c.run(id), obj{"state": "RUNNING", "figures.inputTokens": 7, "total.modelCalls": 1})

	c.end(claimed[0].Lease, record.Plan{State: new(record.Completed), Summary: new("It reads.")})
	expect(t, c.run(id), obj{"state": "COMPLETED", "result": "It reads.", "error": nil})
	failed := c.claimed()
	c.end(failed, record.Plan{State: new(record.Failed), ErrorMessage: new("no"), ErrorKind: new("limit_cost")})
	expect(t, c.run(failed.PlanID), obj{"state": "FAILED", "error": "no", "errorKind": "limit_cost", "result": nil})

	wantProblem(t, c.Get("/api/v1/runs/other"), http.StatusNotFound, nil)
	wantProblem(t, c.Get("/api/v1/runs/"+id+"?x=1"), http.StatusBadRequest, "x")
}

// TestRunSaysWhatLacks checks waitingFor of a run that no worker can take.
func TestRunSaysWhatLacks(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	if err := c.Runs.StopWorker(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	expect(t, c.run(c.started()), obj{"state": "PENDING", "waitingFor": provided})
}

// TestIdempotencyKey checks that a request that is sent again starts nothing, and that a key is for one
// request.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	first := c.post("/api/v1/runs", request(), "Idempotency-Key", "k").JSON(t)
	id := first.(obj)["planId"]

	again := c.post("/api/v1/runs", request(), "Idempotency-Key", "k")
	wantStatus(t, again, http.StatusAccepted)
	expect(t, again.JSON(t), obj{"planId": id, "state": "PENDING"})

	claimed, err := enginetest.Claim(t.Context(), c.Runs, "w", provided, 2)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claimed = %v, %v", claimed, err)
	}
	c.end(claimed[0].Lease, record.Plan{State: new(record.Completed), Summary: new("done")})
	expect(t, c.post("/api/v1/runs", request(), "Idempotency-Key", "k").JSON(t), obj{"planId": id, "state": "COMPLETED"})
	expect(t, c.post("/api/v1/runs", request(), "Idempotency-Key", "k", "Prefer", "wait=1").JSON(t),
		obj{"planId": id, "result": "done"})

	other := request()
	other["userId"] = "x"
	wantProblem(t, c.post("/api/v1/runs", other, "Idempotency-Key", "k"), http.StatusUnprocessableEntity,
		"Idempotency-Key")
	wantProblem(t, c.post("/api/v1/runs", request(), "Idempotency-Key", strings.Repeat("k", 256)), http.StatusBadRequest,
		"Idempotency-Key")
}

// TestPreferWait checks that a request waits for its run: until it ends or waits for a human, or until the
// time is over.
func TestPreferWait(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})

	var all sync.WaitGroup
	answers := map[string]apitest.Answer{}
	var mu sync.Mutex
	for _, how := range []string{"ends", "parks"} {
		all.Go(func() {
			r := request()
			r["input"].(obj)["request"] = how
			a := c.post("/api/v1/runs", r, "Prefer", `respond-async, wait="60"; x=1`)
			mu.Lock()
			defer mu.Unlock()
			answers[how] = a
		})
	}

	for handled := 0; handled < 2; {
		claimed, err := enginetest.Claim(t.Context(), c.Runs, "w", provided, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range claimed {
			handled++
			if strings.Contains(string(run.Input), "ends") {
				c.end(run.Lease, record.Plan{State: new(record.Completed), Summary: new("the end")})
				continue
			}

			w := formWait()
			w.RootPlanID, w.PlanID = run.RootPlanID, run.PlanID
			c.work(run.Lease, []record.Change{
				&w, &record.Plan{RootPlanID: run.RootPlanID, CurrentPlanID: run.PlanID, State: new(record.Running)},
			}, runstore.Park(time.Now().Add(time.Hour)))
		}
	}

	all.Wait()
	for how, want := range map[string]obj{
		"ends": {"state": "COMPLETED", "result": "the end"}, "parks": {"state": "WAITING", "waits.0.waitId": "form"},
	} {
		wantStatus(t, answers[how], http.StatusOK)
		expect(t, answers[how].JSON(t), want)
	}

	late := c.post("/api/v1/runs", request(), "Prefer", "wait=1")
	wantStatus(t, late, http.StatusAccepted)
	expect(t, late.JSON(t), obj{"state": "PENDING"})
	wantStatus(t, c.post("/api/v1/runs", request(), "Prefer", "wait=soon"), http.StatusAccepted)
}

// TestControl checks stop, pause and resume.
func TestControl(t *testing.T) {
	t.Parallel()
	_, line := apitest.NewKey(t, "unused", httpd.ScopeRead)
	secret, all := apitest.NewKey(t, "ops", httpd.ScopeRun, httpd.ScopeRead)
	c := serve(t, apitest.Options{Server: func(config *apitest.Config) { config.HTTP.Keys = apitest.Keys(t, line, all) }})
	c.Key = secret
	l := c.claimed()
	at := "/api/v1/runs/" + l.PlanID

	for _, action := range []string{"pause", "resume", "stop"} {
		a := c.post(at+"/"+action, "")
		wantStatus(t, a, http.StatusAccepted)
		expect(t, a.JSON(t), obj{"planId": l.PlanID, "state": "RUNNING"})
	}

	c.post(at+"/stop", obj{"by": "ann"})
	var asked string
	row := c.DB.Pool.QueryRow(t.Context(),
		"SELECT string_agg(concat_ws(' ', action, 'by', requested_by, claimed_by), ', ' ORDER BY id) FROM "+
			"actlog.control_request")
	if err := row.Scan(&asked); err != nil || asked != "PAUSE by ops, RESUME by ops, STOP by ops, STOP by ops ann" {
		t.Errorf("asked for: %s, %v", asked, err)
	}

	wanted, err := c.Runs.Wanted(t.Context(), "w", nil)
	if err != nil || len(wanted) != 1 || wanted[0].Desired != runstore.DesiredCancel {
		t.Errorf("wanted %+v, %v", wanted, err)
	}

	c.end(l, record.Plan{State: new(record.Cancelled)})
	for _, action := range []string{"pause", "resume", "stop"} {
		wantProblem(t, c.post(at+"/"+action, obj{}), http.StatusConflict, nil)
		wantProblem(t, c.post("/api/v1/runs/other/"+action, obj{}), http.StatusNotFound, nil)
		wantProblem(t, c.post(at+"/"+action, obj{"force": true}), http.StatusUnprocessableEntity, "force")
	}

	paused := c.claimed()
	c.work(paused, []record.Change{
		&record.Plan{RootPlanID: paused.RootPlanID, CurrentPlanID: paused.PlanID, State: new(record.Paused)},
	}, runstore.Park(time.Time{}))
	expect(t, c.run(paused.PlanID), obj{"state": "PAUSED"})
}

// TestRunList checks filters and pages of the list over HTTP.
func TestRunList(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	want := []string{}
	for range 3 {
		l := c.claimed()
		c.end(l, record.Plan{State: new(record.Completed)})
		want = append([]string{l.PlanID}, want...)
	}

	pending := c.started()
	expect(t, c.Read("/api/v1/runs?state=PENDING&executor=agent&name=reader"), obj{
		"items.#": 1, "items.0.planId": pending, "nextCursor": nil,
	})
	expect(t, c.Read("/api/v1/runs?name=other"), obj{"items.#": 0})

	failed := c.claimed()
	c.end(failed, record.Plan{State: new(record.Failed), ErrorKind: new("overloaded")})
	expect(t, c.Read("/api/v1/runs?errorKind=overloaded"), obj{"items.#": 1, "items.0.planId": failed.PlanID})
	expect(t, c.Read("/api/v1/runs?errorKind=record_mismatch"), obj{"items.#": 0})
	expect(t, c.Read("/api/v1/runs?project=other"), obj{"items.#": 0})
	expect(t, c.Read("/api/v1/runs?project=default&state=FAILED"), obj{"items.#": 1, "items.0.planId": failed.PlanID})

	var got []string
	for path := "/api/v1/runs?state=COMPLETED&limit=2"; path != ""; {
		page := c.Read(path).(obj)
		for _, item := range page["items"].([]any) {
			got = append(got, item.(obj)["planId"].(string))
		}

		next, more := page["nextCursor"].(string)
		if path = ""; more {
			path = "/api/v1/runs?state=COMPLETED&limit=2&cursor=" + next
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("listed %v, want %v", got, want)
	}

	for query, field := range map[string]string{
		"state=DONE": "state", "limit=0": "limit", "cursor=x": "cursor", "agent=x": "agent", "name=%00": "name",
	} {
		wantProblem(t, c.Get("/api/v1/runs?"+query), http.StatusBadRequest, field)
	}
}

// TestBadStarts checks requests that cannot be read, or name what is not there.
func TestBadStarts(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	with := func(name string, value any) obj {
		r := request()
		r[name] = value
		return r
	}
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)

	for _, tt := range []struct {
		body   any
		status int
		field  any
	}{
		{"", http.StatusUnprocessableEntity, "executor"},
		{"{", http.StatusBadRequest, nil},
		{"[]", http.StatusBadRequest, nil},
		{"null", http.StatusBadRequest, nil},
		{"{} {}", http.StatusBadRequest, nil},
		{"{\"executor\":\"\xff\"}", http.StatusBadRequest, nil},
		{`{"executor":"agent","input":` + deep + `}`, http.StatusBadRequest, nil},
		{large(5 << 20), http.StatusRequestEntityTooLarge, nil},
		{large(300), http.StatusUnprocessableEntity, "executor"},
		{with("executor", "dag"), http.StatusUnprocessableEntity, "executor"},
		{with("executor", 7), http.StatusUnprocessableEntity, "executor"},
		{with("executor", nil), http.StatusUnprocessableEntity, "executor"},
		{with("executor", "a\x00"), http.StatusUnprocessableEntity, "executor"},
		{with("Executor", "agent"), http.StatusUnprocessableEntity, "Executor"},
		{with("input", nil), http.StatusUnprocessableEntity, "input"},
		{with("input", "text"), http.StatusUnprocessableEntity, "input"},
		{with("input", []int{1}), http.StatusUnprocessableEntity, "input"},
		{with("input", obj{"agent": "writer", "request": "Write."}), http.StatusUnprocessableEntity, "name"},
		{with("tags", "a"), http.StatusUnprocessableEntity, "tags"},
		{with("tags", []any{1}), http.StatusUnprocessableEntity, "tags"},
		{with("tags", []string{strings.Repeat("x", 256)}), http.StatusUnprocessableEntity, "tags"},
		{with("userId", obj{}), http.StatusUnprocessableEntity, "userId"},
		{with("conversationId", strings.Repeat("x", 256)), http.StatusUnprocessableEntity, "conversationId"},
		{with("limits", 3), http.StatusUnprocessableEntity, "limits"},
		{with("limits", obj{"token": 3}), http.StatusUnprocessableEntity, "limits.token"},
		{with("limits", obj{"tokens": "3"}), http.StatusUnprocessableEntity, "limits.tokens"},
		{with("limits", obj{"tokens": 1.5}), http.StatusUnprocessableEntity, "limits.tokens"},
		{with("limits", obj{"rounds": -1}), http.StatusUnprocessableEntity, "limits.rounds"},
		{with("limits", obj{"costUsd": -1}), http.StatusUnprocessableEntity, "limits.costUsd"},
		{with("limits", json.RawMessage(`{"seconds":1e999}`)), http.StatusUnprocessableEntity, "limits.seconds"},
		{with("urgency", 3), http.StatusUnprocessableEntity, "urgency"},
	} {
		wantProblem(t, c.post("/api/v1/runs", tt.body), tt.status, tt.field)
	}

	wantProblem(t, c.Do(http.MethodPost, "/api/v1/runs", strings.NewReader("{}"), "Content-Type", "text/plain"),
		http.StatusUnsupportedMediaType, nil)
	wantStatus(t, c.post("/api/v1/runs", with("limits", obj{"tokens": nil, "costUsd": 0.5})), http.StatusAccepted)

	c.CloseStore()
	wantStatus(t, c.post("/api/v1/runs", request()), http.StatusServiceUnavailable)
	wantStatus(t, c.Get("/api/v1/runs/p"), http.StatusServiceUnavailable)
}

// TestScopes checks what keys may be used for.
func TestScopes(t *testing.T) {
	t.Parallel()
	keys, lines := map[httpd.Scope]string{}, []string{}
	for _, scope := range []httpd.Scope{
		httpd.ScopeRead, httpd.ScopeWrite, httpd.ScopeRun, httpd.ScopeDecide, httpd.ScopeAdmin,
	} {
		secret, line := apitest.NewKey(t, string(scope), scope)
		keys[scope], lines = secret, append(lines, line)
	}

	c := serve(t, apitest.Options{Server: func(config *apitest.Config) { config.HTTP.Keys = apitest.Keys(t, lines...) }})
	for _, tt := range []struct {
		method, path string
		need         httpd.Scope
	}{
		{http.MethodPost, "/api/v1/runs", httpd.ScopeRun},
		{http.MethodGet, "/api/v1/runs", httpd.ScopeRead},
		{http.MethodGet, "/api/v1/runs/p", httpd.ScopeRead},
		{http.MethodGet, "/api/v1/runs/p/trace", httpd.ScopeRead},
		{http.MethodPost, "/api/v1/runs/p/stop", httpd.ScopeRun},
		{http.MethodPost, "/api/v1/runs/p/pause", httpd.ScopeRun},
		{http.MethodPost, "/api/v1/runs/p/resume", httpd.ScopeRun},
		{http.MethodPost, "/api/v1/runs/p/waits/w", httpd.ScopeDecide},
		{http.MethodPost, "/api/executor/submit-input/p", httpd.ScopeDecide},
		{http.MethodPost, "/api/executor/stopTask/p", httpd.ScopeRun},
		{http.MethodGet, "/api/executor/taskStatus/p", httpd.ScopeRead},
		{http.MethodPost, "/api/executor/executeByToolNameAsync", httpd.ScopeRun},
		{http.MethodPost, "/api/executor/executeByToolNameSync", httpd.ScopeRun},
		{http.MethodGet, "/api/executor/executeByToolNameSync/x", httpd.ScopeRun},
	} {
		for scope, secret := range keys {
			a := c.As(secret).Do(tt.method, tt.path, nil)
			if refused := a.Status == http.StatusForbidden; refused != (scope != tt.need) {
				t.Errorf("%s %s with scope %s: %d", tt.method, tt.path, scope, a.Status)
			}
		}
		wantStatus(t, c.Do(tt.method, tt.path, nil), http.StatusUnauthorized)
	}
}

// S10: requests that wait for the end of a run are streams as others: one key has a share of them, and they end with
// their key.
func TestShareOfWaits(t *testing.T) {
	t.Parallel()
	greedy, greedyLine := apitest.NewKey(t, "greedy", httpd.ScopeRun)
	other, otherLine := apitest.NewKey(t, "other", httpd.ScopeRun)
	reader, readerLine := apitest.NewKey(t, "reader", httpd.ScopeRead)
	c := serve(t, apitest.Options{Server: func(config *apitest.Config) {
		config.HTTP.Keys, config.HTTP.MaxStreams = apitest.Keys(t, greedyLine, otherLine, readerLine), 4
	}})
	send := func(key, method, path string) apitest.Answer {
		return c.As(key).Do(method, path, strings.NewReader(`{"toolName":"reader","replacementParams":{"request":"Read."}}`),
			"Content-Type", "application/json")
	}

	// The worker takes no run, so these wait.
	answers := make(chan apitest.Answer, 2)
	for i, key := range []string{greedy, other} {
		go func() { answers <- send(key, http.MethodPost, "/api/executor/executeByToolNameSync") }()
		c.As(reader).WantMetric("actlog_http_streams", float64(i+1))
	}

	for _, at := range []string{
		"POST /api/executor/executeByToolNameSync", "GET /api/executor/executeByToolNameSync/reader",
		"POST /execution/agents/a/run", "POST /execution/agents/a/stream",
		"POST /execution/workflows/simple/a/run", "POST /execution/workflows/linear/a/run",
		"POST /execution/workflows/custom/a/run", "POST /api/plan",
	} {
		method, path, _ := strings.Cut(at, " ")
		if a := send(greedy, method, path); a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", at, a.Status, a.Body)
		}
	}

	c.Server.HTTP.SetKeys(apitest.Keys(t, readerLine))
	for range 2 {
		wantProblem(t, <-answers, http.StatusUnauthorized, nil)
	}
	c.As(reader).WantMetric("actlog_http_streams", 0)
}
