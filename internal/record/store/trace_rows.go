package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/trace/spans"
	"github.com/actlog/actlog/record"
)

// incomingTrace is one trace's part of a request. Without chunks it only has the trace's rows
// made, if they are due.
type incomingTrace struct {
	id     string
	chunks [][]byte
	fresh  [][]spans.Span
	spans  int
	bytes  int
}

// projector makes the rows of traces.
type projector struct {
	project  func(traceID string) Projection // nil: the store takes no traces
	prices   *prices
	tuning   *tuning
	counters *counters
	log      *slog.Logger
	sizes    content.Sizes
}

// trace is a trace while its rows are replaced.
type trace struct {
	*incomingTrace
	db.TraceStatesRow
	earlier [][]byte // chunks that are kept already
	before  int      // how many of them its rows were made of
	known   *remembered
	// projection has all spans, if the rows were made of it. goesOn says that it was remembered: then
	// earlier are the chunks behind what it knew, and rows are only those that differ.
	projection Projection
	goesOn     bool
	root       string // of the tree that its rows are in from now on; empty: none
	later      bool   // its rows are not made now
	isNew      bool   // nothing of it is on record
	live       bool   // something of it has not ended
	rows       map[record.Key]*field.Row
	gone       []record.Key        // rows that are to be deleted
	shared     []record.Key        // rows that native records wrote to as well
	kept       map[record.Key]bool // rows that stay as they are
}

// notDue reports whether nothing is to be done for the trace.
func (t *trace) notDue() bool { return len(t.chunks) == 0 && t.DueSeconds > 0 }

// badTraceError means that no rows can be made of a trace.
type badTraceError struct {
	id  string
	err error
}

func (e *badTraceError) Error() string { return fmt.Sprintf("trace %s: %v", e.id, e.err) }
func (e *badTraceError) Unwrap() error { return e.err }

// errForgotten means that what was remembered of a trace does not do. Its rows are made without.
var errForgotten = errors.New("what is remembered of a trace does not do")

// goOn finds the rows of a trace that differ from those on record, which the projection made of the
// spans that it knows and of others that have been written since.
func (p *projector) goOn(tr *trace) error {
	others := int(tr.Projected - tr.known.chunks)
	tr.projection = tr.known.take()
	if others < 0 || others > len(tr.earlier) {
		return errForgotten
	}
	add := func(kept [][]byte, fresh [][]spans.Span) ([]record.Change, []record.Key, error) {
		if err := tr.projection.Add(kept, fresh); err != nil {
			return nil, nil, &badTraceError{tr.id, err}
		}
		changed, gone := tr.projection.Changes()
		return changed, gone, nil
	}
	if _, _, err := add(tr.earlier[:others], nil); err != nil {
		return err
	}
	if tr.projection.Live() && math.IsInf(tr.DueSeconds, 1) { // it was closed, because it was quiet
		return errForgotten
	}
	changed, gone, err := add(tr.earlier[others:], tr.fresh)
	if err != nil {
		return err
	}
	tr.root, tr.gone, tr.live = tr.id, gone, tr.projection.Live()
	tr.Projected = tr.known.chunks + int32(len(tr.earlier)+len(tr.chunks))
	tr.rows = p.rowsOf(changed, tr.id, tr.id, false)
	if slices.Contains(gone, rootKey(tr.id)) {
		return errForgotten
	}
	return nil
}

// makeRows finds the rows of a trace: those that its spans mean, in the tree that they belong
// to. onRecord has the rows of the trees, by root and key, and whether each is shared.
func (p *projector) makeRows(tr *trace, onRecord map[string]map[record.Key]bool) (err error) {
	if tr.goesOn {
		return p.goOn(tr)
	}
	tr.root = cmp.Or(tr.NativeRoot, tr.id)
	if !tr.Known { // else its row says whether all spans are kept that its rows were made of
		tr.Complete = !slices.Contains(slices.Collect(maps.Values(onRecord[tr.root])), false)
	}
	if tr.later {
		tr.root = tr.RootPlanID
		return nil
	}
	tr.projection = p.project(tr.id)
	if err := tr.projection.Add(tr.earlier, tr.fresh); err != nil {
		return &badTraceError{tr.id, err}
	}
	closes := tr.Quiet && len(tr.chunks) == 0
	if closes {
		tr.projection.Close()
	}
	rows, _ := tr.projection.Changes()
	tr.rows = p.rowsOf(rows, tr.id, tr.root, closes)
	tr.live = tr.projection.Live() && !closes
	if closes || tr.root != tr.id || !tr.Complete {
		tr.projection = nil // its rows are not those on record
	}
	if len(tr.rows) == 0 {
		p.counters.tracesWithoutRows.Add(1)
	}
	tr.before = min(int(tr.Projected), len(tr.earlier))
	tr.Projected = int32(len(tr.earlier) + len(tr.chunks))
	if !tr.Complete {
		tr.keep(onRecord[tr.root])
		return nil
	}
	homes := []string{tr.id, tr.RootPlanID, tr.NativeRoot}
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

// keep leaves the rows as they are whose spans have expired. Neither are rows below a kept
// step written, because a late span can no longer be placed in it.
func (t *trace) keep(rows map[record.Key]bool) {
	t.kept = rows
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
func (p *projector) rowsOf(changes []record.Change, id, root string, closed bool) map[record.Key]*field.Row {
	rows := make(map[record.Key]*field.Row, len(changes))
	for _, c := range changes {
		move(c, id, root)
		if state := stateOf(c); closed && state != nil && *state != nil && !(*state).Terminal() {
			*state = new(record.Unknown)
		}
		row, err := field.NewRow(c)
		if err != nil {
			p.log.Warn("a row of a trace is left out", "key", c.Key(), "error", err)
			continue
		}
		p.prices.apply(row.Change)
		row.CutTexts(p.sizes)
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
func (p *projector) mergeShared(ctx context.Context, tx pgx.Tx, tr *trace) error {
	if len(tr.shared) == 0 {
		return nil
	}
	var before map[record.Key]*field.Row
	if tr.before > 0 && tr.RootPlanID != "" {
		earlier := p.project(tr.id)
		if err := earlier.Add(tr.earlier[:tr.before], nil); err != nil {
			return &badTraceError{tr.id, err}
		}
		closed := math.IsInf(tr.DueSeconds, 1) // or nothing was open
		if closed {
			earlier.Close()
		}
		changes, _ := earlier.Changes()
		before = p.rowsOf(changes, tr.id, tr.RootPlanID, closed)
	}
	var q pgx.Batch
	for _, key := range tr.shared {
		now, said := tr.rows[key], before[key]
		if now == nil && said == nil {
			continue
		}
		delete(tr.rows, key)
		q.Queue(shareds[key.Kind].SQL, keyArgs(key)...).Query(func(rows pgx.Rows) error {
			found := false
			err := readWritten(shareds[key.Kind], rows, key.Kind, func(row *field.Row) error {
				found = true
				tr.rows[key] = row.Replace(said, now)
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
