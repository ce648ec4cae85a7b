package store

import (
	"context"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

var listArtifact = filler[db.ArtifactListRow](record.KindArtifact, "")

// Artifacts lists what a plan produced, by name.
// See [page].
func (s *Store) Artifacts(ctx context.Context, planID string, after Position, limit int) (items []Item[record.Artifact], more bool, err error) {
	return page(ctx, s, limit, func(conn db.DBTX, size int32) ([]db.ArtifactListRow, error) {
		return s.reads.ArtifactList(ctx, conn, db.ArtifactListParams{PlanID: planID, AfterID: after.ID, PageSize: size, PageBytes: pageBytes})
	}, artifactOfList)
}

func artifactOfList(r *db.ArtifactListRow) (it Item[record.Artifact], found int64) {
	it.ID = orZero(r.ID)
	it.Record = record.Artifact{RootPlanID: r.RootPlanID, PlanID: r.CurrentPlanID, Name: r.Name}
	listArtifact(&it.Record, r)
	it.Truncated = record.StillCut(&it.Record, r.Truncated)
	it.Position.ID = r.Name
	return it, r.Found
}
