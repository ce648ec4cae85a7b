package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/runtime/define"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/record"
)

type work struct {
	run     *engine.Run
	step    *engine.Step
	role    define.Definition
	task    task
	acting  engine.Thinking // how operations are called
	offered capabilities

	plan       plan // of a task that is planned at once
	last       []observation
	thoughts   int // so far
	operations int // made, in all
	failed     int // of them
	truncated  string
}

// prepare finds out what the role can do.
func (w *work) prepare(ctx context.Context) error {
	tools, err := w.run.Tools(ctx, nil, w.role.MCPServers)
	if err != nil {
		return err
	}

	w.acting = engine.Thinking{
		Policies: w.role.Policies, WaitTimeout: time.Duration(w.role.WaitTimeout), Refuse: w.refuse, Artifacts: true,
	}
	if w.acting.Tools, err = engine.Set(tools...); err != nil {
		return err
	}
	w.offered = describe(w.role, w.task.EnableWrite, tools)
	return nil
}

// refuse returns why a call is not made.
func (w *work) refuse(call model.ToolCall, _ int) string {
	if !allows(w.role, call.Name) {
		return notAllowed(w.role.Tools, call.Name)
	}
	if known, ok := w.acting.Tools.Get(call.Name); ok && !w.task.EnableWrite && w.role.Policy(known.Spec()).Writes {
		return readOnly
	}
	return ""
}

// think puts a thought on record.
func (w *work) think(kind record.ThoughtType, iteration int, content string, confidence *float64, related ...string) {
	w.run.Thought(w.thoughts, record.Thought{
		StepID: new(w.step.ID()), AgentID: new(w.step.ID()), Role: &w.task.Role, Iteration: new(int64(iteration)),
		Type: &kind, Content: &content,
		RelatedOperations: related[:min(len(related), record.MaxListItems)], Confidence: confidence,
	})
	w.thoughts++
}

func (w *work) ask(ctx context.Context, seq int, system, user string) (string, error) {
	t := engine.Thinking{Messages: []model.Message{model.System(system), model.User(user)}}
	return w.step.Prompt(ctx, int64(seq), w.role.Model, t)
}

// operate makes an operation in the cycle of its iteration.
func (w *work) operate(ctx context.Context, iteration int, s step) (observation, error) {
	w.think(record.ThoughtAction, iteration, executing(s), nil, s.name())
	call := model.ToolCall{Name: w.offered.nameOf(s), Arguments: string(s.Params)}
	results, err := w.step.Act(ctx, int64(iteration), []model.ToolCall{call}, w.acting)
	if err != nil {
		return observation{}, err
	}

	o := observation{iteration, s, results[0]}
	if w.operations++; o.Failed {
		w.failed++
		o.Text = cmp.Or(o.Text, "Unknown error")
		w.think(record.ThoughtObservation, iteration, "❌ Operation failed: "+o.Text, new(0.0), s.name())
	} else {
		w.think(record.ThoughtObservation, iteration, "✅ Operation succeeded. "+summaryOf(o.Result), new(1.0), s.name())
	}

	w.last = append(w.last, o)[max(0, len(w.last)+1-maxHistory):]
	return o, nil
}

// conclude ends the work with what came of it.
func (w *work) conclude(ctx context.Context, iteration int) (string, error) {
	artifacts, err := w.run.Artifacts(ctx)
	if err != nil {
		return "", err
	}

	if w.truncated != "" {
		m, _ := json.Marshal(metadata{w.task.Role, w.task.EnableWrite, w.task.Constraints, true}) // as in prepareTask
		w.run.Metadata(m)
	}

	text := conclusion(w.failed == 0, w.operations, artifacts, w.truncated)
	if w.failed > 0 {
		w.think(record.ThoughtConclusion, iteration, text, new(0.5))
		return "", &engine.RunError{Kind: unsuccessful, Message: text}
	}
	w.think(record.ThoughtConclusion, iteration, text, new(1.0))
	return text, nil
}

// full reports whether the work has made as many operations as it may.
func (w *work) full() bool {
	if w.operations < w.task.Constraints.MaxOperations {
		return false
	}
	w.run.Log().Warn("Max operations limit reached", "operations", w.operations)
	w.truncated = stopped(w.task, w.operations, len(w.plan.Steps))
	return true
}
