package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// candidates are the models that may answer a cycle: the one that the agent names, and those that answer in its place,
// in the order in which they are asked.
type candidates struct {
	run    *Run
	models []Model
	at     int                  // which of them is asked
	once   bool                 // it is asked once, whether it is back
	tries  int                  // how often it was asked
	since  time.Time            // when it was asked first
	passed []runstore.ModelWait // those before it, which do not answer
	why    []record.Fallback    // of each of these
}

// candidates returns the models that may answer a cycle in place of one, and that one. None of them is asked yet. One
// that this worker does not have is left out.
func (r *Run) candidates(first Model) *candidates {
	c := &candidates{run: r, models: []Model{first}, at: -1, why: []record.Fallback{}}
	for _, name := range model.PatienceWith(first.Model).Fallback {
		if m, err := r.Model(name); err == nil { // else this worker does not have it
			c.models = append(c.models, m)
		}
	}
	return c
}

// model is the one that is asked.
func (c *candidates) model() Model { return c.models[c.at] }

// next moves on to the next model that is asked. The error says why none is: the run waits until one is back, or fails.
func (c *candidates) next(ctx context.Context) error {
	c.tries = 0
	for c.at++; c.at < len(c.models); c.at++ {
		if c.asks(ctx) {
			return c.run.mayAsk(c.model().Provider(), c.model().Name())
		}
	}
	return c.none()
}

// begin returns the time as that at which the model is asked.
func (c *candidates) begin() time.Time {
	now := c.run.now()
	if c.tries++; c.tries == 1 {
		c.since = now
	}
	return now
}

// asks reports whether the model is asked that is next. One that is away is asked by the run whose turn it is, and by
// one that does not know it. One whose error does not pass by waiting is also asked if no other one is left.
func (c *candidates) asks(ctx context.Context) bool {
	m := c.model()
	w, awaits := c.run.awaitsModel(m.Configured)
	away, isAway := c.run.engine.models.isAway(m.Configured)
	if c.once = awaits || isAway; !isAway || awaits && w.Asks {
		return true
	}

	if !passes(away.ErrorKind) && !slices.ContainsFunc(c.models[c.at+1:], c.run.isThere) {
		return true
	}
	if len(c.models) > 1 && c.run.engine.takeProbe(ctx, m) {
		return true
	}

	c.why = append(c.why, record.Fallback{
		Model: away.Model, ErrorKind: away.ErrorKind,
		Error: fmt.Sprintf("It is away since %s: %s", away.Since.UTC().Format(time.RFC3339), away.ErrorMessage),
	})
	if away.Since = c.run.now(); awaits {
		away.Since = w.Since
	}
	c.passed = append(c.passed, runstore.ModelWait{Away: away})
	return false
}

// isThere reports whether a model is not away, as far as is known here.
func (r *Run) isThere(m Model) bool {
	_, away := r.engine.models.isAway(m.Configured)
	return !away
}

// takeProbe reports whether a run that could ask another model asks one that is away.
func (e *Engine) takeProbe(ctx context.Context, m Model) bool {
	p := probeOf(m.Configured, m.Model)
	if !e.models.takeProbe(m.Configured, e.clock.now(), p.From) {
		return false
	}

	taken, err := e.store.TakeProbe(ctx, p)
	if err != nil {
		e.config.Logger.Debug("it is not known whether a model is to be asked", "model", m.Configured, "error", err)
	}
	return taken
}

// again waits until a model that failed is asked once more. It reports false if it is not: it is away, it was asked as
// often as it is, or it asks to be left alone for longer than a run holds its worker.
func (c *candidates) again(ctx context.Context, failed error) (bool, error) {
	p := model.PatienceWith(c.model().Model)
	pause := p.Retry.After(c.tries)
	if known, ok := errors.AsType[*model.Error](failed); ok {
		pause = max(pause, known.RetryAfter)
	}

	if c.once || c.tries >= p.Tries || pause > p.Retry.Most || !c.run.isThere(c.model()) {
		return false, nil
	}
	if err := c.run.wait(ctx, pause); err != nil {
		return false, err
	}
	return c.run.isThere(c.model()), nil
}

// passOver notes that the model failed as often as it was to be asked, and moves on to the next one. A model that
// answered others meanwhile is not away. The error is that of next.
func (c *candidates) passOver(ctx context.Context, kind, message string) error {
	r, asked := c.run, c.since
	m := c.model()
	w := runstore.ModelWait{Away: runstore.Away{
		Model: m.Configured, Since: asked, ErrorKind: kind, ErrorMessage: tool.Cut(message, maxAwayMessage),
	}}
	if before, awaits := r.awaitsModel(m.Configured); awaits {
		w.Since = before.Since
		if before.Alone {
			asked = before.Since
		}
	}

	c.why = append(c.why, record.Fallback{Model: w.Model, ErrorKind: w.ErrorKind, Error: w.ErrorMessage})
	if w.Alone = r.engine.models.answeredSince(m.Configured, asked); !w.Alone {
		c.noteAway(ctx, &w)
	}
	c.passed = append(c.passed, w)
	return c.next(ctx)
}

// noteAway notes that a model is away. If the run waits for it, that is on record with the wait.
func (c *candidates) noteAway(ctx context.Context, w *runstore.ModelWait) {
	w.ProbeIn = model.PatienceWith(c.model().Model).Probe.After(1)
	w.ProbeAt = c.run.now().Add(w.ProbeIn)
	c.run.engine.models.add(w.Away)
	if len(c.models) == 1 {
		return
	}
	if err := c.run.engine.store.PassOver(ctx, *w); err != nil { // the next run that asks in vain says so
		c.run.log.Warn("other workers do not know yet that a model is away", "model", w.Model, "error", err)
	}
}

// maxAwayMessage bounds what is kept of the error of a model that is away, in bytes.
const maxAwayMessage = 1 << 10

// none returns the error with which the run waits until one of the models answers that were passed over, or fails: if
// none of their errors passes by waiting, or if it has waited for the first one as long as it is to.
func (c *candidates) none() error {
	first, last := c.passed[0], c.passed[len(c.passed)-1]
	if !slices.ContainsFunc(c.passed, func(w runstore.ModelWait) bool { return passes(w.ErrorKind) }) {
		return modelFailed(last.ErrorKind, last.ErrorMessage)
	}

	now := c.run.now()
	until := first.Since.Add(model.PatienceWith(c.models[0].Model).GiveUpAfter)
	if !now.Before(until) {
		return modelFailed(first.ErrorKind, first.ErrorMessage)
	}

	waits := map[string]runstore.ModelWait{}
	for i, w := range c.passed {
		probe := model.PatienceWith(c.models[i].Model).Probe
		w.ProbeIn = probe.After(1)
		if again := now.Add(probe.Most); w.Alone && again.Before(until) {
			until = again
		}
		waits[w.Model] = w
	}
	return &parkedError{until: until, models: waits}
}

// noteAnswer notes that the model answered, also if it refused a request for what it says.
func (c *candidates) noteAnswer(ctx context.Context, err error) {
	if known, ok := errors.AsType[*model.Error](err); ok && !known.Answered() || err != nil && !ok {
		return
	}

	r, name := c.run, c.model().Configured
	wasAway := r.engine.models.answers(name, r.now())
	if !wasAway && !slices.ContainsFunc(c.models, func(m Model) bool {
		_, awaits := r.awaitsModel(m.Configured)
		return awaits
	}) {
		return
	}
	if err := r.engine.store.ModelAnswered(ctx, r.run.RootPlanID, r.run.PlanID, name); err != nil {
		r.log.Warn("runs that wait for a model do not know yet that it is back", "model", name, "error", err)
		return // the next answer says so
	}

	r.engine.models.remove(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.awaits = nil
}

// heard returns messages as the model is sent them: what one of them is in the form of its provider is for the model
// that said it, although others may have the same provider.
func (c *candidates) heard(messages []model.Message) []model.Message {
	said := c.saidBy()
	if len(c.models) == 1 || !slices.ContainsFunc(messages, func(m model.Message) bool { return m.Model != said }) {
		return messages
	}

	heard := slices.Clone(messages)
	for i := range heard {
		if heard[i].Model != said {
			heard[i].Provider, heard[i].Raw = "", nil
		}
	}
	return heard
}

// fellBack counts an answer in place of the model that the agent names, if it is one.
func (c *candidates) fellBack() {
	if c.at > 0 {
		c.run.engine.metrics.fallbacks.WithLabelValues(c.models[0].Configured, c.model().Configured).Inc()
	}
}

// saidBy is what messages have that the model says, see [model.Message].
func (c *candidates) saidBy() string {
	if c.at == 0 {
		return ""
	}
	return c.model().Configured
}

// fallbackFrom is what goes on record of the models that were passed over, in place of what is there; nil: nothing
// does.
func (c *candidates) fallbackFrom(before *cycle) json.RawMessage {
	if len(c.why) == 0 && (before == nil || before.record.FallbackFrom == nil) {
		return nil
	}
	b, _ := json.Marshal(c.why) // texts
	return b
}
