package runapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/apitest"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/runapi"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/template"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type obj = apitest.Obj

var expect, wantStatus, wantProblem = apitest.Expect, apitest.WantStatus, apitest.WantProblem

// runtime puts runs on record for a test, as an engine does. An agent is called reader, a template nightly.
type runtime struct{ store *store.Store }

func (r runtime) Start(ctx context.Context, q runapi.Request) (runapi.Started, error) {
	if q.Executor != "agent" {
		return runapi.Started{}, &record.InvalidError{Code: record.CodeInvalidValue, Field: "executor", Reason: "must be agent"}
	}
	var input struct{ Agent, Template, Request string }
	if err := json.Unmarshal(q.Input, &input); err != nil {
		return runapi.Started{}, &record.InvalidError{Field: "input", Reason: "is wrong"}
	}
	if input.Agent != "" && input.Agent != "reader" {
		return runapi.Started{}, fmt.Errorf("agent %s: %w", input.Agent, record.ErrNotFound)
	}
	id := record.NewPlanID()
	run := store.NewRun{Run: store.Run{RootPlanID: id, PlanID: id, Executor: q.Executor, Name: input.Agent + input.Template, Input: q.Input, Owner: id}, Needs: []string{"executor:agent"}}
	if q.IdempotencyKey != "" {
		hash := sha256.Sum256(q.Body)
		run.IdempotencyKey, run.RequestSHA256 = q.IdempotencyKey, hex.EncodeToString(hash[:])
	}
	plan := &record.Plan{RootPlanID: id, CurrentPlanID: id, Executor: &q.Executor, Title: new(template.Fill(input.Request, id, nil)), Tags: q.Tags}
	if q.ConversationID != "" {
		plan.ConversationID = &q.ConversationID
	}
	err := r.store.StartRun(ctx, run, []record.Change{plan})
	if before := new(store.StartedBeforeError); errors.As(err, &before) {
		if before.RequestSHA256 != run.RequestSHA256 {
			return runapi.Started{}, &record.InvalidError{Field: "Idempotency-Key", Reason: "was used for another request"}
		}
		return runapi.Started{RootPlanID: before.RootPlanID, PlanID: before.PlanID, Executor: before.Executor, Before: true}, nil
	}
	return runapi.Started{RootPlanID: id, PlanID: id, Executor: q.Executor}, err
}

func (r runtime) Tool(name string, parameters map[string]string) (q runapi.Request, templateID string, err error) {
	input := map[string]string{}
	switch name {
	case "reader":
		input["agent"], input["request"] = name, parameters["request"]
	case "nightly":
		const step = "Read <<path>> for <<planId>>."
		if err := template.Check(parameters, step); err != nil {
			return q, "", err
		}
		templateID, input["template"], input["request"] = name, name, template.Fill(step, "<<planId>>", parameters)
	default:
		return q, "", record.ErrNotFound
	}
	raw, err := json.Marshal(input)
	return runapi.Request{Executor: "agent", Input: raw}, templateID, err
}

// client sends requests to a server with a runtime, and plays the worker.
type client struct {
	*apitest.Client
}

func serve(t testing.TB, o apitest.Options) *client {
	t.Helper()
	o.Runtime = func(s *store.Store) (runapi.Starter, runapi.Catalog) { return runtime{s}, runtime{s} }
	c := &client{apitest.ServeWith(t, o)}
	err := c.Store.AddWorker(t.Context(), store.Worker{ID: "w", Host: "h", Release: "r", Provides: []string{"executor:agent"}, Slots: 9}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// post sends JSON, or a text as it is.
func (c *client) post(path string, body any, header ...string) apitest.Answer {
	c.T.Helper()
	raw, isText := body.(string)
	if !isText {
		raw = string(apitest.JSON(c.T, body))
	}
	return c.Do(http.MethodPost, path, strings.NewReader(raw), append([]string{"Content-Type", "application/json"}, header...)...)
}

func request() obj {
	return obj{"executor": "agent", "input": obj{"agent": "reader", "request": "Read."}}
}

// started starts a run and returns its plan.
func (c *client) started() string {
	c.T.Helper()
	a := c.post("/api/v1/runs", request())
	wantStatus(c.T, a, http.StatusAccepted)
	return a.JSON(c.T).(obj)["planId"].(string)
}

// claimed starts a run that the worker holds from then on.
func (c *client) claimed() store.Lease {
	c.T.Helper()
	id := c.started()
	claimed, err := c.Store.ClaimRuns(c.T.Context(), "w", []string{"executor:agent"}, 1, false)
	if err != nil || len(claimed) != 1 || claimed[0].PlanID != id {
		c.T.Fatal(claimed, err)
	}
	c.work(claimed[0].Lease, []record.Change{&record.Plan{RootPlanID: id, CurrentPlanID: id, State: new(record.Running), StartTime: new(time.Now())}})
	return claimed[0].Lease
}

func (c *client) work(l store.Lease, changes []record.Change, ops ...store.RunOp) {
	c.T.Helper()
	if err := c.Store.WriteRun(c.T.Context(), l, changes, ops...); err != nil {
		c.T.Fatal(err)
	}
}

// end ends a run.
func (c *client) end(l store.Lease, p record.Plan) {
	c.T.Helper()
	p.RootPlanID, p.CurrentPlanID, p.EndTime = l.RootPlanID, l.PlanID, new(time.Now())
	c.work(l, []record.Change{&p}, store.Finish())
}

// waits parks a run that waits.
func (c *client) waits(w record.Wait) store.Lease {
	c.T.Helper()
	l := c.claimed()
	w.RootPlanID, w.PlanID = l.RootPlanID, l.PlanID
	c.work(l, []record.Change{&w, &record.Plan{RootPlanID: l.RootPlanID, CurrentPlanID: l.PlanID, State: new(record.Waiting)}}, store.Park(time.Time{}))
	return l
}

func (c *client) run(id string) any {
	c.T.Helper()
	return c.Read("/api/v1/runs/" + id)
}

const form = `[{"label":"Region","name":"region","type":"select","options":"EMEA,APAC","required":"true"},{"label":"Secret","type":"password"}]`

func formWait() record.Wait {
	return record.Wait{WaitID: "form", Type: new(record.WaitUserInput), Title: new("Where?"), FormInputs: json.RawMessage(form), StartTime: new(time.Now())}
}

// large is a body of so many bytes.
func large(n int) string {
	return `{"executor":"` + string(bytes.Repeat([]byte("x"), n)) + `"}`
}
