package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actlog/actlog/agent/limit"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/runtime/runstore"
	"github.com/actlog/actlog/record"
)

// WaitInfo is a question to a human.
type WaitInfo struct {
	Type        record.WaitType
	Title       string
	Description string
	Inputs      []map[string]string // of a form: label, name, type, placeholder, required, options, value
	// Subject is what the human decides on. The answer is for exactly this.
	Subject json.RawMessage
	StepID  string
	// ToolCallID is the call that waits, if one does.
	ToolCallID string
	// Timeout is how long the question waits; 0: without an end.
	Timeout time.Duration
}

// Answer is how a human answered, or that nobody did.
type Answer struct {
	State    record.State        // SUBMITTED, ACCEPTED, MODIFIED, APPROVED, REJECTED, TIMED_OUT or CANCELLED
	Decision string              // as it was given, such as retry
	Text     string              // what the human added
	By       string              // who answered: as they are known, else as they say
	Inputs   []map[string]string // the form with its values
}

// Ask puts a question to a human, or returns the answer. Until there is one, the error says that the
// run waits: the executor returns it. key tells the questions of a run apart.
func (r *Run) Ask(ctx context.Context, key string, w WaitInfo) (Answer, error) {
	if err := r.goesOn(ctx); err != nil {
		return Answer{}, err
	}
	return r.ask(ctx, key, w)
}

// ask is Ask, which also writes changes when the question is put. It asks although the run should not
// go on: then that is on record when it stops.
func (r *Run) ask(ctx context.Context, key string, w WaitInfo, changes ...record.Change) (Answer, error) {
	w.Subject = plainJSON(w.Subject)
	at, row, err := r.findWait(ctx, key, w.Subject)
	switch {
	case err != nil:
		return Answer{}, err
	case row == nil:
		return Answer{}, r.putQuestion(at, w, changes)
	}

	if w.Subject != nil && row.SubjectSHA256 != nil && !isAbout(row, w.Subject) {
		return Answer{}, r.mismatch("wait:"+at.ID, "what was asked under %q is another thing than now", key)
	}

	if *row.State != record.Waiting {
		a, err := answerOf(row)
		if err != nil {
			err = r.mismatch("wait:"+at.ID, "the answer to a form cannot be read: %v", err)
		}
		return a, err
	}
	if row.ExpiresAt == nil || r.now().Before(*row.ExpiresAt) {
		return Answer{}, &parkedError{until: optional.Value(row.ExpiresAt), waiting: true}
	}

	timedOut := &record.Wait{
		RootPlanID: at.Root, PlanID: at.Parent, WaitID: at.ID, State: new(record.TimedOut), EndTime: new(r.now()),
	}
	if err := r.writeResult([]record.Change{timedOut}); err != nil {
		return Answer{}, err
	}
	return Answer{State: record.TimedOut}, nil
}

// findWait returns where the question of a key is on record, and the question as it stands; nil: it is not there.
// When a run is retried, a question is put again to which nobody gave an answer before the run ended, a plan that a
// person rejected, and what is about something else than subject now. If the run makes anew what its code does
// otherwise, that also holds for all questions of calls.
func (r *Run) findWait(ctx context.Context, key string, subject json.RawMessage) (record.Key, *record.Wait, error) {
	at := record.Key{
		Kind: record.KindWait, Root: r.run.RootPlanID, Parent: r.run.PlanID, ID: derive("wait-", r.idsOf(), key),
	}
	for times := 1; ; times++ {
		row, err := r.engine.store.Row(ctx, at)
		if errors.Is(err, record.ErrNotFound) {
			return at, nil, nil
		}
		if err != nil {
			return at, nil, err
		}

		w := row.(*record.Wait)
		unanswered := *w.State == record.Cancelled || *w.State == record.TimedOut ||
			*w.State == record.Rejected && optional.Value(w.Type) == record.WaitPlanValidation
		differs := r.run.Anew && w.ToolCallID != nil || subject != nil && w.SubjectSHA256 != nil && !isAbout(w, subject)
		if !r.before(w.EndTime) || !unanswered && !differs {
			return at, w, nil
		}
		at.ID = derive("wait-", r.idsOf(), key, times)
	}
}

// plainJSON returns JSON as a human is shown it: compact, with as few escapes as possible.
func plainJSON(raw json.RawMessage) json.RawMessage {
	text := jsontext.Value(slices.Clone(raw))
	if raw == nil || text.Format(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return raw
	}
	return json.RawMessage(text)
}

// isAbout reports whether a wait is about a subject: by its hash, and by what it shows. Earlier versions wrote
// subjects with more escapes, and the hash is of the text as it was written.
func isAbout(row *record.Wait, subject json.RawMessage) bool {
	written := *row.SubjectSHA256
	if row.Subject == nil || recordable(subject) != nil { // the record has not the whole of it
		return written == hash(subject)
	}
	return (written == hash(subject) || written == hash(row.Subject)) && string(plainJSON(row.Subject)) == string(subject)
}

// putQuestion puts a question on record. The error says that the run waits.
func (r *Run) putQuestion(at record.Key, w WaitInfo, changes []record.Change) error {
	row := &record.Wait{
		RootPlanID: at.Root, PlanID: at.Parent, WaitID: at.ID, Type: &w.Type, State: new(record.Waiting),
		StartTime: new(r.now()),
		Title:     optional.Pointer(r.redact(w.Title)), FormDescription: optional.Pointer(r.redact(w.Description)),
		StepID: optional.Pointer(w.StepID), ToolCallID: optional.Pointer(w.ToolCallID),
	}

	if w.Inputs != nil {
		inputs, err := json.Marshal(w.Inputs)
		if err != nil {
			return fmt.Errorf("encode a form: %w", err)
		}
		row.FormInputs = inputs
	}
	if w.Subject != nil {
		row.Subject, row.SubjectSHA256 = w.Subject, new(hash(w.Subject))
	}
	if w.Timeout > 0 {
		row.ExpiresAt = new(r.now().Add(w.Timeout))
	}

	ops := r.fits()
	if w.Type == record.WaitUserInput {
		ops = append(ops, runstore.FormFree(at.ID))
	}
	switch err := r.write(append(changes, row), ops...); {
	case errors.Is(err, runstore.ErrFormWaits):
		r.addLater(changes...)
		return &parkedError{until: r.now().Add(r.formPause(changes)), waiting: true}
	case err != nil:
		return err
	}
	r.noteFits()
	return &parkedError{until: optional.Value(row.ExpiresAt), waiting: true}
}

// How often a form looks whether it can be shown: at first, and when it has waited for long.
const (
	formEvery  = time.Second
	formSeldom = 10 * time.Second
)

// formPause returns after which time a form looks again: an eighth of what its call has waited. changes have the
// call.
func (r *Run) formPause(changes []record.Change) time.Duration {
	for _, change := range changes {
		if call, ok := change.(*record.ActTool); ok && call.StartTime != nil {
			return min(max(r.now().Sub(*call.StartTime)/8, formEvery), formSeldom)
		}
	}
	return formEvery
}

func answerOf(row *record.Wait) (Answer, error) {
	a := Answer{
		State: *row.State, Decision: optional.Value(row.Decision), Text: optional.Value(row.DecisionText),
		By: optional.Value(cmp.Or(row.DecidedBy, row.By)),
	}
	if row.FormInputs != nil {
		if err := json.Unmarshal(row.FormInputs, &a.Inputs); err != nil {
			return Answer{}, err
		}
	}
	return a, nil
}

// hold asks like ask, and waits for the answer here: what asks cannot be called again. As with a run that is parked,
// the workers that it lost before do not count any more: it may wait for long, and is not carried alone meanwhile.
func (r *Run) hold(ctx context.Context, key string, w WaitInfo) (Answer, error) {
	a, err := r.ask(ctx, key, w)
	if _, waits := errors.AsType[*parkedError](err); !waits {
		return a, err
	}

	if r.suspect() > 0 {
		if err := r.writeResult(nil); err != nil {
			return Answer{}, err
		}
	}

	goOn, err := r.clock.hold()
	if err == nil {
		a, err = r.awaitAnswer(ctx, key, w)
	}
	return a, cmp.Or(err, goOn())
}

// awaitAnswer asks like ask, again and again until there is an answer.
func (r *Run) awaitAnswer(ctx context.Context, key string, w WaitInfo) (Answer, error) {
	for {
		select {
		case <-time.After(holdEvery):
		case <-ctx.Done():
			return Answer{}, context.Cause(ctx) // the run goes on elsewhere, or not at all
		}

		a, err := r.ask(ctx, key, w)
		if _, waits := errors.AsType[*parkedError](err); !waits {
			return a, err
		}
	}
}

// holdEvery is how often an answer is looked for that a call waits for while it goes on.
const holdEvery = 500 * time.Millisecond

// WaitTimedOut is the error kind of what nobody answered in time.
const WaitTimedOut = "wait_timed_out"

// modelTurn waits until the limits of a model let a request begin. The caller calls end with the answer, or nil.
func (r *Run) modelTurn(ctx context.Context, m Model, req model.Request) (end func(*model.Response), err error) {
	expected := req.ExpectedTokens()
	done, err := r.turn(ctx, "model:"+m.Configured, limit.Limits(m.Limits), expected)
	if err != nil {
		return nil, err
	}
	return func(answer *model.Response) { done(answer.UsedTokens(expected)) }, nil
}

// turn waits until limits that have a name let something begin, unless the run should not go on meanwhile.
func (r *Run) turn(
	ctx context.Context, name string, limits limit.Limits, expected limit.Tokens,
) (end func(used limit.Tokens), err error) {
	if limits == (limit.Limits{}) {
		return func(limit.Tokens) {}, nil
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-r.halted:
			cancel(r.boundary(ctx))
		case <-ctx.Done():
		}
	}()

	if end, err = r.grants.begin(ctx, name, limits, expected, r.clock); err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	return end, nil
}
