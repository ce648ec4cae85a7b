package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/record"
)

// Graph asks for a task that a model plans as a graph of nodes, which run at the same time where they do not need each
// other. The result is what those nodes found whose results no other one needs.
type Graph struct {
	// Prompt is the task. PlanID, instead, is a run that planned a graph before: its graph is carried out again.
	Prompt string
	PlanID string
	// Provider and Model choose the model of the planner and of all nodes: Provider is a kind, such as openai, or the
	// name of a model. Without them the planner chooses the models of the nodes.
	Provider, Model string
	// Eager nodes begin as soon as the nodes that they need have completed. Others begin with their wave: when all
	// nodes of the wave before have ended.
	Eager bool
	// Draft plans the graph and no more.
	Draft bool
	// Project, UserID, Starter, Tags, Limits and IdempotencyKey are as in [Request].
	Project, UserID string
	Starter         string `json:",omitempty"`
	Tags            []string
	Limits          Limits
	IdempotencyKey  string
}

// StartGraph puts a run of a graph on record, as [Runtime.Start] does for an agent, with the same errors. A PlanID
// without a graph is a [*record.InvalidError].
func (r *Runtime) StartGraph(ctx context.Context, g Graph) (planID string, err error) {
	done, err := r.enter()
	if err == nil {
		defer done()
		planID, err = r.startGraph(ctx, g)
	}
	if err != nil {
		return "", fmt.Errorf("start a graph: %w", err)
	}
	return planID, nil
}

func (r *Runtime) startGraph(ctx context.Context, g Graph) (string, error) {
	texts := Request{Project: g.Project, UserID: g.UserID, Starter: g.Starter, Tags: g.Tags, IdempotencyKey: g.IdempotencyKey}
	if err := texts.check(); err != nil {
		return "", err
	}
	for field, text := range map[string]string{"plan_id": g.PlanID, "provider": g.Provider, "model": g.Model} {
		if len(text) > record.MaxIDBytes || !storable(text) {
			return "", invalid(field, fmt.Sprintf("must be UTF-8 without NUL of at most %d bytes", record.MaxIDBytes))
		}
	}
	if len(g.Prompt) > record.MaxTextBytes || !storable(g.Prompt) {
		return "", invalid("prompt", fmt.Sprintf("must be UTF-8 without NUL of at most %d bytes", record.MaxTextBytes))
	}
	in := map[string]any{"prompt": g.Prompt, "plan_id": g.PlanID, "provider": g.Provider, "model": g.Model, "draft": g.Draft}
	if g.Eager {
		in["scheduling"] = "eager"
	}
	input, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(g)
	if err != nil {
		return "", err
	}
	started, err := r.engine.Start(ctx, engine.Request{
		Executor: "dag", Input: input, Project: g.Project, UserID: g.UserID, Starter: g.Starter, Tags: g.Tags,
		Limits: new(engine.Limits(g.Limits)), IdempotencyKey: g.IdempotencyKey, Body: body,
	})
	return started.PlanID, asField(err)
}

// GraphResult is what came of a run of a graph.
type GraphResult struct {
	PlanID string // of the run that planned the graph
	// Status is completed if all nodes have completed, else failed.
	Status string
	// Nodes are in the order of the graph.
	Nodes []GraphNode
	// Logs are the lines of the log, in order.
	Logs []string
}

// GraphNode is what came of a node.
type GraphNode struct {
	ID, Name     string
	Dependencies []string // ids
	// Status is completed, failed, or pending: a node that it needs failed.
	Status string
	Result string
	Error  string
}

// WaitGraph returns what came of a graph when its run has ended. A graph that fails is no error: the status says so. The
// errors are those of [Runtime.Wait]; a run that carries out no graph is a [*record.InvalidError].
func (r *Runtime) WaitGraph(ctx context.Context, planID string) (*GraphResult, error) {
	result, err := r.waitGraph(ctx, planID)
	if err != nil {
		return nil, fmt.Errorf("wait for graph %s: %w", planID, err)
	}
	return result, nil
}

func (r *Runtime) waitGraph(ctx context.Context, planID string) (*GraphResult, error) {
	done, err := r.enter()
	if err != nil {
		return nil, err
	}
	defer done()
	d, err := r.detail(ctx, planID)
	if err != nil {
		return nil, err
	}
	if _, err := r.ended(ctx, engine.Started{PlanID: planID, RootPlanID: d.Plan.RootPlanID}); err != nil {
		return nil, err
	}
	e, err := runs.ReadExecution(ctx, r.store.Reader, planID)
	if errors.Is(err, record.ErrNotFound) {
		err = invalid("planId", "is none of a graph that is carried out")
	}
	if err != nil {
		return nil, err
	}
	out := &GraphResult{PlanID: e.PlanID(), Status: e.Status(), Logs: e.Logs}
	results := e.Results()
	for i, n := range e.Graph.Nodes {
		node := GraphNode{ID: n.ID, Name: n.Name, Dependencies: n.Dependencies, Status: runs.NodeStatus(e.Steps[i]), Result: results[n.ID]}
		if node.Status == "failed" {
			node.Error = orZero(e.Steps[i].ErrorMessage)
		}
		out.Nodes = append(out.Nodes, node)
	}
	return out, nil
}
