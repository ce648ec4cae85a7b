package executor

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/testkit/enginetest"
)

// TestInputsCanBeGivenAgain: the input that is kept of a run is one that starts the same run again, of each executor.
func TestInputsCanBeGivenAgain(t *testing.T) {
	t.Parallel()
	say, err := tool.NewSet(tool.Func("words.say", "Says.", func(context.Context, struct{}) (string, error) {
		return "", nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	agent := define.Definition{Agent: "a", Model: define.DefinitionModel{Name: "default", Model: "m"}}
	role := agent
	role.Tools = []string{"words.*"}

	orchestrator := define.DefaultOrchestrator()
	parts := &enginetest.Parts{
		DefaultModel: enginetest.Model(t, "http://127.0.0.1:1", enginetest.Patience), Secret: "hidden", Set: say,
		Definitions: map[string]any{
			"agent.a": agent, "role.DEVELOPER": role,
			"plan.nightly": define.PlanDefinition{
				Title: "Read <<path>>", Placeholders: []string{"path"},
				Steps: []define.PlanStepDefinition{{Agent: agent, Request: "Go."}},
			},
			"custom_workflow.w": define.Flow{},
			"orchestrator.": orchestrator.Definition(func(string) define.DefinitionModel {
				return define.DefinitionModel{Name: "default", Model: "m"}
			}, nil, nil),
		},
	}

	executors := map[string]engine.Executor{}
	for _, x := range All(nil) {
		executors[x.Kind()] = x
	}
	for _, r := range []engine.Request{
		{Executor: "agent", Input: json.RawMessage(`{"agent":"a","request":"hidden","history":[{"role":"user","content":"Hm."}]}`)},
		{Executor: "agent", Name: "a", Input: json.RawMessage(`{"request":"Go."}`)},
		{Executor: "plan", Input: json.RawMessage(`{"task":"Do","constraints":{"max_operations":3}}`)},
		{Executor: "plan", Name: "nightly", Input: json.RawMessage(`{"path":"main.go"}`)},
		{Executor: "workflow", Input: json.RawMessage(`{"agent":"a","user_message":"Hi","system_prompt":"Be."}`)},
		{Executor: "workflow", Input: json.RawMessage(`{"workflow":"w","input":{"n":1.50}}`)},
		{Executor: "orchestrator", Input: json.RawMessage(`{"request":"Do","maxPlanSteps":2}`)},
		{Executor: "dag", Input: json.RawMessage(`{"prompt":"Do","scheduling":"eager"}`)},
	} {
		p, err := executors[r.Executor].Prepare(parts, r)
		if err != nil {
			t.Errorf("%s %s: %v", r.Executor, r.Input, err)
			continue
		}

		again := r
		again.Input = p.Input
		q, err := executors[r.Executor].Prepare(parts, again)
		p.ConversationID, q.ConversationID = "", "" // each has its own
		if diff := cmp.Diff(p, q); err != nil || diff != "" {
			t.Errorf("%s %s, then %s: %v\n%s", r.Executor, r.Input, p.Input, err, diff)
		}
	}
}
