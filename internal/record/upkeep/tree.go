package upkeep

import (
	"context"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/pg"
)

// deleteOutdated deletes the trees that have ended and were first seen more than so many days
// ago; 0: none. A tree to which another session writes is tried again in the next round.
func (u *Upkeep) deleteOutdated(ctx context.Context, days int) error {
	if days == 0 {
		return nil
	}

	total, err := u.deletePages(ctx, days)
	if total > 0 {
		u.log.Info("deleted old plans", "trees", total)
	}
	return pg.Wrap(err, "delete old plans")
}

// deletePages deletes outdated trees page by page, and returns how many. A tree that another session locks is skipped
// until the next round.
func (u *Upkeep) deletePages(ctx context.Context, days int) (total int, err error) {
	after := db.PlanOutdatedParams{KeepDays: int32(days)}
	for {
		page, err := u.queries.PlanOutdated(ctx, u.db, after)
		if err != nil || len(page) == 0 {
			return total, err
		}

		roots := make([]string, len(page))
		for i, p := range page {
			roots[i] = p.RootPlanID
		}

		n, err := u.store.DeleteTrees(ctx, roots)
		if pg.Locked(err) { // one of them is locked: delete the others
			n, err = u.deleteSingly(ctx, roots)
		}
		if err != nil {
			return total, err
		}
		total += n
		after.AfterTime, after.AfterID = page[len(page)-1].FirstSeenAt, page[len(page)-1].RootPlanID
	}
}

func (u *Upkeep) deleteSingly(ctx context.Context, roots []string) (deleted int, err error) {
	for _, root := range roots {
		n, err := u.store.DeleteTrees(ctx, []string{root})
		if err != nil && !pg.Locked(err) {
			return deleted, err
		}
		deleted += n
	}
	return deleted, nil
}
