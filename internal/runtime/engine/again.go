package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

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
func (e *Engine) reopen(ended runstore.Ended, n NewLimits) (runstore.Opened, error) {
	was, err := readLimits(ended.Limits)
	if err != nil {
		return runstore.Opened{}, fmt.Errorf("read the limits of run %s: %w", ended.RootPlanID, err)
	}
	limits := was
	if err := n.raise(&limits, ended); err != nil {
		return runstore.Opened{}, err
	}

	o := newReopening(ended.Rows, ended.Now, e.executors)
	if ended.MismatchPlanID == "" {
		o.plan(ended.RootPlanID)
	} else {
		o.anew(ended.MismatchPlanID, ended.MismatchAt)
	}
	for _, id := range o.open.Plans {
		below, err := readLimits(o.open.Limits[id])
		if err != nil {
			return runstore.Opened{}, fmt.Errorf("read the limits of run %s: %w", id, err)
		}
		o.open.Limits[id] = n.below(below, was).json()
	}
	o.open.Limits[ended.RootPlanID] = limits.json()
	return o.open, nil
}

// AgainRequest asks for a run as another one was asked for.
type AgainRequest struct {
	PlanID string
	Input  json.RawMessage // an object that is merged into the input as a JSON merge patch; nil: nothing changes
	Limits NewLimits       // in place of those of the other request
	// Starter, IdempotencyKey and Body are as in [Request].
	Starter, IdempotencyKey string
	Body                    []byte
	By                      runstore.Who
}

// Again starts a run as a root run was asked for, with what there is today of its definition. The error is a
// [*runstore.NotRootError], or one of [Engine.Start].
func (e *Engine) Again(ctx context.Context, r AgainRequest) (Started, error) {
	was, err := e.store.Reader.AskedFor(ctx, r.PlanID)
	switch {
	case err != nil:
		return Started{}, err
	case was.RootPlanID != was.PlanID:
		return Started{}, &runstore.NotRootError{RootPlanID: was.RootPlanID}
	}

	asked := asked{}
	if err := json.Unmarshal(was.Asked, &asked); err != nil {
		return Started{}, fmt.Errorf("read what run %s was asked for: %w", r.PlanID, err)
	}
	limits := runLimits{Limits: asked.Limits}
	r.Limits.replace(&limits)
	input := was.Input
	if r.Input != nil {
		if input, err = merge(input, r.Input); err != nil {
			return Started{}, fmt.Errorf("merge the input of run %s: %w", r.PlanID, err)
		}
	}

	return e.Start(ctx, Request{
		Executor: was.Executor, Name: asked.Name, Input: input, ConversationID: asked.ConversationID, Project: was.Project,
		UserID: was.UserID, Starter: r.Starter, Tags: was.Tags, Limits: &limits.Limits,
		Priority: &was.Priority, ConcurrencyKey: was.ConcurrencyKey,
		IdempotencyKey: r.IdempotencyKey, Body: slices.Concat([]byte(r.PlanID+"\n"), r.Body),
		AgainOf: r.PlanID, By: r.By,
	})
}

// merge applies a JSON merge patch (RFC 7396) to an object.
func merge(to, patch json.RawMessage) (json.RawMessage, error) {
	changes := membersOf(patch)
	if changes == nil {
		return patch, nil
	}
	members := membersOf(to)
	if members == nil {
		members = map[string]json.RawMessage{}
	}

	for name, change := range changes {
		if string(change) == "null" {
			delete(members, name)
			continue
		}
		merged, err := merge(members[name], change)
		if err != nil {
			return nil, err
		}
		members[name] = merged
	}
	return json.Marshal(members)
}

// membersOf returns the members of an object; nil: the JSON is none.
func membersOf(raw json.RawMessage) (m map[string]json.RawMessage) {
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
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

// raise puts the new limits in place of those of a run that has ended. The error names the limit that ended it, if
// that is not raised above what it was, and what the run has used.
func (n NewLimits) raise(l *runLimits, ended runstore.Ended) error {
	was := *l
	n.replace(l)
	rounds, calls := begunIn(ended)
	switch ended.ErrorKind {
	case LimitRounds: // of the run, or of its agent
		return raised("rounds", n.Rounds, max(was.Rounds, int64(was.MaxSteps), rounds), false)
	case LimitToolCalls:
		return raised("toolCalls", n.ToolCalls, max(was.ToolCalls, calls), true)
	case LimitTokens:
		return raised("tokens", n.Tokens, max(was.Tokens, ended.Used.Tokens), true)
	case LimitCost:
		return raised("costUsd", n.CostUSD, max(was.CostUSD, ended.Used.CostUSD), true)
	case LimitTime:
		return raised("seconds", n.Seconds, max(was.Seconds, ended.Worked.Seconds()), true)
	}
	return nil
}

// raised returns an error that names a limit unless it is set above what it must be. 0 lifts it, if it can be lifted.
func raised[T int64 | float64](name string, limit *T, above T, canBeLifted bool) error {
	if limit != nil && (*limit > above || *limit == 0 && canBeLifted) {
		return nil
	}
	return BadInput("limits."+name, fmt.Sprintf("ended the run: it must be more than %v to go on", above))
}

// replace puts the new limits in place of others.
func (n NewLimits) replace(l *runLimits) {
	set(&l.Rounds, n.Rounds)
	set(&l.ToolCalls, n.ToolCalls)
	set(&l.Tokens, n.Tokens)
	set(&l.CostUSD, n.CostUSD)
	set(&l.Seconds, n.Seconds)
	if n.Rounds != nil { // those of its agents, too
		l.MaxSteps = int(*n.Rounds)
	}
}

// below returns the limits of a run below the root, whose limits are replaced: it has what was left of them when it
// began. What it may use more is what the root may use more.
func (n NewLimits) below(l, root runLimits) runLimits {
	l.Tokens = more(l.Tokens, root.Tokens, n.Tokens)
	l.CostUSD = more(l.CostUSD, root.CostUSD, n.CostUSD)
	l.Seconds = more(l.Seconds, root.Seconds, n.Seconds)
	if n.Rounds != nil {
		l.MaxSteps = int(*n.Rounds)
	}
	return l
}

// more returns a limit that came from another one, which is replaced; nil: it is not.
func more[T int64 | float64](limit, was T, now *T) T {
	switch {
	case limit == 0 || was == 0 || now == nil:
		return limit
	case *now == 0:
		return 0
	}
	return max(limit+*now-was, limit)
}

func set[T any](limit, to *T) {
	if to != nil {
		*limit = *to
	}
}

// begunIn returns how many rounds and tool calls a run itself has begun.
func begunIn(ended runstore.Ended) (rounds, calls int64) {
	for _, r := range ended.Rows {
		switch {
		case r.PlanID != ended.RootPlanID || r.Copied || r.StartTime == nil && r.Attempt == 1:
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
