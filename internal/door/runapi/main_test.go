package runapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// provided is what the agent needs.
var provided = []string{"executor:agent", "model:default"}

type obj = apitest.Obj

var (
	expect      = apitest.Expect
	wantStatus  = apitest.WantStatus
	wantProblem = apitest.WantProblem
)

// runtime starts runs of an agent, called reader. Its catalog has also a template, called nightly, which that
// agent carries.
type runtime struct{ *engine.Engine }

func newRuntime(t testing.TB, s *runstore.Store) runtime {
	t.Helper()
	parts := &enginetest.Parts{
		Definitions: map[string]any{
			"agent.reader": define.Definition{Model: define.DefinitionModel{Name: "default"}, EnableWrite: true},
		},
	}

	e, err := engine.New(engine.Config{Store: s, Executors: []engine.Executor{thinkact.Executor{}},
		Parts: func() (engine.Parts, func()) {
			return parts, func() {}
		}})
	if err != nil {
		t.Fatal(err)
	}
	return runtime{e}
}

func (runtime) Models() []engine.ModelInfo {
	return []engine.ModelInfo{
		{Name: "default", Provider: "openai", Model: "gpt"}, {Name: "small", Provider: "openai", Model: "mini"},
	}
}

func (runtime) Startables() []engine.Startable {
	return []engine.Startable{{Executor: "agent", Name: "reader", Description: "Reads."},
		{Executor: "plan", Name: "nightly"}}
}

func (r runtime) Tool(name string, parameters map[string]string) (q engine.Request, templateID string, err error) {
	input := map[string]string{"agent": "reader"}
	switch name {
	case "reader":
		input["request"] = parameters["request"]
	case "nightly":
		const step = "Read <<path>> for <<planId>>."
		if lacking, lacks := define.Lacking([]string{"path", "planId"}, parameters); lacks {
			return q, "", &record.InvalidError{
				Code: record.CodeMissingField, Field: lacking, Reason: "has no value: the template needs it",
			}
		}
		templateID, input["request"] = name, define.Fill(step, "<<planId>>", parameters)
	default:
		return q, "", record.ErrNotFound
	}

	raw, err := json.Marshal(input)
	return engine.Request{Executor: "agent", Input: raw}, templateID, err
}

// client sends requests to a server with a runtime, and plays the worker.
type client struct {
	*apitest.Client
}

func serve(t testing.TB, o apitest.Options) *client {
	t.Helper()
	o.Runtime = func(s *runstore.Store) (runapi.Starter, runapi.Catalog) { r := newRuntime(t, s); return r, r }
	c := &client{apitest.ServeWith(t, o)}
	_, err := c.Runs.AddWorker(t.Context(),
		runstore.Worker{ID: "w", Host: "h", Release: "r", Provides: provided, Slots: 9}, time.Hour)
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
	return c.Do(http.MethodPost, path, strings.NewReader(raw),
		append([]string{"Content-Type", "application/json"}, header...)...)
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
func (c *client) claimed() runstore.Lease {
	c.T.Helper()
	id := c.started()
	lease := c.claim(id)
	c.work(lease, []record.Change{
		&record.Plan{RootPlanID: id, CurrentPlanID: id, State: new(record.Running), StartTime: new(time.Now())},
	})
	return lease
}

// claim lets the worker hold a run that is due.
func (c *client) claim(id string) runstore.Lease {
	c.T.Helper()
	claimed, err := enginetest.Claim(c.T.Context(), c.Runs, "w", provided, 9) // others may be due, too
	if err != nil {
		c.T.Fatal(err)
	}
	at := slices.IndexFunc(claimed, func(run runstore.Claimed) bool { return run.PlanID == id })
	if at < 0 {
		c.T.Fatalf("run %s is not among %+v", id, claimed)
	}
	return claimed[at].Lease
}

func (c *client) work(l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) {
	c.T.Helper()
	if err := c.Runs.WriteRun(c.T.Context(), l, changes, ops...); err != nil {
		c.T.Fatal(err)
	}
}

// end ends a run.
func (c *client) end(l runstore.Lease, p record.Plan) {
	c.T.Helper()
	p.RootPlanID, p.CurrentPlanID = l.RootPlanID, l.PlanID
	p.EndTime = new(time.Now())
	c.work(l, []record.Change{&p}, runstore.Finish(nil))
}

// waits parks a run that waits.
func (c *client) waits(w record.Wait) runstore.Lease {
	c.T.Helper()
	l := c.claimed()
	w.RootPlanID, w.PlanID = l.RootPlanID, l.PlanID
	c.work(l, []record.Change{
		&w, &record.Plan{RootPlanID: l.RootPlanID, CurrentPlanID: l.PlanID, State: new(record.Waiting)},
	}, runstore.Park(time.Time{}))
	return l
}

func (c *client) run(id string) any {
	c.T.Helper()
	return c.Read("/api/v1/runs/" + id)
}

const form = `[{"label":"Region","name":"region","type":"select","options":"EMEA,APAC","required":"true"},{"label":"Secret","type":"password"}]`

func formWait() record.Wait {
	return record.Wait{
		WaitID: "form", Type: new(record.WaitUserInput), Title: new("Where?"), FormInputs: json.RawMessage(form),
		StartTime: new(time.Now()),
	}
}

// large is a body of so many bytes.
func large(n int) string {
	return `{"executor":"` + string(bytes.Repeat([]byte("x"), n)) + `"}`
}
