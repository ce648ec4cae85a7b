package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/upsert"
	"github.com/actlog/actlog/record"
)

// Trace is spans of one trace.
type Trace struct {
	ID    string // 32 hex digits in lower case
	Spans []byte // a chunk, as Config.Project reads it
	Count int    // how many spans it holds
}

// RejectedTracesError names the traces that cannot be kept. Those that were told
// with them are on record.
type RejectedTracesError struct{ Traces []RejectedTrace }

// RejectedTrace is a trace that cannot be kept, and why.
type RejectedTrace struct {
	ID    string
	Count int // spans
	Err   error
}

func (e *RejectedTracesError) Error() string {
	first := e.Traces[0]
	return fmt.Sprintf("%d traces cannot be kept, the first is %.32q: %v", len(e.Traces), first.ID, first.Err)
}

const (
	// maxProjected is how many spans a trace may have to be made into rows whenever one
	// comes; the rows of a larger one are made from time to time.
	maxProjected = 20_000
	// largeEvery is how often that is, for each maxProjected spans.
	largeEvery = 5 * time.Second
	// A transaction takes at most so many traces, spans and bytes.
	maxTraces     = 50
	maxTraceSpans = 1_000
	maxTraceBytes = 4 << 20
	// Of all connections so many may write traces at once: one of every traceShare.
	traceShare = 4
)

// ReplaceTraces keeps spans, and puts the rows that all spans of their traces mean
// in place of those that the former ones meant. It returns when both are committed.
// Rows are of the root plan that the trace's id names, or of a native one whose
// traceId it is. Only rows that traces made are replaced.
//
// The error is a [*RejectedTracesError] where some traces cannot be kept, and the
// others are; else as of [Store.Write]: telling the same again does no harm.
func (s *Store) ReplaceTraces(ctx context.Context, traces []Trace) error {
	if s.config.Project == nil {
		return errors.New("replacing traces: the store has no projection")
	}
	if err := s.enter(); err != nil {
		return fmt.Errorf("replacing traces: %w", err)
	}
	defer s.goroutines.Done()
	rejected := &RejectedTracesError{}
	for _, told := range groups(traces, rejected) {
		if err := s.replaceAll(ctx, told, time.Now().Add(s.config.RetryFor), rejected); err != nil {
			return fmt.Errorf("replacing traces: %w", err)
		}
	}
	if len(rejected.Traces) > 0 {
		return rejected
	}
	return nil
}

// enter keeps Close waiting until s.goroutines is told that this is done.
func (s *Store) enter() error {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if s.queue.closed {
		return record.ErrClosed
	}
	s.goroutines.Add(1)
	return nil
}

// told is what is told of a trace at once; no chunks: that its rows may be due.
type toldTrace struct {
	id     string
	chunks [][]byte
	spans  int
	bytes  int
}

// groups sorts what is told by trace, and cuts it into what a transaction takes.
func groups(traces []Trace, rejected *RejectedTracesError) (groups [][]*toldTrace) {
	byID := map[string]*toldTrace{}
	for _, t := range traces {
		if !isTraceID(t.ID) {
			rejected.Traces = append(rejected.Traces, RejectedTrace{t.ID, t.Count, errors.New("the trace id is not 32 hex digits in lower case")})
			continue
		}
		if byID[t.ID] == nil {
			byID[t.ID] = &toldTrace{id: t.ID}
		}
		of := byID[t.ID]
		of.chunks, of.spans, of.bytes = append(of.chunks, t.Spans), of.spans+t.Count, of.bytes+len(t.Spans)
	}
	spans, bytes := 0, 0
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		t := byID[id]
		spans, bytes = spans+t.spans, bytes+t.bytes
		if n := len(groups); n == 0 || len(groups[n-1]) >= maxTraces || spans > maxTraceSpans || bytes > maxTraceBytes {
			groups, spans, bytes = append(groups, nil), t.spans, t.bytes
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], t)
	}
	return groups
}

func isTraceID(id string) bool {
	return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == ""
}

// traceKey is what the advisory lock of a trace is on: the digits of its id that are
// random whoever made it.
func traceKey(id string) int64 {
	n, _ := strconv.ParseUint(id[16:], 16, 64)
	return int64(n)
}

// replaceAll replaces traces in one transaction, again and again where that may help.
// Where one cannot be kept the others are.
func (s *Store) replaceAll(ctx context.Context, told []*toldTrace, deadline time.Time, rejected *RejectedTracesError) error {
	err := s.replaceRetrying(ctx, told, deadline)
	var bad *badTraceError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad):
	case refused(err) && len(told) == 1:
		bad = &badTraceError{told[0].id, refusal(err)}
	case refused(err):
		half := len(told) / 2
		if err := s.replaceAll(ctx, told[:half], deadline, rejected); err != nil {
			return err
		}
		return s.replaceAll(ctx, told[half:], deadline, rejected)
	default:
		return translate(err)
	}
	s.log.Warn("a trace cannot be kept", "trace", bad.id, "error", err)
	i := slices.IndexFunc(told, func(t *toldTrace) bool { return t.id == bad.id })
	rejected.Traces = append(rejected.Traces, RejectedTrace{bad.id, told[i].spans, bad.err})
	if rest := slices.Delete(slices.Clone(told), i, i+1); len(rest) > 0 {
		return s.replaceAll(ctx, rest, deadline, rejected)
	}
	return nil
}

// badTraceError says that no rows can be made of a trace.
type badTraceError struct {
	id  string
	err error
}

func (e *badTraceError) Error() string { return fmt.Sprintf("trace %s: %v", e.id, e.err) }
func (e *badTraceError) Unwrap() error { return e.err }

func (s *Store) replaceRetrying(ctx context.Context, told []*toldTrace, deadline time.Time) error {
	for attempt := 0; ; attempt++ {
		err := s.replace(ctx, told)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case s.writing.Err() != nil:
			return record.ErrClosed
		case !transient(err):
			return err
		}
		s.counters.lastError.Store(time.Now().UnixNano())
		if !time.Now().Before(deadline) {
			return err
		}
		if s.again(ctx, attempt, err) != nil {
			return err
		}
	}
}

// trace is a trace while its rows are replaced.
type trace struct {
	*toldTrace
	db.TraceStatesRow
	earlier [][]byte // chunks that are kept already
	before  int      // how many of them its rows were made of
	root    string   // of the tree that its rows are in from now on; "": none
	large   bool     // its rows are not made now
	fresh   bool     // nothing of it was on record
	live    bool     // something of it has not ended
	rows    map[record.Key]*record.Row
	gone    []record.Key        // rows that are to be deleted
	shared  []record.Key        // rows that someone else told of
	kept    map[record.Key]bool // rows that stay as they are
}

// replace is one transaction. Other writers of these traces wait, so that none misses
// what another adds; every table is gone through as Write does.
func (s *Store) replace(ctx context.Context, told []*toldTrace) error {
	if err := s.room(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	defer context.AfterFunc(s.writing, cancel)()
	select {
	case s.traceWriters <- struct{}{}:
		defer func() { <-s.traceWriters }()
	case <-time.After(s.config.RetryFor):
		return fmt.Errorf("%w: no turn to write traces within %v", record.ErrUnavailable, s.config.RetryFor)
	case <-ctx.Done():
		return ctx.Err()
	}
	b, start := (*batch)(nil), time.Now()
	put := func(copying bool) error {
		return s.transact(ctx, func(tx pgx.Tx) error {
			traces, have, err := s.readTraces(ctx, tx, told)
			if err != nil {
				return err
			}
			if traces = slices.DeleteFunc(traces, func(t *trace) bool { return len(t.chunks) == 0 && t.DueSeconds > 0 }); len(traces) == 0 {
				return nil
			}
			for _, t := range traces {
				if err := s.project(t, have); err != nil {
					return err
				}
				if err := s.share(ctx, tx, t); err != nil {
					return err
				}
			}
			b, err = s.writeTraces(ctx, tx, traces, copying)
			return err
		})
	}
	err := put(true)
	if notCopied(err) {
		err = put(false)
	}
	if err == nil && b != nil {
		s.changed()
		s.counters.committed(b, time.Since(start))
	}
	return err
}

// readTraces locks traces, and reads what there is of them: their chunks, and the
// keys of the rows in their trees, by root: false where these chunks alone told of the
// row.
func (s *Store) readTraces(ctx context.Context, tx pgx.Tx, told []*toldTrace) (traces []*trace, have map[string]map[record.Key]bool, err error) {
	ids, keys, most := make([]string, len(told)), make([]int64, len(told)), s.maxProjected
	byID := map[string]*trace{}
	for i, t := range told {
		ids[i], keys[i] = t.id, traceKey(t.id)
		traces = append(traces, &trace{toldTrace: t})
		byID[t.id] = traces[i]
		if len(t.chunks) == 0 {
			most = 1 << 62
		}
	}
	slices.Sort(keys)
	var q pgx.Batch
	q.Queue(db.PlanLockTable)
	q.Queue(db.TraceLock, keys)
	q.Queue(db.TraceLockRoots, ids)
	q.Queue(db.TraceHold, ids)
	q.Queue(db.TraceStates, s.config.TraceQuiet.Seconds(), ids).Query(func(rows pgx.Rows) error {
		states, err := pgx.CollectRows(rows, pgx.RowToStructByPos[db.TraceStatesRow])
		for _, st := range states {
			byID[st.TraceID].TraceStatesRow = st
		}
		return err
	})
	if err := tx.SendBatch(ctx, &q).Close(); err != nil {
		return nil, nil, err
	}
	known := ids[:0:0]
	for _, t := range traces {
		if t.fresh = t.Complete == nil && !t.Rooted && t.NativeRoot == ""; !t.fresh {
			known = append(known, t.id)
		}
	}
	if len(known) == 0 {
		return traces, nil, nil
	}
	q = pgx.Batch{}
	q.Queue(db.TraceChunks, known, most).Query(func(rows pgx.Rows) error {
		var id string
		var chunk []byte
		_, err := pgx.ForEachRow(rows, []any{&id, &chunk}, func() error {
			byID[id].earlier = append(byID[id].earlier, chunk)
			chunk = nil
			return nil
		})
		return err
	})
	have = map[string]map[record.Key]bool{}
	q.Queue(db.TraceRows, known).Query(func(rows pgx.Rows) error {
		var key record.Key
		var shared bool
		_, err := pgx.ForEachRow(rows, []any{&key.Kind, &key.Root, &key.Parent, &key.Seq, &key.ID, &shared}, func() error {
			if have[key.Root] == nil {
				have[key.Root] = map[record.Key]bool{}
			}
			have[key.Root][key] = shared
			return nil
		})
		return err
	})
	return traces, have, tx.SendBatch(ctx, &q).Close()
}

// replacements is the statement of each kind that traces tell of.
var replacements = map[record.Kind]string{
	record.KindPlan: db.PlanReplace, record.KindAgentExecution: db.AgentExecutionReplace,
	record.KindThinkAct: db.ThinkActReplace, record.KindActTool: db.ActToolReplace,
}

// writeTraces writes what differs of the rows that it gives.
func (s *Store) writeTraces(ctx context.Context, tx pgx.Tx, traces []*trace, copying bool) (*batch, error) {
	b := &batch{rows: map[record.Key]*record.Row{}, roots: changes{}}
	gone := map[record.Kind][]record.Key{}
	certain := changes{} // trees that are new
	for _, t := range traces {
		if maps.Copy(b.rows, t.rows); t.fresh {
			for key := range t.rows {
				certain.add(key.Root, key.Kind)
			}
		}
		for _, key := range t.gone {
			gone[key.Kind] = append(gone[key.Kind], key)
		}
	}
	for _, row := range slices.Collect(maps.Values(b.rows)) {
		b.placeholder(rootKey(row.Change.Key().Root))
		b.addParents(row.Change)
	}
	for _, t := range traces {
		maps.DeleteFunc(b.rows, func(key record.Key, _ *record.Row) bool { _, ok := t.kept[key]; return ok })
	}
	var q pgx.Batch
	changed := changes{}
	deleteDetail(&q, changed, gone, b)
	passes := b.passes()
	replace := func(rows []*record.Row) {
		kind := rows[0].Change.Kind()
		changed.returning(&q, kind, replacements[kind], s.arguments(kind, upsert.Projected(kind), rows)...)
	}
	if copying && len(b.rows) >= s.manyRows && len(passes[0]) > 0 {
		trees := newTrees{}
		replace(passes[0])
		trees.queueNew(&q, passes[0])
		if err := tx.SendBatch(ctx, &q).Close(); err != nil {
			return nil, err
		}
		for key := range b.rows {
			if _, ok := trees[key.Root]; ok {
				changed.add(key.Root, key.Kind)
			}
		}
		left, err := trees.copy(ctx, tx, otlp, passes[1:])
		if err != nil {
			return nil, err
		}
		q, passes = pgx.Batch{}, left
	}
	for _, rows := range passes {
		if len(rows) > 0 {
			replace(rows)
		}
	}
	if err := s.rollUpOthers(&q, changed, gone, b); err != nil {
		return nil, err
	}
	if keys := gone[record.KindAgentExecution]; len(keys) > 0 {
		changed.returning(&q, Deleted, db.TraceDeleteSteps, keyColumns(keys)...)
	}
	if keys := gone[record.KindPlan]; len(keys) > 0 {
		subs := slices.DeleteFunc(slices.Clone(keys), func(key record.Key) bool { return key.ID == key.Root })
		changed.returning(&q, Deleted, db.TraceDeletePlans, keyColumns(subs)...)
		roots := slices.DeleteFunc(slices.Clone(keys), func(key record.Key) bool { return key.ID != key.Root })
		changed.returning(&q, Deleted, db.TraceDeletePlans, keyColumns(roots)...)
	}
	s.queueTraces(&q, traces)
	if len(certain) > 0 {
		q.Queue(db.ChangeAppend, certain.columns()...)
	}
	if err := tx.SendBatch(ctx, &q).Close(); err != nil {
		return nil, err
	}
	maps.DeleteFunc(changed, func(root string, kinds map[record.Kind]bool) bool { return certain[root] != nil && !kinds[Deleted] })
	if len(changed) == 0 {
		return b, nil
	}
	_, err := tx.Exec(ctx, db.ChangeAppend, changed.columns()...)
	return b, err
}

// returning queues a statement that gives the roots of the rows that it wrote.
func (c changes) returning(q *pgx.Batch, kind record.Kind, sql string, args ...any) {
	q.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		var root string
		_, err := pgx.ForEachRow(rows, []any{&root}, func() error {
			c.add(root, kind)
			return nil
		})
		return err
	})
}

// deleteDetail deletes tool calls and cycles.
func deleteDetail(q *pgx.Batch, changed changes, gone map[record.Kind][]record.Key, b *batch) {
	if keys := gone[record.KindActTool]; len(keys) > 0 {
		calls := map[[2]string]bool{} // those that stand somewhere, by root
		for key := range b.rows {
			if key.Kind == record.KindActTool {
				calls[[2]string{key.Root, key.ID}] = true
			}
		}
		moved := make([]bool, len(keys))
		for i, key := range keys {
			moved[i] = calls[[2]string{key.Root, key.ID}]
		}
		roots, steps, seqs, ids := detailColumns(keys)
		changed.returning(q, Deleted, db.TraceDeleteActTools, roots, steps, seqs, ids, moved)
	}
	if keys := gone[record.KindThinkAct]; len(keys) > 0 {
		roots, steps, seqs, _ := detailColumns(keys)
		changed.returning(q, Deleted, db.TraceDeleteThinkActs, roots, steps, seqs)
	}
}

// rollUpOthers rolls up the steps that are not replaced, and may outlive what was
// beneath them.
func (s *Store) rollUpOthers(q *pgx.Batch, changed changes, gone map[record.Kind][]record.Key, b *batch) error {
	steps := map[record.Key]bool{}
	for _, key := range slices.Concat(gone[record.KindThinkAct], gone[record.KindActTool]) {
		if step := stepOf(key); b.rows[step] == nil {
			steps[step] = true
		}
	}
	if len(steps) == 0 {
		return nil
	}
	rows := make([]*record.Row, 0, len(steps))
	for key := range steps {
		changed.add(key.Root, key.Kind)
		rows = append(rows, record.Placeholder(&record.AgentExecution{RootPlanID: key.Root, StepID: key.ID}))
	}
	sql, args, err := s.upsert(rows, time.Time{})
	if err != nil {
		return err
	}
	q.Queue(sql, args...)
	return nil
}

// keyColumns gives the roots and the ids of keys, as arguments.
func keyColumns(keys []record.Key) []any {
	roots, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		roots[i], ids[i] = key.Root, key.ID
	}
	return []any{roots, ids}
}

func detailColumns(keys []record.Key) (roots, steps []string, seqs []int64, ids []string) {
	for _, key := range keys {
		roots, steps, seqs, ids = append(roots, key.Root), append(steps, key.Parent), append(seqs, key.Seq), append(ids, key.ID)
	}
	return roots, steps, seqs, ids
}

// queueTraces keeps the spans.
func (s *Store) queueTraces(q *pgx.Batch, traces []*trace) {
	var ids, of []string
	var roots []*string
	var spans []int64
	var due []*float64
	var complete []bool
	var projected []int32
	var chunks [][]byte
	for _, t := range traces {
		ids, spans, complete = append(ids, t.id), append(spans, int64(t.spans)), append(complete, *t.Complete)
		projected = append(projected, t.Projected)
		var root *string
		if t.root != "" {
			root = &t.root
		}
		roots = append(roots, root)
		var in *float64
		switch {
		case t.large:
			in = new(min(t.DueSeconds, largeEvery.Seconds()*float64(t.Spans+int64(t.spans))/maxProjected))
		case t.live:
			in = new(s.config.TraceQuiet.Seconds())
		}
		due = append(due, in)
		for _, c := range t.chunks {
			of, chunks = append(of, t.id), append(chunks, c)
		}
	}
	q.Queue(db.TraceKeep, ids, roots, spans, due, complete, projected)
	if len(chunks) > 0 {
		q.Queue(db.TraceKeepSpans, of, chunks)
	}
}

// lockTraces locks the traces that root plans of a batch name, and gives their ids:
// their rows are to be made anew, for they belong to the plans' trees. Who makes them
// waits until the plans are on record.
func lockTraces(q *pgx.Batch, b *batch) (ids []string) {
	var keys []int64
	for root := range b.roots {
		if p := b.rows[rootKey(root)].Change.(*record.Plan); p.TraceID != nil && isTraceID(*p.TraceID) {
			ids, keys = append(ids, *p.TraceID), append(keys, traceKey(*p.TraceID))
		}
	}
	if len(ids) > 0 {
		slices.Sort(keys)
		q.Queue(db.PlanLockTable)
		q.Queue(db.TraceLock, keys)
	}
	return ids
}

// tracesEvery is how often traces are looked for whose rows are due.
const tracesEvery = time.Second

// keepTraces makes the rows of traces that are due, for as long as the store is open:
// those of large ones, of those from which nothing came any more, and of those that
// a native plan has named.
func (s *Store) keepTraces() {
	for pause(s.upkeep, tracesEvery) == nil {
		if err := s.replaceDue(s.upkeep); err != nil && s.upkeep.Err() == nil {
			s.counters.upkeepFailures.Add(1)
			s.log.Warn("rows of traces are made later", "error", err)
		}
	}
}

// replaceDue makes the rows of all traces that are due. One that fails does not keep
// others from their turn.
func (s *Store) replaceDue(ctx context.Context) error {
	for {
		ids, err := s.reads.TraceDue(ctx, s.pool)
		if err != nil || len(ids) == 0 {
			return err
		}
		var errs []error
		for _, id := range ids {
			err := s.replace(ctx, []*toldTrace{{id: id}})
			var bad *badTraceError
			if errors.As(err, &bad) || refused(err) {
				s.log.Warn("no rows can be made of a trace", "trace", id, "error", err)
				err = s.reads.TracePostpone(ctx, s.pool, id)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("trace %s: %w", id, err))
			}
		}
		if err := errors.Join(errs...); err != nil || ctx.Err() != nil {
			return err
		}
	}
}
