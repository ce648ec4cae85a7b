package recorder_test

import (
	"errors"
	"testing"

	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// An agent that goes on without its record has all of it as soon as the sink is back, including
// cycles that ended meanwhile.
func TestWholeRecordAfterAnOutage(t *testing.T) {
	t.Parallel()
	m := newMemory()
	rec := recorder.New(m, recorder.Options{})
	ctx, plan, _ := rec.StartPlan(t.Context(), recorder.PlanInfo{})
	ctx, step, _ := plan.StartStep(ctx, recorder.StepInfo{})

	m.setFail(record.ErrUnavailable)
	for range 3 {
		cycle, _ := step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: "in"})
		_ = cycle.EndThink(ctx, recorder.ThinkResult{Output: "out"})
		toolCtx, call, _ := cycle.StartTool(ctx, recorder.ToolInfo{Name: "tool"})
		_ = call.End(toolCtx, recorder.ToolResult{Result: "result"})
		if err := cycle.End(ctx, recorder.CycleResult{}); !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("error = %v", err)
		}
	}

	m.setFail(nil)
	if err := step.End(ctx, recorder.StepResult{}); err != nil {
		t.Fatal(err)
	}
	for seq := range int64(3) {
		if c := m.cycle(t, step.ID(), seq); *c.State != record.Completed || *c.ThinkOutput != "out" {
			t.Errorf("cycle %d = %+v", seq, c)
		}
	}
	if calls := all[record.ActTool](m, record.KindActTool); len(calls) != 3 || *calls[0].Result != "result" {
		t.Errorf("tool calls = %+v", calls)
	}
}

// Each retry is an attempt of its own, whichever handle it is called on.
func TestRetryTwice(t *testing.T) {
	t.Parallel()
	m := newMemory()
	ctx, plan, _ := recorder.New(m, recorder.Options{}).StartPlan(t.Context(), recorder.PlanInfo{})
	ctx, step, _ := plan.StartStep(ctx, recorder.StepInfo{})

	for want := int64(2); want < 5; want++ {
		_, again, err := step.Retry(ctx)
		if err != nil || again.Attempt() != want {
			t.Errorf("attempt %d, want %d: %v", again.Attempt(), want, err)
		}
		if got := m.step(t, step.ID()); *got.State != record.Running || got.ErrorMessage != nil {
			t.Errorf("while attempt %d runs: %+v", want, got)
		}
		if err := again.End(ctx, recorder.StepResult{Err: errors.New("broke")}); err != nil {
			t.Error(err)
		}
	}
}

// A stream reports its figures after the end of the cycle.
func TestFiguresAfterTheEnd(t *testing.T) {
	t.Parallel()
	m := newMemory()
	ctx, plan, _ := recorder.New(m, recorder.Options{}).StartPlan(t.Context(), recorder.PlanInfo{})
	ctx, step, _ := plan.StartStep(ctx, recorder.StepInfo{})
	cycle, _ := step.StartCycle(ctx, recorder.CycleInfo{})

	if err := errors.Join(cycle.End(ctx, recorder.CycleResult{}),
		cycle.EndThink(ctx, recorder.ThinkResult{InputTokens: 7})); err != nil {
		t.Fatal(err)
	}
	if c := m.cycle(t, step.ID(), 0); *c.InputTokens != 7 || *c.State != record.Completed {
		t.Errorf("cycle = %+v", c)
	}
}

// An end that failed goes with the next call, even if the handle above had ended before.
func TestEndsUnderWhatHasEnded(t *testing.T) {
	t.Parallel()
	t.Run("a retry that failed", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, setup(t))
		ok(t, r.step.Fail(r.stepCtx, nil))
		ctx, again, err := r.step.Retry(r.planCtx)
		ok(t, err)
		r.away(t, func() error { return again.End(ctx, recorder.StepResult{Result: "fine"}) })
		ok(t, r.plan.End(r.planCtx, recorder.PlanResult{}))
		want(t, "state", r.sink.step(t, again.ID()).State, record.Completed)
	})

	t.Run("a retry of an attempt that was given up", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, setup(t))
		r.away(t, func() error { _, err := r.step.StartCycle(r.stepCtx, recorder.CycleInfo{}); return err })
		ctx, again, err := r.step.Retry(r.planCtx)
		ok(t, err)
		r.away(t, func() error { return again.End(ctx, recorder.StepResult{Result: "fine"}) })
		ok(t, r.plan.End(r.planCtx, recorder.PlanResult{}))
		want(t, "state", r.sink.step(t, again.ID()).State, record.Completed)
	})

	t.Run("thinking that failed", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, setup(t))
		r.away(t, func() error {
			return r.cycle.EndThink(r.stepCtx, recorder.ThinkResult{Err: errors.New("no answer")})
		})
		ok(t, r.step.End(r.stepCtx, recorder.StepResult{}))
		want(t, "state", r.sink.cycle(t, r.step.ID(), 0).State, record.Failed)
	})

	t.Run("figures that came late", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, setup(t))
		ok(t, r.cycle.End(r.stepCtx, recorder.CycleResult{}))
		r.away(t, func() error { return r.cycle.EndThink(r.stepCtx, recorder.ThinkResult{InputTokens: 7}) })
		ok(t, r.step.End(r.stepCtx, recorder.StepResult{}))
		want(t, "inputTokens", r.sink.cycle(t, r.step.ID(), 0).InputTokens, 7)
	})

	t.Run("a call that outlived its step", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, setup(t))
		ok(t, r.cycle.End(r.stepCtx, recorder.CycleResult{}))
		ok(t, r.step.End(r.stepCtx, recorder.StepResult{}))
		r.away(t, func() error { return r.call.End(r.toolCtx, recorder.ToolResult{Result: "found"}) })
		ok(t, r.plan.End(r.planCtx, recorder.PlanResult{}))
		want(t, "result", r.sink.tool(t, r.call.ID()).Result, "found")
	})

	t.Run("a call that outlived its plan", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, setup(t))
		ok(t, r.cycle.End(r.stepCtx, recorder.CycleResult{}))
		ok(t, r.step.End(r.stepCtx, recorder.StepResult{}))
		ok(t, r.plan.End(r.planCtx, recorder.PlanResult{}))
		r.away(t, func() error { return r.call.End(r.toolCtx, recorder.ToolResult{Result: "found"}) })
		ok(t, r.plan.End(r.planCtx, recorder.PlanResult{})) // there is no handle above it
		want(t, "result", r.sink.tool(t, r.call.ID()).Result, "found")
	})
}

// away makes a call while the sink fails.
func (r *run) away(t *testing.T, call func() error) {
	t.Helper()
	r.sink.setFail(record.ErrUnavailable)
	defer r.sink.setFail(nil)
	if err := call(); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("error = %v", err)
	}
}
