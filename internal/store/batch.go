package store

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/upsert"
	"github.com/actlog/actlog/record"
)

// batch is what a transaction writes: what was told about each key, folded, and
// placeholders for parents that no one has told about.
type batch struct {
	rows  map[record.Key]*record.Row
	roots changes

	assumed assumed
	trees   newTrees // those of its trees that turned out to be new

	folded int // changes that met another one
}

// changes are the kinds of rows that were written, by root.
type changes map[string]map[record.Kind]bool

func (c changes) add(root string, kind record.Kind) {
	if c[root] == nil {
		c[root] = map[record.Kind]bool{}
	}
	c[root][kind] = true
}

// columns gives them as arguments of the statement that tells the feed.
func (c changes) columns() []any {
	roots := slices.Sorted(maps.Keys(c))
	kinds := make([]string, len(roots))
	for i, root := range roots {
		kinds[i] = kindNames(c[root])
	}
	return []any{roots, kinds}
}

// kindNames names kinds in their order.
func kindNames(kinds map[record.Kind]bool) string {
	var names []string
	for _, kind := range append(slices.Clone(record.Kinds), Deleted) {
		if kinds[kind] {
			names = append(names, string(kind))
		}
	}
	return strings.Join(names, ",")
}

func newBatch(entries []*entry) *batch {
	b := &batch{
		rows:  make(map[record.Key]*record.Row, 2*len(entries)),
		roots: changes{},
	}
	own := map[*record.Row]bool{} // rows of the batch, rather than an entry's
	for _, e := range entries {
		key := e.row.Change.Key()
		b.roots.add(key.Root, key.Kind)
		r, ok := b.rows[key]
		if !ok {
			b.rows[key] = e.row
			continue
		}
		if !own[r] { // an entry may have to be written again, alone
			r = r.Clone()
			b.rows[key], own[r] = r, true
		}
		r.Learn(e.row)
		b.folded++
	}
	for root := range b.roots {
		b.placeholder(rootKey(root))
	}
	for _, e := range entries {
		b.addParents(e.row.Change)
	}
	return b
}

// addParents makes placeholders for what the change's row belongs to, beneath the root.
func (b *batch) addParents(c record.Change) {
	key := c.Key()
	plan := func(id string) {
		if id != "" && id != key.Root {
			b.placeholder(record.Key{Kind: record.KindPlan, Root: key.Root, ID: id})
		}
	}
	switch c := c.(type) {
	case *record.Plan:
		if c.ParentPlanID != nil {
			plan(*c.ParentPlanID)
		}
	case *record.AgentExecution:
		plan(c.PlanID)
	case *record.ThinkAct:
		b.placeholder(stepOf(key))
	case *record.ActTool:
		b.placeholder(stepOf(key))
		b.placeholder(cycleOf(key))
	default: // thoughts, artifacts, sources and waits belong to a plan
		plan(key.Parent)
	}
}

// placeholder stands for a plan, a step or a cycle.
func (b *batch) placeholder(key record.Key) {
	if _, told := b.rows[key]; told {
		return
	}
	var c record.Change
	switch key.Kind {
	case record.KindAgentExecution:
		c = &record.AgentExecution{RootPlanID: key.Root, StepID: key.ID}
	case record.KindThinkAct:
		c = &record.ThinkAct{RootPlanID: key.Root, StepID: key.Parent, Seq: key.Seq}
	default:
		c = &record.Plan{RootPlanID: key.Root, CurrentPlanID: key.ID}
	}
	b.rows[key] = record.Placeholder(c)
}

// passes gives the rows in the order in which they are written, each pass by one
// statement: roots, which everything else takes its partition from, and whose locks
// keep other writers off their trees; the plans beneath them; and steps after what is
// rolled up in them. Cycles that are assumed to be on record are left out. Only the
// order of the roots matters to other writers: sorted, so that no two wait for each other.
func (b *batch) passes() [][]*record.Row {
	order := []record.Kind{
		record.KindPlan, record.KindThinkAct, record.KindActTool, record.KindAgentExecution,
		record.KindThought, record.KindArtifact, record.KindSource, record.KindWait,
	}
	of := make(map[record.Kind][]*record.Row, len(order))
	var roots []*record.Row
	for key, r := range b.rows {
		switch {
		case key == rootKey(key.Root):
			roots = append(roots, r)
		case !b.assumed.cycles[key]:
			of[key.Kind] = append(of[key.Kind], r)
		}
	}
	passes := [][]*record.Row{roots}
	for _, kind := range order {
		if len(of[kind]) > 0 {
			passes = append(passes, of[kind])
		}
	}
	for _, rows := range passes {
		slices.SortFunc(rows, func(x, y *record.Row) int { return x.Change.Key().Compare(y.Change.Key()) })
	}
	return passes
}

func rootKey(root string) record.Key {
	return record.Key{Kind: record.KindPlan, Root: root, ID: root}
}

// cycleOf gives the key of the cycle of a tool call.
func cycleOf(key record.Key) record.Key {
	return record.Key{Kind: record.KindThinkAct, Root: key.Root, Parent: key.Parent, Seq: key.Seq}
}

// stepOf gives the key of the step of a cycle or a tool call.
func stepOf(key record.Key) record.Key {
	return record.Key{Kind: record.KindAgentExecution, Root: key.Root, ID: key.Parent}
}

// manyRows are worth more round trips than one, where they can be copied.
const manyRows = 64

// send writes entries in one transaction. Locks are waited for as long as the
// connection says, or as lockTimeout does.
func (s *Store) send(requests []*request, lockTimeout time.Duration) error {
	if err := s.room(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.writing, sendTimeout)
	defer cancel()
	var entries []*entry
	for _, r := range requests {
		entries = append(entries, r.entries...)
	}
	b, start := newBatch(entries), time.Now()
	if err := s.sendBatch(ctx, b, lockTimeout); err != nil {
		s.counters.lastError.Store(time.Now().UnixNano())
		return err
	}
	s.places.learn(b, s.config.PartitionDays)
	if s.few(b) {
		s.places.learnCycles(b)
	}
	s.changed()
	s.counters.committed(b, time.Since(start))
	return nil
}

// sendBatch writes a batch the likely way, and where that proves wrong the way that
// takes nothing for granted.
func (s *Store) sendBatch(ctx context.Context, b *batch, lockTimeout time.Duration) error {
	if s.places.unknown(b) >= s.manyRows {
		err := s.sendMany(ctx, b, lockTimeout)
		if notCopied(err) {
			err = s.sendFew(ctx, b, lockTimeout)
		}
		return err
	}
	if s.few(b) {
		b.assumed = s.places.of(b)
	}
	err := s.sendFew(ctx, b, lockTimeout)
	if notHeld(err) {
		s.places.doubt(b)
		b.assumed = assumed{}
		err = s.sendFew(ctx, b, lockTimeout)
	}
	return err
}

// few tells whether a batch is worth statements that do no more than they must.
func (s *Store) few(b *batch) bool { return len(b.rows) <= s.statements.fewRows }

// sendFew takes one round trip: a batch without begin and commit is one implicit
// transaction.
func (s *Store) sendFew(ctx context.Context, b *batch, lockTimeout time.Duration) error {
	var q pgx.Batch
	passes := b.passes()
	if err := s.queueRoots(&q, b, passes[0], lockTimeout); err != nil {
		return err
	}
	if err := s.queueRest(&q, b, passes[1:]); err != nil {
		return err
	}
	return s.pool.SendBatch(ctx, &q).Close()
}

// sendMany first finds which trees are new.
func (s *Store) sendMany(ctx context.Context, b *batch, lockTimeout time.Duration) error {
	b.trees = newTrees{}
	return s.transact(ctx, func(tx pgx.Tx) error {
		var roots, rest pgx.Batch
		passes := b.passes()
		if err := s.queueRoots(&roots, b, passes[0], lockTimeout); err != nil {
			return err
		}
		b.trees.queueNew(&roots, passes[0])
		if err := tx.SendBatch(ctx, &roots).Close(); err != nil {
			return err
		}
		left, err := b.trees.copy(ctx, tx, native, passes[1:])
		if err != nil {
			return err
		}
		if err := s.queueRest(&rest, b, left); err != nil {
			return err
		}
		return tx.SendBatch(ctx, &rest).Close()
	})
}

// queueRoots queues the first pass. Where root plans are not told of, and known to be
// there, they are locked only.
func (s *Store) queueRoots(q *pgx.Batch, b *batch, roots []*record.Row, lockTimeout time.Duration) error {
	if lockTimeout > 0 {
		q.Queue("SELECT set_config('lock_timeout', $1, true)", strconv.FormatInt(lockTimeout.Milliseconds(), 10))
	}
	if !b.assumed.part.IsZero() {
		q.Queue(db.PlanHold, slices.Sorted(maps.Keys(b.roots)), b.assumed.part)
		return nil
	}
	recalled := lockTraces(q, b)
	sql, args, err := s.upsert(roots, time.Time{})
	if err != nil {
		return err
	}
	if q.Queue(sql, args...); len(recalled) > 0 {
		q.Queue(db.TraceRecall, recalled)
	}
	return nil
}

// queueRest queues the other passes, and tells the feed.
func (s *Store) queueRest(q *pgx.Batch, b *batch, passes [][]*record.Row) error {
	for _, rows := range passes {
		sql, args, err := s.upsert(rows, b.assumed.part)
		if err != nil {
			return err
		}
		q.Queue(sql, args...)
	}
	q.Queue(db.ChangeAppend, b.roots.columns()...)
	return nil
}

const (
	// fewRows have a statement of their own shape: to set up that of everything takes
	// longer than they do.
	fewRows = 16
	// maxShapes bounds the shapes of a kind, whose plans each connection keeps. What
	// comes later is written by the statement of everything.
	maxShapes = 32
)

// statements makes the statements of the shapes that come by.
type statements struct {
	fewRows, maxShapes int // as the constants say, but in tests

	mu  sync.Mutex
	sql map[record.Kind]map[upsert.Shape]string
}

// of gives the statement of a shape, or of everything; shape becomes the one that
// it is for.
func (s *statements) of(kind record.Kind, shape *upsert.Shape) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.sql[kind]
	if known == nil {
		if s.sql == nil {
			s.sql = map[record.Kind]map[upsert.Shape]string{}
		}
		known = map[upsert.Shape]string{}
		s.sql[kind] = known
	}
	if known[*shape] == "" && len(known) >= s.maxShapes {
		whole := upsert.Whole(kind)
		whole.Placed = shape.Placed
		*shape = whole
	}
	if sql := known[*shape]; sql != "" {
		return sql, nil
	}
	sql, err := upsert.Statement(kind, *shape)
	known[*shape] = sql
	return sql, err
}

// upsert gives the statement that writes rows of a kind, and its arguments: an array a
// column, then the cut fields and revisions, and where the rows lie, if that is known.
func (s *Store) upsert(rows []*record.Row, part time.Time) (sql string, args []any, err error) {
	kind := rows[0].Change.Kind()
	shape := upsert.Whole(kind)
	if len(rows) <= s.statements.fewRows {
		shape = shapeOf(kind, rows)
	}
	shape.Placed = !part.IsZero() && kind != record.KindPlan && upsert.TableOf(kind).Parted
	if sql, err = s.statements.of(kind, &shape); err != nil {
		return "", nil, err
	}
	args = s.arguments(kind, shape, rows)
	if shape.Placed {
		args = append(args, part)
	}
	return sql, args, nil
}

// arguments gives those of a statement of a shape.
func (s *Store) arguments(kind record.Kind, shape upsert.Shape, rows []*record.Row) (args []any) {
	fields := record.Fields(kind)
	for _, place := range shape.Args(kind) {
		f := &fields[place]
		switch f.Type {
		case record.Int:
			args = append(args, column[int64](f, rows))
		case record.Float:
			args = append(args, column[float64](f, rows))
		case record.Bool:
			args = append(args, column[bool](f, rows))
		case record.Time:
			args = append(args, column[time.Time](f, rows))
		default:
			args = append(args, texts(f, rows))
		}
	}
	if shape.Cut {
		cut := make([]*string, len(rows))
		for i, r := range rows {
			if len(r.Cut) > 0 {
				cut[i] = new(arrayLiteral(r.Cut))
			}
		}
		args = append(args, cut)
	}
	if shape.Revs {
		revs := make([]*string, len(rows))
		for i, r := range rows {
			if r.Revs != nil {
				revs[i] = new(revsLiteral(r.Revs))
			}
		}
		args = append(args, revs)
	}
	if kind == record.KindPlan {
		args = append(args, int32(s.config.PartitionDays))
	}
	return args
}

func shapeOf(kind record.Kind, rows []*record.Row) (shape upsert.Shape) {
	fields := record.Fields(kind)
	for _, r := range rows {
		shape.Revs = shape.Revs || r.Revs != nil
		shape.Cut = shape.Cut || len(r.Cut) > 0
		for i := range fields {
			if f := &fields[i]; !f.Key && f.Name != "rev" && !f.In(r.Change).IsZero() {
				shape.Fields |= 1 << i
				if f.Rule == record.Attempt && f.In(r.Change).Elem().Int() > 1 {
					shape.Reopens, shape.Revs = true, true // it forgets them
				}
			}
		}
	}
	return shape
}

func column[T any](f *record.Field, rows []*record.Row) []*T {
	out := make([]*T, len(rows))
	for i, r := range rows {
		switch v := f.In(r.Change).Interface().(type) {
		case *T:
			out[i] = v
		case T:
			out[i] = &v
		}
	}
	return out
}

// texts gives a column of texts. Lists and JSON travel as their text.
func texts(f *record.Field, rows []*record.Row) []*string {
	out := make([]*string, len(rows))
	for i, r := range rows {
		switch v := f.In(r.Change); {
		case v.IsZero():
		case f.Type == record.Texts:
			out[i] = new(arrayLiteral(v.Interface().([]string)))
		case f.Type == record.JSON:
			out[i] = new(string(v.Bytes()))
		case v.Kind() == reflect.Pointer:
			out[i] = new(v.Elem().String())
		default:
			out[i] = new(v.String())
		}
	}
	return out
}

var arrayEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func arrayLiteral(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = `"` + arrayEscape.Replace(v) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

func revsLiteral(revs []int64) string {
	b := []byte{'{'}
	for i, rev := range revs {
		if i > 0 {
			b = append(b, ',')
		}
		if rev == record.NoRevision {
			b = append(b, "NULL"...)
		} else {
			b = strconv.AppendInt(b, rev, 10)
		}
	}
	return string(append(b, '}'))
}

// rowBytes estimates what a row takes in memory and on the wire.
func rowBytes(r *record.Row) int {
	n := 256
	fields := record.Fields(r.Change.Kind())
	for i := range fields {
		f := &fields[i]
		switch f.Type {
		case record.Text:
			s, _ := f.Text(r.Change)
			n += len(s)
		case record.JSON:
			n += f.In(r.Change).Len()
		case record.Texts:
			for _, s := range f.In(r.Change).Interface().([]string) {
				n += len(s) + 16
			}
		}
	}
	return n
}
