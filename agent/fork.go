package agent

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// ErrNoRun means that a plan was only recorded, so that no run can go on from it.
var ErrNoRun = runstore.ErrNoRun

// NotEndedError means that a row before that from which a run goes on has not ended.
type NotEndedError struct {
	At string // the row
}

func (e *NotEndedError) Error() string {
	return (&runstore.NotEndedError{At: e.At}).Error()
}

// Changes are what a run has otherwise than the one that it goes on from. What is not set stays.
type Changes struct {
	// SystemPrompt, Model, Temperature, MaxTokens and Tools are those of the agent in whose step the run goes on. Tools
	// are names and patterns.
	SystemPrompt *string
	Model        string
	Temperature  *float64
	MaxTokens    int64
	Tools        []string
	// Limits replace those of the run, one by one; 0: that one stays.
	Limits Limits
	// Request is what the run was asked for, in words.
	Request string
	// Rows are rows before that from which the run goes on, by their addresses.
	Rows map[string]RowChange
}

// RowChange is another answer of the model of a cycle, or another result of a tool call.
type RowChange struct {
	ThinkOutput, Result *string
}

// ForkOptions say how a run goes on from a row of another one.
type ForkOptions struct {
	Changes Changes
	// Starter and IdempotencyKey are as in [Job].
	Starter, IdempotencyKey string
}

// Fork starts a run that has what another root run has before a row as its own, makes that row and what follows anew,
// and returns the id of its plan. at is step:STEP, cycle:STEP/SEQ or call:STEP/SEQ/CALL. Copied rows count in no figure
// and no limit, and nothing of theirs is done again. The error is a [*record.InvalidError] that names at or a change, a
// [*NotEndedError], a [*NotRootError], [ErrNoRun], [ErrDropped], or wraps [record.ErrNotFound].
func (r *Runtime) Fork(ctx context.Context, planID, at string, how ForkOptions) (started string, err error) {
	err = r.during(func() error {
		if err := checkAgain(planID, how.Starter, how.IdempotencyKey); err != nil {
			return err
		}

		body, err := json.Marshal([]any{at, how.Changes})
		if err != nil {
			return err
		}

		s, err := r.engine.Fork(ctx, engine.ForkRequest{
			PlanID: planID, At: at, Changes: how.Changes.engine(), Starter: how.Starter,
			IdempotencyKey: how.IdempotencyKey, Body: body, By: runstore.Who{Name: how.Starter},
		})
		started = s.PlanID

		if unended, ok := errors.AsType[*runstore.NotEndedError](err); ok {
			return &NotEndedError{unended.At}
		}
		return asAnswer(err)
	}, "fork run %s", planID)
	return started, err
}

func (c Changes) engine() engine.Changes {
	e := engine.Changes{
		SystemPrompt: c.SystemPrompt, Model: optional.Pointer(c.Model), Temperature: c.Temperature,
		MaxTokens: optional.Pointer(c.MaxTokens), Limits: c.Limits.new(), Request: optional.Pointer(c.Request),
	}
	if c.Tools != nil {
		e.Tools = &c.Tools
	}

	for address, row := range c.Rows {
		if e.Rows == nil {
			e.Rows = map[string]engine.RowChange{}
		}
		e.Rows[address] = engine.RowChange(row)
	}
	return e
}
