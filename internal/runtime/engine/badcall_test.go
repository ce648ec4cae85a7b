package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// plainTool is a tool of a program that checks nothing itself.
type plainTool struct {
	spec   tool.Spec
	called *int
}

func (p plainTool) Spec() tool.Spec { return p.spec }

func (p plainTool) Call(context.Context, tool.Call) (tool.Result, error) {
	*p.called++
	return tool.Result{Text: "made"}, nil
}

// X8: a call with bad arguments is never made: nobody is asked to approve it, it does not begin, and the model reads
// which argument is bad.
func TestABadCallIsNotMade(t *testing.T) {
	t.Parallel()
	called := 0
	schema := json.RawMessage(
		`{"type":"object","properties":{"amount":{"type":"integer"},"to":{"type":"string"}},"required":["amount"]}`,
	)

	function, err := tool.SchemaFunc("schema", "Has a schema.", schema,
		func(context.Context, tool.Call) (tool.Result, error) {
			called++
			return tool.Result{}, nil
		}, tool.WithPolicy(tool.Policy{Approval: true}))
	if err != nil {
		t.Fatal(err)
	}

	typed := tool.Func("typed", "Has a type.", func(context.Context, struct {
		Amount int `json:"amount"`
	}) (string, error) {
		called++
		return "", nil
	}, tool.WithPolicy(tool.Policy{Approval: true, Writes: true}))
	plain := plainTool{tool.Spec{Name: "plain", Schema: schema, Policy: tool.Policy{Approval: true}}, &called}

	for name, arguments := range map[string]object{
		"schema": {"amount": "much"}, "typed": {"amount": "much"}, "plain": {"amount": "much"}, "agent.b": {"request": 7},
		"form": {"inputs": "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t, []scriptmodel.Scene{
				{Name: "s", Turns: calls([]scriptmodel.ToolCall{call(name, arguments)}, terminate("done"))},
			},
				map[string]define.Definition{
					"a": {Tools: []string{name}, Policies: tool.Rules{{Tools: "agent.*", Approval: new(true)}}}, "b": {},
				},
				[]tool.Tool{function, typed, plain})
			h.Work(h.Engine)

			made := h.Step(h.Await(h.Start("a", "Go."), record.Completed)).Cycles[0].ToolCalls[0].Record
			if *made.State != record.Failed || made.StartTime != nil ||
				!strings.HasPrefix(text(made.Result), "Bad arguments: ") {
				t.Errorf("the call is %s since %v: %q", *made.State, made.StartTime, text(made.Result))
			}
			for _, key := range []string{"amount", "request", "inputs"} {
				if _, there := arguments[key]; there && !strings.Contains(text(made.Result), key) {
					t.Errorf("%q does not name %s", text(made.Result), key)
				}
			}
			if n := number(t, h, "SELECT count(*) FROM actlog.wait_state"); n > 0 || called > 0 {
				t.Errorf("%d waits, %d calls", n, called)
			}
		})
	}
}

// checking is a tool that counts how often it checks arguments.
type checking struct {
	plainTool
	checked *int
}

// CheckArguments implements [tool.ArgumentChecker].
func (c checking) CheckArguments(json.RawMessage) error {
	*c.checked++
	return nil
}

// The arguments of a call are checked once before it is made.
func TestArgumentsAreCheckedOnce(t *testing.T) {
	t.Parallel()
	called, checked := 0, 0
	plain := checking{plainTool{tool.Spec{Name: "plain", Schema: json.RawMessage(`{"type":"object"}`)}, &called}, &checked}
	h := build(t, []scriptmodel.Scene{
		{Name: "s", Turns: calls([]scriptmodel.ToolCall{call("plain", object{})}, terminate("done"))},
	},
		map[string]define.Definition{"a": {Tools: []string{"plain"}}}, []tool.Tool{plain})
	h.Work(h.Engine)

	h.Await(h.Start("a", "Go."), record.Completed)
	if called != 1 || checked != 1 {
		t.Errorf("the tool was called %d times, and checked arguments %d times", called, checked)
	}
}

// X8: a time-out of a tool says so. A tool that writes may have taken effect, so what follows is up to onUnknown; so it
// is if a human is to be asked.
func TestAToolTimesOut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy tool.Policy
		state  record.State
		text   string
	}{
		"reads":        {tool.Policy{}, record.Failed, "No result within"},
		"reads, retry": {tool.Policy{OnUnknown: tool.Retry}, record.Failed, "No result within"},
		"writes": {
			tool.Policy{Writes: true}, record.Unknown, "The call timed out. The outcome of this call is unknown",
		},
		"writes, retry": {tool.Policy{Writes: true, OnUnknown: tool.Retry}, record.Unknown, "The call timed out."},
		"ask": {
			tool.Policy{OnUnknown: tool.Ask, WaitTimeout: time.Millisecond}, record.Unknown, "The call timed out.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBlocker()
			tt.policy.Timeout = 20 * time.Millisecond
			h := blocking(t, b, tt.policy)
			h.Work(h.Engine)

			made := h.Step(h.Await(h.Start("worker", "Go."), record.Completed)).Cycles[0].ToolCalls[0].Record
			if *made.State != tt.state || text(made.ErrorKind) != "timeout" || !strings.HasPrefix(text(made.Result), tt.text) {
				t.Errorf("the call is %s, %s: %q", *made.State, text(made.ErrorKind), text(made.Result))
			}
			if want := map[bool]int{true: 5, false: 1}[name == "writes, retry"]; len(b.begun) != want {
				t.Errorf("the call was made %d times, want %d", len(b.begun), want)
			}
		})
	}
}
