package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/feed"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/record"
)

const (
	// tracesEvery is how often due traces are looked for.
	tracesEvery = time.Second
	// forgottenEvery is how often the rows of a large trace are made that is not remembered, for each
	// span that it has.
	forgottenEvery = 250 * time.Microsecond
	// A large trace that is remembered has its rows made when one of so many spans is new, so that to
	// find the places of all costs little for each, or when it is due.
	oneIsNew = 50
)

// readTraces locks traces and reads what is on record of them: their chunks, and the keys of
// the rows in their trees, by root. The value of a key reports whether the row is shared:
// written by native records, too, or only.
func (t *tracer) readTraces(
	ctx context.Context, tx pgx.Tx, group []*incomingTrace, held map[string]*remembered,
) (traces []*trace, onRecord map[string]map[record.Key]bool, err error) {
	ids, keys := make([]string, len(group)), make([]int64, len(group))
	byID := map[string]*trace{}
	for i, in := range group {
		ids[i], keys[i] = in.id, traceKey(in.id)
		traces = append(traces, &trace{in: in, known: held[in.id]})
		byID[in.id] = traces[i]
	}
	slices.Sort(keys)

	var q pgx.Batch
	q.Queue(db.PlanLockTable)
	q.Queue(db.TraceLock, keys)
	q.Queue(db.TraceLockRoots, ids)
	q.Queue(db.TraceHold, ids)

	q.Queue(db.TraceStates, t.quiet.Seconds(), ids).Query(func(rows pgx.Rows) error {
		states, err := pgx.CollectRows(rows, pgx.RowToStructByPos[db.TraceStatesRow])
		for _, st := range states {
			byID[st.TraceID].state = st
		}
		return err
	})
	if err := tx.SendBatch(ctx, &q).Close(); err != nil {
		return nil, nil, err
	}

	var known, whole []string // that have chunks to be read; of which all rows are made
	var behind []int64
	for _, tr := range traces {
		if tr.isNew = !tr.state.Known && tr.state.RootPart.IsZero() && tr.state.NativeRoot == ""; tr.isNew {
			continue
		}

		all := tr.state.Spans + int64(tr.in.spans)
		large := len(tr.in.chunks) > 0 && all > t.writer.sender.tuning.maxProjected
		if tr.mayGoOn() {
			if tr.later = large && (all-tr.known.spans)*oneIsNew < all; tr.later {
				continue
			}
			tr.goesOn = true
			known, behind = append(known, tr.in.id), append(behind, tr.known.last)
			continue
		}

		tr.known.projection = nil
		if tr.later = large; !large {
			known, behind = append(known, tr.in.id), append(behind, 0)
		}
		whole = append(whole, tr.in.id)
	}
	if len(known)+len(whole) == 0 {
		return traces, nil, nil
	}

	q = pgx.Batch{}
	var id string
	var chunk []byte
	forEach(q.Queue(db.TraceChunks, known, behind), []any{&id, &chunk}, func() {
		byID[id].earlier = append(byID[id].earlier, chunk)
		chunk = nil
	})

	onRecord = map[string]map[record.Key]bool{}
	if len(whole) == 0 {
		return traces, onRecord, tx.SendBatch(ctx, &q).Close()
	}

	var key record.Key
	var shared bool
	into := []any{&key.Kind, &key.Root, &key.Parent, &key.Seq, &key.ID, &shared}
	forEach(q.Queue(db.TraceRows, whole), into, func() {
		if onRecord[key.Root] == nil {
			onRecord[key.Root] = map[record.Key]bool{}
		}
		onRecord[key.Root][key] = shared
	})
	return traces, onRecord, tx.SendBatch(ctx, &q).Close()
}

// mayGoOn reports whether what is remembered of a trace is true of what is on record, as far as its own
// row tells.
func (t *trace) mayGoOn() bool {
	st := t.state
	closes := st.Quiet && len(t.in.chunks) == 0
	return t.known.projection != nil && !closes && st.Known && st.Complete &&
		st.NativeRoot == "" && st.RootPlanID == t.in.id && !st.RootPart.IsZero() &&
		st.FirstChunk == t.known.first && st.LastChunk >= t.known.last
}

// remember remembers the projection of a trace whose rows are on record, unless it came whole.
func (t *trace) remember() {
	if t.projection == nil || !t.live && t.isNew || t.state.FirstChunk == 0 || t.root != t.in.id {
		return
	}

	t.known.projection = t.projection
	t.known.chunks = t.state.Projected
	t.known.spans = t.state.Spans + int64(t.in.spans)
	t.known.first, t.known.last = t.state.FirstChunk, t.state.LastChunk
}

// goOn says where the detail of traces lies that all go on from what was remembered, if that is one
// place. Then their rows add to the roll-ups.
func goOn(traces []*trace) (a assumed) {
	for _, tr := range traces {
		if tr.later {
			continue
		}
		if !tr.goesOn || !a.partition.IsZero() && !tr.state.RootPart.Equal(a.partition) {
			return assumed{}
		}
		a = assumed{partition: tr.state.RootPart, grows: true}
	}
	return a
}

// checkUnshared fails if a native record has written to a row that traces which go on change.
func (t *tracer) checkUnshared(ctx context.Context, tx pgx.Tx, traces []*trace) error {
	for _, tr := range traces {
		if !tr.goesOn {
			continue
		}

		var kinds []string
		var c keyColumns
		for _, key := range slices.AppendSeq(slices.Clone(tr.gone), maps.Keys(tr.rows)) {
			kinds = append(kinds, string(key.Kind))
			c.add(key)
		}

		var shared bool
		row := tx.QueryRow(ctx, db.TraceShared, c.roots, kinds, c.parents, c.seqs, c.ids, tr.state.RootPart)
		if err := row.Scan(&shared); err != nil {
			return err
		}
		if shared {
			return errForgotten
		}
	}
	return nil
}

// writeTraces writes the rows of traces that differ, deletes those that are gone, and keeps
// the spans. It returns what that found out.
func (t *tracer) writeTraces(ctx context.Context, tx pgx.Tx, traces []*trace, g givenUp) (*sent, error) {
	if err := t.checkUnshared(ctx, tx, traces); err != nil {
		return nil, err
	}

	s := t.writer.sender
	a := goOn(traces)
	a.contents = !g.memory
	b, gone := t.batchOf(traces)
	out := &sent{batch: b}
	certain := feed.Touched{} // trees that are new
	for _, tr := range traces {
		if tr.isNew {
			for key := range tr.rows {
				certain.Add(key.Root, key.Kind)
			}
		}
	}

	w := &traceWrite{touched: feed.Touched{}}
	b.refuseOwned(&w.q)
	w.deleteDetail(gone, b, a)
	fresh, passes := newTrees{}, b.passes(a)
	roots, passes := passes[0], passes[1:]
	if len(roots) > 0 {
		w.returning(record.KindPlan, s.statements.replace(&w.q, roots, a))
	}

	var shared contentPlan
	if !g.copying && !a.grows && len(b.rows) >= s.tuning.manyRows && len(roots) > 0 {
		fresh.queueNew(&w.q, roots)
		if err := tx.SendBatch(ctx, &w.q).Close(); err != nil {
			return nil, err
		}
		for key := range b.rows {
			if _, ok := fresh[key.Root]; ok {
				w.touched.Add(key.Root, key.Kind)
			}
		}

		var err error
		if shared, err = s.contents.planContents(b, a, fresh).copy(ctx, tx, fresh); err != nil {
			return nil, err
		}
		if passes, err = fresh.copy(ctx, tx, otlp, passes); err != nil {
			return nil, err
		}
		w.q = pgx.Batch{}
	} else {
		shared = s.contents.planContents(b, a, nil)
	}

	out.contents = shared.onRecord
	shared.queue(&w.q, a.partition)
	for _, rows := range passes {
		w.returning(rows[0].Change.Kind(), s.statements.replace(&w.q, rows, a))
	}
	if a.grows {
		calls := slices.Clone(gone[record.KindActTool])
		for key := range b.rows {
			if key.Kind == record.KindActTool {
				calls = append(calls, key)
			}
		}
		s.statements.latestTool(&w.q, calls, a)
	}
	if steps := w.stepsToRollUp(gone, b, a); len(steps) > 0 {
		s.statements.merge(&w.q, steps, assumed{})
	}

	w.deleteStepsAndPlans(gone)
	out.queuedTexts = s.searchMemory.queue(&w.q, b.passes(a))
	t.writeSpans(&w.q, traces)
	if len(certain) > 0 {
		certain.Append(&w.q)
	}
	if err := tx.SendBatch(ctx, &w.q).Close(); err != nil {
		return nil, err
	}

	maps.DeleteFunc(w.touched, func(root string, kinds map[record.Kind]bool) bool {
		return certain[root] != nil && !kinds[feed.Deleted]
	})
	if len(w.touched) == 0 {
		return out, nil
	}

	var last pgx.Batch
	w.touched.Append(&last)
	return out, tx.SendBatch(ctx, &last).Close()
}

// batchOf returns the rows of traces with placeholders for their parents, without those that
// are kept as they are, and the keys of those that are gone. The parents of a trace that goes on are
// on record.
func (t *tracer) batchOf(traces []*trace) (b *batch, gone map[record.Kind][]record.Key) {
	b, gone = &batch{rows: map[record.Key]*field.Row{}}, map[record.Kind][]record.Key{}
	for _, tr := range traces {
		for _, key := range tr.gone {
			gone[key.Kind] = append(gone[key.Kind], key)
		}
		maps.Copy(b.rows, tr.rows)
	}

	for _, tr := range traces {
		if tr.goesOn {
			continue
		}
		for _, row := range tr.rows {
			b.placeholder(rootKey(row.Change.Key().Root))
			b.addParents(row.Change)
		}
		maps.DeleteFunc(b.rows, func(key record.Key, _ *field.Row) bool { _, ok := tr.skipped[key]; return ok })
	}
	return b, gone
}

// traceWrite collects the statements of a transaction, and what they turn out to touch.
type traceWrite struct {
	q       pgx.Batch
	touched feed.Touched
}

// returning reads the roots that a statement returns: those of the rows that it wrote.
func (w *traceWrite) returning(kind record.Kind, statement *pgx.QueuedQuery) {
	var root string
	forEach(statement, []any{&root}, func() { w.touched.Add(root, kind) })
}

func (w *traceWrite) delete(sql string, args ...any) {
	w.returning(feed.Deleted, w.q.Queue(sql, args...))
}

// deleteDetail deletes tool calls and cycles. If the transaction grows the roll-ups, the calls are taken
// out of them.
func (w *traceWrite) deleteDetail(gone map[record.Kind][]record.Key, b *batch, a assumed) {
	if keys := gone[record.KindActTool]; len(keys) > 0 {
		calls := map[[2]string]bool{} // that stand somewhere, by root
		for key := range b.rows {
			if key.Kind == record.KindActTool {
				calls[[2]string{key.Root, key.ID}] = true
			}
		}
		moved := make([]bool, len(keys))
		for i, key := range keys {
			moved[i] = calls[[2]string{key.Root, key.ID}]
		}

		c := columnsOf(keys)
		if a.grows {
			w.delete(fieldsql.RemoveCalls, c.roots, c.parents, c.seqs, c.ids, moved, a.partition)
		} else {
			w.delete(db.TraceDeleteActTools, c.roots, c.parents, c.seqs, c.ids, moved)
		}
	}

	if keys := gone[record.KindThinkAct]; len(keys) > 0 {
		c := columnsOf(keys)
		w.delete(db.TraceDeleteThinkActs, c.roots, c.parents, c.seqs)
	}
}

func (w *traceWrite) deleteStepsAndPlans(gone map[record.Kind][]record.Key) {
	if keys := gone[record.KindAgentExecution]; len(keys) > 0 {
		c := columnsOf(keys)
		w.delete(db.TraceDeleteSteps, c.roots, c.ids)
	}

	plans := gone[record.KindPlan]
	if len(plans) == 0 {
		return
	}

	isRoot := func(key record.Key) bool { return key.ID == key.Root }
	isSub := func(key record.Key) bool { return key.ID != key.Root }
	for _, others := range []func(record.Key) bool{isRoot, isSub} {
		c := columnsOf(slices.DeleteFunc(slices.Clone(plans), others))
		w.delete(db.TraceDeletePlans, c.roots, c.ids)
	}
	if roots := columnsOf(slices.DeleteFunc(slices.Clone(plans), isSub)).roots; len(roots) > 0 {
		deleteSearched(&w.q, roots)
	}
}

// stepsToRollUp returns the steps that lost cycles or calls, and whose roll-ups are not right yet.
func (w *traceWrite) stepsToRollUp(gone map[record.Kind][]record.Key, b *batch, a assumed) (rows []*field.Row) {
	lost := gone[record.KindThinkAct]
	if !a.grows {
		lost = slices.Concat(lost, gone[record.KindActTool])
	}

	steps := map[record.Key]bool{}
	for _, key := range lost {
		if step := stepOf(key); (a.grows || b.rows[step] == nil) && !steps[step] {
			steps[step] = true
			w.touched.Add(step.Root, step.Kind)
			rows = append(rows, &field.Row{Change: &record.AgentExecution{RootPlanID: step.Root, StepID: step.ID}})
		}
	}
	return rows
}

// writeSpans queues what keeps the spans of traces, and says when their rows are due again.
func (t *tracer) writeSpans(q *pgx.Batch, traces []*trace) {
	var ids []string
	var roots []*string
	var spans []int64
	var due []*float64
	var complete []bool
	var projected []int32

	var chunkIDs []string
	var chunks [][]byte
	byID := make(map[string]*trace, len(traces))

	for _, tr := range traces {
		byID[tr.in.id] = tr
		for _, chunk := range tr.in.chunks {
			chunkIDs, chunks = append(chunkIDs, tr.in.id), append(chunks, chunk)
		}

		ids, spans = append(ids, tr.in.id), append(spans, int64(tr.in.spans))
		complete, projected = append(complete, tr.state.Complete), append(projected, tr.state.Projected)
		roots = append(roots, orNil(tr.root))

		var in *float64 // seconds
		switch {
		case tr.later && tr.known.projection != nil:
			in = new(min(tr.state.DueSeconds, tracesEvery.Seconds()))
		case tr.later:
			in = new(min(tr.state.DueSeconds, forgottenEvery.Seconds()*float64(tr.state.Spans+int64(tr.in.spans))))
		case tr.live:
			in = new(t.quiet.Seconds())
		}
		due = append(due, in)
	}

	q.Queue(db.TraceKeep, ids, roots, spans, due, complete, projected)
	if len(chunks) == 0 {
		return
	}

	var trace string
	var id int64
	forEach(q.Queue(db.TraceKeepSpans, chunkIDs, chunks), []any{&trace, &id}, func() {
		tr := byID[trace]
		tr.state.FirstChunk, tr.state.LastChunk = cmp.Or(tr.state.FirstChunk, id), id
	})
}
