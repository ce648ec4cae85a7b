package engine_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

type nameArgument struct {
	Name string `json:"name"`
}

// greet is a tool that counts its calls.
func greet(n *atomic.Int64, p tool.Policy) tool.Tool {
	return tool.Func("greet", "Greets.", func(_ context.Context, in nameArgument) (string, error) {
		n.Add(1)
		return "Hello " + in.Name, nil
	}, tool.WithPolicy(p))
}

// TestRunOfAnAgent checks what is on record of a run that nothing disturbs (B25 to B28, B31).
func TestRunOfAnAgent(t *testing.T) {
	t.Parallel()
	var greeted atomic.Int64
	h := build(t, []scriptmodel.Scene{{Name: "s", Turns: append(calls(
		[]scriptmodel.ToolCall{call("greet", object{"name": "Ann"}), call("greet", object{"name": "Bo"})},
		[]scriptmodel.ToolCall{call("greet", object{"nam": "Cy"})},
	), scriptmodel.Turn{Content: "All are greeted.", ToolCalls: terminate("Done.")})}},
		map[string]define.Definition{
			"host": {Description: "Greets people", SystemPrompt: "You greet.", Tools: []string{"greet"}},
		},
		[]tool.Tool{greet(&greeted, tool.Policy{})})

	h.Work(h.Engine)
	id := h.Start("host", "Greet Ann and Bo.\nPlease.")
	p := h.Await(id, record.Completed)
	if got := p.Record; text(got.Summary) != "Done." || text(got.Title) != "Greet Ann and Bo." ||
		text(got.UserRequest) != "Greet Ann and Bo.\nPlease." ||
		text(got.Executor) != "agent" || text(got.Name) != "host" || got.StartTime == nil || got.EndTime == nil {
		t.Errorf("the plan: %+v", got)
	}

	step := h.Step(p)
	if r := step.Record; *r.State != record.Completed || text(r.Result) != "Done." || text(r.AgentName) != "host" ||
		*r.MaxSteps != 30 || text(r.AgentDescription) != "Greets people" {
		t.Errorf("the step: %+v", r)
	}
	if greeted.Load() != 2 || len(step.Cycles) != 3 {
		t.Fatalf("greeted %d times in %d cycles", greeted.Load(), len(step.Cycles))
	}

	for i, want := range []struct{ in, out, action, result string }{
		{`"You greet.`, "", "Call greet, greet", "greet: Hello Ann\ngreet: Hello Bo"},
		{`"Hello Bo"`, "", "Call greet", "greet: Bad arguments: "},
		{`Bad arguments`, "All are greeted.", "Call terminate", "terminate: Done."},
	} {
		c := step.Cycles[i].Record
		if *c.State != record.Completed || !strings.Contains(text(c.ThinkInput), want.in) ||
			text(c.ThinkOutput) != want.out || text(c.ActionDescription) != want.action ||
			!strings.HasPrefix(text(c.ActionResult), want.result) || c.ThinkStartTime == nil || c.ThinkEndTime == nil ||
			c.ActStartTime == nil || c.ActEndTime == nil ||
			c.InputTokens == nil || c.Message == nil || *c.InputCharCount == 0 {
			t.Errorf("cycle %d: %+v", i, c)
		}
	}

	for i, want := range []string{"Hello Ann", "Hello Bo"} {
		c := step.Cycles[0].ToolCalls[i].Record
		if *c.State != record.Completed || text(c.Result) != want || *c.CallIndex != int64(i) || c.ProviderCallID == nil ||
			c.StartTime == nil || c.EndTime == nil {
			t.Errorf("call %d: %+v", i, c)
		}
	}

	if c := step.Cycles[1].ToolCalls[0].Record; *c.State != record.Failed || text(c.ErrorKind) != "tool" ||
		!strings.Contains(text(c.Result), "nam") {
		t.Errorf("the bad call: %+v", c)
	}
	// The input of a cycle is what was new in it.
	if in := text(step.Cycles[1].Record.ThinkInput); strings.Contains(in, "You greet.") {
		t.Errorf("cycle 1 repeats the input: %s", in)
	}
}

// TestOtherWorkerHasTheTool checks that a run waits for a worker that has its tools, and says so.
func TestOtherWorkerHasTheTool(t *testing.T) {
	t.Parallel()
	h := build(t, []scriptmodel.Scene{
		{Name: "s", Turns: calls([]scriptmodel.ToolCall{call("greet", object{"name": "Ann"})}, terminate("Done."))},
	},
		map[string]define.Definition{"host": {Tools: []string{"greet", "form", "terminate", "agent.host", "no-*"}}}, nil)

	h.Work(h.Engine)
	id := h.Start("host", "Greet.")
	storetest.Until(t, "it says what it waits for", func() bool {
		d, err := h.Runs.Reader.RunDetail(t.Context(), id)
		return err == nil && slices.Equal(d.WaitingFor, []string{"tool:greet"})
	})

	var err error
	var greeted atomic.Int64
	other := *h.Parts
	if other.Set, err = tool.NewSet(greet(&greeted, tool.Policy{})); err != nil {
		t.Fatal(err)
	}
	h.Work(h.NewEngine(func(c *engine.Config) { c.Parts = func() (engine.Parts, func()) { return &other, func() {} } }))
	if h.Await(id, record.Completed); greeted.Load() != 1 {
		t.Errorf("greeted %d times", greeted.Load())
	}
}

// promises are parts that provide more than there is, as those of a worker whose configuration was replaced
// since its last heartbeat.
type promises struct {
	engine.Parts
	more []string
}

func (p promises) Provides() []string { return append(p.Parts.Provides(), p.more...) }

// TestToolIsGone checks that a run fails clearly if a tool of its definition is not there.
func TestToolIsGone(t *testing.T) {
	t.Parallel()
	h := build(t, []scriptmodel.Scene{{Name: "s", Turns: calls(terminate("Done."))}},
		map[string]define.Definition{"host": {Tools: []string{"agent.gone"}}}, nil)
	h.Work(h.NewEngine(func(c *engine.Config) {
		c.Parts = func() (engine.Parts, func()) { return promises{h.Parts, []string{"tool:agent.gone"}}, func() {} }
	}))

	p := h.Await(h.Start("host", "Greet."), record.Failed)
	if text(p.Record.ErrorKind) != "configuration" ||
		text(p.Record.ErrorMessage) != `No tool is called "agent.gone" any more.` {
		t.Errorf("%s: %s", text(p.Record.ErrorKind), text(p.Record.ErrorMessage))
	}
}
