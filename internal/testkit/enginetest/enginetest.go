// Package enginetest has an engine on a real store and a scripted model, for tests.
package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// Parts are what the runs of a test use.
type Parts struct {
	DefaultModel model.Model
	Models       map[string]model.Model // beside the default one, by name
	Settings     map[string]define.DefinitionModel
	Set          *tool.Set
	Definitions  map[string]any // by <kind>.<name>
	Secret       string         // is not to be on record
	Servers      []string       // names of MCP servers, which have no tools
	Rules        tool.Rules     // limit how many calls are made
	AtOnce       define.Concurrency
	Free         []string // models that need no price
	Scheduled    map[string]define.Schedule
}

// Provides implements [engine.Parts].
func (p *Parts) Provides() []string {
	all := []string{"model:default"}
	for name := range p.Models {
		all = append(all, "model:"+name)
	}
	for _, name := range p.Set.Names() {
		all = append(all, "tool:"+name)
	}

	for id := range p.Definitions {
		all = append(all, "tool:"+id)
		if name, ok := strings.CutPrefix(id, "custom_workflow."); ok {
			all = append(all, "workflow:"+name)
		}
	}
	for _, name := range p.Servers {
		all = append(all, "mcp:"+name)
	}
	return all
}

// Definition implements [engine.Parts].
func (p *Parts) Definition(kind, name string) (json.RawMessage, bool) {
	d, ok := p.Definitions[kind+"."+name]
	if !ok {
		return nil, false
	}
	b, err := json.Marshal(d)
	return b, err == nil
}

// Model implements [engine.Parts].
func (p *Parts) Model(name string) (model.Model, bool) {
	if m, ok := p.Models[name]; ok {
		return m, true
	}
	return p.DefaultModel, name == "default"
}

// ModelDefinition implements [engine.Parts].
func (p *Parts) ModelDefinition(name string) define.DefinitionModel {
	d := p.Settings[name]
	d.Name = name
	return d
}

// Tools implements [engine.Parts].
func (p *Parts) Tools(context.Context, []string) ([]tool.Tool, error) { return p.Set.Tools(), nil }

// Names implements [engine.Parts].
func (p *Parts) Names(kind string) (names []string) {
	for id := range p.Definitions {
		if name, ok := strings.CutPrefix(id, kind+"."); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Redact implements [engine.Parts].
func (p *Parts) Redact(text string) string {
	if p.Secret == "" {
		return text
	}
	return strings.ReplaceAll(text, p.Secret, "[secret]")
}

// Policies implements [engine.Parts].
func (p *Parts) Policies() tool.Rules { return p.Rules }

// Schedules implements [engine.Parts].
func (p *Parts) Schedules() map[string]define.Schedule { return p.Scheduled }

// MaxTakeovers implements [engine.Parts].
func (p *Parts) MaxTakeovers() int { return 0 }

// Concurrency implements [engine.Parts].
func (p *Parts) Concurrency() define.Concurrency { return p.AtOnce }

// Unpriced implements [engine.Parts].
func (p *Parts) Unpriced() []string { return p.Free }

// Settling implements [engine.Parts].
func (p *Parts) Settling() func(text string) int {
	return func(text string) int {
		if p.Secret == "" {
			return len(text)
		}
		return 0
	}
}

// House is a store, a scripted model and an engine.
type House struct {
	T      *testing.T
	DB     *pgtest.DB
	Store  *store.Store
	Runs   *runstore.Store // of Store
	Model  *scriptmodel.Server
	Parts  *Parts
	Engine *engine.Engine

	executors []engine.Executor
}

// Plans says how to build a House.
type Plans struct {
	Scenes      []scriptmodel.Scene // that the model follows, whose name is default
	Definitions map[string]any      // by <kind>.<name>
	Tools       []tool.Tool
	Executors   []engine.Executor
	Config      func(*engine.Config)
	Servers     []string   // names of MCP servers, which have no tools
	DB          *pgtest.DB // nil: a database of its own
}

// Build builds a house, which the end of the test closes: nothing may be live then in the runs that have ended.
func Build(t *testing.T, p Plans) *House {
	t.Helper()
	h := &House{T: t, DB: p.DB, executors: p.Executors}
	if h.DB == nil {
		h.DB = pgtest.New(t)
	}
	h.Store = storetest.OpenURL(t, h.DB.URL)
	h.Runs = runstore.New(h.Store)
	own := h.Store // a test may open another
	t.Cleanup(func() { CheckEnded(t, own) })

	var err error
	if h.Model, err = scriptmodel.Start(scriptmodel.Script{Scenes: p.Scenes}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Model.Close() })

	m := Model(t, h.Model.URL(), Patience)
	all, err := tool.NewSet(p.Tools...)
	if err != nil {
		t.Fatal(err)
	}

	h.Parts = &Parts{DefaultModel: m, Set: all, Definitions: p.Definitions, Servers: p.Servers}
	h.Engine = h.NewEngine(p.Config)
	return h
}

// Patience is how runs of tests bear with the model: as others do, but for the times.
var Patience = model.Patience{
	Retry:       model.Backoff{From: 2 * time.Millisecond, Most: 60 * time.Millisecond},
	Probe:       model.Backoff{From: 5 * time.Millisecond, Most: 30 * time.Millisecond},
	GiveUpAfter: time.Second,
}

// Model returns the model at a URL.
func Model(t *testing.T, url string, p model.Patience) model.Model {
	t.Helper()
	m, err := openai.New(openai.Config{Model: "scripted", BaseURL: url, Provider: "scripted"})
	if err != nil {
		t.Fatal(err)
	}
	return model.WithPatience(m, p)
}

// NewEngine returns another engine on the same store. set may be nil.
func (h *House) NewEngine(set func(*engine.Config)) *engine.Engine {
	h.T.Helper()
	c := engine.Config{
		Store: h.Runs, Executors: h.executors, Parts: func() (engine.Parts, func()) { return h.Parts, func() {} },
		Lease: time.Minute, Scan: 20 * time.Millisecond, Drain: time.Minute,
		Logger: slog.New(slog.NewTextHandler(h.T.Output(), nil)),
	}
	if set != nil {
		set(&c)
	}

	e, err := engine.New(c)
	if err != nil {
		h.T.Fatal(err)
	}
	return e
}

// Work runs a worker until the test ends, or stop is called.
func (h *House) Work(e *engine.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := e.Work(ctx); err != nil {
			h.T.Error(err)
		}
	})

	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	h.T.Cleanup(stop)
	return stop
}

// Start starts a run of an agent.
func (h *House) Start(agent, request string, set ...func(*engine.Request)) string {
	h.T.Helper()
	input, err := json.Marshal(map[string]string{"agent": agent, "request": request})
	if err != nil {
		h.T.Fatal(err)
	}

	r := engine.Request{Executor: "agent", Input: input}
	for _, f := range set {
		f(&r)
	}
	started, err := h.Engine.Start(h.T.Context(), r)
	if err != nil {
		h.T.Fatal(err)
	}
	return started.PlanID
}

// Plan returns the tree of a run.
func (h *House) Plan(id string) *tree.Plan {
	h.T.Helper()
	return storetest.PlanTree(h.T, h.Store, id)
}

// Await waits until a run is in a state, or has ended.
func (h *House) Await(id string, state record.State) *tree.Plan {
	h.T.Helper()
	var p *tree.Plan
	storetest.Until(h.T, fmt.Sprintf("run %s is %s", id, state), func() bool {
		p = h.Plan(id)
		return *p.Record.State == state || p.Record.State.Terminal()
	})

	if *p.Record.State != state {
		h.T.Fatalf("the run is %s, not %s: %s", *p.Record.State, state, Text(p.Record.ErrorMessage))
	}
	return p
}

// Ended waits until a run has ended.
func (h *House) Ended(id string) *tree.Plan {
	h.T.Helper()
	var p *tree.Plan
	storetest.Until(h.T, "run "+id+" has ended", func() bool {
		p = h.Plan(id)
		return p.Record.State.Terminal()
	})
	return p
}

// Text returns a text that may be missing.
func Text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// Step returns the only step of a run.
func (h *House) Step(p *tree.Plan) *tree.Step {
	h.T.Helper()
	if len(p.Steps) != 1 {
		h.T.Fatalf("the run has %d steps", len(p.Steps))
	}
	return storetest.StepDetail(h.T, h.Store, p.Steps[0].Record.StepID)
}

// Waits returns the open waits of all trees.
func (h *House) Waits() (open []record.Wait) {
	h.T.Helper()
	rows, err := h.DB.Pool.Query(context.Background(),
		"SELECT root_plan_id, plan_id, wait_id, type, COALESCE(form_inputs::text, '') FROM actlog.wait_state WHERE state "+
			"= 'WAITING'")
	if err != nil {
		h.T.Fatal(err)
	}
	defer rows.Close()

	for rows.Next() {
		var w record.Wait
		var inputs string
		if err := rows.Scan(&w.RootPlanID, &w.PlanID, &w.WaitID, &w.Type, &inputs); err != nil {
			h.T.Fatal(err)
		}
		if inputs != "" {
			w.FormInputs = json.RawMessage(inputs)
		}
		open = append(open, w)
	}
	if err := rows.Err(); err != nil {
		h.T.Fatal(err)
	}
	return open
}

// Claim claims up to n runs for a worker: those that are due and need nothing but what it provides.
func Claim(
	ctx context.Context, s *runstore.Store, workerID string, provides []string, n int,
) ([]runstore.Claimed, error) {
	claimed, _, err := s.Claim(ctx, runstore.Claim{WorkerID: workerID, Provides: provides, Runs: n, LoneAt: -1})
	return claimed, err
}

// Decide decides a wait.
func (h *House) Decide(w record.Wait, state record.State, decision, value string) error {
	return h.Runs.Decide(context.Background(), w.RootPlanID, w.PlanID, w.WaitID,
		func(o *record.Wait) (*record.Wait, error) {
			d := &record.Wait{
				RootPlanID: w.RootPlanID, PlanID: w.PlanID, WaitID: w.WaitID, State: &state, Decision: &decision,
				EndTime: new(time.Now()),
			}
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

// Calls returns turns that each call tools.
func Calls(turns ...[]scriptmodel.ToolCall) (all []scriptmodel.Turn) {
	for _, t := range turns {
		all = append(all, scriptmodel.Turn{ToolCalls: t})
	}
	return all
}

// Call returns a call of a tool by its own name.
func Call(name string, arguments any) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: model.OfferedName(name), Arguments: arguments}
}

// Terminate returns the call with which an agent ends its work.
func Terminate(message string) []scriptmodel.ToolCall {
	return []scriptmodel.ToolCall{Call("terminate", map[string]string{"message": message})}
}

// Object is a JSON object.
type Object = map[string]any
