package thinkact_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/internal/enginetest"
	"github.com/actlog/actlog/internal/executor/thinkact"
	"github.com/actlog/actlog/internal/pgtest"
	"github.com/actlog/actlog/internal/scriptmodel"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type object = enginetest.Object

var (
	call      = enginetest.Call
	calls     = enginetest.Calls
	terminate = enginetest.Terminate
	text      = enginetest.Text
)

var echo = tool.Func("echo", "Says it again.", func(_ context.Context, in struct {
	Text string `json:"text"`
}) (string, error) {
	return in.Text, nil
})

// run runs an agent that follows turns, to its end.
func run(t *testing.T, a config.Definition, turns []scriptmodel.Turn, others ...scriptmodel.Scene) (*enginetest.House, *tree.Plan) {
	t.Helper()
	a.Model.Name, a.EnableWrite = "default", true
	h := enginetest.Build(t, enginetest.Plans{
		Scenes: append(others, scriptmodel.Scene{Name: "agent", Turns: turns}), Definitions: map[string]any{"agent.a": a},
		Tools: []tool.Tool{echo}, Executors: []engine.Executor{thinkact.Executor{}},
	})
	h.Work(h.Engine)
	return h, h.Ended(h.Start("a", "Do it."))
}

// TestOutOfRounds checks B31: at the limit a summary is made, and terminate is called with it.
func TestOutOfRounds(t *testing.T) {
	t.Parallel()
	say := func(n int) []scriptmodel.ToolCall {
		return []scriptmodel.ToolCall{call("echo", object{"text": fmt.Sprint(n)})}
	}
	for name, last := range map[string]scriptmodel.Turn{
		"called": {ToolCalls: terminate("What I found.")}, "written": {Content: "What I found."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p := run(t, config.Definition{Tools: []string{"echo"}, MaxSteps: 2}, append(calls(say(1), say(2)), last))
			st := h.Step(p)
			if *p.Record.State != record.Completed || text(p.Record.Summary) != "What I found." || len(st.Cycles) != 3 {
				t.Fatalf("%s %q after %d cycles", *p.Record.State, text(p.Record.Summary), len(st.Cycles))
			}
			end := st.Cycles[2]
			if len(end.ToolCalls) != 1 || text(end.ToolCalls[0].Record.Name) != "terminate" || *end.ToolCalls[0].Record.State != record.Completed {
				t.Errorf("the last cycle: %+v", end)
			}
			if *end.Record.State != record.Completed || !strings.Contains(text(end.Record.ThinkInput), "used all of your rounds") {
				t.Errorf("the last cycle: %+v", end.Record)
			}
		})
	}
}

// TestSilentAgent checks B31: three answers in a row without a tool call fail the step. A call resets the
// count.
func TestSilentAgent(t *testing.T) {
	t.Parallel()
	quiet := scriptmodel.Turn{Content: "Well."}
	speaks := scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{call("echo", object{"text": "x"})}}
	h, p := run(t, config.Definition{Tools: []string{"echo"}}, []scriptmodel.Turn{quiet, quiet, speaks, quiet, quiet, quiet, speaks})
	if *p.Record.State != record.Failed || text(p.Record.ErrorKind) != "no_tool_call" || len(h.Step(p).Cycles) != 6 || *p.Steps[0].Record.State != record.Failed {
		t.Errorf("%s %s after %d cycles", *p.Record.State, text(p.Record.ErrorMessage), len(h.Step(p).Cycles))
	}
}

// TestSameResults checks B31: three results in a row that are the same make the agent start from a
// summary.
func TestSameResults(t *testing.T) {
	t.Parallel()
	same := []scriptmodel.ToolCall{call("echo", object{"text": "nothing"})}
	summary := scriptmodel.Scene{Name: "summary", Match: scriptmodel.Match{User: "The work so far"}, Turns: []scriptmodel.Turn{{Content: "Echo leads nowhere."}}}
	h, p := run(t, config.Definition{Tools: []string{"echo"}}, calls(same, same, same, terminate("never")), summary)
	st := h.Step(p)
	// The script counts the answers it sees: after the summary it begins again.
	if *p.Record.State != record.Completed && text(p.Record.ErrorKind) == "" {
		t.Fatalf("%s", *p.Record.State)
	}
	if got := text(st.Cycles[3].Record.ThinkOutput); got != "Echo leads nowhere." {
		t.Fatalf("cycle 3 says %q", got)
	}
	in := text(st.Cycles[4].Record.ThinkInput)
	if !strings.Contains(in, "Echo leads nowhere.") || !strings.Contains(in, "Do it.") || strings.Contains(in, `"nothing"`) {
		t.Errorf("cycle 4 begins with %s", in)
	}
}

// TestContextIsTooLong checks that an agent whose conversation the model refuses starts from a summary.
func TestContextIsTooLong(t *testing.T) {
	t.Parallel()
	say := []scriptmodel.ToolCall{call("echo", object{"text": "found it"})}
	scenes := []scriptmodel.Scene{
		{Name: "summary", Match: scriptmodel.Match{User: "The work so far"}, Turns: []scriptmodel.Turn{{Content: "It was found."}}},
	}
	tooLong := scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		if len(r.Messages) > 3 {
			return scriptmodel.Turn{Error: &scriptmodel.Failure{Status: 400, Message: "This model's maximum context length is 10 tokens.", Code: "context_length_exceeded"}}, nil
		}
		return scriptmodel.Turn{ToolCalls: terminate("done")}, nil
	}}
	first := scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		if len(r.Messages) > 2 {
			return scriptmodel.Turn{ToolCalls: terminate("done")}, nil
		}
		return scriptmodel.Turn{ToolCalls: say}, nil
	}}
	h, p := run(t, config.Definition{Tools: []string{"echo"}}, []scriptmodel.Turn{first, tooLong}, scenes...)
	var states []string
	for _, c := range h.Step(p).Cycles {
		states = append(states, string(*c.Record.State))
	}
	if got := strings.Join(states, " "); *p.Record.State != record.Completed || got != "COMPLETED FAILED COMPLETED COMPLETED" {
		t.Errorf("%s: %s %s", got, *p.Record.State, text(p.Record.ErrorMessage))
	}
}

// TestNotTogether checks B32: terminate and form are refused beside other calls, and the agent goes on.
func TestNotTogether(t *testing.T) {
	t.Parallel()
	h, p := run(t, config.Definition{Tools: []string{"echo", "form"}}, calls(
		[]scriptmodel.ToolCall{call("echo", object{"text": "x"}), terminate("early")[0], call("form", object{"inputs": []object{{"label": "l"}}})},
		terminate("late")))
	if text(p.Record.Summary) != "late" {
		t.Fatalf("the answer is %q", text(p.Record.Summary))
	}
	for i, c := range h.Step(p).Cycles[0].ToolCalls {
		refused := strings.HasPrefix(text(c.Record.Result), "Multiple tools execution does not support TerminableTool and FormInputTool")
		if refused != (i > 0) || (*c.Record.State == record.Failed) != (i > 0) {
			t.Errorf("call %d: %s %s", i, *c.Record.State, text(c.Record.Result))
		}
	}
}

// TestNestedTooDeep checks B33: ten levels of runs, and not one more.
func TestNestedTooDeep(t *testing.T) {
	t.Parallel()
	h, p := run(t, config.Definition{Tools: []string{"agent.a"}}, calls(
		[]scriptmodel.ToolCall{call("agent.a", object{"request": "Do it again."})}, terminate("done")))
	depth := 1
	for len(p.Steps[0].SubPlans) > 0 {
		p = p.Steps[0].SubPlans[0]
		depth++
	}
	if c := h.Step(p).Cycles[0].ToolCalls[0].Record; depth != 10 || !strings.Contains(text(c.Result), "10 deep") || text(c.ErrorKind) != "depth" {
		t.Errorf("%d levels; the last call says %q", depth, text(c.Result))
	}
}

// TestResponseSchema checks that the answer fits the schema, and that the model is told if it does not.
func TestResponseSchema(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{"score":{"type":"integer"}},"required":["score"]}`)
	h, p := run(t, config.Definition{ResponseSchema: schema}, calls(
		[]scriptmodel.ToolCall{call("terminate", object{"message": object{"score": "high"}})},
		[]scriptmodel.ToolCall{call("terminate", object{"message": object{"score": 7}})}))
	if text(p.Record.Summary) != `{"score":7}` {
		t.Errorf("the answer is %s", text(p.Record.Summary))
	}
	if c := h.Step(p).Cycles[0].ToolCalls[0].Record; *c.State != record.Failed || !strings.Contains(text(c.Result), "score") {
		t.Errorf("the first answer: %s %s", *c.State, text(c.Result))
	}
}

// TestLongAnswer checks that an answer is whole, however long it is.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 50_000)
	if _, p := run(t, config.Definition{}, calls(terminate(long))); text(p.Record.Summary) != long {
		t.Errorf("%d of %d bytes", len(text(p.Record.Summary)), len(long))
	}
}

// TestBadRequests checks that what is wrong with a request is named.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{{Name: "s", Turns: calls(terminate("x"))}}, Definitions: map[string]any{"agent.a": config.Definition{Model: config.DefinitionModel{Name: "default"}}},
		Executors: []engine.Executor{thinkact.Executor{}},
	})
	for input, field := range map[string]string{
		`{"agent":"a","request":"r","extra":1}`: "input.extra", `{"agent":"a"}`: "input.request", `{"agent":"a","request":" "}`: "input.request",
		`{"request":"r"}`: "input.agent", `{"agent":1,"request":"r"}`: "input.agent", `[]`: "input", ``: "input", `{"agent":"b","request":"r"}`: "",
	} {
		_, err := h.Engine.Start(t.Context(), engine.Request{Executor: "agent", Input: json.RawMessage(input)})
		invalid := new(record.InvalidError)
		if field == "" {
			if !errors.Is(err, record.ErrNotFound) {
				t.Errorf("%s: %v", input, err)
			}
		} else if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v, want field %s", input, err, field)
		}
	}
	for _, r := range []engine.Request{
		{Executor: "other"}, {Executor: "agent", Input: json.RawMessage(`{"agent":"a","request":"r"}`), Limits: &engine.Limits{Rounds: -1}},
	} {
		if _, err := h.Engine.Start(t.Context(), r); !errors.As(err, new(*record.InvalidError)) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
