package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/record"
)

// exchanges reads what root plans were asked and what they answered, cut to a number of characters; envelopes, in which
// six may stand for one, to more. The answer of a workflow stands at the end of its envelope: of a long one, that is
// all it reads. Of the metadata of a task, it only says that there are constraints.
var exchanges = fieldsql.NewRead(`SELECT p.root_plan_id, p.current_plan_id, p.executor,
    left(p.error_message, $2::integer) AS error_message,
    CASE WHEN p.executor = 'plan' AND p.metadata -> 'constraints' IS NOT NULL
        THEN '{"constraints":{}}'::json
    END AS metadata,
    left(p.user_request, $2::integer) AS user_request,
    CASE WHEN e.behind > 0 THEN '` + longWorkflow + `' || left(right(p.summary, e.behind), 6 * $2::integer)
        ELSE left(p.summary, CASE WHEN e.envelope THEN 8 ELSE 1 END * $2::integer)
    END AS summary
FROM unnest($1::text[]) AS u (id)
JOIN actlog.plan_execution_record AS p ON p.root_plan_id = u.id AND p.current_plan_id = u.id
CROSS JOIN LATERAL (
    SELECT x.name IS NOT NULL AS envelope,
        CASE WHEN x.name = 'workflow' AND length(p.summary) > 8 * $2::integer AND p.summary LIKE '%"final_output"%'
            THEN strpos(reverse(p.summary), reverse('"final_output"')) + length('"final_output"') - 1
        END AS behind -- so many characters of it
    FROM (SELECT substring(left(p.summary, 100) FROM '^\s*\{\s*"(agent|workflow)_name"') AS name) AS x
) AS e`)

// longWorkflow begins the envelope of a workflow of which only the end was read.
const longWorkflow = `{"workflow_name":"","status":"",`

// opened returns the envelope of a workflow of which only the end was read, without the ends of envelopes around it. It
// may be cut. Any other text is as it was.
func opened(summary string) string {
	var whole json.RawMessage
	if !strings.HasPrefix(summary, longWorkflow) || json.NewDecoder(strings.NewReader(summary)).Decode(&whole) != nil {
		return summary
	}
	return string(whole)
}

// Exchanges returns what root plans were asked, and their summaries, by their ids. Texts are cut to a number of
// characters, envelopes so that as many can be read.
func (r *Reader) Exchanges(ctx context.Context, rootPlanIDs []string, chars int) (map[string]*record.Plan, error) {
	plans, err := r.read(ctx, exchanges, record.KindPlan, rootPlanIDs, chars)
	if err != nil {
		return nil, fmt.Errorf("read what plans were asked: %w", err)
	}

	all := make(map[string]*record.Plan, len(plans))
	for _, row := range plans {
		p := row.Record.(*record.Plan) //nolint:forcetypeassert // all are plans
		if p.Summary != nil {
			*p.Summary = opened(*p.Summary)
		}
		all[p.RootPlanID] = p
	}
	return all, nil
}
