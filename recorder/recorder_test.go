package recorder_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// B22, B24: a started plan is on record together with its planned steps, in order.
func TestPlannedSteps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	start := func() *recorder.Plan {
		_, plan, err := b.StartPlan(t.Context(), recorder.PlanInfo{
			ID: "p", Name: "answer", Title: "Answer", UserRequest: "Why?", UserID: "ada", Tags: []string{"x"},
			ConversationID: "talk", Metadata: map[string]any{"a": 1},
			Steps: []recorder.StepInfo{
				{ID: "s0", Requirement: "[READER] read the code"},
				{ID: "s1", Requirement: "write it down"},
				{ID: "s2", Requirement: " [ EDITOR ]  check ", AgentName: "proof-reader", AgentDescription: "checks"},
			},
		})
		ok(t, err)
		return plan
	}
	plan := start()

	if n := b.sink.writeCount(); n != 1 {
		t.Errorf("%d writes, want the plan and its steps in one", n)
	}
	row := b.sink.plan(t, "p")
	want(t, "state", row.State, record.Running)
	want(t, "userRequest", row.UserRequest, "Why?")
	want(t, "name", row.Name, "answer")
	if row.RootPlanID != "p" || row.ParentPlanID != nil || row.StartTime == nil || string(row.Metadata) != `{"a":1}` {
		t.Errorf("plan is %+v", row)
	}

	type planned struct {
		Index                      int64
		Name, Request, Description string
		Conversation               string
	}
	steps := func() (out []planned) {
		for _, s := range all[record.AgentExecution](b.sink, record.KindAgentExecution) {
			if s.PlanID != "p" || s.StartTime != nil {
				t.Errorf("step %s is %+v", s.StepID, s)
			}
			out = append(out, planned{*s.StepIndex, *s.AgentName, *s.AgentRequest, *s.AgentDescription, *s.ConversationID})
		}
		return out
	}

	expected := []planned{
		{0, "READER", "read the code", "No description available", "talk"},
		{1, "Agent", "write it down", "No description available", "talk"},
		{2, "proof-reader", "check", "checks", "talk"},
	}
	if diff := cmp.Diff(expected, steps()); diff != "" {
		t.Errorf("steps() (-want +got):\n%s", diff)
	}
	for i, s := range plan.Steps() {
		if want := fmt.Sprintf("s%d", i); s.ID() != want {
			t.Errorf("step %d is %s", i, s.ID())
		}
		// A step without a recorded state is IDLE. The state is not written, so that a repeated start
		// of the plan does not reset a running step.
		unreported(t, "state", b.sink.step(t, s.ID()).State)
	}

	start() // a repeat changes nothing
	if diff := cmp.Diff(expected, steps()); diff != "" {
		t.Errorf("steps() (-want +got):\n%s", diff)
	}

	_, err := plan.Steps()[1].Start(t.Context())
	ok(t, err)
	started := b.sink.step(t, "s1").StartTime
	_, err = plan.Steps()[1].Start(t.Context())
	ok(t, err)
	start()

	row1 := b.sink.step(t, "s1")
	want(t, "state", row1.State, record.Running)
	want(t, "startTime", row1.StartTime, *started)

	// By its id a planned step is started with what is known by then. The next new one comes after
	// all planned ones.
	_, _, err = plan.StartStep(t.Context(), recorder.StepInfo{ID: "s2", Model: "m1"})
	ok(t, err)
	row2 := b.sink.step(t, "s2")
	want(t, "agentName", row2.AgentName, "proof-reader")
	want(t, "agentDescription", row2.AgentDescription, "checks")
	want(t, "modelName", row2.ModelName, "m1")
	want(t, "stepIndex", row2.StepIndex, 2)

	_, extra, err := plan.StartStep(t.Context(), recorder.StepInfo{})
	ok(t, err)
	want(t, "stepIndex", b.sink.step(t, extra.ID()).StepIndex, 3)
	want(t, "agentName", b.sink.step(t, extra.ID()).AgentName, "Agent")
}

// B23: a sub-plan has a parent, a tool call and another root. Anything else is an error.
func TestRelations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		link  recorder.Link
		info  recorder.PlanInfo
		field string // the one at fault
	}{
		{"no tool call", recorder.Link{RootPlanID: "r", PlanID: "p"}, recorder.PlanInfo{}, "toolCallId"},
		{
			"a step, but no tool call", recorder.Link{RootPlanID: "r", PlanID: "p", StepID: "s"}, recorder.PlanInfo{},
			"toolCallId",
		},
		{
			"its own root", recorder.Link{RootPlanID: "r", PlanID: "p", StepID: "s", ToolCallID: "t"},
			recorder.PlanInfo{ID: "r"}, "rootPlanId",
		},
		{
			"its own parent", recorder.Link{RootPlanID: "r", PlanID: "p", StepID: "s", ToolCallID: "t"},
			recorder.PlanInfo{ID: "p"}, "parentPlanId",
		},
		{"no root", recorder.Link{PlanID: "p", StepID: "s", ToolCallID: "t"}, recorder.PlanInfo{}, "rootPlanId"},
		{"a long id", recorder.Link{}, recorder.PlanInfo{ID: strings.Repeat("x", 256)}, "rootPlanId"},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			test.info.Steps = []recorder.StepInfo{{Requirement: "must not go on record"}}

			_, plan, err := b.StartPlan(recorder.ContextWithLink(t.Context(), test.link), test.info)
			var invalid *record.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != test.field {
				t.Fatalf("got %v, want field %s at fault", err, test.field)
			}
			if plan == nil || b.sink.writeCount() != 0 {
				t.Errorf("plan %v, %d writes", plan, b.sink.writeCount())
			}
		})
	}

	t.Run("a root on purpose", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, setup(t))
		ctx, plan, err := r.StartPlan(r.toolCtx, recorder.PlanInfo{Root: true})
		ok(t, err)
		if link, _ := recorder.LinkFrom(ctx); link.RootPlanID != plan.ID() || r.sink.plan(t, plan.ID()).ToolCallID != nil {
			t.Errorf("link is %+v", link)
		}
	})
}

// B25-B27, B29: what is on record at each moment of a run, always before the work that it describes
// begins.
func TestLifeOfARun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, plan, err := b.StartPlan(t.Context(), recorder.PlanInfo{Title: "Answer"})
	ok(t, err)
	want(t, "plan state", b.sink.plan(t, plan.ID()).State, record.Running)

	ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{Requirement: "[READER] read", MaxSteps: 30})
	ok(t, err)
	agent := b.sink.step(t, step.ID())
	want(t, "step state", agent.State, record.Running)
	want(t, "maxSteps", agent.MaxSteps, 30)
	if agent.PlanID != plan.ID() || agent.StartTime == nil || agent.EndTime != nil {
		t.Errorf("step is %+v", agent)
	}

	cycle, err := step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: "what now?", Provider: "acme", Model: "m1"})
	ok(t, err)

	think := b.sink.cycle(t, step.ID(), 0)
	want(t, "cycle state", think.State, record.Running)
	want(t, "thinkInput", think.ThinkInput, "what now?")
	want(t, "provider", think.Provider, "acme")
	want(t, "currentStep", b.sink.step(t, step.ID()).CurrentStep, 1)
	if think.ThinkStartTime == nil || think.ThinkEndTime != nil || think.ActStartTime != nil {
		t.Errorf("cycle is %+v", think)
	}

	firstToken := noon.Add(time.Second)
	ok(t, cycle.EndThink(ctx, recorder.ThinkResult{
		Output: "look there", ActionDescription: "looks", FinishReason: "tool_calls", FirstTokenTime: firstToken,
		InputTokens: 100, OutputTokens: 20, CacheReadInputTokens: 60, CostUSD: new(0.0), InputChars: 9000,
	}))

	think = b.sink.cycle(t, step.ID(), 0)
	want(t, "thinkOutput", think.ThinkOutput, "look there")
	want(t, "inputTokens", think.InputTokens, 100)
	want(t, "costUsd", think.CostUSD, 0)
	want(t, "inputCharCount", think.InputCharCount, 9000)
	want(t, "thinkOutputChars", think.ThinkOutputChars, 10)
	want(t, "firstTokenTime", think.FirstTokenTime, firstToken)

	want(t, "cycle state", think.State, record.Running)
	unreported(t, "reasoningTokens", think.ReasoningTokens)
	if think.ThinkEndTime == nil || think.ActStartTime != nil {
		t.Errorf("cycle is %+v", think)
	}

	toolCtx, call, err := cycle.StartTool(ctx, recorder.ToolInfo{
		Name: "look", Parameters: map[string]any{"where": "a<b"}, ProviderCallID: "call_1", ServerName: "eyes",
	})
	ok(t, err)

	tool := b.sink.tool(t, call.ID())
	want(t, "tool state", tool.State, record.Running)
	want(t, "parameters", tool.Parameters, `{"where":"a<b"}`)
	want(t, "providerCallId", tool.ProviderCallID, "call_1")
	want(t, "callIndex", tool.CallIndex, 0)
	unreported(t, "result", tool.Result)

	actStart := b.sink.cycle(t, step.ID(), 0).ActStartTime
	want(t, "actStartTime", actStart, *tool.StartTime)
	link := recorder.Link{RootPlanID: plan.ID(), PlanID: plan.ID(), StepID: step.ID(), ToolCallID: call.ID()}
	if got, _ := recorder.LinkFrom(toolCtx); got != link || call.Link() != link {
		t.Errorf("link is %+v, want %+v", got, link)
	}

	ok(t, call.End(toolCtx, recorder.ToolResult{Result: "found"}))
	tool = b.sink.tool(t, call.ID())
	want(t, "tool state", tool.State, record.Completed)
	want(t, "result", tool.Result, "found")
	if !tool.EndTime.After(*tool.StartTime) {
		t.Errorf("tool call ends %v, starts %v", tool.EndTime, tool.StartTime)
	}

	ok(t, cycle.End(ctx, recorder.CycleResult{ActionResult: "found"}))
	think = b.sink.cycle(t, step.ID(), 0)
	want(t, "cycle state", think.State, record.Completed)
	want(t, "actionResult", think.ActionResult, "found")
	want(t, "actionDescription", think.ActionDescription, "looks")
	if think.ActEndTime == nil {
		t.Error("the act phase did not end")
	}

	// The next cycle has no tools, and its thinking ends with it.
	last, err := step.StartCycle(ctx, recorder.CycleInfo{})
	ok(t, err)
	ok(t, last.End(ctx, recorder.CycleResult{}))
	think = b.sink.cycle(t, step.ID(), 1)
	if think.ThinkEndTime == nil || think.ActStartTime != nil || think.ActEndTime != nil {
		t.Errorf("cycle is %+v", think)
	}
	want(t, "currentStep", b.sink.step(t, step.ID()).CurrentStep, 2)

	ok(t, step.End(ctx, recorder.StepResult{Result: "because"}))
	agent = b.sink.step(t, step.ID())
	want(t, "step state", agent.State, record.Completed)
	want(t, "step result", agent.Result, "because")
	if agent.EndTime == nil || agent.State.Status() != record.StatusFinished {
		t.Errorf("step is %+v", agent)
	}

	ok(t, plan.End(ctx, recorder.PlanResult{Summary: "It is so."}))
	row := b.sink.plan(t, plan.ID())
	want(t, "plan state", row.State, record.Completed)
	want(t, "summary", row.Summary, "It is so.")
	if row.EndTime == nil {
		t.Error("the plan has no end time")
	}
	unreported(t, "errorMessage", row.ErrorMessage)
}

// B28: each of several tool calls at once has its own id, and what runs under it refers to that id.
func TestToolCallsAtOnce(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	first := r.sink.cycle(t, r.step.ID(), 0).ActStartTime
	const n = 8
	subPlans := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			ctx, call, err := r.cycle.StartTool(r.stepCtx, recorder.ToolInfo{Name: "ask", CallIndex: new(int64(i + 1))})
			if err != nil {
				t.Error(err)
			}

			_, sub, err := r.StartPlan(ctx, recorder.PlanInfo{})
			if err != nil {
				t.Error(err)
			}
			subPlans[i] = sub.ID()
			if err := errors.Join(sub.End(ctx, recorder.PlanResult{}),
				call.End(ctx, recorder.ToolResult{Result: i})); err != nil {
				t.Error(err)
			}
		})
	}

	wg.Wait()
	if got := len(all[record.ActTool](r.sink, record.KindActTool)); got != n+1 {
		t.Fatalf("%d tool calls, want %d", got, n+1)
	}

	for i, id := range subPlans {
		tool := r.sink.tool(t, *r.sink.plan(t, id).ToolCallID)
		want(t, "callIndex", tool.CallIndex, int64(i+1))
		want(t, "result", tool.Result, fmt.Sprint(i))
		want(t, "state", tool.State, record.Completed)
	}
	want(t, "actStartTime", r.sink.cycle(t, r.step.ID(), 0).ActStartTime, *first)
}

// The calls that the model asked for are on record with its answer, before any of them runs.
func TestAskedTools(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, plan, err := b.StartPlan(t.Context(), recorder.PlanInfo{})
	ok(t, err)
	ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{})
	ok(t, err)
	cycle, err := step.StartCycle(ctx, recorder.CycleInfo{})
	ok(t, err)

	before := b.sink.writeCount()
	ok(t, cycle.EndThink(ctx, recorder.ThinkResult{
		Output: "both", Tools: []recorder.ToolInfo{{Name: "a", Parameters: "{}"}, {Name: "b"}},
	}))
	if n := b.sink.writeCount() - before; n != 1 {
		t.Errorf("%d writes, want one", n)
	}

	calls := cycle.Tools()
	for i, call := range calls {
		row := b.sink.tool(t, call.ID())
		want(t, "state", row.State, record.Pending)
		want(t, "callIndex", row.CallIndex, int64(i))
		unreported(t, "startTime", row.StartTime)
	}
	unreported(t, "actStartTime", b.sink.cycle(t, step.ID(), 0).ActStartTime)

	toolCtx, err := calls[0].Start(ctx)
	ok(t, err)
	row := b.sink.tool(t, calls[0].ID())
	want(t, "state", row.State, record.Running)
	want(t, "parameters", row.Parameters, "{}")
	want(t, "actStartTime", b.sink.cycle(t, step.ID(), 0).ActStartTime, *row.StartTime)
	if link, _ := recorder.LinkFrom(toolCtx); link.ToolCallID != calls[0].ID() {
		t.Errorf("link is %+v", link)
	}

	ok(t, calls[0].SetState(toolCtx, record.AwaitingApproval))
	want(t, "state", b.sink.tool(t, calls[0].ID()).State, record.AwaitingApproval)
	ok(t, calls[1].End(ctx, recorder.ToolResult{State: record.Skipped}))
	want(t, "state", b.sink.tool(t, calls[1].ID()).State, record.Skipped)
}

// TestStartedBy checks that a root plan which is started inside of a tool of the runtime says so, and that a sub-plan
// does not.
func TestStartedBy(t *testing.T) { // not parallel: it sets the environment
	t.Setenv("ACTLOG_PLAN_ID", "of the environment")
	t.Setenv("ACTLOG_TOOL_CALL_ID", "call-1")
	b := setup(t)
	inTool := record.ContextWithStartedBy(t.Context(), record.StartedBy{PlanID: "of the context", ToolCallID: "call-2"})
	said := record.StartedBy{PlanID: "said", ToolCallID: "call-3"}

	for _, test := range []struct {
		ctx  context.Context
		info recorder.PlanInfo
		want string
	}{
		{t.Context(), recorder.PlanInfo{}, `{"planId":"of the environment","toolCallId":"call-1"}`},
		{inTool, recorder.PlanInfo{}, `{"planId":"of the context","toolCallId":"call-2"}`},
		{inTool, recorder.PlanInfo{StartedBy: &said}, `{"planId":"said","toolCallId":"call-3"}`},
	} {
		ctx, plan, err := b.StartPlan(test.ctx, test.info)
		ok(t, err)
		if row := b.sink.plan(t, plan.ID()); string(row.StartedBy) != test.want {
			t.Errorf("startedBy is %s, want %s", row.StartedBy, test.want)
		}

		ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{})
		ok(t, err)
		cycle, err := step.StartCycle(ctx, recorder.CycleInfo{})
		ok(t, err)
		ctx, _, err = cycle.StartTool(ctx, recorder.ToolInfo{})
		ok(t, err)

		_, below, err := b.StartPlan(ctx, recorder.PlanInfo{})
		ok(t, err)
		if row := b.sink.plan(t, below.ID()); row.StartedBy != nil {
			t.Errorf("startedBy of a sub-plan is %s", row.StartedBy)
		}
	}
}

func TestSubPlans(t *testing.T) {
	t.Parallel()
	t.Run("through the context", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(o *recorder.Options) {
			o.Project = "shop"
			o.Environment, o.Release = "test", "v1"
		})
		ctx, parent, err := b.StartPlan(t.Context(), recorder.PlanInfo{Project: "till", Release: "v2"})
		ok(t, err)

		ctx, step, err := parent.StartStep(ctx, recorder.StepInfo{})
		ok(t, err)
		cycle, err := step.StartCycle(ctx, recorder.CycleInfo{Seq: new(int64(7))})
		ok(t, err)
		toolCtx, call, err := cycle.StartTool(ctx, recorder.ToolInfo{})
		ok(t, err)
		subCtx, sub, err := b.StartPlan(toolCtx, recorder.PlanInfo{})
		ok(t, err)

		row := b.sink.plan(t, sub.ID())
		if row.RootPlanID != parent.ID() {
			t.Errorf("root is %s", row.RootPlanID)
		}

		want(t, "parentPlanId", row.ParentPlanID, parent.ID())
		want(t, "toolCallId", row.ToolCallID, call.ID())
		want(t, "project", row.Project, "till") // inherited
		want(t, "environment", row.Environment, "test")
		want(t, "release", row.Release, "v1")
		want(t, "release of the parent", b.sink.plan(t, parent.ID()).Release, "v2")
		if call.Link().Seq != 7 {
			t.Errorf("link is %+v", call.Link())
		}

		// The steps of the sub-plan are its own, and its sub-plans hang under its own calls.
		subCtx, subStep, err := sub.StartStep(subCtx, recorder.StepInfo{})
		ok(t, err)
		if a := b.sink.step(t, subStep.ID()); a.PlanID != sub.ID() || a.RootPlanID != parent.ID() {
			t.Errorf("step is %+v", a)
		}
		if _, _, err := b.StartPlan(subCtx, recorder.PlanInfo{}); err == nil {
			t.Error("a plan between the calls of its plan was not refused")
		}
	})

	t.Run("through a header", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, setup(t))
		there := recorder.New(r.sink, recorder.Options{}) // another process
		header := http.Header{}
		recorder.Inject(r.toolCtx, header)

		ctx, err := recorder.Extract(t.Context(), header)
		ok(t, err)
		_, sub, err := there.StartPlan(ctx, recorder.PlanInfo{})
		ok(t, err)
		row := r.sink.plan(t, sub.ID())
		want(t, "toolCallId", row.ToolCallID, r.call.ID())
		want(t, "parentPlanId", row.ParentPlanID, r.plan.ID())
	})
}

func TestRetry(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	ok(t, r.call.End(r.toolCtx, recorder.ToolResult{}))
	ok(t, r.cycle.End(r.stepCtx, recorder.CycleResult{}))
	boom := errors.New("boom")
	if err := r.step.Fail(r.stepCtx, boom); err != boom {
		t.Errorf("Fail returned %v", err)
	}

	began := r.sink.step(t, r.step.ID()).StartTime
	ctx, again, err := r.step.Retry(r.planCtx)
	ok(t, err)

	row := r.sink.step(t, r.step.ID())
	want(t, "state", row.State, record.Running)
	want(t, "attempt", row.Attempt, 2)
	if !row.StartTime.After(*began) { // N1: each attempt has its own
		t.Errorf("the second attempt began at %v, the first at %v", row.StartTime, began)
	}
	unreported(t, "errorMessage", row.ErrorMessage)
	unreported(t, "endTime", row.EndTime)

	// Cycles count on, so that nothing of the first attempt is overwritten.
	cycle, err := again.StartCycle(ctx, recorder.CycleInfo{})
	ok(t, err)
	_, call, err := cycle.StartTool(ctx, recorder.ToolInfo{})
	ok(t, err)
	if cycle.Seq() != 1 || again.Attempt() != 2 || again.ID() != r.step.ID() {
		t.Errorf("seq %d, attempt %d of %s", cycle.Seq(), again.Attempt(), again.ID())
	}
	ok(t, call.End(ctx, recorder.ToolResult{}))
	ok(t, cycle.End(ctx, recorder.CycleResult{}))

	// What another handle of the first attempt reports late does not count.
	_, first := r.plan.OpenStep(r.planCtx, recorder.StepRef{ID: r.step.ID()})
	ok(t, first.End(r.stepCtx, recorder.StepResult{State: record.Skipped}))
	want(t, "state", r.sink.step(t, r.step.ID()).State, record.Running)
	ok(t, again.End(ctx, recorder.StepResult{Result: "fine"}))
	want(t, "state", r.sink.step(t, r.step.ID()).State, record.Completed)

	attempts := map[int64]int{}
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	for _, write := range r.sink.writes {
		for _, c := range write {
			switch c := c.(type) {
			case *record.AgentExecution:
				attempts[*c.Attempt]++
			case *record.ThinkAct:
				attempts[*c.Attempt]++
			case *record.ActTool:
				attempts[*c.Attempt]++
			}
		}
	}
	if attempts[1] == 0 || attempts[2] != 8 {
		t.Errorf("records of each attempt: %v", attempts)
	}
}

// A step that another process started goes on with a higher attempt, and its cycles with a given
// seq.
func TestGoingOnElsewhere(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	there := recorder.New(r.sink, recorder.Options{Clock: r.clock.read})
	before := r.sink.writeCount()
	plan := there.OpenPlan(recorder.Link{PlanID: r.plan.ID()})
	if r.sink.writeCount() != before {
		t.Error("opening a plan wrote something")
	}

	ctx, step, err := plan.StartStep(t.Context(), recorder.StepInfo{ID: r.step.ID(), Attempt: 2})
	ok(t, err)
	row := r.sink.step(t, r.step.ID())
	want(t, "agentName", row.AgentName, "reader")
	want(t, "stepIndex", row.StepIndex, 0)
	want(t, "attempt", row.Attempt, 2)

	for _, info := range []recorder.CycleInfo{{Seq: new(int64(1))}, {}} {
		_, err := step.StartCycle(ctx, info)
		ok(t, err)
	}
	r.sink.cycle(t, r.step.ID(), 2)
}

func TestHowThingsEnd(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name  string
		given record.State
		err   error
		state record.State
		kind  string
	}{
		{"well", "", nil, record.Completed, ""},
		{"skipped", record.Skipped, nil, record.Skipped, ""},
		{"with an error", "", errors.New("boom"), record.Failed, "error"},
		{"blocked by an error", record.Blocked, errors.New("boom"), record.Blocked, "error"},
		{"cancelled", "", fmt.Errorf("asking: %w", context.Canceled), record.Cancelled, "canceled"},
		{"out of time", "", fmt.Errorf("asking: %w", context.DeadlineExceeded), record.Failed, "timeout"},
		{"a timeout of the network", "", fmt.Errorf("asking: %w", slow{}), record.Failed, "timeout"},
		{"with a kind of its own", "", fmt.Errorf("asking: %w", limited{}), record.Failed, "rate_limit"},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := startRun(t, setup(t))
			ok(t, r.call.End(r.toolCtx, recorder.ToolResult{Err: test.err, State: test.given}))
			ok(t, r.cycle.End(r.stepCtx, recorder.CycleResult{Err: test.err, State: test.given}))
			ok(t, r.step.End(r.stepCtx, recorder.StepResult{Err: test.err, State: test.given}))
			ok(t, r.plan.End(r.planCtx, recorder.PlanResult{Err: test.err, State: test.given}))

			tool, cycle := r.sink.tool(t, r.call.ID()), r.sink.cycle(t, r.step.ID(), 0)
			step, plan := r.sink.step(t, r.step.ID()), r.sink.plan(t, r.plan.ID())
			for _, row := range []struct {
				state         *record.State
				message, kind *string
			}{
				{tool.State, tool.ErrorMessage, tool.ErrorKind}, {cycle.State, cycle.ErrorMessage, cycle.ErrorKind},
				{step.State, step.ErrorMessage, step.ErrorKind}, {plan.State, plan.ErrorMessage, plan.ErrorKind},
			} {
				want(t, "state", row.state, test.state)
				if test.err == nil {
					unreported(t, "errorMessage", row.message)
					unreported(t, "errorKind", row.kind)
					continue
				}

				want(t, "errorMessage", row.message, test.err.Error())
				want(t, "errorKind", row.kind, test.kind)
			}
		})
	}
}

type slow struct{}

func (slow) Error() string { return "slow" }
func (slow) Timeout() bool { return true }

type limited struct{}

func (limited) Error() string     { return "too many" }
func (limited) ErrorKind() string { return "rate_limit" }

func TestStatesThatDoNotFit(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	wait, err := r.plan.StartWait(r.planCtx, recorder.WaitInfo{})
	ok(t, err)
	before := r.sink.writeCount()

	for name, err := range map[string]error{
		"plan end":  r.plan.End(r.planCtx, recorder.PlanResult{State: record.Running}),
		"step end":  r.step.End(r.stepCtx, recorder.StepResult{State: record.Paused}),
		"cycle end": r.cycle.End(r.stepCtx, recorder.CycleResult{State: record.Waiting}),
		"tool end":  r.call.End(r.toolCtx, recorder.ToolResult{State: record.AwaitingApproval}),
		"plan":      r.plan.SetState(r.planCtx, record.Completed),
		"step":      r.step.SetState(r.stepCtx, record.Failed),
		"tool":      r.call.SetState(r.toolCtx, ""),
		"wait":      wait.Decide(r.planCtx, recorder.WaitDecision{}),
		"wait live": wait.Decide(r.planCtx, recorder.WaitDecision{State: record.Waiting}),
	} {
		var invalid *record.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "state" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if r.sink.writeCount() != before {
		t.Error("something was written")
	}

	ok(t, r.plan.SetState(r.planCtx, record.Paused))
	want(t, "plan state", r.sink.plan(t, r.plan.ID()).State, record.Paused)
	ok(t, r.step.SetState(r.stepCtx, record.Waiting))
	want(t, "step state", r.sink.step(t, r.step.ID()).State, record.Waiting)
}

// A state of another kind passes here, and the record refuses it.
func TestTheRecordRefuses(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	err := r.plan.End(r.planCtx, recorder.PlanResult{State: record.Approved})
	var invalid *record.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "state" || !strings.Contains(err.Error(), "end plan "+r.plan.ID()) {
		t.Fatalf("r.plan.End = %v", err)
	}
	ok(t, r.plan.End(r.planCtx, recorder.PlanResult{})) // refused for good: nothing is left to send

	// What is sent beside it goes on record.
	_, plan, err := r.StartPlan(t.Context(), recorder.PlanInfo{
		Steps: []recorder.StepInfo{{ID: "s0"}, {ID: strings.Repeat("x", 256)}},
	})
	if !errors.As(err, &invalid) || invalid.Field != "stepId" {
		t.Fatalf("r.StartPlan = %v", err)
	}
	r.sink.plan(t, plan.ID())
	r.sink.step(t, "s0")
}

func TestTheFirstEndCounts(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	_ = r.call.Fail(r.toolCtx, errors.New("boom"))
	ok(t, r.call.End(r.toolCtx, recorder.ToolResult{Result: "fine"}))
	want(t, "state", r.sink.tool(t, r.call.ID()).State, record.Failed)

	_ = r.step.Fail(r.stepCtx, errors.New("boom"))
	ok(t, r.step.End(r.stepCtx, recorder.StepResult{Result: "fine"}))
	ok(t, r.step.Close(r.stepCtx))
	want(t, "state", r.sink.step(t, r.step.ID()).State, record.Failed)

	ok(t, r.cycle.EndThink(r.stepCtx, recorder.ThinkResult{Err: errors.New("no model")}))
	ok(t, r.cycle.End(r.stepCtx, recorder.CycleResult{}))
	cycle := r.sink.cycle(t, r.step.ID(), 0)
	want(t, "state", cycle.State, record.Failed)
	want(t, "errorMessage", cycle.ErrorMessage, "no model")

	if err := r.plan.Fail(r.planCtx, nil); err != nil {
		t.Error(err)
	}
	want(t, "state", r.sink.plan(t, r.plan.ID()).State, record.Failed)
}

// The end of a cancelled run is recorded, but the call does not wait for ever.
func TestEndsAfterCancellation(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	stop := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx
	}
	ctx := stop(r.toolCtx)
	if _, _, err := r.cycle.StartTool(ctx, recorder.ToolInfo{ID: "t2"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a start went on: %v", err)
	}

	ok(t, r.call.End(ctx, recorder.ToolResult{Err: ctx.Err()}))
	ok(t, r.cycle.EndThink(ctx, recorder.ThinkResult{Output: "half an ans"}))
	if err := r.cycle.Fail(ctx, ctx.Err()); err != context.Canceled {
		t.Errorf("Fail returned %v", err)
	}
	_ = r.step.Fail(ctx, ctx.Err())
	ok(t, r.plan.Exception(ctx, "stopped"))
	_ = r.plan.Fail(ctx, ctx.Err())

	want(t, "tool", r.sink.tool(t, r.call.ID()).State, record.Cancelled)
	want(t, "cycle", r.sink.cycle(t, r.step.ID(), 0).State, record.Cancelled)
	want(t, "step", r.sink.step(t, r.step.ID()).State, record.Cancelled)
	want(t, "plan", r.sink.plan(t, r.plan.ID()).State, record.Cancelled)
	want(t, "exception", r.sink.plan(t, r.plan.ID()).Exception, "stopped")

	hanging := recorder.New(sinkFunc(func(ctx context.Context, _ []record.Change) (record.Result, error) {
		<-ctx.Done()
		return record.Result{}, ctx.Err()
	}), recorder.Options{EndTimeout: 1})
	if err := hanging.OpenPlan(recorder.Link{PlanID: "p"}).End(t.Context(), recorder.PlanResult{}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("End = %v", err)
	}
}

type sinkFunc func(context.Context, []record.Change) (record.Result, error)

func (f sinkFunc) Write(ctx context.Context, changes []record.Change) (record.Result, error) {
	return f(ctx, changes)
}

// An agent that goes on while the sink is away has a complete record in the end.
func TestTheSinkComesBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sink.setFail(record.ErrUnavailable)
	away := func(err error) {
		t.Helper()
		if !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("err = %v", err)
		}
	}

	ctx, plan, err := b.StartPlan(t.Context(), recorder.PlanInfo{
		Title: "Answer", Steps: []recorder.StepInfo{{Requirement: "[A] first"}},
	})
	away(err)
	step := plan.Steps()[0]
	ctx, err = step.Start(ctx)
	away(err)

	cycle, err := step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: "what now?"})
	away(err)
	away(cycle.EndThink(ctx, recorder.ThinkResult{Output: "look", Tools: []recorder.ToolInfo{{Name: "look"}}}))
	away(cycle.EndThink(ctx, recorder.ThinkResult{Output: "said twice"}))
	call := cycle.Tools()[0]
	toolCtx, err := call.Start(ctx)
	away(err)
	away(plan.Thought(ctx, recorder.ThoughtInfo{Content: "lost, and the caller knows"}))

	b.sink.setFail(nil)
	ok(t, call.End(toolCtx, recorder.ToolResult{Result: "found"}))
	if n := b.sink.writeCount(); n != 1 {
		t.Errorf("%d writes, want all in one", n)
	}
	want(t, "title", b.sink.plan(t, plan.ID()).Title, "Answer")
	want(t, "agentName", b.sink.step(t, step.ID()).AgentName, "A")
	want(t, "step state", b.sink.step(t, step.ID()).State, record.Running)

	row := b.sink.cycle(t, step.ID(), 0)
	want(t, "thinkInput", row.ThinkInput, "what now?")
	want(t, "thinkOutput", row.ThinkOutput, "look")
	if row.ActStartTime == nil {
		t.Error("the act phase has no start")
	}
	tool := b.sink.tool(t, call.ID())
	want(t, "name", tool.Name, "look")
	want(t, "tool state", tool.State, record.Completed)

	// It is sent once, not with each call from then on.
	ok(t, cycle.End(ctx, recorder.CycleResult{}))
	if last := b.sink.writes[1]; len(last) != 1 {
		t.Errorf("%d changes, want 1", len(last))
	}

	// An end that failed is sent by the next end, as it was.
	b.sink.setFail(record.ErrUnavailable)
	away(step.Fail(ctx, errors.New("boom")))
	away(step.Close(ctx))
	b.sink.setFail(nil)
	ok(t, step.End(ctx, recorder.StepResult{}))
	want(t, "errorMessage", b.sink.step(t, step.ID()).ErrorMessage, "boom")
}

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("during a panic", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, setup(t))
		boom := errors.New("boom")

		func() {
			defer func() {
				if v := recover(); v != boom {
					t.Errorf("recovered %v, want the panic to go on", v)
				}
			}()
			defer r.plan.Close(r.planCtx)
			defer r.step.Close(r.stepCtx)
			defer r.cycle.Close(r.stepCtx)
			defer r.call.Close(r.toolCtx)
			panic(boom)
		}()

		tool := r.sink.tool(t, r.call.ID())
		want(t, "tool state", tool.State, record.Failed)
		want(t, "errorMessage", tool.ErrorMessage, "panic: boom")
		want(t, "errorKind", tool.ErrorKind, recorder.ErrorKindPanic)
		want(t, "cycle state", r.sink.cycle(t, r.step.ID(), 0).State, record.Failed)
		want(t, "step state", r.sink.step(t, r.step.ID()).State, record.Failed)
		want(t, "plan state", r.sink.plan(t, r.plan.ID()).State, record.Failed)
	})

	t.Run("during a panic, without the sink", func(t *testing.T) {
		t.Parallel()
		var log bytes.Buffer
		r := startRun(t, setup(t, func(o *recorder.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }))
		r.sink.setFail(record.ErrUnavailable)
		func() {
			defer func() {
				if v := recover(); v != "boom" {
					t.Errorf("recovered %v", v)
				}
			}()
			defer r.call.Close(r.toolCtx)
			panic("boom")
		}()

		if !strings.Contains(log.String(), "boom") || !strings.Contains(log.String(), r.call.ID()) {
			t.Errorf("the log says %q", log.String())
		}
	})

	t.Run("without an end", func(t *testing.T) {
		t.Parallel()
		r := startRun(t, setup(t))
		var wg sync.WaitGroup
		wg.Go(func() {
			defer r.call.Close(r.toolCtx)
			runtime.Goexit()
		})
		wg.Wait()

		ok(t, r.step.Close(r.stepCtx))
		want(t, "tool state", r.sink.tool(t, r.call.ID()).State, record.Interrupted)
		want(t, "step state", r.sink.step(t, r.step.ID()).State, record.Interrupted)
		want(t, "errorKind", r.sink.step(t, r.step.ID()).ErrorKind, recorder.ErrorKindNotEnded)
	})
}

// Revisions grow whatever the clock does, and no two records share one.
func TestRevisions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, plan, err := b.StartPlan(t.Context(), recorder.PlanInfo{})
	ok(t, err)
	b.clock.move(-time.Hour)

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				_, step, err := plan.StartStep(t.Context(), recorder.StepInfo{})
				if err := errors.Join(err, step.End(t.Context(), recorder.StepResult{})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()

	seen := map[int64]bool{}
	for i, write := range b.sink.writes {
		for _, c := range write {
			rev := *c.Revision()
			if seen[rev] || i > 0 && rev <= *b.sink.writes[0][0].Revision() {
				t.Fatalf("revision %d comes twice, or went back", rev)
			}
			seen[rev] = true
		}
	}
	if len(seen) != 801 {
		t.Errorf("%d records, want 801", len(seen))
	}
}

// An end is not before its start, even if the clock was set back.
func TestTheClockGoesBack(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	r.clock.move(-time.Hour)
	ok(t, r.call.End(r.toolCtx, recorder.ToolResult{}))
	ok(t, r.cycle.End(r.stepCtx, recorder.CycleResult{}))
	ok(t, r.step.End(r.stepCtx, recorder.StepResult{}))
	ok(t, r.plan.End(r.planCtx, recorder.PlanResult{}))

	tool, cycle := r.sink.tool(t, r.call.ID()), r.sink.cycle(t, r.step.ID(), 0)
	step, plan := r.sink.step(t, r.step.ID()), r.sink.plan(t, r.plan.ID())

	want(t, "tool endTime", tool.EndTime, *tool.StartTime)
	want(t, "thinkEndTime", cycle.ThinkEndTime, *cycle.ActStartTime)
	want(t, "actEndTime", cycle.ActEndTime, *cycle.ActStartTime)
	want(t, "step endTime", step.EndTime, *step.StartTime)
	want(t, "plan endTime", plan.EndTime, *plan.StartTime)
	want(t, "plan state", plan.State, record.Completed)
}

func TestValuesThatAreNoJSON(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	bad := math.Inf(1)
	metadata := map[string]any{"x": bad}

	_, plan, err1 := r.StartPlan(t.Context(), recorder.PlanInfo{Title: "kept", Metadata: metadata})
	_, step, err2 := plan.StartStep(t.Context(), recorder.StepInfo{Metadata: metadata})
	cycle, err3 := step.StartCycle(t.Context(), recorder.CycleInfo{Metadata: metadata})
	_, call, err4 := cycle.StartTool(t.Context(), recorder.ToolInfo{Name: "kept", Parameters: bad, Metadata: metadata})
	err5 := call.End(t.Context(), recorder.ToolResult{Result: bad})
	for i, err := range []error{err1, err2, err3, err4, err5} {
		if err == nil || !strings.Contains(err.Error(), "encode ") {
			t.Errorf("%d: got %v", i+1, err)
		}
	}

	// Everything else is on record.
	want(t, "title", r.sink.plan(t, plan.ID()).Title, "kept")
	want(t, "name", r.sink.tool(t, call.ID()).Name, "kept")
	want(t, "state", r.sink.tool(t, call.ID()).State, record.Completed)
}

// bomb is a value whose methods panic.
type bomb struct{ fuse string }

func (b *bomb) Error() string               { return b.fuse }
func (b *bomb) Timeout() bool               { return b.fuse == "" }
func (b *bomb) ErrorKind() string           { return b.fuse }
func (b bomb) MarshalJSON() ([]byte, error) { panic(&b) }
func (b bomb) MarshalText() ([]byte, error) { panic(&b) }
func (b bomb) String() string               { panic(&b) }

// An agent survives values whose methods panic, and its record holds everything else.
func TestValuesThatPanic(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	var none *bomb
	var key any = map[bomb]int{{}: 1}

	_, call, err := r.cycle.StartTool(r.stepCtx, recorder.ToolInfo{
		Name: "kept", Parameters: bomb{}, Metadata: map[string]any{"x": bomb{}},
	})
	if err == nil || !strings.Contains(err.Error(), "encode parameters: panic") ||
		!strings.Contains(err.Error(), "encode metadata: panic") {
		t.Errorf("error = %v", err)
	}
	if err := call.End(r.stepCtx, recorder.ToolResult{Result: key, Err: none}); err == nil ||
		!strings.Contains(err.Error(), "encode result: panic") {
		t.Errorf("error = %v", err)
	}

	tool := r.sink.tool(t, call.ID())
	want(t, "name", tool.Name, "kept")
	want(t, "state", tool.State, record.Failed)
	want(t, "errorMessage", tool.ErrorMessage, "<nil>")
	want(t, "errorKind", tool.ErrorKind, recorder.ErrorKindOther)

	ok(t, r.call.End(r.toolCtx, recorder.ToolResult{Result: none}))
	want(t, "result", r.sink.tool(t, r.call.ID()).Result, "<nil>")
	ok(t, r.cycle.EndThink(r.stepCtx, recorder.ThinkResult{Err: none}))
	want(t, "state", r.sink.cycle(t, r.step.ID(), 0).State, record.Failed)
	if err := r.step.Fail(r.stepCtx, none); err != error(none) {
		t.Errorf("Fail returned %T", err)
	}
	want(t, "state", r.sink.step(t, r.step.ID()).State, record.Failed)

	// What an error reported before it panics counts.
	ok(t, r.plan.End(r.planCtx, recorder.PlanResult{Err: fmt.Errorf("%w by %w", context.Canceled, none)}))
	want(t, "state", r.sink.plan(t, r.plan.ID()).State, record.Cancelled)
	func() {
		defer func() {
			if p, _ := recover().(bomb); p != (bomb{}) {
				t.Errorf("the panic is %v", p)
			}
		}()
		_, plan, err := r.StartPlan(t.Context(), recorder.PlanInfo{ID: "panics"})
		ok(t, err)
		defer plan.Close(t.Context())
		panic(bomb{fuse: ""})
	}()
	want(t, "state", r.sink.plan(t, "panics").State, record.Failed)
}

func TestTextsOfValues(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	for text, value := range map[string]any{
		"":          "",
		"plain":     "plain",
		"bytes":     []byte("bytes"),
		`{"b":1}`:   json.RawMessage(`{"b":1}`),
		`[1,"<a>"]`: []any{1, "<a>"},
		"boom":      errors.New("boom"),
		"null":      (*int)(nil),
	} {
		_, call, err := r.cycle.StartTool(r.stepCtx, recorder.ToolInfo{Parameters: value})
		ok(t, err)
		ok(t, call.End(r.stepCtx, recorder.ToolResult{Result: value}))
		want(t, "parameters", r.sink.tool(t, call.ID()).Parameters, text)
		want(t, "result", r.sink.tool(t, call.ID()).Result, text)
	}

	_, call, err := r.cycle.StartTool(r.stepCtx, recorder.ToolInfo{})
	ok(t, err)
	ok(t, call.End(r.stepCtx, recorder.ToolResult{}))
	unreported(t, "parameters", r.sink.tool(t, call.ID()).Parameters)
	unreported(t, "result", r.sink.tool(t, call.ID()).Result)
}

// Thoughts, artifacts, sources and waits belong to the step and call of their context.
func TestBesideThePlan(t *testing.T) {
	t.Parallel()
	r := startRun(t, setup(t))
	link, _ := recorder.LinkFrom(r.toolCtx)
	plan := r.OpenPlan(link) // a tool has nothing but its context

	ok(t, plan.Thought(r.toolCtx, recorder.ThoughtInfo{
		ID: "th", Type: record.ThoughtError, Content: "hm", Iteration: new(int64(-1)), Confidence: new(0.5),
		RelatedOperations: []string{"look"},
	}))
	ok(t, plan.Artifact(r.toolCtx, recorder.ArtifactInfo{Name: "report", Type: "text", Value: "done"}))
	ok(t, plan.Source(r.toolCtx, recorder.SourceInfo{
		ID: "so", URI: "a.go", Type: record.SourceFile, LineStart: 1, LineEnd: 9,
	}))
	wait, err := plan.StartWait(r.toolCtx, recorder.WaitInfo{
		ID: "w", Type: record.WaitActionValidation, Title: "May I?", FormInputs: []map[string]string{{"label": "why"}},
		ExpiresAt: noon.Add(time.Hour),
	})
	ok(t, err)

	thought := all[record.Thought](r.sink, record.KindThought)[0]
	want(t, "type", thought.Type, record.ThoughtError)
	want(t, "stepId", thought.StepID, r.step.ID())
	artifact := all[record.Artifact](r.sink, record.KindArtifact)[0]
	want(t, "toolCallId", artifact.ToolCallID, r.call.ID())
	if string(artifact.Value) != `"done"` {
		t.Errorf("value is %s", artifact.Value)
	}

	source := all[record.Source](r.sink, record.KindSource)[0]
	want(t, "lineEnd", source.LineEnd, 9)
	want(t, "stepId", source.StepID, r.step.ID())
	on := func() *record.Wait { return all[record.Wait](r.sink, record.KindWait)[0] }
	want(t, "state", on().State, record.Waiting)
	want(t, "toolCallId", on().ToolCallID, r.call.ID())
	unreported(t, "endTime", on().EndTime)

	// Another process receives the answer.
	elsewhere := recorder.New(r.sink, recorder.Options{Clock: r.clock.read}).OpenPlan(link).OpenWait(wait.ID())
	ok(t, elsewhere.Decide(t.Context(), recorder.WaitDecision{
		State: record.Approved, Decision: map[string]string{"why": "because"}, By: "ada",
	}))

	want(t, "state", on().State, record.Approved)
	want(t, "decision", on().Decision, `{"why":"because"}`)
	want(t, "decidedBy", on().DecidedBy, "ada")
	want(t, "title", on().Title, "May I?")
	if !on().EndTime.After(*on().StartTime) {
		t.Errorf("wait is %+v", on())
	}

	ok(t, plan.Artifact(r.toolCtx, recorder.ArtifactInfo{Name: "raw", Value: json.RawMessage("[1, 2]")}))
	raw := one(t, r.sink, record.KindArtifact, func(a *record.Artifact) bool { return a.Name == "raw" })
	if string(raw.Value) != "[1,2]" {
		t.Errorf("value is %s", raw.Value)
	}

	// In the context of another plan, it belongs to this plan and to no step.
	ok(t, plan.Thought(recorder.ContextWithLink(t.Context(), recorder.Link{RootPlanID: "r", PlanID: "p", StepID: "s"}),
		recorder.ThoughtInfo{ID: "alone"}))
	unreported(t, "stepId", one(t, r.sink, record.KindThought, func(c *record.Thought) bool {
		return c.ThoughtID == "alone"
	}).StepID)
}

func TestNotRecording(t *testing.T) {
	t.Parallel()
	rec := recorder.New(recorder.Discard, recorder.Options{})
	_, plan, err := rec.StartPlan(t.Context(), recorder.PlanInfo{})
	ok(t, err)
	ok(t, plan.End(t.Context(), recorder.PlanResult{}))

	defer func() {
		if recover() == nil {
			t.Error("New accepted a nil sink")
		}
	}()
	recorder.New(nil, recorder.Options{})
}

// A sink that misbehaves causes no panic.
func TestRejectionsOutOfRange(t *testing.T) {
	t.Parallel()
	rec := recorder.New(sinkFunc(func(context.Context, []record.Change) (record.Result, error) {
		return record.Result{
			Rejected: []record.Rejection{{Index: 9, Err: &record.InvalidError{Code: record.CodeMalformed}}},
		}, nil
	}), recorder.Options{})

	if _, _, err := rec.StartPlan(t.Context(), recorder.PlanInfo{}); err == nil {
		t.Error("no error")
	}
}
