package direct_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
	"github.com/actlog/actlog/recorder/direct"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(asRunner); url != "" {
		if err := runHalf(url); err != nil {
			os.Exit(1)
		}
		return
	}
	pgtest.Main(m)
}

// setup returns a Recorder on a database of the test's own, and a store to read from it.
func setup(t *testing.T) (*recorder.Recorder, *store.Store) {
	t.Helper()
	url := pgtest.New(t).URL
	sink, err := direct.Open(t.Context(), url, nil)
	ok(t, err)
	t.Cleanup(func() { ok(t, sink.Close(context.Background())) })
	return recorder.New(sink, recorder.Options{}), storetest.OpenURL(t, url)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A reader sees what was recorded as soon as the call returns: B22, B25-B29.
func TestARunAsItIsRead(t *testing.T) {
	t.Parallel()
	rec, reader := setup(t)
	ctx, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{
		Title: "Answer", Steps: []recorder.StepInfo{{Requirement: "[READER] read"}, {Requirement: "write"}},
	})
	ok(t, err)

	p := storetest.PlanTree(t, reader, plan.ID())
	if *p.Record.State != record.Running || len(p.Steps) != 2 || p.CurrentStepIndex() != 0 {
		t.Fatalf("plan is %+v", p)
	}
	for i, name := range []string{"READER", "Agent"} {
		if s := p.Steps[i].Record; *s.State != record.Idle || *s.AgentName != name || *s.StepIndex != int64(i) ||
			*s.AgentDescription != "No description available" {
			t.Errorf("step %d is %+v", i, s)
		}
	}

	for i, step := range plan.Steps() {
		ctx, err := step.Start(ctx)
		ok(t, err)
		p := storetest.PlanTree(t, reader, plan.ID())
		if *p.Steps[i].Record.State != record.Running || p.CurrentStepIndex() != i {
			t.Errorf("while step %d runs, the plan is %+v", i, p)
		}
		for round := range 2 {
			cycle, err := step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: "what now?", Model: "m1"})
			ok(t, err)
			if c := storetest.StepDetail(t, reader, step.ID()).Cycles[round].Record; *c.State != record.Running ||
				*c.ThinkInput != "what now?" || c.ThinkEndTime != nil {
				t.Errorf("cycle is %+v", c)
			}

			ok(t, cycle.EndThink(ctx, recorder.ThinkResult{Output: "both", InputTokens: 100, OutputTokens: 10,
				CostUSD: new(0.5), Tools: []recorder.ToolInfo{
					{Name: "a", Parameters: map[string]int{"n": round}}, {Name: "b"},
				}}))
			var wg sync.WaitGroup
			for _, call := range cycle.Tools() {
				wg.Go(func() {
					toolCtx, err := call.Start(ctx)
					if err := errors.Join(err, call.End(toolCtx, recorder.ToolResult{Result: call.ID()})); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			ok(t, cycle.End(ctx, recorder.CycleResult{ActionResult: "fine"}))

			c := storetest.StepDetail(t, reader, step.ID()).Cycles[round]
			if *c.Record.State != record.Completed || *c.Record.ActionResult != "fine" || c.Record.ActStartTime == nil ||
				c.Record.ActEndTime == nil {
				t.Errorf("cycle is %+v", c.Record)
			}
			for j, name := range []string{"a", "b"} {
				tool := c.ToolCalls[j].Record
				if *tool.Name != name || *tool.Result != tool.ToolCallID || *tool.State != record.Completed ||
					*tool.CallIndex != int64(j) {
					t.Errorf("tool call %d is %+v", j, tool)
				}
			}
		}
		ok(t, step.End(ctx, recorder.StepResult{Result: fmt.Sprint("result ", i)}))
	}
	ok(t, plan.End(ctx, recorder.PlanResult{Summary: "So it is."}))

	p = storetest.PlanTree(t, reader, plan.ID())
	if *p.Record.State != record.Completed || *p.Record.Summary != "So it is." || p.Record.EndTime == nil ||
		p.CurrentStepIndex() != 1 {
		t.Errorf("plan is %+v", p.Record)
	}
	if f := p.Total; f.ModelCalls != 4 || f.ToolCalls != 8 || f.Failures != 0 || f.InputTokens != 400 ||
		f.OutputTokens != 40 || f.CostUSD == nil || *f.CostUSD != 2 {
		t.Errorf("figures are %+v", f)
	}

	for i, s := range p.Steps {
		if *s.Record.Result != fmt.Sprint("result ", i) || *s.Record.CurrentStep != 2 || s.LatestRound != 2 ||
			*s.Record.State != record.Completed {
			t.Errorf("step %d is %+v", i, s)
		}
	}
	if want := storetest.StepDetail(t, reader,
		plan.Steps()[1].ID()).Cycles[1].ToolCalls[1].Record.ToolCallID; p.StructureResult == nil ||
		*p.StructureResult != want {
		t.Errorf("structure result is %v, want %s", p.StructureResult, want)
	}
}

// The model that answered costs what its own provider charges, not what another does.
func TestCostOfTheModelThatAnswered(t *testing.T) {
	t.Parallel()
	_, reader := setup(t)
	for _, p := range []store.Price{
		{Provider: "acme", Model: "quick*", Rates: store.Rates{Input: 1}},
		{Provider: "other", Model: "quick-2026*", Rates: store.Rates{Input: 5}},
	} {
		p.FromDay = time.Unix(0, 0)
		ok(t, reader.SetPrice(t.Context(), p))
	}

	rec := recorder.New(reader, recorder.Options{}) // which knows the prices at once
	ctx, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{})
	ok(t, err)
	ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{})
	ok(t, err)
	cycle, err := step.StartCycle(ctx, recorder.CycleInfo{Provider: "acme", Model: "quick"})
	ok(t, err)
	ok(t, cycle.EndThink(ctx, recorder.ThinkResult{Model: "quick-20261101", InputTokens: 1_000_000}))

	if c := storetest.StepDetail(t, reader, step.ID()).Cycles[0].Record; c.CostUSD == nil || *c.CostUSD != 1 ||
		*c.ModelName != "quick-20261101" {
		t.Errorf("cycle is %+v", c)
	}
}

// Sub-plans hang under the step whose tool call started them, at any depth.
func TestSubPlans(t *testing.T) {
	t.Parallel()
	rec, reader := setup(t)
	var ids []string
	var run func(ctx context.Context, depth int)
	run = func(ctx context.Context, depth int) {
		ctx, plan, err := rec.StartPlan(ctx, recorder.PlanInfo{Title: fmt.Sprint("depth ", depth)})
		ok(t, err)
		ids = append(ids, plan.ID())
		ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{})
		ok(t, err)
		cycle, err := step.StartCycle(ctx, recorder.CycleInfo{})
		ok(t, err)

		if depth < 4 {
			toolCtx, call, err := cycle.StartTool(ctx, recorder.ToolInfo{Name: "delegate"})
			ok(t, err)
			run(toolCtx, depth+1)
			ok(t, call.End(toolCtx, recorder.ToolResult{}))
		}
		ok(t, cycle.End(ctx, recorder.CycleResult{}))
		ok(t, step.End(ctx, recorder.StepResult{}))
		ok(t, plan.End(ctx, recorder.PlanResult{}))
	}

	run(t.Context(), 0)
	p := storetest.PlanTree(t, reader, ids[0])
	if p.Total.ModelCalls != 5 || p.Total.ToolCalls != 4 {
		t.Errorf("total is %+v", p.Total)
	}

	for depth, id := range ids {
		if p.Record.CurrentPlanID != id || p.Record.RootPlanID != ids[0] {
			t.Fatalf("the plan at depth %d is %s", depth, p.Record.CurrentPlanID)
		}
		if depth > 0 && (p.Link != tree.LinkToolCall || *p.ToolCall.Record.Name != "delegate") {
			t.Errorf("plan at depth %d is linked %q", depth, p.Link)
		}
		if depth < len(ids)-1 {
			p = p.Steps[0].SubPlans[0]
		}
	}
}

// A retried step is running again, and keeps the cycles of its first attempt.
func TestRetry(t *testing.T) {
	t.Parallel()
	rec, reader := setup(t)
	ctx, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{})
	ok(t, err)
	_, step, err := plan.StartStep(ctx, recorder.StepInfo{AgentName: "a"})
	ok(t, err)

	cycle, err := step.StartCycle(ctx, recorder.CycleInfo{})
	ok(t, err)
	_ = step.Fail(ctx, cycle.Fail(ctx, errors.New("boom")))
	if s := storetest.StepDetail(t, reader, step.ID()).Record; *s.State != record.Failed || *s.ErrorMessage != "boom" {
		t.Errorf("step is %+v", s)
	}

	_, again, err := step.Retry(ctx)
	ok(t, err)
	if s := storetest.StepDetail(t, reader, step.ID()).Record; *s.State != record.Running || s.ErrorMessage != nil ||
		s.EndTime != nil || *s.Attempt != 2 {
		t.Errorf("step is %+v", s)
	}

	second, err := again.StartCycle(ctx, recorder.CycleInfo{})
	ok(t, err)
	ok(t, errors.Join(second.End(ctx, recorder.CycleResult{}), again.End(ctx, recorder.StepResult{Result: "fine"})))
	s := storetest.StepDetail(t, reader, step.ID())
	if *s.Record.State != record.Completed || len(s.Cycles) != 2 || *s.Cycles[0].Record.State != record.Failed ||
		*s.Cycles[1].Record.State != record.Completed {
		t.Errorf("step is %+v", s)
	}
}

// N1: TestRetriesStayOnRecord checks that a step, a cycle and a tool call that are attempted again
// keep the attempts that failed, with their own times.
func TestRetriesStayOnRecord(t *testing.T) {
	t.Parallel()
	rec, reader := setup(t)
	ctx, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{Title: "Answer"})
	ok(t, err)
	ctx, first, err := plan.StartStep(ctx, recorder.StepInfo{AgentName: "writer"})
	ok(t, err)

	cycle, err := first.StartCycle(ctx, recorder.CycleInfo{ThinkInput: "what now?"})
	ok(t, err)
	ok(t, cycle.EndThink(ctx, recorder.ThinkResult{Err: errors.New("overloaded")}))
	again, err := first.StartCycle(ctx, recorder.CycleInfo{Seq: new(cycle.Seq()), Attempt: 2})
	ok(t, err)
	ok(t, again.EndThink(ctx, recorder.ThinkResult{Output: "fetch"}))

	_, call, err := again.StartTool(ctx, recorder.ToolInfo{ID: plan.ID() + "-t", Name: "fetch", Attempt: 1})
	ok(t, err)
	ok(t, call.End(ctx, recorder.ToolResult{Err: errors.New("no route")}))
	_, call, err = again.StartTool(ctx, recorder.ToolInfo{
		ID: plan.ID() + "-t", Name: "fetch", Attempt: 2, CallIndex: new(int64(0)),
	})
	ok(t, err)
	ok(t, call.End(ctx, recorder.ToolResult{Result: "rows"}))
	ok(t, again.End(ctx, recorder.CycleResult{}))

	ok(t, first.End(ctx, recorder.StepResult{Err: errors.New("disk full")}))
	ctx, second, err := first.Retry(ctx)
	ok(t, err)
	ok(t, second.End(ctx, recorder.StepResult{Result: "done"}))
	ok(t, plan.End(ctx, recorder.PlanResult{}))

	st := storetest.StepDetail(t, reader, first.ID())
	c := st.Cycles[0]
	tool := c.ToolCalls[0]

	for what, row := range map[string]struct {
		past       []record.Attempt
		state      *record.State
		start, end *time.Time
		failed     string
	}{
		"step":  {st.PastAttempts, st.Record.State, st.Record.StartTime, st.Record.EndTime, "disk full"},
		"cycle": {c.PastAttempts, c.Record.State, c.Record.ThinkStartTime, c.Record.ThinkEndTime, "overloaded"},
		"call":  {tool.PastAttempts, tool.Record.State, tool.Record.StartTime, tool.Record.EndTime, "no route"},
	} {
		if len(row.past) != 1 || *row.state != record.Completed {
			t.Fatalf("%s: %s after %+v", what, *row.state, row.past)
		}
		a := row.past[0]
		if a.Number != 1 || a.State != record.Failed || *a.ErrorMessage != row.failed {
			t.Errorf("%s: the first attempt was %+v", what, a)
		}
		if a.EndTime.Before(*a.StartTime) || row.start.Before(*a.EndTime) || row.end.Before(*row.start) {
			t.Errorf("%s: attempts from %v to %v, then from %v to %v", what, a.StartTime, a.EndTime, row.start, row.end)
		}
	}
}

// The end of a cancelled run is on record.
func TestCancelledRun(t *testing.T) {
	t.Parallel()
	rec, reader := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	ctx, plan, err := rec.StartPlan(ctx, recorder.PlanInfo{})
	ok(t, err)

	cancel()
	if _, _, err := plan.StartStep(ctx, recorder.StepInfo{}); !errors.Is(err, context.Canceled) {
		t.Errorf("plan.StartStep = %v", err)
	}
	if err := plan.Fail(ctx, ctx.Err()); err != context.Canceled {
		t.Errorf("plan.Fail(ctx.Err()) = %v", err)
	}
	if p := storetest.PlanTree(t, reader, plan.ID()).Record; *p.State != record.Cancelled ||
		*p.ErrorKind != recorder.ErrorKindCanceled || p.EndTime == nil {
		t.Errorf("plan is %+v", p)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	rec, reader := setup(t)
	ctx, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{})
	ok(t, err)
	wait, err := plan.StartWait(ctx, recorder.WaitInfo{Title: "May I?", FormInputs: []map[string]string{{"label": "why"}}})
	ok(t, err)
	if w := storetest.PlanTree(t, reader, plan.ID()).Wait; w == nil || *w.Title != "May I?" {
		t.Errorf("wait is %+v", w)
	}

	ok(t, plan.OpenWait(wait.ID()).Decide(ctx, recorder.WaitDecision{
		State: record.Submitted, Decision: "because", By: "ada",
	}))
	if w := storetest.PlanTree(t, reader, plan.ID()).Wait; w != nil {
		t.Errorf("wait is %+v", w)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t).URL
	if _, err := direct.Open(t.Context(), url, nil); err == nil {
		t.Fatal("a database that is not migrated was accepted")
	}

	sink, err := direct.Open(t.Context(), url, &direct.Options{Migrate: true})
	ok(t, err)
	_, plan, err := recorder.New(sink, recorder.Options{}).StartPlan(t.Context(), recorder.PlanInfo{})
	ok(t, err)

	ok(t, sink.Close(t.Context()))
	if err := plan.End(t.Context(), recorder.PlanResult{}); !errors.Is(err, record.ErrClosed) {
		t.Errorf("plan.End = %v", err)
	}
	if _, err := direct.Open(t.Context(), "", &direct.Options{Migrate: true}); err == nil {
		t.Error("an empty URL was accepted")
	}
}

// A Sink on a store that is open already writes to it, and Close leaves it open.
func TestOn(t *testing.T) {
	t.Parallel()
	_, s := setup(t)
	sink := direct.On(s)
	rec := recorder.New(sink, recorder.Options{})
	ctx, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{Title: "Answer"})
	ok(t, err)

	ok(t, sink.Close(t.Context()))
	if p := storetest.PlanTree(t, s, plan.ID()); *p.Record.Title != "Answer" {
		t.Errorf("plan is %+v", p.Record)
	}
	if _, err := s.Write(ctx, []record.Change{&record.Plan{RootPlanID: "q", CurrentPlanID: "q"}}); err != nil {
		t.Errorf("write to the store after Close: %v", err)
	}
	if err := plan.End(ctx, recorder.PlanResult{}); !errors.Is(err, record.ErrClosed) {
		t.Errorf("write to the sink after Close: %v", err)
	}

	defer func() {
		if recover() == nil {
			t.Error("On accepted nil")
		}
	}()
	direct.On(nil)
}
