package runstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
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
	// Messages are the cycles whose messages Cut needs.
	Messages []Cycle
}

// Cycle names a cycle of a tree.
type Cycle struct {
	StepID string
	Seq    int64
}

// Forkable is a tree of runs, from which another one is to go on.
type Forkable struct {
	Root     record.Plan               // as it was started
	Runs     map[string]NewRun         // by their plans, as they were started
	Rows     []TreeRow                 // copied plans, too, which are no runs
	Messages map[Cycle]json.RawMessage // of [Fork.Messages], those that there are
	// Definitions are those of the runs.
	Definitions map[Pinned]json.RawMessage
}

// Forked is what a fork has of another run.
type Forked struct {
	Root  *record.Plan
	Runs  []NewRun // that go on, the root first
	Copy  store.Fork
	After []record.Change // to what is copied
}

// ErrNoRun means that a plan was only recorded: Actlog does not run it, so nothing can go on from it.
var ErrNoRun = errors.New("the plan was only recorded: Actlog does not run it, so nothing can go on from it")

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
	original, err := forkable(ctx, tx, f)
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
	if err := forkTaken(ctx, tx, forked.Copy); err != nil {
		return err
	}
	return tx.WriteOwned(ctx, forked.After)
}

func forkable(ctx context.Context, tx *store.Tx, f Fork) (o Forkable, err error) {
	p, err := queries.RunForkable(ctx, tx, f.PlanID)
	if err != nil {
		return o, pg.Translate(err)
	}
	rows, err := queries.RunTree(ctx, tx, db.RunTreeParams{RootPlanID: f.PlanID, Copies: true})
	if err != nil {
		return o, err
	}
	runs, err := queries.RunsOfTree(ctx, tx, f.PlanID)
	if err != nil {
		return o, err
	}

	o = Forkable{
		Root: record.Plan{
			Executor: p.Executor, Name: p.Name, Title: p.Title, UserRequest: p.UserRequest, UserID: p.UserID, Tags: p.Tags,
			Environment: p.Environment, ConversationID: p.ConversationID, ModelName: p.ModelName, Metadata: p.Metadata,
			Project: p.PlanProject,
		},
		Rows: treeRows(rows), Runs: map[string]NewRun{}, Messages: map[Cycle]json.RawMessage{},
	}
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
		o.Runs[r.PlanID] = run
	}

	if err := o.readDefinitions(ctx, tx, f); err != nil {
		return o, err
	}
	return o, o.readMessages(ctx, tx, f)
}

func (o *Forkable) readDefinitions(ctx context.Context, tx *store.Tx, f Fork) error {
	rows, err := queries.DefinitionsOfTree(ctx, tx, f.PlanID)
	o.Definitions = map[Pinned]json.RawMessage{}
	for _, r := range rows {
		o.Definitions[Pinned{ID: r.DefinitionID, Version: int(r.Version)}] = r.Body
	}
	return err
}

func (o *Forkable) readMessages(ctx context.Context, tx *store.Tx, f Fork) error {
	if len(f.Messages) == 0 {
		return nil
	}

	p := db.CycleMessagesParams{RootPlanID: f.PlanID}
	for _, c := range f.Messages {
		p.StepIds, p.Seqs = append(p.StepIds, c.StepID), append(p.Seqs, int32(c.Seq))
	}
	rows, err := queries.CycleMessages(ctx, tx, p)
	for _, r := range rows {
		if r.Message != nil {
			o.Messages[Cycle{r.StepID, int64(r.Seq)}] = r.Message
		}
	}
	return err
}

// addForked adds the runs of a fork.
func addForked(ctx context.Context, tx *store.Tx, f Fork, runs []NewRun) error {
	q := &pgx.Batch{}
	added := true
	for i := range runs {
		r := &runs[i]
		r.queue(q).Exec(func(tag pgconn.CommandTag) error {
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

	err := tx.SendBatch(ctx, q).Close()
	if err == nil && !added {
		err = errNotAdded
	}
	return err
}

// forkTaken lets a fork have taken the events that its copied tool calls took.
func forkTaken(ctx context.Context, tx *store.Tx, c store.Fork) error {
	p := db.EventForkParams{RootPlanID: c.From, NewRootPlanID: c.To}
	for _, call := range c.Calls {
		p.ToolCallIds, p.NewToolCallIds = append(p.ToolCallIds, call.ID), append(p.NewToolCallIds, call.NewID)
	}
	return queries.EventFork(ctx, tx, p)
}
