package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/engine"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// The reasons why a run is not retried, beside those of its limits.
var (
	// ErrGoesOn means that a run has not ended.
	ErrGoesOn = runstore.ErrGoesOn
	// ErrCompleted means that a run was completed: there is nothing to try again.
	ErrCompleted = runstore.ErrCompleted
	// ErrDropped means that the cycles and tool calls of a run were dropped for their age.
	ErrDropped = runstore.ErrDropped
)

// NotRootError means that a run is below another one. Its root can be retried, and started again.
type NotRootError struct{ RootPlanID string }

func (e *NotRootError) Error() string {
	return "is a run below another one: ask its root, " + e.RootPlanID
}

// RetryOptions say how a run is retried.
type RetryOptions struct {
	// Limits replace those of the run, one by one; 0: that one stays. One that ended the run must be raised.
	Limits Limits
	// By is who asks, as the program knows them. May be empty.
	By string
	// IdempotencyKey makes Retry safe to repeat: the same retry by the same person with the same key is done once.
	IdempotencyKey string
}

// Retry lets a root run go on that ended FAILED, CANCELLED or INTERRUPTED, as another attempt of what failed or was
// stopped. What has a result is not done again. A run that is PAUSED because its code does other things than are on
// record makes anew what differs, and all after it. The error is a [*record.InvalidError] that names a limit, a
// [*NotRootError], [ErrGoesOn], [ErrCompleted], [ErrDropped], or wraps [record.ErrNotFound].
func (r *Runtime) Retry(ctx context.Context, planID string, how RetryOptions) error {
	return r.during(func() error {
		if err := checkAgain(planID, how.By, how.IdempotencyKey); err != nil {
			return err
		}
		body, err := json.Marshal(how.Limits)
		if err != nil {
			return err
		}
		return asAnswer(r.engine.Retry(ctx, engine.RetryRequest{
			PlanID: planID, Limits: how.Limits.new(), By: runstore.Who{Name: how.By},
			IdempotencyKey: how.IdempotencyKey, Body: body,
		}))
	}, "retry run %s", planID)
}

// AgainOptions say how a run is started again.
type AgainOptions struct {
	// Input is merged into that of the run, as a JSON merge patch (RFC 7396): a value with an object as its JSON.
	// nil: nothing changes.
	Input any
	// Limits replace those of the job of the run, one by one; 0: that one stays.
	Limits Limits
	// Starter and IdempotencyKey are as in [Job].
	Starter, IdempotencyKey string
}

// Again starts a run of what a root run was asked for, ended or not, with the definition that there is now, and
// returns the id of its plan. Project, user, tags, conversation, priority and key are the same. The error is a
// [*NotRootError], or one of [Runtime.Start].
func (r *Runtime) Again(ctx context.Context, planID string, how AgainOptions) (started string, err error) {
	err = r.during(func() error {
		if err := checkAgain(planID, how.Starter, how.IdempotencyKey); err != nil {
			return err
		}

		q := engine.AgainRequest{
			PlanID: planID, Limits: how.Limits.new(), Starter: how.Starter, IdempotencyKey: how.IdempotencyKey,
			By: runstore.Who{Name: how.Starter},
		}
		if how.Input != nil {
			if q.Input, err = json.Marshal(how.Input); err != nil || len(q.Input) == 0 || q.Input[0] != '{' {
				return invalid("input", "must be written as a JSON object")
			}
		}

		if q.Body, err = json.Marshal([]any{q.Input, how.Limits}); err != nil {
			return err
		}
		s, err := r.engine.Again(ctx, q)
		started = s.PlanID
		return asAnswer(err)
	}, "start run %s again", planID)
	return started, err
}

// asAnswer returns an error of the engine as one of this package.
func asAnswer(err error) error {
	if below, ok := errors.AsType[*runstore.NotRootError](err); ok {
		return &NotRootError{below.RootPlanID}
	}
	return asField(err)
}

func checkAgain(planID, by, key string) error {
	if !storable(planID) {
		return fmt.Errorf("run %q: %w", planID, record.ErrNotFound)
	}
	return checkTexts(record.MaxIDBytes, map[string]string{"by": by, "idempotencyKey": key})
}

// new returns the limits that are set, to replace others.
func (l Limits) new() engine.NewLimits {
	return engine.NewLimits{
		Rounds: optional.Pointer(l.Rounds), ToolCalls: optional.Pointer(l.ToolCalls), Tokens: optional.Pointer(l.Tokens),
		CostUSD: optional.Pointer(l.CostUSD), Seconds: optional.Pointer(l.Seconds),
	}
}
