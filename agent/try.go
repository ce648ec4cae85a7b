package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/modelcall"
	"github.com/actlog/actlog/internal/runtime/runs"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// The reasons why a model call is not made again.
var (
	// ErrNoInput means that nothing is on record of what the model was asked.
	ErrNoInput = modelcall.ErrNoInput
	// ErrTooLong means that the model was asked more than is sent again.
	ErrTooLong = modelcall.ErrTooLong
)

// TryOptions say how a model call is made again. What is nil stays as it is on record.
type TryOptions struct {
	// SystemPrompt takes the place of all system messages. Empty: there is none.
	SystemPrompt *string
	Temperature  *float64
	MaxTokens    *int64
	// Tools are the names of those tools that are offered, of those that were.
	Tools *[]string
	// Starter and IdempotencyKey are as in [Job].
	Starter, IdempotencyKey string
}

// Tried is what a model answered before and now.
type Tried struct {
	PlanID        string // of the run that made the call
	At            string // the cycle that it was made again of
	Before, After ModelAnswer
}

// ModelAnswer is what a model said. What is nil is not known.
type ModelAnswer struct {
	Text                      string
	ToolCalls                 []ModelCall
	ModelName                 *string
	InputTokens, OutputTokens *int64
	CostUSD                   *float64
}

// ModelCall is a tool call that a model asked for.
type ModelCall struct {
	Name       string
	Parameters string // as the model wrote them, JSON as a rule
}

// TriedError means that a model call failed that was made again, or waits for its model, which is away.
type TriedError struct {
	Run *Run // that makes the call
}

func (e *TriedError) Error() string {
	return fmt.Sprintf("run %s is %s: %s", e.Run.PlanID, e.Run.State, e.Run.Error)
}

// Try makes the model call of a cycle (cycle:STEP/SEQ) of a plan again, with a model by its name, and returns both
// answers when it has ended. The plan may be of a run, or only recorded. No tool is called. The error is a
// [*record.InvalidError] that names the field, a [*TriedError], [ErrNoInput], [ErrTooLong], or wraps
// [record.ErrNotFound] if there is no such plan.
func (r *Runtime) Try(ctx context.Context, planID, at, model string, how TryOptions) (t Tried, err error) {
	err = r.during(func() error {
		if err := checkAgain(planID, how.Starter, how.IdempotencyKey); err != nil {
			return err
		}
		if err := checkTexts(record.MaxTextBytes, map[string]string{
			"at": at, "model": model, "systemPrompt": optional.Value(how.SystemPrompt),
		}); err != nil {
			return err
		}

		q := engine.TryRequest{
			PlanID: planID, At: at, Model: model, Starter: how.Starter, IdempotencyKey: how.IdempotencyKey,
			By: runstore.Who{Name: how.Starter},
		}
		q.Changes.SystemPrompt, q.Changes.Temperature = how.SystemPrompt, how.Temperature
		q.Changes.MaxTokens, q.Changes.Tools = how.MaxTokens, how.Tools
		if q.Body, err = json.Marshal([]any{at, model, q.Changes}); err != nil {
			return err
		}

		started, err := r.engine.Try(ctx, q)
		if err != nil {
			return asField(err)
		}
		t, err = r.tried(ctx, started.PlanID)
		return err
	}, "try a call of plan %s", planID)
	return t, err
}

// tried returns what came of a model call that is made again, when it has ended.
func (r *Runtime) tried(ctx context.Context, planID string) (Tried, error) {
	d, err := r.await(ctx, planID, func(d *runstore.RunDetail) bool { return d.State.Terminal() || runs.Parked(d) })
	switch {
	case err != nil:
		return Tried{}, err
	case d.State != record.Completed:
		return Tried{}, &TriedError{Run: runOf(d)}
	}

	t, err := runs.ReadTried(ctx, r.store.Reader, d)
	return Tried{t.PlanID, t.At, modelAnswer(t.Before), modelAnswer(t.After)}, err
}

func modelAnswer(a modelcall.Answer) ModelAnswer {
	answer := ModelAnswer{
		Text: a.Text, ModelName: a.ModelName, InputTokens: a.InputTokens, OutputTokens: a.OutputTokens, CostUSD: a.CostUSD,
	}
	for _, c := range a.ToolCalls {
		answer.ToolCalls = append(answer.ToolCalls, ModelCall(c))
	}
	return answer
}
