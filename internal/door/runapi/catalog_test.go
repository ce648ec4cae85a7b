package runapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/runtime/catalog"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
)

// source has the parts of a house.
type source struct{ *enginetest.House }

func (s source) Use() (engine.Parts, func()) { return s.Parts, func() {} }

func (source) Rules() tool.Rules { return tool.Rules{{Tools: "pay", Timeout: new(time.Minute)}} }

func (source) Model(string) (host string, maxConcurrent int) { return "models.example.org", 8 }

// TestCatalog checks that a server says what it is configured with, and what live workers have besides, and nothing
// secret.
func TestCatalog(t *testing.T) {
	t.Parallel()
	_, h := chat(t, apitest.Options{})
	h.Parts.Secret = "sesame"
	h.Parts.Servers = []string{"files"}

	h.Parts.Definitions["agent.lead"] = define.Definition{
		Agent: "lead", Description: "Leads, and says sesame.",
		Model: define.DefinitionModel{Name: "default", Provider: "scripted", Model: "scripted"},
		Tools: []string{"agent.reader", "pay"}, MCPServers: []string{"files"}, MaxSteps: 5, EnableWrite: true,
		Limits: define.Limits{Tokens: 9},
	}
	h.Parts.Definitions["role.DATA"] = define.Definition{Agent: "DATA", Tools: []string{"echo"}, EnableWrite: true}
	h.Parts.Definitions["orchestrator."] = define.OrchestratorDefinition{
		ExecutionTimeout: define.Duration(time.Minute),
		Agents:           []define.Definition{{Agent: "GIT", Tools: []string{"pay"}, EnableWrite: true}},
	}

	served := apitest.ServeWith(t,
		apitest.Options{DB: h.DB, Server: func(c *apitest.Config) { c.Runs.Runnable = catalog.New(source{h}, h.Runs) },
			Runtime: func(*runstore.Store) (runapi.Starter, runapi.Catalog) {
				s := chatStarter{Engine: h.Engine}
				return s, s
			}})
	c := &client{served}

	wantStatus(t, c.post(completions, ask()), http.StatusOK) // a run that pins the agent
	_, err := c.Runs.AddWorker(t.Context(),
		runstore.Worker{ID: "far", Host: "b", Release: "2",
			Provides: []string{"executor:agent", "executor:own", "model:big", "tool:agent.far"}, Slots: 3}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}

	agents := c.Read("/api/v1/agents")
	expect(t, agents, obj{
		"items.0.name": "far", "items.0.configured": false, "items.0.workers": 1.0, "items.0.model": nil,
		"items.0.version": nil, "items.0.sha256": nil,
		"items.1.name": "lead", "items.1.description": "Leads, and says [secret].", "items.1.subAgents.0": "reader",
		"items.1.tools.0":      "pay",
		"items.1.mcpServers.0": "files", "items.1.limits.tokens": 9.0, "items.1.version": nil, "items.1.configured": true,
		"items.1.model.provider": "scripted",
		"items.2.name":           "reader", "items.2.version": 1.0, "items.2.workers": 1.0,
	})

	tools := c.Read("/api/v1/tools")
	expect(t, tools, obj{"items.0.name": "echo", "items.1.name": "pay", "items.1.policy.approval": true,
		"items.1.policy.timeout": "1m0s", "mcpServers.0.name": "files", "mcpServers.0.usedBy.0": "lead"})
	for i, want := range [][]any{{"reader", "role.DATA"}, {"lead", "reader", "orchestrator.GIT"}} {
		if usedBy := tools.(obj)["items"].([]any)[i].(obj)["usedBy"].([]any); !slices.Equal(usedBy, want) {
			t.Errorf("tool %d is used by %v, want %v", i, usedBy, want)
		}
	}

	expect(t, c.Read("/api/v1/models"),
		obj{"items.0.name": "big", "items.0.configured": false, "items.1.name": "default",
			"items.1.host": "models.example.org", "items.1.maxConcurrent": 8.0, "items.1.priced": false})

	executors := c.Read("/api/v1/executors")
	raw, err := json.Marshal(executors)
	if err != nil || !strings.Contains(string(raw), `"id":"far"`) || !strings.Contains(string(raw), `"kind":"own"`) {
		t.Errorf("raw = %s %v", raw, err)
	}
	expect(t, executors,
		obj{"items.0.kind": "agent", "items.0.definitions.0": "lead", "items.0.inputSchema.required.0": "agent"})
	wantStatus(t, c.Get("/api/v1/agents?x=1"), http.StatusBadRequest)
}
