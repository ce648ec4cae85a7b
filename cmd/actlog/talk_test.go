package main

import (
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// F9: a step is shown as a talk: who said what, in the lines in which it was said, and only what the cycle before did
// not have. F5: cycles count from 1, and the address is there to copy.
func TestShowTalk(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	const long = "Answer from the files of the folder and from nothing else, in one sentence, and name the file in " +
		"which you have read it, always."
	first := `{"role":"system","content":"` + long + `"},{"role":"user","content":"Which?\n  - lamps\n  - chairs"}`

	storetest.Write(t, s,
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p", State: new(record.Completed)},
		&record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "s", AgentName: new("analyst"), AgentRequest: new("Which?"),
			State: new(record.Completed),
		},
		&record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: 0, ThinkInput: new("[" + first + "]"),
			ThinkOutput: new("I look."),
			Message: []byte(
				`{"role":"assistant","parts":[{"text":"I look."},{"call":{"id":"c1","name":"read","arguments":"{}"}}],"provider":"x","raw":{"content":"I look."}}`,
			)},
		&record.ActTool{
			RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t", Name: new("read"), ProviderCallID: new("c1"),
			Parameters: new(`{"path":"a.csv"}`), Result: new("lamp,31\n\tchair,3\x1b[31m"),
		},
		&record.ThinkAct{RootPlanID: "p", StepID: "s", Seq: 1, ThinkOutput: new("Lamps (a.csv)."),
			ThinkInput: new("[" + first +
				`,{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"files-read","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"lamp,31"},{"role":"user","content":"Sure?"}]`)},
	)

	out := must(t, "show", "p", "--step", "s", "--server", url)

	wantAll(t, out,
		"cycle 1  ", "\n  at cycle:s/0\n",
		"  system: Answer from the files of the folder and from nothing else, in one sentence, and name the\n"+
			"          file in which you have read it, always.\n",
		"  user: Which?\n          - lamps\n          - chairs\n",
		"  assistant: I look.\n",
		"  → read  {\"path\":\"a.csv\"}", "\n    lamp,31\n        chair,3[31m\n",
		"cycle 2  ", "\n  at cycle:s/1\n", "  user: Sure?\n", "messages from before)\n", "  assistant: Lamps (a.csv).\n",
	)

	wantNone(t, out, "#0", "provider", "raw", "tool_calls", `"role"`)
	if strings.Count(out, "Answer from the files") != 1 || strings.Count(out, "lamp,31") != 1 {
		t.Errorf("a message stands twice:\n%s", out)
	}
}

// F9: what a graph's nodes are called is shown, not their ids.
func TestShowNodes(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)
	step := func(index int64, agent, description string) *record.AgentExecution {
		return &record.AgentExecution{
			RootPlanID: "p", PlanID: "p", StepID: "s-" + agent, StepIndex: &index, AgentName: &agent,
			AgentDescription: &description, State: new(record.Failed), Metadata: []byte(`{"node":"x"}`),
		}
	}

	storetest.Write(t, s,
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p", Executor: new("dag"), State: new(record.Failed)},
		step(0, "planner", "Plans the graph"), step(1, "node_0", "Rate tea"))
	out := must(t, "show", "p", "--server", url)
	wantAll(t, out, "planner  FAILED", "└─ Rate tea  FAILED")
	wantNone(t, out, "Plans the graph", "─ node_0")

	out = must(t, "show", "p", "--step", "s-node_0", "--server", url)
	wantAll(t, out, "Rate tea  FAILED")
	wantNone(t, out, "node_0  ")
	if out = must(t, "show", "p", "--step", "s-planner", "--server", url); !strings.HasPrefix(out, "planner  FAILED") {
		t.Errorf("show = %v", out)
	}

	storetest.Write(t, s,
		&record.ActTool{RootPlanID: "p", StepID: "s-node_0", ToolCallID: "t"},
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "below", ParentPlanID: new("p"), ToolCallID: new("t"), Executor: new("dag"),
		},
		&record.AgentExecution{
			RootPlanID: "p", PlanID: "below", StepID: "s-below", StepIndex: new(int64(1)), AgentName: new("node_1"),
			AgentDescription: new("Brew tea"),
		},
		&record.AgentExecution{RootPlanID: "p", PlanID: "below", StepID: "s-nameless"})

	wantAll(t, must(t, "show", "p", "--step", "s-below", "--server", url), "Brew tea")
	wantAll(t, must(t, "show", "p", "--step", "s-nameless", "--server", url), "s-nameless")

	c := &client{base: url}
	table, err := c.result(t.Context(), &runView{PlanID: "p", RootPlanID: "p", Executor: "dag", Result: []byte(`{}`)}, 30)
	if want := "NODE      STATE   RESULT\nRate tea  FAILED\n"; table != want || err != nil {
		t.Errorf("table = %q, %v", table, err)
	}

	if cause := body(t, url+"/api/v1/plans/p/failures"); !strings.Contains(cause, `"name":"Rate tea"`) {
		t.Errorf("cause = %v", cause)
	}
}

// F7: what is to be approved is shown whole and safely, by show, by answer --list, and where one of several has to be
// named.
func TestApprovalsAreShown(t *testing.T) {
	t.Parallel()
	url, s := serve(t, apitest.Config{}, nil)

	storetest.Write(t, s,
		&record.Plan{RootPlanID: "p", CurrentPlanID: "p", State: new(record.Waiting)},
		&record.ActTool{RootPlanID: "p", StepID: "s", Seq: 0, ToolCallID: "t", Name: new("agent")},
		&record.Plan{
			RootPlanID: "p", CurrentPlanID: "sub", ParentPlanID: new("p"), ToolCallID: new("t"), State: new(record.Waiting),
		},
		&record.Wait{
			RootPlanID: "p", PlanID: "sub", WaitID: "w1", Type: new(record.WaitActionValidation),
			Title: new("May git.push run?"),
			Subject: []byte(`{"name":"git.push","parameters":{"hidden":"a` + "\u202e" +
				`b","remote":"evil\u202e\u001b[2J","note":"one\n\n  two"},"files":["a.go"]}`),
		},
		&record.Wait{
			RootPlanID: "p", PlanID: "p", WaitID: "w2", Type: new(record.WaitUserInput), Title: new("Where?"),
			FormInputs: []byte(`[{"label":"Region","type":"select","options":"EMEA,APAC"}]`),
		},
	)

	out := must(t, "show", "p", "--server", url)
	wantAll(t, out, "Where?  w2", "  field Region (of EMEA, APAC)", "May git.push run?  w1", `"hidden": "a\u202eb"`,
		`"remote": "evil\u202e\u001b[2J"`, "  note:\n    one\n    \n      two\n", "files: a.go")
	wantNone(t, out, "\u202e", "\x1b", "genericInput")
}
