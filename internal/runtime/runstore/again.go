package runstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/actlog/actlog/internal/record/optional"
)

// AskedFor is what a run was asked for.
type AskedFor struct {
	RootPlanID, PlanID string
	Executor           string
	Input              json.RawMessage
	// Asked is that of [NewRun]: never nil, and {} if there is nothing.
	Asked           json.RawMessage
	Project, UserID string
	Tags            []string
	Priority        int
	ConcurrencyKey  string // empty: none
}

// AskedFor returns what a run was asked for. The error is [record.ErrNotFound] if there is none of that plan.
func (r *Reader) AskedFor(ctx context.Context, planID string) (AskedFor, error) {
	row, err := read(ctx, r.DB(), queries.RunAsked, planID)
	if err != nil {
		return AskedFor{}, fmt.Errorf("read what run %s was asked for: %w", planID, err)
	}
	return AskedFor{
		RootPlanID: row.RootPlanID, PlanID: row.PlanID, Executor: row.Executor, Input: row.Input, Asked: row.Asked,
		Project: optional.Value(row.Project), UserID: optional.Value(row.UserID), Tags: row.Tags,
		Priority: int(row.Priority), ConcurrencyKey: optional.Value(row.ConcurrencyKey),
	}, nil
}
