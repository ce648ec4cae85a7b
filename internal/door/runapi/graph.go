package runapi

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/internal/runtime/graph"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// The API of graphs is the contract of source 004. An execution is a run of executor dag, and its id that of its
// plan. What is said of it follows from the record.

const dagExecutor = tree.GraphExecutor

// graphNodeJSON is a node of a graph, and how far it has come.
type graphNodeJSON struct {
	graph.Node
	Status string `json:"status"`
}

// graphJSON is a graph that was planned. Its status is that of its newest execution that was started, draft without
// one.
type graphJSON struct {
	PlanID     string          `json:"plan_id"`
	UserPrompt string          `json:"user_prompt"`
	Title      string          `json:"title"`
	Nodes      []graphNodeJSON `json:"nodes"`
	Edges      []graph.Edge    `json:"edges"`
	Status     string          `json:"status"`
}

func toGraph(planID, status string, g *graph.Graph, states map[string]string) graphJSON {
	out := graphJSON{
		PlanID: planID, UserPrompt: g.Prompt, Title: g.Title, Nodes: make([]graphNodeJSON, len(g.Nodes)), Edges: g.Edges,
		Status: status,
	}
	for i, n := range g.Nodes {
		out.Nodes[i] = graphNodeJSON{n, cmp.Or(states[n.ID], "pending")}
	}
	return out
}

// executionInfoJSON says how far an execution has come.
type executionInfoJSON struct {
	ExecutionID string            `json:"execution_id"`
	PlanID      string            `json:"plan_id"`
	Status      string            `json:"status"`
	StartedAt   *time.Time        `json:"started_at"` // before it begins: when it was put on record
	CompletedAt *time.Time        `json:"completed_at"`
	States      map[string]string `json:"node_states"`
	Logs        []string          `json:"logs"`
}

func executionInfo(e *runs.Execution) any {
	return executionInfoJSON{
		e.Run.Plan.CurrentPlanID, e.PlanID(), e.Status(), cmp.Or(e.Run.Plan.StartTime, e.Run.CreatedAt),
		e.Run.Plan.EndTime, e.States(), e.Logs,
	}
}

type nodeResultJSON struct {
	NodeID string   `json:"node_id"`
	Name   string   `json:"name"`
	Status string   `json:"status"`
	Result string   `json:"result"`
	Error  *string  `json:"error"`
	Time   *float64 `json:"execution_time"`
}

// nodeTime returns how long a node took, in seconds; nil: it has not ended.
func nodeTime(step *record.AgentExecution) *float64 {
	if step == nil || step.StartTime == nil || step.EndTime == nil {
		return nil
	}
	return new(max(step.EndTime.Sub(*step.StartTime), 0).Seconds())
}

// failureOf returns why a node failed; nil: it did not.
func failureOf(step *record.AgentExecution) *string {
	if runs.NodeStatus(step) != "failed" {
		return nil
	}
	return step.ErrorMessage
}

type executionResultJSON struct {
	ExecutionID string           `json:"execution_id"`
	PlanID      string           `json:"plan_id"`
	Status      string           `json:"status"`
	Error       *string          `json:"error"`
	Results     []nodeResultJSON `json:"node_results"`
	Logs        []string         `json:"execution_logs"`
}

func executionResult(e *runs.Execution) any {
	out := executionResultJSON{
		e.Run.Plan.CurrentPlanID, e.PlanID(), e.Status(), e.Run.Plan.ErrorMessage, make([]nodeResultJSON, len(e.Steps)),
		e.Logs,
	}
	texts := e.Results()
	for i, n := range e.Graph.Nodes {
		out.Results[i] = nodeResultJSON{
			n.ID, n.Name, runs.NodeStatus(e.Steps[i]), texts[n.ID], failureOf(e.Steps[i]), nodeTime(e.Steps[i]),
		}
	}
	return out
}

type documentNodeJSON struct {
	graphNodeJSON
	Result *string  `json:"result"`
	Error  *string  `json:"error"`
	Time   *float64 `json:"execution_time"`
}

type documentJSON struct {
	ExecutionID string             `json:"execution_id"`
	PlanID      string             `json:"plan_id"`
	UserPrompt  string             `json:"user_prompt"`
	Title       string             `json:"title"`
	Timestamp   *time.Time         `json:"timestamp"` // of its end, else when it was last started or claimed
	Status      string             `json:"status"`
	Nodes       []documentNodeJSON `json:"nodes"`
	Results     map[string]string  `json:"node_results"`
	Logs        []string           `json:"execution_logs"`
}

func executionDocument(e *runs.Execution) any {
	out := documentJSON{
		e.Run.Plan.CurrentPlanID, e.PlanID(), e.Graph.Prompt, e.Graph.Title, cmp.Or(e.Run.Plan.EndTime, e.Run.UpdatedAt),
		e.Status(), make([]documentNodeJSON, len(e.Steps)), e.Results(), e.Logs,
	}

	for i, n := range e.Graph.Nodes {
		step := e.Steps[i]
		out.Nodes[i] = documentNodeJSON{
			graphNodeJSON: graphNodeJSON{n, runs.NodeStatus(step)}, Error: failureOf(step), Time: nodeTime(step),
		}
		if step != nil {
			out.Nodes[i].Result = step.Result
		}
	}
	return out
}

// frameJSON is what a WebSocket is told of an execution.
type frameJSON struct {
	Status string            `json:"status"`
	States map[string]string `json:"node_states"`
	Logs   []string          `json:"logs"` // the last ones
}

// frameLogs is how many lines of the log a frame has.
const frameLogs = 10

type frame struct {
	text []byte
	last bool
}

// readFrame reads the frame of an execution as it stands, and whether it is the last one.
func readFrame(ctx context.Context, reader *runstore.Reader, planID string) (f frame, last bool, err error) {
	e, err := runs.ReadExecution(ctx, reader, planID)
	if err != nil {
		return f, false, err
	}
	text, err := json.Marshal(frameJSON{e.Status(), e.States(), e.Logs[max(0, len(e.Logs)-frameLogs):]})
	last = e.Run.State.Terminal()
	return frame{text, last}, last, err
}
