package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

// What the rows of a trace become: those that its spans mean, in the tree that they
// belong to, beside what someone else told of them.

// project finds what the rows of a trace are from now on.
func (s *Store) project(t *trace, have map[string]map[record.Key]bool) (err error) {
	t.root = cmp.Or(t.NativeRoot, t.id)
	if t.Complete == nil { // else the spans are no more that its rows were made of
		t.Complete = new(!slices.Contains(slices.Collect(maps.Values(have[t.root])), false))
	}
	if t.large = len(t.chunks) > 0 && t.Spans+int64(t.spans) > s.maxProjected; t.large {
		t.root = orZero(t.RootPlanID)
		return nil
	}
	quiet := t.Quiet && len(t.chunks) == 0
	if t.rows, t.live, err = s.rowsOf(t.id, t.root, slices.Concat(t.earlier, t.chunks), quiet); err != nil {
		return err
	}
	if len(t.rows) == 0 {
		s.counters.tracesWithoutRows.Add(1)
	}
	t.before = min(int(t.Projected), len(t.earlier))
	t.Projected = int32(len(t.earlier) + len(t.chunks))
	if !*t.Complete {
		t.keep(have[t.root])
		return nil
	}
	homes := []string{t.id, orZero(t.RootPlanID), t.NativeRoot}
	slices.Sort(homes)
	for _, root := range slices.Compact(homes) {
		for key, shared := range have[root] {
			switch {
			case shared:
				t.shared = append(t.shared, key)
			case t.rows[key] == nil:
				t.gone = append(t.gone, key)
			}
		}
	}
	if len(t.rows) == 0 {
		t.root = ""
	}
	return nil
}

// keep leaves rows as they are that were made of spans that are no more, and with
// steps all that is beneath them: where in a step something late belongs is not known.
func (t *trace) keep(rows map[record.Key]bool) {
	t.kept = rows
	maps.DeleteFunc(t.rows, func(key record.Key, _ *record.Row) bool {
		if key.Kind == record.KindThinkAct || key.Kind == record.KindActTool {
			key = stepOf(key)
		}
		_, stands := rows[key]
		return stands
	})
}

// rowsOf gives the rows that chunks mean, in the tree of a root; live: one of them has
// not ended.
func (s *Store) rowsOf(id, root string, chunks [][]byte, quiet bool) (rows map[record.Key]*record.Row, live bool, err error) {
	changes, err := s.config.Project(id, chunks)
	if err != nil {
		return nil, false, &badTraceError{id, err}
	}
	rows = make(map[record.Key]*record.Row, len(changes))
	for _, c := range changes {
		move(c, id, root)
		live = end(c, quiet) || live
		row, err := record.NewRow(c)
		if err != nil {
			s.log.Warn("a row of a trace is left out", "key", c.Key(), "error", err)
			continue
		}
		s.price(row.Change)
		rows[c.Key()] = row
	}
	return rows, live, nil
}

// shareds is the statement of each kind that gives a row.
var shareds = map[record.Kind]string{
	record.KindPlan: db.PlanShared, record.KindAgentExecution: db.AgentExecutionShared,
	record.KindThinkAct: db.ThinkActShared, record.KindActTool: db.ActToolShared,
}

// share finds what becomes of rows that someone else told of, before or since: what the
// trace says fills what they do not. That is known by what it said before.
func (s *Store) share(ctx context.Context, tx pgx.Tx, t *trace) error {
	if len(t.shared) == 0 {
		return nil
	}
	var before map[record.Key]*record.Row
	if t.before > 0 && t.RootPlanID != nil {
		var err error
		if before, _, err = s.rowsOf(t.id, *t.RootPlanID, t.earlier[:t.before], false); err != nil {
			return err
		}
	}
	var q pgx.Batch
	for _, key := range t.shared {
		now, said := t.rows[key], before[key]
		if now == nil && said == nil {
			continue
		}
		delete(t.rows, key)
		q.Queue(shareds[key.Kind], keyArgs(key)...).Query(func(rows pgx.Rows) error {
			row, err := pgx.CollectExactlyOneRow(rows, func(rows pgx.CollectableRow) (*record.Row, error) { return toldRow(key.Kind, rows) })
			if errors.Is(err, pgx.ErrNoRows) { // made after its tree was looked for to be locked, and deleted
				return errChanged
			}
			if err != nil {
				return err
			}
			t.rows[key] = shareRow(row, said, now)
			return nil
		})
	}
	return tx.SendBatch(ctx, &q).Close()
}

// keyArgs gives a key as arguments.
func keyArgs(key record.Key) []any {
	switch key.Kind {
	case record.KindThinkAct:
		return []any{key.Root, key.Parent, key.Seq}
	case record.KindActTool:
		return []any{key.Root, key.Parent, key.Seq, key.ID}
	default:
		return []any{key.Root, key.ID}
	}
}

// shareRow gives a row on record with what a trace says now in place of what it said
// before; nil: nothing. What is on record and was not said before is someone else's.
func shareRow(on, before, now *record.Row) *record.Row {
	kind := on.Change.Kind()
	out := on.Clone()
	out.Revs = []int64{} // see upsert.Replacement
	said := func(r *record.Row, f *record.Field) reflect.Value {
		if r == nil {
			return reflect.Zero(f.In(on.Change).Type())
		}
		return f.In(r.Change)
	}
	fields := record.Fields(kind)
	for i := range fields {
		f := &fields[i]
		of := f
		if f.Of != nil {
			of = f.Of
		}
		if f.Key || f.Name == "rev" {
			continue
		}
		if is := of.In(on.Change); is.IsZero() || same(of, is, said(before, of)) {
			f.In(out.Change).Set(said(now, f))
		}
	}
	if now != nil {
		for _, name := range now.Cut {
			if !slices.Contains(out.Cut, name) {
				out.Cut = append(out.Cut, name)
			}
		}
	}
	return out
}

// same tells whether what is on record is what a trace said. Nobody else says that
// no one knows what became of it, see end.
func same(f *record.Field, on, said reflect.Value) bool {
	if said.IsZero() {
		return false
	}
	if state, ok := on.Interface().(*record.State); ok && *state == record.Unknown {
		return true
	}
	return f.Equal(on, said)
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

// end tells whether a row has not ended. Of a trace from which nothing comes any
// more, no one knows what became of it.
func end(c record.Change, quiet bool) (live bool) {
	var state **record.State
	switch c := c.(type) {
	case *record.Plan:
		state = &c.State
	case *record.AgentExecution:
		state = &c.State
	case *record.ThinkAct:
		state = &c.State
	case *record.ActTool:
		state = &c.State
	default:
		return false
	}
	switch {
	case *state == nil || (*state).Terminal():
		return false
	case quiet:
		*state = new(record.Unknown)
		return false
	}
	return true
}
