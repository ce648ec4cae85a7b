package engine_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/model/openai"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// blocker is a tool that works until it is let go, or its context ends.
type blocker struct {
	begun chan string // ids of calls
	free  chan struct{}
	left  chan string // ids of calls that were told to end
}

func newBlocker() *blocker {
	return &blocker{begun: make(chan string, 100), free: make(chan struct{}), left: make(chan string, 100)}
}

func (b *blocker) tool(p tool.Policy) tool.Tool {
	return tool.CallFunc("block", "Blocks.", func(ctx context.Context, c tool.Call, _ struct{}) (string, error) {
		b.begun <- c.ID
		select {
		case <-b.free:
			return "free", nil
		case <-ctx.Done():
			b.left <- c.ID
			return "", ctx.Err()
		}
	}, tool.WithPolicy(p))
}

func blocking(t *testing.T, b *blocker, p tool.Policy, set ...func(*engine.Config)) *enginetest.House {
	t.Helper()
	return build(t, []scriptmodel.Scene{
		{
			Name: "parent", Match: scriptmodel.Match{System: "Parent."},
			Turns: calls([]scriptmodel.ToolCall{call("agent.worker", object{"request": "Work."})}, terminate("parent done")),
		},
		{
			Name: "twice", Match: scriptmodel.Match{System: "Twice."},
			Turns: calls([]scriptmodel.ToolCall{call("block", nil), call("block", nil)}, terminate("done")),
		},
		{Name: "worker", Turns: calls([]scriptmodel.ToolCall{call("block", nil)}, terminate("done"))},
	}, map[string]define.Definition{
		"worker": {Tools: []string{"block"}}, "twice": {SystemPrompt: "Twice.", Tools: []string{"block"}},
		"parent": {SystemPrompt: "Parent.", Tools: []string{"agent.worker"}},
	},
		[]tool.Tool{b.tool(p)}, set...)
}

// TestStop checks that a run that is stopped ends at once, with all below it, and that nobody knows how
// the call ended that was under way.
func TestStop(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := blocking(t, b, tool.Policy{Writes: true})
	h.Work(h.Engine)
	id := h.Start("parent", "Go.")
	<-b.begun

	if err := h.Runs.Control(t.Context(), id, runstore.Stop, "ann"); err != nil {
		t.Fatal(err)
	}
	p := h.Await(id, record.Cancelled)
	if text(p.Record.ErrorKind) != "stopped" {
		t.Errorf("the error kind is %q", text(p.Record.ErrorKind))
	}

	storetest.Until(t, "the child is stopped", func() bool {
		sub := h.Plan(id).Steps[0].SubPlans[0]
		return *sub.Record.State == record.Cancelled && *h.Step(sub).Cycles[0].ToolCalls[0].Record.State == record.Unknown
	})
	if got := outlineOf(h, h.Plan(id)); strings.Contains(got, "RUNNING") || strings.Contains(got, "PENDING") {
		t.Errorf("something is open:\n%s", got)
	}
	if err := h.Runs.Control(t.Context(), id, runstore.Stop, ""); err == nil {
		t.Error("it was stopped again")
	}
}

// TestStopWhatWaits checks that a run that waits for a human is ended by any worker.
func TestStopWhatWaits(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := blocking(t, b, tool.Policy{Approval: true})
	h.Work(h.Engine)
	id := h.Start("twice", "Go.")
	storetest.Until(t, "it waits for two answers", func() bool { return len(h.Waits()) == 2 })
	h.Await(id, record.Waiting)

	if err := h.Runs.Control(t.Context(), id, runstore.Stop, ""); err != nil {
		t.Fatal(err)
	}
	p := h.Await(id, record.Cancelled)
	for _, c := range h.Step(p).Cycles[0].ToolCalls {
		if *c.Record.State != record.Cancelled {
			t.Errorf("a call that waited is %s", *c.Record.State)
		}
	}
	if open := h.Waits(); len(open) > 0 {
		t.Errorf("a wait is open: %+v", open)
	}
}

// TestPauseAndResume checks that a pause lets the call under way finish, and that the run goes on with
// what remains.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := blocking(t, b, tool.Policy{})
	h.Work(h.Engine)
	id := h.Start("worker", "Go.")
	<-b.begun

	if err := h.Runs.Control(t.Context(), id, runstore.Pause, ""); err != nil {
		t.Fatal(err)
	}
	close(b.free)
	p := h.Await(id, record.Paused)
	if c := h.Step(p).Cycles[0].ToolCalls[0].Record; *c.State != record.Completed || text(c.Result) != "free" {
		t.Errorf("the call: %s %s", *c.State, text(c.Result))
	}

	if err := h.Runs.Control(t.Context(), id, runstore.Resume, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(id, record.Completed)
	if n := len(h.Model.Requests()); n != 2 || len(b.begun) != 0 {
		t.Errorf("%d requests, %d calls more", n, len(b.begun))
	}

	var applied int
	if err := h.DB.Pool.QueryRow(
		t.Context(), "SELECT count(applied_at) FROM actlog.control_request",
	).Scan(&applied); err != nil || applied != 2 {
		t.Errorf("%d requests are noted as applied, %v", applied, err)
	}
}

// TestDrain checks that a worker that is to stop finishes what it is doing, and hands the run back.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := blocking(t, b, tool.Policy{})
	stop := h.Work(h.Engine)
	id := h.Start("worker", "Go.")
	<-b.begun

	var stopping sync.WaitGroup
	stopping.Go(stop)
	close(b.free)
	stopping.Wait()
	if p := h.Plan(id); p.Record.State.Terminal() {
		t.Fatalf("the run is %s", *p.Record.State)
	}

	h.Work(h.NewEngine(nil))
	h.Await(id, record.Completed)
	if len(b.begun) != 0 {
		t.Error("the call was made again")
	}
}

// TestDrainInTime checks that a call which takes longer than the drain is left, and that the next worker
// reports that nobody knows how it ended.
func TestDrainInTime(t *testing.T) {
	t.Parallel()
	for policy, want := range map[tool.OnUnknown]record.State{tool.Report: record.Unknown, tool.Retry: record.Completed} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			b := newBlocker()
			h := blocking(t, b, tool.Policy{OnUnknown: policy, Writes: true}, func(c *engine.Config) {
				c.Drain = time.Millisecond
			})

			stop := h.Work(h.Engine)
			id := h.Start("worker", "Go.")
			first := <-b.begun
			stop()
			close(b.free)
			h.Work(h.NewEngine(nil))

			c := h.Step(h.Await(id, record.Completed)).Cycles[0].ToolCalls[0]
			if *c.Record.State != want {
				t.Errorf("the call is %s, want %s", *c.Record.State, want)
			}
			if policy == tool.Report {
				if !strings.Contains(text(c.Record.Result), "Verify") || len(b.begun) != 0 {
					t.Errorf("the result is %q, called %d times more", text(c.Record.Result), len(b.begun))
				}
				return
			}
			if again := <-b.begun; again != first || *c.Record.Attempt != 2 || len(c.PastAttempts) != 1 ||
				c.PastAttempts[0].State != record.Unknown {
				t.Errorf("call %s, then %s: %+v", first, again, c)
			}
		})
	}
}

// TestDrainWhilePostgresIsAway checks that a worker ends although it cannot hand back its runs, and that
// another one goes on with them.
func TestDrainWhilePostgresIsAway(t *testing.T) {
	t.Parallel()
	o := storetest.NewOutage(t)
	b := newBlocker()
	definition := define.Definition{Tools: []string{"block"}}
	definition.Model.Name = "default"
	h := enginetest.Build(t, enginetest.Plans{
		DB: o.DB,
		Scenes: []scriptmodel.Scene{
			{Name: "worker", Turns: calls([]scriptmodel.ToolCall{call("block", nil)}, terminate("done"))},
		},
		Definitions: map[string]any{"agent.worker": definition},
		Tools:       []tool.Tool{b.tool(tool.Policy{OnUnknown: tool.Retry})},
		Executors:   []engine.Executor{thinkact.Executor{}},
		Config:      func(c *engine.Config) { c.Lease, c.Drain = 300*time.Millisecond, time.Millisecond },
	})

	stop := h.Work(h.Engine)
	id := h.Start("worker", "Go.")
	<-b.begun
	o.Begin(t)
	stop()
	o.End(t)
	close(b.free)

	h.Work(h.NewEngine(func(c *engine.Config) { c.Lease = time.Second }))
	h.Await(id, record.Completed)
	if len(b.begun) != 1 {
		t.Errorf("the call was made %d times more", len(b.begun))
	}
}

// TestAskWhatHappened checks that a human decides about a call whose outcome is unknown.
func TestAskWhatHappened(t *testing.T) {
	t.Parallel()
	for decision, want := range map[string]record.State{
		"done": record.Completed, "retry": record.Completed, "skip": record.Skipped,
	} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			b := newBlocker()
			h := blocking(t, b, tool.Policy{OnUnknown: tool.Ask, Writes: true}, func(c *engine.Config) {
				c.Drain = time.Millisecond
			})

			stop := h.Work(h.Engine)
			id := h.Start("worker", "Go.")
			<-b.begun
			stop()
			close(b.free)
			h.Work(h.NewEngine(nil))

			p := h.Await(id, record.Waiting)
			if got := *h.Step(p).Cycles[0].ToolCalls[0].Record.State; got != record.Unknown {
				t.Errorf("meanwhile the call is %s", got)
			}
			if err := h.Decide(h.Waits()[0], record.Approved, decision, ""); err != nil {
				t.Fatal(err)
			}
			c := h.Step(h.Await(id, record.Completed)).Cycles[0].ToolCalls[0].Record
			if *c.State != want || (len(b.begun) == 1) != (decision == "retry") {
				t.Errorf("the call is %s, called %d times more", *c.State, len(b.begun))
			}
		})
	}
}

// TestApproval checks the ways in which a call is not approved, and that the human sees exactly what
// would run.
func TestApproval(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		timeout time.Duration
		want    string
	}{
		"rejected": {0, "A human rejected this call. It was not made."}, "late": {
			time.Millisecond, "Nobody approved this call in time. It was not made.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBlocker()
			close(b.free)
			h := blocking(t, b, tool.Policy{Approval: true, WaitTimeout: tt.timeout})
			h.Work(h.Engine)
			id := h.Start("worker", "Go.")
			if tt.timeout == 0 {
				p := h.Await(id, record.Waiting)
				if got := *h.Step(p).Cycles[0].ToolCalls[0].Record.State; got != record.AwaitingApproval {
					t.Errorf("the call is %s", got)
				}

				var subject, sha string
				if err := h.DB.Pool.QueryRow(t.Context(),
					"SELECT subject::text, subject_sha256 FROM actlog.wait_state").Scan(&subject, &sha); err != nil {
					t.Fatal(err)
				}

				if !strings.HasPrefix(subject, `{"name":"block","toolCallId":"toolcall-`) ||
					!strings.HasSuffix(subject, `"parameters":{}}`) || len(sha) != 64 {
					t.Errorf("the subject is %s, its hash %s", subject, sha)
				}
				if err := h.Decide(h.Waits()[0], record.Rejected, "reject", ""); err != nil {
					t.Fatal(err)
				}
			}

			c := h.Step(h.Await(id, record.Completed)).Cycles[0].ToolCalls[0].Record
			if *c.State != record.Skipped || text(c.Result) != tt.want || len(b.begun) != 0 {
				t.Errorf("the call: %s %q", *c.State, text(c.Result))
			}
		})
	}
}

// TestFormsQueue checks B35: one form of a tree waits at a time, the others queue, and one that nobody
// answers ends with a time-out after which the agent goes on.
func TestFormsQueue(t *testing.T) {
	t.Parallel()
	form := call("form", object{
		"title": "Which?", "inputs": []object{
			{"label": "Which", "type": "select", "options": []string{"a", "b"}, "required": true},
		},
	})
	h := build(t, []scriptmodel.Scene{
		{Name: "parent", Match: scriptmodel.Match{System: "Parent."}, Turns: calls(
			[]scriptmodel.ToolCall{call("agent.asker", object{"request": "1"}), call("agent.asker", object{"request": "2"})},
			terminate("done"))},
		{Name: "asker", Turns: calls([]scriptmodel.ToolCall{form}, terminate("asked"))},
	}, map[string]define.Definition{
		"parent": {SystemPrompt: "Parent.", Tools: []string{"agent.asker"}}, "asker": {Tools: []string{"form"}},
	}, nil)

	h.Work(h.Engine)
	id := h.Start("parent", "Go.")
	for range 2 {
		storetest.Until(t, "a form waits", func() bool { return len(h.Waits()) > 0 })
		open := h.Waits()
		if len(open) != 1 {
			t.Fatalf("%d forms wait", len(open))
		}
		if want := `[{"label":"Which","options":"a,b","required":"true","type":"select","value":""}]`; string(open[0].FormInputs) != want {
			t.Errorf("the form is %s", open[0].FormInputs)
		}
		if err := h.Decide(open[0], record.Submitted, "submit", "b"); err != nil {
			t.Fatal(err)
		}
	}

	p := h.Await(id, record.Completed)
	for _, sub := range p.Steps[0].SubPlans {
		if c := h.Step(sub).Cycles[0].ToolCalls[0].Record; text(c.Result) != `{"Which":"b"}` {
			t.Errorf("the result is %s", text(c.Result))
		}
	}
}

// TestLimits checks that a run which reaches a limit fails with the kind of that limit.
func TestLimits(t *testing.T) {
	t.Parallel()
	for kind, l := range map[string]engine.Limits{
		engine.LimitRounds: {Rounds: 3}, engine.LimitToolCalls: {ToolCalls: 2}, engine.LimitTokens: {Tokens: 50},
		engine.LimitCost: {CostUSD: 0.001},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var greeted atomic.Int64
			var turns []scriptmodel.Turn
			for range 10 {
				turns = append(turns, scriptmodel.Turn{
					ToolCalls: []scriptmodel.ToolCall{call("greet", object{"name": "Ann"})},
					Usage:     &scriptmodel.Usage{Prompt: 20, Completion: 10},
				})
			}

			h := build(t, []scriptmodel.Scene{{Name: "s", Turns: turns}},
				map[string]define.Definition{"a": {Tools: []string{"greet"}, MaxSteps: 9}},
				[]tool.Tool{greet(&greeted, tool.Policy{})})
			if err := h.Store.SetPrice(t.Context(),
				store.Price{
					Provider: "scripted", Model: "scripted", FromDay: time.Now().AddDate(-1, 0, 0),
					Rates: store.Rates{Input: 20, Output: 20},
				}); err != nil {
				t.Fatal(err)
			}

			h.Work(h.Engine)
			p := h.Await(h.Start("a", "Go.", func(r *engine.Request) { r.Limits = &l }), record.Failed)
			if text(p.Record.ErrorKind) != kind || *h.Step(p).Record.State != record.Failed {
				t.Errorf("%s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
			}
			if n := greeted.Load(); n < 1 || n > 3 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// TestCostUnknown checks that a run with a limit of cost ends when it would ask a model without a price, and so do runs
// whose sub-agents would.
func TestCostUnknown(t *testing.T) {
	t.Parallel()
	unknown := func(t *testing.T, turns ...scriptmodel.Turn) (*enginetest.House, model.Model) {
		t.Helper()
		h := build(t, []scriptmodel.Scene{{Name: "s", Turns: turns}}, map[string]define.Definition{
			"own": {MaxSteps: 9}, "limited": {MaxSteps: 9, Limits: define.Limits{CostUSD: 1}},
			"boss": {SystemPrompt: "Boss.", Tools: []string{"agent.own"}, MaxSteps: 9},
		}, nil)
		return h, h.Parts.DefaultModel
	}

	done := calls(terminate("Done."))
	capped := func(r *engine.Request) { r.Limits = &engine.Limits{CostUSD: 1} }
	price := func(h *enginetest.House, input float64) {
		p := store.Price{Provider: "scripted", Model: "scripted", FromDay: time.Now().AddDate(-1, 0, 0)}
		p.Input = input
		if err := h.Store.SetPrice(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(h *enginetest.House, id, model string) *tree.Plan {
		t.Helper()
		p := h.Await(id, record.Failed)
		if text(p.Record.ErrorKind) != engine.LimitCostUnknown ||
			!strings.Contains(text(p.Record.ErrorMessage), "model "+model+" has no price") {
			t.Errorf("%s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
		}
		return p
	}

	h, _ := unknown(t, done...)
	h.Work(h.Engine)
	for _, p := range []*tree.Plan{
		fails(h, h.Start("own", "Go.", capped), "scripted"), fails(h, h.Start("limited", "Go."), "scripted"),
	} {
		if n := len(h.Step(p).Cycles); n != 0 {
			t.Errorf("the model was asked %d times", n)
		}
	}
	h.Await(h.Start("own", "Go."), record.Completed) // nothing limits the cost
	price(h, 0)
	h.Await(h.Start("limited", "Go."), record.Completed) // a price of 0 is one

	// A model may be allowed to have no price, also if it answers by a longer name.
	h, _ = unknown(t, append(calls([]scriptmodel.ToolCall{call("agent.own", object{"request": "Go."})}), done...)...)
	h.Parts.Free = []string{"script", "scripted"}
	h.Work(h.Engine)
	h.Await(h.Start("boss", "Go.", capped), record.Completed)

	// A sub-agent whose model has no price ends the run that has the limit.
	var asks []scriptmodel.Turn
	for range 5 {
		asks = append(asks, scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{call("agent.own", object{"request": "Go."})}})
	}

	h, own := unknown(t, asks...)
	boss, err := openai.New(openai.Config{Model: "priced", BaseURL: h.Model.URL(), Provider: "scripted"})
	if err != nil {
		t.Fatal(err)
	}
	h.Parts.DefaultModel, h.Parts.Models = boss, map[string]model.Model{"own": own}
	d := h.Parts.Definitions["agent.own"].(define.Definition)
	d.Model.Name = "own"
	h.Parts.Definitions["agent.own"] = d

	h.Work(h.Engine)
	if err := h.Store.SetPrice(t.Context(),
		store.Price{Model: "priced", FromDay: time.Now().AddDate(-1, 0, 0), Rates: store.Rates{Input: 1}}); err != nil {
		t.Fatal(err)
	}
	id := h.Start("boss", "Go.", capped)
	fails(h, id, "scripted")
	if n := len(h.Plan(id).Steps[0].SubPlans); n != 1 {
		t.Errorf("%d sub-plans", n)
	}
}

// TestCostUnknownBefore checks that a worker which takes a run over ends it if a call that is on record has no price,
// and does not read them all again before each call of its own.
func TestCostUnknownBefore(t *testing.T) {
	t.Parallel()
	form := call("form", object{
		"title": "Which?", "inputs": []object{{"label": "Which", "type": "select", "options": []string{"a", "b"}}},
	})
	for _, waits := range []bool{false, true} {
		var h *enginetest.House
		unprice := func() {
			storetest.Exec(t, h.Store, "UPDATE actlog.think_act_record SET tariff = NULL, input_price = NULL, output_price "+
				"= NULL")
		}
		tools := []tool.Tool{tool.Func("unprice", "It takes the prices away.",
			func(context.Context, struct{}) (string, error) {
				unprice()
				return "done", nil
			})}

		turns := calls([]scriptmodel.ToolCall{call("unprice", object{})}, terminate("Done."))
		if waits {
			turns = calls([]scriptmodel.ToolCall{form}, terminate("Done."))
		}
		h = build(t, []scriptmodel.Scene{{Name: "s", Turns: turns}},
			map[string]define.Definition{"a": {Tools: []string{"unprice", "form"}, MaxSteps: 9}}, tools)

		price := store.Price{Provider: "scripted", Model: "scripted", FromDay: time.Now().AddDate(-1, 0, 0)}
		price.Input = 1
		if err := h.Store.SetPrice(t.Context(), price); err != nil {
			t.Fatal(err)
		}
		h.Work(h.Engine)
		id := h.Start("a", "Go.", func(r *engine.Request) { r.Limits = &engine.Limits{CostUSD: 1} })
		if !waits {
			h.Await(id, record.Completed)
			continue
		}

		storetest.Until(t, "a form waits, and nobody has the run", func() bool {
			return len(h.Waits()) > 0 && storetest.Query[bool](t, h.Store, "SELECT worker_id IS NULL FROM actlog.run")
		})
		unprice()
		if err := h.Decide(h.Waits()[0], record.Submitted, "submit", "b"); err != nil {
			t.Fatal(err)
		}
		if p := h.Await(id, record.Failed); text(p.Record.ErrorKind) != engine.LimitCostUnknown {
			t.Errorf("%s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
		}
	}
}

// TestDeadline checks that a limit of time ends a run whose child works, and the child.
func TestDeadline(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := blocking(t, b, tool.Policy{})
	h.Work(h.Engine)
	id := h.Start("parent", "Go.", func(r *engine.Request) { r.Limits = &engine.Limits{Seconds: 0.5} })
	p := h.Await(id, record.Failed)
	if text(p.Record.ErrorKind) != engine.LimitTime {
		t.Errorf("%s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
	}

	storetest.Until(t, "the child has ended, if the time was enough to begin it", func() bool {
		for _, step := range h.Plan(id).Steps {
			for _, sub := range step.SubPlans {
				if !sub.Record.State.Terminal() {
					return false
				}
			}
		}
		return true
	})
}

// TestStopWhatNobodyCanRun: a run that needs what no worker has is stopped all the same.
func TestStopWhatNobodyCanRun(t *testing.T) {
	t.Parallel()
	h := build(t, []scriptmodel.Scene{{Name: "s", Turns: []scriptmodel.Turn{{ToolCalls: terminate("done")}}}},
		map[string]define.Definition{"a": {}}, nil)
	id := h.Start("a", "Go.")
	if _, err := h.DB.Pool.Exec(t.Context(), "UPDATE actlog.run SET needs = needs || '{tool:gone}'::text[]"); err != nil {
		t.Fatal(err)
	}

	h.Work(h.Engine)
	if err := h.Runs.Control(t.Context(), id, runstore.Pause, "ann"); err != nil {
		t.Fatal(err)
	}
	h.Await(id, record.Paused)
	if err := h.Runs.Control(t.Context(), id, runstore.Stop, "ann"); err != nil {
		t.Fatal(err)
	}
	h.Await(id, record.Cancelled)
}

// TestModelErrors checks B31: errors that may pass are tried again, and each try is on record; others
// fail the run.
func TestModelErrors(t *testing.T) {
	t.Parallel()
	h := build(t, []scriptmodel.Scene{
		{
			Name: "passes", Match: scriptmodel.Match{User: "passes"}, Turns: []scriptmodel.Turn{
				{ToolCalls: terminate("done"), Error: &scriptmodel.Failure{Status: 503, Message: "busy", Times: 2}},
			},
		},
		{
			Name: "cut", Match: scriptmodel.Match{User: "cut"}, Turns: []scriptmodel.Turn{
				{ToolCalls: terminate("done"), Content: "A text.", Break: &scriptmodel.Break{After: 2, Times: 1}},
			},
		},
		{Name: "stays", Turns: []scriptmodel.Turn{{Error: &scriptmodel.Failure{Status: 400, Message: "bad request"}}}},
	}, map[string]define.Definition{"a": {}}, nil)
	h.Work(h.Engine)

	for request, tries := range map[string]int64{"passes": 3, "cut": 2} {
		c := h.Step(h.Await(h.Start("a", request), record.Completed)).Cycles[0]
		if *c.Record.Attempt != tries || int64(len(c.PastAttempts)) != tries-1 || c.PastAttempts[0].State != record.Failed ||
			*c.Record.State != record.Completed {
			t.Errorf("%s: %d attempts, %+v", request, *c.Record.Attempt, c.PastAttempts)
		}
	}

	p := h.Await(h.Start("a", "stays"), record.Failed)
	if text(p.Record.ErrorKind) != "invalid_request" || !strings.Contains(text(p.Record.ErrorMessage), "bad request") {
		t.Errorf("%s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
	}
}

// TestNoSecretOnRecord checks that what is to be redacted is in no row, and is not sent to the model
// either once it came from a tool or a request.
func TestNoSecretOnRecord(t *testing.T) {
	t.Parallel()
	const secret = "planted-secret"
	h := build(t, []scriptmodel.Scene{{Name: "s",
		Turns: append(calls([]scriptmodel.ToolCall{call("leak", object{"name": secret})}),
			scriptmodel.Turn{Content: "I saw " + secret, ToolCalls: terminate("It is " + secret)})}},
		map[string]define.Definition{"a": {Tools: []string{"leak"}}},
		[]tool.Tool{tool.Func("leak", "Leaks.", func(_ context.Context, in nameArgument) (tool.Result, error) {
			return tool.Result{
				Text: "It is " + secret + in.Name, Summary: secret, Sources: []tool.Source{
					{URI: "file:///" + secret, Snippet: secret},
				},
			}, nil
		})})

	h.Parts.Secret = secret
	h.Work(h.Engine)
	p := h.Await(h.Start("a", "Say "+secret), record.Completed)
	if text(p.Record.Summary) != "It is [secret]" {
		t.Errorf("the summary is %q", text(p.Record.Summary))
	}

	for _, table := range []string{
		"plan_execution_record", "agent_execution_record", "think_act_record", "act_tool_info", "source_reference", "run",
		"search_fresh", "search_text", "recent_text",
	} {
		var n int
		if err := h.DB.Pool.QueryRow(t.Context(),
			"SELECT count(*) FROM actlog."+table+" AS t WHERE t::text LIKE '%"+secret+"%'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			t.Errorf("%d rows of %s have the secret", n, table)
		}
	}
	for _, r := range h.Model.Requests() {
		if strings.Contains(string(r.Body), secret) {
			t.Errorf("the model was told: %s", r.Body)
		}
	}
}

// TestConversation checks that an agent is told of earlier runs of its conversation, if it is to be.
func TestConversation(t *testing.T) {
	t.Parallel()
	answered := scriptmodel.Scene{
		Name: "s", Turns: []scriptmodel.Turn{{ToolCalls: terminate("My answer.")}, {ToolCalls: terminate("Second answer.")}},
	}
	h := build(t, []scriptmodel.Scene{answered}, map[string]define.Definition{"a": {IncludeHistory: true}}, nil)
	h.Work(h.Engine)
	same := func(r *engine.Request) { r.ConversationID, r.UserID = "c", "u" }
	h.Await(h.Start("a", "First question.", same), record.Completed)
	h.Await(h.Start("a", "Second question.", same), record.Completed)

	body := string(h.Model.Requests()[1].Body)
	first, second := strings.Index(body, "First question."), strings.Index(body, "Second question.")
	answer := strings.Index(body, "My answer.")
	if first < 0 || answer < first || second < answer {
		t.Errorf("the model was asked %s", body)
	}
}

// TestPauseIsToldByAWrite: a pause that is on record before a call has ended holds from the next boundary on, also if
// the worker hears of it in no other way.
func TestPauseIsToldByAWrite(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	// no heartbeat asks
	h := blocking(t, b, tool.Policy{}, func(c *engine.Config) { c.Lease, c.Beat = 4*time.Hour, time.Hour })
	h.Work(h.Engine)
	id := h.Start("worker", "Go.")
	<-b.begun

	storetest.Exec(t, h.Store, "UPDATE actlog.run SET desired = 'PAUSE' WHERE plan_id = $1", id) // rings no bell
	close(b.free)
	var state record.State
	storetest.Until(t, "the run is held or has ended", func() bool {
		state = *h.Plan(id).Record.State
		return state == record.Paused || state.Terminal()
	})
	if state != record.Paused {
		t.Errorf("the run is %s:\n%s", state, outlineOf(h, h.Plan(id)))
	}
}
