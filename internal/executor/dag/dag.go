// Package dag is the executor of graphs: a model plans tasks that depend on each other, and those that are
// ready run at the same time, wave by wave.
package dag

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/engine"
)

// resultArtifact is the artifact that has the result, also of a run that failed.
const resultArtifact = "dag_result"

// maxInput bounds what a node is told of the result of another, in bytes.
const maxInput = 100_000

// result is what a run answers.
type result struct {
	Status  string            `json:"status"` // completed or failed
	Results map[string]string `json:"node_results"`
	Logs    []string          `json:"execution_logs"`
}

// execution is the work on a graph.
type execution struct {
	run       *engine.Run
	graph     graph
	models    []string        // of the nodes
	tried     map[string]bool // nodes that have ended
	completed map[string]bool
	result    result
}

// Advance implements [engine.Executor].
func (Executor) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	var in input
	var d definition
	if err := errors.Join(json.Unmarshal(run.Input(), &in), json.Unmarshal(run.Definition(), &d)); err != nil {
		return engine.Result{}, &engine.RunError{Kind: "configuration", Message: "The run cannot be read: " + err.Error()}
	}
	g, err := plan(ctx, run, in, d)
	if err != nil {
		return engine.Result{}, err
	}
	e := &execution{run: run, graph: g, tried: map[string]bool{}, completed: map[string]bool{}, result: result{Results: map[string]string{}}}
	for _, n := range g.Nodes {
		name, ok := d.find(n.Provider, n.Model)
		if !ok {
			return engine.Result{}, &engine.RunError{Kind: "provider", Message: fmt.Sprintf("Node %s uses unavailable provider '%s'. Available: %s", n.ID, n.Provider, strings.Join(d.names(), ", "))}
		}
		e.models = append(e.models, name)
		e.result.Results[n.ID] = ""
	}
	return e.waves(ctx)
}

// waves runs all nodes that are ready, and again, until none is.
func (e *execution) waves(ctx context.Context) (engine.Result, error) {
	e.log("Starting execution of plan %s", e.run.ID())
	for wave := e.graph.ready(e.tried, e.completed); len(wave) > 0; wave = e.graph.ready(e.tried, e.completed) {
		if err := e.wave(ctx, wave); err != nil {
			return engine.Result{}, err
		}
	}
	e.result.Status = "completed"
	if len(e.completed) < len(e.graph.Nodes) {
		e.result.Status = "failed"
	}
	var blocked []string
	for _, n := range e.graph.Nodes {
		if !e.tried[n.ID] {
			blocked = append(blocked, n.ID)
		}
	}
	if len(blocked) > 0 {
		e.log("ERROR: Cannot proceed - dependencies failed: [%s]", strings.Join(blocked, ", "))
	}
	e.log("Execution completed. Status: %s", e.result.Status)
	text, err := json.Marshal(e.result)
	if err != nil {
		return engine.Result{}, err
	}
	e.run.Artifact(tool.Artifact{Name: resultArtifact, Value: text})
	if e.result.Status == "failed" {
		return engine.Result{}, &engine.RunError{Kind: "node", Message: fmt.Sprintf("%d of %d nodes completed.", len(e.completed), len(e.graph.Nodes))}
	}
	return engine.Result{Summary: string(text)}, nil
}

// wave runs nodes at the same time, and returns when all have ended. The error is one that ends the run, or
// that the handle gave.
func (e *execution) wave(ctx context.Context, wave []int) error {
	ids, texts, errs := make([]string, len(wave)), make([]string, len(wave)), make([]error, len(wave))
	var all sync.WaitGroup
	for i, at := range wave {
		ids[i] = e.graph.Nodes[at].ID
		all.Go(func() { texts[i], errs[i] = e.node(ctx, at) })
	}
	all.Wait()
	e.log("Executing %d nodes in parallel: [%s]", len(wave), strings.Join(ids, ", "))
	for i, at := range wave {
		n := e.graph.Nodes[at]
		var failure *engine.RunError
		if errs[i] != nil && (!errors.As(errs[i], &failure) || ofRun(failure)) {
			return errs[i]
		}
		e.tried[n.ID] = true
		e.log("Starting node %s: %s", n.ID, n.Name)
		if failure != nil {
			e.log("Failed node %s: %s - %s", n.ID, n.Name, failure.Message)
			continue
		}
		e.completed[n.ID], e.result.Results[n.ID] = true, texts[i]
		e.log("Completed node %s: %s", n.ID, n.Name)
	}
	return nil
}

// ofRun reports whether a failure is that of the whole run and not of one node.
func ofRun(f *engine.RunError) bool {
	return strings.HasPrefix(f.Kind, "limit_") || f.Kind == "record_mismatch"
}

// node returns the result of a node. It only reads what waves before have changed.
func (e *execution) node(ctx context.Context, at int) (string, error) {
	n := e.graph.Nodes[at]
	prompt := nodePrompt(n, e.inputs(n))
	return ask(ctx, e.run, at+1, engine.StepInfo{Agent: n.ID, Description: n.Name, Request: n.Description, Model: e.models[at]}, model.System(nodeSystem(n)), model.User(prompt))
}

// inputs returns what the nodes before a node found.
func (e *execution) inputs(n node) string {
	names := map[string]string{}
	for _, other := range e.graph.Nodes {
		names[other.ID] = other.Name
	}
	told := make([]string, len(n.Dependencies))
	for i, id := range n.Dependencies {
		told[i] = fmt.Sprintf("From %s (%s):\n%s", names[id], id, tool.Cut(e.result.Results[id], maxInput))
	}
	return strings.Join(told, "\n\n")
}

func (e *execution) log(format string, args ...any) {
	e.result.Logs = append(e.result.Logs, fmt.Sprintf(format, args...))
}

// plan returns the graph of a task.
func plan(ctx context.Context, run *engine.Run, in input, d definition) (g graph, err error) {
	info := engine.StepInfo{Agent: "planner", Description: "Plans the graph", Request: in.Prompt, Model: d.planner(in)}
	answer, err := ask(ctx, run, 0, info, model.System(plannerPrompt), model.User(planPrompt(in.Prompt, d.Models)))
	if err != nil {
		return g, err
	}
	if g, err = parse(answer); err != nil {
		return g, &engine.RunError{Kind: "planning", Message: err.Error()}
	}
	for i := range g.Nodes {
		if n := &g.Nodes[i]; in.Provider != "" {
			n.Provider, n.Model = in.Provider, in.Model
		}
	}
	return g, nil
}

// ask does a step that is one call of a model, and returns the trimmed answer.
func ask(ctx context.Context, run *engine.Run, index int, info engine.StepInfo, messages ...model.Message) (string, error) {
	step, err := run.Step(ctx, index, info)
	if err != nil {
		return "", err
	}
	if text, ended, err := step.Ended(); ended {
		return text, err
	}
	var failure *engine.RunError
	var text string
	m, err := run.Model(info.Model)
	if err == nil {
		var answer *model.Response
		if answer, err = step.Think(ctx, 0, engine.Thinking{Model: m, Messages: messages}); err == nil {
			text = strings.TrimSpace(answer.Message.Text())
		}
	}
	if err != nil && (!errors.As(err, &failure) || ofRun(failure)) {
		return "", err
	}
	step.End(text, failure)
	return text, err
}
