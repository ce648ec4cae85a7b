package recorder_test

import (
	"errors"
	"testing"

	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// TestWholeRecordAfterAnOutage: an agent that goes on without its record has all
// of it as soon as the sink is back, cycles that ended meanwhile included.
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

// TestRetryTwice: each retry is an attempt of its own, whichever handle asks.
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

// TestFiguresAfterTheEnd: a stream tells them last.
func TestFiguresAfterTheEnd(t *testing.T) {
	t.Parallel()
	m := newMemory()
	ctx, plan, _ := recorder.New(m, recorder.Options{}).StartPlan(t.Context(), recorder.PlanInfo{})
	ctx, step, _ := plan.StartStep(ctx, recorder.StepInfo{})
	cycle, _ := step.StartCycle(ctx, recorder.CycleInfo{})
	if err := errors.Join(cycle.End(ctx, recorder.CycleResult{}), cycle.EndThink(ctx, recorder.ThinkResult{InputTokens: 7})); err != nil {
		t.Fatal(err)
	}
	if c := m.cycle(t, step.ID(), 0); *c.InputTokens != 7 || *c.State != record.Completed {
		t.Errorf("cycle = %+v", c)
	}
}
