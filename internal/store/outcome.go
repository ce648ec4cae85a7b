package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/actlog/actlog/internal/fieldsql"
	"github.com/actlog/actlog/internal/pg"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

// Outcome is what the steps of a plan came to, and the tool calls in them, in their order. Of their texts it has the beginnings.
type Outcome struct {
	Steps []*record.AgentExecution
	Calls []*record.ActTool
	// More reports that there are more than [MaxOutcome] steps or calls.
	More bool
}

// MaxOutcome bounds the steps, and the calls, of an [Outcome].
const MaxOutcome = 200

// outcome reads the steps of a plan and the tool calls in them. $1 is the root, $2 the plan, $3 how many characters of texts are read and $4 how
// many rows of each kind.
var outcome = fieldsql.NewRead(fieldsql.Union(
	fieldsql.Section{
		Kind:    record.KindAgentExecution,
		Columns: begun(record.KindAgentExecution, "a", "agent_description", "result", "error_message"),
		From: `FROM (
    SELECT * FROM actlog.agent_execution_record AS a
    WHERE a.root_plan_id = $1::text AND a.plan_id = $2::text
    ORDER BY a.step_index NULLS LAST, a.start_time, a.step_id
    LIMIT $4::integer
) AS a`,
	},
	fieldsql.Section{
		Kind:    record.KindActTool,
		Columns: begun(record.KindActTool, "t", "parameters", "result", "error_message"),
		From: `FROM (
    SELECT t.* FROM actlog.act_tool_info AS t
    JOIN actlog.agent_execution_record AS a ON a.root_plan_id = t.root_plan_id AND a.step_id = t.step_id
    WHERE t.root_plan_id = $1::text AND ` + partOfRoot + ` AND a.plan_id = $2::text
    ORDER BY a.step_index NULLS LAST, a.start_time, t.step_id, t.seq, t.call_index NULLS LAST, t.start_time, t.tool_call_id
    LIMIT $4::integer
) AS t`,
	},
))

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

// Outcome reads what a plan came to, with the first chars characters of each text.
func (r *Reader) Outcome(ctx context.Context, rootPlanID, planID string, chars int) (*Outcome, error) {
	rows, err := pg.Read(ctx, r.db, func() ([]Row, error) {
		from, err := counted(ctx, r.db, r.within, outcome.SQL, rootPlanID, planID, chars, MaxOutcome+1)
		if err != nil {
			return nil, err
		}
		rows, _, err := readPage(outcome, from, "")
		return rows, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the outcome of %s: %w", planID, err)
	}
	o := new(Outcome)
	for i := range rows {
		switch row := rows[i].Record.(type) {
		case *record.AgentExecution:
			o.Steps = append(o.Steps, row)
		case *record.ActTool:
			o.Calls = append(o.Calls, row)
		}
	}
	if o.More = len(o.Steps) > MaxOutcome || len(o.Calls) > MaxOutcome; o.More {
		o.Steps, o.Calls = o.Steps[:min(len(o.Steps), MaxOutcome)], o.Calls[:min(len(o.Calls), MaxOutcome)]
	}
	o.sort()
	return o, nil
}

// sort puts steps and calls in their order: the sections of a statement have none.
func (o *Outcome) sort() {
	slices.SortStableFunc(o.Steps, func(a, b *record.AgentExecution) int {
		return tree.CompareNullsLast(a.StepIndex, b.StepIndex, cmp.Compare[int64])
	})
	place := make(map[string]int, len(o.Steps))
	for i, s := range o.Steps {
		place[s.StepID] = i
	}
	slices.SortStableFunc(o.Calls, func(a, b *record.ActTool) int {
		return cmp.Or(cmp.Compare(place[a.StepID], place[b.StepID]), cmp.Compare(a.Seq, b.Seq), tree.CompareNullsLast(a.CallIndex, b.CallIndex, cmp.Compare[int64]))
	})
}
