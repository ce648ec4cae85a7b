package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// fork goes on from a row of a run, and returns the new one.
func fork(t *testing.T, h *enginetest.House, planID, at string, changes engine.Changes) string {
	t.Helper()
	started, err := h.Engine.Fork(t.Context(), engine.ForkRequest{PlanID: planID, At: at, Changes: changes})
	if err != nil {
		t.Fatalf("fork at %s: %v", at, err)
	}
	return started.PlanID
}

// rowsOf returns the addresses of all steps, cycles and calls of a run, in the order of the tree: what is below a call
// comes before the call that follows it.
func rowsOf(h *enginetest.House, p *tree.Plan) (all []string) {
	for _, s := range p.Steps {
		all = append(all, "step:"+s.Record.StepID)
		below := map[string][]*tree.Plan{}
		for _, sub := range s.SubPlans {
			below[*sub.Record.ToolCallID] = append(below[*sub.Record.ToolCallID], sub)
		}
		for _, c := range h.Step(p).Cycles {
			all = append(all, fmt.Sprintf("cycle:%s/%d", c.Record.StepID, c.Record.Seq))
			for _, t := range c.ToolCalls {
				all = append(all, fmt.Sprintf("call:%s/%d/%s", t.Record.StepID, t.Record.Seq, t.Record.ToolCallID))
				for _, sub := range below[t.Record.ToolCallID] {
					all = append(all, rowsOf(h, sub)...)
				}
			}
		}
	}
	return all
}

// callsAbove returns the addresses of the calls of a run that a row is below.
func callsAbove(h *enginetest.House, p *tree.Plan, at string) (above []string) {
	for _, s := range p.Steps {
		for _, sub := range s.SubPlans {
			if !slices.Contains(rowsOf(h, sub), at) {
				continue
			}
			for _, address := range rowsOf(h, p) {
				if strings.HasSuffix(address, "/"+*sub.Record.ToolCallID) {
					above = append(above, address)
				}
			}
			above = append(above, callsAbove(h, sub, at)...)
		}
	}
	return above
}

// TestForkAtEveryRow: from each row of a run with everything in it, another one goes on. Each comes to the end of the
// original; what was before the row is a copy, nothing of which is done again, and which counts in no figure.
func TestForkAtEveryRow(t *testing.T) {
	t.Parallel()
	e := &effects{done: map[string][]string{}}
	h := journey(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	var answering sync.WaitGroup
	answering.Go(func() { answer(ctx, h) })
	defer func() { cancel(); answering.Wait() }()

	h.Work(h.Engine)
	original := h.Start("root", "Travel.")
	p := h.Await(original, record.Completed)
	want, rows := outlineOf(h, p), rowsOf(h, p)

	calls := `SELECT count(*) FROM report.tool_call WHERE root_plan_id = '%s'`
	copies := `SELECT string_agg(forked_from, E'\n') FROM (
		SELECT forked_from FROM actlog.think_act_record WHERE root_plan_id = '%[1]s'
		UNION ALL SELECT forked_from FROM actlog.act_tool_info WHERE root_plan_id = '%[1]s') AS x`
	all := storetest.Query[int](t, h.Store, fmt.Sprintf(calls, original))

	for i, at := range rows {
		id := fork(t, h, original, at, engine.Changes{})
		got := h.Await(id, record.Completed)
		if outline := outlineOf(h, got); outline != want {
			t.Errorf("fork at %s came to another end:\n%s, not\n%s", at, outline, want)
		}

		copied := strings.Split(text(storetest.Query[*string](t, h.Store, fmt.Sprintf(copies, id))), "\n")
		for _, from := range copied {
			if from != "" && !slices.Contains(rows[:i], from) {
				t.Errorf("fork at %s has a copy of %s, which is not before it", at, from)
			}
		}

		for _, before := range rows[:i] {
			isStep, isAbove := strings.HasPrefix(before, "step:"), slices.Contains(callsAbove(h, p, at), before)
			if !isStep && !isAbove && !slices.Contains(copied, before) {
				t.Errorf("fork at %s has no copy of %s, which is before it", at, before)
			}
		}

		copiedCalls := 0
		for _, from := range copied {
			if strings.HasPrefix(from, "call:") {
				copiedCalls++
			}
		}
		if n := storetest.Query[int](t, h.Store, fmt.Sprintf(calls, id)); n != all-copiedCalls {
			t.Errorf("fork at %s counts %d calls, has %d copies of %d", at, n, copiedCalls, all)
		}
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	for name, ids := range e.done {
		if ids = slices.Sorted(slices.Values(ids)); len(slices.Compact(slices.Clone(ids))) < len(ids) {
			t.Errorf("%s was called twice", name)
		}
	}
}

// TestForkChanges: what is changed holds from the row on, and in what the model is told of the rows before.
func TestForkChanges(t *testing.T) {
	t.Parallel()
	say := tool.Func("say", "Says.", func(context.Context, nameArgument) (string, error) { return "said", nil })
	other := tool.Func("other", "Is another.", func(context.Context, nameArgument) (string, error) { return "", nil })
	h := build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(
		[]scriptmodel.ToolCall{call("say", object{"name": "1"})}, []scriptmodel.ToolCall{call("say", object{"name": "2"})},
		terminate("done"))}},
		map[string]define.Definition{"a": {Agent: "a", SystemPrompt: "Be kind.", Tools: []string{"say"}}},
		[]tool.Tool{say, other})
	h.Work(h.Engine)

	id := h.Start("a", "Go.", func(r *engine.Request) { r.Limits = &engine.Limits{ToolCalls: 9} })
	step := h.Step(h.Await(id, record.Completed))
	at := "cycle:" + step.Record.StepID + "/1"

	forked := fork(t, h, id, at, engine.Changes{
		SystemPrompt: new("Be quick."), Temperature: new(0.5), MaxTokens: new(int64(77)), Tools: &[]string{"say", "other"},
		Request: new("Run."), Limits: engine.NewLimits{ToolCalls: new(int64(2))},
		Rows: map[string]engine.RowChange{
			"cycle:" + step.Record.StepID + "/0": {ThinkOutput: new("I would say something.")},
			fmt.Sprintf("call:%s/0/%s", step.Record.StepID, step.Cycles[0].ToolCalls[0].Record.ToolCallID): {
				Result: new("shouted"),
			},
		},
	})
	h.Await(forked, record.Completed)

	var asked struct {
		Messages    json.RawMessage
		Tools       json.RawMessage
		Temperature float64
		MaxTokens   int64 `json:"max_tokens"`
	}

	requests := h.Model.Requests()
	if err := json.Unmarshal(requests[len(requests)-2].Body, &asked); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"Be quick.", `"Run."`, "I would say something.", "shouted"} {
		if !strings.Contains(string(asked.Messages), want) {
			t.Errorf("the model is not told %q:\n%s", want, asked.Messages)
		}
	}
	if strings.Contains(string(asked.Messages), "Be kind.") || strings.Contains(string(asked.Messages), `"said"`) {
		t.Errorf("the model is told what was changed:\n%s", asked.Messages)
	}

	if !strings.Contains(string(asked.Tools), `"other"`) || asked.Temperature != 0.5 {
		t.Errorf("the model is offered %s at %v", asked.Tools, asked.Temperature)
	}
}

// TestForkOfWaits: a fork has taken the events of the calls that it has copies of, so it gets next what its original
// got next.
func TestForkOfWaits(t *testing.T) {
	t.Parallel()
	h := waits(t, object{"event": "e"}, object{"event": "e"}, object{"event": "e"})
	h.Work(h.Engine)
	for n := range 3 {
		send(h, "e", n)
	}

	original := h.Start("a", "Wait.")
	want := results(h, original)
	for _, at := range rowsOf(h, h.Plan(original)) {
		id := fork(t, h, original, at, engine.Changes{})
		if got := results(h, id); !slices.Equal(got, want) {
			t.Errorf("a fork at %s got %q, not %q", at, got, want)
		}
	}
}

// TestForkIsRefused: from what nothing can go on, and what cannot be changed.
func TestForkIsRefused(t *testing.T) {
	t.Parallel()
	bl := newBlocker()
	h := blocking(t, bl, tool.Policy{})
	h.Work(h.Engine)
	id := h.Start("parent", "Go.")
	<-bl.begun

	p := h.Plan(id)
	rows := rowsOf(h, p)
	sub := p.Steps[0].SubPlans[0].Record.CurrentPlanID
	refused := func(planID, at string, c engine.Changes) error {
		_, err := h.Engine.Fork(t.Context(), engine.ForkRequest{PlanID: planID, At: at, Changes: c})
		return err
	}

	var below *runstore.NotRootError
	if err := refused(sub, rows[0], engine.Changes{}); !errors.As(err, &below) {
		t.Errorf("a run below: %v", err)
	}
	if err := refused("nobody", rows[0], engine.Changes{}); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("no run: %v", err)
	}
	storetest.Write(t, h.Store, &record.Plan{RootPlanID: "recorded", CurrentPlanID: "recorded"})
	if err := refused("recorded", rows[0], engine.Changes{}); !errors.Is(err, runstore.ErrNoRun) {
		t.Errorf("what was only recorded: %v", err)
	}

	first := "cycle:" + p.Steps[0].Record.StepID + "/0"
	for _, tt := range []struct {
		at, field string
		c         engine.Changes
	}{
		{at: "", field: "at"}, {at: "plan:" + id, field: "at"},
		{at: "cycle:" + p.Steps[0].Record.StepID + "/99", field: "at"},
		{at: first + "/x", field: "at"}, {at: "step:" + p.Steps[0].Record.StepID + "/0", field: "at"},
		{at: first, field: "changes.model", c: engine.Changes{Model: new("nobody")}},
		{at: first, field: "changes.request", c: engine.Changes{Request: new(" ")}},
		{at: first, field: "changes.tools", c: engine.Changes{Tools: &[]string{"*", "nothing"}}},
		{at: first, field: "changes.rows", c: rowChanges(first, engine.RowChange{ThinkOutput: new("x")})},
		{at: first, field: "changes.rows", c: rowChanges(first, engine.RowChange{Result: new("x")})},
		{at: first, field: "changes.rows", c: rowChanges("wait:x", engine.RowChange{Result: new("x")})},
		{at: first, field: "changes.limits.tokens", c: engine.Changes{Limits: engine.NewLimits{Tokens: new(int64(-1))}}},
	} {
		var invalid *record.InvalidError
		if err := refused(id, tt.at, tt.c); !errors.As(err, &invalid) || invalid.Field != tt.field {
			t.Errorf("%q, %+v: %v", tt.at, tt.c, err)
		}
	}

	close(bl.free)
	h.Await(id, record.Completed)
}

func rowChanges(at string, c engine.RowChange) engine.Changes {
	return engine.Changes{Rows: map[string]engine.RowChange{at: c}}
}

// TestForkReadsMessages: a cycle that read a message reads it again in a fork that makes it anew, also if the agent was
// asked only because of the message; those of cycles before are in their copies, and nobody says them again.
func TestForkReadsMessages(t *testing.T) {
	t.Parallel()
	h := talker(t)
	h.Work(h.Engine)
	original := h.Start("root", "Travel.")
	p := h.Await(original, record.Completed)
	step := h.Step(p)

	id := fork(t, h, original, fmt.Sprintf("cycle:%s/2", step.Record.StepID), engine.Changes{})
	got := h.Await(id, record.Completed)
	if text(got.Record.Summary) != "second answer" {
		t.Errorf("the result is %q", text(got.Record.Summary))
	}
	if read, want := messagesOf(t, h.Step(got)), messagesOf(t, step); !slices.Equal(read, want) {
		t.Errorf("the fork read %q, not %q", read, want)
	}
	if got := said(t, h, id); !slices.Equal(got, []string{"READ And shorter."}) {
		t.Errorf("said to the fork: %q", got)
	}
}

// TestForkHasTakenEvents: an event whose data a copied call has is not taken once more.
func TestForkHasTakenEvents(t *testing.T) {
	t.Parallel()
	h := waits(t, object{"event": "e"}, object{"event": "e", "seconds": 0.01})
	h.Work(h.Engine)
	send(h, "e", "once")
	original := h.Start("a", "Wait.")
	want := []string{`COMPLETED "once"`, `COMPLETED {"timedOut": true}`}
	wantResults(h, original, want...)

	step := h.Step(h.Plan(original)).Record.StepID
	first := fork(t, h, original, fmt.Sprintf("cycle:%s/1", step), engine.Changes{})
	wantResults(h, first, want...)
	step = h.Step(h.Plan(first)).Record.StepID
	wantResults(h, fork(t, h, first, fmt.Sprintf("cycle:%s/2", step), engine.Changes{}), want...)
	wantResults(h, fork(t, h, first, fmt.Sprintf("cycle:%s/0", step), engine.Changes{}), want...)
}

// TestForkBelow: a run below the root in which a fork goes on is of who started the fork, and may use as much more as
// the fork may.
func TestForkBelow(t *testing.T) {
	t.Parallel()
	h := build(t, []scriptmodel.Scene{
		{Name: "child", Match: scriptmodel.Match{System: "Below."}, Turns: calls(terminate("below"))},
		{Name: "root", Turns: calls(
			[]scriptmodel.ToolCall{call("agent.child", object{"request": "Help."})}, terminate("done"),
		)},
	}, map[string]define.Definition{
		"root":  {Agent: "root", SystemPrompt: "Root.", Tools: []string{"agent.child"}},
		"child": {Agent: "child", SystemPrompt: "Below."},
	}, nil)

	h.Work(h.Engine)
	original := h.Start("root", "Go.", func(r *engine.Request) {
		r.Limits, r.Starter = &engine.Limits{Tokens: 100_000}, "ann"
	})
	p := h.Await(original, record.Completed)
	row := "cycle:" + p.Steps[0].SubPlans[0].Steps[0].Record.StepID + "/0"

	started, err := h.Engine.Fork(t.Context(), engine.ForkRequest{
		PlanID: original, At: row, Starter: "ben",
		Changes: engine.Changes{Limits: engine.NewLimits{Tokens: new(int64(150_000))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Await(started.PlanID, record.Completed)

	starter := `SELECT starter FROM actlog.run WHERE root_plan_id = '%s' AND depth = 1`
	if who := storetest.Query[string](t, h.Store, fmt.Sprintf(starter, started.PlanID)); who != "ben" {
		t.Errorf("the run below is of %q", who)
	}
	tokens := `SELECT (limits ->> 'tokens')::bigint FROM actlog.run WHERE root_plan_id = '%s' AND depth = 1`
	was := storetest.Query[int64](t, h.Store, fmt.Sprintf(tokens, original))
	if is := storetest.Query[int64](t, h.Store, fmt.Sprintf(tokens, started.PlanID)); is != was+50_000 {
		t.Errorf("the run below may use %d tokens, in the original %d", is, was)
	}
}

// TestRetryOfFork: what a fork has copies of is not counted against a limit that ended it.
func TestRetryOfFork(t *testing.T) {
	t.Parallel()
	say := tool.Func("say", "Says.", func(context.Context, nameArgument) (string, error) { return "said", nil })
	h := build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(
		[]scriptmodel.ToolCall{call("say", object{"name": "1"})}, []scriptmodel.ToolCall{call("say", object{"name": "2"})},
		terminate("done"))}}, map[string]define.Definition{"a": {Tools: []string{"say"}}}, []tool.Tool{say})

	h.Work(h.Engine)
	id := h.Start("a", "Go.")
	at := "cycle:" + h.Step(h.Await(id, record.Completed)).Record.StepID + "/1"
	one, two := engine.NewLimits{ToolCalls: new(int64(1))}, engine.NewLimits{ToolCalls: new(int64(2))}

	forked := fork(t, h, id, at, engine.Changes{Limits: one})
	if p := h.Ended(forked); text(p.Record.ErrorKind) != engine.LimitToolCalls {
		t.Fatalf("it ended as %s", text(p.Record.ErrorKind))
	}
	retry(t, h.Engine, forked, two)
	h.Await(forked, record.Completed)
}
