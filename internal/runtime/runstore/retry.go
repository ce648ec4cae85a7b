package runstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// Retry asks a run that has ended to go on, as another attempt; or one that waits for code that fits its record to do
// without what does not fit.
type Retry struct {
	PlanID string
	By     Who
	// IdempotencyKey, if it is set, is that of the request, whose hash is RequestSHA256.
	IdempotencyKey, RequestSHA256 string
	// Open says what is opened again of a run as it stands. It may be called again. Its error is that of the retry.
	Open func(Ended) (Opened, error)
}

// Ended is a run that is retried, with all that is on record of it and of the runs below it.
type Ended struct {
	RootPlanID string
	Now        time.Time // of the database
	State      record.State
	ErrorKind  string
	Limits     json.RawMessage // nil: none
	Used       Used
	Worked     time.Duration
	// MismatchPlanID is the run whose code does not fit the record, at the row MismatchAt; empty: the run has ended.
	MismatchPlanID, MismatchAt string
	Rows                       []TreeRow
}

// TreeRow is a row of a tree of runs: a plan, a step, a cycle, a tool call or an open wait.
type TreeRow struct {
	Kind   record.Kind
	PlanID string
	StepID string
	// Index is that of the step in its plan, or of the call in its cycle; of a plan, the attempt of the call that
	// started it.
	Index   int64
	Seq     int64
	ID      string // of the call or the wait; of a plan, of the call that started it
	Attempt int64  // from 1
	State   record.State
	// ErrorKind is empty if there was no error.
	ErrorKind string
	// StartTime and EndTime of a cycle are those of its model call.
	StartTime, EndTime, FirstTokenTime *time.Time
	BeganAt                            *time.Time // when its first attempt began
	// Limits are those of the run of a plan; nil: none.
	Limits   json.RawMessage
	Executor string // of a plan
	Agent    string // of a step
	Copied   bool   // from another run, and counts in no limit
	// HasMessage says that the model of the cycle has answered, in this attempt or in one before. HasResult says that the
	// call has a result that is not empty.
	HasMessage, HasResult    bool
	HasMetadata, HasProgress bool // the call has
}

// Opened is what is opened again.
type Opened struct {
	Changes []record.Change
	Plans   []string                   // the runs that go on
	Limits  map[string]json.RawMessage // of these, and of the root, from now on; nil: none
	// CallAttempts are the attempts of the calls that started these; none for those whose call is at the same
	// attempt.
	CallAttempts map[string]int64
	Stopped      []string // runs that are stopped, because their calls are made anew
}

// The reasons why a run is not retried.
var (
	ErrGoesOn    = errors.New("the run has not ended")
	ErrCompleted = errors.New("the run was completed: there is nothing to try again")
	ErrDropped   = errors.New("its cycles and tool calls were dropped for their age: nobody knows what it has done")
)

// NotRootError means that a run is not the root of its tree, which is asked instead.
type NotRootError struct{ RootPlanID string }

func (e *NotRootError) Error() string {
	return "is a run below another one: ask its root, " + e.RootPlanID
}

// ErrKeyUsed means that an idempotency key was used for another request.
var ErrKeyUsed = errors.New("was used for another request")

// Retry makes a run go on that has ended. A request that was made before does nothing. The error is
// [record.ErrNotFound] if there is no such run, a [*NotRootError], [ErrGoesOn], [ErrCompleted], [ErrDropped],
// [ErrKeyUsed], or that of Open.
func (s *Store) Retry(ctx context.Context, r Retry) error {
	err := s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error { return s.retry(ctx, tx, r) })
	if err != nil {
		return fmt.Errorf("retry run %s: %w", r.PlanID, err)
	}
	s.bell.RingNow()
	return nil
}

func (s *Store) retry(ctx context.Context, tx *store.Tx, r Retry) error {
	run, err := queries.RunRetryable(ctx, tx, r.PlanID)
	switch {
	case err != nil:
		return pg.Translate(err)
	case run.RootPlanID != run.PlanID:
		return &NotRootError{run.RootPlanID}
	}

	if err := tx.Lock(ctx, run.RootPlanID); err != nil {
		return err
	}
	if run, err = queries.RunRetryable(ctx, tx, r.PlanID); err != nil { // only now is it sure how it stands
		return pg.Translate(err)
	}
	if before, err := retriedBefore(ctx, tx, r); before || err != nil {
		return err
	}

	ended, err := endedRun(ctx, tx, run)
	if err != nil {
		return err
	}
	open, err := r.Open(ended)
	if err != nil {
		return err
	}
	return reopen(ctx, tx, r, ended, open)
}

// retriedBefore reports whether the request was made before.
func retriedBefore(ctx context.Context, tx *store.Tx, r Retry) (bool, error) {
	if r.IdempotencyKey == "" {
		return false, nil
	}

	hash, err := queries.ControlByKey(ctx, tx, db.ControlByKeyParams{
		RootPlanID: r.PlanID, PlanID: r.PlanID, Action: string(retryAction), IdempotencyKey: r.IdempotencyKey,
		RequestedBy: r.By.Name,
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err == nil && optional.Value(hash) != r.RequestSHA256:
		return true, ErrKeyUsed
	}
	return true, err
}

// endedRun reads a run that is retried. The caller holds the root plan.
func endedRun(ctx context.Context, tx *store.Tx, run db.RunRetryableRow) (e Ended, err error) {
	state := record.State(run.State)
	switch {
	case !run.Done && (run.MismatchPlanID == "" || run.MismatchHeld):
		return e, ErrGoesOn
	case run.Done && state == record.Completed:
		return e, ErrCompleted
	case run.Dropped:
		return e, ErrDropped
	}

	rows, err := queries.RunTree(ctx, tx, db.RunTreeParams{RootPlanID: run.RootPlanID})
	if err != nil {
		return e, err
	}
	used, err := queries.RunUsed(ctx, tx, db.RunUsedParams{RootPlanID: run.RootPlanID, PlanID: run.PlanID})
	if err != nil {
		return e, err
	}

	return Ended{
		RootPlanID: run.RootPlanID, Now: run.Now, State: state, ErrorKind: run.ErrorKind, Limits: run.Limits,
		Used: Used(used), Worked: time.Duration(run.Worked * float64(time.Second)),
		MismatchPlanID: run.MismatchPlanID, MismatchAt: run.MismatchAt,
		Rows: treeRows(rows),
	}, nil
}

func treeRows(rows []db.RunTreeRow) []TreeRow {
	return all(rows, func(r db.RunTreeRow) TreeRow {
		return TreeRow{
			Kind: record.Kind(r.Kind), PlanID: r.PlanID, StepID: r.StepID, Index: int64(r.StepIndex), Seq: int64(r.Seq),
			ID: r.ID, Attempt: int64(r.Attempt), State: record.State(r.State), ErrorKind: r.ErrorKind,
			StartTime: r.StartTime, EndTime: r.EndTime, FirstTokenTime: r.FirstTokenTime, BeganAt: r.BeganAt,
			HasMessage: r.HasMessage, HasMetadata: r.HasMetadata, HasProgress: r.HasProgress, Limits: r.Limits,
			HasResult: r.HasResult, Executor: r.Executor, Agent: r.Agent, Copied: r.Copied,
		}
	})
}

// reopen opens a run again. The end of each attempt is read before the record has the next one.
func reopen(ctx context.Context, tx *store.Tx, r Retry, ended Ended, open Opened) error {
	p := db.RunRetryParams{AnewPlanID: ended.MismatchPlanID, RootPlanID: ended.RootPlanID}
	for _, id := range open.Plans {
		p.PlanIds, p.Limits = append(p.PlanIds, id), append(p.Limits, string(open.Limits[id]))
		p.CallAttempts = append(p.CallAttempts, int32(open.CallAttempts[id]))
	}
	if err := queries.RunRetry(ctx, tx, p); err != nil {
		return err
	}

	root := db.RunLimitsParams{RootPlanID: ended.RootPlanID, Limits: open.Limits[ended.RootPlanID]}
	if err := queries.RunLimits(ctx, tx, root); err != nil {
		return err
	}
	for _, id := range open.Stopped {
		if _, err := queries.RunControl(ctx, tx, db.RunControlParams{
			RootPlanID: ended.RootPlanID, PlanID: id, Desired: string(DesiredCancel),
		}); err != nil {
			return err
		}
	}

	// Who retries a run knows how it ended: nobody else is told of that as its end.
	_, err := queries.PlanExceptionServe(ctx, tx, db.PlanExceptionServeParams{
		RootPlanID: ended.RootPlanID, CurrentPlanID: ended.RootPlanID,
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if err := tx.WriteOwned(ctx, open.Changes); err != nil {
		return err
	}

	return queries.ControlAdd(ctx, tx, db.ControlAddParams{
		RootPlanID: ended.RootPlanID, PlanID: ended.RootPlanID, Action: string(retryAction),
		RequestedBy: optional.Pointer(r.By.Name), ClaimedBy: optional.Pointer(r.By.Claim),
		IdempotencyKey: optional.Pointer(r.IdempotencyKey), RequestSha256: optional.Pointer(r.RequestSHA256),
	})
}
