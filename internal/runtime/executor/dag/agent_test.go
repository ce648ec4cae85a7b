package dag_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/dag"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// withAgents is a graph in which two agents work side by side, and a model sums up what they found.
const withAgents = `{"title":"Agents","nodes":[
{"id":"n0","name":"Read","description":"Read it.","provider":"agent","agent":"reader"},
{"id":"n1","name":"Ship","description":"Ship it.","provider":"agent","model":"shipper"},
{"id":"n2","name":"Sum","description":"Add up.","provider":"default","dependencies":["n0","n1"]},
{"id":"n3","name":"After","description":"After reading.","provider":"default","dependencies":["n0"]}]}`

// agents are those that graphs may use. effect is told of each effect.
func agents(effect func(id string)) ([]tool.Tool, map[string]any) {
	have := []tool.Tool{
		tool.Func("files.read", "Reads.", func(_ context.Context, in struct {
			Path string `json:"path"`
		}) (string, error) {
			if in.Path != "main.go" {
				return "", fmt.Errorf("there is no file %s, but main.go", in.Path)
			}
			return "package main", nil
		}),
		tool.CallFunc("ship.it", "Ships.", func(_ context.Context, c tool.Call, _ struct{}) (string, error) {
			effect(c.ID)
			return "shipped", nil
		}, tool.WithPolicy(tool.Policy{Writes: true, Approval: true})),
	}

	named := define.DefinitionModel{Name: "default", Model: "scripted"}
	return have, map[string]any{"dag.": define.DagDefinition{Agents: []define.Definition{
		{Agent: "reader", Description: "Reads files.", SystemPrompt: "You read.", Model: named, Tools: []string{"files.*"}},
		{Agent: "shipper", Description: "Ships.", SystemPrompt: "You ship.", Model: named, Tools: []string{"ship.it"},
			EnableWrite: true, MaxSteps: 2},
	}}}
}

// reads and ships are what the agents do.
func reads() scriptmodel.Scene {
	read := func(path string) scriptmodel.Turn {
		return scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{enginetest.Call("files.read", object{"path": path})}}
	}
	return scene("You read.", read("mian.go"), read("main.go"),
		scriptmodel.Turn{ToolCalls: enginetest.Terminate("It is package main.")})
}

func ships() scriptmodel.Scene {
	return scene("You ship.", scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{enginetest.Call("ship.it", object{})}},
		scriptmodel.Turn{ToolCalls: enginetest.Terminate("It is shipped.")})
}

// agentHouse is a house whose graphs may use the agents.
func agentHouse(t *testing.T, effect func(id string), scenes ...scriptmodel.Scene) *enginetest.House {
	t.Helper()
	have, definitions := agents(effect)
	return enginetest.Build(t,
		enginetest.Plans{Scenes: scenes, Tools: have, Definitions: definitions, Executors: []engine.Executor{dag.Executor{}}})
}

// approved approves whatever a run asks until it has ended.
func approved(h *enginetest.House, id string) *tree.Plan {
	h.T.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if p := h.Plan(id); p.Record.State.Terminal() {
			return p
		}
		for _, w := range h.Waits() {
			_ = h.Decide(w, record.Approved, "approve", "") // it may be decided meanwhile
		}
	}
	h.T.Fatal("the run does not end")
	return nil
}

// Nodes may be agents with tools: they read errors, repair, and wait for approvals, side by side with others. Who plans
// is told which agents there are.
func TestNodesOfAgents(t *testing.T) {
	t.Parallel()
	h := agentHouse(t, func(string) {}, planned(withAgents), reads(), ships(), nodes())
	h.Work(h.Engine)
	id := start(h, object{"prompt": "Go.", "scheduling": "eager"})
	h.Await(id, record.Waiting)

	p := h.Plan(id)
	if got := states(p); got["n0"] != "COMPLETED It is package main." || got["n3"] != "COMPLETED done" ||
		!strings.HasPrefix(got["n1"], "WAITING") {
		t.Errorf("while one waits: %v", got) // the others go on
	}

	p = approved(h, id)
	got := states(p)
	if *p.Record.State != record.Completed || got["n1"] != "COMPLETED It is shipped." || got["n2"] != "COMPLETED done" {
		t.Errorf("p.Record.State = %s %v %s", *p.Record.State, got, text(p.Record.ErrorMessage))
	}

	asked := h.Model.Requests()
	for _, part := range []string{"- reader: Reads files. Tools: files.*", `\"provider\": \"agent\"`} {
		if !strings.Contains(string(asked[0].Body), part) {
			t.Errorf("the planner is not told %q: %s", part, asked[0].Body)
		}
	}
	if last := string(asked[len(asked)-1].Body); !strings.Contains(last, "It is shipped.") {
		t.Errorf("the last node is told %s", last)
	}

	g := graphOf(h, id)
	if n := g.Find("n1"); n.Provider != "agent" || n.Agent != "shipper" {
		t.Errorf("g.Find = %+v", n)
	}
	for _, st := range p.Steps {
		if *st.Record.AgentName == "n1" &&
			(*st.Record.MaxSteps != 2 || !strings.Contains(string(st.Record.Metadata), `"shipper"`)) {
			t.Errorf("st.Record = %+v", st.Record)
		}
	}
}

// A node whose agent uses up its rounds fails alone; an agent that graphs may not use fails the planning.
func TestNodesOfAgentsFail(t *testing.T) {
	t.Parallel()
	read := scriptmodel.Turn{ToolCalls: []scriptmodel.ToolCall{enginetest.Call("ship.it", object{})}}
	h := agentHouse(t, func(string) {}, planned(withAgents), reads(), scene("You ship.", read, read, read), nodes())
	h.Work(h.Engine)

	p := approved(h, start(h, object{"prompt": "Go."}))
	got := states(p)
	if *p.Record.State != record.Failed || got["n1"] != "FAILED" || got["n2"] != "BLOCKED" ||
		got["n3"] != "COMPLETED done" || text(p.Record.ErrorMessage) != "2 of 4 nodes completed." {
		t.Errorf("p.Record.State = %s %v %s", *p.Record.State, got, text(p.Record.ErrorMessage))
	}

	for name, node := range map[string]string{
		"Node a uses unavailable agent 'root'. Available: reader, shipper": `{"id":"a","provider":"agent","agent":"root"}`,
		"Node b uses unavailable agent 'x'. Available: reader, shipper":    `{"id":"b","provider":"agent","agentName":"x"}`,
	} {
		h := agentHouse(t, func(string) {}, planned(`{"title":"T","nodes":[`+node+`]}`))
		h.Work(h.Engine)
		if p := h.Ended(start(h, object{"prompt": "Go."})); text(p.Record.ErrorMessage) != "Planning failed: "+name {
			t.Errorf("%s: %s", name, text(p.Record.ErrorMessage))
		}
	}

	_, p = run(t, task, planned(`{"title":"T","nodes":[{"id":"a","agent":"reader"}]}`))
	if got := text(p.Record.ErrorMessage); got != "Planning failed: Node a uses unavailable agent 'reader'. Available: "+
		"none" {
		t.Errorf("text(p.Record.ErrorMessage) = %v", got)
	}
}

// The worker is killed before and after each write of a graph with agents, of which one waits for an approval: the run
// comes to the same end, and no effect happens twice.
func TestAgentsKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	carry := func(t *testing.T, disturb func(*enginetest.House)) string {
		t.Helper()
		var effects sync.Map
		h := agentHouse(t, func(id string) {
			if _, twice := effects.LoadOrStore(id, true); twice {
				t.Error("an effect twice")
			}
		}, planned(withAgents), reads(), ships(), nodes())
		disturb(h)
		h.Work(h.Engine)
		p := approved(h, start(h, object{"prompt": "Go."}))

		var lines []string
		for _, st := range p.Steps {
			lines = append(lines, fmt.Sprint(*st.Record.AgentName, " ", *st.Record.State, " ", text(st.Record.Result)))
			for _, c := range storetest.StepDetail(t, h.Store, st.Record.StepID).Cycles {
				for _, call := range c.ToolCalls {
					lines = append(lines, fmt.Sprint(" ", *call.Record.Name, " ", *call.Record.State))
				}
			}
		}
		slices.Sort(lines)
		return fmt.Sprint(*p.Record.State, " ", text(p.Record.Summary), "\n", strings.Join(lines, "\n"))
	}

	want := enginetest.AtEveryWrite(t, carry, func(t *testing.T, got, want string) {
		t.Helper()
		if got != want && !strings.Contains(got, " UNKNOWN") {
			t.Errorf("it came to another end:\n%s\nwant:\n%s", got, want)
		}
	})
	if !strings.Contains(want, "n1 COMPLETED It is shipped.") {
		t.Errorf("want = %v", want)
	}
}
