package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// effects counts what tools did, by the ids of their calls.
type effects struct {
	mu   sync.Mutex
	done map[string][]string // by tool
}

// tool returns a tool that has an effect.
func (e *effects) tool(name string, p tool.Policy) tool.Tool {
	return tool.CallFunc(name, "Has an effect.", func(_ context.Context, c tool.Call, in nameArgument) (string, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.done[name] = append(e.done[name], c.ID)
		return name + " " + in.Name, nil
	}, tool.WithPolicy(p))
}

// journey is a run with everything in it: parallel calls, an approval, a form, sub-agents.
func journey(t *testing.T, e *effects) *enginetest.House {
	t.Helper()
	return build(t, []scriptmodel.Scene{
		{Name: "deep", Match: scriptmodel.Match{System: "Deep."}, Turns: calls(
			[]scriptmodel.ToolCall{call("once", object{"name": "deep"})}, terminate("deep answer"))},
		{Name: "child", Match: scriptmodel.Match{System: "Child."}, Turns: calls(
			[]scriptmodel.ToolCall{call("agent.deep", object{"request": "Go on."}), call("again", object{"name": "child"})},
			terminate("child answer"))},
		{Name: "root", Match: scriptmodel.Match{System: "Root."}, Turns: calls(
			[]scriptmodel.ToolCall{call("once", object{"name": "a"}), call("again", object{"name": "b"})},
			[]scriptmodel.ToolCall{call("pay", object{"name": "c"})},
			[]scriptmodel.ToolCall{
				call("form", object{"title": "City?", "inputs": []object{{"label": "City", "name": "city"}}}),
			},
			[]scriptmodel.ToolCall{
				call("agent.child", object{"request": "Help."}), call("agent.child", object{"request": "Help, too."}),
			},
			terminate("root answer"))},
	}, map[string]define.Definition{
		"root":  {SystemPrompt: "Root.", Tools: []string{"once", "again", "pay", "form", "agent.child"}},
		"child": {SystemPrompt: "Child.", Tools: []string{"agent.deep", "again"}},
		"deep":  {SystemPrompt: "Deep.", Tools: []string{"once"}},
	}, []tool.Tool{
		e.tool("once", tool.Policy{Writes: true}), e.tool("again", tool.Policy{OnUnknown: tool.Retry}),
		e.tool("pay", tool.Policy{Approval: true}),
	})
}

// answer decides all waits until ctx ends.
func answer(ctx context.Context, h *enginetest.House) {
	for ctx.Err() == nil {
		for _, w := range h.Waits() {
			state, decision := record.Submitted, "submit"
			if *w.Type == record.WaitActionValidation {
				state, decision = record.Approved, "approve"
			}

			if err := h.Decide(w, state, decision, "Oslo"); err != nil && ctx.Err() == nil &&
				!strings.Contains(err.Error(), "decided before") {
				h.T.Error(err)
			}
		}
	}
}

// outline says what a tree did, without times and ids. Calls whose outcome is unknown are marked.
func outlineOf(h *enginetest.House, p *tree.Plan) string {
	var b strings.Builder
	var write func(p *tree.Plan, indent string)
	write = func(p *tree.Plan, indent string) {
		fmt.Fprintf(&b, "%splan %s %s %q\n", indent, text(p.Record.Name), *p.Record.State, text(p.Record.Summary))
		for _, st := range p.Steps {
			fmt.Fprintf(&b, "%s step %s %q\n", indent, *st.Record.State, text(st.Record.Result))
			for _, c := range h.Step(p).Cycles {
				fmt.Fprintf(&b, "%s  cycle %d %s\n", indent, c.Record.Seq, *c.Record.State)
				for _, t := range c.ToolCalls {
					fmt.Fprintf(&b, "%s   %d %s %s %q\n", indent, *t.Record.CallIndex, text(t.Record.Name), *t.Record.State,
						text(t.Record.Result))
				}
			}
			for _, sub := range st.SubPlans {
				write(sub, indent+"    ")
			}
		}
	}

	write(p, "")
	return b.String()
}

// TestKilledAtEveryWrite kills the worker before and after each write of a run, and lets each write
// fail. It checks that the run comes to the same end: the same answer, the same rows, no effect twice.
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	want := enginetest.AtEveryWrite(t, func(t *testing.T, disturb func(*enginetest.House)) string {
		t.Helper()
		e := &effects{done: map[string][]string{}}
		h := journey(t, e)
		disturb(h)

		ctx, cancel := context.WithCancel(t.Context())
		var answering sync.WaitGroup
		answering.Go(func() { answer(ctx, h) })
		defer func() { cancel(); answering.Wait() }()
		h.Work(h.Engine)
		p := h.Await(h.Start("root", "Travel."), record.Completed)

		var open int
		if err := h.DB.Pool.QueryRow(t.Context(),
			"SELECT count(*) FROM actlog.run WHERE NOT done OR worker_id IS NOT NULL").Scan(&open); err != nil || open > 0 {
			t.Errorf("%d runs are open, %v", open, err)
		}
		var waits int
		if err := h.DB.Pool.QueryRow(t.Context(), "SELECT count(*) FROM actlog.wait_state").Scan(&waits); err != nil ||
			waits != 2 {
			t.Errorf("%d waits, want 2, %v", waits, err)
		}

		e.mu.Lock()
		defer e.mu.Unlock()
		for name, ids := range e.done {
			if ids = slices.Sorted(slices.Values(ids)); len(slices.Compact(slices.Clone(ids))) < len(ids) && name != "again" {
				t.Errorf("%s was called twice", name)
			}
		}
		return outlineOf(h, p)
	}, func(t *testing.T, got, want string) {
		t.Helper()
		if len(unknownLines(got)) > 0 {
			got = known(got, want)
		}
		if got != want {
			t.Errorf("it came to another end:\n%s", got)
		}
	})

	if !strings.Contains(want, "root answer") || !strings.Contains(want, `form COMPLETED "{\"city\":\"Oslo\"}"`) ||
		strings.Count(want, "plan deep") != 2 {
		t.Fatalf("undisturbed:\n%s", want)
	}
}

// unknownLines returns the lines of calls whose outcome is unknown.
func unknownLines(outline string) (lines []int) {
	for i, line := range strings.Split(outline, "\n") {
		if strings.Contains(line, " once UNKNOWN ") || strings.Contains(line, " pay UNKNOWN ") {
			lines = append(lines, i)
		}
	}
	return lines
}

// known replaces the lines of calls whose outcome is unknown by those that were expected.
func known(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, i := range unknownLines(got) {
		if i < len(w) {
			g[i] = w[i]
		}
	}
	return strings.Join(g, "\n")
}

// TestNothingIsDoneAgain checks that a run that was done is not done again when it is claimed again.
func TestNothingIsDoneAgain(t *testing.T) {
	t.Parallel()
	e := &effects{done: map[string][]string{}}
	h := journey(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	var answering sync.WaitGroup
	answering.Go(func() { answer(ctx, h) })
	defer func() { cancel(); answering.Wait() }()

	stop := h.Work(h.Engine)
	id := h.Start("root", "Travel.")
	h.Await(id, record.Completed)
	stop()
	asked, effects := len(h.Model.Requests()), fmt.Sprint(e.done)
	if _, err := h.DB.Pool.Exec(t.Context(), `UPDATE actlog.run SET done = false, due_at = now() WHERE plan_id = $1`,
		id); err != nil {
		t.Fatal(err)
	}

	h.Work(h.NewEngine(nil))
	storetest.Until(t, "run "+id+" is done", func() (done bool) {
		if err := h.DB.Pool.QueryRow(
			t.Context(), "SELECT done FROM actlog.run WHERE plan_id = $1", id,
		).Scan(&done); err != nil {
			t.Fatal(err)
		}
		return done
	})

	if n := len(h.Model.Requests()); n != asked {
		t.Errorf("the model was asked %d times more", n-asked)
	}
	if now := fmt.Sprint(e.done); now != effects {
		t.Errorf("effects: %s, then %s", effects, now)
	}
}

// TestOtherCode checks that code which does not fit the record parks the run, and says where.
func TestOtherCode(t *testing.T) {
	t.Parallel()
	e := &effects{done: map[string][]string{}}
	h := journey(t, e)
	stop := h.Work(h.Engine)
	id := h.Start("root", "Travel.")
	for len(h.Waits()) == 0 {
	}
	stop()

	// As if the step had been recorded by code that called another agent.
	if _, err := h.DB.Pool.Exec(t.Context(),
		`UPDATE actlog.agent_execution_record SET agent_name = 'other' WHERE shown_plan_id = $1`, id); err != nil {
		t.Fatal(err)
	}
	for _, w := range h.Waits() {
		if err := h.Decide(w, record.Approved, "approve", ""); err != nil {
			t.Fatal(err)
		}
	}

	h.Work(h.NewEngine(nil))
	h.Await(id, record.Paused)
	d, err := h.Runs.Reader.RunDetail(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if text(d.Plan.ErrorKind) != runstore.RecordMismatch || !strings.Contains(text(d.Plan.ErrorMessage), `"other"`) {
		t.Errorf("%s: %s", text(d.Plan.ErrorKind), text(d.Plan.ErrorMessage))
	}
}
