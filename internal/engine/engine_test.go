package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/scriptmodel"
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
		map[string]config.Definition{"host": {Description: "Greets people", SystemPrompt: "You greet.", Tools: []string{"greet"}}},
		[]tool.Tool{greet(&greeted, tool.Policy{})})
	h.Work(h.Engine)
	id := h.Start("host", "Greet Ann and Bo.\nPlease.")
	p := h.Await(id, record.Completed)
	if got := p.Record; text(got.Summary) != "Done." || text(got.Title) != "Greet Ann and Bo." || text(got.UserRequest) != "Greet Ann and Bo.\nPlease." ||
		text(got.Executor) != "agent" || text(got.Name) != "host" || got.StartTime == nil || got.EndTime == nil {
		t.Errorf("the plan: %+v", got)
	}
	step := h.Step(p)
	if r := step.Record; *r.State != record.Completed || text(r.Result) != "Done." || text(r.AgentName) != "host" || *r.MaxSteps != 30 || text(r.AgentDescription) != "Greets people" {
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
		if *c.State != record.Completed || !strings.Contains(text(c.ThinkInput), want.in) || text(c.ThinkOutput) != want.out || text(c.ActionDescription) != want.action ||
			!strings.HasPrefix(text(c.ActionResult), want.result) || c.ThinkStartTime == nil || c.ThinkEndTime == nil || c.ActStartTime == nil || c.ActEndTime == nil ||
			c.InputTokens == nil || c.Message == nil || *c.InputCharCount == 0 {
			t.Errorf("cycle %d: %+v", i, c)
		}
	}
	for i, want := range []string{"Hello Ann", "Hello Bo"} {
		c := step.Cycles[0].ToolCalls[i].Record
		if *c.State != record.Completed || text(c.Result) != want || *c.CallIndex != int64(i) || c.ProviderCallID == nil || c.StartTime == nil || c.EndTime == nil {
			t.Errorf("call %d: %+v", i, c)
		}
	}
	if c := step.Cycles[1].ToolCalls[0].Record; *c.State != record.Failed || text(c.ErrorKind) != "tool" || !strings.Contains(text(c.Result), "nam") {
		t.Errorf("the bad call: %+v", c)
	}
	// The input of a cycle is what was new in it.
	if in := text(step.Cycles[1].Record.ThinkInput); strings.Contains(in, "You greet.") {
		t.Errorf("cycle 1 repeats the input: %s", in)
	}
}
