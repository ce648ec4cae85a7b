// Package plan is the executor of plans: a task that a model plans in one call and whose operations are
// then carried out in order, one that it plans operation by operation, and templates whose steps are agents.
package plan

import (
	"context"
	"errors"

	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/executor/plan/follow"
	"github.com/actlog/actlog/record"
)

// Advance implements [engine.Executor].
func (Executor) Advance(ctx context.Context, run *engine.Run) (result engine.Result, err error) {
	var d definition
	if err := run.Read(nil, &d); err != nil {
		return result, err
	}
	if d.Role == nil {
		result.Summary, err = follow.Advance(ctx, run)
		return result, err
	}

	w := &work{run: run, role: *d.Role}
	if err := run.Read(&w.task, nil); err != nil {
		return result, err
	}
	result.Summary, err = w.perform(ctx)
	return result, err
}

// perform works on a task in one step, and returns its conclusion.
func (w *work) perform(ctx context.Context) (_ string, err error) {
	w.step, err = w.run.Step(ctx, 0, engine.StepInfo{Agent: w.run.Name(), Request: w.task.Task, Model: w.role.Model.Model})
	if err != nil {
		return "", err
	}
	if summary, ended, err := w.step.Ended(); ended {
		return summary, err
	}

	summary, err := w.do(ctx)
	var failure *engine.RunError
	if err != nil && !errors.As(err, &failure) {
		return "", err
	}

	if failure != nil && failure.Kind != stepFailed && failure.Kind != unsuccessful {
		w.think(record.ThoughtError, -1, "Fatal error: "+failure.Message, new(0.0))
	}
	if err == nil || !engine.OfRun(err) {
		w.step.End(summary, failure)
	}
	return summary, err
}

// do plans the task and carries it out, operation by operation.
func (w *work) do(ctx context.Context) (string, error) {
	w.think(record.ThoughtAnalysis, 0, analysis(w.task), nil)
	if err := w.prepare(ctx); err != nil {
		return "", err
	}

	next, what := w.planned, "Step"
	if w.task.Constraints.Iterative {
		next, what = w.decided, "Iteration"
	}
	for i := 1; !w.full(); i++ {
		s, err := next(ctx, i)
		if err != nil {
			return "", err
		}
		if s == nil {
			break
		}

		o, err := w.operate(ctx, i, *s)
		if err != nil {
			return "", err
		}
		if o.Failed && w.task.Constraints.AbortOnError {
			return "", abort(what, i, o.Text)
		}
	}
	return w.conclude(ctx, max(w.operations, len(w.plan.Steps))+1)
}

// planned returns an operation of the plan, which it asks for first; nil after the last one.
func (w *work) planned(ctx context.Context, i int) (*step, error) {
	if i == 1 {
		answer, err := w.ask(ctx, 0, planPrompt(w.task.Role, w.offered), taskPrompt(w.task))
		if err != nil {
			return nil, err
		}
		if w.plan, err = readPlan(answer); err != nil {
			return nil, err
		}
		w.think(record.ThoughtDecision, 0, generated(w.plan), nil, w.plan.operations()...)
	}

	if i > len(w.plan.Steps) {
		return nil, nil //nolint:nilnil // there is none
	}
	return &w.plan.Steps[i-1], nil
}

// decided asks for one operation; nil if the model says that the task is done, or was asked often enough.
func (w *work) decided(ctx context.Context, i int) (*step, error) {
	if most := w.task.Constraints.MaxIterations; i > most {
		w.truncated = stoppedAfter("max_iterations", most)
		return nil, nil //nolint:nilnil // there is none
	}

	answer, err := w.ask(ctx, i, decidePrompt(w.task.Role, w.offered), historyPrompt(w.task, w.last))
	if err != nil {
		return nil, err
	}

	d, err := readDecision(answer)
	if err != nil {
		return nil, err
	}
	w.think(record.ThoughtDecision, i, decided(d), nil)
	return d.Step, nil
}
