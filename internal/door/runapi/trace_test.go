package runapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/apitest"
	"github.com/actlog/actlog/record"
)

// C18, C19, C20, C21, C22, C24: the trace of a run has its steps with their tools, reasoning, sources and logs, and
// metrics; as JSON and as Markdown.
func TestTrace(t *testing.T) {
	t.Parallel()
	c := serve(t, apitest.Options{})
	l := c.claimed()
	id := l.PlanID
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	at := func(ms int) *time.Time { return new(began.Add(time.Duration(ms) * time.Millisecond)) }
	i := func(n int64) *int64 { return &n }

	changes := []record.Change{
		&record.Plan{RootPlanID: id, CurrentPlanID: id, Title: new("Find *all* callers"), StartTime: at(0)},
		&record.AgentExecution{
			RootPlanID: id, PlanID: id, StepID: "s1", StepIndex: i(0), AgentName: new("RAG_SEARCH"),
			AgentRequest: new("searchCode"), State: new(record.Completed), StartTime: at(0), EndTime: at(2500),
			Result: new("30 files"),
		},
		&record.ThinkAct{
			RootPlanID: id, StepID: "s1", Seq: 0, ThinkInput: new("a prompt that no trace shows"),
			ThinkOutput: new("I search."), ThinkStartTime: at(0), ThinkEndTime: at(2300), InputTokens: i(150),
			OutputTokens: i(320), ModelName: new("m"),
		},
		&record.ActTool{
			RootPlanID: id, StepID: "s1", Seq: 0, ToolCallID: "t1", Name: new("searchCode"),
			Parameters: new(`{"query":"callers"}`), Result: new("30 ```matches```"), State: new(record.Completed),
			StartTime: at(2300), EndTime: at(2400),
			Metadata: json.RawMessage(`{"embedding":{"model":"e","texts":2,"inputTokens":120,"hits":30,"costUsd":0.5}}`),
		},
		&record.AgentExecution{
			RootPlanID: id, PlanID: id, StepID: "s2", StepIndex: i(1), AgentName: new("GIT"), State: new(record.Failed),
			ErrorMessage: new("no repository"), EndTime: at(3500),
		},
		&record.ThinkAct{
			RootPlanID: id, StepID: "s2", Seq: 0, ErrorMessage: new("429"), State: new(record.Failed), Attempt: i(3),
			ThinkStartTime: at(2500), ThinkEndTime: at(2600), ModelName: new("m"),
		},
		&record.Thought{
			RootPlanID: id, PlanID: id, ThoughtID: "th", StepID: new("s2"), Type: new(record.ThoughtDecision),
			Content: new("commit first"), Time: at(2550),
		},
		&record.Wait{
			RootPlanID: id, PlanID: id, WaitID: "w", StepID: new("s2"), Title: new("Commit?"), State: new(record.Rejected),
			DecidedBy: new("ann"), StartTime: at(2560), EndTime: at(2570),
		},
	}
	for n := range 30 {
		changes = append(changes, &record.Source{
			RootPlanID: id, PlanID: id, SourceID: fmt.Sprintf("f%02d", n), StepID: new("s1"),
			URI: new(fmt.Sprintf("file:///src/a%d.go", n)), Type: new(record.SourceFile), LineStart: i(1), LineEnd: i(9),
		})
	}
	c.work(l, changes)

	child := runstore.NewRun{
		Run: runstore.Run{
			RootPlanID: id, PlanID: "child", Executor: "agent", Input: json.RawMessage("{}"), Owner: "o",
			Parent: &runstore.ParentCall{PlanID: id, StepID: "s1", ToolCallID: "t1"},
		}, Needs: []string{},
	}
	c.work(l, []record.Change{
		&record.Plan{
			RootPlanID: id, CurrentPlanID: "child", ParentPlanID: &id, ToolCallID: new("t1"), Title: new("Below"),
			State: new(record.Completed), Summary: new("done below"),
		},
		&record.AgentExecution{RootPlanID: id, PlanID: "child", StepID: "below"},
		&record.ActTool{
			RootPlanID: id, StepID: "below", Seq: 0, ToolCallID: "t2",
			Metadata: json.RawMessage(`{"embedding":{"hits":1,"inputTokens":-5,"costUsd":0.25}}`),
		},
		&record.ActTool{
			RootPlanID: id, StepID: "below", Seq: 0, ToolCallID: "t3",
			Metadata: json.RawMessage(`{"embedding":{"hits":"many"}}`),
		},
		&record.Source{
			RootPlanID: id, PlanID: "child", SourceID: "u", URI: new("https://example.com/x"), Type: new(record.SourceURL),
		},
	}, runstore.Begin(child))
	c.end(l, record.Plan{State: new(record.Failed), ErrorMessage: new("no repository")})

	trace := c.Read("/api/v1/runs/" + id + "/trace")
	expect(t, trace, obj{
		"executionId": id, "finalState": "FAILED", "completedSteps": 1, "stepTraces.#": 2, "allSources.#": 31,
		"startTime":             "2026-11-20T12:00:00Z",
		"metrics.totalLLMCalls": 2, "metrics.totalTokensInput": 150, "metrics.totalTokensOutput": 320,
		"metrics.llmTotalTime": 2400, "metrics.toolExecutionTime": 100,
		"metrics.failures": 1, "metrics.retries": 2, "metrics.toolCalls": 3,
		"metrics.embeddingSearches": 2, "metrics.embeddingHits": 31, "metrics.embeddingTokens": 120,
		"metrics.embeddingCost":   0.75,
		"stepTraces.0.stepNumber": 1, "stepTraces.0.agentType": "RAG_SEARCH", "stepTraces.0.action": "searchCode",
		"stepTraces.0.toolName":              "searchCode",
		"stepTraces.0.inputParameters.query": "callers", "stepTraces.0.output": "30 files",
		"stepTraces.0.reasoning": "I search.", "stepTraces.0.sources.#": 30,
		"stepTraces.0.sources.0.displayName": "a0.go", "stepTraces.0.toolCalls.0.duration": 100,
		"stepTraces.0.subTraces.0.executionId": "child", "stepTraces.0.subTraces.0.result": "done below",
		"stepTraces.0.logs": []string{
			"[2026-11-20T12:00:02.3Z] LLM Response: 470 tokens in 2300ms",
			"[2026-11-20T12:00:02.4Z] TOOL searchCode: COMPLETED in 100ms",
		},
		"stepTraces.1.state": "FAILED", "stepTraces.1.reasoning": "commit first",
		"stepTraces.1.logs": []string{
			"[2026-11-20T12:00:02.55Z] REASONING: commit first", "[2026-11-20T12:00:02.57Z] WAIT Commit?: REJECTED by ann",
			"[2026-11-20T12:00:02.6Z] LLM Error: 429", "[2026-11-20T12:00:03.5Z] ERROR: no repository",
		},
	})
	expect(t, c.Read("/api/v1/runs/child/trace"), obj{
		"executionId": "child", "stepTraces.#": 1, "allSources.#": 1, "metrics.embeddingSearches": 1,
	})

	md := c.Get("/api/v1/runs/" + id + "/trace?format=markdown")
	wantStatus(t, md, http.StatusOK)
	for _, part := range []string{
		"# Trace of Find \\*all\\* callers\n", "## Steps (1 of 2 completed)", "### 1. RAG\\_SEARCH — COMPLETED",
		"````\n30 ```matches```\n````", "[a3.go:1-9](<file:///src/a3.go>)",
		"#### Trace of Below", "| Tokens in | 150 |", "| Tokens of the embedder | 120 |",
		"Tool `searchCode`: COMPLETED, 0.1 s",
	} {
		if !strings.Contains(string(md.Body), part) {
			t.Errorf("the Markdown lacks %q:\n%s", part, md.Body)
		}
	}
	if strings.Contains(string(md.Body), "no trace shows") {
		t.Error("the Markdown has a prompt")
	}

	wantProblem(t, c.Get("/api/v1/runs/"+id+"/trace?format=pdf"), http.StatusBadRequest, "format")
	wantProblem(t, c.Get("/api/v1/runs/other/trace"), http.StatusNotFound, nil)
}
