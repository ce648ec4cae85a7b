package runapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// same checks the whole of an answer.
func same(t *testing.T, a apitest.Answer, status int, body string) {
	t.Helper()
	if got := strings.TrimSpace(string(a.Body)); a.Status != status || got != body {
		t.Errorf("a.Status = %d %s, want %d %s", a.Status, got, status, body)
	}
}

// B36: the form of a run is answered by name or by label, in the words of the original.
func TestSubmitInput(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	submit := func(id string, body any) apitest.Answer { return c.post("/api/executor/submit-input/"+id, body) }

	same(t, submit("nobody", obj{"a": "b"}), http.StatusBadRequest,
		`{"error":"FormInputTool not found for planId: nobody","planId":"nobody"}`)
	without := c.claimed()
	same(t, submit(without.PlanID, obj{}), http.StatusBadRequest,
		`{"error":"FormInputTool not found for planId: `+without.PlanID+`","planId":"`+without.PlanID+`"}`)

	id := c.waits(formWait()).PlanID
	expect(t, c.Details(id), obj{"userInputWaitState.planId": id, "userInputWaitState.title": "Where?"})
	same(t, submit(id, obj{"Region": "MARS"}), http.StatusBadRequest,
		`{"error":"region must be one of EMEA, APAC","planId":"`+id+`"}`)
	same(t, submit(id, obj{"Colour": "red", "Region": "EMEA"}), http.StatusBadRequest,
		`{"error":"Colour is no field of the form","planId":"`+id+`"}`)
	wantProblem(t, submit(id, "{"), http.StatusBadRequest, nil)

	same(t, submit(id, obj{"Region": "EMEA"}), http.StatusOK,
		`{"message":"Input submitted successfully","planId":"`+id+`"}`)
	same(t, submit(id, obj{"Region": "EMEA"}), http.StatusBadRequest,
		`{"error":"No plan is currently waiting for user input.","planId":"`+id+`"}`)
	expect(t, c.Read("/api/v1/plans/"+id+"/waits"), obj{
		"items.0.state": "SUBMITTED", "items.0.formInputs.0.value": "EMEA",
	})
	expect(t, c.Details(id), obj{"userInputWaitState": nil})

	plain := formWait()
	plain.FormInputs = nil
	id = c.waits(plain).PlanID
	wantStatus(t, submit(id, obj{"genericInput": "go on"}), http.StatusOK)
	expect(t, c.Read("/api/v1/plans/"+id+"/waits"), obj{"items.0.formInputs.0.value": "go on"})
}

// B37: stopTask and taskStatus.
func TestTasks(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	same(t, c.post("/api/executor/stopTask/nobody", ""), http.StatusBadRequest,
		`{"error":"No active task found for the given plan ID","planId":"nobody"}`)
	same(t, c.Get("/api/executor/taskStatus/nobody"), http.StatusOK,
		`{"planId":"nobody","isRunning":false,"exists":false,"desiredState":null,"startTime":null,"endTime":null,"lastUpdated":null,"taskResult":null}`)

	l := c.claimed()
	status := func() any { return c.Read("/api/executor/taskStatus/" + l.PlanID) }
	expect(t, status(), obj{
		"planId": l.PlanID, "isRunning": true, "exists": true, "desiredState": "START", "endTime": nil, "taskResult": nil,
	})
	for _, was := range []string{"true", "false"} {
		same(t, c.post("/api/executor/stopTask/"+l.PlanID, ""), http.StatusOK,
			`{"status":"stopped","planId":"`+l.PlanID+
				`","message":"Task stop request processed successfully","taskMarkedForStop":true,"wasRunning":`+was+`}`)
	}
	expect(t, status(), obj{"isRunning": false, "exists": true, "desiredState": "STOP"})

	c.end(l, record.Plan{State: new(record.Cancelled)})
	expect(t, status(), obj{"isRunning": false, "desiredState": "STOP"})
	same(t, c.post("/api/executor/stopTask/"+l.PlanID, ""), http.StatusBadRequest,
		`{"error":"No active task found for the given plan ID","planId":"`+l.PlanID+`"}`)

	l = c.claimed()
	c.end(l, record.Plan{State: new(record.Completed), Summary: new("well")})
	expect(t, status(), obj{"isRunning": false, "desiredState": "STOP", "taskResult": "well"})

	l = c.claimed()
	c.end(l, record.Plan{State: new(record.Failed), ErrorMessage: new("no")})
	expect(t, status(), obj{"desiredState": "CANCEL", "taskResult": "no"})
	wantStatus(t, c.Do(http.MethodDelete, "/api/executor/details/"+l.PlanID, nil), http.StatusOK)
}

// B37, B38: an agent or a template is run by its name, with parameters for its placeholders.
func TestExecuteByToolName(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	const path = "/api/executor/executeByToolNameAsync"

	same(t, c.post(path, obj{}), http.StatusBadRequest, `{"error":"Tool name cannot be empty"}`)
	same(t, c.post(path, obj{"toolName": " "}), http.StatusBadRequest, `{"error":"Tool name cannot be empty"}`)
	same(t, c.post(path, obj{"toolName": "x"}), http.StatusBadRequest, `{"error":"Tool not found with name: x"}`)
	same(t, c.post(path, obj{"toolName": 7}), http.StatusBadRequest, `{"error":"toolName must be a text"}`)

	same(t, c.post(path, obj{"toolName": "nightly", "replacementParams": obj{}}), http.StatusBadRequest,
		`{"error":"path has no value: the template needs it"}`)
	same(t, c.post(path, obj{"toolName": "nightly", "replacementParams": 1}), http.StatusBadRequest,
		`{"error":"replacementParams must be an object"}`)
	wantProblem(t, c.post(path, "["), http.StatusBadRequest, nil)

	a := c.post(path, obj{
		"toolName": "nightly", "replacementParams": obj{"path": []int{1}}, "conversationId": "c-1",
		"uploadedFiles": []string{}, "requestSource": "VUE_DIALOG", "serviceGroup": "g", "more": 1,
	})
	wantStatus(t, a, http.StatusOK)
	started := a.JSON(t)
	expect(t, started, obj{
		"status": "processing", "message": "Task submitted, processing", "conversationId": "c-1", "toolName": "nightly",
		"planTemplateId": "nightly",
	})
	expect(t, c.Details(started.(obj)["planId"].(string)), obj{
		"userRequest": "Read [1] for <<planId>>.", "conversationId": "c-1",
	})

	expect(t, c.post(path, obj{"toolName": "reader", "replacementParams": obj{"request": "Read."}}).JSON(t),
		obj{"conversationId": nil, "planTemplateId": nil})
	same(t, c.post(path, obj{"toolName": "reader"}), http.StatusBadRequest, `{"error":"input.request is required"}`)
}

// B37: the synchronous forms answer when the run has ended.
func TestExecuteSync(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	for _, tt := range []struct {
		send   func() apitest.Answer
		plan   record.Plan
		status int
		body   string
	}{
		{func() apitest.Answer {
			return c.post("/api/executor/executeByToolNameSync", obj{
				"toolName": "reader", "replacementParams": obj{"request": "Read."}, "conversationId": "c",
			})
		}, record.Plan{State: new(record.Completed), Summary: new("well")}, http.StatusOK,
			`{"status":"completed","result":"well","conversationId":"c"}`},
		{func() apitest.Answer {
			return c.Get("/api/executor/executeByToolNameSync/reader?serviceGroup=g&allParams=" +
				url.QueryEscape(`{"request":"Read."}`))
		}, record.Plan{State: new(record.Completed), Summary: new("well")}, http.StatusOK,
			`{"status":"completed","result":"well","conversationId":null}`},
		{func() apitest.Answer { return c.Get("/api/executor/executeByToolNameSync/reader?request=Read.") },
			record.Plan{State: new(record.Failed), ErrorMessage: new("no model")}, http.StatusInternalServerError,
			`{"error":"Execution failed: no model","status":"failed"}`},
	} {
		answered := make(chan apitest.Answer, 1)
		go func() { answered <- tt.send() }()
		storetest.Until(t, "a run is claimed", func() bool {
			claimed, err := enginetest.Claim(t.Context(), c.Runs, "w", provided, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range claimed {
				c.end(run.Lease, tt.plan)
			}
			return len(claimed) > 0
		})

		same(t, <-answered, tt.status, tt.body)
	}

	same(t, c.Get("/api/executor/executeByToolNameSync/x"), http.StatusBadRequest,
		`{"error":"Tool not found with name: x"}`)
	same(t, c.Get("/api/executor/executeByToolNameSync/reader?allParams=1"), http.StatusBadRequest,
		`{"error":"allParams must be a JSON object"}`)
	wantStatus(t, c.Outside(http.MethodHead, "/api/executor/executeByToolNameSync/reader?request=Read."),
		http.StatusMethodNotAllowed)
	wantStatus(t, c.Get("/api/executor/executeByToolNameSync/reader?request=Read.", "Sec-Fetch-Site", "cross-site"),
		http.StatusForbidden)
}
