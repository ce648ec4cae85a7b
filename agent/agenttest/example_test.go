package agenttest_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"testing"

	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/agenttest"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
)

// clerk is an agent with a tool, which the program has with its real model.
func clerk(m model.Model) agent.Parts {
	type order struct {
		Number int `json:"number"`
	}
	find := tool.Func("find", "Finds an order.", func(_ context.Context, in order) (string, error) {
		return fmt.Sprintf("Order %d is two cups.", in.Number), nil
	})

	return agent.Parts{
		Models: map[string]model.Model{"default": m}, Tools: []tool.Tool{find},
		Agents: map[string]agent.Agent{"clerk": {SystemPrompt: "You look after orders.", Tools: []string{"find"}}},
	}
}

// An agent whose model follows a script.
func Example() {
	ctx := context.Background()
	t := new(example) // the *testing.T of a test
	defer t.end()

	m := agenttest.Model(agenttest.Call("find", map[string]int{"number": 7}), agenttest.Final("Two cups."))
	a, err := agent.Open(ctx, agenttest.Database(t), agent.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)
	if err := a.Register(clerk(m)); err != nil {
		log.Fatal(err)
	}
	go a.Work(ctx)

	planID, err := a.Start(ctx, agent.Job{Work: agent.Request{Agent: "clerk", Request: "What is order 7?"}})
	if err != nil {
		log.Fatal(err)
	}
	run, err := a.Wait(ctx, planID)
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(run.Result)
	for _, asked := range m.Requests() {
		fmt.Println(len(asked.Messages), "messages,", len(asked.Tools), "tools")
	}
	// Output:
	// Two cups.
	// 2 messages, 2 tools
	// 4 messages, 2 tools
}

// A recorded run, played against code whose tool has another name for its argument.
func ExampleReplay() {
	t := new(example) // the *testing.T of a test
	defer t.end()

	records, err := os.Open("testdata/order-7.ndjson") // actlog export PLAN -o testdata/order-7.ndjson
	if err != nil {
		log.Fatal(err)
	}
	defer records.Close()

	parts := clerk(agenttest.Model())
	parts.Tools = []tool.Tool{tool.Func("find", "Finds an order.", func(_ context.Context, _ struct {
		Order int `json:"order"`
	}) (string, error) {
		return "", nil
	})}
	for _, d := range agenttest.Replay(t, records, parts) {
		fmt.Println(d.Recorded)
		fmt.Println(d.Now)
	}
	// Output:
	// COMPLETED: Order 7 is two cups.
	// FAILED: Bad arguments: unexpected additional properties ["number"]
	// tool: find: Order 7 is two cups.
	// tool: find: Bad arguments: unexpected additional properties ["number"]
}

// A model that is asked too often, and then answers with what a tool returned.
func ExampleModel() {
	m := agenttest.Model(
		agenttest.Fail(model.KindRateLimit, "slow down"),
		agenttest.Func(func(ctx context.Context, req model.Request) (*model.Response, error) {
			return agenttest.Text("You said: "+req.Messages[0].Text()).Answer(ctx, req)
		}))

	for range 2 {
		answer, err := m.Generate(context.Background(), model.Request{Messages: []model.Message{model.User("Hello.")}}, nil)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(answer.Message.Text())
	}
	// Output:
	// scripted scripted: rate_limit: slow down
	// You said: Hello.
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
