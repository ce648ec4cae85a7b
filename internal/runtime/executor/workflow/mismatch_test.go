package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	executor "github.com/actlog/actlog/internal/runtime/executor/workflow"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// releases is a house whose program changes: each release has its own function w.
type releases struct {
	*enginetest.House

	breaks atomic.Int64 // how often wire breaks, so that nobody can tell whether it took effect
	sinks  atomic.Bool  // ship fails

	mu      sync.Mutex
	effects []string
}

// builds returns such a house. Its function may use agents a and b, workflows, and tools that note what they did.
// wire is the policy of tool wire.
func builds(t *testing.T, wire ...tool.Policy) *releases {
	t.Helper()
	r := &releases{}
	effect := func(name string, p ...tool.Policy) tool.Tool {
		policy := append(p, tool.Policy{})[0]
		return tool.Func(name, "Has an effect.", func(_ context.Context, in struct {
			Text string  `json:"text"`
			N    float64 `json:"n,omitempty"`
		}) (string, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.effects = append(r.effects, name+" "+in.Text)
			if name == "wire" && r.breaks.Add(-1) >= 0 {
				return "", fmt.Errorf("the connection broke: %w", tool.ErrUnknown)
			}
			if name == "ship" && r.sinks.Load() {
				return "", errors.New("it sank")
			}
			return "did " + name + " " + in.Text, nil
		}, tool.WithPolicy(policy))
	}

	agents := map[string]any{
		"custom_workflow.w": define.Flow{
			Agents: []string{"a", "b"}, Workflows: []string{"inner", "chain"},
			Tools: []string{"pay", "ship", "wire", "form", "agent.*"},
		},
		"custom_workflow.inner": define.Flow{Tools: []string{"ship", "wire"}},
		"simple_workflow.chain": define.Workflow{Steps: []define.WorkflowStep{{Name: "a", Type: define.AgentStep}}},
	}
	for _, name := range []string{"a", "b", "asker"} {
		agents["agent."+name] = define.Definition{
			Agent: name, SystemPrompt: "You are " + name + ".", Model: define.DefinitionModel{Name: "default"},
			Tools: []string{"form"}, EnableWrite: true,
		}
	}

	said := callsTo(call("terminate", object{"message": "Done."}))
	said.Content = "Done."
	r.House = enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{
			scene("a", said, says("Said.")), scene("b", said, says("Said.")),
			scene("asker", callsTo(call("form", cityForm)), said),
		},
		Definitions: agents,
		Tools:       []tool.Tool{effect("pay"), effect("ship"), effect("wire", append(wire, tool.Policy{Writes: true})[0])},
		Executors:   []engine.Executor{executor.Executor{}, thinkact.Executor{}},
	})
	return r
}

// work runs a worker of a release whose program has functions.
func (r *releases) work(release string, w workflow.Func) (stop func()) {
	inner := func(ctx context.Context, f workflow.Facade, in json.RawMessage, _ string) (any, error) {
		if string(in) == `"wire"` {
			return f.CallTool(ctx, "wire", object{"text": "inner"})
		}
		return f.CallTool(ctx, "ship", object{"text": "inner"})
	}
	calls := functions{"w": w, "inner": inner}
	return r.Work(r.NewEngine(func(c *engine.Config) {
		c.Release = release
		c.Executors = []engine.Executor{executor.Executor{Functions: calls.of}, thinkact.Executor{}}
	}))
}

func (r *releases) done() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.effects, ", ")
}

func (r *releases) start() string {
	return start(r.T, r.House, object{"workflow": "w", "input": "Go."})
}

// detail reads a run as it stands.
func (r *releases) detail(id string) *runstore.RunDetail {
	r.T.Helper()
	d, err := r.Runs.Reader.RunDetail(r.T.Context(), id)
	if err != nil {
		r.T.Fatal(err)
	}
	return d
}

// parked waits until the code of a worker did not fit the record of a run, and no worker holds it.
func (r *releases) parked(id string) (d *runstore.RunDetail) {
	r.T.Helper()
	storetest.Until(r.T, "run "+id+" waits for other code", func() bool {
		d = r.detail(id)
		return d.State == record.Paused && enginetest.Text(d.Plan.ErrorKind) == "record_mismatch" && !r.held()
	})
	return d
}

func (r *releases) held() bool {
	return storetest.Query[bool](r.T, r.Store, "SELECT EXISTS (SELECT FROM actlog.run WHERE worker_id IS NOT NULL)")
}

// answers submits the only form.
func (r *releases) answers() {
	r.T.Helper()
	storetest.Until(r.T, "a form is shown", func() bool { return len(r.Waits()) == 1 })
	if err := r.Decide(r.Waits()[0], record.Submitted, "submit", "Oslo"); err != nil {
		r.T.Fatal(err)
	}
}

// one is a step of a function.
type one func(context.Context, workflow.Facade) (any, error)

func tools(name string, arguments any) one {
	return func(ctx context.Context, f workflow.Facade) (any, error) { return f.CallTool(ctx, name, arguments) }
}

func agents(name, message string) one {
	return func(ctx context.Context, f workflow.Facade) (any, error) {
		r, err := f.RunAgent(ctx, name, message)
		return r.Text(), err
	}
}

func flows(name string, in any) one {
	return func(ctx context.Context, f workflow.Facade) (any, error) {
		r, err := f.RunWorkflow(ctx, name, in)
		return r.FinalOutput, err
	}
}

var (
	cityForm = object{"title": "City?", "inputs": []object{{"label": "City", "name": "city"}}}
	asks     = tools("form", cityForm)
)

// doing is a function that does one thing after the other.
func doing(steps ...one) workflow.Func {
	return func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
		var all []any
		for _, step := range steps {
			out, err := step(ctx, f)
			if err != nil {
				return nil, err
			}
			all = append(all, out)
		}
		return all, nil
	}
}

// TestCodeChanged checks that code which does other things than are on record parks its run, and does nothing. The
// release that it began with takes it on.
func TestCodeChanged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		was, is one
		differs string
	}{
		"arguments of a tool": {tools("pay", object{"text": "A"}), tools("pay", object{"text": "CHANGED"}), `CHANGED`},
		"a number": {
			tools("pay", json.RawMessage(`{"text":"A","n":9007199254740993}`)),
			tools("pay", json.RawMessage(`{"text":"A","n":9007199254740992}`)), `9007199254740992`,
		},
		"arguments that are none": {tools("pay", object{"text": "A"}), tools("pay", []int{1}), `[1]`},
		"another tool": {
			tools("pay", object{"text": "A"}), tools("ship", object{"text": "A"}), "as pay, not ship",
		},
		"message of an agent": {agents("a", "A"), agents("a", "CHANGED"), `"A", not "CHANGED"`},
		"another agent":       {agents("a", "A"), agents("b", "A"), `the agent "a", not the agent "b"`},
		"an agent for a tool": {tools("pay", object{"text": "A"}), agents("a", `{"text":"A"}`), `no agent, not the agent "a"`},
		"a tool for an agent": {agents("a", `{"text":"A"}`), tools("pay", object{"text": "A"}), `the agent "a", not no agent`},
		"input of a chain":    {flows("chain", "A"), flows("chain", "CHANGED"), `now it is: Runs workflow chain: "CHANGED"`},
		"input of a function": {flows("inner", "A"), flows("inner", "CHANGED"), `CHANGED`},
		"another workflow":    {flows("inner", "A"), flows("chain", "A"), ``},
		"input of a sub-plan": {
			tools("agent.a", object{"request": "A"}), tools("agent.a", object{"request": "CHANGED"}), `CHANGED`,
		},
		"one call less": {tools("pay", object{"text": "A"}), asks, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := builds(t)
			stop := h.work("1.4", doing(tt.was, asks, tools("ship", object{"text": "A"})))
			id := h.start()
			h.Await(id, record.Waiting)
			before := h.done()
			stop()

			h.work("1.5", doing(tt.is, asks, tools("ship", object{"text": "A"})))
			h.answers()
			d := h.parked(id)

			if want := []string{"workflow:w@1.4 " + text(d.Plan.ErrorMessage)}; !slices.Equal(d.WaitingFor, want) {
				t.Errorf("it waits for %q, want %q", d.WaitingFor, want)
			}
			if got := text(d.Plan.ErrorMessage); !strings.HasPrefix(got, "The code does not go on from the record: ") ||
				!strings.Contains(got, tt.differs) {
				t.Errorf("it says %q, want %q", got, tt.differs)
			}
			if h.done() != before {
				t.Errorf("effects: %s, then %s", before, h.done())
			}

			h.work("1.4", doing(tt.was, asks, tools("ship", object{"text": "A"})))
			if p := h.Await(id, record.Completed); p.Record.ErrorKind != nil || p.Record.ErrorMessage != nil {
				t.Errorf("a completed run says %s", text(p.Record.ErrorMessage))
			}
			if d := h.detail(id); len(d.WaitingFor) > 0 || d.Plan.ErrorKind != nil {
				t.Errorf("a completed run waits for %q, %s", d.WaitingFor, text(d.Plan.ErrorKind))
			}
			if want := strings.TrimPrefix(before+", ship A", ", "); h.done() != want {
				t.Errorf("effects: %s, want %s", h.done(), want)
			}
		})
	}
}

// TestRetryMakesAnew checks that a retry of a run whose code changed makes anew what differs, and all after it, and
// nothing that was before.
func TestRetryMakesAnew(t *testing.T) {
	t.Parallel()
	pay, ship := tools("pay", object{"text": "0"}), tools("ship", object{"text": "A"})
	for name, tt := range map[string]struct {
		was, is one
		effects string
	}{
		"arguments of a tool": {
			tools("pay", object{"text": "A"}), tools("pay", object{"text": "B"}), "pay 0, pay A, pay B, ship A",
		},
		"another tool":        {tools("pay", object{"text": "A"}), ship, "pay 0, pay A, ship A, ship A"},
		"message of an agent": {agents("a", "A"), agents("a", "CHANGED"), "pay 0, ship A"},
		"another agent":       {agents("a", "A"), agents("b", "A"), "pay 0, ship A"},
		"an agent for a tool": {tools("wire", object{"text": "A"}), agents("a", "A"), "pay 0, wire A, ship A"},
		"a tool for an agent": {agents("a", "A"), tools("wire", object{"text": "A"}), "pay 0, wire A, ship A"},
		"input of a chain":    {flows("chain", "A"), flows("chain", "CHANGED"), "pay 0, ship A"},
		"input of a function": {flows("inner", "A"), flows("inner", "CHANGED"), "pay 0, ship inner, ship inner, ship A"},
		"another workflow":    {flows("inner", "A"), flows("chain", "A"), "pay 0, ship inner, ship A"},
		"input of a sub-plan": {
			tools("agent.a", object{"request": "A"}), tools("agent.a", object{"request": "CHANGED"}), "pay 0, ship A",
		},
		"another form": {asks, tools("form", object{"title": "Zip?", "inputs": cityForm["inputs"]}), "pay 0, ship A"},
		"one call less": {tools("pay", object{"text": "A"}), func(context.Context, workflow.Facade) (any, error) {
			return nil, nil
		}, "pay 0, pay A, ship A"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := builds(t)
			stop := h.work("1.4", doing(pay, tt.was, asks, ship))
			id := h.start()

			if name == "another form" {
				h.answers()
			}
			h.Await(id, record.Waiting)
			storetest.Until(t, "it asks", func() bool { return len(h.Waits()) == 1 && !h.held() })
			asked := h.Waits()[0].WaitID
			stop()

			h.work("1.5", doing(pay, tt.is, asks, ship))
			h.answers()
			h.parked(id)
			if err := h.Engine.Retry(t.Context(), engine.RetryRequest{PlanID: id}); err != nil {
				t.Fatal(err)
			}

			if name == "another form" {
				h.answers()
				storetest.Until(t, "that is answered", func() bool { return len(h.Waits()) == 0 })
			}
			storetest.Until(t, "it asks again", func() bool { return len(h.Waits()) == 1 })
			if h.Waits()[0].WaitID == asked {
				t.Error("the form that was answered before is shown")
			}
			h.answers()
			if p := h.Await(id, record.Completed); *p.Record.Attempt != 2 || h.done() != tt.effects {
				t.Errorf("attempt %d, effects: %s, want %s", *p.Record.Attempt, h.done(), tt.effects)
			}
		})
	}
}

// TestSameArguments checks that code goes on whose arguments are equal as JSON. What is sent is what is on record.
func TestSameArguments(t *testing.T) {
	t.Parallel()
	h := builds(t)
	stop := h.work("1.4", doing(asks, tools("pay", json.RawMessage(`{"n": 1.50, "text": "\u0041"}`)), asks))
	id := h.start()
	h.answers()
	storetest.Until(t, "it is paid", func() bool { return h.done() == "pay A" && len(h.Waits()) == 1 })
	h.Await(id, record.Waiting)
	stop()

	h.work("1.5", doing(asks, tools("pay", json.RawMessage(`{"text":"A","n":15e-1}`)), asks))
	h.answers()
	h.Await(id, record.Completed)
	if h.done() != "pay A" {
		t.Errorf("effects: %s", h.done())
	}
	if got := storetest.Query[string](t, h.Store, "SELECT release FROM actlog.run"); got != "1.5" {
		t.Errorf("it last went on with %s", got)
	}
}

// TestResumeTriesCode checks that a resume lets any worker try once.
func TestResumeTriesCode(t *testing.T) {
	t.Parallel()
	h := builds(t)
	was, is := tools("pay", object{"text": "A"}), tools("pay", object{"text": "B"})
	stop := h.work("1.4", doing(was, asks))
	id := h.start()
	h.Await(id, record.Waiting)
	stop()

	stop = h.work("1.5", doing(is, asks))
	h.answers()
	h.parked(id)
	claims := h.claims()
	if err := h.Runs.Control(t.Context(), id, runstore.Resume, "ada"); err != nil {
		t.Fatal(err)
	}

	storetest.Until(t, "it was tried", func() bool { return h.claims() > claims })
	if d := h.parked(id); !strings.HasPrefix(fmt.Sprint(d.WaitingFor), "[workflow:w@1.4 ") || h.claims() != claims+1 {
		t.Errorf("it waits for %q after %d claims", d.WaitingFor, h.claims()-claims)
	}
	stop()

	h.work("1.6", doing(was, asks))
	if err := h.Runs.Control(t.Context(), id, runstore.Resume, "ada"); err != nil {
		t.Fatal(err)
	}
	if h.Await(id, record.Completed); h.done() != "pay A" {
		t.Errorf("effects: %s", h.done())
	}
}

// claims counts how often runs were claimed.
func (r *releases) claims() int64 {
	return storetest.Query[int64](r.T, r.Store, "SELECT sum(epoch)::bigint FROM actlog.run")
}

// TestSameRelease checks that a run is not tried again and again if nobody has other code: its release is that of the
// worker, or is not known. It goes on when it is resumed.
func TestSameRelease(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ release, noted, waitsFor string }{
		"the same":  {"1.4", "1.4", "workflow:w@1.4 "},
		"none":      {"", "", "workflow:w@ "},
		"not noted": {"1.5", "", "workflow:w@ "}, // of a run that began before releases were noted
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := builds(t)
			was := doing(tools("pay", object{"text": "A"}), asks)
			stop := h.work(tt.release, was)
			id := h.start()
			h.Await(id, record.Waiting)
			stop()

			storetest.Exec(t, h.Store, "UPDATE actlog.run SET release = NULLIF($1, '')", tt.noted)
			stop = h.work(tt.release, doing(tools("pay", object{"text": "B"}), asks))
			h.answers()
			if d := h.parked(id); !strings.HasPrefix(fmt.Sprint(d.WaitingFor), "["+tt.waitsFor+"The code does") {
				t.Errorf("it waits for %q", d.WaitingFor)
			}

			if storetest.Query[bool](t, h.Store, "SELECT due_at IS NOT NULL FROM actlog.run") {
				t.Error("it is due again, although nobody has other code")
			}
			stop()

			h.work(tt.release, was)
			if err := h.Runs.Control(t.Context(), id, runstore.Resume, ""); err != nil {
				t.Fatal(err)
			}
			if h.Await(id, record.Completed); h.done() != "pay A" {
				t.Errorf("effects: %s", h.done())
			}
		})
	}
}

// TestControlMismatched checks that a run that waits for other code can be stopped and paused by workers without it.
func TestControlMismatched(t *testing.T) {
	t.Parallel()
	h := builds(t)
	stop := h.work("1.4", doing(tools("pay", object{"text": "A"}), asks))
	id := h.start()
	h.Await(id, record.Waiting)
	stop()

	h.work("1.5", doing(tools("pay", object{"text": "B"}), asks))
	h.answers()
	h.parked(id)

	if err := h.Runs.Control(t.Context(), id, runstore.Pause, ""); err != nil {
		t.Fatal(err)
	}
	storetest.Until(t, "the pause is applied", func() bool {
		return storetest.Query[bool](t, h.Store, "SELECT bool_and(applied_at IS NOT NULL) FROM actlog.control_request")
	})
	if d := h.parked(id); d.Desired != runstore.DesiredPause {
		t.Errorf("it should %s", d.Desired)
	}

	found, err := h.Runs.Reader.Runs(t.Context(), runstore.RunFilter{State: record.Paused, Limit: 10})
	if err != nil || len(found) != 1 || text(found[0].Plan.ErrorKind) != "record_mismatch" {
		t.Errorf("the list has %+v, %v", found, err)
	}

	if err := h.Runs.Control(t.Context(), id, runstore.Stop, ""); err != nil {
		t.Fatal(err)
	}
	if p := h.Await(id, record.Cancelled); text(p.Record.ErrorKind) != "stopped" {
		t.Errorf("it ended with %s", text(p.Record.ErrorKind))
	}
	if d := h.detail(id); len(d.WaitingFor) > 0 {
		t.Errorf("it waits for %q", d.WaitingFor)
	}
}

// TestSubPlanMismatched checks that a run whose sub-plan waits for other code has not failed, and says so. A resume
// of the run lets any worker try.
func TestSubPlanMismatched(t *testing.T) {
	t.Parallel()
	h := builds(t)
	code := doing(tools("agent.asker", object{"request": "A"}))
	stop := h.work("1.4", code)
	id := h.start()
	storetest.Until(t, "a form is shown", func() bool { return len(h.Waits()) == 1 })
	h.Await(id, record.Running)
	stop()

	// As if the step had been recorded by code that called another agent.
	storetest.Exec(t, h.Store, "UPDATE actlog.agent_execution_record SET agent_name = 'other' WHERE agent_name = 'asker'")
	stop = h.work("1.5", code)
	h.answers()

	storetest.Until(t, "the run is paused", func() bool { return h.detail(id).State == record.Paused && !h.held() })
	d := h.detail(id)
	if len(d.WaitingFor) != 1 || !strings.HasPrefix(d.WaitingFor[0], "agent:asker@1.4 The code does not go on") {
		t.Errorf("it waits for %q", d.WaitingFor)
	}
	found, err := h.Runs.Reader.Runs(t.Context(), runstore.RunFilter{State: record.Paused, Limit: 10})
	if err != nil || len(found) != 1 || found[0].Plan.CurrentPlanID != id {
		t.Errorf("the list of paused runs has %+v, %v", found, err)
	}
	stop()

	storetest.Exec(t, h.Store, "UPDATE actlog.agent_execution_record SET agent_name = 'asker' WHERE agent_name = 'other'")
	h.work("1.5", code)
	if err := h.Runs.Control(t.Context(), id, runstore.Resume, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(id, record.Completed)
}

// TestKilledBeforeItParks checks that a run is parked for the release on which it went on, although workers of
// another one were lost with it before they could put that on record.
func TestKilledBeforeItParks(t *testing.T) {
	t.Parallel()
	h := builds(t)
	stop := h.work("1.4", doing(tools("pay", object{"text": "A"}), asks))
	id := h.start()
	h.Await(id, record.Waiting)
	stop()

	other := functions{"w": doing(tools("pay", object{"text": "B"}), asks)}
	var lost atomic.Int64
	h.Work(h.NewEngine(func(c *engine.Config) {
		c.Release, c.Executors = "1.5", []engine.Executor{executor.Executor{Functions: other.of}}
		c.Write = func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
			if lost.Add(1) > 2 {
				return c.Store.WriteRun(ctx, l, changes, ops...)
			}
			storetest.Exec(t, h.Store, "UPDATE actlog.run SET worker_id = NULL, due_at = now() WHERE plan_id = $1", l.PlanID)
			return runstore.ErrLeaseLost
		}
	}))
	h.answers()
	if d := h.parked(id); !strings.HasPrefix(fmt.Sprint(d.WaitingFor), "[workflow:w@1.4 ") || lost.Load() < 3 {
		t.Errorf("it waits for %q after %d writes", d.WaitingFor, lost.Load())
	}
}
