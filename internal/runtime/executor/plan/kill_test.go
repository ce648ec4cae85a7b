package plan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/plan"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// TestKilledAtEveryWrite kills the worker before and after each write of a run, and lets each write fail: of
// a task that is planned, of one that is planned step by step, and of a template. It checks that the run
// comes to the same end: the same rows, and no effect twice.
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	write := step("words.effect", object{"word": "a"})
	steps := []object{step("words.produce", object{"n": 1}), write, step("words.fail", object{"word": "oh"}), write}
	for name, tt := range map[string]struct {
		request engine.Request
		turns   []scriptmodel.Turn
		want    string
	}{
		"static": {
			request("", object{"task": "Do it", "constraints": object{"abort_on_error": false}}), says(planned(steps...)),
			"5 conclusion: Task failed. Executed 4 operations. Artifacts: [last, typed] (0.5)",
		},
		"iterative": {request("", object{"task": "Do it", "constraints": object{"iterative": true}}),
			byHistory([]any{object{"step": steps[0]}, object{"step": write}, object{"done": true}}),
			"3 conclusion: Task completed successfully. Executed 2 operations. Artifacts: [last, typed] (1)"},
		"template": {request("nightly", object{"path": "main.go"}), enginetest.Calls(
			[]scriptmodel.ToolCall{enginetest.Call("words.effect", object{"word": "a"})}, enginetest.Terminate("It is read.")),
			"It is read."},
	} {
		carry := func(t *testing.T, disturb func(*enginetest.House)) string {
			t.Helper()
			var effects sync.Map
			effect := tool.CallFunc("words.effect", "Has an effect.",
				func(_ context.Context, c tool.Call, in word) (string, error) {
					if _, twice := effects.LoadOrStore(c.ID, true); twice {
						t.Error("an effect twice")
					}
					return in.Word, nil
				}, tool.WithPolicy(tool.Policy{Writes: true}))
			h := enginetest.Build(t, enginetest.Plans{
				Scenes: []scriptmodel.Scene{{Name: "plan", Turns: tt.turns}}, Tools: append([]tool.Tool{effect}, words...),
				Definitions: map[string]any{"role.DEVELOPER": role("words.*"), "plan.nightly": nightly()},
				Executors:   []engine.Executor{plan.Executor{}, thinkact.Executor{}},
			})

			disturb(h)
			h.Work(h.Engine)
			started, err := h.Engine.Start(t.Context(), tt.request)
			if err != nil {
				t.Fatal(err)
			}
			d := ended(h, started.PlanID)

			var b strings.Builder
			fmt.Fprintf(&b, "%s %s\n%s", *d.plan.Record.State, text(d.plan.Record.Summary), d.log())
			for _, st := range d.plan.Steps {
				fmt.Fprintf(&b, "step %s %s\n", text(st.Record.AgentName), *st.Record.State)
			}

			for _, st := range d.plan.Steps {
				p := *d.plan
				p.Steps = p.Steps[:0:0]
				p.Steps = append(p.Steps, st)

				for _, c := range h.Step(&p).Cycles {
					fmt.Fprintf(&b, "cycle %d %s\n", c.Record.Seq, *c.Record.State)
					for _, call := range c.ToolCalls {
						fmt.Fprintf(&b, " %s %s %s\n", *call.Record.Name, *call.Record.State, text(call.Record.Result))
					}
				}
			}
			for _, a := range d.artifacts {
				fmt.Fprintf(&b, "artifact %s %s\n", a.Name, a.Value)
			}
			return b.String()
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := enginetest.AtEveryWrite(t, carry, func(t *testing.T, got, want string) {
				t.Helper()
				// Of an effect that was under way nobody can say how it ended: what follows says so, too.
				if got != want && !strings.Contains(got, "words.effect UNKNOWN") {
					t.Errorf("it came to another end:\n%s\nwant:\n%s", got, want)
				}
			})
			if !strings.Contains(want, tt.want) {
				t.Fatalf("undisturbed:\n%s", want)
			}
		})
	}
}

func request(name string, input object) engine.Request {
	b, _ := json.Marshal(input)
	return engine.Request{Executor: "plan", Name: name, Input: b}
}

// nightly is a template of two steps.
func nightly() define.PlanDefinition {
	agent := define.Definition{
		Agent: "reader", Model: define.DefinitionModel{Name: "default"}, Tools: []string{"words.*"}, EnableWrite: true,
	}
	critic := agent
	critic.Agent = "critic"
	return define.PlanDefinition{Title: "Nightly for <<path>>", Placeholders: []string{"path"},
		Steps: []define.PlanStepDefinition{
			{Request: "Read <<path>> for <<planId>>.", Agent: agent}, {Request: "Judge <<path>>.", Agent: critic},
		}}
}

// B38: the agents of a template do its steps in order, in one plan. Placeholders have their values, and each
// agent is told what those before it answered.
func TestTemplate(t *testing.T) {
	t.Parallel()
	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{
			{
				Name: "critic", Match: scriptmodel.Match{User: "Judge main.go."},
				Turns: enginetest.Calls(enginetest.Terminate("It is good.")),
			},
			{
				Name: "reader", Match: scriptmodel.Match{User: "Read main.go"},
				Turns: enginetest.Calls(enginetest.Terminate("It prints.")),
			},
			{Name: "root", Match: scriptmodel.Match{User: "Do it all."}, Turns: enginetest.Calls(
				[]scriptmodel.ToolCall{enginetest.Call("plan.nightly", object{"path": "main.go"})}, enginetest.Terminate("done"))},
		}, Tools: words, Executors: []engine.Executor{plan.Executor{}, thinkact.Executor{}}, Definitions: map[string]any{
			"plan.nightly": nightly(),
			"agent.root": define.Definition{
				Model: define.DefinitionModel{Name: "default"}, Tools: []string{"plan.nightly"}, EnableWrite: true,
			},
		},
	})

	h.Work(h.Engine)
	started, err := h.Engine.Start(t.Context(), request("nightly", object{"path": "main.go"}))
	if err != nil {
		t.Fatal(err)
	}
	p := h.Await(started.PlanID, record.Completed)
	if text(p.Record.Summary) != "It is good." || text(p.Record.Title) != "Nightly for main.go" ||
		text(p.Record.Name) != "nightly" || len(p.Steps) != 2 {
		t.Fatalf("p.Record = %+v", p.Record)
	}

	if got := text(p.Steps[0].Record.AgentRequest); got != "Read main.go for "+started.PlanID+"." ||
		text(p.Steps[0].Record.AgentName) != "reader" {
		t.Errorf("step 1 is asked %q", got)
	}
	if got := text(p.Steps[1].Record.AgentRequest); !strings.HasPrefix(got, "Judge main.go.") ||
		!strings.Contains(got, "It prints.") {
		t.Errorf("step 2 is asked %q", got)
	}

	// As a tool, it is a plan below the one that calls it.
	root := h.Await(h.Start("root", "Do it all."), record.Completed)
	if sub := root.Steps[0].SubPlans; len(sub) != 1 || text(sub[0].Record.Summary) != "It is good." ||
		text(sub[0].Record.Executor) != "plan" {
		t.Errorf("sub = %+v", sub)
	}

	for _, tt := range []struct {
		input object
		field string
	}{{object{}, "input.path"}, {object{"path": 1}, "input"}, {object{"path": "a", "more": "b"}, "input.more"}} {
		_, err := h.Engine.Start(t.Context(), request("nightly", tt.input))
		if err == nil || !strings.HasPrefix(err.Error(), tt.field+" ") && !strings.Contains(err.Error(), tt.field) {
			t.Errorf("%v: %v", tt.input, err)
		}
	}
}
