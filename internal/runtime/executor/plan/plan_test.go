package plan_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/plan"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

var _ engine.Callable = plan.Executor{} // of templates

func TestMain(m *testing.M) { pgtest.Main(m) }

type object = enginetest.Object

var text = enginetest.Text

// role returns the definition of a role that may use tools.
func role(tools ...string) define.Definition {
	return define.Role{Tools: tools}.Definition("DEVELOPER", define.DefinitionModel{Name: "default", Model: "scripted"},
		nil, nil)
}

// says returns turns of texts, or of JSON.
func says(answers ...any) (turns []scriptmodel.Turn) {
	for _, a := range answers {
		content, ok := a.(string)
		if !ok {
			b, _ := json.Marshal(a)
			content = string(b)
		}
		turns = append(turns, scriptmodel.Turn{Content: content})
	}
	return turns
}

// step returns a step of a plan. name is tool.operation.
func step(name string, params any) object {
	of, operation, _ := strings.Cut(name, ".")
	return object{"tool": of, "operation": operation, "params": params}
}

func planned(steps ...object) object {
	if steps == nil {
		steps = []object{}
	}
	return object{"reasoning": "It helps.", "steps": steps}
}

type word struct {
	Word string `json:"word"`
}

// words are tools that say words, and fail, and panic.
var words = []tool.Tool{
	tool.Func("words.say", "Says a word.", func(_ context.Context, in word) (string, error) { return in.Word, nil }),
	tool.Func("words.fail", "Fails.", func(_ context.Context, in word) (string, error) {
		return "", errors.New(in.Word)
	}, tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry})),
	tool.Func("words.panic", "Panics.", func(_ context.Context, in word) (string, error) { panic(in.Word) }),
	tool.Func("words.write", "Writes a word.", func(_ context.Context, in word) (string, error) {
		return in.Word, nil
	}, tool.WithPolicy(tool.Policy{Writes: true})),
	tool.Func("other.say", "Says a word.", func(_ context.Context, in word) (string, error) { return in.Word, nil }),
	produces,
}

var produces, _ = tool.SchemaFunc("words.produce", "Produces artifacts.", json.RawMessage(`{"type":"object"}`),
	func(_ context.Context, call tool.Call) (tool.Result, error) {
		return tool.Result{Text: "produced", Summary: "Produced it", Artifacts: []tool.Artifact{
			{Name: "last", Value: call.Arguments}, {Name: "typed", Type: "counts", Value: json.RawMessage(`3`)},
		}}, nil
	}, tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry}))

// done is a run that has ended.
type done struct {
	*enginetest.House
	plan      *tree.Plan
	thoughts  []*record.Thought
	artifacts []*record.Artifact
}

// build returns a house whose model answers a role, and the scenes before.
func build(t *testing.T, d define.Definition, turns []scriptmodel.Turn, tools []tool.Tool) *enginetest.House {
	t.Helper()
	return enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{{Name: "plan", Turns: turns}}, Tools: tools,
		Definitions: map[string]any{"role.DEVELOPER": d, "role.SECURITY": d}, Executors: []engine.Executor{plan.Executor{}},
	})
}

func start(h *enginetest.House, input object) string {
	h.T.Helper()
	b, err := json.Marshal(input)
	if err != nil {
		h.T.Fatal(err)
	}

	started, err := h.Engine.Start(h.T.Context(), engine.Request{Executor: "plan", Input: b})
	if err != nil {
		h.T.Fatal(err)
	}
	return started.PlanID
}

func ended(h *enginetest.House, id string) *done {
	h.T.Helper()
	d := &done{House: h, plan: h.Ended(id)}

	for _, kind := range []record.Kind{record.KindThought, record.KindArtifact} {
		rows, _, err := h.Store.Attached(h.T.Context(), kind, id, id, store.Position{}, 1000)
		if err != nil {
			h.T.Fatal(err)
		}
		for _, each := range rows {
			switch c := each.Record.(type) {
			case *record.Thought:
				d.thoughts = append(d.thoughts, c)
			case *record.Artifact:
				d.artifacts = append(d.artifacts, c)
			}
		}
	}
	return d
}

// run runs a task to its end.
func run(t *testing.T, d define.Definition, input object, answers ...any) *done {
	t.Helper()
	h := build(t, d, says(answers...), words)
	h.Work(h.Engine)
	if input["task"] == nil {
		input["task"] = "Do it"
	}
	return ended(h, start(h, input))
}

// log returns the thoughts, one a line.
func (d *done) log() string {
	var b strings.Builder
	for _, t := range d.thoughts {
		fmt.Fprintf(&b, "%d %s: %s", *t.Iteration, *t.Type, *t.Content)
		if t.Confidence != nil {
			fmt.Fprintf(&b, " (%g)", *t.Confidence)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// operations returns the calls of the run, one a line.
func (d *done) operations() string {
	var b strings.Builder
	for _, c := range d.Step(d.plan).Cycles {
		for _, call := range c.ToolCalls {
			fmt.Fprintf(&b, "%s %s %s\n", *call.Record.Name, *call.Record.State, text(call.Record.Result))
		}
	}
	return b.String()
}

func (d *done) want(what, got, want string) {
	d.T.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		d.T.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

// A8, A17, A18, A19, A20, A21, A22, A25, A26, A27, A28, A29, A31, A32: the thoughts of static runs, in order, their
// operations and their ends, with resolutions 1 and 3.
func TestStatic(t *testing.T) {
	t.Parallel()
	say := func(w string) object { return step("words.say", object{"word": w}) }
	fail := step("words.fail", object{"word": "no such word"})

	for name, tt := range map[string]struct {
		constraints         object
		plan                any
		log, operations     string
		state               record.State
		kind, error, result string
		metadata            string
	}{
		"succeeds": {nil, planned(say("a"), say("b")), `
0 analysis: [DEVELOPER] Analyzing task: Do it. Mode: full execution
0 decision: Generated execution plan with 2 steps. Reasoning: It helps.
1 action: Executing: words.say({"word":"a"})
1 observation: ✅ Operation succeeded. a (1)
2 action: Executing: words.say({"word":"b"})
2 observation: ✅ Operation succeeded. b (1)
3 conclusion: Task completed successfully. Executed 2 operations. Artifacts: [] (1)`,
			"words.say COMPLETED a\nwords.say COMPLETED b", record.Completed, "", "",
			"Task completed successfully. Executed 2 operations. Artifacts: []", `"truncated": null`},
		"empty": {nil, planned(), `
0 analysis: [DEVELOPER] Analyzing task: Do it. Mode: full execution
0 decision: Generated execution plan with 0 steps. Reasoning: It helps.
1 conclusion: Task completed successfully. Executed 0 operations. Artifacts: [] (1)`,
			"", record.Completed, "", "", "Task completed successfully. Executed 0 operations. Artifacts: []", ""},
		"aborts": {nil, planned(say("a"), fail, say("b")), `
0 analysis: [DEVELOPER] Analyzing task: Do it. Mode: full execution
0 decision: Generated execution plan with 3 steps. Reasoning: It helps.
1 action: Executing: words.say({"word":"a"})
1 observation: ✅ Operation succeeded. a (1)
2 action: Executing: words.fail({"word":"no such word"})
2 observation: ❌ Operation failed: no such word (0)`,
			"words.say COMPLETED a\nwords.fail FAILED no such word", record.Failed, "step_failed",
			"Step 2 failed: no such word", "", ""},
		"goes on": {object{"abort_on_error": false}, planned(step("words.panic", object{"word": "oh"}), say("b")), `
0 analysis: [DEVELOPER] Analyzing task: Do it. Mode: full execution
0 decision: Generated execution plan with 2 steps. Reasoning: It helps.
1 action: Executing: words.panic({"word":"oh"})
1 observation: ❌ Operation failed: The tool failed: oh (0)
2 action: Executing: words.say({"word":"b"})
2 observation: ✅ Operation succeeded. b (1)
3 conclusion: Task failed. Executed 2 operations. Artifacts: [] (0.5)`,
			"words.panic FAILED The tool failed: oh\nwords.say COMPLETED b", record.Failed, "operations_failed",
			"Task failed. Executed 2 operations. Artifacts: []", "", ""},
		"limited": {object{"max_operations": 1}, planned(say("a"), say("b"), say("c")), `
0 analysis: [DEVELOPER] Analyzing task: Do it. Mode: full execution
0 decision: Generated execution plan with 3 steps. Reasoning: It helps.
1 action: Executing: words.say({"word":"a"})
1 observation: ✅ Operation succeeded. a (1)
4 conclusion: Task completed successfully. Executed 1 operations. Artifacts: []. Truncated by max_operations: 1 of 3 planned steps were executed. (1)`,
			"words.say COMPLETED a", record.Completed, "", "",
			"Task completed successfully. Executed 1 operations. Artifacts: []. Truncated by max_operations: 1 of 3 planned " +
				"steps were executed.", `"truncated": true`},
		"without an error text": {nil, planned(step("words.fail", object{"word": ""})), `
0 analysis: [DEVELOPER] Analyzing task: Do it. Mode: full execution
0 decision: Generated execution plan with 1 steps. Reasoning: It helps.
1 action: Executing: words.fail({"word":""})
1 observation: ❌ Operation failed: Unknown error (0)`,
			"words.fail FAILED", record.Failed, "step_failed", "Step 1 failed: Unknown error", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := run(t, role("words.*"), object{"constraints": tt.constraints}, tt.plan)
			d.want("thoughts", d.log(), tt.log)
			d.want("operations", d.operations(), tt.operations)

			p := d.plan.Record
			if *p.State != tt.state || text(p.ErrorKind) != tt.kind || text(p.ErrorMessage) != tt.error ||
				text(p.Summary) != tt.result {
				t.Errorf("p.State = %s %q %q %q", *p.State, text(p.ErrorKind), text(p.ErrorMessage), text(p.Summary))
			}
			if truncated := strings.Contains(string(p.Metadata), "truncated"); truncated != strings.Contains(tt.metadata,
				"true") {
				t.Errorf("metadata %s", p.Metadata)
			}
		})
	}
}

// A12, A13, A14: one call of the model, with the role, what it can use, the mode, the task and the context.
func TestPlanningCall(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		role        string
		enableWrite bool
		system      []string
		not         string
	}{
		"full": {
			"DEVELOPER", true, []string{"You are a software developer.", "Mode: full", `"words.write"`, `"mode":"full"`},
			"other.say",
		},
		"read only": {
			"SECURITY", false, []string{"You are an expert SECURITY engineer.", "Mode: read_only", `"words.say"`}, "words.write",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := run(t, role("words.*"), object{
				"task": "Fix it", "context": "In Go", "role": tt.role, "enableWrite": tt.enableWrite,
			}, planned())
			requests := d.Model.Requests()
			if len(requests) != 1 {
				t.Fatalf("%d requests", len(requests))
			}

			in := text(d.Step(d.plan).Cycles[0].Record.ThinkInput)
			var said []struct{ Parts []struct{ Text string } }
			if err := json.Unmarshal([]byte(in), &said); err != nil {
				t.Fatalf("json.Unmarshal([]byte(in), &said) = %v, %v", err, in)
			}

			for _, part := range tt.system {
				if !strings.Contains(said[0].Parts[0].Text, part) {
					t.Errorf("the system prompt lacks %q:\n%s", part, said[0].Parts[0].Text)
				}
			}
			if strings.Contains(said[0].Parts[0].Text, tt.not) {
				t.Errorf("the system prompt has %s", tt.not)
			}
			if got := said[1].Parts[0].Text; got != "Task: Fix it\n\nContext:\nIn Go" {
				t.Errorf("the user prompt is %q", got)
			}
		})
	}
}

// A15, A16, A33: answers that are a plan in any of its forms, and those that are none: nothing is done, and
// the thought of the error has iteration -1.
func TestAnswers(t *testing.T) {
	t.Parallel()
	good := `{"steps":[{"tool":"words","operation":"say","params":{"word":"a"}}]}`
	for name, tt := range map[string]struct{ answer, error string }{
		"bare":         {good, ""},
		"json fences":  {"Here:\n```json\n" + good + "\n```\nDone.", ""},
		"plain fences": {"```\n" + good + "\n```", ""},
		"text":         {"I cannot.", "Failed to parse JSON response: invalid character 'I' looking for beginning of value"},
		"no steps":     {`{"reasoning":"x"}`, "Plan missing 'steps' field"},
		"null steps":   {`{"steps":null}`, "Plan missing 'steps' field"},
		"blank tool":   {`{"steps":[{"tool":" ","operation":"say"}]}`, "Step 1: tool is blank"},
		"no operation": {`{"steps":[{"tool":"words"}]}`, "Step 1: operation is blank"},
		"params":       {`{"steps":[{"tool":"words","operation":"say","params":[1]}]}`, "Step 1: params must be an object"},
		"hostile names": {
			`{"steps":[{"tool":"wo rds","operation":"say\n"}]}`,
			`Step 1: tool name "wo rds.say" may only have letters, digits, '_', '-' and '.'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := run(t, role("words.*"), object{}, tt.answer)
			if tt.error == "" {
				d.want("operations", d.operations(), "words.say COMPLETED a")
				if !strings.Contains(d.log(), "Generated execution plan with 1 steps. Reasoning: Generated by LLM") {
					t.Errorf("d.log() = %v", d.log())
				}
				return
			}

			d.want("operations", d.operations(), "")
			d.want("thoughts", d.log(), "0 analysis: [DEVELOPER] Analyzing task: Do it. Mode: full execution\n"+
				"-1 error: Fatal error: "+tt.error+" (0)")
			if p := d.plan.Record; *p.State != record.Failed || text(p.ErrorMessage) != tt.error ||
				text(p.ErrorKind) != "invalid_plan" {
				t.Errorf("p.State = %s %s %s", *p.State, text(p.ErrorKind), text(p.ErrorMessage))
			}
		})
	}
}

// A33: a model that fails ends the run with its error, and nothing was done.
func TestModelFails(t *testing.T) {
	t.Parallel()
	h := build(t, role("words.*"),
		[]scriptmodel.Turn{{Error: &scriptmodel.Failure{Status: 400, Message: "LLM API error"}}}, words)
	h.Work(h.Engine)
	d := ended(h, start(h, object{"task": "Do it"}))

	last := d.thoughts[len(d.thoughts)-1]
	if *last.Iteration != -1 || *last.Type != record.ThoughtError || !strings.HasPrefix(*last.Content, "Fatal error: ") ||
		!strings.Contains(*last.Content, "LLM API error") ||
		*last.Confidence != 0 || !strings.Contains(text(d.plan.Record.ErrorMessage), "LLM API error") ||
		*d.plan.Record.State != record.Failed {
		t.Errorf("d.log() = %s\n%+v", d.log(), d.plan.Record)
	}
}

// A5, A20, A30: with resolution 3, what a role may not use, and what writes in read-only mode, is a failed step, and
// is not called.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		role        []string
		enableWrite bool
		step, error string
	}{
		"another tool": {
			[]string{"words.*", "git.*", "git-*"}, true, "other.say",
			"RBAC Violation: Tool 'other' not allowed for this role. Allowed tools: [git, words]",
		},
		"unknown tool": {
			[]string{"words.*"}, true, "nothing.here",
			"RBAC Violation: Tool 'nothing' not allowed for this role. Allowed tools: [words]",
		},
		"another operation": {
			[]string{"words.fail"}, true, "words.say",
			"RBAC Violation: Tool 'words.say' not allowed for this role. Allowed tools: [words.fail]",
		},
		"read only": {[]string{"words.*"}, false, "words.write", "write operations are not allowed in read-only mode"},
		"an agent": {
			[]string{"*"}, true, "agent.a", "RBAC Violation: Tool 'agent' not allowed for this role. Allowed tools: [*]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := run(t, role(tt.role...), object{"enableWrite": tt.enableWrite}, planned(step(tt.step, object{"word": "a"})))
			if text(d.plan.Record.ErrorMessage) != "Step 1 failed: "+tt.error {
				t.Errorf("d.plan.Record.ErrorMessage = %s", text(d.plan.Record.ErrorMessage))
			}

			c := d.Step(d.plan).Cycles[1].ToolCalls[0].Record
			if *c.State != record.Failed || c.StartTime != nil || text(c.ErrorKind) != "refused" {
				t.Errorf("d.Step(d.plan).Cycles[1].ToolCalls[0].Record = %+v", c)
			}

			if mode := map[bool]string{
				true: "full execution", false: "planning only",
			}[tt.enableWrite]; !strings.HasSuffix(*d.thoughts[0].Content, "Mode: "+mode) {
				t.Error(*d.thoughts[0].Content)
			}
		})
	}
}

// A9, A10, A17: what a thought says beside its text.
func TestThoughts(t *testing.T) {
	t.Parallel()
	d := run(t, role("words.*"), object{}, planned(step("words.say", object{"word": "a"}), step("words.say", nil)))
	for i, each := range d.thoughts {
		if *each.AgentID != d.plan.Steps[0].Record.StepID || *each.Role != "DEVELOPER" || each.Time == nil || i > 0 &&
			!each.Time.After(*d.thoughts[i-1].Time) {
			t.Errorf("%d: %+v", i, each)
		}
	}

	if got := strings.Join(d.thoughts[1].RelatedOperations, " "); got != "words.say words.say" ||
		d.thoughts[0].RelatedOperations != nil || d.thoughts[0].Confidence != nil {
		t.Errorf("related operations: %s", got)
	}
}

// A12: a role that may use nothing is told so, and is read-only.
func TestNoTools(t *testing.T) {
	t.Parallel()
	d := run(t, role(), object{}, planned())
	in := strings.ReplaceAll(text(d.Step(d.plan).Cycles[0].Record.ThinkInput), `\`, "")
	if want := `{"tools":{},"mode":"read_only","capabilities":[],"summary":"No tool descriptions available"}`; !strings.Contains(in, want) {
		t.Errorf("%s\nlacks %s", in, want)
	}
}

// logged is a log that may be read while it is written.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A11, A27: each thought is a line of the log, and so is the limit of operations.
func TestLog(t *testing.T) {
	t.Parallel()
	log := new(logged)
	d := role("words.*")
	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{
			{Name: "plan", Turns: says(planned(step("words.say", object{"word": "a"}), step("words.say", object{"word": "b"})))},
		}, Tools: words,
		Definitions: map[string]any{"role.DEVELOPER": d}, Executors: []engine.Executor{plan.Executor{}},
		Config: func(c *engine.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) },
	})

	h.Work(h.Engine)
	got := ended(h, start(h, object{"task": "Do it", "constraints": object{"max_operations": 1}}))
	for _, each := range got.thoughts {
		content, _ := json.Marshal(*each.Content)
		if line := fmt.Sprintf("[%s] %s: %s", *each.AgentID, strings.ToUpper(string(*each.Type)),
			strings.Trim(string(content), `"`)); !strings.Contains(log.String(), line) {
			t.Errorf("no line %s", line)
		}
	}

	if !strings.Contains(log.String(), `level=WARN msg="Max operations limit reached"`) {
		t.Errorf("log = %v", log)
	}
}

// A24: artifacts of operations that succeeded, by name: the last one counts. A bare value is generic.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	d := run(t, role("words.*"), object{},
		planned(step("words.produce", object{"n": 1}), step("words.produce", object{"n": 2}),
			step("words.say", object{"word": "a"})))
	var got []string
	for _, a := range d.artifacts {
		got = append(got, fmt.Sprint(a.Name, " ", *a.Type, " ", string(a.Value)))
	}

	if strings.Join(got, "; ") != `last generic {"n":2}; typed counts 3` {
		t.Errorf("append = %q", got)
	}
	if !strings.Contains(d.log(), "Artifacts: [last, typed]") ||
		!strings.Contains(d.log(), "✅ Operation succeeded. Produced it") {
		t.Errorf("d.log() = %v", d.log())
	}
}

// A38, A40, A41, A42: the iterative variant.
func TestIterative(t *testing.T) {
	t.Parallel()
	next := func(name, w string) object {
		return object{"done": false, "reasoning": "Next.", "step": step(name, object{"word": w})}
	}
	finished := object{"done": true, "reasoning": "All said."}
	const analysis = "0 analysis: [DEVELOPER] Analyzing task: Do it. Mode: iterative execution\n"

	for name, tt := range map[string]struct {
		constraints object
		answers     []any
		log, error  string
		state       record.State
	}{
		"done": {object{}, []any{next("words.say", "a"), object{"step": step("words.say", object{"word": "b"})}, finished}, `
1 decision: Decision: Execute words.say. Reasoning: Next.
1 action: Executing: words.say({"word":"a"})
1 observation: ✅ Operation succeeded. a (1)
2 decision: Decision: Execute words.say. Reasoning: No reasoning provided
2 action: Executing: words.say({"word":"b"})
2 observation: ✅ Operation succeeded. b (1)
3 decision: Decision: Task complete. Reasoning: All said.
3 conclusion: Task completed successfully. Executed 2 operations. Artifacts: [] (1)`, "", record.Completed},
		"no step": {object{}, []any{object{"reasoning": "Hm."}}, `
1 decision: Decision: No step. Reasoning: Hm.
1 conclusion: Task completed successfully. Executed 0 operations. Artifacts: [] (1)`, "", record.Completed},
		"fails": {object{}, []any{next("words.fail", "oh")}, `
1 decision: Decision: Execute words.fail. Reasoning: Next.
1 action: Executing: words.fail({"word":"oh"})
1 observation: ❌ Operation failed: oh (0)`, "Iteration 1 failed: oh", record.Failed},
		"goes on": {object{"abort_on_error": false}, []any{next("words.fail", "oh"), finished}, `
1 decision: Decision: Execute words.fail. Reasoning: Next.
1 action: Executing: words.fail({"word":"oh"})
1 observation: ❌ Operation failed: oh (0)
2 decision: Decision: Task complete. Reasoning: All said.
2 conclusion: Task failed. Executed 1 operations. Artifacts: [] (0.5)`, "Task failed. Executed 1 operations. Artifacts: []", record.Failed},
		"out of iterations": {object{"max_iterations": 1}, []any{next("words.say", "a")}, `
1 decision: Decision: Execute words.say. Reasoning: Next.
1 action: Executing: words.say({"word":"a"})
1 observation: ✅ Operation succeeded. a (1)
2 conclusion: Task completed successfully. Executed 1 operations. Artifacts: []. Truncated by max_iterations after 1 iterations. (1)`, "", record.Completed},
		"out of operations": {object{"max_operations": 1}, []any{next("words.say", "a")}, `
1 decision: Decision: Execute words.say. Reasoning: Next.
1 action: Executing: words.say({"word":"a"})
1 observation: ✅ Operation succeeded. a (1)
2 conclusion: Task completed successfully. Executed 1 operations. Artifacts: []. Truncated by max_operations after 1 iterations. (1)`, "", record.Completed},
		"no JSON": {object{}, []any{"Well."}, `
-1 error: Fatal error: Failed to parse JSON response: invalid character 'W' looking for beginning of value (0)`, "Failed to parse JSON response: invalid character 'W' looking for beginning of value", record.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t, role("words.*"), byHistory(tt.answers), words)
			h.Work(h.Engine)
			tt.constraints["iterative"] = true
			d := ended(h, start(h, object{"task": "Do it", "constraints": tt.constraints}))

			d.want("thoughts", d.log(), analysis+strings.TrimPrefix(tt.log, "\n"))
			if *d.plan.Record.State != tt.state || text(d.plan.Record.ErrorMessage) != tt.error {
				t.Errorf("d.plan.Record.State = %s %s", *d.plan.Record.State, text(d.plan.Record.ErrorMessage))
			}
		})
	}
}

// byHistory answers by how many observations the model is told.
func byHistory(answers []any) []scriptmodel.Turn {
	return []scriptmodel.Turn{{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		n := strings.Count(userText(r), "\nIteration ")
		return says(answers...)[min(n, len(answers)-1)], nil
	}}}
}

func userText(r *scriptmodel.Request) string {
	b, _ := json.Marshal(r.Messages[len(r.Messages)-1])
	return strings.ReplaceAll(string(b), `\n`, "\n")
}

// A39: the model is told the last five observations.
func TestHistory(t *testing.T) {
	t.Parallel()
	fail := object{"step": step("words.fail", object{"word": "oh"})}
	say := object{"step": step("words.say", object{"word": "a"})}
	h := build(t, role("words.*"),
		[]scriptmodel.Turn{{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
			if strings.Contains(userText(r), "Iteration 6:") {
				return says(say)[0], nil
			}
			return says(fail)[0], nil
		}}}, words)

	h.Work(h.Engine)
	d := ended(h, start(h, object{
		"task": "Do it", "constraints": object{"iterative": true, "abort_on_error": false, "max_iterations": 8},
	}))

	requests := d.Model.Requests()
	last := text(d.Step(d.plan).Cycles[len(requests)-1].Record.ThinkInput)
	if len(requests) != 8 || strings.Count(last, "Iteration ") != 5 ||
		!strings.Contains(last, `Iteration 3:\n  Action: words.fail\n  Result: false\n  Error: oh\n`) ||
		!strings.Contains(last, `Iteration 7:\n  Action: words.say\n  Result: true\n  Output: a\n`) {
		t.Errorf("%d requests, the last one: %s", len(requests), last)
	}
}

// A4, A6: what a request lacks or has wrong is named, before anything is on record.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	h := build(t, role(), says("x"), words)
	for input, field := range map[string]string{
		`{}`: "input.task", `{"task":" "}`: "input.task", `{"task":1}`: "input.task", `{"task":"t","more":1}`: "input.more",
		`[]`: "input", ``: "input",
		`{"task":"t","role":"a b"}`: "input.role", `{"task":"t","enableWrite":"yes"}`: "input.enableWrite",
		`{"task":"t","constraints":{"max_operations":0}}`:   "input.constraints.max_operations",
		`{"task":"t","constraints":{"max_iterations":-1}}`:  "input.constraints.max_iterations",
		`{"task":"t","constraints":{"max_operations":"a"}}`: "input.constraints.max_operations",
		`{"task":"t","constraints":{"maxOperations":1}}`:    "input.maxOperations",
	} {
		_, err := h.Engine.Start(t.Context(), engine.Request{Executor: "plan", Input: json.RawMessage(input)})
		invalid := new(record.InvalidError)
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v, want field %s", input, err, field)
		}
	}

	for _, r := range []engine.Request{{Name: "none"}, {Input: json.RawMessage(`{"task":"t","role":"NOBODY"}`)}} {
		r.Executor = "plan"
		if _, err := h.Engine.Start(t.Context(), r); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("%+v: %v", r, err)
		}
	}

	gone := role()
	gone.Model.Name = "gone"
	_, err := build(t, gone, says("x"), words).Engine.Start(t.Context(), request("", object{"task": "t"}))
	if !errors.Is(err, record.ErrNotFound) ||
		!strings.Contains(err.Error(), `no model is called "gone"; there are: default`) {
		t.Error(err)
	}

	// Missing constraints, or those that are null, are the defaults.
	var p struct{ Metadata json.RawMessage }
	id := start(h, object{"task": "t", "constraints": nil})
	p.Metadata = h.Plan(id).Record.Metadata
	var m struct {
		EnableWrite bool `json:"enable_write"`
		Constraints map[string]any
	}

	if err := json.Unmarshal(p.Metadata, &m); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(m.EnableWrite,
		m.Constraints); got != "true map[abort_on_error:true iterative:false max_iterations:10 max_operations:100]" {
		t.Errorf("fmt.Sprint(m.EnableWrite, m.Constraints) = %v", got)
	}
}

// TestRefusedAndCutPlans: a model that refuses, is filtered or is cut ends the run at once, and the run says so.
func TestRefusedAndCutPlans(t *testing.T) {
	t.Parallel()
	for kind, turn := range map[string]scriptmodel.Turn{
		"refusal": {Refusal: "I will not."}, "content_filter": {Content: "Here", FinishReason: "content_filter"},
		"length": {Content: `{"steps":[`, FinishReason: "length"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := build(t, role("words.say"), []scriptmodel.Turn{turn}, words)
			h.Work(h.Engine)
			d := ended(h, start(h, object{"role": "DEVELOPER", "task": "Say it."}))
			if p := d.plan.Record; text(p.ErrorKind) != kind || len(h.Model.Requests()) != 1 {
				t.Errorf("%s %s: %s, after %d requests", *p.State, text(p.ErrorKind), text(p.ErrorMessage), len(h.Model.Requests()))
			}
		})
	}
}
