package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/actlog/actlog/internal/runtime/engine"
)

// Orchestration asks for a run of the orchestrator: a model plans, a human accepts, and specialised agents carry the
// plan out.
type Orchestration struct {
	Request string // what the user wants
	// Chat answers at once, without a plan.
	Chat bool
	// MaxPlanSteps bounds the plan, from 1 to 10. 0: as it is configured.
	MaxPlanSteps int
	// ExecutionTimeout bounds the run, with the time that humans take. 0: as it is configured.
	ExecutionTimeout time.Duration
	// The others are as in [Request]. The runs of a conversation are told what was said before in it.
	ConversationID, Project, UserID string
	Starter                         string `json:",omitempty"`
	Tags                            []string
	Limits                          Limits
	IdempotencyKey                  string
}

// StartOrchestration puts a run of the orchestrator on record, as [Runtime.Start] does for an agent, with the same
// errors.
func (r *Runtime) StartOrchestration(ctx context.Context, o Orchestration) (planID string, err error) {
	done, err := r.enter()
	if err == nil {
		defer done()
		planID, err = r.startOrchestration(ctx, o)
	}
	if err != nil {
		return "", fmt.Errorf("start an orchestration: %w", err)
	}
	return planID, nil
}

func (r *Runtime) startOrchestration(ctx context.Context, o Orchestration) (string, error) {
	texts := Request{Request: o.Request, ConversationID: o.ConversationID, Project: o.Project, UserID: o.UserID, Starter: o.Starter, Tags: o.Tags, IdempotencyKey: o.IdempotencyKey}
	if err := texts.check(); err != nil {
		return "", err
	}
	in := map[string]any{"request": o.Request}
	if o.Chat {
		in["mode"] = "chat"
	}
	if o.MaxPlanSteps != 0 {
		in["maxPlanSteps"] = o.MaxPlanSteps
	}
	if o.ExecutionTimeout != 0 {
		in["executionTimeout"] = o.ExecutionTimeout.Seconds()
	}
	input, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	started, err := r.engine.Start(ctx, engine.Request{
		Executor: "orchestrator", Input: input, ConversationID: o.ConversationID, Project: o.Project, UserID: o.UserID, Starter: o.Starter, Tags: o.Tags,
		Limits: new(engine.Limits(o.Limits)), IdempotencyKey: o.IdempotencyKey, Body: body,
	})
	return started.PlanID, asField(err)
}
