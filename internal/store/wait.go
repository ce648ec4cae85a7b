package store

import (
	"context"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

var listWait = filler[db.WaitListRow](record.KindWait, "")

// Waits lists what a plan waited for, by start and id.
// See [page].
func (s *Store) Waits(ctx context.Context, planID string, after Position, limit int) (items []Item[record.Wait], more bool, err error) {
	return page(ctx, s, limit, func(conn db.DBTX, size int32) ([]db.WaitListRow, error) {
		return s.reads.WaitList(ctx, conn, db.WaitListParams{PlanID: planID, AfterTime: after.Time, AfterID: after.ID, PageSize: size, PageBytes: pageBytes})
	}, waitOfList)
}

func waitOfList(r *db.WaitListRow) (it Item[record.Wait], found int64) {
	it.ID = orZero(r.ID)
	it.Record = record.Wait{RootPlanID: r.RootPlanID, PlanID: r.CurrentPlanID, WaitID: r.WaitID}
	listWait(&it.Record, r)
	it.Truncated = record.StillCut(&it.Record, r.Truncated)
	it.Position.ID = r.WaitID
	it.Position.Time = untold
	if r.StartTime != nil {
		it.Position.Time = r.StartTime.UTC()
	}
	return it, r.Found
}
