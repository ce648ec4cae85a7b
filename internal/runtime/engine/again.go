package engine

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// RetryRequest asks a root run that has ended to go on.
type RetryRequest struct {
	PlanID string
	Limits NewLimits
	By     runstore.Who
	// IdempotencyKey is that of the request; empty: none. Body must be the same if the key is.
	IdempotencyKey string
	Body           []byte
}

// Retry makes a root run go on that ended FAILED, CANCELLED or INTERRUPTED, as another attempt of what failed or was
// stopped. What has a result is not done again. A run that is PAUSED because its code does not fit its record makes
// anew what differs, and all after it. The error is a [*record.InvalidError] that names a limit, or one of
// [runstore.Store.Retry].
func (e *Engine) Retry(ctx context.Context, r RetryRequest) error {
	if err := r.Limits.check(); err != nil {
		return err
	}

	return e.store.Retry(ctx, runstore.Retry{
		PlanID: r.PlanID, By: r.By, IdempotencyKey: r.IdempotencyKey, RequestSHA256: hash(r.Body),
		Open: func(ended runstore.Ended) (runstore.Opened, error) { return e.reopen(ended, r.Limits) },
	})
}

// reopen returns what a retry opens again of a run that has ended, or whose code does not fit its record.
func (e *Engine) reopen(ended runstore.Ended, raised NewLimits) (runstore.Opened, error) {
	limits, err := readLimits(ended.Limits)
	if err != nil {
		return runstore.Opened{}, fmt.Errorf("read the limits of run %s: %w", ended.RootPlanID, err)
	}
	if err := raised.raise(&limits, ended); err != nil {
		return runstore.Opened{}, err
	}

	o := newReopening(ended.Rows, ended.Now, e.executors)
	if ended.MismatchPlanID == "" {
		o.plan(ended.RootPlanID)
	} else {
		o.anew(ended.MismatchPlanID, ended.MismatchAt)
	}
	o.open.Limits = limits.json()
	return o.open, nil
}

// NewLimits are limits that replace those of a run, one by one. nil: that one stays. 0: there is none any more.
type NewLimits struct {
	Rounds, ToolCalls, Tokens *int64
	CostUSD, Seconds          *float64
}

func (n NewLimits) check() error {
	return (&Limits{
		Rounds: optional.Value(n.Rounds), ToolCalls: optional.Value(n.ToolCalls), Tokens: optional.Value(n.Tokens),
		CostUSD: optional.Value(n.CostUSD), Seconds: optional.Value(n.Seconds),
	}).check()
}

// raise puts the new limits in place of those of a run that has ended. The error names the limit that ended it, if it
// is not above what the run has used.
func (n NewLimits) raise(l *runLimits, ended runstore.Ended) error {
	set(&l.Rounds, n.Rounds)
	set(&l.ToolCalls, n.ToolCalls)
	set(&l.Tokens, n.Tokens)
	set(&l.CostUSD, n.CostUSD)
	set(&l.Seconds, n.Seconds)

	rounds, calls := begunIn(ended)
	switch ended.ErrorKind {
	case LimitRounds:
		if n.Rounds != nil {
			l.MaxSteps = int(*n.Rounds)
		}
		if n.Rounds == nil || *n.Rounds <= rounds { // the agent has rounds of its own: it is not enough to lift the limit
			return notRaised("rounds", rounds)
		}
	case LimitToolCalls:
		return above("toolCalls", l.ToolCalls, calls)
	case LimitTokens:
		return above("tokens", l.Tokens, ended.Used.Tokens)
	case LimitCost:
		return above("costUsd", l.CostUSD, ended.Used.CostUSD)
	case LimitTime:
		return above("seconds", l.Seconds, ended.Worked.Seconds())
	}
	return nil
}

func set[T any](limit, to *T) {
	if to != nil {
		*limit = *to
	}
}

// above returns an error that names a limit which is not above what was used; 0: there is no limit.
func above[T int64 | float64](name string, limit, used T) error {
	if limit > 0 && limit <= used {
		return notRaised(name, used)
	}
	return nil
}

func notRaised(name string, used any) error {
	return BadInput("limits."+name, "ended the run, which has used "+amount(used)+": it must be more to go on")
}

func amount(n any) string {
	if f, ok := n.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(n)
}

// begunIn returns how many rounds and tool calls a run itself has begun.
func begunIn(ended runstore.Ended) (rounds, calls int64) {
	for _, r := range ended.Rows {
		switch {
		case r.PlanID != ended.RootPlanID || r.StartTime == nil && r.Attempt == 1:
		case r.Kind == record.KindThinkAct:
			rounds++
		case r.Kind == record.KindActTool:
			calls++
		}
	}
	return rounds, calls
}

// Rounds returns how many rounds the agent of a run has whose definition gives it so many: more, if a retry raised
// them.
func (r *Run) Rounds(defined int) int {
	return cmp.Or(r.maxSteps, defined)
}
