package thinkact_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/thinkact"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
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
func run(
	t *testing.T, a define.Definition, turns []scriptmodel.Turn, others ...scriptmodel.Scene,
) (*enginetest.House, *tree.Plan) {
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
			h, p := run(t, define.Definition{Tools: []string{"echo"}, MaxSteps: 2}, append(calls(say(1), say(2)), last))
			st := h.Step(p)
			if *p.Record.State != record.Completed || text(p.Record.Summary) != "What I found." || len(st.Cycles) != 3 {
				t.Fatalf("%s %q after %d cycles", *p.Record.State, text(p.Record.Summary), len(st.Cycles))
			}

			end := st.Cycles[2]
			if len(end.ToolCalls) != 1 || text(end.ToolCalls[0].Record.Name) != "terminate" ||
				*end.ToolCalls[0].Record.State != record.Completed {
				t.Errorf("the last cycle: %+v", end)
			}
			if *end.Record.State != record.Completed ||
				!strings.Contains(text(end.Record.ThinkInput), "used all of your rounds") {
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
	h, p := run(t, define.Definition{Tools: []string{"echo"}}, []scriptmodel.Turn{
		quiet, quiet, speaks, quiet, quiet, quiet, speaks,
	})

	if *p.Record.State != record.Failed || text(p.Record.ErrorKind) != "no_tool_call" || len(h.Step(p).Cycles) != 6 ||
		*p.Steps[0].Record.State != record.Failed {
		t.Errorf("%s %s after %d cycles", *p.Record.State, text(p.Record.ErrorMessage), len(h.Step(p).Cycles))
	}
}

// TestSameResults checks B31: three results in a row that are the same make the agent start from a
// summary.
func TestSameResults(t *testing.T) {
	t.Parallel()
	same := []scriptmodel.ToolCall{call("echo", object{"text": "nothing"})}
	summary := scriptmodel.Scene{
		Name: "summary", Match: scriptmodel.Match{User: "The work so far"},
		Turns: []scriptmodel.Turn{{Content: "Echo leads nowhere."}},
	}

	h, p := run(t, define.Definition{Tools: []string{"echo"}}, calls(same, same, same, terminate("never")), summary)
	st := h.Step(p)
	// The script counts the answers it sees: after the summary it begins again.
	if *p.Record.State != record.Completed && text(p.Record.ErrorKind) == "" {
		t.Fatalf("p.Record.State = %s", *p.Record.State)
	}

	if got := text(st.Cycles[3].Record.ThinkOutput); got != "Echo leads nowhere." {
		t.Fatalf("cycle 3 says %q", got)
	}
	in := text(st.Cycles[4].Record.ThinkInput)
	if !strings.Contains(in, "Echo leads nowhere.") || !strings.Contains(in, "Do it.") ||
		strings.Contains(in, `"nothing"`) {
		t.Errorf("cycle 4 begins with %s", in)
	}
}

// TestContextIsTooLong checks that an agent whose conversation the model refuses starts from a summary.
func TestContextIsTooLong(t *testing.T) {
	t.Parallel()
	say := []scriptmodel.ToolCall{call("echo", object{"text": "found it"})}
	scenes := []scriptmodel.Scene{
		{
			Name: "summary", Match: scriptmodel.Match{User: "The work so far"},
			Turns: []scriptmodel.Turn{{Content: "It was found."}},
		},
	}

	tooLong := scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		if len(r.Messages) > 3 {
			return scriptmodel.Turn{
				Error: &scriptmodel.Failure{
					Status: 400, Message: "This model's maximum context length is 10 tokens.", Code: "context_length_exceeded",
				},
			}, nil
		}
		return scriptmodel.Turn{ToolCalls: terminate("done")}, nil
	}}
	first := scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
		if len(r.Messages) > 2 {
			return scriptmodel.Turn{ToolCalls: terminate("done")}, nil
		}
		return scriptmodel.Turn{ToolCalls: say}, nil
	}}

	h, p := run(t, define.Definition{Tools: []string{"echo"}}, []scriptmodel.Turn{first, tooLong}, scenes...)
	var states []string
	for _, c := range h.Step(p).Cycles {
		states = append(states, string(*c.Record.State))
	}
	if got := strings.Join(states, " "); *p.Record.State != record.Completed ||
		got != "COMPLETED FAILED COMPLETED COMPLETED" {
		t.Errorf("%s: %s %s", got, *p.Record.State, text(p.Record.ErrorMessage))
	}
}

// TestNotTogether checks B32: terminate and form are refused beside other calls, and the agent goes on.
func TestNotTogether(t *testing.T) {
	t.Parallel()
	h, p := run(t, define.Definition{Tools: []string{"echo", "form"}}, calls(
		[]scriptmodel.ToolCall{
			call("echo", object{"text": "x"}), terminate("early")[0], call("form", object{"inputs": []object{{"label": "l"}}}),
		},
		terminate("late")))

	if text(p.Record.Summary) != "late" {
		t.Fatalf("the answer is %q", text(p.Record.Summary))
	}
	for i, c := range h.Step(p).Cycles[0].ToolCalls {
		refused := strings.HasPrefix(text(c.Record.Result),
			"Multiple tools execution does not support TerminableTool and FormInputTool")
		if refused != (i > 0) || (*c.Record.State == record.Failed) != (i > 0) {
			t.Errorf("call %d: %s %s", i, *c.Record.State, text(c.Record.Result))
		}
	}
}

// TestNestedTooDeep checks B33: ten levels of runs, and not one more.
func TestNestedTooDeep(t *testing.T) {
	t.Parallel()
	h, p := run(t, define.Definition{Tools: []string{"agent.a"}}, calls(
		[]scriptmodel.ToolCall{call("agent.a", object{"request": "Do it again."})}, terminate("done")))
	depth := 1
	for len(p.Steps[0].SubPlans) > 0 {
		p = p.Steps[0].SubPlans[0]
		depth++
	}

	if c := h.Step(p).Cycles[0].ToolCalls[0].Record; depth != 10 || !strings.Contains(text(c.Result), "10 deep") ||
		text(c.ErrorKind) != "depth" {
		t.Errorf("%d levels; the last call says %q", depth, text(c.Result))
	}
}

// TestResponseSchema checks that the answer fits the schema, and that the model is told if it does not.
func TestResponseSchema(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{"score":{"type":"integer"}},"required":["score"]}`)
	h, p := run(t, define.Definition{ResponseSchema: schema}, calls(
		[]scriptmodel.ToolCall{call("terminate", object{"message": object{"score": "high"}})},
		[]scriptmodel.ToolCall{call("terminate", object{"message": object{"score": 7}})}))

	if text(p.Record.Summary) != `{"score":7}` {
		t.Errorf("the answer is %s", text(p.Record.Summary))
	}
	if c := h.Step(p).Cycles[0].ToolCalls[0].Record; *c.State != record.Failed ||
		!strings.Contains(text(c.Result), "score") {
		t.Errorf("the first answer: %s %s", *c.State, text(c.Result))
	}
}

// TestLongAnswer checks that an answer is whole, however long it is.
func TestLongAnswer(t *testing.T) {
	pgtest.NotRaced(t, "nothing runs in parallel in it; it checks what is read, and how much of it")
	t.Parallel()
	long := strings.Repeat("long ", 50_000)
	if _, p := run(t, define.Definition{}, calls(terminate(long))); text(p.Record.Summary) != long {
		t.Errorf("%d of %d bytes", len(text(p.Record.Summary)), len(long))
	}
}

// TestBadRequests checks that what is wrong with a request is named.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	h := enginetest.Build(t, enginetest.Plans{
		Scenes:      []scriptmodel.Scene{{Name: "s", Turns: calls(terminate("x"))}},
		Definitions: map[string]any{"agent.a": define.Definition{Model: define.DefinitionModel{Name: "default"}}},
		Executors:   []engine.Executor{thinkact.Executor{}},
	})

	for input, field := range map[string]string{
		`{"agent":"a","request":"r","extra":1}`: "input.extra", `{"agent":"a"}`: "input.request",
		`{"agent":"a","request":" "}`: "input.request",
		`{"request":"r"}`:             "input.agent", `{"agent":1,"request":"r"}`: "input.agent", `[]`: "input", ``: "input",
		`{"agent":"b","request":"r"}`: "",
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
		{Executor: "other"}, {
			Executor: "agent", Input: json.RawMessage(`{"agent":"a","request":"r"}`), Limits: &engine.Limits{Rounds: -1},
		},
	} {
		if _, err := h.Engine.Start(t.Context(), r); !errors.As(err, new(*record.InvalidError)) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// summaries counts the cycles in which an agent was asked for a summary.
func summaries(st *tree.Step) (n int) {
	for _, c := range st.Cycles {
		if strings.Contains(text(c.Record.ThinkInput), "Summarise the work so far") {
			n++
		}
	}
	return n
}

// TestLoop: a loop is the same tool with the same arguments and the same result in three answers in a row.
func TestLoop(t *testing.T) {
	t.Parallel()
	say := func(words string) scriptmodel.ToolCall { return call("echo", object{"text": words}) }
	ok := func(n int) scriptmodel.ToolCall { return call("ok", object{"n": n}) }
	quiet := scriptmodel.Turn{Content: "Well."}
	turn := func(calls ...scriptmodel.ToolCall) scriptmodel.Turn { return scriptmodel.Turn{ToolCalls: calls} }

	for name, tt := range map[string]struct {
		turns []scriptmodel.Turn
		loops int
	}{
		"other arguments in one answer":    {[]scriptmodel.Turn{turn(ok(1), ok(2), ok(3))}, 0},
		"other arguments in three answers": {[]scriptmodel.Turn{turn(ok(1)), turn(ok(2)), turn(ok(3)), turn(ok(4))}, 0},
		"repeated within an answer":        {[]scriptmodel.Turn{turn(ok(1), ok(1), ok(1)), turn(ok(2))}, 0},
		"repeated in two answers":          {[]scriptmodel.Turn{turn(ok(1), ok(1)), turn(ok(1), ok(1)), turn(ok(2))}, 0},
		"another call in between": {
			[]scriptmodel.Turn{turn(ok(1)), turn(ok(1)), turn(ok(2)), turn(ok(1)), turn(ok(1))}, 0,
		},
		"a text in between": {
			[]scriptmodel.Turn{turn(ok(1)), turn(ok(1)), quiet, turn(ok(1)), turn(ok(1))}, 0,
		},
		"another call beside it": {
			[]scriptmodel.Turn{turn(ok(1), say("a")), turn(ok(1), say("b")), turn(ok(1), say("c"))}, 0,
		},
		"another tool with the same": {
			[]scriptmodel.Turn{turn(ok(1)), turn(call("fine", object{"n": 1})), turn(ok(1))}, 0,
		},
		"other results": {
			[]scriptmodel.Turn{turn(call("count", object{})), turn(call("count", object{})), turn(call("count", object{}))}, 0,
		},
		"three in a row":                      {[]scriptmodel.Turn{turn(ok(1)), turn(ok(1)), turn(ok(1))}, 1},
		"three in a row after another":        {[]scriptmodel.Turn{turn(ok(2)), turn(ok(1)), turn(ok(1)), turn(ok(1))}, 1},
		"three in a row, some more than once": {[]scriptmodel.Turn{turn(ok(1), ok(1)), turn(ok(1)), turn(ok(1))}, 1},
		"the same two in three answers": {
			[]scriptmodel.Turn{turn(ok(1), ok(2)), turn(ok(2), ok(1)), turn(ok(1), ok(2))}, 1,
		},
		"the same arguments, otherwise written": {
			[]scriptmodel.Turn{
				turn(call("two", `{"a":1,"b":2}`)), turn(call("two", `{"b": 2, "a": 1}`)), turn(call("two", `{"a":1,"b":2}`)),
			}, 1,
		},
		"a tool that is not there": {
			[]scriptmodel.Turn{turn(call("moon", object{})), turn(call("moon", object{})), turn(call("moon", object{}))}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int64
			always := func(name string) tool.Tool {
				return tool.Func(name, "Says ok.", func(context.Context, struct {
					N int `json:"n,omitempty"`
					A int `json:"a,omitempty"`
					B int `json:"b,omitempty"`
				}) (string, error) {
					return "ok", nil
				})
			}
			count := tool.Func("count", "Counts.", func(context.Context, struct{}) (string, error) {
				return fmt.Sprint(n.Add(1)), nil
			})

			h := enginetest.Build(t, enginetest.Plans{
				Scenes: []scriptmodel.Scene{
					{
						Name: "summary", Match: scriptmodel.Match{User: "The work so far"},
						Turns: []scriptmodel.Turn{{Content: "A summary."}},
					},
					{Name: "agent", Turns: slices.Repeat([]scriptmodel.Turn{{Reply: func(
						_ context.Context, r *scriptmodel.Request,
					) (scriptmodel.Turn, error) {
						said, summarised := 0, false
						for _, m := range r.Messages {
							if m.Role == "assistant" {
								said++
							}
							summarised = summarised || strings.Contains(string(m.Content), "A summary of your work")
						}
						if said < len(tt.turns) && !summarised {
							return tt.turns[said], nil
						}
						return turn(terminate("done")...), nil
					}}}, len(tt.turns)+1)},
				},
				Definitions: map[string]any{
					"agent.a": define.Definition{
						Tools: []string{"*"}, Model: define.DefinitionModel{Name: "default"}, EnableWrite: true,
					},
				},
				Tools:     []tool.Tool{echo, count, always("ok"), always("fine"), always("two")},
				Executors: []engine.Executor{thinkact.Executor{}},
			})

			h.Work(h.Engine)
			p := h.Ended(h.Start("a", "Do it."))
			if got := summaries(h.Step(p)); *p.Record.State != record.Completed || got != tt.loops {
				t.Errorf("%s %s; %d summaries, not %d", *p.Record.State, text(p.Record.ErrorMessage), got, tt.loops)
			}
		})
	}
}

// TestLastRound: whatever a model answers where only terminate is offered.
func TestLastRound(t *testing.T) {
	t.Parallel()
	say := call("echo", object{"text": "x"})
	schema := json.RawMessage(`{"type":"object","properties":{"score":{"type":"integer"}},"required":["score"]}`)

	for name, tt := range map[string]struct {
		last   scriptmodel.Turn
		schema json.RawMessage
		answer string // empty: the run fails
		states string // of the last calls
	}{
		"another tool": {scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{say}}, nil, "", "FAILED"},
		"several others": {
			scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{say, say}}, nil, "", "FAILED FAILED",
		},
		"no such tool": {
			scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{call("moon", object{})}}, nil, "", "FAILED",
		},
		"another tool, and a text": {
			scriptmodel.Turn{Content: "What I found.", ToolCalls: []scriptmodel.ToolCall{say}}, nil, "What I found.",
			"FAILED COMPLETED",
		},
		"another tool, then terminate": {
			scriptmodel.Turn{ToolCalls: append([]scriptmodel.ToolCall{say}, terminate("Found.")...)}, nil, "Found.",
			"FAILED COMPLETED",
		},
		"terminate, then another tool": {
			scriptmodel.Turn{ToolCalls: append(terminate("Found."), say)}, nil, "Found.", "COMPLETED FAILED",
		},
		"terminate twice": {
			scriptmodel.Turn{ToolCalls: append(terminate("One."), terminate("Two.")...)}, nil, "One.", "COMPLETED COMPLETED",
		},
		"terminate without a message": {
			scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{call("terminate", object{})}}, nil, "", "FAILED",
		},
		"arguments that are none": {
			scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{call("terminate", "{")}}, nil, "", "FAILED",
		},
		"nothing":                     {scriptmodel.Turn{FinishReason: "stop"}, nil, "", ""},
		"a text that does not fit":    {scriptmodel.Turn{Content: "What I found."}, schema, "", "FAILED"},
		"a text that fits":            {scriptmodel.Turn{Content: `{"score":7}`}, schema, `{"score":7}`, "COMPLETED"},
		"terminate that does not fit": {scriptmodel.Turn{ToolCalls: terminate("high")}, schema, "", "FAILED"},
		"a text that was cut": {
			scriptmodel.Turn{Content: "What I fou", FinishReason: "length"}, nil, "What I fou", "COMPLETED",
		},
		"terminate that was cut": {
			scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{call("terminate", `{"message":"What`)}, FinishReason: "length"},
			nil, "", "FAILED",
		},
		"another tool that it once called": {
			scriptmodel.Turn{Content: " ", ToolCalls: []scriptmodel.ToolCall{call("echo", object{"text": "0"})}}, nil, "",
			"FAILED",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p := run(t, define.Definition{Tools: []string{"echo"}, MaxSteps: 2, ResponseSchema: tt.schema}, append(calls(
				[]scriptmodel.ToolCall{call("echo", object{"text": "0"})},
				[]scriptmodel.ToolCall{call("echo", object{"text": "1"})}), tt.last))
			st := h.Step(p)
			if len(st.Cycles) != 3 || *st.Cycles[1].ToolCalls[0].Record.State != record.Completed {
				t.Fatalf("%s %s after %d cycles", *p.Record.State, text(p.Record.ErrorMessage), len(st.Cycles))
			}

			var states []string
			for _, c := range st.Cycles[2].ToolCalls {
				states = append(states, string(*c.Record.State))
			}
			if got := strings.Join(states, " "); got != tt.states {
				t.Errorf("the last calls are %s, not %s", got, tt.states)
			}

			switch {
			case tt.answer != "" && (*p.Record.State != record.Completed || text(p.Record.Summary) != tt.answer):
				t.Errorf("p.Record.State = %s %q %s", *p.Record.State, text(p.Record.Summary), text(p.Record.ErrorMessage))
			case tt.answer == "" && (text(p.Record.ErrorKind) != engine.LimitRounds ||
				!strings.Contains(text(p.Record.ErrorMessage), "2 rounds")):
				t.Errorf("p.Record.State = %s %s %s", *p.Record.State, text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
			}
		})
	}
}

// TestLastRoundAtEveryWrite: a worker that is lost at any write does not change how the last round ends.
func TestLastRoundAtEveryWrite(t *testing.T) {
	t.Parallel()
	say := call("echo", object{"text": "x"})
	carry := func(t *testing.T, disturb func(*enginetest.House)) string {
		t.Helper()
		h := enginetest.Build(t, enginetest.Plans{
			Scenes: []scriptmodel.Scene{{Name: "agent", Turns: append(calls([]scriptmodel.ToolCall{say}),
				scriptmodel.Turn{Content: "What I found.", ToolCalls: []scriptmodel.ToolCall{say, call("moon", object{})}})}},
			Definitions: map[string]any{
				"agent.a": define.Definition{Tools: []string{"echo"}, MaxSteps: 1, Model: define.DefinitionModel{Name: "default"}},
			},
			Tools: []tool.Tool{echo}, Executors: []engine.Executor{thinkact.Executor{}},
		})

		disturb(h)
		h.Work(h.Engine)
		p := h.Ended(h.Start("a", "Do it."))
		lines := []string{string(*p.Record.State) + " " + text(p.Record.Summary) + text(p.Record.ErrorMessage)}
		for _, c := range h.Step(p).Cycles {
			for _, each := range c.ToolCalls {
				lines = append(lines, fmt.Sprint(*c.Record.State, " ", text(each.Record.Name), " ", *each.Record.State, " ",
					text(each.Record.Result)))
			}
		}
		return strings.Join(lines, "\n")
	}

	lost := strings.NewReplacer("UNKNOWN The outcome of this call is unknown: it may have taken effect or not. Verify "+
		"before you repeat it.", "COMPLETED x")
	want := enginetest.AtEveryWrite(t, carry, func(t *testing.T, got, want string) {
		t.Helper()
		if lost.Replace(got) != want {
			t.Errorf("it came to\n%s\nnot\n%s", got, want)
		}
	})
	if !strings.HasPrefix(want, "COMPLETED What I found.\n") {
		t.Errorf("it came to\n%s", want)
	}
}

// TestSummaryCallsATool: a request for a summary, which offers no tools, is answered with a call: it is not made, and
// the work so far is not lost.
func TestSummaryCallsATool(t *testing.T) {
	t.Parallel()
	same := []scriptmodel.ToolCall{call("echo", object{"text": "found it"})}
	h, p := run(t, define.Definition{Tools: []string{"echo"}}, calls(same, same, same),
		scriptmodel.Scene{Name: "summary", Match: scriptmodel.Match{User: "The work so far"}, Turns: calls(same)})

	c := h.Step(p).Cycles
	if *c[3].Record.State != record.Completed || *c[3].ToolCalls[0].Record.State != record.Skipped {
		t.Errorf("the cycle is %s, its call %s", *c[3].Record.State, *c[3].ToolCalls[0].Record.State)
	}
	if in := text(c[4].Record.ThinkInput); !strings.Contains(in, "echo returned: found it") {
		t.Errorf("the agent goes on from %s", in)
	}
}

// TestEndsOfAnswers: refusals and content filters end a run at once; answers that were cut are called cut.
func TestEndsOfAnswers(t *testing.T) {
	t.Parallel()
	say := call("echo", object{"text": "x"})
	quiet, half := scriptmodel.Turn{Content: "Well."}, scriptmodel.Turn{Content: "Wel", FinishReason: "length"}
	silent := scriptmodel.Turn{FinishReason: "length"}
	cutCall := scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{call("echo", `{"text":"x`)}, FinishReason: "length"}
	noneYet := scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{say, call("echo", "")}, FinishReason: "length"}
	badCall := scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{call("echo", `{"text":"x`)}}
	whole := scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{say}, FinishReason: "length"}

	for name, tt := range map[string]struct {
		turns  []scriptmodel.Turn
		asked  int
		kind   string // empty: the run is completed
		error  string // has these words
		called string // kind of the first call of the last but one, or only, cycle that has some
	}{
		"a refusal": {
			[]scriptmodel.Turn{{Refusal: "I will not do that."}}, 1, "refusal", "I will not do that.", "",
		},
		"a refusal by its reason": {
			[]scriptmodel.Turn{{Content: "No.", FinishReason: "refusal"}}, 1, "refusal", "No.", "",
		},
		"a refusal later": {
			[]scriptmodel.Turn{quiet, {ToolCalls: []scriptmodel.ToolCall{say}}, half, {Refusal: "No."}}, 4, "refusal", "No.", "",
		},
		"a refusal with a call": {
			[]scriptmodel.Turn{{Refusal: "No.", ToolCalls: []scriptmodel.ToolCall{say}}}, 1, "refusal", "No.", "",
		},
		"a content filter": {
			[]scriptmodel.Turn{{Content: "Here is", FinishReason: "content_filter"}}, 1, "content_filter", "Here is", "",
		},
		"a filter without words": {
			[]scriptmodel.Turn{{FinishReason: "content_filter"}}, 1, "content_filter", "content filter", "",
		},
		"cut three times":    {[]scriptmodel.Turn{half, half, half}, 3, "length", "maxTokens", ""},
		"cut without a word": {[]scriptmodel.Turn{silent, silent, silent}, 3, "length", "maxTokens", ""},
		"cut in arguments": {
			[]scriptmodel.Turn{cutCall, cutCall, cutCall}, 3, "length", "maxTokens", "length",
		},
		"cut before arguments": {[]scriptmodel.Turn{noneYet, half, cutCall}, 3, "length", "maxTokens", ""},
		"cut twice": {
			[]scriptmodel.Turn{half, half, quiet, half, half, {ToolCalls: terminate("done")}}, 6, "", "", "",
		},
		"silent": {
			[]scriptmodel.Turn{half, quiet, quiet, quiet}, 4, "no_tool_call", "three times", "",
		},
		"bad arguments": {
			[]scriptmodel.Turn{badCall, badCall, {ToolCalls: terminate("done")}}, 3, "", "", "tool",
		},
		"whole calls of an answer that was cut": {
			[]scriptmodel.Turn{whole, {ToolCalls: terminate("done"), FinishReason: "length"}}, 2, "", "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p := run(t, define.Definition{Tools: []string{"echo"}, Model: define.DefinitionModel{MaxTokens: 1234}}, tt.turns)
			st := h.Step(p)

			if text(p.Record.ErrorKind) != tt.kind || !strings.Contains(text(p.Record.ErrorMessage), tt.error) ||
				len(st.Cycles) != tt.asked || text(st.Record.ErrorKind) != tt.kind {
				t.Errorf("%s %s %q after %d cycles; the step %s", *p.Record.State, text(p.Record.ErrorKind),
					text(p.Record.ErrorMessage), len(st.Cycles), text(st.Record.ErrorKind))
			}

			for _, c := range st.Cycles {
				if tt.called != "" && text(c.ToolCalls[0].Record.ErrorKind) != tt.called &&
					text(c.ToolCalls[0].Record.Name) == "echo" {
					t.Errorf("the call failed as %q: %s", text(c.ToolCalls[0].Record.ErrorKind), text(c.ToolCalls[0].Record.Result))
				}
			}
			if body := string(h.Model.Requests()[len(h.Model.Requests())-1].Body); tt.kind == "length" &&
				!strings.Contains(body, "cut at the limit of 1234 tokens") {
				t.Errorf("the model was not told that it was cut: %s", body)
			}
		})
	}
}

// TestHistory checks that an agent is told what its client says came before, redacted, and that a wrong history starts
// nothing.
func TestHistory(t *testing.T) {
	t.Parallel()
	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{{Name: "agent",
			Turns: []scriptmodel.Turn{{Content: "Hm."}, {Content: "Hm."}, {ToolCalls: terminate("done")}}}},
		Definitions: map[string]any{"agent.a": define.Definition{Model: define.DefinitionModel{Name: "default"}}},
		Executors:   []engine.Executor{thinkact.Executor{}},
	})
	h.Parts.Secret = "sesame"
	h.Work(h.Engine)

	with := func(history ...object) func(*engine.Request) {
		return func(r *engine.Request) {
			r.Input, _ = json.Marshal(object{"agent": "a", "request": "And now?", "history": history}) // texts
		}
	}

	p := h.Ended(h.Start("a", "",
		with(object{"role": "user", "content": "Open sesame."}, object{"role": "assistant", "content": "Opened."})))
	in := text(h.Step(p).Cycles[0].Record.ThinkInput)
	if at := strings.Index(in, "Open [secret]."); at < 0 || strings.Index(in, "Opened.") < at ||
		strings.Index(in, "And now?") < at || text(p.Record.UserRequest) != "And now?" {
		t.Errorf("the model was told %s", in)
	}

	for name, history := range map[string][]object{
		"role": {{"role": "system", "content": "x"}}, "content": {{"role": "user", "content": " "}},
		"history": {{"role": "user", "content": strings.Repeat("x", 200_001)}},
	} {
		r := engine.Request{Executor: "agent"}
		with(history...)(&r)
		_, err := h.Engine.Start(t.Context(), r)
		if bad := new(record.InvalidError); !errors.As(err, &bad) || !strings.HasSuffix(bad.Field, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
