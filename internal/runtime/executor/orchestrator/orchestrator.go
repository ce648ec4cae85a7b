// Package orchestrator is the executor of requests that a model plans, a human accepts, and specialised agents
// carry out, step by step.
package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/record"
)

const (
	// ownStep is the index of the step in which the orchestrator plans and answers. Those of a plan come before.
	ownStep = define.MaxPlanSteps
	// maxRounds is how often a human may have a plan modified.
	maxRounds = 3
	// historyMessages is how much of its conversation the orchestrator is told.
	historyMessages = 200
	planTemperature = 0.3            // how freely plans are made
	autoApprove     = "auto_approve" // the field beside a plan that says whether its actions are approved with it
)

// ConcludesIn implements [engine.Concluding].
func (Executor) ConcludesIn() int { return ownStep }

// Advance implements [engine.Executor].
func (Executor) Advance(ctx context.Context, run *engine.Run) (engine.Result, error) {
	w := &work{run: run}
	err := run.Read(&w.input, &w.definition)
	if err != nil {
		return engine.Result{}, err
	}

	w.own, err = run.Step(ctx, ownStep, engine.StepInfo{
		Agent: define.PlannerType, Description: "Plans the request, and answers it", Request: w.input.Request,
		Model: w.definition.Model.Model,
	})
	if err != nil {
		return engine.Result{}, err
	}
	if _, ended, err := w.own.Ended(); ended && err != nil {
		return engine.Result{}, err
	}

	answer, err := w.answer(ctx)
	failure, failed := errors.AsType[*engine.RunError](err)
	if err != nil && (!failed || engine.OfRun(err)) {
		return engine.Result{}, err
	}

	w.own.End(answer, failure)
	if err == nil {
		err = w.failure()
	}
	return engine.Result{Summary: answer}, err
}

func (w *work) answer(ctx context.Context) (string, error) {
	history, err := w.run.History(ctx, w.run.ConversationID(), historyMessages)
	if err != nil {
		return "", err
	}

	if w.input.Mode == chatMode {
		return w.ask(ctx, engine.Thinking{Messages: messages(chatPrompt, history, model.User(w.input.Request))})
	}

	p, err := w.accepted(ctx, history)
	if err != nil {
		return "", err
	}
	for _, s := range p.Steps {
		o, err := w.carryOut(ctx, s)
		if err != nil {
			return "", err
		}
		w.done = append(w.done, o)
	}

	return w.ask(ctx, engine.Thinking{
		Messages: messages(answerPrompt, history, model.User(findings(w.input.Request, p, w.done))),
	})
}

func (w *work) ask(ctx context.Context, t engine.Thinking) (string, error) {
	text, err := w.own.Prompt(ctx, w.seq, w.definition.Model, t)
	w.seq++ // an error ends the run, or it goes on from its beginning
	return text, err
}

// accepted returns the plan that a human accepts. The error is a [*engine.RunError] with the state CANCELLED if
// nobody does.
func (w *work) accepted(ctx context.Context, history []model.Message) (plan, error) {
	tools, err := w.offered(ctx)
	if err != nil {
		return plan{}, err
	}

	talk := messages(planPrompt(w.definition, tools), history, model.User(w.input.Request))
	for round := range maxRounds + 1 {
		text, err := w.ask(ctx, engine.Thinking{
			Messages: talk, ResponseSchema: schema(w.definition), Temperature: new(planTemperature),
		})
		if err != nil {
			return plan{}, err
		}
		p, err := readPlan(text, w.definition)
		if err != nil {
			return plan{}, err
		}

		answer, err := w.validate(ctx, p, round)
		if err != nil {
			return plan{}, err
		}

		switch answer.State {
		case record.Accepted:
			w.approved = slices.ContainsFunc(answer.Inputs, func(in map[string]string) bool {
				return in["name"] == autoApprove && in["value"] == "true"
			})
			return p, nil
		case record.Modified:
			talk = append(talk, model.Message{Role: model.RoleAssistant, Parts: []model.Part{{Text: text}}},
				model.User(modify(answer.Text)))
		case record.TimedOut:
			return plan{}, &engine.RunError{Kind: engine.WaitTimedOut, Message: "Nobody accepted the plan in time."}
		default:
			return plan{}, &engine.RunError{
				Kind: "plan_rejected", Message: rejected(answer.By, answer.Text), State: record.Cancelled,
			}
		}
	}
	return plan{}, badPlan("The plan was modified more than %d times", maxRounds)
}

// validate lets a human look at a plan. After the last round it cannot be modified any more.
func (w *work) validate(ctx context.Context, p plan, round int) (engine.Answer, error) {
	decisions := []string{"accept", "reject", "modify"}
	if round == maxRounds {
		decisions = decisions[:2]
	}

	shown, _ := json.Marshal(p) // texts and numbers
	subject, _ := json.Marshal(map[string]any{"plan": json.RawMessage(shown), "decisions": decisions})
	w.run.Artifact(tool.Artifact{Name: "plan", Type: "plan", Value: shown})

	return w.run.Ask(ctx, fmt.Sprint("plan-", round), engine.WaitInfo{
		Type: record.WaitPlanValidation, Title: "Shall this plan be carried out? " + engine.Title(p.Goal),
		Description: describe(p), Subject: subject,
		Inputs: []map[string]string{{
			"name": autoApprove, "label": "Approve its actions, too", "type": "select", "options": "false,true",
			"required": "false", "value": "",
		}},
		StepID: w.own.ID(), Timeout: time.Duration(w.definition.WaitTimeout),
	})
}

// failure returns why the run failed although it has an answer: a step did.
func (w *work) failure() error {
	failed := slices.DeleteFunc(slices.Clone(w.done), func(o outcome) bool { return o.failure == nil || o.skipped() })
	if len(failed) == 0 {
		return nil
	}
	return &engine.RunError{Kind: "step", Message: fmt.Sprintf("%d of %d steps failed.", len(failed), len(w.done))}
}
