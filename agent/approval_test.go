package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
)

// approvals is a configuration whose agents of all executors use the tool of a server that is not trusted.
const approvals = `
models: {default: {provider: openai, model: scripted, baseURL: %q}}
mcpServers: {local: {command: [%q], env: {%s: planted-secret}}}
agents:
  single: {systemPrompt: Alone., mcpServers: [local]}
  talker: {systemPrompt: Talks., mcpServers: [local]}
  parent: {systemPrompt: Parent., tools: [agent.single]}
roles: {DEVELOPER: {tools: ["local-*"]}}
plans: {nightly: {title: Nightly, steps: [{agent: single, request: Go.}]}}
workflows: {chain: {steps: [talker]}}
orchestrator: {agents: {GIT: {tools: ["local-*"], mcpServers: [local]}}}
policies: [%s]
`

// S3: in every executor, a call to a server that is not trusted is made when a human has approved it, and not before. A
// policy that is meant for the server says otherwise.
func TestApprovalInEveryExecutor(t *testing.T) {
	t.Parallel()
	tell := calls("local-tell", struct{}{})
	plan := `{"goal":"g","estimatedDuration":1,"steps":[{"stepNumber":1,"agentType":"GIT","action":"Ask it","justification":"j","expectedOutput":"e"}]}`

	server, err := scriptmodel.Start(scriptmodel.Script{Scenes: []scriptmodel.Scene{
		{
			Name: "alone", Match: scriptmodel.Match{System: "Alone."}, Turns: []scriptmodel.Turn{
				tell, calls("terminate", map[string]string{"message": "done"}),
			},
		},
		{Name: "talker", Match: scriptmodel.Match{System: "Talks."}, Turns: []scriptmodel.Turn{tell, {Content: "done"}}},
		{
			Name: "parent", Match: scriptmodel.Match{System: "Parent."},
			Turns: []scriptmodel.Turn{calls("agent.single", map[string]string{"request": "Go."}), says("done")},
		},
		{Name: "planner", Match: scriptmodel.Match{System: "Plan how"}, Turns: []scriptmodel.Turn{{Content: plan}}},
		{Name: "answer", Match: scriptmodel.Match{System: "They have worked"}, Turns: []scriptmodel.Turn{{Content: "done"}}},
		{Name: "step", Match: scriptmodel.Match{User: "Your step: Ask it"},
			Turns: []scriptmodel.Turn{tell, {Content: "done"}}},
		{
			Name: "iterative", Match: scriptmodel.Match{User: "One by one."},
			Turns: []scriptmodel.Turn{
				{Content: `{"done":false,"reasoning":"r","step":{"tool":"local","operation":"tell","params":{}}}`},
			},
		},
		{
			Name: "task", Turns: []scriptmodel.Turn{
				{Content: `{"reasoning":"r","steps":[{"tool":"local","operation":"tell","params":{}}]}`},
			},
		},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })

	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	for name, tt := range map[string]struct {
		rule string
		asks bool
	}{
		"meant for others": {`{tools: "*-tell", approval: false}`, true},
		"read-only":        {`{tools: "local-*", writes: false}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := fmt.Sprintf(approvals, server.URL(), program, asServer, tt.rule)
			path := filepath.Join(t.TempDir(), "actlog.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}

			current, err := config.Open(path, config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(current.Close)

			db := pgtest.New(t)
			a := open(t, db.URL)
			register(t, a, agent.Parts{Config: current, Workflows: map[string]agent.Workflow{"custom": {
				Tools: []string{"local-tell"}, MCPServers: []string{"local"},
				Run: func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
					return f.CallTool(ctx, "local-tell", struct{}{})
				},
			}}})
			go func() { _ = a.Work(t.Context()) }()

			started := func(id string, err error) error {
				if err == nil {
					_, err = a.Wait(t.Context(), id)
				}
				return err
			}

			for name, run := range map[string]func(context.Context) error{
				"agent": func(ctx context.Context) error {
					return started(a.Start(ctx, agent.Job{Work: agent.Request{Agent: "single", Request: "Go."}}))
				},
				"sub-plan": func(ctx context.Context) error {
					return started(a.Start(ctx, agent.Job{Work: agent.Request{Agent: "parent", Request: "Go."}}))
				},
				"task": func(ctx context.Context) error {
					return started(a.Start(ctx, agent.Job{Work: agent.Task{Task: "All at once."}}))
				},
				"iterative": func(ctx context.Context) error {
					return started(a.Start(ctx, agent.Job{Work: agent.Task{Task: "One by one.", Iterative: true, MaxIterations: 1}}))
				},
				"template": func(ctx context.Context) error {
					return started(a.Start(ctx, agent.Job{Work: agent.Template{Name: "nightly"}}))
				},
				"orchestrator": func(ctx context.Context) error {
					return started(a.Start(ctx, agent.Job{Work: agent.Orchestration{Request: "Do it."}}))
				},
				"orchestrator, accepted with auto_approve": func(ctx context.Context) error {
					return started(a.Start(ctx, agent.Job{Work: agent.Orchestration{Request: "Do it."}}))
				},
				"simple": func(ctx context.Context) error {
					r, err := flow(ctx, a, agent.Flow{Workflow: "chain", Input: "Go."})
					return errors.Join(err, failedFlow(r))
				},
				"custom": func(ctx context.Context) error {
					r, err := flow(ctx, a, agent.Flow{Workflow: "custom", Input: "Go."})
					return errors.Join(err, failedFlow(r))
				},
			} {
				before := called(t, db)
				ended := make(chan error, 1)
				go func() { ended <- run(t.Context()) }()

				switch name {
				case "orchestrator":
					accept(t, a, db, "PLAN_VALIDATION", agent.Decision{Decision: agent.Accept})
				case "orchestrator, accepted with auto_approve":
					accept(t, a, db, "PLAN_VALIDATION", agent.Decision{
						Decision: agent.Accept, Values: map[string]any{"auto_approve": true},
					})
				}

				if tt.asks {
					storetest.Until(t, name+" waits for an approval", func() bool { return waiting(t, db, "ACTION_VALIDATION") == 1 })
					if n := called(t, db) - before; n != 0 {
						t.Errorf("%s: %d calls were made before the approval", name, n)
					}
					accept(t, a, db, "ACTION_VALIDATION", agent.Decision{Decision: agent.Approve})
				}

				storetest.Until(t, name+" has called the tool", func() bool { return called(t, db)-before == 1 })
				if name == "agent" || name == "custom" || name == "simple" {
					if err := <-ended; err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
				if n := waiting(t, db, "ACTION_VALIDATION"); n != 0 {
					t.Errorf("%s: %d calls wait for an approval", name, n)
				}
			}
		})
	}
}

func failedFlow(r workflow.Result) error {
	if r.Error != nil {
		return errors.New(*r.Error)
	}
	return nil
}

// called returns how many calls of the tool have a result.
func called(t *testing.T, db *pgtest.DB) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(),
		"SELECT count(*) FROM actlog.act_tool_info WHERE name = 'local-tell' AND state = 'COMPLETED'").Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// waiting returns how many waits of a type are open.
func waiting(t *testing.T, db *pgtest.DB, kind string) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(),
		"SELECT count(*) FROM actlog.wait_state WHERE type = $1 AND state = 'WAITING'", kind).Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// accept decides the next wait of a type.
func accept(t *testing.T, a *agent.Runtime, db *pgtest.DB, kind string, decision agent.Decision) {
	t.Helper()
	storetest.Until(t, "a wait of type "+kind, func() bool { return waiting(t, db, kind) == 1 })
	var root, id string
	if err := db.Pool.QueryRow(t.Context(),
		"SELECT root_plan_id, wait_id FROM actlog.wait_state WHERE type = $1 AND state = 'WAITING'",
		kind).Scan(&root, &id); err != nil {
		t.Fatal(err)
	}

	if err := a.Decide(t.Context(), root, id, decision); err != nil {
		t.Fatal(err)
	}
}
