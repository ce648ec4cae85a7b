package store

import (
	"context"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

var listSource = filler[db.SourceListRow](record.KindSource, "")

// Sources lists what was relied on in a plan, by id.
// See [page].
func (s *Store) Sources(ctx context.Context, planID string, after Position, limit int) (items []Item[record.Source], more bool, err error) {
	return page(ctx, s, limit, func(conn db.DBTX, size int32) ([]db.SourceListRow, error) {
		return s.reads.SourceList(ctx, conn, db.SourceListParams{PlanID: planID, AfterID: after.ID, PageSize: size, PageBytes: pageBytes})
	}, sourceOfList)
}

func sourceOfList(r *db.SourceListRow) (it Item[record.Source], found int64) {
	it.ID = orZero(r.ID)
	it.Record = record.Source{RootPlanID: r.RootPlanID, PlanID: r.CurrentPlanID, SourceID: r.SourceID}
	listSource(&it.Record, r)
	it.Truncated = record.StillCut(&it.Record, r.Truncated)
	it.Position.ID = r.SourceID
	return it, r.Found
}
