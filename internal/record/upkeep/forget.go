package upkeep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

const (
	// forgottenTrees is how many trees of dropped periods are looked at in one transaction.
	forgottenTrees = 100
	// forgetPage is how many rows of a kind lose their texts in one transaction.
	forgetPage = 1_000
)

// forgetFound removes the texts of the tool calls, or cycles, in a table from the search. Fresh texts and the index
// of the search are changed by one server at a time.
func (u *Upkeep) forgetFound(ctx context.Context, tx pgx.Tx, table string, from, to time.Time) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('"+taskSearch+"'))")
	if err == nil {
		_, err = tx.Exec(ctx, strings.ReplaceAll(db.SearchForget, callTable, table), from, to)
	}
	return pg.Wrap(err, "forget texts")
}

// dropRecent ends that runs are kept whose part is before a day, and deletes their texts.
func (u *Upkeep) dropRecent(ctx context.Context, day time.Time) error {
	err := u.queries.RecentRaise(ctx, u.db, day)
	if err == nil {
		err = untilDone(func() (more bool, err error) {
			if n, err := u.queries.RecentForget(ctx, u.db, forgetPage); err != nil || n > 0 {
				return true, err
			}
			if left, err := u.queries.RecentLeft(ctx, u.db, day); err != nil || !left {
				return false, err
			}
			return true, u.pause(ctx, time.Second) // others have locked them
		})
	}
	return pg.Wrap(err, "forget the texts of recent runs")
}

// forgetCopies removes what steps and waits copy from the tool calls of the periods that were dropped. It reads the
// trees of these periods, and no others.
func (u *Upkeep) forgetCopies(ctx context.Context) error {
	periods, err := u.queries.DetailToForget(ctx, u.db)
	if err != nil {
		return fmt.Errorf("list the periods to forget: %w", err)
	}

	for _, p := range periods {
		err := u.forgetPeriod(ctx, p.FromDay, p.ToDay)
		switch {
		case errors.Is(err, errNotMyTurn):
			return nil
		case err != nil:
			return fmt.Errorf("forget texts of steps and waits: %w", err)
		}
	}
	return nil
}

var errNotMyTurn = errors.New("another server does it")

func (u *Upkeep) forgetPeriod(ctx context.Context, from, to time.Time) error {
	after := db.DetailRootsParams{ToDay: to, AfterPart: from, Most: forgottenTrees}
	for {
		page, err := u.queries.DetailRoots(ctx, u.db, after)
		if err != nil {
			return err
		}

		roots := make([]string, len(page))
		for i, p := range page {
			roots[i] = p.RootPlanID
			after.AfterPart, after.AfterRoot = p.Part, p.RootPlanID
		}

		if err := u.forgetTrees(ctx, roots); err != nil {
			return err
		}
		if len(page) < forgottenTrees {
			return u.queries.DetailForgotten(ctx, u.db, db.DetailForgottenParams{FromDay: from, ToDay: to})
		}
	}
}

// forgetTrees removes what the steps and waits of some trees copy, and what failed in their detail. It rests after each
// transaction as long as it took.
func (u *Upkeep) forgetTrees(ctx context.Context, roots []string) error {
	for more := len(roots) > 0; more; {
		start, mine := u.now(), false
		err := u.inTurn(ctx, taskForget, func(tx pgx.Tx) error {
			mine = true
			if err := u.queries.FailureForget(ctx, tx, roots); err != nil {
				return err
			}

			steps, err := u.queries.StepForget(ctx, tx, db.StepForgetParams{RootPlanIds: roots, Most: forgetPage})
			if err != nil {
				return err
			}
			waits, err := u.queries.WaitForget(ctx, tx, db.WaitForgetParams{RootPlanIds: roots, Most: forgetPage})
			more = max(steps, waits) == forgetPage
			return err
		})
		switch {
		case err != nil:
			return err
		case !mine:
			return errNotMyTurn
		}

		if err := u.pause(ctx, u.now().Sub(start)); err != nil {
			return err
		}
	}
	return nil
}
