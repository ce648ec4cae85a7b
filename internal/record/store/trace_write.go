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

// traceWriter reads and writes what is on record of traces.
type traceWriter struct {
	*projector
	statements *statements
	said       *said
	contents   *contents
	quiet      time.Duration // see Config.TraceQuiet
}

// readTraces locks traces and reads what is on record of them: their chunks, and the keys of
// the rows in their trees, by root. The value of a key reports whether the row is shared:
// written by native records, too, or only.
func (t *traceWriter) readTraces(ctx context.Context, tx pgx.Tx, group []*incomingTrace, held map[string]*remembered) (traces []*trace, onRecord map[string]map[record.Key]bool, err error) {
	ids, keys := make([]string, len(group)), make([]int64, len(group))
	byID := map[string]*trace{}
	for i, in := range group {
		ids[i], keys[i] = in.id, traceKey(in.id)
		traces = append(traces, &trace{incomingTrace: in, known: held[in.id]})
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
			byID[st.TraceID].TraceStatesRow = st
		}
		return err
	})
	if err := tx.SendBatch(ctx, &q).Close(); err != nil {
		return nil, nil, err
	}
	var known, whole []string // that have chunks to be read; of which all rows are made
	var behind []int64
	for _, tr := range traces {
		if tr.isNew = !tr.Known && tr.RootPart.IsZero() && tr.NativeRoot == ""; tr.isNew {
			continue
		}
		all := tr.Spans + int64(tr.spans)
		large := len(tr.chunks) > 0 && all > t.tuning.maxProjected
		if tr.mayGoOn() {
			if tr.later = large && (all-tr.known.spans)*oneIsNew < all; tr.later {
				continue
			}
			tr.goesOn = true
			known, behind = append(known, tr.id), append(behind, tr.known.last)
			continue
		}
		tr.known.projection = nil
		if tr.later = large; !large {
			known, behind = append(known, tr.id), append(behind, 0)
		}
		whole = append(whole, tr.id)
	}
	if len(known)+len(whole) == 0 {
		return traces, nil, nil
	}
	q = pgx.Batch{}
	q.Queue(db.TraceChunks, known, behind).Query(func(rows pgx.Rows) error {
		var id string
		var chunk []byte
		_, err := pgx.ForEachRow(rows, []any{&id, &chunk}, func() error {
			byID[id].earlier = append(byID[id].earlier, chunk)
			chunk = nil
			return nil
		})
		return err
	})
	onRecord = map[string]map[record.Key]bool{}
	if len(whole) == 0 {
		return traces, onRecord, tx.SendBatch(ctx, &q).Close()
	}
	q.Queue(db.TraceRows, whole).Query(func(rows pgx.Rows) error {
		var key record.Key
		var shared bool
		_, err := pgx.ForEachRow(rows, []any{&key.Kind, &key.Root, &key.Parent, &key.Seq, &key.ID, &shared}, func() error {
			if onRecord[key.Root] == nil {
				onRecord[key.Root] = map[record.Key]bool{}
			}
			onRecord[key.Root][key] = shared
			return nil
		})
		return err
	})
	return traces, onRecord, tx.SendBatch(ctx, &q).Close()
}

// mayGoOn reports whether what is remembered of a trace is true of what is on record, as far as its own
// row tells.
func (t *trace) mayGoOn() bool {
	closes := t.Quiet && len(t.chunks) == 0
	return t.known.projection != nil && !closes && t.Known && t.Complete &&
		t.NativeRoot == "" && t.RootPlanID == t.id && !t.RootPart.IsZero() && t.FirstChunk == t.known.first && t.LastChunk >= t.known.last
}

// remember remembers the projection of a trace whose rows are on record, unless it came whole.
func (t *trace) remember() {
	if t.projection == nil || !t.live && t.isNew || t.FirstChunk == 0 || t.root != t.id {
		return
	}
	t.known.projection, t.known.chunks, t.known.spans = t.projection, t.Projected, t.Spans+int64(t.spans)
	t.known.first, t.known.last = t.FirstChunk, t.LastChunk
}

// goOn says where the detail of traces lies that all go on from what was remembered, if that is one
// place. Then their rows add to the roll-ups.
func goOn(traces []*trace) (a assumed) {
	for _, tr := range traces {
		if tr.later {
			continue
		}
		if !tr.goesOn || !a.part.IsZero() && !tr.RootPart.Equal(a.part) {
			return assumed{}
		}
		a = assumed{part: tr.RootPart, grows: true}
	}
	return a
}

// checkUnshared fails if a native record has written to a row that traces which go on change.
func (t *traceWriter) checkUnshared(ctx context.Context, tx pgx.Tx, traces []*trace) error {
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
		if err := tx.QueryRow(ctx, db.TraceShared, c.roots, kinds, c.parents, c.seqs, c.ids, tr.RootPart).Scan(&shared); err != nil {
			return err
		}
		if shared {
			return errForgotten
		}
	}
	return nil
}

// writeTraces writes the rows of traces that differ, deletes those that are gone, and keeps
// the spans. It returns the rows.
//
// It copies what it can if copying is set, and relies on no content that it does not send if distrusts is.
func (t *traceWriter) writeTraces(ctx context.Context, tx pgx.Tx, traces []*trace, copying, distrusts bool) (*batch, error) {
	if err := t.checkUnshared(ctx, tx, traces); err != nil {
		return nil, err
	}
	a := goOn(traces)
	b, gone := t.batchOf(traces)
	b.distrusts = distrusts
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
	passes, fresh := b.passes(a), newTrees{}
	roots, passes := passes[0], passes[1:]
	if len(roots) > 0 {
		w.returning(record.KindPlan, t.statements.replace(&w.q, roots, a))
	}
	var shared sharing
	if copying && !a.grows && len(b.rows) >= t.tuning.manyRows && len(roots) > 0 {
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
		if shared, err = t.contents.share(b, fresh).copy(ctx, tx, fresh); err != nil {
			return nil, err
		}
		if passes, err = fresh.copy(ctx, tx, otlp, passes); err != nil {
			return nil, err
		}
		w.q = pgx.Batch{}
	} else {
		shared = t.contents.share(b, nil)
	}
	shared.queue(&w.q, a.part)
	for _, rows := range passes {
		w.returning(rows[0].Change.Kind(), t.statements.replace(&w.q, rows, a))
	}
	if a.grows {
		calls := slices.DeleteFunc(slices.Collect(maps.Keys(b.rows)), func(key record.Key) bool { return key.Kind != record.KindActTool })
		t.statements.latestTool(&w.q, append(calls, gone[record.KindActTool]...), a)
	}
	if steps := w.stepsToRollUp(gone, b, a); len(steps) > 0 {
		t.statements.merge(&w.q, steps, assumed{})
	}
	w.deleteStepsAndPlans(gone)
	t.said.queue(&w.q, b, b.passes(a))
	t.keepSpans(&w.q, traces)
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
		return b, nil
	}
	var last pgx.Batch
	w.touched.Append(&last)
	return b, tx.SendBatch(ctx, &last).Close()
}

// batchOf returns the rows of traces with placeholders for their parents, without those that
// are kept as they are, and the keys of those that are gone. The parents of a trace that goes on are
// on record.
func (t *traceWriter) batchOf(traces []*trace) (b *batch, gone map[record.Kind][]record.Key) {
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
		maps.DeleteFunc(b.rows, func(key record.Key, _ *field.Row) bool { _, ok := tr.kept[key]; return ok })
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
	statement.Query(func(rows pgx.Rows) error {
		var root string
		_, err := pgx.ForEachRow(rows, []any{&root}, func() error {
			w.touched.Add(root, kind)
			return nil
		})
		return err
	})
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
			w.delete(fieldsql.RemoveCalls, c.roots, c.parents, c.seqs, c.ids, moved, a.part)
		} else {
			w.delete(db.TraceDeleteActTools, c.roots, c.parents, c.seqs, c.ids, moved)
		}
	}
	if keys := gone[record.KindThinkAct]; len(keys) > 0 {
		c := columnsOf(keys)
		w.delete(db.TraceDeleteThinkActs, c.roots, c.parents, c.seqs)
	}
}

// deleteStepsAndPlans deletes steps, then sub-plans, then root plans.
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

// keepSpans queues what keeps the spans of traces, and says when their rows are due again.
func (t *traceWriter) keepSpans(q *pgx.Batch, traces []*trace) {
	var ids, chunkIDs []string
	var roots []*string
	var spans []int64
	var due []*float64
	var complete []bool
	var projected []int32
	var chunks [][]byte
	for _, tr := range traces {
		ids, spans, complete = append(ids, tr.id), append(spans, int64(tr.spans)), append(complete, tr.Complete)
		projected = append(projected, tr.Projected)
		var root *string
		if tr.root != "" {
			root = &tr.root
		}
		roots = append(roots, root)
		var in *float64 // seconds
		switch {
		case tr.later && tr.known.projection != nil:
			in = new(min(tr.DueSeconds, tracesEvery.Seconds()))
		case tr.later:
			in = new(min(tr.DueSeconds, forgottenEvery.Seconds()*float64(tr.Spans+int64(tr.spans))))
		case tr.live:
			in = new(t.quiet.Seconds())
		}
		due = append(due, in)
		for _, chunk := range tr.chunks {
			chunkIDs, chunks = append(chunkIDs, tr.id), append(chunks, chunk)
		}
	}
	q.Queue(db.TraceKeep, ids, roots, spans, due, complete, projected)
	if len(chunks) == 0 {
		return
	}
	byID := make(map[string]*trace, len(traces))
	for _, tr := range traces {
		byID[tr.id] = tr
	}
	q.Queue(db.TraceKeepSpans, chunkIDs, chunks).Query(func(rows pgx.Rows) error {
		var trace string
		var id int64
		_, err := pgx.ForEachRow(rows, []any{&trace, &id}, func() error {
			tr := byID[trace]
			tr.FirstChunk, tr.LastChunk = cmp.Or(tr.FirstChunk, id), id
			return nil
		})
		return err
	})
}
