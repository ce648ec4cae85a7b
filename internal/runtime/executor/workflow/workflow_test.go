package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	executor "github.com/actlog/actlog/internal/runtime/executor/workflow"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type object = enginetest.Object

var (
	call = enginetest.Call
	text = enginetest.Text
)

// says is a turn with a text alone, which is a final answer.
func says(text string) scriptmodel.Turn { return scriptmodel.Turn{Content: text} }

func callsTo(calls ...scriptmodel.ToolCall) scriptmodel.Turn {
	return scriptmodel.Turn{ToolCalls: calls}
}

// scene is what an agent says whose system prompt is its name.
func scene(name string, turns ...scriptmodel.Turn) scriptmodel.Scene {
	return scriptmodel.Scene{Name: name, Match: scriptmodel.Match{System: "You are " + name + "."}, Turns: turns}
}

var echo = tool.Func("echo", "Says it again.", func(_ context.Context, in struct {
	Text string `json:"text"`
}) (string, error) {
	if in.Text == "fail" {
		return "", errors.New("it broke")
	}
	return in.Text, nil
})

// functions are custom workflows by name.
type functions map[string]workflow.Func

func (f functions) of(name string) (workflow.Func, bool) { call, ok := f[name]; return call, ok }

// house has agents, workflows and functions.
func house(t *testing.T, definitions map[string]any, calls functions, scenes ...scriptmodel.Scene) *enginetest.House {
	t.Helper()
	for id, d := range definitions {
		name, ok := strings.CutPrefix(id, "agent.")
		if !ok {
			continue
		}

		a := d.(define.Definition)
		a.Agent, a.Model.Name = name, "default"
		a.EnableWrite = true
		if a.SystemPrompt == "" {
			a.SystemPrompt = "You are " + name + "."
		}
		definitions[id] = a
	}

	h := enginetest.Build(t, enginetest.Plans{
		Scenes: scenes, Definitions: definitions, Tools: []tool.Tool{echo},
		Executors: []engine.Executor{executor.Executor{Functions: calls.of}},
		Servers:   []string{"other", "other-side"},
	})
	h.Work(h.Engine)
	return h
}

// start starts a run.
func start(t *testing.T, h *enginetest.House, input any, set ...func(*engine.Request)) string {
	t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}

	r := engine.Request{Executor: "workflow", Input: raw}
	for _, f := range set {
		f(&r)
	}
	started, err := h.Engine.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return started.PlanID
}

// run carries a run to its end and reads its result.
func run(t *testing.T, h *enginetest.House, input, result any, set ...func(*engine.Request)) *record.Plan {
	t.Helper()
	p := h.Ended(start(t, h, input, set...))
	if err := json.Unmarshal([]byte(text(p.Record.Summary)), result); err != nil {
		t.Fatalf("%s %q: the result is %q: %v", *p.Record.State, text(p.Record.ErrorMessage), text(p.Record.Summary), err)
	}
	return &p.Record
}

func in(session string) func(*engine.Request) {
	return func(r *engine.Request) { r.ConversationID = session }
}

// TestAgent checks turns of an agent until its final answer.
//
// D2, D9, D10: the calls of a turn are made in order, their results are appended, and a text without calls is
// the answer. D13: the result.
func TestAgent(t *testing.T) {
	t.Parallel()
	h := house(t, map[string]any{"agent.a": define.Definition{Tools: []string{"echo"}}}, nil,
		scene("a", callsTo(call("echo", object{"text": "one"}), call("echo", object{"text": "two"})), says("One, two.")))
	var r workflow.AgentResult
	p := run(t, h, object{"agent": "a", "user_message": "Count."}, &r)
	if *p.State != record.Completed || r.Status != workflow.Success || r.AgentName != "a" || r.Text() != "One, two." ||
		r.ErrorMessage != nil || r.SessionID != nil {
		t.Errorf("p.State = %s %+v", *p.State, r)
	}

	var said []string
	for _, m := range r.ConversationHistory {
		said = append(said, m.Role+" "+m.Name+" "+m.Content+fmt.Sprint(len(m.ToolCalls)))
	}
	if got := strings.Join(said, "; "); got !=
		"user  Count.0; assistant  2; tool echo one0; tool echo two0; assistant  One, two.0" {
		t.Errorf("said: %s", got)
	}

	calls := h.Step(h.Plan(p.CurrentPlanID)).Cycles[0].ToolCalls
	if len(calls) != 2 || calls[1].Record.StartTime.Before(*calls[0].Record.EndTime) {
		t.Errorf("the calls were not made in order: %+v", calls)
	}
}

// TestToolTexts checks what the model reads of calls that did not work. D11, and D6: the tool of a server that is not
// among those of the agent.
func TestToolTexts(t *testing.T) {
	t.Parallel()
	h := house(t, map[string]any{
		"agent.a": define.Definition{Tools: []string{"echo"}, MCPServers: []string{"other-side"}},
	}, nil,
		scene("a", callsTo(call("echo", object{"text": "fail"}), call("echo", object{"text": ""}), call("echo", "{bad"),
			call("nothing", object{}), call("other-find", object{}), call("other-side-gone", object{})), says("Done.")))

	var r workflow.AgentResult
	run(t, h, object{"agent": "a", "user_message": "Go."}, &r)
	if r.Status != workflow.Success || len(r.ConversationHistory) != 9 {
		t.Fatalf("r = %+v", r)
	}
	for i, want := range []string{
		"Error executing tool 'echo': it broke", "Tool returned no output.", "Error: Invalid JSON arguments provided: ",
		"Error executing tool 'nothing': There is no tool nothing",
		"PermissionError: agent 'a' may not use the tool 'other-find'",
		"Error executing tool 'other-side-gone': There is no tool other-side-gone",
	} {
		if got := r.ConversationHistory[2+i]; got.Role != "tool" || !strings.Contains(got.Content, want) {
			t.Errorf("result %d: %q, want %q", i, got.Content, want)
		}
	}
}

// TestLimitOfTurns checks an agent that finds no answer. D9, D13.
func TestLimitOfTurns(t *testing.T) {
	t.Parallel()
	again := callsTo(call("echo", object{"text": "x"}))
	h := house(t, map[string]any{"agent.a": define.Definition{Tools: []string{"echo"}, MaxSteps: 2}}, nil,
		scene("a", again, again, again))

	var r workflow.AgentResult
	p := run(t, h, object{"agent": "a", "user_message": "Go."}, &r)
	const want = "Agent stopped after reaching the maximum of 2 iterations."
	if r.Status != workflow.MaxIterations || r.FinalResponse != nil || *r.ErrorMessage != want ||
		*p.State != record.Failed || text(p.ErrorKind) != "max_iterations" || text(p.ErrorMessage) != want {
		t.Errorf("r = %+v %s %s", r, *p.State, text(p.ErrorMessage))
	}
}

// TestModelFails checks the error of a turn. D13.
func TestModelFails(t *testing.T) {
	t.Parallel()
	h := house(t, map[string]any{"agent.a": define.Definition{Tools: []string{"echo"}}}, nil,
		scene("a", callsTo(call("echo", object{"text": "x"})),
			scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 400, Message: "No.", Code: "bad"}}))

	var r workflow.AgentResult
	p := run(t, h, object{"agent": "a", "user_message": "Go."}, &r, in("s"))
	if r.Status != workflow.Error || !strings.HasPrefix(*r.ErrorMessage, "Error during conversation turn 2: ") ||
		*p.State != record.Failed || len(r.ConversationHistory) != 3 {
		t.Errorf("r = %+v %s", r, *p.State)
	}

	// D8: the history is kept also on an error.
	if got := reported(t, h, "s"); !strings.HasPrefix(got,
		"s a - 3 messages, 1 runs, 0 open, 1 ended, 1 failed, FAILED, 1 steps") {
		t.Errorf("reported = %v", got)
	}
	said, err := h.Runs.Messages(t.Context(), "s", 10, 0)
	if err != nil || len(said) != 3 || said[0].Role != "user" || said[2].Role != "tool" {
		t.Errorf("said = %+v %v", said, err)
	}
}

// TestSchema checks that an answer that does not fit is not final. D12.
func TestSchema(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{"score":{"type":"integer"}},"required":["score"]}`)
	h := house(t, map[string]any{"agent.a": define.Definition{ResponseSchema: schema}}, nil,
		scene("a", says("High."), says(`{"score":"high"}`), says(`{"score":7}`)))

	var r workflow.AgentResult
	run(t, h, object{"agent": "a", "user_message": "Go."}, &r)
	if r.Text() != `{"score":7}` || len(r.ConversationHistory) != 6 ||
		!strings.Contains(r.ConversationHistory[4].Content, "score") {
		t.Errorf("r = %+v", r)
	}
}

// reported is what the view of sessions says of one.
func reported(t *testing.T, h *enginetest.House, id string) string {
	t.Helper()
	return strings.Join(storetest.Lines(t, h.DB.Pool,
		`SELECT concat(session_id, ' ', COALESCE(agent_name, '-'), ' ', COALESCE(workflow_name, '-'), ' ', messages, ' messages, ',
		runs, ' runs, ', open_runs, ' open, ', ended_runs, ' ended, ', failed_runs, ' failed, ', last_state, ', ', steps, ' steps, ', model_calls, ' calls, ', tool_calls, ' tool calls')
		FROM report.session WHERE session_id = $1`, id), "; ")
}

// TestHistory checks sessions. D8: earlier messages come first, with tool calls; a session is made up if there is
// none. D14: a prompt of the request overrides that of the agent.
func TestHistory(t *testing.T) {
	t.Parallel()
	h := house(t, map[string]any{
		"agent.a": define.Definition{Tools: []string{"echo"}, IncludeHistory: true}, "agent.b": define.Definition{},
	}, nil,
		scene("a", callsTo(call("echo", object{"text": "x"})), says("One."), says("Two.")),
		scriptmodel.Scene{
			Name: "other", Match: scriptmodel.Match{System: "Other prompt."}, Turns: []scriptmodel.Turn{says("Other.")},
		})

	var r workflow.AgentResult
	run(t, h, object{"agent": "a", "user_message": "Go."}, &r)
	if r.SessionID == nil || !strings.HasPrefix(*r.SessionID, "agent-") || len(*r.SessionID) != len("agent-")+8 {
		t.Fatalf("r = %+v", r)
	}

	session := *r.SessionID
	run(t, h, object{"agent": "a", "user_message": "Again."}, &r, in(session))
	var roles []string
	for _, m := range r.ConversationHistory {
		roles = append(roles, m.Role)
	}
	if got := strings.Join(roles, " "); got != "user assistant tool assistant user assistant" || r.Text() != "Two." {
		t.Errorf("%s: %q", got, r.Text())
	}

	found, err := h.Runs.Session(t.Context(), session, runstore.SessionFilter{}, "")
	if err != nil || found.AgentName != "a" || found.Messages != 6 {
		t.Errorf("found = %+v %v", found, err)
	}
	if got := reported(t, h, session); got != session+
		" a - 6 messages, 2 runs, 0 open, 2 ended, 0 failed, COMPLETED, 2 steps, 3 calls, 1 tool calls" {
		t.Errorf("reported(h, session) = %v", got)
	}

	run(t, h, object{"agent": "b", "user_message": "Go.", "system_prompt": "Other prompt."}, &r)
	if r.Text() != "Other." || r.SessionID != nil {
		t.Errorf("r = %+v", r)
	}
}

// TestChain checks simple workflows. D17, D18: the output of a step is the input of the next, nested ones too; input
// that is no text reaches an agent as JSON. D19: the result. D21: the sessions of the steps.
func TestChain(t *testing.T) {
	t.Parallel()
	h := house(t, map[string]any{
		"agent.a": define.Definition{}, "agent.b": define.Definition{},
		"simple_workflow.outer": define.Workflow{
			Steps: []define.WorkflowStep{{Name: "a", Type: define.AgentStep}, {Name: "inner", Type: define.SimpleStep}},
		},
		"simple_workflow.inner": define.Workflow{Steps: []define.WorkflowStep{{Name: "b", Type: define.AgentStep}}},
	}, nil,
		scriptmodel.Scene{
			Name: "a", Match: scriptmodel.Match{System: "You are a.", User: `{"n":1}`},
			Turns: []scriptmodel.Turn{says("from a")},
		},
		scriptmodel.Scene{
			Name: "b", Match: scriptmodel.Match{System: "You are b.", User: "from a"}, Turns: []scriptmodel.Turn{says("from b")},
		})

	var r workflow.Result
	p := run(t, h, object{"workflow": "outer", "input": object{"n": 1}}, &r, in("s"))
	if r.Status != workflow.Completed || r.FinalOutput != "from b" || r.WorkflowName != "outer" ||
		len(r.StepResults) != 2 || r.Error != nil || *r.SessionID != "s" {
		t.Fatalf("r = %+v", r)
	}

	if s := r.StepResults; s[0].StepName != "a" || s[0].StepType != "agent" || s[1].StepType != "simple_workflow" ||
		s[1].Result.(object)["final_output"] != "from b" {
		t.Errorf("r.StepResults = %+v", s)
	}
	if steps := h.Plan(p.CurrentPlanID).Steps; len(steps) != 2 || text(steps[0].Record.AgentName) != "a" ||
		text(steps[1].Record.Result) != "from b" {
		t.Errorf("steps = %+v", steps)
	}

	for id, base := range map[string]string{"s": "", "s-0": "s", "s-1-0": "s"} {
		if found, err := h.Runs.Session(t.Context(), id, runstore.SessionFilter{}, ""); err != nil || found.BaseID != base ||
			found.WorkflowName == "" {
			t.Errorf("%s: %+v %v", id, found, err)
		}
	}
	for id, want := range map[string]string{
		"s":   "- outer 2 messages, 1 runs, 0 open, 1 ended, 0 failed, COMPLETED, 2 steps",
		"s-0": "a outer 2 messages, 1 runs, 0 open, 1 ended, 0 failed, COMPLETED, 1 steps",
	} {
		if got := reported(t, h, id); !strings.HasPrefix(got, id+" "+want) {
			t.Errorf("reported(h, id) = %v", got)
		}
	}

	said, err := h.Runs.Messages(t.Context(), "s", 10, 0)
	if err != nil || len(said) != 2 || said[0].Text != `{"n":1}` || said[1].Text != "from b" {
		t.Errorf("said = %+v %v", said, err)
	}
}

// TestChainFails checks that a step without success fails the workflow, and that the results before are kept. D18,
// D19.
func TestChainFails(t *testing.T) {
	t.Parallel()
	h := house(t, map[string]any{
		"agent.a": define.Definition{}, "agent.b": define.Definition{Tools: []string{"echo"}, MaxSteps: 1},
		"simple_workflow.w": define.Workflow{
			Steps: []define.WorkflowStep{
				{Name: "a", Type: define.AgentStep}, {Name: "b", Type: define.AgentStep}, {Name: "a", Type: define.AgentStep},
			},
		},
	}, nil, scene("a", says("from a")), scene("b", callsTo(call("echo", object{"text": "x"}))))

	var r workflow.Result
	p := run(t, h, object{"workflow": "w", "input": "Go."}, &r)
	const want = "Error processing component 'b': Agent stopped after reaching the maximum of 1 iterations."
	if r.Status != workflow.Failed || *r.Error != want || len(r.StepResults) != 2 || r.FinalOutput != nil ||
		*p.State != record.Failed || text(p.ErrorMessage) != want || text(p.ErrorKind) != "max_iterations" {
		t.Errorf("r = %+v %s %s", r, text(p.ErrorKind), text(p.ErrorMessage))
	}
}

// TestCustom checks a workflow that is a function. D20: it runs agents, workflows and tools through the facade, and
// its errors are named.
func TestCustom(t *testing.T) {
	t.Parallel()
	uses := define.Flow{Agents: []string{"a"}, Workflows: []string{"w"}, Tools: []string{"echo"}}
	calls := functions{
		"good": func(ctx context.Context, f workflow.Facade, input json.RawMessage, session string) (any, error) {
			said, err := f.RunAgent(ctx, "a", string(input))
			if err != nil {
				return nil, err
			}
			again, err := f.CallTool(ctx, "echo", object{"text": said.Text()})
			if err != nil {
				return nil, err
			}
			r, err := f.RunWorkflow(ctx, "w", again)
			return object{"session": session, "output": r.FinalOutput}, err
		},
		"bad": func(context.Context, workflow.Facade, json.RawMessage, string) (any, error) {
			return nil, errors.New("no luck")
		},
		"panics": func(context.Context, workflow.Facade, json.RawMessage, string) (any, error) { panic("oops") },
		"foreign": func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
			_, err := f.RunAgent(ctx, "b", "x")
			return nil, err
		},
		"refused": func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
			_, err := f.CallTool(ctx, "echo", object{"text": "fail"})
			return nil, err
		},
		"odd": func(context.Context, workflow.Facade, json.RawMessage, string) (any, error) { return func() {}, nil },
	}

	definitions := map[string]any{
		"agent.a": define.Definition{}, "agent.b": define.Definition{},
		"simple_workflow.w": define.Workflow{Steps: []define.WorkflowStep{{Name: "a", Type: define.AgentStep}}},
	}
	for name := range calls {
		definitions["custom_workflow."+name] = uses
	}
	definitions["custom_workflow.gone"] = define.Flow{}
	definitions["custom_workflow.other"] = define.Flow{Function: "bad"}

	h := house(t, definitions, calls, scene("a", says("from a")))
	var r workflow.Result
	run(t, h, object{"workflow": "good", "input": object{"n": 1}}, &r, in("s"))
	if out, ok := r.FinalOutput.(object); !ok || r.Status != workflow.Completed || out["output"] != "from a" ||
		out["session"] != "s" || len(r.StepResults) != 3 || r.StepResults[1].StepType != "tool" {
		t.Errorf("f.RunWorkflow = %+v", r)
	}

	// A worker that says that it has the function, and has not.
	run(t, h, object{"workflow": "gone", "input": 1}, &r)
	if r.Status != workflow.Failed || *r.Error != "Workflow setup error: this program has no function gone" {
		t.Errorf("f.RunWorkflow = %+v", r)
	}

	for name, want := range map[string]string{
		"bad": "no luck", "other": "no luck", "panics": "oops", "foreign": "No components found with name b",
		"refused": "Error executing tool 'echo': it broke", "odd": "unsupported type",
	} {
		var r workflow.Result
		p := run(t, h, object{"workflow": name, "input": "x"}, &r)
		if whole := fmt.Sprintf("Exception during custom workflow '%s' execution: ", name); r.Status != workflow.Failed ||
			!strings.HasPrefix(*r.Error, whole) || !strings.Contains(*r.Error, want) || *p.State != record.Failed {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestBadRequests checks what is wrong with a request. D3, D4, D18.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	steps := define.Workflow{Steps: []define.WorkflowStep{{Name: "a", Type: define.AgentStep}}}
	h := house(t, map[string]any{
		"agent.a": define.Definition{}, "agent.far": define.Definition{AllOf: []string{"gone"}},
		"simple_workflow.w": steps, "simple_workflow.both": steps, "custom_workflow.both": define.Flow{},
	}, nil, scene("a", says("x")))

	for _, row := range []struct{ input, want string }{
		{`{}`, "input.workflow"}, {`[]`, "input"}, {`{"agent":"a"}`, "input.user_message"}, {
			`{"agent":"a","messages":[]}`, "input.user_message",
		},
		{`{"agent":"a","user_message":"x","other":1}`, "input.other"}, {
			`{"agent":"a","workflow":"w","input":1}`, "exclude each other",
		},
		{`{"workflow":"w"}`, "input.input"}, {`{"workflow":"w","input":1,"user_message":"x"}`, "input.workflow"},
		{`{"workflow":"both","input":1}`, "found in multiple types (simple_workflow, custom_workflow)"},
		{`{"workflow":"w","type":"agent","input":1}`, "input.type"}, {
			`{"agent":"a","messages":[{"role":"system","content":"x"}]}`, "input.messages[0].role",
		},
		{`{"agent":"a","messages":[{"role":"assistant","content":"x"}]}`, "input.messages[0].role"},
		{`{"agent":"a","messages":[{"role":"user","content":" "}]}`, "input.messages[0].content"},
		{`{"agent":"far","user_message":"x"}`, "MCP Server 'gone' required by agent 'far' not found."},
		{`{"agent":"nobody","user_message":"x"}`, `no agent is called "nobody"`},
		{`{"workflow":"none","input":1}`, `no workflow is called "none"`}, {
			`{"workflow":"w","type":"custom_workflow","input":1}`, `no workflow is called "w"`,
		},
	} {
		_, err := h.Engine.Start(t.Context(), engine.Request{Executor: "workflow", Input: json.RawMessage(row.input)})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %s", row.input, err, row.want)
		}
	}
}

// TestRefusedAndCut: an agent whose model refuses or is filtered ends at once. One that was cut is told so, and goes
// on; after three in a row it ends.
func TestRefusedAndCut(t *testing.T) {
	t.Parallel()
	half, silent := scriptmodel.Turn{Content: "Half", FinishReason: "length"}, scriptmodel.Turn{FinishReason: "length"}
	halfCall := scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{call("echo", `{"text":"ha`)}, FinishReason: "length"}

	for name, tt := range map[string]struct {
		turns []scriptmodel.Turn
		kind  string
	}{
		"a refusal": {[]scriptmodel.Turn{{Refusal: "I will not."}}, "refusal"}, "a filter": {
			[]scriptmodel.Turn{{Content: "Here", FinishReason: "content_filter"}}, "content_filter",
		},
		"cut":                {[]scriptmodel.Turn{half, halfCall, half}, "length"},
		"cut twice":          {[]scriptmodel.Turn{half, halfCall, says("Whole.")}, ""},
		"cut without a word": {slices.Repeat([]scriptmodel.Turn{silent}, 3), "length"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := house(t, map[string]any{"agent.a": define.Definition{Tools: []string{"echo"}}}, nil, scene("a", tt.turns...))
			var r workflow.AgentResult
			p := run(t, h, object{"agent": "a", "user_message": "Say it."}, &r)

			if text(p.ErrorKind) != tt.kind || tt.kind == "" && r.Text() != "Whole." {
				t.Errorf("%s %s: %s", *p.State, text(p.ErrorKind), text(p.ErrorMessage))
			}
			if got := text(p.ErrorMessage); tt.kind == "length" &&
				!strings.HasSuffix(got, " Set or raise maxTokens of the model.") {
				t.Errorf("got %q, want what helps", got)
			}
			if got := len(h.Model.Requests()); got != len(tt.turns) {
				t.Errorf("the model was asked %d times", got)
			}
		})
	}
}
