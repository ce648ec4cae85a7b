package engine

import (
	"context"
	"errors"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
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

// unlessAway returns why a model is not asked now; nil: it is asked. A model that is away is asked by the run whose
// turn it is, and by one that does not know it.
func (r *Run) unlessAway(m Model) error {
	w, awaits := r.awaitsModel(m.Configured)
	if awaits && r.now().Sub(w.Since) >= model.PatienceWith(m.Model).GiveUpAfter {
		return modelFailed(w.ErrorKind, w.ErrorMessage)
	}

	away, isAway := r.engine.models.isAway(m.Configured)
	if !isAway || awaits && w.Asks {
		return nil
	}
	if away.Since = r.now(); awaits {
		away.Since = w.Since
	}
	return r.parkedFor(m, runstore.ModelWait{Away: away})
}

// modelFailed is an error of a model that would come again.
func modelFailed(kind, message string) error {
	return Fail(kind, "The model failed: %s", message)
}

// passes reports whether an error of a model may pass by waiting.
func passes(err error) bool {
	known, ok := errors.AsType[*model.Error](err)
	return ok && known.Retryable()
}

// noteAnswer notes what a model said to a request, or that it failed.
func (r *Run) noteAnswer(ctx context.Context, m Model, err error) {
	if known, ok := errors.AsType[*model.Error](err); ok && !known.Answered() || err != nil && !ok {
		return
	}

	wasAway := r.engine.models.answers(m.Configured, r.now())
	if _, awaited := r.awaitsModel(m.Configured); !wasAway && !awaited {
		return
	}
	if err := r.engine.store.ModelAnswered(ctx, r.run.RootPlanID, r.run.PlanID, m.Configured); err != nil {
		r.log.Warn("runs that wait for a model do not know yet that it is back", "model", m.Configured, "error", err)
		return // the next answer says so
	}

	r.engine.models.remove(m.Configured)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.awaits = nil
}

// pauseBeforeTry waits until a model that failed is asked again. It reports false if the run lets go of its worker
// instead: the model is away, or asks to be left alone for longer than a run holds its worker.
func (r *Run) pauseBeforeTry(ctx context.Context, m Model, failed error, tries int) (again bool, err error) {
	p := model.PatienceWith(m.Model)
	pause := p.Retry.After(tries)
	if known, ok := errors.AsType[*model.Error](failed); ok {
		pause = max(pause, known.RetryAfter)
	}

	_, asksOnce := r.awaitsModel(m.Configured)
	if asksOnce || tries >= p.Tries || pause > p.Retry.Most || r.isAway(m) {
		return false, nil
	}
	if err := r.wait(ctx, pause); err != nil {
		return false, err
	}
	return !r.isAway(m), nil
}

func (r *Run) isAway(m Model) bool {
	_, away := r.engine.models.isAway(m.Configured)
	return away
}

// await returns the error with which the run waits until a model is back that failed in all tries. If the model
// answered others meanwhile, it is not away, and the run asks it again by itself.
func (r *Run) await(m Model, failing runstore.Away) error {
	since := failing.Since
	if before, awaits := r.awaitsModel(m.Configured); awaits {
		failing.Since = before.Since
		if before.Alone {
			since = before.Since
		}
	}

	alone := r.engine.models.answeredSince(m.Configured, since)
	if !alone {
		r.engine.models.add(failing)
	}
	return r.parkedFor(m, runstore.ModelWait{Away: failing, Alone: alone})
}

// maxAwayMessage bounds what is kept of the error of a model that is away, in bytes.
const maxAwayMessage = 1 << 10

// parkedFor returns the error with which the run waits for a model.
func (r *Run) parkedFor(m Model, w runstore.ModelWait) error {
	p := model.PatienceWith(m.Model)
	w.ErrorMessage, w.ProbeIn = tool.Cut(w.ErrorMessage, maxAwayMessage), p.Probe.After(1)
	until := w.Since.Add(p.GiveUpAfter)
	if again := r.now().Add(p.Probe.Most); w.Alone && again.Before(until) {
		until = again
	}
	return &parkedError{until: until, models: map[string]runstore.ModelWait{m.Configured: w}}
}
