package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/store"
)

// Damage is a cycle whose prompt cannot be put together as it was written.
type Damage struct {
	RootPlanID, StepID string
	Seq                int64
	// Content is one of the contents at fault, its hash in hex. It is missing, or is not what its hash
	// says.
	Content string
	Missing bool
}

const verifiedTrees = 200

// Verify checks that all texts which are kept in parts can be put together: that each content they need is
// on record, and is what its hash says. It calls found with each cycle that is damaged, and passed with
// the number of trees after every few. It reads all contents once, and changes nothing.
func Verify(ctx context.Context, s *store.Store, found func(Damage) error, passed func(trees int)) error {
	queries := db.New()
	trees, after := 0, ""
	for {
		var page []db.ContentTreesRow
		var damaged []db.ContentDamagedRow
		// Both are of one moment: a tree that is deleted in between is not damaged.
		err := pgx.BeginTxFunc(ctx, s.DB(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
			func(tx pgx.Tx) (err error) {
				// all of a tree is read
				if _, err := tx.Exec(ctx, "SET LOCAL enable_hashjoin = on; SET LOCAL work_mem = '64MB'"); err != nil {
					return err
				}
				if page, err = queries.ContentTrees(
					ctx, tx, db.ContentTreesParams{After: after, Most: verifiedTrees},
				); err != nil || len(page) == 0 {
					return err
				}

				roots, partitions := make([]string, len(page)), make([]time.Time, len(page))
				for i, t := range page {
					roots[i], partitions[i] = t.RootPlanID, t.Part
				}
				damaged, err = queries.ContentDamaged(ctx, tx, db.ContentDamagedParams{RootPlanIds: roots, Parts: partitions})
				return err
			})
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}

		for _, d := range damaged {
			if err := found(Damage{
				RootPlanID: d.RootPlanID, StepID: d.StepID, Seq: d.Seq, Content: d.Content, Missing: d.IsMissing,
			}); err != nil {
				return err
			}
		}

		trees += len(page)
		passed(trees)
		if len(page) < verifiedTrees {
			return nil
		}
		after = page[len(page)-1].RootPlanID
	}
}
