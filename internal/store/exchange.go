package store

import (
	"context"
	"fmt"

	"github.com/actlog/actlog/internal/fieldsql"
	"github.com/actlog/actlog/internal/pg"
	"github.com/actlog/actlog/record"
)

// exchanges reads what root plans were asked and what they answered, cut to a number of characters. The result of a workflow is not: its
// answer stands at its end.
var exchanges = fieldsql.NewRead(`SELECT p.root_plan_id, p.current_plan_id, p.executor, left(p.error_message, $2::integer) AS error_message, CASE WHEN p.executor = 'plan' THEN p.metadata END AS metadata, left(p.user_request, $2::integer) AS user_request, 
    CASE WHEN p.summary LIKE '{"workflow_name"%' THEN p.summary ELSE left(p.summary, $2::integer) END AS summary
FROM unnest($1::text[]) AS u (id)
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = u.id AND p.current_plan_id = u.id`)

// Exchanges returns what root plans were asked, and their summaries, by their ids. Texts are cut to a number of characters, but for
// results of workflows.
func (r *Reader) Exchanges(ctx context.Context, rootPlanIDs []string, chars int) (map[string]*record.Plan, error) {
	plans, err := pg.Read(ctx, r.db, func() ([]Row, error) {
		from, err := counted(ctx, r.db, r.within, exchanges.SQL, rootPlanIDs, chars)
		if err != nil {
			return nil, err
		}
		rows, _, err := readPage(exchanges, from, record.KindPlan)
		return rows, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what plans were asked: %w", err)
	}
	all := make(map[string]*record.Plan, len(plans))
	for _, row := range plans {
		p := row.Record.(*record.Plan) //nolint:forcetypeassert // all are plans
		all[p.RootPlanID] = p
	}
	return all, nil
}
