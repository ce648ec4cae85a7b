package store

import (
	"context"

	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// titleChars is how much of a text a skeleton has, in characters.
const titleChars = 300

// skeleton reads all rows of a tree without their texts. Its parameters are those of planTree.
var skeleton = planRead(
	fieldsql.Section{
		Kind: record.KindPlan,
		Columns: append(fieldsql.Lean(record.KindPlan, "p", titleChars, "title", "user_request"), errorText("p"),
			fieldsql.Column{Name: "part", Type: "date", SQL: "p.part"},
			fieldsql.Column{Name: "parent_step_id", Type: "text", SQL: "p.parent_step_id"},
			fieldsql.Column{Name: "placeholder", Type: "boolean", SQL: "actlog.is_placeholder(p)"},
			fieldsql.Column{
				Name: "also_under", Type: "text[]",
				SQL: "CASE WHEN p.current_plan_id = $1::text THEN (SELECT also_under FROM asked) END",
			}),
		From: `FROM actlog.plan_execution_record AS p
WHERE p.root_plan_id = (SELECT root_plan_id FROM asked)`,
	},
	fieldsql.Section{
		Kind: record.KindAgentExecution,
		Columns: append(fieldsql.Lean(record.KindAgentExecution, "a", titleChars, "agent_request"), errorText("a"),
			// That of a node of a graph is its name. Others are long, and no name.
			fieldsql.Column{
				Name: "agent_description", Type: "text",
				SQL: "CASE WHEN a.step_index > 0 AND a.metadata IS NOT NULL THEN left(a.agent_description, 300) END",
			},
			fieldsql.Column{Name: "last_seen_at", Type: "timestamptz", SQL: "a.last_seen_at"}),
		From: `FROM actlog.agent_execution_record AS a
WHERE a.root_plan_id = (SELECT root_plan_id FROM asked)`,
	},
	fieldsql.Section{
		Kind: record.KindThinkAct,
		Columns: append(fieldsql.Lean(record.KindThinkAct, "c", titleChars), errorText("c"),
			fieldsql.Column{
				Name: "fallback_from", Type: "json",
				SQL: "CASE WHEN octet_length(c.fallback_from::text) <= 8192 THEN c.fallback_from END",
			}),
		From: `FROM actlog.think_act_record AS c
WHERE c.root_plan_id = (SELECT root_plan_id FROM asked) AND c.part = $2::date`,
	},
	fieldsql.Section{
		Kind: record.KindActTool,
		Columns: append(fieldsql.Lean(record.KindActTool, "t", titleChars), errorText("t"),
			// That of a call at work. Others may have recorded more than is shown.
			fieldsql.Column{
				Name: "progress", Type: "json",
				SQL: "CASE WHEN t.told_state = 'RUNNING' AND octet_length(t.progress::text) <= 8192 THEN t.progress END",
			}),
		From: `FROM actlog.act_tool_info AS t
WHERE t.root_plan_id = (SELECT root_plan_id FROM asked) AND t.part = $2::date`,
	},
	fieldsql.Section{
		Kind:    record.KindWait,
		Columns: fieldsql.Lean(record.KindWait, "w", titleChars, "title", "form_description"),
		From: `FROM actlog.wait_state AS w
WHERE w.root_plan_id = (SELECT root_plan_id FROM asked)`,
	},
)

// errorText is the message of an error as far as it may say what happened.
func errorText(alias string) fieldsql.Column {
	return fieldsql.Column{Name: "error_message", Type: "text", SQL: "actlog.error_text(" + alias + ".error_message)"}
}

// Skeleton reads everything of a plan down to its tool calls, but without texts, in one statement: of titles,
// requests it has the beginnings, and of long errors their ends as well. [tree.Explain] finds in it what failed. The
// rest is as for
// [Reader.PlanTree].
func (r *Reader) Skeleton(ctx context.Context, rootPlanID, planID string) (*tree.Plan, error) {
	n, err := r.nodes(ctx, skeleton, rootPlanID, planID)
	if err != nil {
		return nil, err
	}

	plan := n.whole(planID)
	if plan == nil {
		return nil, record.ErrNotFound
	}
	return plan, nil
}
