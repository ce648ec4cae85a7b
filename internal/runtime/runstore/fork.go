package runstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// Fork asks for a run that goes on from a row of another one.
type Fork struct {
	PlanID string // the root run that it goes on from
	At     string // the first row that it makes anew
	By     Who
	// Starter, IdempotencyKey and RequestSHA256 are as in [NewRun].
	Starter, IdempotencyKey, RequestSHA256 string
	// Cut says what the fork has of a run as that stands. It may be called again. Its error is that of the fork.
	Cut func(Forkable) (Forked, error)
}

// Forkable is a tree of runs, from which another one is to go on.
type Forkable struct {
	RootPlanID string
	Runs       map[string]NewRun // by their plans, as they were started
	Rows       []TreeRow         // copied plans, too, which are no runs
}

// Forked is what a fork has of another run.
type Forked struct {
	Root  *record.Plan
	Runs  []NewRun // that go on, the root first
	Copy  store.Fork
	After []record.Change // to what is copied
}

// The reasons why nothing goes on from a run, beside those of [Store.Retry].
var (
	ErrNoRun = errors.New("it was only recorded: Actlog does not run it, so nothing can go on from it")
)

// NotEndedError means that a row before that from which a fork goes on has not ended.
type NotEndedError struct{ At string }

func (e *NotEndedError) Error() string {
	return e.At + " has not ended, which is before that row: stop the run, or wait for it"
}

// Fork starts a run that has what another one has before a row as its own, and goes on from there. The error is
// [record.ErrNotFound] if there is no such plan, [ErrNoRun], a [*NotRootError], [ErrDropped], that of Cut, or one of
// [Store.StartRun].
func (s *Store) Fork(ctx context.Context, f Fork) error {
	run, err := read(ctx, s.Reader.DB(), queries.RunForkable, f.PlanID)
	switch {
	case errors.Is(err, record.ErrNotFound):
		if _, err := s.Row(ctx, record.Key{Kind: record.KindPlan, Root: f.PlanID, ID: f.PlanID}); err != nil {
			return fmt.Errorf("fork run %s: %w", f.PlanID, err)
		}
		return ErrNoRun
	case err != nil:
		return fmt.Errorf("fork run %s: %w", f.PlanID, err)
	case run.RootPlanID != run.PlanID:
		return &NotRootError{run.RootPlanID}
	case run.Dropped:
		return ErrDropped
	}

	asked := NewRun{Run: Run{Starter: f.Starter, Project: run.Project}, IdempotencyKey: f.IdempotencyKey}
	err = s.startOnce(ctx, asked, func() error {
		return s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error { return s.fork(ctx, tx, f) })
	})
	if err != nil {
		return fmt.Errorf("fork run %s: %w", f.PlanID, err)
	}
	s.bell.RingNow()
	return nil
}

// fork copies the rows while nobody can write to the original.
func (s *Store) fork(ctx context.Context, tx *store.Tx, f Fork) error {
	if err := tx.Lock(ctx, f.PlanID); err != nil {
		return err
	}
	original, err := forkable(ctx, tx, f.PlanID)
	if err != nil {
		return err
	}
	forked, err := f.Cut(original)
	if err != nil {
		return err
	}

	root := &forked.Runs[0]
	root.Starter, root.By = f.Starter, f.By
	root.IdempotencyKey, root.RequestSHA256 = f.IdempotencyKey, f.RequestSHA256
	if err := tx.WriteOwned(ctx, []record.Change{forked.Root}); err != nil {
		return err
	}
	if err := tx.Fork(ctx, forked.Copy); err != nil {
		return err
	}
	if err := addForked(ctx, tx, f, forked.Runs); err != nil {
		return err
	}
	return tx.WriteOwned(ctx, forked.After)
}

func forkable(ctx context.Context, tx *store.Tx, planID string) (f Forkable, err error) {
	rows, err := queries.RunTree(ctx, tx, db.RunTreeParams{RootPlanID: planID, Copies: true})
	if err != nil {
		return f, err
	}
	runs, err := queries.RunsOfTree(ctx, tx, planID)
	if err != nil {
		return f, err
	}

	f = Forkable{RootPlanID: planID, Rows: treeRows(rows), Runs: map[string]NewRun{}}
	for _, r := range runs {
		run := NewRun{
			Needs: r.Needs, Agent: optional.Value(r.Agent), ConcurrencyKey: optional.Value(r.ConcurrencyKey), Asked: r.Asked,
		}
		run.Run = Run{
			Executor: r.Executor, Name: optional.Value(r.Name), Input: r.Input, Limits: r.Limits, Depth: int(r.Depth),
			Project: r.Project, Priority: int(r.Priority), IDsOf: r.IdsOf, Changes: r.Changes,
		}
		if r.DefinitionID != nil && r.DefinitionVersion != nil {
			run.Definition = Pinned{ID: *r.DefinitionID, Version: int(*r.DefinitionVersion)}
		}
		f.Runs[r.PlanID] = run
	}

	if len(runs) == 0 { // deleted meanwhile
		return f, record.ErrNotFound
	}
	return f, nil
}

// addForked adds the runs of a fork.
func addForked(ctx context.Context, tx *store.Tx, f Fork, runs []NewRun) error {
	var q pgx.Batch
	added := true
	for i := range runs {
		r := &runs[i]
		r.queue(&q).Exec(func(tag pgconn.CommandTag) error {
			added = added && tag.RowsAffected() > 0
			return nil
		})

		var from, at *string
		if r.PlanID == r.RootPlanID {
			from, at = &f.PlanID, &f.At
			q.Queue(db.ControlAdd, string(forkAction), optional.Pointer(f.By.Name), optional.Pointer(f.By.Claim), nil, nil,
				r.RootPlanID, r.PlanID)
		}
		q.Queue(db.RunFork, from, at, r.IDsOf, []byte(r.Changes), r.RootPlanID, r.PlanID)
	}

	err := tx.SendBatch(ctx, &q).Close()
	if err == nil && !added {
		err = errNotAdded
	}
	return err
}
