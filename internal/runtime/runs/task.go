package runs

import (
	"context"
	"encoding/json"

	"github.com/actlog/actlog/agent/plan"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// TaskExecutor is the executor of tasks, and of templates.
const TaskExecutor = "plan"

// TaskResult returns the result of a task that executor plan worked on, read from the record; nil if the run is
// none of a task, or has not ended.
func TaskResult(ctx context.Context, reader *store.Reader, d *runstore.RunDetail) (*plan.Result, error) {
	if !d.State.Terminal() || d.Executor != TaskExecutor || !IsTask(&d.Plan) {
		return nil, nil //nolint:nilnil // there is none
	}

	out := &plan.Result{
		Success: d.State == record.Completed, Operations: plan.Operations{}, Artifacts: map[string]json.RawMessage{},
		AuditTrail:   []struct{}{},
		ReasoningLog: plan.Thoughts{}, Error: d.Plan.ErrorMessage,
	}

	err := reader.EachAttached(ctx, record.KindThought, d.Plan.RootPlanID, d.Plan.CurrentPlanID, func(c record.Change) {
		t := c.(*record.Thought)
		out.ReasoningLog = append(out.ReasoningLog, plan.Thought{
			AgentID: t.AgentID, Role: t.Role, Iteration: t.Iteration, Type: t.Type, Content: t.Content,
			RelatedOperations: append([]string{}, t.RelatedOperations...), Confidence: t.Confidence, Timestamp: t.Time,
		})
		if t.Type != nil && *t.Type == record.ThoughtConclusion { // it came to its end: what failed is in the operations
			out.Error = nil
		}
	})
	if err != nil {
		return nil, err
	}

	err = reader.EachAttached(ctx, record.KindArtifact, d.Plan.RootPlanID, d.Plan.CurrentPlanID, func(c record.Change) {
		a := c.(*record.Artifact)
		out.Artifacts[a.Name] = a.Value
	})
	if err != nil {
		return nil, err
	}

	tree, _, err := reader.PlanTree(ctx, d.Plan.RootPlanID, d.Plan.CurrentPlanID)
	if err != nil {
		return nil, err
	}
	for _, each := range tree.Steps {
		step, err := reader.StepDetail(ctx, d.Plan.RootPlanID, each.Record.StepID)
		if err != nil {
			return nil, err
		}
		for _, c := range step.Cycles {
			for _, call := range c.ToolCalls {
				if t := &call.Record; t.State.Terminal() {
					out.Operations = append(out.Operations, operationOf(t))
				}
			}
		}
	}
	return out, nil
}

// IsTask reports whether a plan of [TaskExecutor] is one of a task: its metadata say so.
func IsTask(p *record.Plan) bool {
	var task struct {
		Constraints json.RawMessage `json:"constraints"`
	}
	return json.Unmarshal(p.Metadata, &task) == nil && task.Constraints != nil
}

func operationOf(t *record.ActTool) plan.Operation {
	o := plan.Operation{Success: *t.State == record.Completed, Params: json.RawMessage("{}"), Timestamp: t.EndTime}
	o.Tool, o.Operation = tool.SplitName(optional.Value(t.Name), optional.Value(t.ServerName))
	if t.Parameters != nil && json.Valid([]byte(*t.Parameters)) {
		o.Params = json.RawMessage(*t.Parameters)
	}

	if o.Success {
		o.Result = t.Result
	} else if o.Error = t.Result; optional.Value(o.Error) == "" {
		o.Error = new("Unknown error")
	}

	if t.StartTime != nil && t.EndTime != nil {
		o.DurationMS = new(max(t.EndTime.Sub(*t.StartTime).Milliseconds(), 0))
	}
	return o
}
