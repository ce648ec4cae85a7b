package agenttest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/agenttest"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
)

// hearingShop has an agent to which its own tool speaks, and a person while the model answers for the first time.
type hearingShop struct {
	url    string
	opened *agent.Runtime
}

func (s *hearingShop) parts(m model.Model, tell string) agent.Parts {
	speak := tool.CallFunc("speak", "Speaks.", func(ctx context.Context, c tool.Call, _ struct{}) (string, error) {
		_, err := s.opened.Say(ctx, c.PlanID, tell, agent.SayOptions{By: "ann", IdempotencyKey: "spoken"})
		return "spoken", err
	})
	clerk := agent.Agent{SystemPrompt: "You listen.", Tools: []string{"speak"}}
	return agent.Parts{
		Models: map[string]model.Model{"default": m}, Tools: []tool.Tool{speak},
		Agents: map[string]agent.Agent{"clerk": clerk},
	}
}

// script is a model that is interrupted by a message in its second answer, and told something more in its last one.
func (s *hearingShop) script(planID func() string, last agenttest.Turn) model.Model {
	interrupted := false
	say := func(ctx context.Context, text string, interrupts bool) error {
		_, err := s.opened.Say(ctx, planID(), text, agent.SayOptions{By: "ben", Interrupt: interrupts, IdempotencyKey: text})
		return err
	}

	return agenttest.Model(
		agenttest.Call("speak", struct{}{}),
		agenttest.Func(func(ctx context.Context, q model.Request) (*model.Response, error) {
			if !interrupted {
				interrupted = true
				if err := say(ctx, "Stop.", true); err != nil {
					return nil, err
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if err := say(ctx, "One thing more.", false); err != nil {
				return nil, err
			}
			return last.Answer(ctx, q)
		}),
		last, last)
}

// TestReplayMessages: what somebody said to the run is said again at the same place, also if its call of the model was
// interrupted, or if the agent was done, whatever carries it.
func TestReplayMessages(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		work agent.Work
		last agenttest.Turn
	}{
		"agent": {agent.Request{Agent: "clerk", Request: "Go."}, agenttest.Final("Done.")},
		"talk":  {agent.Talk{Agent: "clerk", Message: "Go."}, agenttest.Text("Done.")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &hearingShop{url: agenttest.Database(t)}
			id := make(chan string, 1)
			planID := func() string {
				v := <-id
				id <- v
				return v
			}

			s.opened = working(t, s.url, s.parts(s.script(planID, tt.last), "In French."))
			started, err := s.opened.Start(t.Context(), agent.Job{Work: tt.work})
			if err != nil {
				t.Fatal(err)
			}
			id <- started

			run, err := s.opened.Wait(t.Context(), started)
			if err != nil || !strings.Contains(run.Result, "Done.") {
				t.Fatalf("the run is %+v, %v", run, err)
			}
			records := export(t, s.url, started)
			for _, text := range []string{"In French.", "Stop.", "One thing more."} {
				if !strings.Contains(string(records), text) {
					t.Errorf("nobody read %q", text)
				}
			}

			if diff := agenttest.Replay(t, read(records), s.parts(mute(t)["default"], "Nothing.")); len(diff) > 0 {
				t.Errorf("diff = %s", show(diff))
			}
			other := s.parts(mute(t)["default"], "Nothing.")
			clerk := other.Agents["clerk"]
			clerk.SystemPrompt = "You are new."
			other.Agents["clerk"] = clerk
			check(t, agenttest.Replay(t, read(records), other), []string{"cycle: You listen. -> You are new."})
		})
	}
}
