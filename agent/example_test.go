package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/agenttest"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/plan"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/files"
	"github.com/actlog/actlog/agent/workflow"
	"github.com/actlog/actlog/record"
)

// An agent with a Go function as its tool.
func Example() {
	ctx := context.Background()
	url, drop := database()
	defer drop()
	m := agenttest.Model( // openai.New or anthropic.New in a program
		agenttest.Call("weather", map[string]string{"city": "Oslo"}),
		agenttest.Final("Take an umbrella."))

	a, err := agent.Open(ctx, url, agent.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)

	type Place struct {
		City string `json:"city" jsonschema:"the city, in English"`
	}
	err = a.Register(agent.Parts{
		Models: map[string]model.Model{"default": m},
		Tools: []tool.Tool{tool.Func("weather", "Says how the weather is in a city.",
			func(_ context.Context, in Place) (string, error) {
				return "It rains in " + in.City + ".", nil
			}, tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry}))},
		Agents: map[string]agent.Agent{"guide": {SystemPrompt: "You plan walks.", Tools: []string{"weather"}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	go a.Work(ctx)

	planID, err := a.Start(ctx, agent.Job{
		Work: agent.Request{Agent: "guide", Request: "I walk in Oslo today."}, IdempotencyKey: "walk-17",
	})
	if err != nil {
		log.Fatal(err)
	}
	run, err := a.Wait(ctx, planID)
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(run.State, run.Result)
	fmt.Println(run.Figures.ModelCalls, "model calls,", run.Figures.ToolCalls, "tool calls")
	// Output:
	// COMPLETED Take an umbrella.
	// 2 model calls, 2 tool calls
}

// A call that a human approves before it is made. While the run waits, it holds no worker, no connection
// and no memory.
func ExampleRuntime_Decide() {
	ctx := context.Background()
	url, drop := database()
	defer drop()
	m := agenttest.Model(
		agenttest.Call("pay", map[string]any{"to": "Ada", "euros": 12}),
		agenttest.Final("Ada has her money."))

	a, err := agent.Open(ctx, url, agent.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)

	type Payment struct {
		To    string `json:"to"`
		Euros int    `json:"euros"`
	}
	pay := tool.CallFunc("pay", "Pays.", func(_ context.Context, call tool.Call, in Payment) (string, error) {
		fmt.Printf("Paid %d EUR to %s.\n", in.Euros, in.To) // call.ID is the idempotency key for the bank
		return "done", nil
	}, tool.WithPolicy(tool.Policy{Writes: true, Approval: true, OnUnknown: tool.Ask}))

	err = a.Register(agent.Parts{
		Models: map[string]model.Model{"default": m}, Tools: []tool.Tool{pay},
		Agents: map[string]agent.Agent{"clerk": {SystemPrompt: "You pay bills.", Tools: []string{"pay"}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	go a.Work(ctx)

	planID, err := a.Start(ctx, agent.Job{Work: agent.Request{Agent: "clerk", Request: "Pay Ada 12 EUR."}})
	if err != nil {
		log.Fatal(err)
	}
	run, err := a.Wait(ctx, planID)
	if err != nil {
		log.Fatal(err)
	}
	w := run.Waits[0]
	fmt.Println(run.State, w.Title, w.Tool, string(w.Arguments), w.Decisions)

	if err := a.Decide(ctx, planID, w.WaitID, agent.Decision{Decision: agent.Approve, By: "grace"}); err != nil {
		log.Fatal(err)
	}
	if run, err = a.Wait(ctx, planID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.State, run.Result)
	// Output:
	// WAITING May pay run? pay {"euros":12,"to":"Ada"} [approve reject]
	// Paid 12 EUR to Ada.
	// COMPLETED Ada has her money.
}

// A program that ends in the middle of a run, and the next one, which goes on from there. It would be the
// same if the first one were killed: see the documentation for what is guaranteed for tools then.
func ExampleRuntime_Close() {
	ctx := context.Background()
	url, drop := database()
	defer drop()
	m := agenttest.Model(
		agenttest.Call("step", map[string]int{"number": 1}),
		agenttest.Call("step", map[string]int{"number": 2}),
		agenttest.Final("Both steps are done."))

	begun := make(chan int, 2)
	program := func() *agent.Runtime {
		a, err := agent.Open(ctx, url, agent.Options{})
		if err != nil {
			log.Fatal(err)
		}

		type Step struct {
			Number int `json:"number"`
		}
		err = a.Register(agent.Parts{
			Models: map[string]model.Model{"default": m},
			Tools: []tool.Tool{tool.Func("step", "Does a step.", func(_ context.Context, in Step) (string, error) {
				begun <- in.Number
				return "done", nil
			})},
			Agents: map[string]agent.Agent{"worker": {Tools: []string{"step"}}},
		})
		if err != nil {
			log.Fatal(err)
		}
		go a.Work(ctx)
		return a
	}

	first := program()
	planID, err := first.Start(ctx, agent.Job{Work: agent.Request{Agent: "worker", Request: "Do both steps."}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("began step", <-begun)
	if err := first.Close(ctx); err != nil {
		log.Fatal(err)
	}

	second := program()
	defer second.Close(ctx)
	run, err := second.Wait(ctx, planID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("began step", <-begun)
	fmt.Println(run.State, run.Result)
	// Output:
	// began step 1
	// began step 2
	// COMPLETED Both steps are done.
}

// Several workers share the runs. They may be in any number of processes and on any number of machines.
func ExampleRuntime_Work() {
	ctx := context.Background()
	url, drop := database()
	defer drop()
	m := agenttest.Model(agenttest.Final("Hello."))

	var workers []*agent.Runtime
	for range 3 {
		a, err := agent.Open(ctx, url, agent.Options{Slots: 10, MaxConns: 4})
		if err != nil {
			log.Fatal(err)
		}
		defer a.Close(ctx)

		err = a.Register(agent.Parts{
			Models: map[string]model.Model{"default": m}, Agents: map[string]agent.Agent{"greeter": {}},
		})
		if err != nil {
			log.Fatal(err)
		}
		go a.Work(ctx)
		workers = append(workers, a)
	}

	a := workers[0]
	var started []string
	for i := range 30 {
		planID, err := a.Start(ctx, agent.Job{
			Work: agent.Request{Agent: "greeter", Request: "Greet me."}, IdempotencyKey: fmt.Sprint("greet-", i),
		})
		if err != nil {
			log.Fatal(err)
		}
		started = append(started, planID)
	}

	answers := map[string]int{}
	for _, planID := range started {
		run, err := a.Wait(ctx, planID)
		if err != nil {
			log.Fatal(err)
		}
		answers[run.Result]++
	}
	fmt.Println(answers)
	// Output:
	// map[Hello.:30]
}

// A workflow that is a Go function. Its calls are on record: when the program ends in the middle, another one calls
// the function again, and goes on where it was.
func ExampleFlow() {
	ctx := context.Background()
	url, drop := database()
	defer drop()
	m := agenttest.Model(agenttest.Text("The sky is green.")) // openai.New or anthropic.New in a program

	a, err := agent.Open(ctx, url, agent.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)

	err = a.Register(agent.Parts{
		Models: map[string]model.Model{"default": m},
		Tools: []tool.Tool{tool.Func("publish", "Publishes a text.", func(_ context.Context, in struct {
			Text string `json:"text"`
		}) (string, error) {
			return "published: " + in.Text, nil
		})},
		Agents: map[string]agent.Agent{"writer": {SystemPrompt: "You write one sentence."}},
		Workflows: map[string]agent.Workflow{"news": {
			Agents: []string{"writer"}, Tools: []string{"publish"},
			Run: func(ctx context.Context, f workflow.Facade, input json.RawMessage, session string) (any, error) {
				written, err := f.RunAgent(ctx, "writer", string(input))
				if err != nil {
					return nil, err
				}
				return f.CallTool(ctx, "publish", map[string]string{"text": strings.ToUpper(written.Text())})
			},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	go a.Work(ctx)

	planID, err := a.Start(ctx, agent.Job{
		Work:           agent.Flow{Workflow: "news", Input: map[string]string{"about": "the sky"}},
		IdempotencyKey: "news-17",
	})
	if err != nil {
		log.Fatal(err)
	}

	var result workflow.Result
	if err := a.Result(ctx, planID, &result); err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Status, result.FinalOutput)
	for _, step := range result.StepResults {
		fmt.Println(step.StepType, step.StepName)
	}
	// Output:
	// completed published: THE SKY IS GREEN.
	// agent writer
	// tool publish
}

// A workflow in Go that changes while a run of it is open. The run that waits goes on as it began, and the next one is
// checked.
func ExampleFlow_version() {
	ctx := context.Background()
	url, drop := database()
	defer drop()

	pay := tool.Func("pay", "Pays.", func(context.Context, struct{}) (string, error) {
		return "paid", nil
	}, tool.WithPolicy(tool.Policy{Approval: true}))
	check := tool.Func("check", "Checks.", func(context.Context, struct{}) (string, error) { return "checked", nil })
	program := func(release string, run workflow.Func) *agent.Runtime {
		a, err := agent.Open(ctx, url, agent.Options{Release: release})
		if err != nil {
			log.Fatal(err)
		}

		err = a.Register(agent.Parts{Tools: []tool.Tool{pay, check}, Workflows: map[string]agent.Workflow{
			"refund": {Tools: []string{"pay", "check"}, Run: run},
		}})
		if err != nil {
			log.Fatal(err)
		}
		go a.Work(ctx)
		return a
	}

	start := func(a *agent.Runtime) string {
		planID, err := a.Start(ctx, agent.Job{Work: agent.Flow{Workflow: "refund", Input: "12 EUR"}})
		if err != nil {
			log.Fatal(err)
		}
		return planID
	}
	finish := func(a *agent.Runtime, planID string) {
		run, err := a.Wait(ctx, planID)
		if err != nil {
			log.Fatal(err)
		}
		err = a.Decide(ctx, planID, run.Waits[0].WaitID, agent.Decision{Decision: agent.Approve, By: "grace"})
		if err != nil {
			log.Fatal(err)
		}

		var result workflow.Result
		if err := a.Result(ctx, planID, &result); err != nil {
			log.Fatal(err)
		}
		for _, step := range result.StepResults {
			fmt.Print(step.StepName, " ")
		}
		fmt.Println(result.Status)
	}

	old := program("1.0", func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
		return f.CallTool(ctx, "pay", struct{}{})
	})
	before := start(old)
	if _, err := old.Wait(ctx, before); err != nil { // until somebody approves it
		log.Fatal(err)
	}
	if err := old.Close(ctx); err != nil {
		log.Fatal(err)
	}

	now := program("1.1", func(ctx context.Context, f workflow.Facade, _ json.RawMessage, _ string) (any, error) {
		version, err := f.Version(ctx, "check", 1)
		if err != nil {
			return nil, err
		}
		if version >= 1 {
			if _, err := f.CallTool(ctx, "check", struct{}{}); err != nil {
				return nil, err
			}
		}
		return f.CallTool(ctx, "pay", struct{}{})
	})
	defer now.Close(ctx)
	finish(now, before)
	finish(now, start(now))
	// Output:
	// pay completed
	// check pay completed
}

// An agent that talks over several turns, whose events are shown as they happen.
func ExampleRuntime_Follow() {
	ctx := context.Background()
	url, drop := database()
	defer drop()
	m := agenttest.Model(
		agenttest.Call("weather", map[string]string{"city": "Oslo"}),
		agenttest.Text("Take an umbrella."))

	a, err := agent.Open(ctx, url, agent.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)

	err = a.Register(agent.Parts{
		Models: map[string]model.Model{"default": m},
		Tools: []tool.Tool{tool.Func("weather", "Says how the weather is in a city.", func(_ context.Context, in struct {
			City string `json:"city"`
		}) (string, error) {
			return "It rains in " + in.City + ".", nil
		})},
		Agents: map[string]agent.Agent{
			"guide": {SystemPrompt: "You plan walks.", Tools: []string{"weather"}, IncludeHistory: true},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	go a.Work(ctx)

	planID, err := a.Start(ctx, agent.Job{
		Work: agent.Talk{Agent: "guide", Message: "I walk in Oslo today."}, ConversationID: "ada",
	})
	if err != nil {
		log.Fatal(err)
	}

	err = a.Follow(ctx, planID, func(kind string, data map[string]any) error {
		switch kind {
		case "tool_result":
			fmt.Println(kind, data["output"])
		case "session_info", "stream_end":
			fmt.Println(kind)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	var result workflow.AgentResult
	if err := a.Result(ctx, planID, &result); err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Status, result.Text())
	// Output:
	// session_info
	// tool_result It rains in Oslo.
	// stream_end
	// success Take an umbrella.
}

// A task on a folder, which the model plans in one call.
func ExampleTask() {
	ctx := context.Background()
	url, drop := database()
	defer drop()
	m := agenttest.Model(agenttest.Text(`{"reasoning": "Look first.", "steps": [
		{"tool": "files", "operation": "read_file", "params": {"path": "notes.txt"}}]}`))

	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("Buy milk.\n"), 0o600); err != nil {
		log.Fatal(err)
	}

	folder, err := files.Open(dir, files.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer folder.Close()

	a, err := agent.Open(ctx, url, agent.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)
	if err := a.Register(agent.Parts{Models: map[string]model.Model{"default": m}, Tools: folder.Tools()}); err != nil {
		log.Fatal(err)
	}
	go a.Work(ctx)

	planID, err := a.Start(ctx, agent.Job{Work: agent.Task{Task: "What do my notes say?"}})
	if err != nil {
		log.Fatal(err)
	}
	var result plan.Result
	if err := a.Result(ctx, planID, &result); err != nil {
		log.Fatal(err)
	}

	for _, o := range result.Operations.ByTool("files") {
		fmt.Println(o.Operation, o.Success)
	}
	fmt.Println(*result.ReasoningLog.ByType(record.ThoughtConclusion)[0].Content)
	// Output:
	// read_file true
	// Task completed successfully. Executed 1 operations. Artifacts: [file_content]
}

// database returns the URL of a database for an example. A test takes agenttest.Database(t), and has nothing to drop.
func database() (url string, drop func()) {
	e := new(example)
	return agenttest.Database(e), e.end
}

// example stands in for a test in examples.
type example struct {
	testing.TB
	cleanups []func()
}

func (*example) Helper()                           {}
func (*example) Context() context.Context          { return context.Background() }
func (*example) Failed() bool                      { return false }
func (*example) Logf(string, ...any)               {}
func (*example) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }
func (*example) Errorf(format string, args ...any) { log.Fatalf(format, args...) }
func (e *example) Cleanup(f func())                { e.cleanups = append(e.cleanups, f) }

func (e *example) end() {
	for _, cleanup := range slices.Backward(e.cleanups) {
		cleanup()
	}
}
