package runstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// Expired is the error kind of a run that nobody began in time.
const Expired = "expired"

// expireAtOnce bounds how many runs [Store.Expire] ends.
const expireAtOnce = 100

// Expire ends runs that nobody began in time, some at once. It returns their executors. Any process may do so: no
// worker needs to hold them, or to have what they need.
func (s *Store) Expire(ctx context.Context) (executors []string, err error) {
	runs, err := queries.RunExpired(ctx, s.DB(), expireAtOnce)
	if err != nil {
		return nil, fmt.Errorf("look which runs nobody began in time: %w", pg.Translate(err))
	}

	var failed []error
	for _, root := range runs {
		executor, err := s.expire(ctx, root)
		switch {
		case ctx.Err() != nil:
			return executors, errors.Join(append(failed, err)...)
		case err != nil: // those behind it end all the same
			failed = append(failed, fmt.Errorf("end run %s, which nobody began in time: %w", root, err))
		case executor != "":
			executors = append(executors, executor)
		}
	}
	return executors, errors.Join(failed...)
}

// expire ends a run, and returns its executor, unless it need not end any more.
func (s *Store) expire(ctx context.Context, rootPlanID string) (executor string, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		executor = ""
		if err := tx.Lock(ctx, rootPlanID); err != nil {
			return err
		}
		run, err := queries.RunExpire(ctx, tx, rootPlanID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}

		executor = run.Executor
		return tx.WriteOwned(ctx, []record.Change{&record.Plan{
			RootPlanID: rootPlanID, CurrentPlanID: rootPlanID, State: new(record.Cancelled),
			StartTime: run.DoneAt, EndTime: run.DoneAt, ErrorKind: new(Expired),
			ErrorMessage: new("Nobody began the run before " + optional.Value(run.ExpiresAt).UTC().Format(time.RFC3339) + "."),
		}})
	})
	return executor, err
}
