package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/record"
)

// Outcome is what came of the rows of a plan, in their order: of its steps, or of the tool calls in them. Of their
// texts it has the beginnings.
type Outcome[T record.Change] struct {
	Rows []T
	// More reports that there are more than [MaxOutcome].
	More bool
}

// MaxOutcome bounds the rows of an [Outcome].
const MaxOutcome = 200

// The reads of outcomes. $1 are the roots and $2 the plans, $3 is how many characters of texts are read and $4 how many
// rows of each plan.
var (
	stepOutcomes = fieldsql.NewRead("SELECT " + fieldsql.Select(
		begun(record.KindAgentExecution, "a", "agent_description", "result", "error_message"),
	) + `
FROM unnest($1::text[], $2::text[]) AS u (root_plan_id, plan_id)
CROSS JOIN LATERAL (
    SELECT *
    FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = u.root_plan_id AND a.plan_id = u.plan_id
    ORDER BY a.step_index NULLS LAST, a.start_time, a.step_id
    LIMIT $4::integer
) AS a
ORDER BY a.step_index NULLS LAST, a.start_time, a.step_id`)

	callOutcomes = fieldsql.NewRead("SELECT " + fieldsql.Select(
		begun(record.KindActTool, "t", "parameters", "result", "error_message"),
	) + `
FROM unnest($1::text[], $2::text[]) AS u (root_plan_id, plan_id)
CROSS JOIN LATERAL ( -- where the detail of the tree lies
    SELECT x.part
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = u.root_plan_id AND x.current_plan_id = u.root_plan_id
    OFFSET 0
) AS p
CROSS JOIN LATERAL (
    SELECT t.*, a.step_index, a.start_time AS step_start_time
    FROM actlog.act_tool_info AS t
    JOIN actlog.agent_execution_record AS a ON a.root_plan_id = t.root_plan_id AND a.step_id = t.step_id
    WHERE t.root_plan_id = u.root_plan_id AND t.part = p.part AND a.plan_id = u.plan_id
    ORDER BY a.step_index NULLS LAST, a.start_time, t.step_id, t.seq, t.call_index NULLS LAST, t.start_time, t.tool_call_id
    LIMIT $4::integer
) AS t
ORDER BY t.step_index NULLS LAST, t.step_start_time, t.step_id, t.seq, t.call_index NULLS LAST, t.start_time, t.tool_call_id`)
)

// begun returns the short columns of a kind, and the beginnings of some texts, of $3 characters.
func begun(kind record.Kind, alias string, texts ...string) []fieldsql.Column {
	columns := fieldsql.Lean(kind, alias, 0, texts...)
	for i := range columns {
		if slices.Contains(texts, columns[i].Name) {
			columns[i].SQL = "left(" + alias + "." + columns[i].Name + ", $3::integer)"
		}
	}
	return columns
}

// StepOutcomes reads what came of the steps of plans, each of another tree, by their root plans, with the first chars
// characters of each text.
func (r *Reader) StepOutcomes(
	ctx context.Context, plans []*record.Plan, chars int,
) (map[string]Outcome[*record.AgentExecution], error) {
	return outcomes[*record.AgentExecution](ctx, r, stepOutcomes, record.KindAgentExecution, plans, chars)
}

// CallOutcomes is for the tool calls in the steps of plans as [Reader.StepOutcomes] for the steps.
func (r *Reader) CallOutcomes(
	ctx context.Context, plans []*record.Plan, chars int,
) (map[string]Outcome[*record.ActTool], error) {
	return outcomes[*record.ActTool](ctx, r, callOutcomes, record.KindActTool, plans, chars)
}

func outcomes[T record.Change](
	ctx context.Context, r *Reader, read *fieldsql.Read, kind record.Kind, plans []*record.Plan, chars int,
) (map[string]Outcome[T], error) {
	if len(plans) == 0 {
		return map[string]Outcome[T]{}, nil
	}
	roots, ids := make([]string, len(plans)), make([]string, len(plans))
	for i, p := range plans {
		roots[i], ids[i] = p.RootPlanID, p.CurrentPlanID
	}

	rows, err := r.read(ctx, read, kind, roots, ids, chars, MaxOutcome+1)
	if err != nil {
		return nil, fmt.Errorf("read outcomes of %s: %w", kind, err)
	}

	all := make(map[string]Outcome[T], len(plans))
	for i := range rows {
		row := rows[i].Record.(T) //nolint:forcetypeassert // all are of the kind
		root := row.Key().Root
		o := all[root]
		if len(o.Rows) == MaxOutcome {
			o.More = true
		} else {
			o.Rows = append(o.Rows, row)
		}
		all[root] = o
	}
	return all, nil
}
