package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// broken is something that fails until it is mended.
type broken struct{ mended atomic.Bool }

// turn returns an answer of a model that fails, or says something else, until it is mended.
func (b *broken) turn(until, then scriptmodel.Turn) scriptmodel.Turn {
	return scriptmodel.Turn{Reply: func(context.Context, *scriptmodel.Request) (scriptmodel.Turn, error) {
		if b.mended.Load() {
			return then, nil
		}
		return until, nil
	}}
}

func retry(t *testing.T, e *engine.Engine, id string, limits engine.NewLimits) {
	t.Helper()
	if err := e.Retry(t.Context(), engine.RetryRequest{PlanID: id, Limits: limits}); err != nil {
		t.Fatal(err)
	}
}

// TestRetryOfRuns: however a run of an agent failed, a retry goes on where it ended. No call is made again that has a
// result.
func TestRetryOfRuns(t *testing.T) {
	t.Parallel()
	var b broken
	two := []scriptmodel.ToolCall{call("ok", object{"name": "1"}), call("ok", object{"name": "2"})}
	one := []scriptmodel.ToolCall{call("ok", object{"name": "3"})}
	refuses := scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 400, Message: "no"}}
	done := calls(terminate("done"))[0]
	silent := scriptmodel.Turn{Content: "Hm."}

	for name, tt := range map[string]struct {
		turns  []scriptmodel.Turn
		limits *engine.Limits
		raised engine.NewLimits
		kind   string // how it failed
		calls  int64  // in all
		states string // in the end
		rounds int    // of the agent; 0: many
	}{
		"the first request": {
			turns: []scriptmodel.Turn{b.turn(refuses, done)}, kind: "invalid_request", states: "COMPLETED completed",
		},
		"a later request": {
			turns: append(calls(two), b.turn(refuses, done)), kind: "invalid_request", calls: 2,
			states: "COMPLETED completed completed COMPLETED completed",
		},
		"a refusal": {
			turns: append(calls(two), b.turn(scriptmodel.Turn{Refusal: "No.", ToolCalls: two}, done)), kind: "refusal",
			calls: 2, states: "COMPLETED completed completed COMPLETED completed skipped",
		},
		"an answer that is too large": {
			turns: append(calls(two), b.turn(scriptmodel.Turn{Content: strings.Repeat("y", 5<<20), Whole: true}, done)),
			kind:  "model", calls: 2, states: "COMPLETED completed completed COMPLETED completed",
		},
		"an agent that says nothing": {
			turns: append(calls(two), silent, silent, b.turn(silent, done)), kind: "no_tool_call", calls: 2,
			states: "COMPLETED completed completed COMPLETED COMPLETED COMPLETED completed",
		},
		"a limit of rounds": {
			turns: calls(two, one, terminate("done")), limits: &engine.Limits{Rounds: 1},
			raised: engine.NewLimits{Rounds: new(int64(5))}, kind: engine.LimitRounds, calls: 3,
			states: "COMPLETED completed completed COMPLETED completed COMPLETED completed",
		},
		"the rounds of the agent": {
			turns: calls(one, one, one, one, one, terminate("done")), rounds: 3,
			raised: engine.NewLimits{Rounds: new(int64(9))}, kind: engine.LimitRounds, calls: 4,
			states: strings.Repeat("COMPLETED completed ", 3) + "COMPLETED failed COMPLETED completed COMPLETED completed",
		},
		"a limit of calls": {
			turns: calls(two, two, terminate("done")), limits: &engine.Limits{ToolCalls: 3},
			raised: engine.NewLimits{ToolCalls: new(int64(0))}, kind: engine.LimitToolCalls, calls: 4,
			states: "COMPLETED completed completed COMPLETED completed completed COMPLETED completed",
		},
		"a limit of tokens": {
			turns: calls(two, terminate("done")), limits: &engine.Limits{Tokens: 1},
			raised: engine.NewLimits{Tokens: new(int64(1e6))}, kind: engine.LimitTokens, calls: 2,
			states: "COMPLETED completed completed COMPLETED completed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			b.mended.Store(false)
			ok := tool.Func("ok", "Says ok.", func(context.Context, nameArgument) (string, error) {
				return fmt.Sprint("ok ", n.Add(1)), nil
			}, tool.WithPolicy(tool.Policy{Exclusive: true}))

			h := build(t, []scriptmodel.Scene{{Name: "s", Turns: tt.turns}},
				map[string]define.Definition{"a": {Tools: []string{"ok"}, MaxSteps: cmp.Or(tt.rounds, 30)}}, []tool.Tool{ok})
			h.Work(h.Engine)

			id := h.Start("a", "Go.", func(r *engine.Request) { r.Limits = tt.limits })
			if p := h.Ended(id); text(p.Record.ErrorKind) != tt.kind {
				t.Fatalf("it failed as %s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
			}

			b.mended.Store(true)
			retry(t, h.Engine, id, tt.raised)

			p := h.Await(id, record.Completed)
			if got := states(h.Step(p)); got != tt.states || n.Load() != tt.calls || text(p.Record.Summary) != "done" ||
				p.Record.ErrorKind != nil || *p.Record.Attempt != 2 {
				t.Errorf("%d calls, %q, error %q, attempt %d:\n%s, not\n%s", n.Load(), text(p.Record.Summary),
					text(p.Record.ErrorKind), *p.Record.Attempt, got, tt.states)
			}

			if storetest.Query[bool](t, h.Store, `SELECT bool_or(exception IS NOT NULL AND exception_served_at IS NULL)
				FROM actlog.plan_execution_record`) {
				t.Error("the exception of the first attempt waits for a reader")
			}
			if past := h.Step(p).PastAttempts; len(past) != 1 || past[0].State != record.Failed ||
				text(past[0].ErrorKind) != tt.kind {
				t.Errorf("the attempts of the step: %+v", past)
			}
		})
	}
}

// TestRetryOfWhatWasStopped: what was under way when a run was stopped goes on, three runs deep: a call whose outcome
// is unknown as its policy says, a question that nobody answered is put again.
func TestRetryOfWhatWasStopped(t *testing.T) {
	t.Parallel()
	bl := newBlocker()
	agents := map[string]define.Definition{
		"top":    {SystemPrompt: "Top.", Tools: []string{"agent.middle"}},
		"middle": {SystemPrompt: "Middle.", Tools: []string{"agent.low", "block", "ask"}},
		"low":    {Tools: []string{"block"}},
	}

	h := build(t, []scriptmodel.Scene{
		{Name: "top", Match: scriptmodel.Match{System: "Top."},
			Turns: calls([]scriptmodel.ToolCall{call("agent.middle", object{"request": "1"})}, terminate("top done"))},

		{Name: "middle", Match: scriptmodel.Match{System: "Middle."},
			Turns: calls([]scriptmodel.ToolCall{
				call("agent.low", object{"request": "2"}), call("block", object{}), call("ask", object{"name": "x"}),
			}, terminate("middle done"))},

		{Name: "low", Turns: calls([]scriptmodel.ToolCall{call("block", object{})}, terminate("low done"))},
	}, agents, []tool.Tool{
		bl.tool(tool.Policy{OnUnknown: tool.Retry}),
		tool.Func("ask", "Asks.", func(context.Context, nameArgument) (string, error) {
			return "asked", nil
		}, tool.WithPolicy(tool.Policy{Approval: true})),
	})
	h.Work(h.Engine)
	id := h.Start("top", "Go.")
	first, second := <-bl.begun, <-bl.begun
	storetest.Until(t, "it asks", func() bool { return len(h.Waits()) == 1 })
	asked := h.Waits()[0]

	if err := h.Runs.Control(t.Context(), id, runstore.Stop, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(id, record.Cancelled)
	close(bl.free)
	retry(t, h.Engine, id, engine.NewLimits{})

	again := map[string]bool{<-bl.begun: true, <-bl.begun: true}
	if !again[first] || !again[second] {
		t.Errorf("calls %s and %s, then %v", first, second, again)
	}
	storetest.Until(t, "it asks again", func() bool { return len(h.Waits()) == 1 })
	if w := h.Waits()[0]; w.WaitID == asked.WaitID {
		t.Error("the question that was cancelled is open again")
	} else if err := h.Decide(w, record.Approved, "approve", ""); err != nil {
		t.Fatal(err)
	}

	p := h.Await(id, record.Completed)
	middle := p.Steps[0].SubPlans[0]
	low := middle.Steps[0].SubPlans[0]
	for _, each := range []struct{ got, want string }{
		{states(h.Step(p)), "COMPLETED completed COMPLETED completed"},
		{states(h.Step(middle)), "COMPLETED completed completed completed COMPLETED completed"},
		{states(h.Step(low)), "COMPLETED completed COMPLETED completed"},
		{fmt.Sprintln(*middle.Record.Attempt, *low.Record.Attempt, text(p.Record.Summary)), "2 2 top done\n"},
	} {
		if each.got != each.want {
			t.Errorf("%s, not %s", each.got, each.want)
		}
	}
	if n := len(h.Model.Requests()); n != 6 {
		t.Errorf("%d requests", n)
	}
}

// TestRetryAgainAndAgain: a retry that fails can be retried, and figures count each call once.
func TestRetryAgainAndAgain(t *testing.T) {
	t.Parallel()
	var b broken
	var n atomic.Int64
	refuses := scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 400, Message: "no"}}

	h := build(t, []scriptmodel.Scene{{Name: "s", Turns: append(
		calls([]scriptmodel.ToolCall{call("greet", object{"name": "Ann"})}), b.turn(refuses, calls(terminate("done"))[0]),
	)}}, map[string]define.Definition{"a": {Tools: []string{"greet"}}}, []tool.Tool{greet(&n, tool.Policy{})})
	h.Work(h.Engine)

	id := h.Start("a", "Go.")
	for range 3 {
		h.Await(id, record.Failed)
		retry(t, h.Engine, id, engine.NewLimits{})
		storetest.Until(t, "it goes on", func() bool {
			return storetest.Query[bool](t, h.Store, "SELECT count(*) = 1 FROM actlog.run WHERE done AND done_at > ended_before")
		})
	}

	b.mended.Store(true)
	retry(t, h.Engine, id, engine.NewLimits{})
	p := h.Await(id, record.Completed)
	if s := h.Step(p); *s.Record.Attempt != 5 || len(s.PastAttempts) != 4 || n.Load() != 1 ||
		s.Figures.ModelCalls != 2 || s.Figures.ToolCalls != 2 || *p.Record.Attempt != 5 {
		t.Errorf("attempt %d of %d, called %d times, figures %+v", *s.Record.Attempt, len(s.PastAttempts), n.Load(),
			s.Figures)
	}

	got := storetest.Query[string](t, h.Store,
		`SELECT string_agg(attempt || ' ' || state || ' ' || COALESCE(error_kind, ''), ', ' ORDER BY attempt)
		FROM report.attempt WHERE level = 'plan'`)
	const f = " FAILED invalid_request"
	if want := "1" + f + ", 2" + f + ", 3" + f + ", 4" + f + ", 5 COMPLETED "; got != want {
		t.Errorf("report.attempt has %q, not %q", got, want)
	}
}

// TestRetryIsRefused: what cannot be retried, and why.
func TestRetryIsRefused(t *testing.T) {
	t.Parallel()
	bl := newBlocker()
	h := blocking(t, bl, tool.Policy{})
	h.Work(h.Engine)
	id := h.Start("parent", "Go.")
	<-bl.begun
	refused := func(id string, limits engine.NewLimits, key string) error {
		return h.Engine.Retry(t.Context(), engine.RetryRequest{PlanID: id, Limits: limits, IdempotencyKey: key})
	}

	if err := refused(id, engine.NewLimits{}, ""); !errors.Is(err, runstore.ErrGoesOn) {
		t.Errorf("a run that goes on: %v", err)
	}
	var below *runstore.NotRootError
	sub := h.Plan(id).Steps[0].SubPlans[0].Record.CurrentPlanID
	if err := refused(sub, engine.NewLimits{}, ""); !errors.As(err, &below) || below.RootPlanID != id {
		t.Errorf("a run below: %v", err)
	}
	if err := refused("nobody", engine.NewLimits{}, ""); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("no run: %v", err)
	}

	close(bl.free)
	h.Await(id, record.Completed)
	if err := refused(id, engine.NewLimits{}, ""); !errors.Is(err, runstore.ErrCompleted) {
		t.Errorf("a run that was completed: %v", err)
	}

	limited := h.Start("worker", "Go.", func(r *engine.Request) { r.Limits = &engine.Limits{Tokens: 1} })
	h.Await(limited, record.Failed)
	var invalid *record.InvalidError
	for _, limits := range []engine.NewLimits{{}, {Tokens: new(int64(2))}, {Tokens: new(int64(-1))}} {
		if err := refused(limited, limits, ""); !errors.As(err, &invalid) || invalid.Field != "limits.tokens" {
			t.Errorf("the limit is not raised: %v", err)
		}
	}
}

// TestRetryOfWhatIsGone: a run of whose calls nobody knows any more is not retried: it would make them all again.
func TestRetryOfWhatIsGone(t *testing.T) {
	t.Parallel()
	var b broken
	h := manyFailed(t, &b, 1)

	storetest.Exec(t, h.Store,
		"INSERT INTO actlog.dropped_detail (from_day, to_day) SELECT part, part + 1 FROM actlog.plan_execution_record")
	err := h.Engine.Retry(t.Context(), engine.RetryRequest{
		PlanID: storetest.Query[string](t, h.Store, "SELECT plan_id FROM actlog.run"),
	})
	if !errors.Is(err, runstore.ErrDropped) {
		t.Errorf("it is retried: %v", err)
	}
}

// TestRetryOnce: a request with a key that is sent again does nothing, also when the run has failed again.
func TestRetryOnce(t *testing.T) {
	t.Parallel()
	h := build(t, []scriptmodel.Scene{{Name: "s", Turns: []scriptmodel.Turn{
		{Error: &scriptmodel.Failure{Status: 400, Message: "no"}},
	}}}, map[string]define.Definition{"a": {}}, nil)
	h.Work(h.Engine)
	id := h.Start("a", "Go.")
	h.Await(id, record.Failed)

	asked := engine.RetryRequest{PlanID: id, By: runstore.Who{Name: "ann"}, IdempotencyKey: "k", Body: []byte("{}")}
	for range 3 {
		if err := h.Engine.Retry(t.Context(), asked); err != nil {
			t.Fatal(err)
		}
		storetest.Until(t, "it has failed again", func() bool {
			p := h.Plan(id)
			return *p.Record.Attempt == 2 && *p.Record.State == record.Failed
		})
	}

	asked.Body = []byte(`{"by":"bo"}`)
	if err := h.Engine.Retry(t.Context(), asked); !errors.Is(err, runstore.ErrKeyUsed) {
		t.Errorf("another request with the key: %v", err)
	}
	asked.By.Name = "bo"
	if err := h.Engine.Retry(t.Context(), asked); err != nil {
		t.Errorf("the key of somebody else: %v", err)
	}
}

// TestRetriedAtEveryWrite: a run that is stopped at any of its writes, and retried, comes to the end of one that
// nothing disturbs, with each effect once.
func TestRetriedAtEveryWrite(t *testing.T) {
	t.Parallel()
	carry := func(t *testing.T, stopAt int) (outline string, writes int) {
		t.Helper()
		e := &effects{done: map[string][]string{}}
		h := journey(t, e)
		ctx, cancel := context.WithCancel(t.Context())
		var answering sync.WaitGroup
		answering.Go(func() { answer(ctx, h) })
		defer func() { cancel(); answering.Wait() }()

		var count, stopped atomic.Int64
		var id atomic.Pointer[string]
		h.Work(h.NewEngine(func(c *engine.Config) {
			c.Write = func(ctx context.Context, l runstore.Lease, changes []record.Change, ops ...runstore.RunOp) error {
				err := c.Store.WriteRun(ctx, l, changes, ops...)
				if int(count.Add(1)) == stopAt && err == nil {
					if err := c.Store.Control(ctx, *id.Load(), runstore.Stop, ""); err == nil {
						stopped.Store(1)
					}
				}
				return err
			}
		}))

		started := h.Start("root", "Travel.", func(r *engine.Request) { r.Held = true })
		id.Store(&started)
		if err := h.Runs.Begin(t.Context(), started, ""); err != nil {
			t.Fatal(err)
		}
		p := h.Ended(started)
		if stopped.Load() == 1 && *p.Record.State == record.Cancelled { // else it was at its end
			retry(t, h.Engine, started, engine.NewLimits{})
			p = h.Await(started, record.Completed)
		}

		e.mu.Lock()
		defer e.mu.Unlock()
		for name, ids := range e.done {
			if ids = slices.Sorted(slices.Values(ids)); len(slices.Compact(slices.Clone(ids))) < len(ids) && name != "again" {
				t.Errorf("%s was called twice", name)
			}
		}
		return outlineOf(h, p), int(count.Load())
	}

	want, writes := carry(t, 0)
	step := 4
	if pgtest.Nightly() {
		step = 1
	}
	for n := rand.IntN(step) + 1; n <= writes; n += step {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			got, _ := carry(t, n)
			if len(unknownLines(got)) > 0 {
				got = known(got, want)
			}
			if got != want {
				t.Errorf("it came to another end:\n%s, not\n%s", got, want)
			}
		})
	}
}

// TestRetryAsksForApproval: what nobody approved is not made by a retry: a call that was not made, because there was
// no such tool when the model asked for it.
func TestRetryAsksForApproval(t *testing.T) {
	t.Parallel()
	var paid, noted atomic.Int64
	pay := tool.Func("pay", "Pays.", func(context.Context, nameArgument) (string, error) {
		return fmt.Sprint("paid ", paid.Add(1)), nil
	}, tool.WithPolicy(tool.Policy{Approval: true, Writes: true}))

	note := tool.Func("note", "Notes.", func(context.Context, nameArgument) (string, error) {
		return fmt.Sprint("noted ", noted.Add(1)), nil
	})
	one := func(name string) []scriptmodel.ToolCall {
		return []scriptmodel.ToolCall{call(name, object{"name": "1"})}
	}
	h := build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(one("note"), one("pay"), one("pay"), terminate("done"))}},
		map[string]define.Definition{"a": {Tools: []string{"note", "pay"}, MaxSteps: 1}}, []tool.Tool{pay, note})

	h.Work(h.Engine)
	id := h.Start("a", "Go.")
	if p := h.Ended(id); text(p.Record.ErrorKind) != engine.LimitRounds {
		t.Fatalf("it failed as %s", text(p.Record.ErrorKind))
	}

	retry(t, h.Engine, id, engine.NewLimits{Rounds: new(int64(9))})
	storetest.Until(t, "it asks", func() bool { return len(h.Waits()) == 1 })
	if paid.Load() != 0 || noted.Load() != 1 {
		t.Errorf("paid %d times without an approval, noted %d times", paid.Load(), noted.Load())
	}
	if err := h.Decide(h.Waits()[0], record.Approved, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if h.Await(id, record.Completed); paid.Load() != 1 {
		t.Errorf("paid %d times", paid.Load())
	}
}

// TestRetryRaisesLimitsBelow: what the root may use more, a run below may use that was given what was left.
func TestRetryRaisesLimitsBelow(t *testing.T) {
	t.Parallel()
	bl := newBlocker()
	h := blocking(t, bl, tool.Policy{OnUnknown: tool.Retry})
	h.Work(h.Engine)
	id := h.Start("parent", "Go.", func(r *engine.Request) { r.Limits = &engine.Limits{Tokens: 100_000} })

	<-bl.begun
	if err := h.Runs.Control(t.Context(), id, runstore.Stop, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(id, record.Cancelled)

	limit := func() int64 {
		return storetest.Query[int64](t, h.Store,
			"SELECT (limits->>'tokens')::bigint FROM actlog.run WHERE parent_plan_id IS NOT NULL")
	}
	before := limit()
	close(bl.free)
	retry(t, h.Engine, id, engine.NewLimits{Tokens: new(int64(150_000))})
	h.Await(id, record.Completed)
	if after := limit(); after != before+50_000 {
		t.Errorf("the run below may use %d tokens, then %d", before, after)
	}
}
