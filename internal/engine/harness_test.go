package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/internal/executor/thinkact"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/scriptmodel"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/storetest"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// parts are what the runs of a test use.
type parts struct {
	model  model.Model
	tools  *tool.Set
	agents map[string]thinkact.Definition
	secret string // is not to be on record
}

func (p *parts) Provides() []string { return []string{"model:default"} }

func (p *parts) Definition(kind, name string) (json.RawMessage, bool) {
	a, ok := p.agents[name]
	if !ok || kind != "agent" {
		return nil, false
	}
	b, err := json.Marshal(a)
	return b, err == nil
}

func (p *parts) Model(name string) (model.Model, bool) { return p.model, name == "default" }

func (p *parts) Tools(_ context.Context, names, _ []string) (*tool.Set, error) {
	return p.tools.Select(names...)
}

func (p *parts) Redact(text string) string {
	if p.secret == "" {
		return text
	}
	return strings.ReplaceAll(text, p.secret, "[secret]")
}

// house is a store, a scripted model and an engine.
type house struct {
	t      *testing.T
	db     *pgtest.DB
	store  *store.Store
	model  *scriptmodel.Server
	parts  *parts
	engine *engine.Engine
}

// build returns a house whose agents follow a script.
func build(t *testing.T, scenes []scriptmodel.Scene, agents map[string]thinkact.Definition, tools []tool.Tool, set ...func(*engine.Config)) *house {
	t.Helper()
	h := &house{t: t, db: pgtest.New(t)}
	h.store = storetest.OpenURL(t, h.db.URL)
	var err error
	if h.model, err = scriptmodel.Start(scriptmodel.Script{Scenes: scenes}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.model.Close() })
	m, err := openai.New(openai.Config{Model: "scripted", BaseURL: h.model.URL(), Provider: "scripted"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range agents {
		a.Model = "default"
		agents[name] = a
	}
	h.parts = &parts{model: m, tools: all, agents: agents}
	h.engine = h.newEngine(set...)
	return h
}

func (h *house) newEngine(set ...func(*engine.Config)) *engine.Engine {
	h.t.Helper()
	c := engine.Config{
		Store: h.store, Executors: []engine.Executor{thinkact.Executor{}}, Parts: func() (engine.Parts, func()) { return h.parts, func() {} },
		Lease: time.Minute, Scan: 20 * time.Millisecond, RetryUnit: time.Millisecond, Drain: time.Minute,
		Logger: slog.New(slog.NewTextHandler(h.t.Output(), nil)),
	}
	for _, f := range set {
		f(&c)
	}
	e, err := engine.New(c)
	if err != nil {
		h.t.Fatal(err)
	}
	return e
}

// work runs a worker until the test ends, or stop is called.
func (h *house) work(e *engine.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := e.Work(ctx); err != nil {
			h.t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	h.t.Cleanup(stop)
	return stop
}

// start starts a run of an agent.
func (h *house) start(agent, request string, set ...func(*engine.Request)) string {
	h.t.Helper()
	input, err := json.Marshal(map[string]string{"agent": agent, "request": request})
	if err != nil {
		h.t.Fatal(err)
	}
	r := engine.Request{Executor: "agent", Input: input}
	for _, f := range set {
		f(&r)
	}
	started, err := h.engine.Start(h.t.Context(), r)
	if err != nil {
		h.t.Fatal(err)
	}
	return started.PlanID
}

// plan returns the tree of a run.
func (h *house) plan(id string) *tree.Plan {
	h.t.Helper()
	return storetest.PlanTree(h.t, h.store, id)
}

// await waits until a run is in a state, or has ended.
func (h *house) await(id string, state record.State) *tree.Plan {
	h.t.Helper()
	var p *tree.Plan
	storetest.Until(h.t, fmt.Sprintf("run %s is %s", id, state), func() bool {
		p = h.plan(id)
		return *p.Record.State == state || p.Record.State.Terminal()
	})
	if *p.Record.State != state {
		h.t.Fatalf("the run is %s, not %s: %s", *p.Record.State, state, text(p.Record.ErrorMessage))
	}
	return p
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// step returns the only step of a run.
func (h *house) step(p *tree.Plan) *tree.Step {
	h.t.Helper()
	if len(p.Steps) != 1 {
		h.t.Fatalf("the run has %d steps", len(p.Steps))
	}
	return storetest.StepDetail(h.t, h.store, p.Steps[0].Record.StepID)
}

// waits returns the open waits of all trees.
func (h *house) waits() (open []record.Wait) {
	h.t.Helper()
	rows, err := h.db.Pool.Query(context.Background(), "SELECT root_plan_id, plan_id, wait_id, type, COALESCE(form_inputs::text, '') FROM actlog.wait_state WHERE state = 'WAITING'")
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var w record.Wait
		var inputs string
		if err := rows.Scan(&w.RootPlanID, &w.PlanID, &w.WaitID, &w.Type, &inputs); err != nil {
			h.t.Fatal(err)
		}
		if inputs != "" {
			w.FormInputs = json.RawMessage(inputs)
		}
		open = append(open, w)
	}
	if err := rows.Err(); err != nil {
		h.t.Fatal(err)
	}
	return open
}

// decide decides a wait.
func (h *house) decide(w record.Wait, state record.State, decision, value string) error {
	return h.store.Decide(context.Background(), w.RootPlanID, w.PlanID, w.WaitID, func(o store.OpenWait) (*record.Wait, error) {
		d := &record.Wait{RootPlanID: w.RootPlanID, PlanID: w.PlanID, WaitID: w.WaitID, State: &state, Decision: &decision, EndTime: new(time.Now())}
		if len(o.FormInputs) > 0 {
			var inputs []map[string]string
			if err := json.Unmarshal(o.FormInputs, &inputs); err != nil {
				return nil, err
			}
			for _, in := range inputs {
				in["value"] = value
			}
			b, err := json.Marshal(inputs)
			if err != nil {
				return nil, err
			}
			d.FormInputs = b
		}
		return d, nil
	})
}

// calls returns turns that each call tools.
func calls(turns ...[]scriptmodel.ToolCall) (all []scriptmodel.Turn) {
	for _, t := range turns {
		all = append(all, scriptmodel.Turn{ToolCalls: t})
	}
	return all
}

func call(name string, arguments any) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: model.OfferedName(name), Arguments: arguments}
}

func terminate(message string) []scriptmodel.ToolCall {
	return []scriptmodel.ToolCall{call("terminate", map[string]string{"message": message})}
}

type object = map[string]any
