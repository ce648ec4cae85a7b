package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// DeletePlan deletes the whole tree of a root plan, live or not, and nothing else. Later changes to the tree make it
// again, as a placeholder. The error is [record.ErrNotFound] if there is no such plan, a [*record.InvalidError] if it
// is a sub-plan, and [record.ErrUnavailable] after RetryFor.
func (s *Store) DeletePlan(ctx context.Context, rootPlanID string) error {
	return pg.Wrap(s.deleteRoot(ctx, rootPlanID), "delete plan %s", rootPlanID)
}

func (s *Store) deleteRoot(ctx context.Context, rootPlanID string) error {
	root, err := pg.Read(ctx, s.db, func() (string, error) { return s.queries.PlanRootOf(ctx, s.db, rootPlanID) })
	if err != nil {
		return err
	}
	if root != rootPlanID {
		return &record.InvalidError{
			Code: record.CodeInvalidRelation, Field: "planId", Reason: fmt.Sprintf("is a sub-plan of %s; delete its root", root),
		}
	}

	deadline := time.Now().Add(s.config.RetryFor)
	for attempt := 0; ; attempt++ {
		deleted, err := s.DeleteTrees(ctx, []string{rootPlanID})
		if err == nil && deleted == 0 && attempt > 0 { // an earlier try did it
			err = s.db.Settle(ctx)
		}

		switch {
		case err == nil && deleted == 0 && attempt == 0: // somebody else did, a moment ago
			return record.ErrNotFound
		case err == nil:
			return nil
		case ctx.Err() == nil && pg.Transient(err) && time.Now().Before(deadline):
			if pg.Pause(ctx, pg.Backoff(attempt)) == nil {
				continue
			}
		case pg.Locked(err):
			err = &record.LockedError{RootPlanID: rootPlanID}
		}
		return pg.Translate(err)
	}
}

// DeleteTrees deletes the trees of root plans in one transaction and returns how many there
// were. The error is Postgres' own. A lock that another session holds is waited for up to
// [LockPatience].
func (s *Store) DeleteTrees(ctx context.Context, roots []string) (deleted int, err error) {
	err = s.db.Transact(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, LockPatience); err != nil {
			return err
		}
		found, err := s.queries.TreeRoots(ctx, tx, roots)
		if err != nil || len(found) == 0 {
			return err
		}

		there, partitions := []string{}, []time.Time{}
		touched := feed.Touched{}
		for _, f := range found {
			there = append(there, f.RootPlanID)
			touched.Add(f.RootPlanID, feed.Deleted)
			if !slices.ContainsFunc(partitions, f.Part.Equal) {
				partitions = append(partitions, f.Part)
			}
		}

		var q pgx.Batch
		q.Queue(db.TreeDeleteSpans, there)
		q.Queue(db.TreeDeleteTraces, there)
		q.Queue(db.TreeDeleteActTools, there, partitions)
		q.Queue(db.TreeDeleteThinkActs, there, partitions)
		q.Queue(db.TreeDeleteContents, there, partitions)

		for _, sql := range []string{
			db.TreeDeleteThoughts, db.TreeDeleteArtifacts, db.TreeDeleteSources, db.TreeDeleteWaits,
			db.TreeDeleteAgentExecutions,
			db.TreeDeleteInterrupted, db.TreeDeleteCauses, db.TreeDeleteRecent, db.TreeDeletePlans,
		} {
			q.Queue(sql, there)
		}
		deleteSearched(&q, there)
		touched.Append(&q)

		deleted = len(there)
		return tx.SendBatch(ctx, &q).Close()
	})
	if err != nil {
		return 0, err
	}

	s.feed.Grew()
	s.sender.counters.treesDeleted.Add(uint64(deleted))
	return deleted, nil
}

// LockPatience is the statement that makes a transaction wait for locks no longer than
// Postgres does before it looks for a deadlock (1 s), and might end one by stopping a reader
// or a writer.
const LockPatience = "SET LOCAL lock_timeout = '900ms'"
