package receive_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/trace/otlp"
)

// TestCases sends what was sent to us and made no run, or none that ended, and reads the plan.
func TestCases(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, file, plan string
		want             obj      // members of the plan
		steps            []string // names of agents
		first            obj      // members of the first step
	}{
		"a parent that never arrives": {
			"/v1/traces", "server.json", "6534e9de99dcd48fb6cc9a467f35eab2",
			obj{"state": "COMPLETED", "figures.durationMs": 5000.0}, []string{"helper"},
			obj{"thinkActSteps.0.modelName": "gpt-5-mini"},
		},
		"Codex": {
			"/v1/traces", "codex-traces.json", "89d3141675b924d3e0952f054ac6a34e",
			obj{"state": "COMPLETED", "conversationId": "thread-1", "figures.modelCalls": 1.0}, []string{"codex"},
			obj{"thinkActSteps.0.modelName": "gpt-5.3-codex", "thinkActSteps.0.inputTokens": 1200.0,
				"thinkActSteps.0.cacheReadInputTokens": 1000.0,
				"thinkActSteps.0.outputTokens":         40.0, "thinkActSteps.0.reasoningTokens": 10.0},
		},
		"Claude Code": {
			"/v1/logs", "claude-code-logs.json", "0815bfeb6eefe30c3a189db7a4453f53",
			obj{
				"state": "RUNNING", "conversationId": "s-1", "userRequest": "Fix the test", "title": "Fix the test",
				"figures.modelCalls": 1.0, "figures.toolCalls": 1.0,
			},
			[]string{"claude_code"},
			obj{"thinkActSteps.0.modelName": "claude-opus-4-8", "thinkActSteps.0.costUsd": 0.12,
				"thinkActSteps.0.inputTokens":          110.0,
				"thinkActSteps.0.cacheReadInputTokens": 100.0, "thinkActSteps.0.outputTokens": 20.0,
				"thinkActSteps.0.actToolInfoList.0.name": "Bash", "thinkActSteps.0.actToolInfoList.0.state": "FAILED",
				"thinkActSteps.0.actToolInfoList.0.errorMessage": "exit 1"},
		},
		"Haystack": {
			"/v1/traces", "pipeline.pb", "7f4e71421df76910381c8ae6737000ae",
			obj{
				"state": "COMPLETED", "name": "Pipeline", "userRequest": "Tell me about a trip to Paris", "figures.modelCalls": 0.0,
			}, []string{"Agent.run", "Agent.run"},
			obj{"agentRequest": "Tell me about a trip to Paris"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := serveWith(t, options{})
			body, err := os.ReadFile(filepath.Join("testdata", "cases", c.file))
			if err != nil {
				t.Fatal(err)
			}

			contentType := otlp.TypeJSON
			if strings.HasSuffix(c.file, ".pb") {
				contentType = otlp.TypeProtobuf
			}
			for range 2 { // exporters may send twice
				wantTaken(t, api.Export(c.path, contentType, body), contentType)
			}

			plan := api.Details(c.plan)
			expect(t, plan, c.want)
			steps := lookup(t, plan, "agentExecutionSequence").([]any)
			if len(steps) != len(c.steps) {
				t.Fatalf("%d steps", len(steps))
			}
			for i, name := range c.steps {
				expect(t, steps[i], obj{"agentName": name})
			}

			expect(t, api.Step(lookup(t, steps[0], "stepId").(string)), c.first)
			for _, item := range lookup(t, api.Read(unknownPath), "items").([]any) {
				if reason := item.(obj)["reason"]; reason != "no_row" && reason != "unrelated" {
					t.Errorf("listed: %v", item)
				}
			}
		})
	}
}
