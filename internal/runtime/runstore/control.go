package runstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

var desiredBy = map[Action]Desired{Stop: DesiredCancel, Pause: DesiredPause, Resume: DesiredRun}

// ErrEnded means that a run has ended, so that nothing can be asked of it.
var ErrEnded = errors.New("the run has ended")

// Control asks a run and all below it to stop, to pause or to go on. by is who asks, as the server or the program knows
// them, and may be empty. A run that is to stop does not go on any more. The error is [record.ErrNotFound] if there is
// no such run, and [ErrEnded] if it has ended.
func (s *Store) Control(ctx context.Context, planID string, action Action, by string) error {
	return s.ControlBy(ctx, planID, action, Who{Name: by})
}

// ControlBy is [Store.Control], and notes who they say they are.
func (s *Store) ControlBy(ctx context.Context, planID string, action Action, by Who) error {
	return s.control(ctx, planID, action, by, func(db.RunOfPlanRow) error { return nil })
}

// ErrBegun means that a run was not held, or was started before.
var ErrBegun = errors.New("the run was started before")

// Begin starts a run that is held, see [NewRun]. by is as in [Store.Control]. The error is [ErrBegun], or one of
// [Store.Control].
func (s *Store) Begin(ctx context.Context, planID, by string) error {
	return s.control(ctx, planID, Resume, Who{Name: by}, func(run db.RunOfPlanRow) error {
		if run.Desired != string(DesiredPause) || run.Signals > 0 { // that it was held is all that ever happened
			return ErrBegun
		}
		return nil
	})
}

// control is Control, if allowed says so of the run as it stands.
func (s *Store) control(
	ctx context.Context, planID string, action Action, by Who, allowed func(db.RunOfPlanRow) error,
) error {
	err := s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		run, err := queries.RunOfPlan(ctx, tx, planID)
		if err != nil {
			return pg.Translate(err)
		}
		if err := tx.Lock(ctx, run.RootPlanID); err != nil {
			return err
		}

		// Only now is it sure whether the run has ended.
		if run, err = queries.RunOfPlan(ctx, tx, planID); err != nil {
			return pg.Translate(err)
		}

		if run.Done {
			return ErrEnded
		}
		if err := allowed(run); err != nil {
			return err
		}

		_, err = queries.RunControl(ctx, tx, db.RunControlParams{
			RootPlanID: run.RootPlanID, PlanID: planID, Desired: string(desiredBy[action]),
		})
		if err != nil {
			return err
		}
		if action == Resume { // a worker needs nothing to stop or to pause a run
			try := db.RunTryCodeParams{RootPlanID: run.RootPlanID, PlanID: planID}
			if err := queries.RunTryCode(ctx, tx, try); err != nil {
				return err
			}
		}
		return queries.ControlAdd(ctx, tx, db.ControlAddParams{
			RootPlanID: run.RootPlanID, PlanID: planID, Action: string(action),
			RequestedBy: optional.Pointer(by.Name), ClaimedBy: optional.Pointer(by.Claim),
		})
	})
	if err != nil {
		return fmt.Errorf("%s run %s: %w", verb[action], planID, err)
	}
	s.bell.RingNow()
	return nil
}

var verb = map[Action]string{Stop: "stop", Pause: "pause", Resume: "resume"}

// ErrSelfApproval means that a wait must be approved by somebody else than who began the run, and it is not known that
// this is so.
var ErrSelfApproval = errors.New(
	"who started the run may not approve this: somebody else has to, under a name of their own",
)

// mayDecide returns [ErrSelfApproval] if a decision about a wait is not for who makes it: by the policy of its call,
// who began the tree may not approve it. Anybody may reject, and fill in a form.
func mayDecide(w db.WaitOpenRow, decided *record.Wait) error {
	by := optional.Value(decided.DecidedBy)
	apart := by != "" && w.Starter != "" && by != w.Starter

	approves := decided.State == nil || *decided.State != record.Rejected && *decided.State != record.Submitted
	if w.NotStarter && approves && !apart {
		return ErrSelfApproval
	}
	return nil
}

// ErrDecided means that a wait was decided before, has expired, or that its run has ended.
var ErrDecided = errors.New("the wait was decided before, or has expired")

// Decide writes what a human decided about a wait, and signals the run that waits. The first decision
// counts. decide returns the decision for the wait as it stands; it may be called again. The error is
// that of decide, [record.ErrNotFound] if there is no such wait, [ErrDecided] or [ErrSelfApproval].
func (s *Store) Decide(
	ctx context.Context, rootPlanID, planID, waitID string, decide func(*record.Wait) (*record.Wait, error),
) error {
	err := s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.Lock(ctx, rootPlanID); err != nil {
			return err
		}

		w, err := queries.WaitOpen(ctx, tx, db.WaitOpenParams{RootPlanID: rootPlanID, PlanID: planID, WaitID: waitID})
		if err != nil {
			return pg.Translate(err)
		}
		if w.State != string(record.Waiting) || w.Over {
			return ErrDecided
		}

		open := &record.Wait{
			RootPlanID: rootPlanID, PlanID: planID, WaitID: waitID, StepID: w.StepID, ToolCallID: w.ToolCallID,
			Type: (*record.WaitType)(w.Type), FormInputs: w.FormInputs, Subject: w.Subject,
		}
		decided, err := decide(open)
		if err == nil {
			err = mayDecide(w, decided)
		}
		if err != nil {
			return err
		}

		if err := tx.WriteOwned(ctx, []record.Change{decided}); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, db.RunSignal, rootPlanID, planID)
		return err
	})

	if errors.Is(err, ErrDecided) { // perhaps by this call, which was repeated
		err = errors.Join(err, s.DB().Settle(ctx))
	}
	if err != nil {
		return fmt.Errorf("decide wait %s: %w", waitID, err)
	}
	s.bell.RingNow()
	return nil
}
