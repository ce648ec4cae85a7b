package store

import (
	"context"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

var listThought = filler[db.ThoughtListRow](record.KindThought, "")

// Thoughts lists what was thought in a plan, by time, iteration and id.
// See [page].
func (s *Store) Thoughts(ctx context.Context, planID string, after Position, limit int) (items []Item[record.Thought], more bool, err error) {
	return page(ctx, s, limit, func(conn db.DBTX, size int32) ([]db.ThoughtListRow, error) {
		return s.reads.ThoughtList(ctx, conn, db.ThoughtListParams{PlanID: planID, AfterTime: after.Time, AfterNumber: int32(after.Number), AfterID: after.ID, PageSize: size, PageBytes: pageBytes})
	}, thoughtOfList)
}

func thoughtOfList(r *db.ThoughtListRow) (it Item[record.Thought], found int64) {
	it.ID = orZero(r.ID)
	it.Record = record.Thought{RootPlanID: r.RootPlanID, PlanID: r.CurrentPlanID, ThoughtID: r.ThoughtID}
	listThought(&it.Record, r)
	it.Truncated = record.StillCut(&it.Record, r.Truncated)
	it.Position.ID = r.ThoughtID
	it.Position.Time = untold
	if r.Time != nil {
		it.Position.Time = r.Time.UTC()
	}
	it.Position.Number = unnumbered
	if r.Iteration != nil {
		it.Position.Number = int64(*r.Iteration)
	}
	return it, r.Found
}
