package runs

import (
	"context"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// besidePage is how many rows beside a plan are read at once.
const besidePage = 1000

// Beside reads all rows of a kind beside a plan.
func Beside(
	ctx context.Context, reader *store.Reader, kind record.Kind, p *record.Plan, take func(record.Change),
) error {
	for after := new(store.Position); after != nil; {
		rows, next, err := reader.Beside(ctx, kind, p.RootPlanID, p.CurrentPlanID, *after, besidePage)
		if err != nil {
			return err
		}
		for _, each := range rows {
			take(each.Record)
		}
		after = next
	}
	return nil
}
