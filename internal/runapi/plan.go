package runapi

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/store"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

// agentResultJSON is what came of a task that executor plan worked on, as its record has it.
type agentResultJSON struct {
	Success      bool                       `json:"success"`
	Operations   []operationJSON            `json:"operations"`
	Artifacts    map[string]json.RawMessage `json:"artifacts"`
	AuditTrail   []struct{}                 `json:"audit_trail"` // always empty
	ReasoningLog []reasoningJSON            `json:"reasoning_log"`
	Error        *string                    `json:"error"`
}

type operationJSON struct {
	ToolName   string          `json:"tool_name"`
	Operation  string          `json:"operation"`
	Success    bool            `json:"success"`
	Params     json.RawMessage `json:"params"`
	Result     *string         `json:"result"`
	Error      *string         `json:"error"`
	Timestamp  *time.Time      `json:"timestamp"`
	DurationMS *int64          `json:"duration_ms"`
}

type reasoningJSON struct {
	AgentID           *string             `json:"agent_id"`
	Role              *string             `json:"role"`
	Iteration         *int64              `json:"iteration"`
	ThoughtType       *record.ThoughtType `json:"thought_type"`
	Content           *string             `json:"content"`
	RelatedOperations []string            `json:"related_operations"`
	Confidence        *float64            `json:"confidence"`
	Timestamp         *time.Time          `json:"timestamp"`
}

// planResult returns the result of a task; nil if the run is one of a template, or goes on.
func planResult(ctx context.Context, reader *store.Reader, d *store.RunDetail) (*agentResultJSON, error) {
	if !d.State.Terminal() || !isTask(&d.Plan) {
		return nil, nil //nolint:nilnil // there is none
	}
	out := &agentResultJSON{
		Success: d.State == record.Completed, Operations: []operationJSON{}, Artifacts: map[string]json.RawMessage{}, AuditTrail: []struct{}{},
		ReasoningLog: []reasoningJSON{}, Error: d.Plan.ErrorMessage,
	}
	err := beside(ctx, reader, record.KindThought, &d.Plan, func(c record.Change) {
		t := c.(*record.Thought)
		out.ReasoningLog = append(out.ReasoningLog, reasoningJSON{
			t.AgentID, t.Role, t.Iteration, t.Type, t.Content, orEmpty(t.RelatedOperations), t.Confidence, t.Time,
		})
		if t.Type != nil && *t.Type == record.ThoughtConclusion { // it came to its end: what failed is in the operations
			out.Error = nil
		}
	})
	if err != nil {
		return nil, err
	}
	err = beside(ctx, reader, record.KindArtifact, &d.Plan, func(c record.Change) { a := c.(*record.Artifact); out.Artifacts[a.Name] = a.Value })
	if err != nil {
		return nil, err
	}
	plan, _, err := reader.PlanTree(ctx, d.Plan.RootPlanID, d.Plan.CurrentPlanID)
	if err != nil {
		return nil, err
	}
	for _, each := range plan.Steps {
		step, err := reader.StepDetail(ctx, d.Plan.RootPlanID, each.Record.StepID)
		if err != nil {
			return nil, err
		}
		out.Operations = append(out.Operations, operationsOf(step)...)
	}
	return out, nil
}

// isTask reports whether a plan of the executor is one of a task: its metadata say so.
func isTask(p *record.Plan) bool {
	var task struct {
		Constraints json.RawMessage `json:"constraints"`
	}
	return json.Unmarshal(p.Metadata, &task) == nil && task.Constraints != nil
}

// operationsOf returns the operations of a step that have ended, in order.
func operationsOf(step *tree.Step) (all []operationJSON) {
	for _, c := range step.Cycles {
		for _, call := range c.ToolCalls {
			if t := &call.Record; t.State.Terminal() {
				all = append(all, operationOf(t))
			}
		}
	}
	return all
}

func operationOf(t *record.ActTool) operationJSON {
	o := operationJSON{Success: *t.State == record.Completed, Params: json.RawMessage("{}"), Timestamp: t.EndTime}
	o.ToolName, o.Operation = splitName(t)
	if t.Parameters != nil && json.Valid([]byte(*t.Parameters)) {
		o.Params = json.RawMessage(*t.Parameters)
	}
	if o.Success {
		o.Result = t.Result
	} else if o.Error = t.Result; o.Error == nil || *o.Error == "" {
		o.Error = new("Unknown error")
	}
	if t.StartTime != nil && t.EndTime != nil {
		o.DurationMS = new(max(t.EndTime.Sub(*t.StartTime).Milliseconds(), 0))
	}
	return o
}

// splitName returns the tool and the operation that the name of a call stands for.
func splitName(t *record.ActTool) (of, operation string) {
	if t.Name == nil {
		return "", ""
	}
	if t.ServerName != nil {
		if rest, ok := strings.CutPrefix(*t.Name, *t.ServerName+"-"); ok {
			return *t.ServerName, rest
		}
	}
	if of, operation, ok := strings.Cut(*t.Name, "."); ok {
		return of, operation
	}
	return *t.Name, *t.Name
}
