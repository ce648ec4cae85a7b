package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// carry carries a claimed run as far as it goes now. When ctx ends, its cause says why.
func (e *Engine) carry(ctx context.Context, r *Run) {
	parts, release := e.config.Parts()
	defer release()
	defer r.close()
	r.parts, r.plan = parts, &record.Plan{}
	if err := r.load(ctx); err != nil {
		e.finishTurn(ctx, r, Result{}, err)
		return
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.limits != nil && r.limits.Seconds > 0 {
		r.clock = &workClock{write: func(ops ...runstore.RunOp) error {
			return r.write(nil, ops...)
		}, age: e.age, end: cancel}
	}

	var result Result
	err := r.boundary(ctx)
	if err == nil {
		err = r.clock.start()
	}
	if err == nil {
		if executor := e.executors[r.run.Executor]; executor == nil {
			err = Fail("configuration", "There is no executor %s.", r.run.Executor)
		} else {
			result, err = advance(ctx, executor, r)
		}
	}

	e.finishTurn(ctx, r, result, err)
}

// advance calls an executor. A panic of it fails the run.
func advance(ctx context.Context, x Executor, r *Run) (result Result, err error) {
	defer r.Recover("an executor failed", &err, Fail(internal, "The executor failed."))
	return x.Advance(ctx, r)
}

// Recover ends a panic of the function that defers it: it logs what failed, and sets the error of the function.
func (r *Run) Recover(what string, err *error, to error) {
	if p := recover(); p != nil {
		r.log.Error(what, "panic", p, "stack", string(debug.Stack()))
		*err = to
	}
}

// load reads what the run goes on from.
func (r *Run) load(ctx context.Context) error {
	row, err := r.engine.store.Row(ctx, record.Key{Kind: record.KindPlan, Root: r.run.RootPlanID, ID: r.run.PlanID})
	if err != nil {
		return err
	}
	r.plan = row.(*record.Plan)
	if err := r.poisoned(); err != nil {
		return err
	}

	if r.run.Definition.ID != "" {
		if r.definition, err = r.engine.store.Definition(ctx, r.run.Definition); err == nil {
			r.definition, err = changedDefinition(r.definition, r.run.Changes)
		}
		if err != nil {
			return err
		}
	}
	limits, err := readLimits(r.run.Limits)
	if err != nil {
		return fmt.Errorf("read the limits of run %s: %w", r.run.PlanID, err)
	}
	r.limits, r.maxSteps = &limits.Limits, limits.MaxSteps

	if err := r.loadAwaits(ctx); err != nil {
		return err
	}
	if !r.isNew() {
		if err := r.eachAttached(ctx, record.KindThought, func(c record.Change) {
			r.noteThought(c.(*record.Thought))
		}); err != nil {
			return err
		}
	}

	if state := *r.plan.State; state != record.Running && r.run.Desired == runstore.DesiredRun {
		running := r.planRow(record.Running)
		if r.plan.StartTime == nil {
			running.StartTime = new(r.now())
		}
		r.addLater(running)
	}
	return nil
}

// poisoned returns the failure of a run that lost so many workers in a row that the next one is spared; nil: it goes
// on.
func (r *Run) poisoned() error {
	if most := r.engine.maxTakeovers(r.parts); r.run.Lost < most || r.run.Desired != runstore.DesiredRun {
		return nil
	}
	return Fail(workerLost, "The run lost %d workers in a row, and put no result on record in between.", r.run.Lost)
}

func (e *Engine) maxTakeovers(parts Parts) int {
	return cmp.Or(parts.MaxTakeovers(), e.config.MaxTakeovers)
}

func (r *Run) planRow(state record.State) *record.Plan {
	return &record.Plan{
		RootPlanID: r.run.RootPlanID, CurrentPlanID: r.run.PlanID, Attempt: r.plan.Attempt, State: &state,
	}
}

// finishTurn puts on record how far the run came, and lets go of it. It tries until that is done, or the
// worker has lost its lease.
func (e *Engine) finishTurn(ctx context.Context, r *Run, result Result, err error) {
	if cause := context.Cause(ctx); cause != nil { // what the executor makes of it does not count
		err = cause
	}

	for attempt := 0; ; attempt++ {
		failed := r.finishTurn(result, err)
		if errors.Is(failed, record.ErrNotFound) && errors.Is(r.write(nil), runstore.ErrLeaseLost) { // its tree was deleted
			return
		}
		if failed == nil || errors.Is(failed, runstore.ErrLeaseLost) || r.leased.Err() != nil {
			return
		}
		if errors.Is(failed, runstore.ErrUnread) { // a step does not end yet
			err = failed
			continue
		}

		if invalid := new(record.InvalidError); errors.As(failed, &invalid) { // it would fail again
			err = &RunError{Kind: internal, Message: "What the run did cannot be put on record: " + invalid.Error()}
		}
		r.log.Warn("the end of a turn cannot be put on record; it is tried again", "error", failed)
		if pg.Pause(r.leased, pg.Backoff(attempt)) != nil {
			return
		}
	}
}

// finishTurn is one try.
func (r *Run) finishTurn(result Result, err error) error {
	var parked *parkedError
	var differs *mismatchError
	var failure *RunError
	switch {
	case errors.Is(err, runstore.ErrLeaseLost):
		return nil
	case err == nil:
		return r.end(record.Completed, result, nil)
	case errors.As(err, &parked):
		return r.park(parked)
	case errors.As(err, &differs):
		return r.parkMismatched(differs)
	case errors.Is(err, errPaused):
		return r.letGo(record.Paused, r.states(record.Paused), runstore.Park(time.Time{}), runstore.Applied())
	case errors.Is(err, errReleased), errors.Is(err, runstore.ErrUnread):
		return r.release()
	case errors.Is(err, errStopped):
		return r.end(record.Cancelled, Result{}, &RunError{Kind: "stopped", Message: "The run was stopped."})
	case errors.Is(err, errDeadline):
		return r.end(record.Failed, Result{}, &RunError{Kind: LimitTime, Message: "The run has reached its limit of time."})
	case errors.As(err, &failure):
		return r.end(failure.state(), result, failure)
	case errors.Is(err, record.ErrUnavailable), errors.Is(err, record.ErrNotFound):
		r.log.Warn("a run is handed back", "error", err)
		return r.release()
	}

	r.log.Error("a run failed", "error", err)
	return r.end(record.Failed, Result{}, &RunError{Kind: internal, Message: err.Error()})
}

// park lets go of the run until a signal, or a time. Its state says that it waits, if it waits for a
// human, an event or a time, and that it is paused, if it waits for a model; a run that waits for a sub-plan
// is RUNNING.
func (r *Run) park(p *parkedError) error {
	ops := r.fits()
	switch {
	case len(p.models) > 0:
		waits := slices.Collect(maps.Values(p.models))
		return r.letGo(record.Paused, r.states(record.Paused), append(ops, runstore.AwaitModels(p.until, waits))...)
	case p.waiting:
		return r.letGo(record.Waiting, r.states(record.Waiting), append(ops, runstore.Park(p.until))...)
	}
	return r.letGo(record.Running, nil, append(ops, runstore.Park(p.until))...)
}

// parkMismatched lets go of a run whose code does not fit the record. A worker with the release on which the run last
// went on takes it at once. If this worker has that release, or nobody knows it, the run waits until somebody resumes
// it. What would make the call that differs anew, and all after it, begins at the row of the mismatch.
func (r *Run) parkMismatched(m *mismatchError) error {
	var until time.Time
	if known := r.run.Release; known != "" && known != r.engine.config.Release {
		until = r.now()
	}
	r.log.Warn("the code of this worker does not fit the record of a run", "at", m.At, "release", r.run.Release,
		"differs", m.Message)
	return r.letGo(record.Paused, r.states(record.Paused), runstore.NoteMismatch(m.Mismatch, r.run.Release),
		runstore.Park(until))
}

// letGo lets go of the run in a state, as ops say.
func (r *Run) letGo(state record.State, changes []record.Change, ops ...runstore.RunOp) error {
	err := r.write(changes, append(r.clock.stopped(), ops...)...)
	if err == nil {
		r.engine.metrics.parked.WithLabelValues(r.run.Executor, string(state)).Inc()
	}
	return err
}

// states sets the state of the plan and of the steps that have not ended.
func (r *Run) states(state record.State) []record.Change {
	changes := []record.Change{r.planRow(state)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, inState := range r.open {
		if row := inState(state); row != nil {
			changes = append(changes, row)
		}
	}
	return changes
}

// release lets go of the run, which is due at once.
func (r *Run) release() error { return r.write(nil, append(r.clock.stopped(), runstore.Release())...) }

// end ends the run with all that is live in it, and the call that started it.
func (r *Run) end(state record.State, result Result, failure *RunError) error {
	if state != record.Completed {
		r.hearing.setDeaf()
	}
	end := r.planRow(state)
	end.EndTime = new(r.endTime())
	if r.plan.StartTime == nil {
		end.StartTime = end.EndTime
	}

	summary := r.redact(result.Summary)
	text := summary
	if failure != nil {
		end.ErrorKind, end.ErrorMessage = optional.Pointer(failure.Kind), optional.Pointer(r.redact(failure.Message))
		end.Exception = r.exception(failure)
		text = r.redact(failure.Message)
	}
	if failure == nil || summary != "" {
		end.Summary = &summary
	}

	changes := []record.Change{end}
	closing := &closing{run: r, state: state, why: failure, at: *end.EndTime}
	ops := slices.Concat(r.fits(), r.clock.stopped(),
		[]runstore.RunOp{runstore.Applied(), runstore.Finish(closing.changes)})
	if r.plan.ConversationID != nil && state == record.Completed && r.plan.UserRequest != nil &&
		!result.ConversationWritten {
		ops = append(ops, runstore.Say(r.ours(Conversation{ID: *r.plan.ConversationID}), 0,
			runstore.ConversationMessage{Role: "user", Text: *r.plan.UserRequest},
			runstore.ConversationMessage{Role: "assistant", Text: summary}))
	}

	if p := r.run.Parent; p != nil {
		changes = append(changes, &record.ActTool{
			RootPlanID: r.run.RootPlanID, StepID: p.StepID, Seq: p.Seq, ToolCallID: p.ToolCallID, Attempt: p.Attempt,
			State: &state, Result: &text, EndTime: end.EndTime,
			ErrorKind: end.ErrorKind, ErrorMessage: end.ErrorMessage,
		})
		ops = append(ops, runstore.Signal(p.PlanID))
	}

	if err := r.write(changes, ops...); err != nil {
		return err
	}
	r.engine.metrics.ended.WithLabelValues(r.run.Executor, string(state)).Inc()
	return nil
}

// newHandle returns the handle of a claimed run.
func (e *Engine) newHandle(leased context.Context, c runstore.Claimed, g *grants, log *slog.Logger) *Run {
	return &Run{
		grants: g,
		engine: e, run: c.Run, lease: c.Lease, leased: leased, halted: make(chan struct{}), log: log.With("plan", c.PlanID),
		lost:    c.Lost,
		hearing: hearing{unread: c.Unread},
		clock:   &workClock{},
		fitting: c.Release == e.config.Release && !c.Mismatched,
	}
}
