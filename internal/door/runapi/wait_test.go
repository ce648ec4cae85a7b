package runapi_test

import (
	"encoding/json"
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

// TestDecide checks every decision over HTTP: what goes on record of it, and that the run is due then.
func TestDecide(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})

	approval := record.Wait{
		WaitID: "w", Type: new(record.WaitActionValidation), Title: new("Commit?"), ToolCallID: new("call"),
		Subject: json.RawMessage(`{"name":"git.commit","parameters":{"message":"m"},"files":["a.go"]}`),
	}
	validation := record.Wait{
		WaitID: "w", Type: new(record.WaitPlanValidation), Subject: json.RawMessage(`{"plan":{"goal":"g"}}`),
	}
	unknown := record.Wait{
		WaitID: "w", Type: new(record.WaitActionValidation),
		Subject: json.RawMessage(`{"name":"pay","decisions":["done","retry","skip"]}`),
	}
	asForm := formWait()
	asForm.WaitID = "w"

	for _, tt := range []struct {
		wait  record.Wait
		send  obj
		shown obj
		state string
	}{
		{
			asForm, obj{"decision": "submit", "values": obj{"region": "EMEA"}},
			obj{"title": "Where?", "decisions.0": "submit", "formInputs.#": 2, "name": nil, "parameters": nil, "files.#": 0},
			"SUBMITTED",
		},
		{
			approval, obj{"decision": "approve", "by": "ann"},
			obj{
				"name": "git.commit", "parameters.message": "m", "files.0": "a.go", "plan": nil,
				"decisions": []string{"approve", "reject"}, "toolCallId": "call",
			}, "APPROVED",
		},
		{approval, obj{"decision": "reject", "text": "no"}, obj{"type": "ACTION_VALIDATION"}, "REJECTED"},
		{
			validation, obj{"decision": "accept"}, obj{"plan.goal": "g", "decisions": []string{"accept", "reject", "modify"}},
			"ACCEPTED",
		},
		{validation, obj{"decision": "reject"}, obj{}, "REJECTED"},
		{validation, obj{"decision": "modify", "text": "shorter"}, obj{}, "MODIFIED"},
		{unknown, obj{"decision": "done"}, obj{"decisions": []string{"done", "retry", "skip"}}, "ACCEPTED"},
		{unknown, obj{"decision": "retry"}, obj{}, "APPROVED"},
		{unknown, obj{"decision": "skip"}, obj{}, "REJECTED"},
	} {
		l := c.waits(tt.wait)
		run := c.run(l.PlanID)
		expect(t, run, obj{"state": "WAITING", "waits.#": 1, "waits.0.state": "WAITING", "waits.0.decidedBy": nil})
		expect(t, apitest.Lookup(t, run, "waits.0"), tt.shown)

		at := "/api/v1/runs/" + l.PlanID + "/waits/w"
		a := c.post(at, tt.send)
		wantStatus(t, a, http.StatusOK)
		expect(t, a.JSON(t), obj{
			"state": tt.state, "decision": tt.send["decision"], "decidedBy": nil, "by": tt.send["by"],
			"decisionText": tt.send["text"], "planId": l.PlanID,
		})

		wantProblem(t, c.post(at, tt.send), http.StatusConflict, nil)
		claimed, err := enginetest.Claim(t.Context(), c.Runs, "w", provided, 1)
		if err != nil || len(claimed) != 1 || claimed[0].PlanID != l.PlanID {
			t.Errorf("after %v: %+v, %v", tt.send, claimed, err)
		}
	}
}

// TestFirstDecisionCounts checks that of two who decide, one is answered 409.
func TestFirstDecisionCounts(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	l := c.waits(formWait())

	statuses := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			a := c.post("/api/v1/runs/"+l.PlanID+"/waits/form", obj{"decision": "submit", "values": obj{"region": "APAC"}})
			mu.Lock()
			defer mu.Unlock()
			statuses[a.Status]++
		})
	}

	all.Wait()
	if statuses[http.StatusOK] != 1 || statuses[http.StatusConflict] != 5 {
		t.Errorf("answers %v", statuses)
	}
}

// TestBadDecisions checks decisions that cannot be, and that the wait stays open then.
func TestBadDecisions(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	l := c.waits(formWait())
	at := "/api/v1/runs/" + l.PlanID + "/waits/form"
	ok := obj{"region": "EMEA"}

	for _, tt := range []struct {
		body   any
		status int
		field  any
	}{
		{"", http.StatusUnprocessableEntity, "decision"},
		{"[", http.StatusBadRequest, nil},
		{obj{"decision": 1}, http.StatusUnprocessableEntity, "decision"},
		{obj{"decision": "approve"}, http.StatusUnprocessableEntity, "decision"},
		{obj{"decision": "submit"}, http.StatusUnprocessableEntity, "region"},
		{obj{"decision": "submit", "values": obj{}}, http.StatusUnprocessableEntity, "region"},
		{obj{"decision": "submit", "values": []int{1}}, http.StatusUnprocessableEntity, "values"},
		{obj{"decision": "submit", "values": obj{"region": "MARS"}}, http.StatusUnprocessableEntity, "region"},
		{
			obj{"decision": "submit", "values": obj{"region": "EMEA", "Region": "EMEA"}}, http.StatusUnprocessableEntity,
			"Region",
		},
		{
			obj{"decision": "submit", "values": obj{"region": "EMEA", "colour": "red"}}, http.StatusUnprocessableEntity,
			"colour",
		},
		{obj{"decision": "submit", "values": ok, "reason": "x"}, http.StatusUnprocessableEntity, "reason"},
		{obj{"decision": "submit", "values": ok, "by": strings.Repeat("x", 256)}, http.StatusUnprocessableEntity, "by"},
		{obj{"decision": "submit", "values": ok, "text": 1}, http.StatusUnprocessableEntity, "text"},
	} {
		wantProblem(t, c.post(at, tt.body), tt.status, tt.field)
	}

	wantProblem(t, c.post("/api/v1/runs/"+l.PlanID+"/waits/other", obj{"decision": "submit"}), http.StatusNotFound, nil)
	wantProblem(t, c.post("/api/v1/runs/other/waits/form", obj{"decision": "submit"}), http.StatusNotFound, nil)
	expect(t, c.run(l.PlanID), obj{"state": "WAITING", "waits.0.state": "WAITING"})

	expired := formWait()
	expired.ExpiresAt = new(time.Now().Add(-time.Second))
	late := c.waits(expired)
	wantProblem(t, c.post("/api/v1/runs/"+late.PlanID+"/waits/form", obj{"decision": "submit", "values": ok}),
		http.StatusConflict, nil)

	ended := c.claimed()
	w := formWait()
	w.RootPlanID, w.PlanID = ended.RootPlanID, ended.PlanID
	c.work(ended, []record.Change{&w})
	c.end(ended, record.Plan{State: new(record.Cancelled)})
	wantProblem(t, c.post("/api/v1/runs/"+ended.PlanID+"/waits/form", obj{"decision": "submit", "values": ok}),
		http.StatusConflict, nil)
}

// TestWaitOfAChild checks that a run lists the waits of its tree, and that they are decided at any run above.
func TestWaitOfAChild(t *testing.T) {
	t.Parallel()
	secret, line := apitest.NewKey(t, "desk", httpd.ScopeRead, httpd.ScopeRun, httpd.ScopeDecide)
	c := serve(t, apitest.Options{Server: func(config *apitest.Config) { config.HTTP.Keys = apitest.Keys(t, line) }})
	c.Key = secret

	root := c.claimed()
	child := runstore.NewRun{Run: runstore.Run{
		RootPlanID: root.PlanID, PlanID: "child", Executor: "agent", Input: json.RawMessage("{}"), Owner: "o",
		Parent: &runstore.ParentCall{PlanID: root.PlanID, StepID: "s", ToolCallID: "call"},
	}, Needs: []string{}}
	c.work(root, []record.Change{
		&record.Plan{RootPlanID: root.PlanID, CurrentPlanID: "child", ParentPlanID: &root.PlanID, ToolCallID: new("call")},
	}, runstore.Begin(child))
	claimed, err := enginetest.Claim(t.Context(), c.Runs, "w", []string{}, 1)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claimed = %v, %v", claimed, err)
	}

	w := formWait()
	w.RootPlanID, w.PlanID = root.PlanID, "child"
	c.work(claimed[0].Lease, []record.Change{&w}, runstore.Park(time.Time{}))
	expect(t, c.run(root.PlanID), obj{"state": "RUNNING", "waits.0.planId": "child"}) // the root goes on
	c.work(root, nil, runstore.Park(time.Time{}))
	expect(t, c.run(root.PlanID), obj{"state": "WAITING", "waits.0.planId": "child"})

	a := c.post("/api/v1/runs/"+root.PlanID+"/waits/form", obj{"decision": "submit", "values": obj{"region": "EMEA"}})
	wantStatus(t, a, http.StatusOK)
	expect(t, a.JSON(t), obj{"planId": "child", "decidedBy": "desk"})
	expect(t, c.run(root.PlanID), obj{"state": "RUNNING", "waits.#": 0})
}

// B36: a password is in no row, answer, error or log; only that it was given is on record.
func TestPasswordsAreNotKept(t *testing.T) {
	t.Parallel()
	const planted = "hunter2-planted-7c1"
	var log apitest.Log
	c := serve(t, apitest.Options{Log: &log})
	submit := func(l runstore.Lease, values obj) apitest.Answer {
		return c.post("/api/v1/runs/"+l.PlanID+"/waits/form", obj{"decision": "submit", "values": values})
	}

	first, second := c.waits(formWait()), c.waits(formWait())
	seen := string(submit(first, obj{"Secret": planted}).Body) +
		string(submit(first, obj{"region": planted, "Secret": planted}).Body) +
		string(submit(first, obj{"region": "EMEA", "Secret": obj{"a": planted}}).Body) +
		string(submit(first, obj{"region": "EMEA", "Secret": planted}).Body) +
		string(c.post("/api/executor/submit-input/"+second.PlanID, obj{"Secret": planted}).Body) +
		string(c.post("/api/executor/submit-input/"+second.PlanID, obj{"region": "EMEA", "Secret": planted}).Body)

	for _, l := range []runstore.Lease{first, second} {
		waits := c.Read("/api/v1/plans/" + l.PlanID + "/waits")
		expect(t, waits, obj{
			"items.0.state": "SUBMITTED", "items.0.formInputs.1.value": "[password]", "items.0.formInputs.0.value": "EMEA",
		})
		seen += string(c.Get("/api/v1/runs/"+l.PlanID+"/trace").Body) +
			string(c.Get("/api/v1/plans/"+l.PlanID+"/records").Body)
	}
	if strings.Contains(seen, planted) || strings.Contains(log.String(), planted) {
		t.Error("a password was shown or logged")
	}

	var tables []string
	if err := c.DB.Pool.QueryRow(t.Context(),
		"SELECT array_agg(format('%I.%I', table_schema, table_name)) FROM information_schema.tables WHERE table_schema = "+
			"'actlog' AND table_type = 'BASE TABLE'").Scan(&tables); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		var found bool
		if err := c.DB.Pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM "+table+" AS t WHERE t::text LIKE $1)",
			"%"+planted+"%").Scan(&found); err != nil || found {
			t.Errorf("%s has it: %v, %v", table, found, err)
		}
	}
}
