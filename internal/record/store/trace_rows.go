package store

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/trace/spans"
	"github.com/actlog/actlog/record"
)

// goOn finds the rows of a trace that differ from those on record, which the projection made of the
// spans that it knows and of others that have been written since.
func (t *tracer) goOn(tr *trace) error {
	others := int(tr.state.Projected - tr.known.chunks)
	tr.projection = tr.known.take()
	if others < 0 || others > len(tr.earlier) {
		return errForgotten
	}

	add := func(kept [][]byte, fresh [][]spans.Span) ([]record.Change, []record.Key, error) {
		if err := tr.projection.Add(kept, fresh); err != nil {
			return nil, nil, &badTraceError{tr.in.id, err}
		}
		changed, gone := tr.projection.Changes()
		return changed, gone, nil
	}
	if _, _, err := add(tr.earlier[:others], nil); err != nil {
		return err
	}
	if tr.projection.Live() && math.IsInf(tr.state.DueSeconds, 1) { // it was closed, because it was quiet
		return errForgotten
	}

	changed, gone, err := add(tr.earlier[others:], tr.in.fresh)
	if err != nil {
		return err
	}
	tr.root, tr.gone = tr.in.id, gone
	tr.live = tr.projection.Live()
	tr.state.Projected = tr.known.chunks + int32(len(tr.earlier)+len(tr.in.chunks))
	tr.rows = t.rowsOf(changed, tr.in.id, tr.in.id, false)

	if slices.Contains(gone, rootKey(tr.in.id)) {
		return errForgotten
	}
	return nil
}

// makeRows finds the rows of a trace: those that its spans mean, in the tree that they belong
// to. onRecord has the rows of the trees, by root and key, and whether each is shared.
func (t *tracer) makeRows(tr *trace, onRecord map[string]map[record.Key]bool) (err error) {
	if tr.goesOn {
		return t.goOn(tr)
	}

	tr.root = cmp.Or(tr.state.NativeRoot, tr.in.id)
	if !tr.state.Known { // else its row says whether all spans are stored that its rows were made of
		tr.state.Complete = !slices.Contains(slices.Collect(maps.Values(onRecord[tr.root])), false)
	}
	if tr.later {
		tr.root = tr.state.RootPlanID
		return nil
	}

	tr.projection = t.project(tr.in.id)
	if err := tr.projection.Add(tr.earlier, tr.in.fresh); err != nil {
		return &badTraceError{tr.in.id, err}
	}
	closes := tr.state.Quiet && len(tr.in.chunks) == 0
	if closes {
		tr.projection.Close()
	}

	rows, _ := tr.projection.Changes()
	tr.rows = t.rowsOf(rows, tr.in.id, tr.root, closes)
	tr.live = tr.projection.Live() && !closes
	if closes || tr.root != tr.in.id || !tr.state.Complete {
		tr.projection = nil // its rows are not those on record
	}
	if len(tr.rows) == 0 {
		t.writer.sender.counters.tracesWithoutRows.Add(1)
	}

	tr.before = min(int(tr.state.Projected), len(tr.earlier))
	tr.state.Projected = int32(len(tr.earlier) + len(tr.in.chunks))
	if !tr.state.Complete {
		tr.skip(onRecord[tr.root])
		return nil
	}

	homes := []string{tr.in.id, tr.state.RootPlanID, tr.state.NativeRoot}
	slices.Sort(homes)
	for _, root := range slices.Compact(homes) {
		for key, shared := range onRecord[root] {
			switch {
			case shared:
				tr.shared = append(tr.shared, key)
			case tr.rows[key] == nil:
				tr.gone = append(tr.gone, key)
			}
		}
	}

	if len(tr.rows) == 0 {
		tr.root = ""
	}
	return nil
}

// skip leaves the rows as they are whose spans have expired. Neither are rows below a skipped
// step written, because a late span can no longer be placed in it.
func (t *trace) skip(rows map[record.Key]bool) {
	t.skipped = rows
	maps.DeleteFunc(t.rows, func(key record.Key, _ *field.Row) bool {
		if key.Kind == record.KindThinkAct || key.Kind == record.KindActTool {
			key = stepOf(key)
		}
		_, stands := rows[key]
		return stands
	})
}

// rowsOf returns rows of a trace by key, in the tree of a root. If the trace is closed, what has not
// ended in it is UNKNOWN.
func (t *tracer) rowsOf(changes []record.Change, id, root string, closed bool) map[record.Key]*field.Row {
	rows := make(map[record.Key]*field.Row, len(changes))
	for _, c := range changes {
		move(c, id, root)
		if state := stateOf(c); closed && state != nil && *state != nil && !(*state).Terminal() {
			*state = new(record.Unknown)
		}

		row, err := field.NewRow(c)
		if err != nil {
			t.writer.log.Warn("a row of a trace is left out", "key", c.Key(), "error", err)
			continue
		}

		t.writer.prices.apply(row.Change)
		row.CutTexts(t.writer.sender.contents.sizes)
		rows[c.Key()] = row
	}
	return rows
}

// move puts a row of a trace into the tree of another root.
func move(c record.Change, from, to string) {
	if from == to {
		return
	}

	switch c := c.(type) {
	case *record.Plan:
		c.RootPlanID = to
		if c.CurrentPlanID == from {
			c.CurrentPlanID = to
		}
		if c.ParentPlanID != nil && *c.ParentPlanID == from {
			c.ParentPlanID = &to
		}
	case *record.AgentExecution:
		c.RootPlanID = to
		if c.PlanID == from {
			c.PlanID = to
		}
	case *record.ThinkAct:
		c.RootPlanID = to
	case *record.ActTool:
		c.RootPlanID = to
	}
}

// stateOf returns the field with the state of a row that traces make.
func stateOf(c record.Change) **record.State {
	switch c := c.(type) {
	case *record.Plan:
		return &c.State
	case *record.AgentExecution:
		return &c.State
	case *record.ThinkAct:
		return &c.State
	case *record.ActTool:
		return &c.State
	}
	return nil
}

// shareds reads a row as it was written, by its key.
var shareds = map[record.Kind]*fieldsql.Read{
	record.KindPlan:           fieldsql.NewRead(fieldsql.ByKey(record.KindPlan)),
	record.KindAgentExecution: fieldsql.NewRead(fieldsql.ByKey(record.KindAgentExecution)),
	record.KindThinkAct:       fieldsql.NewRead(fieldsql.ByKey(record.KindThinkAct)),
	record.KindActTool:        fieldsql.NewRead(fieldsql.ByKey(record.KindActTool)),
}

// mergeShared finds what becomes of shared rows, which native records wrote to before or
// since: the trace fills what those do not say. What it said before is known by projecting the
// earlier spans again.
func (t *tracer) mergeShared(ctx context.Context, tx pgx.Tx, tr *trace) error {
	if len(tr.shared) == 0 {
		return nil
	}

	var before map[record.Key]*field.Row
	if tr.before > 0 && tr.state.RootPlanID != "" {
		earlier := t.project(tr.in.id)
		if err := earlier.Add(tr.earlier[:tr.before], nil); err != nil {
			return &badTraceError{tr.in.id, err}
		}
		closed := math.IsInf(tr.state.DueSeconds, 1) // or nothing was open
		if closed {
			earlier.Close()
		}
		changes, _ := earlier.Changes()
		before = t.rowsOf(changes, tr.in.id, tr.state.RootPlanID, closed)
	}

	var q pgx.Batch
	for _, key := range tr.shared {
		now, old := tr.rows[key], before[key]
		if now == nil && old == nil {
			continue
		}

		delete(tr.rows, key)
		q.Queue(shareds[key.Kind].SQL, keyArgs(key)...).Query(func(rows pgx.Rows) error {
			found := false
			err := readWritten(shareds[key.Kind], rows, key.Kind, func(row *field.Row) error {
				found = true
				tr.rows[key] = row.Replace(old, now)
				tr.rows[key].Revs = []int64{} // see fieldsql.Replace
				return nil
			})
			if err == nil && !found { // made after its tree was looked for to be locked, and deleted
				return pg.ErrChanged
			}
			return err
		})
	}
	return tx.SendBatch(ctx, &q).Close()
}
