package runapi_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/dag"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// away makes the model of a house one that nobody serves, and is asked rarely.
func away(t *testing.T, h *enginetest.House) {
	t.Helper()
	h.Parts.DefaultModel = enginetest.Model(t, "http://127.0.0.1:1/v1", model.Patience{
		Tries: 1, Probe: model.Backoff{From: time.Minute, Most: time.Minute},
	})
}

// wantParked checks the answer of a door whose run waits for its model, and returns the run.
func wantParked(t *testing.T, a apitest.Answer, planID string) string {
	t.Helper()
	wantStatus(t, a, http.StatusServiceUnavailable)
	again, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil || again < 30 || again > 60 {
		t.Errorf("Retry-After: %q", a.Header.Get("Retry-After"))
	}

	id, _ := apitest.Lookup(t, a.JSON(t), planID).(string)
	if id == "" || !strings.Contains(string(a.Body), "model:default is away since ") {
		t.Errorf("%s", a.Body)
	}
	return id
}

// TestModelAway: whoever waits for the answer of a run whose model is away is told so at once, and which run goes on.
func TestModelAway(t *testing.T) {
	t.Parallel()
	c, h := chat(t, apitest.Options{})
	away(t, h)

	id := wantParked(t, c.post(completions, ask()), "error.planId")
	run := c.run(id).(obj)
	expect(t, run, obj{"state": "PAUSED", "errorKind": nil})
	due, err := time.Parse(time.RFC3339Nano, fmt.Sprint(run["dueAt"]))
	if err != nil || time.Until(due) > time.Minute {
		t.Errorf("dueAt: %v", run["dueAt"])
	}

	a := c.post(completions, ask(obj{"stream": true}))
	wantStatus(t, a, http.StatusOK) // it had begun
	if _, _, last := pieces(t, a.Body); !strings.Contains(last, `"code":"model_away"`) {
		t.Errorf("the stream ends with %s", last)
	}

	r := request()
	a = c.post("/api/v1/runs", r, "Prefer", "wait=60")
	wantStatus(t, a, http.StatusOK)
	expect(t, a.JSON(t), obj{"state": "PAUSED", "result": nil})
}

// TestPlanningModelAway is that for the planning of a graph.
func TestPlanningModelAway(t *testing.T) {
	t.Parallel()
	h := enginetest.Build(t, enginetest.Plans{
		Scenes:    []scriptmodel.Scene{{Name: "plan", Turns: []scriptmodel.Turn{{Content: twoNodes}}}},
		Executors: []engine.Executor{dag.Executor{}},
	})
	away(t, h)
	h.Work(h.Engine)

	d := drafter{Engine: h.Engine, parts: h.Parts}
	c := &client{apitest.ServeWith(t,
		apitest.Options{DB: h.DB, Runtime: func(*runstore.Store) (runapi.Starter, runapi.Catalog) { return d, d }})}
	wantParked(t, c.post("/api/plan", obj{"prompt": "Go."}), "planId")
}

// TestToolModelAway is that for the executor API.
func TestToolModelAway(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	answered := make(chan apitest.Answer, 1)
	go func() {
		answered <- c.post("/api/executor/executeByToolNameSync", obj{
			"toolName": "reader", "replacementParams": obj{"request": "Read."},
		})
	}()

	for parked := false; !parked; {
		claimed, err := enginetest.Claim(t.Context(), c.Runs, "w", provided, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range claimed {
			now := time.Now()
			c.work(run.Lease, []record.Change{
				&record.Plan{RootPlanID: run.RootPlanID, CurrentPlanID: run.PlanID, State: new(record.Paused)},
			}, runstore.AwaitModels(now.Add(time.Hour), []runstore.ModelWait{{
				Away:    runstore.Away{Model: "default", Since: now, ErrorKind: "network", ErrorMessage: "refused"},
				ProbeIn: time.Minute,
			}}))
			parked = true
		}
	}
	wantParked(t, <-answered, "planId")
}
