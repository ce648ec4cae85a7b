package recorder_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// reopen opens handles on the run, as another process does that continues it.
func (r *run) reopen(t *testing.T, rec *recorder.Recorder) *run {
	t.Helper()
	o := &run{bundle: &bundle{Recorder: rec, sink: r.sink, clock: r.clock}}

	o.planCtx, o.plan = rec.ContinuePlan(t.Context(), recorder.PlanRef{
		Link: recorder.Link{PlanID: r.plan.ID()}, NextIndex: 1,
	})
	o.stepCtx, o.step = o.plan.OpenStep(o.planCtx, recorder.StepRef{
		ID: r.step.ID(), Attempt: r.step.Attempt(), NextSeq: 1,
	})
	o.cycle = o.step.OpenCycle(recorder.CycleRef{Seq: r.cycle.Seq(), NextCall: 1})
	o.toolCtx, o.call = o.cycle.OpenTool(o.stepCtx, recorder.ToolRef{ID: r.call.ID()})
	return o
}

// Opening writes nothing. The plan then has a heartbeat like one that was started here; its
// first sign of life goes with the first call.
func TestOpeningWritesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		old := startRun(t, &bundle{Recorder: recorder.New(m, recorder.Options{Heartbeat: -1}), sink: m})
		n := m.writeCount()
		time.Sleep(time.Hour)
		r := old.reopen(t, recorder.New(m, recorder.Options{}))
		synctest.Wait()
		if got := m.writeCount() - n; got != 0 {
			t.Errorf("opening made %d writes", got)
		}

		time.Sleep(recorder.HeartbeatDefault)
		synctest.Wait()
		if diff := cmp.Diff([][]string{{r.plan.ID()}}, m.beats(t, n)); diff != "" {
			t.Errorf("m.beats(n) (-want +got):\n%s", diff)
		}
		seenNow(t, m, r.plan.ID())

		n = m.writeCount()
		ok(t, r.call.End(r.toolCtx, recorder.ToolResult{}))
		ok(t, r.plan.End(r.planCtx, recorder.PlanResult{}))
		time.Sleep(time.Hour)
		if got := m.writeCount() - n; got != 2 {
			t.Errorf("%d writes, want the two ends and no heartbeat after", got)
		}
	})
}

// A server that waits for a sign of life need not wait for the first heartbeat.
func TestFirstSignOfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := startRun(t, &bundle{Recorder: recorder.New(m, recorder.Options{Heartbeat: -1}), sink: m})
		unreported(t, "lastSeenAt", m.plan(t, r.plan.ID()).LastSeenAt)

		time.Sleep(time.Hour)
		r = r.reopen(t, recorder.New(m, recorder.Options{}))
		ok(t, r.call.End(r.toolCtx, recorder.ToolResult{}))
		seenNow(t, m, r.plan.ID())

		n := m.writeCount()
		ok(t, r.cycle.End(r.stepCtx, recorder.CycleResult{}))
		if got := len(m.writes[n]); got != 1 {
			t.Errorf("%d changes, want the end alone", got)
		}
		ok(t, r.plan.End(r.planCtx, recorder.PlanResult{}))
	})
}

// Without heartbeats, and for a link that names no plan, there is no sign of life either.
func TestNoSignOfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		_, quiet := recorder.New(m, recorder.Options{Heartbeat: -1}).ContinuePlan(
			t.Context(), recorder.PlanRef{Link: recorder.Link{PlanID: "p"}},
		)
		_, nameless := recorder.New(m, recorder.Options{}).ContinuePlan(t.Context(), recorder.PlanRef{})

		time.Sleep(time.Hour)
		if n := m.writeCount(); n != 0 {
			t.Errorf("%d writes", n)
		}

		ok(t, quiet.End(t.Context(), recorder.PlanResult{}))
		if n := len(m.writes[0]); n != 1 {
			t.Errorf("%d changes, want the end alone", n)
		}
		var invalid *record.InvalidError
		if err := nameless.End(t.Context(), recorder.PlanResult{}); !errors.As(err, &invalid) {
			t.Errorf("nameless.End = %v", err)
		}
	})
}

// Numbers go on behind what was opened, whichever of the two ways says where that is.
func TestNumbersAfterOpening(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, plan := b.ContinuePlan(t.Context(), recorder.PlanRef{
		Link: recorder.Link{PlanID: "p"}, NextIndex: 4, ConversationID: "talk",
	})
	_, known := plan.OpenStep(ctx, recorder.StepRef{ID: "s3"})
	_, fresh, err := plan.StartStep(ctx, recorder.StepInfo{ID: "s4"})
	ok(t, err)

	row := b.sink.step(t, "s4")
	want(t, "stepIndex", row.StepIndex, 4)
	want(t, "agentName", row.AgentName, recorder.AgentNameDefault)
	want(t, "conversationId", row.ConversationID, "talk")

	_, _, err = plan.StartStep(ctx, recorder.StepInfo{ID: "s3", Model: "m1"}) // goes on with the opened step
	ok(t, err)
	row = b.sink.step(t, "s3")
	want(t, "modelName", row.ModelName, "m1")
	unreported(t, "stepIndex", row.StepIndex)
	unreported(t, "agentName", row.AgentName)

	first, err := fresh.StartCycle(ctx, recorder.CycleInfo{})
	ok(t, err)
	known.OpenCycle(recorder.CycleRef{Seq: 6})
	seventh, err := known.StartCycle(ctx, recorder.CycleInfo{})
	ok(t, err)

	_, ahead := plan.OpenStep(ctx, recorder.StepRef{ID: "s3", NextSeq: 10}) // the same step: the higher number counts
	tenth, err := ahead.StartCycle(ctx, recorder.CycleInfo{})
	ok(t, err)
	if first.Seq() != 0 || seventh.Seq() != 7 || tenth.Seq() != 10 {
		t.Errorf("seqs are %d, %d, %d", first.Seq(), seventh.Seq(), tenth.Seq())
	}

	cycle := known.OpenCycle(recorder.CycleRef{Seq: 2, NextCall: 3})
	_, call, err := cycle.StartTool(ctx, recorder.ToolInfo{})
	ok(t, err)
	want(t, "callIndex", b.sink.tool(t, call.ID()).CallIndex, 3)
	ok(t, plan.End(ctx, recorder.PlanResult{}))
}

// An opened step or tool call that has not begun is started once; one that has begun is not
// started again.
func TestStartingWhatWasOpened(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, plan := b.ContinuePlan(t.Context(), recorder.PlanRef{Link: recorder.Link{PlanID: "p"}})
	_, idle := plan.OpenStep(ctx, recorder.StepRef{ID: "idle", Idle: true})
	_, running := plan.OpenStep(ctx, recorder.StepRef{ID: "running"})

	for _, s := range []*recorder.Step{idle, running} {
		stepCtx, err := s.Start(ctx)
		ok(t, err)
		if link, _ := recorder.LinkFrom(stepCtx); link != s.Link() {
			t.Errorf("link is %+v", link)
		}
	}
	want(t, "state", b.sink.step(t, "idle").State, record.Running)
	if n := len(all[record.AgentExecution](b.sink, record.KindAgentExecution)); n != 1 {
		t.Errorf("%d steps were written, want the idle one", n)
	}

	cycle := running.OpenCycle(recorder.CycleRef{Seq: 0, NextCall: 2})
	_, pending := cycle.OpenTool(ctx, recorder.ToolRef{ID: "pending", Pending: true})
	_, called := cycle.OpenTool(ctx, recorder.ToolRef{ID: "called", StartTime: noon})
	for _, c := range []*recorder.ToolCall{pending, called} {
		toolCtx, err := c.Start(ctx)
		ok(t, err)
		if link, _ := recorder.LinkFrom(toolCtx); link != c.Link() {
			t.Errorf("link is %+v", link)
		}
	}
	want(t, "state", b.sink.tool(t, "pending").State, record.Running)
	if n := len(all[record.ActTool](b.sink, record.KindActTool)); n != 1 {
		t.Errorf("%d tool calls were written, want the pending one", n)
	}

	// The call that had begun has begun the act phase, too.
	if n := len(all[record.ThinkAct](b.sink, record.KindThinkAct)); n != 0 {
		t.Errorf("%d cycles were written", n)
	}
	ok(t, cycle.End(ctx, recorder.CycleResult{}))
	row := b.sink.cycle(t, "running", 0)
	want(t, "thinkEndTime", row.ThinkEndTime, noon)
	if row.ActEndTime == nil {
		t.Error("the act phase did not end")
	}
	ok(t, plan.End(ctx, recorder.PlanResult{}))
}

// An answer that is on record is not written again, nor is the end of thinking.
func TestOpeningAnAnsweredCycle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, plan := b.ContinuePlan(t.Context(), recorder.PlanRef{Link: recorder.Link{PlanID: "p"}})
	_, step := plan.OpenStep(ctx, recorder.StepRef{ID: "s"})
	cycle := step.OpenCycle(recorder.CycleRef{Seq: 1, ThinkEndTime: noon, ActStartTime: noon})
	n := b.sink.writeCount()

	ok(t, cycle.End(ctx, recorder.CycleResult{}))
	row := b.sink.cycle(t, "s", 1)
	unreported(t, "thinkEndTime", row.ThinkEndTime)
	if row.ActEndTime == nil {
		t.Error("the act phase did not end")
	}
	ok(t, cycle.EndThink(ctx, recorder.ThinkResult{Output: "again"}))
	if got := b.sink.writeCount() - n; got != 1 {
		t.Errorf("%d writes, want 1", got)
	}

	asked := step.OpenCycle(recorder.CycleRef{Seq: 2, Provider: "acme"})
	ok(t, asked.EndThink(ctx, recorder.ThinkResult{Output: "yes", Model: "m1"}))
	row = b.sink.cycle(t, "s", 2)
	want(t, "thinkOutput", row.ThinkOutput, "yes")
	want(t, "provider", row.Provider, "acme")
	if row.ThinkEndTime == nil {
		t.Error("thinking did not end")
	}
	ok(t, plan.End(ctx, recorder.PlanResult{}))
}

// Every change below an opened row names its attempt. A row that is repeated takes a higher one,
// and what is above it keeps its own.
func TestAttemptsOfWhatWasOpened(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, plan := b.ContinuePlan(t.Context(), recorder.PlanRef{Link: recorder.Link{PlanID: "p"}})
	_, step := plan.OpenStep(ctx, recorder.StepRef{ID: "s", Attempt: 2})
	kept := step.OpenCycle(recorder.CycleRef{Seq: 0, Attempt: 4})
	inherits := step.OpenCycle(recorder.CycleRef{Seq: 1})
	asked, err := step.StartCycle(ctx, recorder.CycleInfo{Seq: new(int64(2)), Attempt: 3})
	ok(t, err)

	_, t1 := kept.OpenTool(ctx, recorder.ToolRef{ID: "t1"})
	_, t2 := kept.OpenTool(ctx, recorder.ToolRef{ID: "t2", Attempt: 5})
	_, t3, err := inherits.StartTool(ctx, recorder.ToolInfo{ID: "t3", Attempt: 6})
	ok(t, err)

	for _, c := range []*recorder.ToolCall{t1, t2, t3} {
		ok(t, c.End(ctx, recorder.ToolResult{}))
	}
	for _, c := range []*recorder.Cycle{kept, inherits, asked} {
		ok(t, c.End(ctx, recorder.CycleResult{}))
	}
	ok(t, step.End(ctx, recorder.StepResult{}))

	want(t, "attempt of the step", b.sink.step(t, "s").Attempt, 2)
	for seq, attempt := range []int64{4, 2, 3} {
		want(t, "attempt of a cycle", b.sink.cycle(t, "s", int64(seq)).Attempt, attempt)
	}
	for id, attempt := range map[string]int64{"t1": 4, "t2": 5, "t3": 6} {
		want(t, "attempt of a tool call", b.sink.tool(t, id).Attempt, attempt)
	}

	_, again, err := step.Retry(ctx)
	ok(t, err)
	if again.Attempt() != 3 {
		t.Errorf("attempt %d after 2", again.Attempt())
	}
	ok(t, plan.End(ctx, recorder.PlanResult{}))
}

// Ends are not before the starts that the opener names, even if the clock was set back.
func TestOpenedEndsAfterTheirStarts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	start := noon.Add(time.Hour)
	ctx, plan := b.ContinuePlan(t.Context(), recorder.PlanRef{Link: recorder.Link{PlanID: "p"}, StartTime: start})
	_, step := plan.OpenStep(ctx, recorder.StepRef{ID: "s", StartTime: start})
	cycle := step.OpenCycle(recorder.CycleRef{ThinkStartTime: start})
	_, call := cycle.OpenTool(ctx, recorder.ToolRef{ID: "t", StartTime: start})

	ok(t, call.End(ctx, recorder.ToolResult{}))
	ok(t, cycle.End(ctx, recorder.CycleResult{}))
	ok(t, step.End(ctx, recorder.StepResult{}))
	ok(t, plan.End(ctx, recorder.PlanResult{}))

	want(t, "tool endTime", b.sink.tool(t, "t").EndTime, start)
	want(t, "thinkEndTime", b.sink.cycle(t, "s", 0).ThinkEndTime, start)
	want(t, "actEndTime", b.sink.cycle(t, "s", 0).ActEndTime, start)
	want(t, "step endTime", b.sink.step(t, "s").EndTime, start)
	want(t, "plan endTime", b.sink.plan(t, "p").EndTime, start)
}

// A heartbeat that comes while the plan is being opened does no harm.
func TestHeartbeatDuringOpening(t *testing.T) {
	t.Parallel()
	m := newMemory()
	rec := recorder.New(m, recorder.Options{Heartbeat: 1})
	for range 100 {
		ctx, plan := rec.ContinuePlan(t.Context(), recorder.PlanRef{Link: recorder.Link{PlanID: "p"}})
		ok(t, plan.Thought(ctx, recorder.ThoughtInfo{}))
		ok(t, plan.End(ctx, recorder.PlanResult{}))
	}

	if m.plan(t, "p").LastSeenAt == nil {
		t.Error("there is no sign of life")
	}
}
