package runapi

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/actlog/actlog/internal/graph"
	"github.com/actlog/actlog/internal/runs"
	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/record"
)

// The API of graphs is the contract of source 004. An execution is a run of executor dag, and its id that of its
// plan. What is said of it follows from the record.

const dagExecutor = "dag"

// graphExecution is an execution of a graph as its record has it.
type graphExecution struct {
	run   *store.RunDetail
	graph *graph.Graph
	steps []*record.AgentExecution // of the nodes; nil: it has not begun
	logs  []string
}

// readExecution reads a run of executor dag. The error is [record.ErrNotFound] if there is none that carries out
// a graph. Before a graph is planned it has no nodes.
func readExecution(ctx context.Context, reader *store.Reader, planID string) (*graphExecution, error) {
	d, err := reader.RunDetail(ctx, planID)
	if err != nil {
		return nil, err
	}
	if d.Executor != dagExecutor || textOf(d.Name) == graph.Draft {
		return nil, record.ErrNotFound
	}
	return executionOf(ctx, reader, d)
}

func executionOf(ctx context.Context, reader *store.Reader, d *store.RunDetail) (*graphExecution, error) {
	e := &graphExecution{run: d, logs: []string{}}
	var err error
	if e.graph, err = readGraph(ctx, reader, d.Plan.RootPlanID, d.Plan.CurrentPlanID); errors.Is(err, record.ErrNotFound) {
		e.graph, err = &graph.Graph{Prompt: textOf(d.Plan.UserRequest), Title: textOf(d.Plan.Title)}, nil
	}
	if err != nil {
		return nil, err
	}
	e.steps = make([]*record.AgentExecution, len(e.graph.Nodes))
	plan, _, err := reader.PlanTree(ctx, d.Plan.RootPlanID, d.Plan.CurrentPlanID)
	if err != nil {
		return nil, err
	}
	for _, each := range plan.Steps {
		if at := each.Record.StepIndex; at != nil && *at > 0 && *at <= int64(len(e.steps)) { // 0 is the planner
			e.steps[*at-1] = &each.Record
		}
	}
	err = runs.Beside(ctx, reader, record.KindThought, &d.Plan, func(c record.Change) { e.logs = append(e.logs, textOf(c.(*record.Thought).Content)) })
	return e, err
}

// readGraph reads the graph of a plan. The error is [record.ErrNotFound] if it has none.
func readGraph(ctx context.Context, reader *store.Reader, rootPlanID, planID string) (*graph.Graph, error) {
	row, err := reader.Row(ctx, record.Key{Kind: record.KindArtifact, Root: rootPlanID, Parent: planID, ID: graph.Artifact})
	if err != nil {
		return nil, err
	}
	return graph.Read(row.(*record.Artifact).Value)
}

// planID returns the plan whose graph is carried out.
func (e *graphExecution) planID() string {
	if name := textOf(e.run.Name); name != "" && name != graph.Draft {
		return name
	}
	return e.run.Plan.CurrentPlanID
}

func (e *graphExecution) status() string { return executionStatus(e.run.State) }

// executionStatus is a state in the words of source 004.
func executionStatus(s record.State) string {
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

// nodeStatus is the state of a node in the words of source 004. One that cannot begin stays pending.
func nodeStatus(step *record.AgentExecution) string {
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

// states returns the status of each node.
func (e *graphExecution) states() map[string]string {
	states := map[string]string{}
	for i, n := range e.graph.Nodes {
		states[n.ID] = nodeStatus(e.steps[i])
	}
	return states
}

// results returns what each node found; nothing, if it has not completed.
func (e *graphExecution) results() map[string]string {
	results := map[string]string{}
	for i, n := range e.graph.Nodes {
		results[n.ID] = ""
		if nodeStatus(e.steps[i]) == "completed" {
			results[n.ID] = textOf(e.steps[i].Result)
		}
	}
	return results
}

// graphNodeJSON is a node of a graph, and how far it has come.
type graphNodeJSON struct {
	graph.Node
	Status string `json:"status"`
}

// graphJSON is a graph that was planned. Its status is that of its newest execution that was started, draft without one.
type graphJSON struct {
	PlanID     string          `json:"plan_id"`
	UserPrompt string          `json:"user_prompt"`
	Title      string          `json:"title"`
	Nodes      []graphNodeJSON `json:"nodes"`
	Edges      []graph.Edge    `json:"edges"`
	Status     string          `json:"status"`
}

func toGraph(planID, status string, g *graph.Graph, states map[string]string) graphJSON {
	out := graphJSON{PlanID: planID, UserPrompt: g.Prompt, Title: g.Title, Nodes: make([]graphNodeJSON, len(g.Nodes)), Edges: g.Edges, Status: status}
	for i, n := range g.Nodes {
		out.Nodes[i] = graphNodeJSON{n, "pending"}
		if known, ok := states[n.ID]; ok {
			out.Nodes[i].Status = known
		}
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

func executionInfo(e *graphExecution) any {
	started := e.run.Plan.StartTime
	if started == nil {
		started = e.run.CreatedAt
	}
	return executionInfoJSON{e.run.Plan.CurrentPlanID, e.planID(), e.status(), started, e.run.Plan.EndTime, e.states(), e.logs}
}

// nodeResultJSON is what came of a node.
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
	if nodeStatus(step) != "failed" {
		return nil
	}
	return step.ErrorMessage
}

// executionResultJSON is what came of an execution, node by node.
type executionResultJSON struct {
	ExecutionID string           `json:"execution_id"`
	PlanID      string           `json:"plan_id"`
	Status      string           `json:"status"`
	Error       *string          `json:"error"`
	Results     []nodeResultJSON `json:"node_results"`
	Logs        []string         `json:"execution_logs"`
}

func executionResult(e *graphExecution) any {
	out := executionResultJSON{e.run.Plan.CurrentPlanID, e.planID(), e.status(), e.run.Plan.ErrorMessage, make([]nodeResultJSON, len(e.steps)), e.logs}
	texts := e.results()
	for i, n := range e.graph.Nodes {
		out.Results[i] = nodeResultJSON{n.ID, n.Name, nodeStatus(e.steps[i]), texts[n.ID], failureOf(e.steps[i]), nodeTime(e.steps[i])}
	}
	return out
}

// documentNodeJSON is a node in the document of an execution.
type documentNodeJSON struct {
	graphNodeJSON
	Result *string  `json:"result"`
	Error  *string  `json:"error"`
	Time   *float64 `json:"execution_time"`
}

// documentJSON is the document of an execution.
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

func executionDocument(e *graphExecution) any {
	out := documentJSON{
		e.run.Plan.CurrentPlanID, e.planID(), e.graph.Prompt, e.graph.Title, e.run.Plan.EndTime, e.status(), make([]documentNodeJSON, len(e.steps)), e.results(), e.logs,
	}
	if out.Timestamp == nil {
		out.Timestamp = e.run.UpdatedAt
	}
	for i, n := range e.graph.Nodes {
		step := e.steps[i]
		out.Nodes[i] = documentNodeJSON{graphNodeJSON: graphNodeJSON{n, nodeStatus(step)}, Error: failureOf(step), Time: nodeTime(step)}
		if step != nil {
			out.Nodes[i].Result = step.Result
		}
	}
	return out
}

// graphResultJSON is the result of a run of executor dag.
type graphResultJSON struct {
	Status  string            `json:"status"`
	Results map[string]string `json:"node_results"`
	Logs    []string          `json:"execution_logs"`
}

// graphResult returns the result of a run that has ended: of one that planned and no more, its graph.
func graphResult(ctx context.Context, reader *store.Reader, d *store.RunDetail) (any, error) {
	if !d.State.Terminal() {
		return nil, nil //nolint:nilnil // there is none
	}
	e, err := executionOf(ctx, reader, d)
	switch {
	case err != nil:
		return nil, err
	case textOf(d.Name) != graph.Draft:
		return graphResultJSON{e.status(), e.results(), e.logs}, nil
	case d.State != record.Completed:
		return nil, nil //nolint:nilnil // there is none
	}
	return toGraph(d.Plan.CurrentPlanID, "draft", e.graph, nil), nil
}

// frameJSON is what a WebSocket is told of an execution.
type frameJSON struct {
	Status string            `json:"status"`
	States map[string]string `json:"node_states"`
	Logs   []string          `json:"logs"` // the last ones
}

// frameLogs is how many lines of the log a frame has.
const frameLogs = 10

// frame is a frame as it is sent.
type frame struct {
	text []byte
	last bool
}

// readFrame reads the frame of an execution as it stands, and whether it is the last one.
func readFrame(ctx context.Context, reader *store.Reader, planID string) (f frame, last bool, err error) {
	e, err := readExecution(ctx, reader, planID)
	if err != nil {
		return f, false, err
	}
	text, err := json.Marshal(frameJSON{e.status(), e.states(), e.logs[max(0, len(e.logs)-frameLogs):]})
	last = e.run.State.Terminal()
	return frame{text, last}, last, err
}
