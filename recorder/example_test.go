package recorder_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/actlog/actlog/record"
	"github.com/actlog/actlog/recorder"
)

// printer is a Sink that prints a line for each change that sets a state. A real one is
// [github.com/actlog/actlog/recorder/direct].
type printer struct{}

func (printer) Write(_ context.Context, changes []record.Change) (record.Result, error) {
	w := tabwriter.NewWriter(os.Stdout, 15, 0, 1, ' ', 0)
	for _, c := range changes {
		switch c := c.(type) {
		case *record.Plan:
			row(w, "plan", c.State, c.Title, c.Summary, c.ErrorMessage)
		case *record.AgentExecution:
			if c.State != nil || c.StartTime == nil && c.CurrentStep == nil {
				row(w, "step", c.State, c.AgentName, c.AgentRequest, c.Result, c.ErrorMessage)
			}
		case *record.ThinkAct:
			if c.State != nil || c.ThinkOutput != nil {
				row(w, fmt.Sprint("cycle ", c.Seq), c.State, c.ThinkInput, c.ThinkOutput, c.ActionResult)
			}
		case *record.ActTool:
			row(w, "tool call", c.State, c.Name, c.Parameters, c.Result, c.ErrorMessage)
		}
	}
	return record.Result{Accepted: len(changes)}, w.Flush()
}

func row(w *tabwriter.Writer, kind string, state *record.State, texts ...*string) {
	var known []string
	for _, s := range texts {
		if s != nil {
			known = append(known, *s)
		}
	}
	if state == nil {
		state = new(record.State("-"))
	}

	cells := []string{kind, string(*state)}
	if len(known) > 0 {
		cells = append(cells, strings.Join(known, ", "))
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// A run, as an agent records it. Each line is on record before the next piece of work begins.
func Example() {
	rec := recorder.New(printer{}, recorder.Options{Project: "docs"})
	answer := func(ctx context.Context, question string) error {
		ctx, plan, err := rec.StartPlan(ctx, recorder.PlanInfo{Title: "Answer a question", UserRequest: question})
		if err != nil {
			return err
		}
		defer plan.Close(ctx)

		ctx, step, err := plan.StartStep(ctx, recorder.StepInfo{Requirement: "[READER] " + question})
		if err != nil {
			return plan.Fail(ctx, err)
		}
		defer step.Close(ctx)

		cycle, err := step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: question, Provider: "acme", Model: "m1"})
		if err != nil {
			return plan.Fail(ctx, step.Fail(ctx, err))
		}
		defer cycle.Close(ctx)
		// Here the model is asked.
		if err := cycle.EndThink(ctx,
			recorder.ThinkResult{Output: "I look it up.", InputTokens: 20, OutputTokens: 5}); err != nil {
			return plan.Fail(ctx, step.Fail(ctx, err))
		}

		toolCtx, call, err := cycle.StartTool(ctx, recorder.ToolInfo{
			Name: "lookup", Parameters: map[string]string{"word": "actlog"},
		})
		if err != nil {
			return plan.Fail(ctx, step.Fail(ctx, err))
		}
		defer call.Close(toolCtx)

		// Here the tool runs.
		return errors.Join(
			call.End(toolCtx, recorder.ToolResult{Result: "a record"}),
			cycle.End(ctx, recorder.CycleResult{ActionResult: "a record"}),
			step.End(ctx, recorder.StepResult{Result: "It is a record."}),
			plan.End(ctx, recorder.PlanResult{Summary: "It is a record."}),
		)
	}

	if err := answer(context.Background(), "What is Actlog?"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// plan           RUNNING        Answer a question
	// step           RUNNING        READER, What is Actlog?
	// cycle 0        RUNNING        What is Actlog?
	// cycle 0        -              I look it up.
	// tool call      RUNNING        lookup, {"word":"actlog"}
	// tool call      COMPLETED      a record
	// cycle 0        COMPLETED      a record
	// step           COMPLETED      It is a record.
	// plan           COMPLETED      It is a record.
}

// Steps that are known beforehand are recorded with the plan. One that fails is retried.
func ExamplePlan_Steps() {
	rec := recorder.New(printer{}, recorder.Options{})
	ctx, plan, _ := rec.StartPlan(context.Background(), recorder.PlanInfo{
		Title: "Release",
		Steps: []recorder.StepInfo{{Requirement: "[BUILDER] build it"}, {Requirement: "[TESTER] test it"}},
	})

	for _, step := range plan.Steps() {
		stepCtx, _ := step.Start(ctx)
		if step.ID() == plan.Steps()[1].ID() {
			_ = step.Fail(stepCtx, errors.New("no disk space"))
			stepCtx, step, _ = step.Retry(ctx)
		}
		_ = step.End(stepCtx, recorder.StepResult{Result: "done"})
	}
	_ = plan.End(ctx, recorder.PlanResult{Summary: "released"})
	// Output:
	// plan           RUNNING        Release
	// step           -              BUILDER, build it
	// step           -              TESTER, test it
	// step           RUNNING
	// step           COMPLETED      done
	// step           RUNNING
	// step           FAILED         no disk space
	// step           RUNNING
	// step           COMPLETED      done
	// plan           COMPLETED      released
}

// start starts a run up to a tool call, for the examples below.
func start(rec *recorder.Recorder) (context.Context, *recorder.ToolCall) {
	ctx, plan, _ := rec.StartPlan(context.Background(), recorder.PlanInfo{ID: "plan-7"})
	ctx, step, _ := plan.StartStep(ctx, recorder.StepInfo{ID: "plan-7-reader"})
	cycle, _ := step.StartCycle(ctx, recorder.CycleInfo{})
	ctx, call, _ := cycle.StartTool(ctx, recorder.ToolInfo{ID: "plan-7-ask", Name: "ask_expert"})
	return ctx, call
}

// A plan that is started in the context of a tool call is the sub-plan of the call. The code that
// starts it need not know of the call.
func Example_subPlan() {
	rec := recorder.New(recorder.Discard, recorder.Options{})
	expert := func(ctx context.Context) string { // an agent of its own, that is also a tool
		ctx, plan, _ := rec.StartPlan(ctx, recorder.PlanInfo{ID: "plan-7-expert", Title: "Ask an expert"})
		_ = plan.End(ctx, recorder.PlanResult{Summary: "42"})
		return fmt.Sprint(plan.ID(), " of ", plan.Link().RootPlanID)
	}

	toolCtx, call := start(rec) // the context that StartTool returned, not the one of the step
	ran := expert(toolCtx)
	_ = call.End(toolCtx, recorder.ToolResult{Result: ran})

	fmt.Println(call.ID(), "ran", ran)
	// Output: plan-7-ask ran plan-7-expert of plan-7
}

// A header carries the link to other processes.
func Example_acrossProcesses() {
	// The service that the tool calls also records its work.
	there := recorder.New(recorder.Discard, recorder.Options{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, err := recorder.Extract(r.Context(), r.Header)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}

		ctx, plan, err := there.StartPlan(ctx, recorder.PlanInfo{ID: "plan-7-expert"})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer plan.Close(ctx)
		link, _ := recorder.LinkFrom(ctx)
		fmt.Println("plan", link.PlanID, "belongs to", link.RootPlanID)
		_ = plan.End(ctx, recorder.PlanResult{})
	}))
	defer service.Close()

	here := recorder.New(recorder.Discard, recorder.Options{})
	toolCtx, call := start(here)
	request, _ := http.NewRequestWithContext(toolCtx, http.MethodPost, service.URL, nil)
	recorder.Inject(toolCtx, request.Header)
	fmt.Println(recorder.LinkHeader+":", request.Header.Get(recorder.LinkHeader))

	response, err := service.Client().Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	response.Body.Close()
	_ = call.End(toolCtx, recorder.ToolResult{Result: response.Status})
	// Output:
	// Actlog-Link: plan=plan-7&root=plan-7&seq=0&step=plan-7-reader&tool=plan-7-ask
	// plan plan-7-expert belongs to plan-7
}

// Close records what End could not: here, a panic.
func ExampleStep_Close() {
	rec := recorder.New(printer{}, recorder.Options{})
	defer func() { fmt.Println("recovered:", recover()) }()

	ctx, plan, _ := rec.StartPlan(context.Background(), recorder.PlanInfo{Title: "Divide"})
	defer plan.Close(ctx)
	ctx, step, _ := plan.StartStep(ctx, recorder.StepInfo{AgentName: "divider"})
	defer step.Close(ctx)
	panic("division by zero")
	// Output:
	// plan           RUNNING        Divide
	// step           RUNNING        divider
	// step           FAILED         panic: division by zero
	// plan           FAILED         panic: division by zero
	// recovered: division by zero
}

// A process was killed while a tool ran. Another one opens handles on what is on record, and goes
// on: opening prints nothing, since it writes nothing.
func ExampleRecorder_ContinuePlan() {
	rec := recorder.New(printer{}, recorder.Options{Heartbeat: -1})
	ctx, plan := rec.ContinuePlan(context.Background(), recorder.PlanRef{
		Link: recorder.Link{PlanID: "plan-7"}, NextIndex: 1,
	})
	ctx, step := plan.OpenStep(ctx, recorder.StepRef{ID: "plan-7-reader"})
	cycle := step.OpenCycle(recorder.CycleRef{Seq: 4, ThinkEndTime: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)})
	toolCtx, call := cycle.OpenTool(ctx, recorder.ToolRef{ID: "plan-7-ask"})

	// Here the tool runs again.
	_ = call.End(toolCtx, recorder.ToolResult{Result: "found"})
	_ = cycle.End(ctx, recorder.CycleResult{ActionResult: "found"})
	next, _ := step.StartCycle(ctx, recorder.CycleInfo{ThinkInput: "Is that all?"})
	_ = next.End(ctx, recorder.CycleResult{})
	_ = step.End(ctx, recorder.StepResult{Result: "done"})
	_ = plan.End(ctx, recorder.PlanResult{})
	// Output:
	// tool call      COMPLETED      found
	// cycle 4        COMPLETED      found
	// cycle 5        RUNNING        Is that all?
	// cycle 5        COMPLETED
	// step           COMPLETED      done
	// plan           COMPLETED
}
