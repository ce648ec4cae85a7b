package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// The reasons why the handle does not go on now. An executor returns them as they are.
var (
	errPaused   = errors.New("the run is paused")
	errStopped  = errors.New("the run was stopped")
	errReleased = errors.New("the worker stops")
)

// parkedError means that the run goes on when something happened: at a signal, or at a time if it is
// not zero.
type parkedError struct {
	until time.Time
	// waiting says that its state is WAITING: it waits for a human, an event or a time, and for nothing else.
	waiting bool
	// models are those that it waits for, by their names.
	models map[string]runstore.ModelWait
}

func (*parkedError) Error() string { return "the run waits" }

// Run is the handle of a run that a worker carries. Everything with an effect goes through it: it is
// put on record before and after. What is on record is returned and not done again. Its methods may
// be called at the same time.
type Run struct {
	engine     *Engine
	run        runstore.Run
	lease      runstore.Lease
	leased     context.Context // ends with the lease of the worker
	plan       *record.Plan    // as it was when the run was claimed
	parts      Parts
	definition json.RawMessage
	limits     *Limits
	maxSteps   int // in place of those of the definition of its agent; 0: those
	clock      *workClock
	grants     *grants // of the worker
	log        *slog.Logger

	halted chan struct{} // closed when the run should not go on

	writes sync.Mutex // they go one after the other, so that none overtakes what it builds on

	priced  atomic.Bool // the calls that were on record before have a price
	hearing hearing     // of what is said to it

	mu            sync.Mutex
	halt          error                      // why it should not
	later         pending                    // what the next write adds
	flushing      *time.Timer                // writes results that nothing takes along; nil: there was none
	over          bool                       // the worker has let go of it
	beginnings    []beginning                // that wait to be written
	rounds, calls int64                      // that it has begun
	lost          int                        // how many workers in a row were lost that held it
	fitting       bool                       // that the code fits the record is on record
	thoughts      map[string]string          // that are on record, or with the next write: what they say, by their ids
	thoughtAt     time.Time                  // of the last of them
	marks         map[string]*record.Thought // those that say how the code went on, by their ids; nil: the record has none
	thrown        string                     // the first exception of a step
	stepEnded     time.Time                  // when the last step ended
	// awaits are the models that the run waits for, or asks whether they are back, by their names.
	awaits map[string]runstore.ModelWait
	// open returns the rows of the steps that were opened and have not ended, in a state.
	open   []func(record.State) *record.AgentExecution
	opened map[string]bool // the steps that were opened, by their ids
}

// ID returns the plan of the run.
func (r *Run) ID() string { return r.run.PlanID }

// Name returns the name of what is run.
func (r *Run) Name() string { return r.run.Name }

// Read decodes the input of the run into one value and the definition that it keeps into another; nil: not that one.
func (r *Run) Read(input, definition any) (err error) {
	if input != nil {
		err = json.Unmarshal(r.run.Input, input)
	}
	if err == nil && definition != nil {
		err = json.Unmarshal(r.definition, definition)
	}
	if err != nil {
		return Fail("configuration", "The run cannot be read: %v", err)
	}
	return nil
}

// idsOf returns the plan that the ids of questions and thoughts follow from. Those of a fork that are copies have the
// ids of the originals.
func (r *Run) idsOf() string { return cmp.Or(r.run.IDsOf, r.run.PlanID) }

// isNew reports whether nothing is on record of the run: nobody has carried it before, and it goes on from no other.
func (r *Run) isNew() bool { return r.plan.StartTime == nil && r.run.IDsOf == "" }

// derive returns an id that follows from others, so that the same thing has the same id again.
func derive(prefix string, from ...any) string {
	h := sha256.New()
	for _, part := range from {
		text := fmt.Sprint(part)
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return prefix + uuid.Must(uuid.FromBytes(h.Sum(nil)[:16])).String()
}

// stop makes the handle refuse to go on at its next boundary. The first reason counts.
func (r *Run) stop(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopLocked(why)
}

func (r *Run) stopLocked(why error) {
	if r.halt == nil {
		r.halt = why
		close(r.halted)
	}
}

// heed does what the run is asked for, from its next boundary on.
func (r *Run) heed(asked runstore.Desired) {
	switch asked {
	case runstore.DesiredCancel:
		r.stop(errStopped)
	case runstore.DesiredPause:
		r.stop(errPaused)
	}
}

// boundary returns why the run should not go on, if it should not.
func (r *Run) boundary(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(context.Cause(ctx), r.halt)
}

// wait waits, unless the run should not go on meanwhile.
func (r *Run) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-r.halted:
	}
	return r.boundary(ctx)
}

// now returns the time as rows have it: that of the database.
func (r *Run) now() time.Time { return r.engine.clock.now() }

// endTime returns when the run ends: later than the steps that have ended before, so that those are told apart which
// end with it.
func (r *Run) endTime() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return later(r.now(), r.stepEnded)
}

// noteStepEnd returns the time as that at which a step ends.
func (r *Run) noteStepEnd() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stepEnded = r.now()
	return r.stepEnded
}

// retried reports whether the run has ended before, and goes on in another attempt.
func (r *Run) retried() bool { return !r.run.EndedBefore.IsZero() }

// before reports whether something happened in an attempt before the present one.
func (r *Run) before(t *time.Time) bool { return t != nil && !t.After(r.run.EndedBefore) }

// redact returns a text as it may be on record.
func (r *Run) redact(text string) string { return r.parts.Redact(text) }

// suspect is how many workers the run has lost in a row.
func (r *Run) suspect() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Model is a model as the configuration names it.
type Model struct {
	model.Model
	Configured string // its name there
	// Limits are kept by the engine, over all workers.
	Limits model.Limits
}

// Model returns a model by its name in the configuration.
func (r *Run) Model(name string) (Model, error) {
	m, ok := r.parts.Model(name)
	if !ok {
		return Model{}, Fail("configuration", "No model is called %q any more.", name)
	}
	unlimited, limits := model.Unlimited(m)
	return Model{unlimited, name, limits}, nil
}

// later returns a time, or the next one after another if it is not later. Postgres keeps microseconds.
func later(t, than time.Time) time.Time {
	if t = t.Truncate(time.Microsecond); t.After(than) {
		return t
	}
	return than.Add(time.Microsecond)
}

// noteThought notes that a thought is on record. The caller holds r.mu, or is alone.
func (r *Run) noteThought(t *record.Thought) {
	if r.thoughts == nil {
		r.thoughts = map[string]string{}
	}
	r.thoughts[t.ThoughtID] = hash([]byte(optional.Value(t.Content)))
	r.noteMark(t)
	if t.Time != nil && t.Time.After(r.thoughtAt) {
		r.thoughtAt = *t.Time
	}
}

// markPrefix begins the ids of marks: thoughts that say which way the code of a run went.
const markPrefix = "mark-"

// noteMark keeps a thought that is a mark. The caller holds r.mu, or is alone.
func (r *Run) noteMark(t *record.Thought) {
	if strings.HasPrefix(t.ThoughtID, markPrefix) {
		r.setMark(t.ThoughtID, t)
	}
}

// noteUnmarked notes that the record passed the place of a mark without one.
func (r *Run) noteUnmarked(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setMark(id, nil)
}

func (r *Run) setMark(id string, t *record.Thought) {
	if r.marks == nil {
		r.marks = map[string]*record.Thought{}
	}
	r.marks[id] = t
}

// noteException notes how a step failed, if that was an exception.
func (r *Run) noteException(kind, message string) {
	if isException(kind) {
		r.mu.Lock()
		r.thrown = cmp.Or(r.thrown, message)
		r.mu.Unlock()
	}
}

// exception returns the exception of a run that fails, which may be that of a step; nil: there was none.
func (r *Run) exception(failure *RunError) *string {
	if failure.state() != record.Failed {
		return nil
	}
	r.noteException(failure.Kind, failure.Message)
	r.mu.Lock()
	defer r.mu.Unlock()
	return optional.Pointer(r.redact(r.thrown))
}

// Log returns the log of the run.
func (r *Run) Log() *slog.Logger { return r.log }
