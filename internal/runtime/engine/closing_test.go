package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// states lists the states of the cycles and calls of a step.
func states(st *tree.Step) string {
	var all []string
	for _, c := range st.Cycles {
		all = append(all, string(*c.Record.State))
		for _, t := range c.ToolCalls {
			all = append(all, strings.ToLower(string(*t.Record.State)))
		}
	}
	return strings.Join(all, " ")
}

// TestNothingIsLiveInEndedRuns: however a run ends, nothing in it is live then. The house checks that too, after each
// test.
func TestNothingIsLiveInEndedRuns(t *testing.T) {
	t.Parallel()
	ok := tool.Func("ok", "Says ok.", func(context.Context, struct{}) (string, error) {
		return "ok", nil
	}, tool.WithPolicy(tool.Policy{Exclusive: true}))
	panics := tool.Func("panics", "Panics.", func(context.Context, struct{}) (string, error) { panic("no") })
	two := []scriptmodel.ToolCall{call("ok", object{}), call("ok", object{})}

	for name, tt := range map[string]struct {
		turns  []scriptmodel.Turn
		limits *engine.Limits
		kind   string
		states string
	}{
		"an answer that is too large": {
			[]scriptmodel.Turn{
				{ToolCalls: []scriptmodel.ToolCall{call("ok", object{"t": strings.Repeat("y", 5<<20)})}, Whole: true},
			}, nil, "model", "FAILED",
		},
		"a text that is too large": {
			[]scriptmodel.Turn{{Content: strings.Repeat("y", 5<<20), Whole: true}}, nil, "model", "FAILED",
		},
		"a limit of calls between two": {
			calls(two, two), &engine.Limits{ToolCalls: 3}, engine.LimitToolCalls,
			"COMPLETED completed completed FAILED completed skipped",
		},
		"a limit of calls before the first": {
			calls(two, two), &engine.Limits{ToolCalls: 2}, engine.LimitToolCalls,
			"COMPLETED completed completed FAILED skipped skipped",
		},
		"a limit of rounds": {
			calls(two, two), &engine.Limits{Rounds: 1}, engine.LimitRounds, "COMPLETED completed completed",
		},
		"a limit of tokens": {
			calls(two, two), &engine.Limits{Tokens: 1}, engine.LimitTokens, "FAILED skipped skipped",
		},
		"a model that fails": {
			append(calls(two), scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 400, Message: "no"}}), nil,
			"invalid_request", "COMPLETED completed completed FAILED",
		},
		"a model that fails again and again": {
			append(calls(two), scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 503, Message: "no"}}), nil, "overloaded",
			"COMPLETED completed completed FAILED",
		},
		"a panic in a tool": {
			calls([]scriptmodel.ToolCall{call("panics", object{}), call("ok", object{})}, terminate("done")), nil, "", "",
		},
		"a refusal that asks for a tool": {
			[]scriptmodel.Turn{{Refusal: "No.", ToolCalls: two}}, nil, "refusal", "FAILED skipped skipped",
		},
		"rounds that are used up": {
			calls(two, two, two, two, two), nil, engine.LimitRounds,
			"COMPLETED completed completed COMPLETED completed completed COMPLETED failed failed",
		},
		"a last round with a limit of rounds": {
			calls(two, two, two), &engine.Limits{Rounds: 2}, engine.LimitRounds,
			"COMPLETED completed completed COMPLETED completed completed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t, []scriptmodel.Scene{{Name: "s", Turns: tt.turns}},
				map[string]define.Definition{"a": {Tools: []string{"ok", "panics"}, MaxSteps: 2}}, []tool.Tool{ok, panics})
			h.Work(h.Engine)
			p := h.Ended(h.Start("a", "Go.", func(r *engine.Request) { r.Limits = tt.limits }))
			if got := states(h.Step(p)); text(p.Record.ErrorKind) != tt.kind || tt.states != "" && got != tt.states {
				t.Errorf("p.Record.State = %s %s %s:\n%s, not\n%s", *p.Record.State, text(p.Record.ErrorKind),
					text(p.Record.ErrorMessage), got,
					tt.states)
			}
		})
	}
}

// TestRunsBelowEndWithTheirRun: a run that ends ends the runs below it, in the same moment, whoever carries them.
func TestRunsBelowEndWithTheirRun(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := build(t, []scriptmodel.Scene{
		{Name: "parent", Match: scriptmodel.Match{System: "Parent."}, Turns: calls(
			[]scriptmodel.ToolCall{call("agent.worker", object{"request": "1"}), call("agent.stuck", object{"request": "2"})},
			terminate("done"))},
		{Name: "worker", Turns: calls([]scriptmodel.ToolCall{call("block", object{})}, terminate("done"))},
	}, map[string]define.Definition{
		// nobody has that tool
		"parent": {SystemPrompt: "Parent.", Tools: []string{"agent.worker", "agent.stuck"}},
		"worker": {Tools: []string{"block"}}, "stuck": {Tools: []string{"gone"}},
	}, []tool.Tool{b.tool(tool.Policy{})})

	h.Work(h.Engine)
	h.Work(h.NewEngine(nil))
	id := h.Start("parent", "Go.")
	<-b.begun
	if err := h.Runs.Control(t.Context(), id, runstore.Stop, "ann"); err != nil {
		t.Fatal(err)
	}

	p := h.Ended(id)
	enginetest.CheckEnded(t, h.Store)
	var got []string
	for _, sub := range p.Steps[0].SubPlans {
		if *sub.Record.State != record.Cancelled {
			t.Errorf("the run below is %s", *sub.Record.State)
		}
		for _, st := range sub.Steps {
			got = append(got, states(storetest.StepDetail(t, h.Store, st.Record.StepID)))
		}
	}
	if fmt.Sprint(got) != "[CANCELLED unknown]" {
		t.Errorf("below, %s", got)
	}
	<-b.left // the tool is told, although the worker can write nothing any more
}

// X1: the step counts its cycles as the run goes (B25).
func TestCurrentStep(t *testing.T) {
	t.Parallel()
	b := newBlocker()
	h := build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(
		[]scriptmodel.ToolCall{call("block", object{})}, []scriptmodel.ToolCall{call("block", object{})},
		terminate("done"))}},
		map[string]define.Definition{"a": {Tools: []string{"block"}}}, []tool.Tool{b.tool(tool.Policy{})})

	h.Work(h.Engine)
	id := h.Start("a", "Go.")
	for round := range int64(2) {
		<-b.begun
		if got := h.Step(h.Plan(id)).Record.CurrentStep; got == nil || *got != round+1 {
			t.Errorf("in round %d, the current step is %v", round, got)
		}
		b.free <- struct{}{}
	}

	if got := h.Step(h.Await(id, record.Completed)).Record.CurrentStep; got == nil || *got != 3 {
		t.Errorf("at the end, the current step is %v", got)
	}
}

// X1: a run that fails because its model does has an exception, which is served once (B2). Other ends are none.
func TestException(t *testing.T) {
	t.Parallel()
	h := build(t, []scriptmodel.Scene{
		{
			Name: "refused", Match: scriptmodel.Match{User: "refused"}, Turns: []scriptmodel.Turn{
				{Error: &scriptmodel.Failure{Status: 400, Message: "bad request"}},
			},
		},
		{
			Name: "busy", Match: scriptmodel.Match{User: "busy"}, Turns: []scriptmodel.Turn{
				{Error: &scriptmodel.Failure{Status: 503, Message: "too busy"}},
			},
		},
		{
			Name: "passes", Match: scriptmodel.Match{User: "passes"}, Turns: []scriptmodel.Turn{
				{ToolCalls: terminate("done"), Error: &scriptmodel.Failure{Status: 503, Message: "busy", Times: 1}},
			},
		},
		{
			Name: "silent", Match: scriptmodel.Match{User: "silent"},
			Turns: slices.Repeat([]scriptmodel.Turn{{Content: "Well."}}, 3),
		},
	}, map[string]define.Definition{"a": {}}, nil)

	h.Work(h.Engine)
	for request, want := range map[string]string{
		"refused": "bad request", "busy": "too busy", "passes": "", "silent": "",
	} {
		p := h.Ended(h.Start("a", request))
		message, found, err := h.Store.ServeException(t.Context(), p.Record.RootPlanID, p.Record.CurrentPlanID)
		if err != nil || found != (want != "") || !strings.Contains(message, want) {
			t.Errorf("%s: %q %t %v", request, message, found, err)
		}
		if again, found, err := h.Store.ServeException(t.Context(), p.Record.RootPlanID,
			p.Record.CurrentPlanID); err != nil || found {
			t.Errorf("%s is served again: %q, %v", request, again, err)
		}
	}
}
