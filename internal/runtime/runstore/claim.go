package runstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/optional"
	"github.com/actlog/actlog/internal/record/pg"
)

// Claimed is a run that a worker holds from now on.
type Claimed struct {
	Run
	Lease Lease
}

// Claim says which runs a worker claims.
type Claim struct {
	WorkerID string
	Release  string   // of the worker
	Provides []string // they need nothing else
	Runs     int      // how many at most
	// LoneAt is how many workers a run has lost that is carried once more, alone; negative: none is. Alone claims
	// those, and nothing else; otherwise they are left, but for those that should stop or pause.
	LoneAt int
	Alone  bool
	Most   Most // how many go on at once
}

// Claim claims runs that are due. It reports whether there may be more: all that were asked for, or some that are due
// behind those for which there is no place.
func (s *Store) Claim(ctx context.Context, c Claim) (runs []Claimed, more bool, err error) {
	claimed, blocked, err := s.claim(ctx, c)
	var rows []db.RunClaimedRow
	if err == nil && len(claimed.PlanIds) > 0 {
		rows, err = queries.RunClaimed(ctx, s.DB(), claimed)
	}
	if err != nil {
		return nil, false, fmt.Errorf("claim runs: %w", pg.Translate(err))
	}

	runs = all(rows, func(r db.RunClaimedRow) Claimed {
		c := Claimed{Lease: Lease{RootPlanID: r.RootPlanID, PlanID: r.PlanID, WorkerID: c.WorkerID, Epoch: r.Epoch}}
		c.Run = Run{
			RootPlanID: r.RootPlanID, PlanID: r.PlanID, Executor: r.Executor, Name: optional.Value(r.Name), Input: r.Input,
			Limits: r.Limits, Depth: int(r.Depth), Owner: r.Owner, Starter: r.Starter, Project: r.Project,
			Priority: int(r.Priority), Desired: Desired(r.Desired), Takeovers: int(r.Takeovers), Lost: int(r.Lost),
			AwaitsModels: r.AwaitsModels, Release: optional.Value(r.Release), Mismatched: r.Mismatched,
			EndedBefore: optional.Value(r.EndedBefore), Anew: r.Anew, Unread: r.Unread > 0,
			IDsOf: r.IdsOf, Changes: r.Changes,
		}

		if r.DefinitionID != nil && r.DefinitionVersion != nil {
			c.Definition = Pinned{ID: *r.DefinitionID, Version: int(*r.DefinitionVersion)}
		}
		if r.ParentPlanID != nil {
			c.Parent = &ParentCall{
				PlanID: *r.ParentPlanID, StepID: optional.Value(r.ParentStepID), ToolCallID: optional.Value(r.ParentToolCallID),
			}
			c.Parent.Seq = int64(optional.Value(r.ParentSeq))
			if r.ParentAttempt != nil {
				c.Parent.Attempt = new(int64(*r.ParentAttempt))
			}
		}
		return c
	})
	return runs, blocked || len(runs) == c.Runs, nil
}

// claim claims runs within the limits. What has become free meanwhile is taken at once; if that is more than this claim
// took, the others are woken. blocked says that runs were due that wait for a place from now on.
func (s *Store) claim(ctx context.Context, c Claim) (claimed db.RunClaimedParams, blocked bool, err error) {
	due, err := queries.PlaceDue(ctx, s.DB(), db.PlaceDueParams{
		Alone: c.Alone, Provides: c.Provides, LoneAt: int32(c.LoneAt),
	})
	if err != nil || !due {
		return claimed, false, err
	}

	places, most := c.Most.arrays()
	claimed.WorkerID = c.WorkerID
	var freed int64
	q := &pgx.Batch{}
	q.Queue(db.PlaceTurn)
	q.Queue(db.PlaceCount, c.Most.PerKey, c.Most.PerOwner, places, most).Exec(func(tag pgconn.CommandTag) error {
		freed = tag.RowsAffected()
		return nil
	})

	runs := q.Queue(db.RunClaim, c.Alone, c.Provides, c.LoneAt, c.Runs, places, c.Most.PerKey, c.Most.PerOwner, most,
		c.WorkerID, c.Release)
	runs.Query(func(rows pgx.Rows) error {
		var root, plan, desired string
		var epoch int64
		var waits bool
		_, err := pgx.ForEachRow(rows, []any{&root, &plan, &epoch, &desired, &waits}, func() error {
			if waits {
				blocked = true
				return nil
			}

			claimed.RootPlanIds, claimed.PlanIds = append(claimed.RootPlanIds, root), append(claimed.PlanIds, plan)
			claimed.Epochs, claimed.Desired = append(claimed.Epochs, epoch), append(claimed.Desired, desired)
			return nil
		})
		return err
	})

	if err := s.DB().Send(ctx, q); err != nil {
		return claimed, false, err
	}
	if int(freed) > len(claimed.PlanIds) {
		s.bell.RingNow()
	}
	return claimed, blocked, nil
}
