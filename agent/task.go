package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/actlog/actlog/agent/plan"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// Task asks for work that a model plans, in one call or operation by operation, and whose operations are then
// made in order.
type Task struct {
	Task    string // what is to be done
	Context string // what the model must know for it
	Role    string // who works on it. Default: DEVELOPER
	// ReadOnly refuses operations that write.
	ReadOnly bool
	// Iterative asks the model for one operation at a time.
	Iterative bool
	// GoOn makes the operations after one that failed, too.
	GoOn bool
	// MaxOperations and MaxIterations end the work early. Default: 100 and 10.
	MaxOperations, MaxIterations int
	// Project, UserID, Starter, Tags, Limits and IdempotencyKey are as in [Request].
	Project, UserID string
	Starter         string `json:",omitempty"`
	Tags            []string
	Limits          Limits
	IdempotencyKey  string
}

func (t Task) request() (q engine.Request, err error) {
	for field, text := range map[string]string{"task": t.Task, "context": t.Context} {
		if len(text) > record.MaxTextBytes || !storable(text) {
			return q, invalid(field, fmt.Sprintf("must be UTF-8 without NUL of at most %d bytes", record.MaxTextBytes))
		}
	}
	constraints := map[string]any{"abort_on_error": !t.GoOn, "iterative": t.Iterative}
	for field, n := range map[string]int{"max_operations": t.MaxOperations, "max_iterations": t.MaxIterations} {
		if n != 0 {
			constraints[field] = n
		}
	}
	q = engine.Request{Executor: "plan", Project: t.Project, UserID: t.UserID, Starter: t.Starter, Tags: t.Tags, Limits: new(engine.Limits(t.Limits)), IdempotencyKey: t.IdempotencyKey}
	q.Input, err = json.Marshal(map[string]any{"task": t.Task, "context": t.Context, "role": t.Role, "constraints": constraints, "enableWrite": !t.ReadOnly})
	if err == nil {
		q.Body, err = json.Marshal(t)
	}
	return q, err
}

// Template asks for a run of a plan template of the configuration, whose steps are agents.
type Template struct {
	Name   string
	Values map[string]string // of the placeholders
	// Project, UserID, Starter, Tags, Limits and IdempotencyKey are as in [Request].
	Project, UserID string
	Starter         string `json:",omitempty"`
	Tags            []string
	Limits          Limits
	IdempotencyKey  string
}

func (t Template) request() (q engine.Request, err error) {
	for name, text := range t.Values {
		if len(text) > record.MaxTextBytes || !storable(text) {
			return q, invalid(name, fmt.Sprintf("must be UTF-8 without NUL of at most %d bytes", record.MaxTextBytes))
		}
	}
	if t.Name == "" {
		return q, invalid("name", "is required")
	}
	q = engine.Request{Executor: "plan", Name: t.Name, Project: t.Project, UserID: t.UserID, Starter: t.Starter, Tags: t.Tags, Limits: new(engine.Limits(t.Limits)), IdempotencyKey: t.IdempotencyKey}
	if t.Values != nil {
		if q.Input, err = json.Marshal(t.Values); err != nil {
			return q, err
		}
	}
	q.Body, err = json.Marshal(t)
	return q, err
}

// StartTask puts a run of a task on record, as [Runtime.Start] does for an agent, with the same errors.
func (r *Runtime) StartTask(ctx context.Context, t Task) (planID string, err error) {
	if planID, err = r.startPlan(ctx, t.request); err != nil {
		return "", fmt.Errorf("start a task: %w", err)
	}
	return planID, nil
}

// StartTemplate puts a run of a plan template on record, as [Runtime.Start] does for an agent, with the same
// errors. The run answers what its last agent answered.
func (r *Runtime) StartTemplate(ctx context.Context, t Template) (planID string, err error) {
	if planID, err = r.startPlan(ctx, t.request); err != nil {
		return "", fmt.Errorf("start a plan template: %w", err)
	}
	return planID, nil
}

func (r *Runtime) startPlan(ctx context.Context, request func() (engine.Request, error)) (string, error) {
	done, err := r.enter()
	if err != nil {
		return "", err
	}
	defer done()
	q, err := request()
	if err != nil {
		return "", err
	}
	if err := (Request{Agent: q.Name, Project: q.Project, UserID: q.UserID, Starter: q.Starter, Tags: q.Tags, IdempotencyKey: q.IdempotencyKey}).check(); err != nil {
		return "", err
	}
	started, err := r.engine.Start(ctx, q)
	return started.PlanID, asField(err)
}

// WaitTask returns what came of a task when its run has ended. A task that fails is no error: the result says
// so. The errors are those of [Runtime.Wait]; a run that is none of a task is a [*record.InvalidError].
func (r *Runtime) WaitTask(ctx context.Context, planID string) (*plan.Result, error) {
	done, err := r.enter()
	if err != nil {
		return nil, fmt.Errorf("wait for task %s: %w", planID, err)
	}
	defer done()
	d, err := r.detail(ctx, planID)
	if err == nil {
		d, err = r.ended(ctx, engine.Started{PlanID: d.Plan.CurrentPlanID, RootPlanID: d.Plan.RootPlanID})
	}
	var result *plan.Result
	if err == nil {
		result, err = r.taskResult(ctx, d)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for task %s: %w", planID, err)
	}
	return result, nil
}

func (r *Runtime) taskResult(ctx context.Context, d *runstore.RunDetail) (*plan.Result, error) {
	result, err := runs.TaskResult(ctx, r.store.Store.Reader, d)
	if err == nil && result == nil {
		err = invalid("planId", "is none of a task")
	}
	return result, err
}
