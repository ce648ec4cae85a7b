package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/field"
	"github.com/actlog/actlog/internal/fieldsql"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

// stepDetail reads a step, its cycles and its tool calls in one statement, in rows of three
// kinds and in no order: a join of cycles and calls would send each cycle once per call. $1 is
// the step's id, $2 the part and $3 the root, as in planTree.
var stepDetail = fieldsql.NewRead(asked("agent_execution_record", "step_id", "part DESC, id DESC") + fieldsql.Union(
	fieldsql.Section{
		Kind: record.KindAgentExecution,
		Columns: append(fieldsql.Readable(record.KindAgentExecution, "a"),
			fieldsql.Column{Name: "part", Type: "date", SQL: "a.part"},
			fieldsql.Column{Name: "also_under", Type: "text[]", SQL: "(SELECT also_under FROM asked)"}),
		From: `FROM actlog.agent_execution_record AS a
WHERE a.root_plan_id = (SELECT root_plan_id FROM asked) AND a.step_id = $1::text`,
	},
	fieldsql.Section{
		Kind:    record.KindThinkAct,
		Columns: fieldsql.Readable(record.KindThinkAct, "c"),
		From: `FROM actlog.think_act_record AS c
WHERE c.root_plan_id = (SELECT root_plan_id FROM asked) AND c.step_id = $1::text AND c.part = $2::date`,
	},
	fieldsql.Section{
		Kind:    record.KindActTool,
		Columns: fieldsql.Readable(record.KindActTool, "t"),
		From: `FROM actlog.act_tool_info AS t
WHERE t.root_plan_id = (SELECT root_plan_id FROM asked) AND t.step_id = $1::text AND t.part = $2::date`,
	},
))

// StepDetail reads a step with its cycles and tool calls, in one statement. rootPlanID is the
// root that the step is under. If it is empty and several roots have a step of that id, the
// newest comes first. The error is [record.ErrNotFound] if there is no such step.
func (r *reader) StepDetail(ctx context.Context, rootPlanID, stepID string) (*tree.Step, error) {
	n, err := r.nodes(ctx, stepDetail, rootPlanID, stepID)
	if err != nil {
		return nil, err
	}
	if len(n.steps) == 0 {
		return nil, record.ErrNotFound
	}
	st := n.steps[0]
	st.Figures.DurationMs = tree.Duration(st.Record.StartTime, st.Record.EndTime)
	st.Truncated = field.StillCut(&st.Record, st.Truncated)
	slices.SortFunc(n.cycles, func(a, b *tree.Cycle) int { return cmp.Compare(a.Record.Seq, b.Record.Seq) })
	slices.SortFunc(n.calls, compareCalls)
	st.Cycles = n.cycles
	for _, t := range n.calls {
		t.Truncated = field.StillCut(&t.Record, t.Truncated)
	}
	calls := n.calls
	for _, c := range st.Cycles { // every call has one: it was there, or is made with the call
		c.Truncated = field.StillCut(&c.Record, c.Truncated)
		for len(calls) > 0 && calls[0].Record.Seq <= c.Record.Seq {
			if calls[0].Record.Seq == c.Record.Seq {
				c.ToolCalls = append(c.ToolCalls, calls[0])
			}
			calls = calls[1:]
		}
	}
	return st, nil
}

// compareCalls is the order of the tool calls of a step.
func compareCalls(a, b *tree.ToolCall) int {
	return cmp.Or(
		cmp.Compare(a.Record.Seq, b.Record.Seq),
		tree.CompareNullsLast(a.Record.CallIndex, b.Record.CallIndex, cmp.Compare),
		tree.CompareNullsLast(a.Began(), b.Began(), time.Time.Compare),
		strings.Compare(a.Record.ToolCallID, b.Record.ToolCallID),
	)
}
