package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

// chooser makes calls that no model asked for, one after the other, and talks.
type chooser struct{ fail bool }

func (chooser) Kind() string { return "chooser" }

func (chooser) Prepare(_ engine.Parts, r engine.Request) (engine.Prepared, error) {
	return engine.Prepared{Input: r.Input, UserRequest: "Do it.", ConversationID: "own"}, nil
}

func (x chooser) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	s, err := run.Step(ctx, 0, engine.StepInfo{})
	if err != nil {
		return engine.Result{}, err
	}

	tools, err := run.Tools(ctx, nil, nil)
	if err != nil {
		return engine.Result{}, err
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		return engine.Result{}, err
	}

	t := engine.Thinking{Tools: set, InOrder: true}
	asked := []model.ToolCall{{Name: "pay", Arguments: `{"name":"a"}`}, {Name: "pay", Arguments: `{"name":"b"}`}}
	run.Say(engine.Conversation{ID: run.ConversationID(), AgentName: "a"}, 0, model.User("Do it."))
	results, err := s.Act(ctx, 0, asked, t)
	if err != nil {
		return engine.Result{}, err
	}

	s.End("done", nil)
	run.Say(engine.Conversation{ID: run.ConversationID(), AgentName: "a"}, 1,
		model.Message{
			Role: model.RoleAssistant, Parts: []model.Part{
				{Text: "Paying."}, {Call: &model.ToolCall{ID: "1", Name: "pay", Arguments: "{}"}},
			},
		})

	said := engine.Result{Summary: results[0].Text + results[1].Text, ConversationWritten: true}
	if x.fail {
		return said, &engine.RunError{Kind: "half", Message: "It came half of the way."}
	}
	return said, nil
}

// TestActAlone checks calls that the executor itself makes: in order, the second not before the first was
// approved; and that a run which failed says how far it came, and itself says what was said.
func TestActAlone(t *testing.T) {
	t.Parallel()
	for _, fail := range []bool{false, true} {
		t.Run(fmt.Sprint(fail), func(t *testing.T) {
			t.Parallel()
			e := &effects{done: map[string][]string{}}
			h := enginetest.Build(t, enginetest.Plans{
				Scenes:    []scriptmodel.Scene{{Name: "unused", Turns: calls(terminate("unused"))}},
				Executors: []engine.Executor{chooser{fail}}, Tools: []tool.Tool{e.tool("pay", tool.Policy{Approval: true})},
			})
			h.Work(h.Engine)
			started, err := h.Engine.Start(t.Context(), engine.Request{Executor: "chooser", Input: []byte(`{}`)})
			if err != nil {
				t.Fatal(err)
			}

			for range 2 {
				h.Await(started.PlanID, record.Waiting)
				for len(h.Waits()) == 0 {
				}
				waits := h.Waits()
				if len(waits) != 1 {
					t.Fatalf("%d calls wait at once", len(waits))
				}
				if err := h.Decide(waits[0], record.Approved, "approve", ""); err != nil {
					t.Fatal(err)
				}
			}

			p := h.Ended(started.PlanID)
			want := record.Completed
			if fail {
				want = record.Failed
			}
			if *p.Record.State != want || text(p.Record.Summary) != "pay apay b" || len(e.done["pay"]) != 2 {
				t.Errorf("%s: %q %+v", *p.Record.State, text(p.Record.Summary), e.done)
			}

			if total := h.Plan(started.PlanID).Total; total.ModelCalls != 0 || total.ToolCalls != 2 {
				t.Errorf("%d model calls and %d tool calls", total.ModelCalls, total.ToolCalls)
			}
			said, err := h.Runs.Messages(t.Context(), "own", 10, 0)
			if err != nil || len(said) != 2 || said[0].Text != "Do it." || !strings.Contains(string(said[1].Message), `"pay"`) {
				t.Errorf("said: %+v %v", said, err)
			}
		})
	}
}
