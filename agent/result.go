package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/actlog/actlog/agent/plan"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Result waits until a run has ended, also while it waits for a human, and reads what came of it. into is a pointer to
// what the [Work] says that it has as result, or to a string for the text of [Run.Result]; what another executor
// answered as JSON is read as [json.Unmarshal] does. A run that failed is not an error if its result type reports
// failures. The errors are those of [Runtime.Wait]; a run whose result is another one is a [*record.InvalidError].
func (r *Runtime) Result(ctx context.Context, planID string, into any) error {
	return r.during(func() error { return r.result(ctx, planID, into) }, "result of run %s", planID)
}

func (r *Runtime) result(ctx context.Context, planID string, into any) error {
	d, err := r.await(ctx, planID, func(d *runstore.RunDetail) bool { return d.State.Terminal() })
	if err != nil {
		return err
	}

	switch into := into.(type) {
	case *plan.Result:
		result, err := runs.TaskResult(ctx, r.store.Store.Reader, d)
		if err != nil {
			return err
		}
		if result == nil {
			return invalid("planId", "is none of a task")
		}
		*into = *result
		return nil
	case *GraphResult:
		return r.graphResult(ctx, planID, into)
	}

	if d.Plan.Summary == nil {
		return fmt.Errorf("it is %s: %s", d.State, optional.Value(d.Plan.ErrorMessage))
	}

	if text, ok := into.(*string); ok {
		*text = *d.Plan.Summary
		return nil
	}
	if json.Unmarshal([]byte(*d.Plan.Summary), into) != nil {
		return invalid("planId", fmt.Sprintf("has a result that is no %T", into))
	}
	return nil
}

// GraphResult is what came of a run of a [Graph].
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

func (r *Runtime) graphResult(ctx context.Context, planID string, out *GraphResult) error {
	e, err := runs.ReadExecution(ctx, r.store.Reader, planID)
	if errors.Is(err, record.ErrNotFound) {
		err = invalid("planId", "is none of a graph that is carried out")
	}
	if err != nil {
		return err
	}

	*out = GraphResult{PlanID: e.PlanID(), Status: e.Status(), Logs: e.Logs}
	results := e.Results()
	for i, n := range e.Graph.Nodes {
		node := GraphNode{
			ID: n.ID, Name: n.Name, Dependencies: n.Dependencies, Status: runs.NodeStatus(e.Steps[i]), Result: results[n.ID],
		}
		if node.Status == "failed" {
			node.Error = optional.Value(e.Steps[i].ErrorMessage)
		}
		out.Nodes = append(out.Nodes, node)
	}
	return nil
}

// Follow calls on with what happens in the run of a [Talk], one event after the other, from its beginning until it has
// ended: those of POST /api/v1/agents/run/stream, with the texts of the model as they arrive. An error of on ends it,
// and is returned; the run goes on. The other errors are those of [Runtime.Read], or the cause of the end of ctx.
func (r *Runtime) Follow(ctx context.Context, planID string, on func(kind string, data map[string]any) error) error {
	return r.during(func() error { return r.follow(ctx, planID, on) }, "follow run %s", planID)
}

func (r *Runtime) follow(ctx context.Context, planID string, on func(kind string, data map[string]any) error) error {
	d, err := r.detail(ctx, planID)
	if err != nil {
		return err
	}

	talk := runs.Talk{
		Watch: r.watch, Deltas: r.store.Deltas(), Reader: func() runs.TalkReader { return r.store.Reader },
		RootPlanID: d.Plan.RootPlanID, PlanID: planID, Silence: time.Hour,
	}
	return talk.Follow(ctx, func(e runs.Event) error {
		if e.Type == "" {
			return nil
		}
		return on(e.Type, e.Data)
	})
}
