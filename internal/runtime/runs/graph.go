package runs

import (
	"context"
	"errors"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/graph"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Execution is an execution of a graph as its record has it: a run of executor dag.
type Execution struct {
	Run   *runstore.RunDetail
	Graph *graph.Graph
	Steps []*record.AgentExecution // of the nodes; nil: it has not begun
	Logs  []string
}

// ReadExecution reads a run of executor dag. The error is [record.ErrNotFound] if there is none that carries out
// a graph. Before a graph is planned it has no nodes.
func ReadExecution(ctx context.Context, reader *runstore.Reader, planID string) (*Execution, error) {
	d, err := reader.RunDetail(ctx, planID)
	if err != nil {
		return nil, err
	}
	if d.Executor != tree.GraphExecutor || optional.Value(d.Name) == graph.Draft {
		return nil, record.ErrNotFound
	}
	return ExecutionOf(ctx, reader.Reader, d)
}

// ExecutionOf reads what is on record beside a run of executor dag.
func ExecutionOf(ctx context.Context, reader *store.Reader, d *runstore.RunDetail) (*Execution, error) {
	e := &Execution{Run: d, Logs: []string{}}
	var err error
	if e.Graph, err = ReadGraph(ctx, reader, d.Plan.RootPlanID, d.Plan.CurrentPlanID); errors.Is(err, record.ErrNotFound) {
		e.Graph, err = &graph.Graph{Prompt: optional.Value(d.Plan.UserRequest), Title: optional.Value(d.Plan.Title)}, nil
	}
	if err != nil {
		return nil, err
	}

	e.Steps = make([]*record.AgentExecution, len(e.Graph.Nodes))
	plan, _, err := reader.PlanTree(ctx, d.Plan.RootPlanID, d.Plan.CurrentPlanID)
	if err != nil {
		return nil, err
	}
	for _, each := range plan.Steps {
		if at := each.Record.StepIndex; at != nil && *at > 0 && *at <= int64(len(e.Steps)) { // 0 is the planner
			e.Steps[*at-1] = &each.Record
		}
	}

	err = reader.EachAttached(ctx, record.KindThought, d.Plan.RootPlanID, d.Plan.CurrentPlanID, func(c record.Change) {
		e.Logs = append(e.Logs, optional.Value(c.(*record.Thought).Content))
	})
	return e, err
}

// ReadGraph reads the graph of a plan. The error is [record.ErrNotFound] if it has none.
func ReadGraph(ctx context.Context, reader *store.Reader, rootPlanID, planID string) (*graph.Graph, error) {
	row, err := reader.Row(ctx, record.Key{
		Kind: record.KindArtifact, Root: rootPlanID, Parent: planID, ID: graph.Artifact,
	})
	if err != nil {
		return nil, err
	}
	return graph.Read(row.(*record.Artifact).Value)
}

// PlanID returns the plan whose graph is carried out.
func (e *Execution) PlanID() string {
	if name := optional.Value(e.Run.Name); name != "" && name != graph.Draft {
		return name
	}
	return e.Run.Plan.CurrentPlanID
}

// Status is that of the execution in the words of source 004.
func (e *Execution) Status() string { return ExecutionStatus(e.Run.State) }

// ExecutionStatus is a state in the words of source 004.
func ExecutionStatus(s record.State) string {
	switch {
	case s == record.Pending:
		return "starting"
	case s == record.Completed:
		return "completed"
	case s.Terminal():
		return "failed"
	}
	return "executing"
}

// NodeStatus is the state of a node in the words of source 004. One that cannot begin stays pending.
func NodeStatus(step *record.AgentExecution) string {
	switch {
	case step == nil || step.State == nil || *step.State == record.Idle || *step.State == record.Blocked:
		return "pending"
	case *step.State == record.Completed:
		return "completed"
	case step.State.Terminal():
		return "failed"
	}
	return "running"
}

// States returns the status of each node.
func (e *Execution) States() map[string]string {
	states := map[string]string{}
	for i, n := range e.Graph.Nodes {
		states[n.ID] = NodeStatus(e.Steps[i])
	}
	return states
}

// Results returns what each node found; nothing, if it has not completed.
func (e *Execution) Results() map[string]string {
	results := map[string]string{}
	for i, n := range e.Graph.Nodes {
		results[n.ID] = ""
		if NodeStatus(e.Steps[i]) == "completed" {
			results[n.ID] = optional.Value(e.Steps[i].Result)
		}
	}
	return results
}
