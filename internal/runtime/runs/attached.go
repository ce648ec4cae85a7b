package runs

import (
	"context"

	"github.com/actlog/actlog/internal/record/store"
	"github.com/actlog/actlog/record"
)

// attachedPage is how many rows that are attached to a plan are read at once.
const attachedPage = 1000

// EachAttached reads all rows of a kind that are attached to a plan.
func EachAttached(
	ctx context.Context, reader *store.Reader, kind record.Kind, p *record.Plan, take func(record.Change),
) error {
	for after := new(store.Position); after != nil; {
		rows, next, err := reader.Attached(ctx, kind, p.RootPlanID, p.CurrentPlanID, *after, attachedPage)
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
