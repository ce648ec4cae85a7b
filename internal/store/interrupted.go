package store

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/record"
)

// Upkeep marks the rows of silent runs INTERRUPTED with the error kind [record.NotSeen], and saves
// what it replaces. The mark is not what anybody wrote. So a transaction with signs of life of a
// marked run first puts back what was written, and then merges: the same rows result as if the mark
// had never been.

// alive returns the root plans of which a batch has signs of life, in no order: heartbeats, and
// states that settle no more than the mark, which would hide them. States that settle more replace
// the mark by themselves.
func (b *batch) alive() []string {
	roots := map[string]bool{}
	for key, r := range b.rows {
		sign := false
		switch c := r.Change.(type) {
		case *record.Plan:
			sign = c.LastSeenAt != nil || hiddenByMark(c.State, c.ErrorKind)
		case *record.AgentExecution:
			sign = hiddenByMark(c.State, c.ErrorKind)
		case *record.ThinkAct:
			sign = hiddenByMark(c.State, c.ErrorKind)
		case *record.ActTool:
			sign = hiddenByMark(c.State, c.ErrorKind)
		}
		if sign {
			roots[key.Root] = true
		}
	}
	return slices.AppendSeq(make([]string, 0, len(roots)), maps.Keys(roots))
}

// hiddenByMark reports whether a state would be lost below a mark, and is none itself.
func hiddenByMark(s *record.State, errorKind *string) bool {
	switch {
	case s == nil:
		return false
	case *s == record.Interrupted:
		return errorKind == nil || *errorKind != record.NotSeen
	default:
		return !s.Terminal() || *s == record.Unknown
	}
}

// readMarked reads into the batch whether some of its living trees are marked.
func (b *batch) readMarked(row pgx.Row) error { return row.Scan(&b.marked) }
