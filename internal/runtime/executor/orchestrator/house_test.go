package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/decision"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/orchestrator"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/internal/testkit/enginetest"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/internal/testkit/scriptmodel"
	"github.com/actlog/actlog/record"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type object = enginetest.Object

var text = enginetest.Text

// definition is what a file without a section of the orchestrator gives, after a change.
func definition(change func(*define.Orchestrator)) define.OrchestratorDefinition {
	o := define.DefaultOrchestrator()
	if change != nil {
		change(&o)
	}
	return o.Definition(func(name string) define.DefinitionModel {
		return define.DefinitionModel{Name: name, Model: "scripted"}
	}, nil, nil)
}

type query struct {
	Query string `json:"query"`
}

// tools are named as those of the toolsets. committed receives the calls of git.commit.
func tools(committed func(id, message string)) []tool.Tool {
	return []tool.Tool{
		tool.Func("search.searchCode", "Searches code.", func(_ context.Context, in query) (tool.Result, error) {
			return tool.Result{Text: "main.go has " + in.Query, Sources: []tool.Source{
				{
					URI: "file:///src/main.go", Type: record.SourceFile, LineStart: 45, LineEnd: 47, Snippet: "// " + in.Query,
					Description: "a comment", Score: 0.92,
				},
			}}, nil
		}),
		tool.Func("git.status", "Shows what changed.", func(context.Context, struct{}) (string, error) {
			return "clean", nil
		}),
		tool.CallFunc("git.commit", "Commits.", func(_ context.Context, c tool.Call, in query) (string, error) {
			committed(c.ID, in.Query)
			return "committed " + in.Query, nil
		}, tool.WithPolicy(tool.Policy{Writes: true, Approval: true}),
			tool.WithTouches(func(_ context.Context, in query) ([]string, error) { return []string{in.Query + ".go"}, nil })),
		tool.Func("code.smells", "Finds smells.", func(context.Context, struct{}) (string, error) {
			return "", errors.New("no such folder")
		}),
	}
}

// step is a step of a plan, on which it may depend on others.
func step(number int, agent, action string, dependencies ...int) object {
	s := object{
		"stepNumber": number, "agentType": agent, "action": action, "justification": "because of " + action,
		"expectedOutput": "a text",
	}
	if dependencies != nil {
		s["dependencies"] = dependencies
	}
	return s
}

func plan(steps ...object) object {
	return object{"goal": "Do it", "steps": steps, "estimatedDuration": 30}
}

func says(answer any) scriptmodel.Turn {
	content, ok := answer.(string)
	if !ok {
		b, _ := json.Marshal(answer)
		content = string(b)
	}
	return scriptmodel.Turn{Content: content}
}

// scenes are those of the planner with its plans in order, of steps by their actions, and of the answer.
func scenes(plans []scriptmodel.Turn, steps map[string][]scriptmodel.Turn) []scriptmodel.Scene {
	all := []scriptmodel.Scene{
		{Name: "planner", Match: scriptmodel.Match{System: "Plan how"}, Turns: plans},
		{Name: "answer", Match: scriptmodel.Match{System: "They have worked"}, Turns: []scriptmodel.Turn{{Reply: answering}}},
	}

	for action, turns := range steps {
		all = append(all, scriptmodel.Scene{
			Name: action, Match: scriptmodel.Match{User: "Your step: " + action + "\n"}, Turns: turns,
		})
	}
	return all
}

// answering answers with what the model was told.
func answering(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
	return scriptmodel.Turn{Content: "Answer to " + r.Question()}, nil
}

// calls are the turns of an agent that calls a tool, and then answers with what it returned.
func calls(name string, arguments any) []scriptmodel.Turn {
	return append(enginetest.Calls([]scriptmodel.ToolCall{enginetest.Call(name, arguments)}), repeats)
}

// repeats answers with the last result of a tool.
var repeats = scriptmodel.Turn{Reply: func(_ context.Context, r *scriptmodel.Request) (scriptmodel.Turn, error) {
	return scriptmodel.Turn{Content: string(r.Messages[len(r.Messages)-1].Content)}, nil
}}

// house is a house whose runs a human answers.
type house struct {
	*enginetest.House
	seen []record.Wait // what the human was asked
}

func build(t *testing.T, d define.OrchestratorDefinition, all []scriptmodel.Scene, have []tool.Tool) *house {
	t.Helper()
	return &house{House: enginetest.Build(t, enginetest.Plans{
		Scenes: all, Tools: have, Definitions: map[string]any{"orchestrator.": d},
		Executors: []engine.Executor{orchestrator.Executor{}},
	})}
}

func (h *house) start(input object, set ...func(*engine.Request)) string {
	h.T.Helper()
	b, _ := json.Marshal(input)
	r := engine.Request{Executor: "orchestrator", Input: b}
	for _, f := range set {
		f(&r)
	}

	started, err := h.Engine.Start(h.T.Context(), r)
	if err != nil {
		h.T.Fatal(err)
	}
	return started.PlanID
}

// human decides about a wait.
type human func(w *record.Wait) decision.Decision

// accept accepts plans as they are, and approves all actions.
func accept(w *record.Wait) decision.Decision {
	if *w.Type == record.WaitPlanValidation {
		return decision.Decision{Decision: decision.Accept, By: "ann"}
	}
	return decision.Decision{Decision: decision.Approve, By: "ann"}
}

// ended answers what a run asks until it has ended.
func (h *house) ended(id string, as human) *tree.Plan {
	h.T.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if p := h.Plan(id); p.Record.State.Terminal() {
			return p
		}
		for _, w := range h.Waits() {
			h.decide(w, as)
		}
	}

	h.T.Fatal("the run does not end")
	return nil
}

func (h *house) decide(w record.Wait, as human) {
	h.T.Helper()
	key := record.Key{Kind: record.KindWait, Root: w.RootPlanID, Parent: w.PlanID, ID: w.WaitID}
	err := runs.Decide(h.T.Context(), h.Runs, key, func(w *record.Wait) (decision.Decision, error) {
		row, err := h.Store.Row(h.T.Context(), key)
		if err != nil {
			return decision.Decision{}, err
		}
		h.seen = append(h.seen, *row.(*record.Wait))
		return as(w), nil
	})

	if err != nil && !errors.Is(err, runstore.ErrDecided) && !errors.Is(err, record.ErrUnavailable) {
		h.T.Error(err)
	}
}

// story tells of a run what must be the same each time.
func (h *house) story(p *tree.Plan) string {
	h.T.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n%s\n", *p.Record.State, text(p.Record.ErrorMessage), text(p.Record.Summary))
	for _, st := range p.Steps {
		r := &st.Record
		fmt.Fprintf(&b, "step %d %s %s: %s %s\n", *r.StepIndex, text(r.AgentName), *r.State, text(r.Result),
			text(r.ErrorMessage))

		one := *p
		one.Steps = []*tree.Step{st}
		for _, c := range h.Step(&one).Cycles {
			fmt.Fprintf(&b, " cycle %d %s\n", c.Record.Seq, *c.Record.State)
			for _, call := range c.ToolCalls {
				fmt.Fprintf(&b, "  %s %s %s\n", *call.Record.Name, *call.Record.State, text(call.Record.Result))
			}
		}
	}

	for _, kind := range []record.Kind{record.KindThought, record.KindWait, record.KindSource, record.KindArtifact} {
		rows, _, err := h.Store.Attached(h.T.Context(), kind, p.Record.RootPlanID, p.Record.CurrentPlanID, store.Position{},
			1000)
		if err != nil {
			h.T.Fatal(err)
		}
		for _, each := range rows {
			switch c := each.Record.(type) {
			case *record.Thought:
				fmt.Fprintf(&b, "thought %s\n", *c.Content)
			case *record.Wait:
				fmt.Fprintf(&b, "wait %s %s\n", *c.Type, *c.State)
			case *record.Source:
				fmt.Fprintf(&b, "source %s\n", *c.URI)
			case *record.Artifact:
				fmt.Fprintf(&b, "artifact %s %s\n", c.Name, c.Value)
			}
		}
	}

	return b.String()
}

// control asks a run to stop, to pause or to resume.
func (h *house) control(id string, a runstore.Action) error {
	h.T.Helper()
	return h.Runs.Control(h.T.Context(), id, a, "ann")
}
