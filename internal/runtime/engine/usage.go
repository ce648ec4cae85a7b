package engine

import (
	"context"
	"slices"

	"github.com/actlog/actlog/internal/runtime/runstore"
)

// used returns why the run may not use more of a model, if so.
func (r *Run) used(ctx context.Context) error {
	if r.limits.none() {
		return nil
	}

	var used runstore.Used
	if r.limits.Tokens > 0 || r.limits.CostUSD > 0 {
		err := r.Save()
		if err != nil {
			return err
		}

		costs := r.limits.CostUSD > 0 && !r.priced.Load()
		used, err = r.engine.store.RunUsed(ctx, r.run.RootPlanID, r.run.PlanID, costs, r.parts.Unpriced()...)
		if err != nil {
			return err
		}
		if costs && used.UnpricedModel == "" { // from now on, mayAsk looks, here and in the runs below
			r.priced.Store(true)
		}
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limits.reached(r.rounds, r.calls, used)
}

// mayAsk returns why the run may not ask a model: what it costs is limited, and not known.
func (r *Run) mayAsk(provider, model string) error {
	if r.limits.none() || r.limits.CostUSD == 0 || r.engine.store.Priced(provider, model, r.now()) ||
		slices.Contains(r.parts.Unpriced(), model) {
		return nil
	}
	return costUnknown(model)
}

// remaining returns the limits of a run below this one.
func (r *Run) remaining(ctx context.Context) (*Limits, error) {
	left := &Limits{}
	left.Seconds = r.clock.remaining().Seconds()
	if r.limits.none() || r.limits.Tokens == 0 && r.limits.CostUSD == 0 {
		return left, nil
	}

	if err := r.Save(); err != nil {
		return nil, err
	}
	used, err := r.engine.store.RunUsed(ctx, r.run.RootPlanID, r.run.PlanID, false)
	if err != nil {
		return nil, err
	}

	if r.limits.Tokens > 0 {
		left.Tokens = max(r.limits.Tokens-used.Tokens, 1)
	}
	if r.limits.CostUSD > 0 {
		left.CostUSD = max(r.limits.CostUSD-used.CostUSD, 1e-9)
	}
	return left, nil
}
