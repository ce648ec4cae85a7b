package store

import (
	"maps"
	"slices"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

// Upkeep marks the rows of silent runs INTERRUPTED with the error kind [record.NotSeen], and saves
// what it replaces. The mark is not what anybody wrote. So a transaction with signs of life of a
// marked run first puts back what was written, and then merges: the same rows result as if the mark
// had never been. An end does the same for its own row.

// news is what a change says about the mark of its row.
type news int

const (
	noNews news = iota
	// ends: the row has a state that is more final than the mark. Only its own mark was wrong, because
	// somebody may be recording how a dead run ended.
	ends
	// lives: a heartbeat, or a state that is no more final than the mark, which would hide it. The whole
	// run lives.
	lives
)

func newsOf(c record.Change) news {
	switch c := c.(type) {
	case *record.Plan:
		if c.LastSeenAt != nil {
			return lives
		}
		return newsOfState(c.State, c.ErrorKind)
	case *record.AgentExecution:
		return newsOfState(c.State, c.ErrorKind)
	case *record.ThinkAct:
		return newsOfState(c.State, c.ErrorKind)
	case *record.ActTool:
		return newsOfState(c.State, c.ErrorKind)
	}
	return noNews
}

func newsOfState(s *record.State, errorKind *string) news {
	switch {
	case s == nil, *s == record.Interrupted && errorKind != nil && *errorKind == record.NotSeen: // a mark itself
		return noNews
	case s.Terminal() && *s != record.Unknown && *s != record.Interrupted:
		return ends
	default:
		return lives
	}
}

// doubted returns the root plans of the trees in which a batch undoes marks, if there are any.
func (b *batch) doubted() []string {
	roots := map[string]bool{}
	for key, r := range b.rows {
		if newsOf(r.Change) != noNews {
			roots[key.Root] = true
		}
	}
	return slices.AppendSeq(make([]string, 0, len(roots)), maps.Keys(roots))
}

// undone says which marks a batch undoes: those of trees that live, and those of rows that ended.
func (b *batch) undone() (undo db.InterruptedUndoParams) {
	for key, r := range b.rows {
		switch newsOf(r.Change) {
		case lives:
			undo.RootPlanIds = append(undo.RootPlanIds, key.Root)
		case ends:
			step, attempt := key.Parent, int64(1)
			switch c := r.Change.(type) {
			case *record.AgentExecution:
				step, key.ID = key.ID, ""
				attempt = attemptOf(c.Attempt)
			case *record.ThinkAct:
				attempt = attemptOf(c.Attempt)
			case *record.ActTool:
				attempt = attemptOf(c.Attempt)
			}

			undo.EndedRoots, undo.Kinds = append(undo.EndedRoots, key.Root), append(undo.Kinds, string(key.Kind))
			undo.StepIds, undo.Seqs = append(undo.StepIds, step), append(undo.Seqs, key.Seq)
			undo.Ids, undo.Attempts = append(undo.Ids, key.ID), append(undo.Attempts, attempt)
		}
	}
	return undo
}

func attemptOf(n *int64) int64 {
	if n == nil {
		return 1
	}
	return *n
}
