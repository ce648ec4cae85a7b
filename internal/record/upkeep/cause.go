package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
)

// causesPage is how many trees have their causes found in one transaction.
const causesPage = 200

// causes is what this process remembers between its looks at the change feed. Only one goroutine uses it at a time.
type causes struct{ follower }

// maintainCauses keeps the causes of all trees up to date until ctx ends.
func (u *Upkeep) maintainCauses(ctx context.Context) {
	var c causes
	rest := func(_ context.Context, more bool, took time.Duration) time.Duration {
		if more { // leave room for others
			return took
		}
		return followEvery
	}
	u.follow(ctx, "finding the causes of failures", func() (bool, error) { return u.makeCauses(ctx, &c) }, rest)
}

func (u *Upkeep) makeAllCauses(ctx context.Context) error {
	var c causes
	return untilDone(func() (bool, error) { return u.makeCauses(ctx, &c) })
}

// makeCauses finds the causes of some trees again: of those that have changed, of those whose detail was dropped, and
// of those that a migration wants made again. more reports that others are due now.
func (u *Upkeep) makeCauses(ctx context.Context, c *causes) (more bool, err error) {
	for _, stage := range []func(context.Context, pgx.Tx, *causes) (bool, error){
		u.changedCauses, u.droppedCauses, u.missingCauses,
	} {
		err := u.inTurn(ctx, taskCauses, func(tx pgx.Tx) error {
			further, err := stage(ctx, tx, c)
			more = more || further
			return err
		})
		if err != nil {
			*c = causes{} // the transaction may not have been committed
			return false, fmt.Errorf("find causes: %w", err)
		}
	}
	return more, nil
}

func (u *Upkeep) changedCauses(ctx context.Context, tx pgx.Tx, c *causes) (more bool, err error) {
	progress, err := u.queries.CauseProgress(ctx, tx)
	if err != nil {
		return false, err
	}

	find := func(roots []string) error { return u.writeCauses(ctx, tx, roots) }
	made := func(upTo int64) error { return u.queries.CauseMade(ctx, tx, upTo) }
	return c.handle(ctx, u.queries, tx, feedRange{progress.Seq, progress.Head}, causesPage, find, made)
}

// droppedCauses finds the causes again of trees whose detail was dropped, so that they have no text of it.
func (u *Upkeep) droppedCauses(ctx context.Context, tx pgx.Tx, _ *causes) (more bool, err error) {
	roots, err := u.queries.CauseDropped(ctx, tx, causesPage)
	if err != nil || len(roots) == 0 {
		return false, err
	}
	return len(roots) == causesPage, u.writeCauses(ctx, tx, roots)
}

// missingCauses finds the causes of trees that a migration wants made again, the newest first.
func (u *Upkeep) missingCauses(ctx context.Context, tx pgx.Tx, _ *causes) (more bool, err error) {
	progress, err := u.queries.CauseProgress(ctx, tx)
	if err != nil || progress.BeforeAt == nil {
		return false, err
	}
	page, err := u.queries.CauseMissing(ctx, tx, db.CauseMissingParams{
		BeforeAt: *progress.BeforeAt, BeforeID: progress.BeforeID, Most: causesPage,
	})
	if err != nil {
		return false, err
	}

	roots := make([]string, len(page))
	for i, p := range page {
		roots[i] = p.RootPlanID
	}
	if err := u.writeCauses(ctx, tx, roots); err != nil {
		return false, err
	}

	looked := db.CauseLookedParams{}
	if len(page) == causesPage {
		last := &page[len(page)-1]
		looked = db.CauseLookedParams{BeforeAt: &last.BeganAt, BeforeID: &last.RootPlanID}
	}
	return len(page) == causesPage, u.queries.CauseLooked(ctx, tx, looked)
}

// writeCauses finds the causes of trees, and writes them. A tree of which the rows cannot be read is logged, and
// looked at again when it changes.
func (u *Upkeep) writeCauses(ctx context.Context, tx pgx.Tx, roots []string) error {
	unreadable, err := u.store.WriteCauses(ctx, tx, roots)
	for _, bad := range unreadable {
		u.counters.failures.Add(1)
		u.log.Warn("the cause of a failure cannot be found", "error", bad)
	}
	return err
}
