package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// turn is an answer that calls tools.
func turn(calls ...scriptmodel.ToolCall) scriptmodel.Turn { return scriptmodel.Turn{ToolCalls: calls} }

// repairing are tools of which one wants to be called right.
func repairing(committed func(id, message string)) []tool.Tool {
	return append(tools(committed), tool.Func("git.stage", "Stages.", func(_ context.Context, in query) (string, error) {
		if in.Query != "main.go" {
			return "", errors.New("there is no file " + in.Query + ", but main.go")
		}
		return "staged", nil
	}, tool.WithPolicy(tool.Policy{Writes: true})))
}

// twoSteps is a run whose first step takes some turns, and whose second depends on it.
func twoSteps(turns ...scriptmodel.Turn) []scriptmodel.Scene {
	return scenes([]scriptmodel.Turn{says(plan(step(1, "GIT", "Work"), step(2, "GIT", "After", 1)))},
		map[string][]scriptmodel.Turn{
			"Work": turns, "After": calls("git.status", object{}),
		})
}

// A step may take several rounds: the agent reads what failed, and repairs it. Its answer is the result, of which later
// steps are told.
func TestStepOfSeveralRounds(t *testing.T) {
	t.Parallel()
	stage := func(file string) scriptmodel.ToolCall { return enginetest.Call("git.stage", query{file}) }
	status := enginetest.Call("git.status", object{})
	rejectA := func(w *record.Wait) decision.Decision {
		d := accept(w)
		if d.Decision == decision.Approve {
			d.Decision = decision.Reject
		}
		return d
	}

	for name, row := range map[string]struct {
		turns []scriptmodel.Turn
		as    human
		want  []string
	}{
		"reads, fails, repairs": {
			[]scriptmodel.Turn{turn(status), turn(stage("mian.go")), turn(stage("main.go")), says("Staged main.go.")}, accept,
			[]string{"COMPLETED", "cycle 0 COMPLETED", "git.stage FAILED there is no file mian.go", "git.stage COMPLETED staged",
				"step 0 GIT COMPLETED: Staged main.go.", "step 1 GIT COMPLETED"},
		},
		"calls two at once": {
			[]scriptmodel.Turn{turn(status, stage("main.go")), says("Both.")}, accept,
			[]string{"git.status COMPLETED clean\n  git.stage COMPLETED staged\n cycle 1", "step 0 GIT COMPLETED: Both."},
		},
		"every call fails": {
			[]scriptmodel.Turn{turn(stage("x")), turn(stage("y")), says("All is done.")}, accept,
			[]string{"FAILED 1 of 2 steps failed.", "step 0 GIT FAILED:  there is no file y", "step 1 GIT SKIPPED"},
		},
		"says that it failed": {
			[]scriptmodel.Turn{turn(status), says("FAILED: nothing to stage.")}, accept,
			[]string{"step 0 GIT FAILED:  nothing to stage.", "step 1 GIT SKIPPED"},
		},
		"a rejected call in the second round": {
			[]scriptmodel.Turn{turn(stage("main.go")), turn(enginetest.Call("git.commit", query{"A"})), says("never")}, rejectA,
			[]string{"COMPLETED \n", "git.stage COMPLETED", "step 0 GIT SKIPPED:  A human rejected this call.",
				"step 1 GIT SKIPPED"},
		},
		"another call of the round of a rejected one": {
			[]scriptmodel.Turn{turn(enginetest.Call("git.commit", query{"A"}), status), says("never")}, rejectA,
			[]string{"git.status COMPLETED clean", "step 0 GIT SKIPPED"},
		},
		"uses all rounds": {
			[]scriptmodel.Turn{turn(status), turn(stage("main.go")), says("That far.")}, accept,
			[]string{"step 0 GIT COMPLETED: That far."},
		},
		"calls on after all rounds": {
			[]scriptmodel.Turn{turn(status), turn(stage("main.go")), turn(stage("main.go")), says("That far.")}, accept,
			[]string{"git.stage FAILED You have used all of your rounds", "step 0 GIT COMPLETED: That far."},
		},
		"never answers": {
			[]scriptmodel.Turn{turn(status), turn(stage("main.go")), turn(status), turn(status)}, accept,
			[]string{"step 0 GIT FAILED:  The agent used all of its 2 rounds", "step 1 GIT SKIPPED"},
		},
		"only talks": {
			[]scriptmodel.Turn{says("I will."), says("Soon."), says("Now.")}, accept,
			[]string{"step 0 GIT FAILED:  The agent called no tool"},
		},
		"says nothing": {
			[]scriptmodel.Turn{turn(status), says(" "), says("At last.")}, accept, []string{"step 0 GIT COMPLETED: At last."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := definition(func(o *define.Orchestrator) {
				if strings.Contains(name, "all rounds") || name == "never answers" {
					git := o.Agents["GIT"]
					git.MaxRounds = 2
					o.Agents["GIT"] = git
				}
			})

			h := build(t, d, twoSteps(row.turns...), repairing(nothing))
			h.Work(h.Engine)
			story := h.story(h.ended(h.start(object{"request": "Do it"}), row.as))
			for _, part := range row.want {
				if !strings.Contains(story, part) {
					t.Errorf("it lacks %q:\n%s", part, story)
				}
			}
		})
	}
}

// An agent that does the same again and again, with the same results, begins again from a summary.
func TestStepThatRepeats(t *testing.T) {
	t.Parallel()
	status := turn(enginetest.Call("git.status", object{}))
	summarises := scriptmodel.Scene{
		Name: "summary", Match: scriptmodel.Match{User: "Summarise the work so far"},
		Turns: []scriptmodel.Turn{says("It is clean.")},
	}
	begins := scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		if strings.Contains(string(r.Messages[len(r.Messages)-1].Content), "A summary of your work so far") {
			return says("Enough."), nil
		}
		return status, nil
	}}
	all := append([]scriptmodel.Scene{summarises}, twoSteps(begins, status, status)...)

	h, p := run(t, definition(nil), all, accept)
	summaries := 0
	for _, r := range h.Model.Requests() {
		if strings.Contains(string(r.Body), "Summarise the work so far") {
			summaries++
		}
	}

	if story := h.story(p); summaries != 1 || !strings.Contains(story, "step 0 GIT COMPLETED: Enough.") {
		t.Errorf("%d summaries\n%s", summaries, story)
	}
}

// The worker is killed before and after each write of a step of several rounds, with a repair and an approval: the run
// comes to the same end, and no effect happens twice.
func TestRoundsKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	carry := func(t *testing.T, disturb func(*enginetest.House)) string {
		t.Helper()
		var effects sync.Map
		once := func(id, _ string) {
			if _, twice := effects.LoadOrStore(id, true); twice {
				t.Error("an effect twice")
			}
		}

		status := enginetest.Call("git.status", object{})
		h := build(t, definition(nil), twoSteps(
			turn(status, enginetest.Call("git.stage", query{"mian.go"})), turn(enginetest.Call("git.stage", query{"main.go"})),
			turn(enginetest.Call("git.commit", query{"A"}), status), says("Committed A.")), repairing(once))
		disturb(h.House)
		h.Work(h.Engine)
		return h.story(h.ended(h.start(object{"request": "Do it"}), accept))
	}

	want := enginetest.AtEveryWrite(t, carry, func(t *testing.T, got, want string) {
		t.Helper()
		if got != want && !strings.Contains(got, " UNKNOWN ") {
			t.Errorf("it came to another end:\n%s\nwant:\n%s", got, want)
		}
	})
	if !strings.Contains(want, "step 0 GIT COMPLETED: Committed A.") {
		t.Errorf("want = %v", want)
	}
}

// What is pinned of agents says how many rounds they have: their own, else those of the section, else the default.
func TestMaxRounds(t *testing.T) {
	t.Parallel()
	rounds := func(d define.OrchestratorDefinition) map[string]int {
		all := map[string]int{}
		for _, a := range d.Agents {
			all[a.Agent] = a.MaxSteps
		}
		return all
	}

	if got := rounds(definition(nil)); got["GIT"] != 6 || got["REFACTORING"] != 6 {
		t.Errorf("rounds(definition(nil)) = %v", got)
	}
	got := rounds(definition(func(o *define.Orchestrator) {
		git := o.Agents["GIT"]
		o.MaxRounds, git.MaxRounds = 9, 3
		o.Agents["GIT"] = git
	}))
	if got["GIT"] != 3 || got["REFACTORING"] != 9 {
		t.Errorf("rounds = %v", got)
	}

	b, _ := json.Marshal(definition(nil))
	if !strings.Contains(string(b), `"maxSteps":6`) {
		t.Errorf("json.Marshal(definition(nil)) = %s", b)
	}
}
