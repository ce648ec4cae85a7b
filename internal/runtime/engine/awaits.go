package engine

import (
	"context"
	"errors"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/runtime/runstore"
)

// loadAwaits reads which models the run waits for.
func (r *Run) loadAwaits(ctx context.Context) error {
	if !r.run.AwaitsModels {
		return nil
	}

	waits, err := r.engine.store.ModelWaits(ctx, r.run.RootPlanID, r.run.PlanID)
	if err != nil {
		return err
	}
	r.awaits = map[string]runstore.ModelWait{}
	for _, w := range waits {
		r.awaits[w.Model] = w
	}
	return nil
}

// awaitsModel returns what is known of a model that the run waits for, or asks whether it is back.
func (r *Run) awaitsModel(name string) (runstore.ModelWait, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.awaits[name]
	return w, ok
}

// modelFailed is an error of a model that would come again.
func modelFailed(kind, message string) error {
	return Fail(kind, "The model failed: %s", message)
}

// modelErrorKind returns the error kind of a request that failed.
func modelErrorKind(err error) string {
	if known, ok := errors.AsType[*model.Error](err); ok {
		return string(known.Kind)
	}
	return modelError
}

// passes reports whether an error of a kind may pass by waiting.
func passes(kind string) bool { return (&model.Error{Kind: model.Kind(kind)}).Retryable() }

// fallsBack reports whether another model may answer after an error of a kind.
func fallsBack(kind string) bool { return (&model.Error{Kind: model.Kind(kind)}).FallsBack() }
