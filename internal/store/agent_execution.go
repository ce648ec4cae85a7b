package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

var stepDetail = sectioned{sql: db.AgentExecutionDetail}

// StepDetail reads a step with its cycles and tool calls in one statement.
// [record.ErrNotFound] where there is no such step.
func (s *Store) StepDetail(ctx context.Context, stepID string) (*tree.Step, error) {
	n, err := s.nodes(ctx, &stepDetail, stepID)
	if err != nil {
		return nil, err
	}
	if len(n.steps) == 0 {
		return nil, record.ErrNotFound
	}
	st := n.steps[0]
	st.Figures.DurationMs = tree.Duration(st.Record.StartTime, st.Record.EndTime)
	st.Truncated = record.StillCut(&st.Record, st.Truncated)
	slices.SortFunc(n.cycles, func(a, b *tree.Cycle) int { return cmp.Compare(a.Record.Seq, b.Record.Seq) })
	slices.SortFunc(n.calls, compareCalls)
	st.Cycles = n.cycles
	for _, t := range n.calls {
		t.Truncated = record.StillCut(&t.Record, t.Truncated)
	}
	calls := n.calls
	for _, c := range st.Cycles { // every call has one: it was there, or is made with the call
		c.Truncated = record.StillCut(&c.Record, c.Truncated)
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
		tree.CompareNullsLast(a.Record.StartTime, b.Record.StartTime, time.Time.Compare),
		strings.Compare(a.Record.ToolCallID, b.Record.ToolCallID),
	)
}
