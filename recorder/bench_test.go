package recorder_test

import (
	"context"
	"testing"

	"github.com/actlog/actlog/recorder"
)

// BenchmarkBufferedCall measures what recording costs an agent: one call of the Recorder until it is
// queued, on average over the calls of a cycle with one tool call.
func BenchmarkBufferedCall(b *testing.B) {
	buffer := recorder.NewBuffer(recorder.Discard, recorder.BufferOptions{})
	rec := recorder.New(buffer, recorder.Options{})
	ctx, plan, err := rec.StartPlan(b.Context(), recorder.PlanInfo{})
	must(b, err)
	ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{})
	must(b, err)

	var cycle *recorder.Cycle
	var call *recorder.ToolCall
	var toolCtx context.Context
	calls := []func() error{
		func() (err error) {
			cycle, err = step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: "what now?", Model: "m1"})
			return err
		},
		func() error {
			return cycle.EndThink(ctx, recorder.ThinkResult{Output: "look it up", InputTokens: 20, OutputTokens: 5})
		},
		func() (err error) {
			toolCtx, call, err = cycle.StartTool(ctx, recorder.ToolInfo{Name: "lookup", Parameters: `{"word":"actlog"}`})
			return err
		},
		func() error { return call.End(toolCtx, recorder.ToolResult{Result: "a record"}) },
		func() error { return cycle.End(ctx, recorder.CycleResult{ActionResult: "a record"}) },
	}

	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		must(b, calls[i%len(calls)]())
	}
	b.StopTimer()
	must(b, buffer.Close(context.Background()))
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
