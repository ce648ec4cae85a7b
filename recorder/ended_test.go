package recorder_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// starts are all ways to start something, or to change a state, by the level whose end refuses it.
func (r *run) starts(t *testing.T) map[string][]func() error {
	t.Helper()
	ctx := t.Context()
	return map[string][]func() error{
		"plan": {
			func() error { _, _, err := r.plan.StartStep(ctx, recorder.StepInfo{}); return err },
			func() error { _, err := r.plan.Steps()[0].Start(ctx); return err },
			func() error { _, err := r.plan.StartWait(ctx, recorder.WaitInfo{}); return err },
			func() error { return r.plan.SetState(ctx, record.Paused) },
			func() error { _, _, err := r.step.Retry(ctx); return err },
			func() error {
				_, step := r.plan.OpenStep(ctx, recorder.StepRef{ID: "opened"})
				_, err := step.StartCycle(ctx, recorder.CycleInfo{})
				return err
			},
		},
		"step": {
			func() error { _, err := r.step.StartCycle(ctx, recorder.CycleInfo{}); return err },
			func() error { _, err := r.step.Start(ctx); return err },
			func() error { return r.step.SetState(ctx, record.Waiting) },
			func() error {
				_, _, err := r.step.OpenCycle(recorder.CycleRef{Seq: 7}).StartTool(ctx, recorder.ToolInfo{})
				return err
			},
		},
		"cycle": {
			func() error { _, _, err := r.cycle.StartTool(ctx, recorder.ToolInfo{}); return err },
			func() error { _, err := r.cycle.Tools()[0].Start(ctx); return err },
		},
		"tool call": {
			func() error { _, err := r.call.Start(ctx); return err },
			func() error { return r.call.SetState(ctx, record.AwaitingApproval) },
		},
	}
}

// N8: nothing starts in what has ended, at whatever depth below it, and the error names what has
// ended. Nothing is written then.
func TestNothingStartsInWhatHasEnded(t *testing.T) {
	t.Parallel()
	levels := []string{"plan", "step", "cycle", "tool call"}
	ends := []func(*run) error{
		func(r *run) error { return r.plan.End(t.Context(), recorder.PlanResult{}) },
		func(r *run) error { return r.step.End(t.Context(), recorder.StepResult{}) },
		func(r *run) error { return r.cycle.End(t.Context(), recorder.CycleResult{}) },
		func(r *run) error { return r.call.End(t.Context(), recorder.ToolResult{}) },
	}

	for i, ended := range levels {
		t.Run(ended, func(t *testing.T) {
			t.Parallel()
			r := startRun(t, setup(t), recorder.StepInfo{ID: "planned"})
			ok(t, r.cycle.EndThink(t.Context(), recorder.ThinkResult{Tools: []recorder.ToolInfo{{ID: "asked"}}}))
			names := []string{
				"plan " + r.plan.ID(), "step " + r.step.ID(), "cycle 0 of step " + r.step.ID(), "tool call " + r.call.ID(),
			}

			ok(t, ends[i](r))
			before := r.sink.writeCount()
			for j, level := range levels {
				if j < i {
					continue
				}
				for n, start := range r.starts(t)[level] {
					err := start()
					if !errors.Is(err, record.ErrEnded) || !strings.HasSuffix(err.Error(), ": "+names[i]+" has ended") {
						t.Errorf("level = %s, %d: %v", level, n, err)
					}
				}
			}

			if n := r.sink.writeCount() - before; n != 0 {
				t.Errorf("%d writes", n)
			}
			for _, level := range levels[:i] { // above it everything goes on
				for n, start := range r.starts(t)[level] {
					if err := start(); err != nil {
						t.Errorf("level = %s, %d: %v", level, n, err)
					}
				}
			}
		})
	}
}

// N8: what was refused at its start stays refused, so an agent that ignores errors does not write
// half of it. The number of a cycle that was refused is that of the next one.
func TestRefusedHandles(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	ctx := t.Context()
	ok(t, r.step.End(ctx, recorder.StepResult{}))
	before := r.sink.writeCount()

	cycle, _ := r.step.StartCycle(ctx, recorder.CycleInfo{})
	_, call, _ := cycle.StartTool(ctx, recorder.ToolInfo{})
	for _, err := range []error{
		cycle.EndThink(ctx, recorder.ThinkResult{Output: "x", Tools: []recorder.ToolInfo{{ID: "asked"}}}),
		call.End(ctx, recorder.ToolResult{}),
		cycle.Tools()[0].End(ctx, recorder.ToolResult{}),
		cycle.End(ctx, recorder.CycleResult{}),
		cycle.Close(ctx),
	} {
		if !errors.Is(err, record.ErrEnded) {
			t.Errorf("err = %v", err)
		}
	}
	if n := r.sink.writeCount() - before; n != 0 {
		t.Errorf("%d writes", n)
	}

	_, again, err := r.step.Retry(ctx) // re-opens the step
	ok(t, err)
	next, err := again.StartCycle(ctx, recorder.CycleInfo{})
	ok(t, err)
	if next.Seq() != 1 {
		t.Errorf("the next cycle is %d", next.Seq())
	}
}

// N8: what has ended has ended for every handle of it that the plan's handle returns. A higher attempt
// goes on.
func TestNothingStartsAgainWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	ctx := t.Context()
	refused := func(what string, starts ...func() error) {
		t.Helper()
		before := r.sink.writeCount()
		for i, start := range starts {
			if err := start(); !errors.Is(err, record.ErrEnded) || !strings.HasSuffix(err.Error(), ": "+what+" has ended") {
				t.Errorf("what = %s, %d: %v", what, i, err)
			}
		}
		if n := r.sink.writeCount() - before; n != 0 {
			t.Errorf("%s: %d writes", what, n)
		}
	}

	startTool := func(info recorder.ToolInfo) func() error {
		return func() error { _, _, err := r.cycle.StartTool(ctx, info); return err }
	}
	startCycle := func(info recorder.CycleInfo) func() error {
		return func() error { _, err := r.step.StartCycle(ctx, info); return err }
	}
	startStep := func(info recorder.StepInfo) func() error {
		return func() error { _, _, err := r.plan.StartStep(ctx, info); return err }
	}

	ok(t, r.cycle.EndThink(ctx, recorder.ThinkResult{Tools: []recorder.ToolInfo{{ID: r.call.ID()}}}))
	ok(t, r.call.End(ctx, recorder.ToolResult{}))
	refused("tool call "+r.call.ID(), startTool(recorder.ToolInfo{ID: r.call.ID()}),
		func() error { _, err := r.cycle.Tools()[0].Start(ctx); return err })
	ok(t, startTool(recorder.ToolInfo{ID: r.call.ID(), Attempt: 2})())
	ok(t, startTool(recorder.ToolInfo{ID: r.call.ID(), Attempt: 2})()) // it goes on

	ok(t, r.cycle.End(ctx, recorder.CycleResult{}))
	refused("cycle 0 of step "+r.step.ID(), startCycle(recorder.CycleInfo{Seq: new(int64(0))}),
		func() error {
			_, _, err := r.step.OpenCycle(recorder.CycleRef{}).StartTool(ctx, recorder.ToolInfo{})
			return err
		})
	ok(t, startCycle(recorder.CycleInfo{Seq: new(int64(0)), Attempt: 2})())
	ok(t, startCycle(recorder.CycleInfo{Seq: new(int64(1))})())

	_, before := r.plan.OpenStep(ctx, recorder.StepRef{ID: r.step.ID()})
	ok(t, r.step.End(ctx, recorder.StepResult{}))
	_, again, _ := r.plan.StartStep(ctx, recorder.StepInfo{ID: r.step.ID()})
	refused("step "+r.step.ID(), startStep(recorder.StepInfo{ID: r.step.ID()}),
		func() error { _, err := again.StartCycle(ctx, recorder.CycleInfo{}); return err },
		func() error { _, err := before.StartCycle(ctx, recorder.CycleInfo{}); return err },
		func() error { return before.SetState(ctx, record.Paused) })

	_, third, err := r.plan.StartStep(ctx, recorder.StepInfo{ID: r.step.ID(), Attempt: 3})
	ok(t, err)
	ok(t, third.End(ctx, recorder.StepResult{}))
	refused("step "+r.step.ID(), startStep(recorder.StepInfo{ID: r.step.ID(), Attempt: 2}),
		startStep(recorder.StepInfo{ID: r.step.ID(), Attempt: 3}))

	_, fourth, err := r.step.Retry(ctx)
	ok(t, err)
	if fourth.Attempt() != 4 {
		t.Errorf("the next attempt is %d", fourth.Attempt())
	}
	ok(t, before.End(ctx, recorder.StepResult{State: record.Failed})) // a late report of the first attempt
	want(t, "state", r.sink.step(t, r.step.ID()).State, record.Running)
}

// N8: a call that is refused begins no act phase.
func TestRefusedCallsBeginNoActPhase(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	ctx := t.Context()
	cycle, err := r.step.StartCycle(ctx, recorder.CycleInfo{})
	ok(t, err)
	ok(t, r.step.End(ctx, recorder.StepResult{}))

	if _, _, err := cycle.StartTool(ctx, recorder.ToolInfo{}); !errors.Is(err, record.ErrEnded) {
		t.Error(err)
	}
	ok(t, cycle.End(ctx, recorder.CycleResult{}))
	row := r.sink.cycle(t, r.step.ID(), cycle.Seq())
	unreported(t, "actStartTime", row.ActStartTime)
	unreported(t, "actEndTime", row.ActEndTime)
}

// N8: what is only reported late, or ends late, is recorded: a plan may end before what is in it,
// and a stream reports its figures last. A sub-plan may start after its tool call has returned.
func TestLateReports(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t), recorder.StepInfo{ID: "planned"})
	ctx := t.Context()
	wait, err := r.plan.StartWait(ctx, recorder.WaitInfo{})
	ok(t, err)

	ok(t, r.plan.End(ctx, recorder.PlanResult{}))
	ok(t, r.plan.End(ctx, recorder.PlanResult{State: record.Failed})) // the first one counts
	ok(t, r.step.End(ctx, recorder.StepResult{Result: "fine"}))
	ok(t, r.plan.Steps()[0].End(ctx, recorder.StepResult{State: record.Skipped}))
	ok(t, r.cycle.End(ctx, recorder.CycleResult{}))
	ok(t, r.cycle.EndThink(ctx, recorder.ThinkResult{Output: "late", OutputTokens: 5}))
	ok(t, r.call.End(ctx, recorder.ToolResult{Result: "found"}))
	ok(t, wait.Decide(ctx, recorder.WaitDecision{State: record.Approved}))

	ok(t, r.plan.Thought(r.stepCtx, recorder.ThoughtInfo{Type: record.ThoughtConclusion, Content: "well"}))
	ok(t, r.plan.Artifact(r.stepCtx, recorder.ArtifactInfo{Name: "a", Value: 1}))
	ok(t, r.plan.Source(r.stepCtx, recorder.SourceInfo{URI: "file:///a"}))
	ok(t, r.plan.Exception(ctx, "late"))
	_, _, err = r.StartPlan(r.toolCtx, recorder.PlanInfo{ID: "in the background"})
	ok(t, err)

	want(t, "state of the plan", r.sink.plan(t, r.plan.ID()).State, record.Completed)
	want(t, "state of the planned step", r.sink.step(t, "planned").State, record.Skipped)
	want(t, "result", r.sink.step(t, r.step.ID()).Result, "fine")
	want(t, "outputTokens", r.sink.cycle(t, r.step.ID(), 0).OutputTokens, 5)
	want(t, "tool result", r.sink.tool(t, r.call.ID()).Result, "found")
	want(t, "parent of the sub-plan", r.sink.plan(t, "in the background").ParentPlanID, r.plan.ID())
}

// N8: of many that end a step and start cycles in it at once, each cycle is on record or refused,
// and one end counts.
func TestEndsAndStartsAtOnce(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	ctx := t.Context()
	var wg sync.WaitGroup
	errs := make([]error, 40)
	for i := range errs {
		wg.Go(func() {
			if i%4 == 0 {
				errs[i] = r.step.End(ctx, recorder.StepResult{Result: fmt.Sprint(i)})
				return
			}
			_, errs[i] = r.step.StartCycle(ctx, recorder.CycleInfo{})
		})
	}
	wg.Wait()

	cycles := 1
	for i, err := range errs {
		switch {
		case err == nil && i%4 != 0:
			cycles++
		case err != nil && (i%4 == 0 || !errors.Is(err, record.ErrEnded)):
			t.Errorf("%d: %v", i, err)
		}
	}

	if n := len(all[record.ThinkAct](r.sink, record.KindThinkAct)); n != cycles {
		t.Errorf("%d cycles are on record, want %d", n, cycles)
	}
	if _, err := r.step.StartCycle(ctx, recorder.CycleInfo{}); !errors.Is(err, record.ErrEnded) {
		t.Error(err)
	}
	want(t, "state", r.sink.step(t, r.step.ID()).State, record.Completed)
}
