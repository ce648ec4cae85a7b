package store

import (
	"context"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

var (
	detailStep    = filler[db.AgentExecutionDetailRow](record.KindAgentExecution, "")
	detailRollUps = rollUps[db.AgentExecutionDetailRow]("")
	detailCycle   = filler[db.AgentExecutionDetailRow](record.KindThinkAct, "C")
	detailTool    = filler[db.AgentExecutionDetailRow](record.KindActTool, "T")
)

// StepDetail reads a step with its cycles and tool calls in one statement.
// [record.ErrNotFound] where there is no such step.
func (s *Store) StepDetail(ctx context.Context, stepID string) (*tree.Step, error) {
	rows, err := read(ctx, s, func(conn db.DBTX) ([]db.AgentExecutionDetailRow, error) {
		return s.reads.AgentExecutionDetail(ctx, conn, stepID)
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, record.ErrNotFound
	}
	st := stepOfDetail(&rows[0])
	for i := range rows { // in order of cycle, then call
		r := &rows[i]
		if r.CycleRow == nil {
			break // no cycles
		}
		n := len(st.Cycles)
		if n == 0 || st.Cycles[n-1].ID != *r.CycleRow {
			st.Cycles = append(st.Cycles, cycleOfDetail(r))
			n++
		}
		if r.TID != nil {
			st.Cycles[n-1].ToolCalls = append(st.Cycles[n-1].ToolCalls, toolOfDetail(r))
		}
	}
	return st, nil
}

func stepOfDetail(r *db.AgentExecutionDetailRow) *tree.Step {
	st := &tree.Step{
		ID:     orZero(r.AgentRow),
		Record: record.AgentExecution{RootPlanID: r.RootPlanID, StepID: r.StepID},
	}
	detailStep(&st.Record, r)
	detailRollUps(st, r)
	st.Figures.DurationMs = tree.Duration(r.StartTime, r.EndTime)
	st.Truncated = record.StillCut(&st.Record, r.Truncated)
	return st
}

func cycleOfDetail(r *db.AgentExecutionDetailRow) *tree.Cycle {
	c := &tree.Cycle{ID: *r.CycleRow, Record: record.ThinkAct{RootPlanID: r.RootPlanID, StepID: r.StepID, Seq: int64(orZero(r.CSeq))}}
	detailCycle(&c.Record, r)
	c.Truncated = record.StillCut(&c.Record, r.CTruncated)
	return c
}

func toolOfDetail(r *db.AgentExecutionDetailRow) *tree.ToolCall {
	t := &tree.ToolCall{ID: *r.TID, Inferred: orZero(r.TInferred), Record: record.ActTool{
		RootPlanID: r.RootPlanID, StepID: r.StepID, Seq: int64(orZero(r.CSeq)), ToolCallID: orZero(r.TToolCallID),
	}}
	detailTool(&t.Record, r)
	t.Truncated = record.StillCut(&t.Record, r.TTruncated)
	return t
}
