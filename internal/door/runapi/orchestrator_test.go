package runapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/orchestrator"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// orchestrated serves runs of the orchestrator with a plan of two steps: a search with 30 sources, and a commit.
func orchestrated(t *testing.T, planned string) *client {
	t.Helper()
	type query struct {
		Query string `json:"query"`
	}
	model := func(name string) define.DefinitionModel { return define.DefinitionModel{Name: name, Model: "scripted"} }
	usage := &scriptmodel.Usage{Prompt: 150, Completion: 320}

	h := enginetest.Build(t, enginetest.Plans{
		Scenes: []scriptmodel.Scene{
			{
				Name: "plan", Match: scriptmodel.Match{System: "Plan how"},
				Turns: []scriptmodel.Turn{{Content: planned, Usage: usage}},
			},
			{Name: "search", Match: scriptmodel.Match{System: "agent RAG_SEARCH"},
				Turns: append(enginetest.Calls([]scriptmodel.ToolCall{enginetest.Call("search.searchCode", query{"TODO"})}),
					scriptmodel.Turn{Content: "30 comments"})},
			{
				Name: "git", Match: scriptmodel.Match{System: "agent GIT"},
				Turns: enginetest.Calls([]scriptmodel.ToolCall{enginetest.Call("git.commit", query{"todo.md"})}),
			},
			{
				Name: "answer", Match: scriptmodel.Match{System: "They have worked"},
				Turns: []scriptmodel.Turn{{Content: "There are 30. The list was not committed.", Usage: usage}},
			},
		},
		Tools: []tool.Tool{
			tool.Func("search.searchCode", "Searches code.", func(context.Context, query) (r tool.Result, err error) {
				for range 30 {
					r.Sources = append(r.Sources, tool.Source{
						URI: "file:///src/main.go", Type: record.SourceFile, LineStart: 45, LineEnd: 47, Snippet: "// TODO", Score: 0.5,
					})
				}
				r.Text = "30 comments"
				return r, nil
			}),
			tool.Func("git.commit", "Commits.", func(context.Context, query) (string, error) { return "committed", nil },
				tool.WithPolicy(tool.Policy{Writes: true, Approval: true}),
				tool.WithTouches(func(_ context.Context, in query) ([]string, error) { return []string{in.Query}, nil })),
		},
		Definitions: map[string]any{"orchestrator.": define.DefaultOrchestrator().Definition(model, nil, nil)},
		Executors:   []engine.Executor{orchestrator.Executor{}},
	})

	h.Work(h.Engine)
	d := drafter{Engine: h.Engine, parts: h.Parts}
	return &client{apitest.ServeWith(t,
		apitest.Options{DB: h.DB, Runtime: func(*runstore.Store) (runapi.Starter, runapi.Catalog) {
			return d, d
		}})}
}

// C1, C7, C8, C19, C20, C21, C22, C23, C24: docs/orchestrator.md. Its commands carry a run to its end: the plan is
// accepted, an action rejected, and the trace has the steps, the sources and the metrics.
func TestDocsOrchestrator(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil && os.Getenv("CI") == "" {
		t.Skip("curl is not installed")
	}

	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "orchestrator.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := codeBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 5 {
		t.Fatalf("%d blocks", len(blocks))
	}

	c := orchestrated(t, blocks[1][2])
	id, wait := "", ""
	do := func(block int) string {
		t.Helper()
		shell := exec.CommandContext(t.Context(), "sh", "-ec",
			strings.ReplaceAll(blocks[block][2], "http://127.0.0.1:8420", c.Base))
		shell.Env = append(os.Environ(), "PLAN="+id, "WAIT="+wait)
		out, err := shell.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, blocks[block][2])
		}
		return string(out)
	}

	var started struct {
		PlanID string
		Waits  []struct {
			WaitID string
			Plan   any
		}
	}
	if err := json.Unmarshal([]byte(do(0)), &started); err != nil || len(started.Waits) != 1 {
		t.Fatalf("started = %+v, %v", started, err)
	}
	id, wait = started.PlanID, started.Waits[0].WaitID

	var shown any
	if err := json.Unmarshal([]byte(blocks[1][2]), &shown); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(shown, started.Waits[0].Plan); diff != "" {
		t.Errorf("(-page +server):\n%s", diff)
	}
	expect(t, c.run(id), obj{
		"state": "WAITING", "result": nil, "waits.0.type": "PLAN_VALIDATION",
		"waits.0.decisions": []string{"accept", "reject", "modify"},
	})

	do(2)
	c.until(id, "ACTION_VALIDATION")
	action := c.run(id)
	expect(t, action, obj{
		"waits.#": 1, "waits.0.name": "git.commit", "waits.0.parameters.query": "todo.md",
		"waits.0.files": []string{"todo.md"}, "waits.0.formDescription": "Commit the list",
	})
	wait = action.(obj)["waits"].([]any)[0].(obj)["waitId"].(string)

	do(3)
	c.until(id, "COMPLETED")
	run := c.run(id)
	expect(t, run, obj{
		"state": "COMPLETED", "result.result": "There are 30. The list was not committed.", "result.sources.#": 30,
		"result.trace.executionId": id, "result.trace.finalState": "COMPLETED", "result.trace.completedSteps": 1,
		"result.trace.stepTraces.#": 2, "result.trace.allSources.#": 30,
		"result.trace.planning.agentType": "ORCHESTRATOR", "result.trace.planning.stepNumber": 0,
		"result.trace.metrics.totalLLMCalls": 5, "result.trace.metrics.failures": 0, "result.trace.metrics.retries": 0,
		"result.trace.metrics.averageRelevanceScore": 0.5,
		"result.trace.stepTraces.0.stepNumber":       1, "result.trace.stepTraces.0.agentType": "RAG_SEARCH",
		"result.trace.stepTraces.0.toolName":  "search.searchCode",
		"result.trace.stepTraces.0.action":    "Search for TODO comments",
		"result.trace.stepTraces.0.reasoning": "They may be in any file", "result.trace.stepTraces.0.output": "30 comments",
		"result.trace.stepTraces.0.sources.#": 30, "result.trace.stepTraces.0.sources.0.displayName": "main.go",
		"result.trace.stepTraces.0.inputParameters.query": "TODO",
		"result.trace.stepTraces.1.state":                 "SKIPPED",
		"result.trace.stepTraces.1.errorMessage": "A human rejected this call. It was not made. They say: Not " +
			"on Friday.",
	})

	logs, _ := json.Marshal(run.(obj)["result"].(obj)["trace"].(obj)["planning"].(obj)["logs"])
	for _, line := range []string{"LLM Request: 2 messages", "LLM Response: 470 tokens in "} {
		if !strings.Contains(string(logs), line) {
			t.Errorf("the logs lack %q: %s", line, logs)
		}
	}

	md := do(4)
	for _, part := range []string{
		"## ORCHESTRATOR — COMPLETED", "## Steps (1 of 2 completed)", "### 2. GIT — SKIPPED", "Sources (30)",
		"[main.go:45-47](<file:///src/main.go>)", "| Validation time |",
	} {
		if !strings.Contains(md, part) {
			t.Errorf("the Markdown lacks %q:\n%s", part, md)
		}
	}

	wantHeard(t, c, id, "MINIMAL", "onStepStarted onStepCompleted onStepStarted onStepCompleted onExecutionCompleted")
	wantHeard(t, c, id, "STANDARD",
		"onStepStarted onSourcesDiscovered onStepCompleted onStepStarted onStepCompleted onExecutionCompleted")
	wantHeard(t, c, id, "VERBOSE",
		"onStepStarted onReasoningCaptured onSourcesDiscovered onStepCompleted onStepStarted onReasoningCaptured "+
			"onStepCompleted onExecutionCompleted")
	wantProblem(t, c.Get("/api/v1/runs/"+id+"/listen?level=LOUD"), http.StatusBadRequest, "level")

	// What was decided stays; what a plan cannot be is told.
	wantProblem(t, c.post("/api/v1/runs/"+id+"/waits/"+wait, obj{"decision": "approve"}), http.StatusConflict, nil)
	wantProblem(t, c.post("/api/v1/runs",
		obj{"executor": "orchestrator", "input": obj{"request": "x", "maxPlanSteps": 11}}), http.StatusUnprocessableEntity,
		"input.maxPlanSteps")
}

// wantHeard checks which events a listener is told of a run that has ended.
func wantHeard(t *testing.T, c *client, id, level, want string) {
	t.Helper()
	var names []string
	for line := range strings.Lines(string(c.Get("/api/v1/runs/" + id + "/listen?level=" + level).Body)) {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}

	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s: %s, want %s", level, got, want)
	}
}

// until waits until a run, or what it waits for, is as wanted.
func (c *client) until(id, want string) {
	c.T.Helper()
	storetest.Until(c.T, id+" is "+want, func() bool {
		run := c.run(id).(obj)
		if run["state"] == want {
			return true
		}
		waits := run["waits"].([]any)
		return len(waits) > 0 && waits[0].(obj)["type"] == want
	})
}
