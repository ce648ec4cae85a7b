// Package plan is the executor of plans: a task that a model plans in one call and whose operations are
// then carried out in order, one that it plans operation by operation, and templates whose steps are agents.
package plan

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/actlog/actlog/agent/config"
	"github.com/actlog/actlog/internal/engine"
	"github.com/actlog/actlog/internal/executor/follow"
	"github.com/actlog/actlog/record"
)

// Advance implements [engine.Executor].
func (Executor) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	var d definition
	if err := json.Unmarshal(run.Definition(), &d); err != nil {
		return engine.Result{}, unreadable(err)
	}
	if d.Role == nil {
		summary, err := follow.Advance(ctx, run)
		return engine.Result{Summary: summary}, err
	}
	summary, err := perform(ctx, run, *d.Role)
	return engine.Result{Summary: summary}, err
}

// perform works on a task, and returns its conclusion.
func perform(ctx context.Context, run *engine.Run, role config.Definition) (string, error) {
	w := &work{run: run, role: role}
	if err := json.Unmarshal(run.Input(), &w.task); err != nil {
		return "", unreadable(err)
	}
	if err := w.task.complete(); err != nil {
		return "", unreadable(err)
	}
	var err error
	w.step, err = run.Step(ctx, 0, engine.StepInfo{Agent: run.Name(), Request: w.task.Task, Model: role.Model.Model})
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
	w.step.End(summary, failure)
	return summary, err
}

// do plans the task and carries it out.
func (w *work) do(ctx context.Context) (string, error) {
	w.think(record.ThoughtAnalysis, 0, analysis(w.task), nil)
	if err := w.prepare(ctx); err != nil {
		return "", err
	}
	if *w.task.Constraints.Iterative {
		return w.iterate(ctx)
	}
	return w.carryOut(ctx)
}

// carryOut asks for a plan, and carries its steps out in order.
func (w *work) carryOut(ctx context.Context) (string, error) {
	answer, err := w.ask(ctx, 0, planPrompt(w.task.Role, w.offered), taskPrompt(w.task))
	if err != nil {
		return "", err
	}
	p, err := readPlan(answer)
	if err != nil {
		return "", err
	}
	w.think(record.ThoughtDecision, 0, generated(p), nil, p.operations()...)
	for i, s := range p.Steps {
		o, err := w.operate(ctx, i+1, s)
		if err != nil {
			return "", err
		}
		if !o.success && *w.task.Constraints.AbortOnError {
			return "", abort("Step", i+1, o.error)
		}
		if w.full() {
			if i+1 < len(p.Steps) {
				w.truncated = stoppedAt(i+1, len(p.Steps))
			}
			break
		}
	}
	return w.conclude(ctx, len(p.Steps)+1)
}
