package agenttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/agenttest"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/workflow"
)

// shop is a program with an agent that has a tool, a tool to be approved, a form and an agent below it, and with
// workflows.
func shop(models map[string]model.Model) agent.Parts {
	type order struct {
		Number int `json:"number"`
	}
	find := tool.Func("find", "Finds an order.", func(_ context.Context, in order) (string, error) {
		if in.Number == 0 {
			return "", errors.New("no such order")
		}
		return "2 cups", nil
	})
	pay := tool.Func("pay", "Pays back.", func(context.Context, order) (string, error) {
		return "paid", nil
	}, tool.WithPolicy(tool.Policy{Writes: true, Approval: true}))

	return agent.Parts{
		Models: models, Tools: []tool.Tool{find, pay},
		Agents: map[string]agent.Agent{
			"clerk":  {SystemPrompt: "You are a clerk.", Tools: []string{"find", "pay", "form", "agent.writer"}},
			"writer": {SystemPrompt: "You write.", Model: "writer"},
			"talker": {SystemPrompt: "You talk.", Model: "talker", Tools: []string{"find"}},
		},
		Workflows: map[string]agent.Workflow{
			"refund": {
				Agents: []string{"talker"}, Tools: []string{"find", "pay"}, Workflows: []string{"note"},

				Run: func(ctx context.Context, f workflow.Facade, in json.RawMessage, _ string) (any, error) {
					found, err := f.CallTool(ctx, "find", order{7})
					if err != nil {
						return nil, err
					}

					said, err := f.RunAgent(ctx, "talker", "Refund "+found+" for "+string(in))
					if err != nil {
						return nil, err
					}
					if _, err := f.RunWorkflow(ctx, "note", said.Text()); err != nil {
						return nil, err
					}
					return f.CallTool(ctx, "pay", order{7})
				},
			},
			"note": {
				Tools: []string{"find"},
				Run: func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
					if _, err := f.CallTool(ctx, "find", order{}); !errors.Is(err, workflow.ErrFailed) {
						return nil, err
					}
					return "noted", nil
				},
			},
		},
	}
}

// scripts are the models that the shop had when its runs were recorded.
func scripts() map[string]model.Model {
	return map[string]model.Model{
		"default": agenttest.Model(
			agenttest.Together(agenttest.Call("find", map[string]int{"number": 7}),
				agenttest.Call("find", map[string]int{"number": 0}),
				agenttest.Call("agent.writer", map[string]string{"request": "Write to Ada."})),
			agenttest.Call("form", map[string]any{"title": "Which?", "inputs": []any{map[string]string{"label": "Colour"}}}),
			agenttest.Call("pay", map[string]int{"number": 7}),
			agenttest.Call("nothing", map[string]int{}),
			agenttest.Call("pay", map[string]string{"number": "seven"}),
			agenttest.Final("All is done.")),
		"writer": agenttest.Model(agenttest.Final("Dear Ada")),
		"talker": agenttest.Model(
			agenttest.Together(agenttest.Text("I look."), agenttest.Call("find", map[string]int{"number": 3})),
			agenttest.Text("Both cups.")),
	}
}

// mute are models that must not be asked.
func mute(t *testing.T) map[string]model.Model {
	t.Helper()
	m := agenttest.Model(agenttest.Func(func(context.Context, model.Request) (*model.Response, error) {
		t.Error("a model was asked")
		return nil, &model.Error{Kind: model.KindInvalidRequest}
	}))
	return map[string]model.Model{"default": m, "writer": m, "talker": m}
}

// unable are tools that must not be executed.
func unable(t *testing.T, parts agent.Parts) agent.Parts {
	t.Helper()
	for i, of := range parts.Tools {
		parts.Tools[i] = forbidden{of, t}
	}
	return parts
}

type forbidden struct {
	tool.Tool
	t *testing.T
}

func (f forbidden) Call(context.Context, tool.Call) (tool.Result, error) {
	f.t.Error("a tool was executed")
	return tool.Result{}, nil
}

func (f forbidden) CheckArguments(arguments json.RawMessage) error {
	return tool.CheckArguments(f.Tool, arguments)
}

func answers(w agent.Wait) agent.Decision {
	if w.Decisions[0] == agent.Submit {
		return agent.Decision{Decision: agent.Submit, Values: map[string]any{"Colour": "blue"}, By: "ada"}
	}
	return agent.Decision{Decision: agent.Approve, By: "ada"}
}

var jobs = map[string]agent.Job{
	"agent": {Work: agent.Request{Agent: "clerk", Request: "Refund order 7."}, ConversationID: "c-1"},
	"talk": {Work: agent.Talk{Agent: "talker", Message: "What of order 3?", Messages: []workflow.Message{
		{Role: "user", Content: "Hello."}, {Role: "assistant", Content: "Hi."},
	}}},
	"flow": {Work: agent.Flow{Workflow: "refund", Input: map[string]string{"to": "Ada"}}},
}

// TestReplaySame: code that did not change does what is on record.
func TestReplaySame(t *testing.T) {
	t.Parallel()
	for name, job := range jobs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records := recordOf(t, agenttest.Database(t), shop(scripts()), job, answers)
			if diff := agenttest.Replay(t, read(records), unable(t, shop(mute(t)))); len(diff) > 0 {
				t.Errorf("diff = %s", show(diff))
			}
		})
	}
}

func show(all []agenttest.Difference) string {
	b, _ := json.MarshalIndent(all, "", "  ") // texts
	return string(b)
}

// TestReplayChanged: what changed code does otherwise is a difference at its row.
func TestReplayChanged(t *testing.T) {
	t.Parallel()
	recorded := map[string][]byte{}
	for name, job := range jobs {
		recorded[name] = recordOf(t, agenttest.Database(t), shop(scripts()), job, answers)
	}

	type order struct {
		Number int `json:"number"`
	}
	agentWith := func(name string, change func(*agent.Agent)) func(*agent.Parts) {
		return func(p *agent.Parts) {
			a := p.Agents[name]
			change(&a)
			p.Agents[name] = a
		}
	}
	prompt := func(a *agent.Agent) { a.SystemPrompt = "You are new." }
	flow := func(run workflow.Func) func(*agent.Parts) {
		return func(p *agent.Parts) {
			w := p.Workflows["refund"]
			w.Run = run
			p.Workflows["refund"] = w
		}
	}

	for _, tt := range []struct {
		name, run string
		change    func(*agent.Parts)
		want      []string // kind of address: recorded -> now, each a part of the text
	}{
		{"another prompt", "agent", agentWith("clerk", prompt), []string{"cycle: You are a clerk. -> You are new."}},
		{"another prompt below", "agent", agentWith("writer", prompt), []string{"cycle: You write. -> You are new."}},
		{"another prompt of a talk", "talk", agentWith("talker", prompt), []string{"cycle: You talk. -> You are new."}},
		{"a tool less", "agent", agentWith("clerk", func(a *agent.Agent) {
			a.Tools = []string{"pay", "form", "agent.writer"}
		}), []string{
			"call: COMPLETED: 2 cups -> FAILED: There is no tool find.",
			"call: FAILED: no such order -> FAILED: There is no tool find.",
			"cycle: 2 cups -> There is no tool find.",
			"call: There are: find, -> There are: pay,", "cycle: There are: find, -> There are: pay,",
		}},
		{"another message to an agent", "flow", flow(
			func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
				if _, err := f.CallTool(ctx, "find", order{7}); err != nil {
					return nil, err
				}
				said, err := f.RunAgent(ctx, "talker", "Something else.")
				if err != nil {
					return nil, err
				}
				if _, err := f.RunWorkflow(ctx, "note", said.Text()); err != nil {
					return nil, err
				}
				return f.CallTool(ctx, "pay", order{7})
			}), []string{
			"step: talker: Refund 2 cups -> talker: Something else.", "cycle: user: Refund -> user: Something else.",
			"plan: Refund 2 cups -> Something else.",
		}},
		{"other arguments", "flow", flow(
			func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
				return f.CallTool(ctx, "find", order{8})
			}), []string{`call: find {"number":7} -> find {"number":8}`}},
		{"another tool", "flow", flow(
			func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
				return f.CallTool(ctx, "pay", order{7})
			}), []string{`call: find {"number":7} -> pay {"number":7}`}},
		{"an agent in place of a tool", "flow", flow(
			func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
				return f.RunAgent(ctx, "talker", "Hello.")
			}), []string{`step: find {"number":7} -> talker: Hello.`}},
		{"calls too few", "flow", flow(
			func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
				return f.CallTool(ctx, "find", order{7})
			}), []string{
			"step: talker: Refund -> ", `call: find {"number":0} -> `, `call: pay {"number":7} -> `,
			`plan: "final_output":"paid" -> "final_output":"2 cups"`,
		}},
		{"a call too many", "flow", func(p *agent.Parts) {
			before := p.Workflows["refund"].Run
			flow(func(ctx context.Context, f workflow.Facade, in json.RawMessage, session string) (any, error) {
				if _, err := before(ctx, f, in, session); err != nil {
					return nil, err
				}
				return f.CallTool(ctx, "find", order{9})
			})(p)
		}, []string{`call:  -> find {"number":9}`}},
		{"another result", "flow", func(p *agent.Parts) {
			before := p.Workflows["refund"].Run
			flow(func(ctx context.Context, f workflow.Facade, in json.RawMessage, session string) (any, error) {
				if _, err := before(ctx, f, in, session); err != nil {
					return nil, err
				}
				return "refunded", nil
			})(p)
		}, []string{`plan: "final_output":"paid" -> "final_output":"refunded"`}},
		{"a version that is not on record", "flow", func(p *agent.Parts) {
			before := p.Workflows["refund"].Run
			flow(func(ctx context.Context, f workflow.Facade, in json.RawMessage, session string) (any, error) {
				if n, err := f.Version(ctx, "checks", 1); err != nil || n > 0 {
					return nil, errors.Join(err, errors.New("the record passed here without a version"))
				}
				return before(ctx, f, in, session)
			})(p)
		}, nil},
		{"an approval that was not asked for", "agent", func(p *agent.Parts) {
			p.Policies = tool.Rules{{Tools: "find", Approval: new(true)}}
		}, []string{"call:  -> May find run?", "call:  -> May find run?"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			parts := shop(mute(t))
			tt.change(&parts)
			parts = unable(t, parts)
			found := agenttest.Replay(t, read(recorded[tt.run]), parts)
			check(t, found, tt.want)
			if diff := cmp.Diff(found, agenttest.Replay(t, read(recorded[tt.run]), parts)); diff != "" {
				t.Errorf("once more (-first +second):\n%s", diff)
			}
		})
	}
}

func check(t *testing.T, found []agenttest.Difference, want []string) {
	t.Helper()
	if len(found) != len(want) {
		t.Fatalf("%d differences, not %d: %s", len(found), len(want), show(found))
	}
	for i, d := range found {
		kind, texts, _ := strings.Cut(want[i], ": ")
		recorded, now, _ := strings.Cut(texts, " -> ")
		if !strings.HasPrefix(d.At, kind+":") || !strings.Contains(d.Recorded, recorded) || !strings.Contains(d.Now, now) ||
			(d.Recorded == "") != (recorded == "") || (d.Now == "") != (now == "") {
			t.Errorf("difference %d is %s, not %s", i, show([]agenttest.Difference{d}), want[i])
		}
	}
}
