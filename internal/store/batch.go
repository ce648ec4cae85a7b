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
	roots map[string]map[record.Kind]bool
	steps map[record.Key]bool // whose cycles or tool calls are written
	known *known

	folded int // changes that met another one
}

func newBatch(entries []*entry, known *known) *batch {
	b := &batch{
		known: known,
		rows:  make(map[record.Key]*record.Row, 2*len(entries)),
		roots: map[string]map[record.Kind]bool{},
		steps: map[record.Key]bool{},
	}
	shared := map[record.Key]bool{} // rows that are still an entry's own
	for _, e := range entries {
		key := e.row.Change.Key()
		if r, ok := b.rows[key]; !ok {
			b.rows[key] = e.row
			shared[key] = true
		} else {
			if shared[key] { // an entry may have to be written again, alone
				r = r.Clone()
				b.rows[key] = r
				delete(shared, key)
			}
			r.Learn(e.row)
			b.folded++
		}
		if b.roots[key.Root] == nil {
			b.roots[key.Root] = map[record.Kind]bool{}
		}
		b.roots[key.Root][key.Kind] = true
	}
	for _, e := range entries {
		b.addParents(e.row.Change)
	}
	return b
}

// addParents makes placeholders for what the change's row refers to.
func (b *batch) addParents(c record.Change) {
	key := c.Key()
	plan := func(id string) {
		if id != "" && id != key.Root { // the root plan is made before all else
			b.placeholder(&record.Plan{RootPlanID: key.Root, CurrentPlanID: id})
		}
	}
	step := func(id string) {
		s := &record.AgentExecution{RootPlanID: key.Root, StepID: id}
		b.placeholder(s)
		b.steps[s.Key()] = true
	}
	switch c := c.(type) {
	case *record.Plan:
		if c.ParentPlanID != nil {
			plan(*c.ParentPlanID)
		}
	case *record.AgentExecution:
		plan(c.PlanID)
	case *record.ThinkAct:
		step(c.StepID)
	case *record.ActTool:
		step(c.StepID)
		b.placeholder(&record.ThinkAct{RootPlanID: c.RootPlanID, StepID: c.StepID, Seq: c.Seq})
	default: // thoughts, artifacts, sources and waits belong to a plan
		plan(key.Parent)
	}
}

func (b *batch) placeholder(c record.Change) {
	if _, told := b.rows[c.Key()]; !told && !b.known.has(c.Key()) {
		b.rows[c.Key()] = record.Placeholder(c)
	}
}

// toLock gives the steps that have to be locked before they are written to, in their
// order: none where the upsert does it, which has all that are rolled up.
func (b *batch) toLock() []record.Key {
	steps := maps.Clone(b.steps)
	maps.DeleteFunc(steps, func(key record.Key, _ bool) bool { return b.rows[key] != nil })
	if len(steps) == 0 {
		return nil
	}
	maps.Copy(steps, b.steps)
	for key := range b.rows {
		if key.Kind == record.KindAgentExecution {
			steps[key] = true
		}
	}
	return slices.SortedFunc(maps.Keys(steps), record.Key.Compare)
}

// keyColumns gives the roots and the ids of keys, as arguments.
func keyColumns(keys []record.Key) []any {
	roots, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		roots[i], ids[i] = key.Root, key.ID
	}
	return []any{roots, ids}
}

// send writes entries in one round trip: a batch without begin and commit is one
// implicit transaction. Every table is gone through once, in the order of its
// key, so that two writers never wait for each other in a ring. Locks are waited
// for as long as the connection says, or as lockTimeout does.
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
	b, start := newBatch(entries, &s.known), time.Now()
	sorted := map[record.Kind][]*record.Row{}
	for key, r := range b.rows {
		sorted[key.Kind] = append(sorted[key.Kind], r)
	}
	roots := slices.Sorted(maps.Keys(b.roots))

	var q pgx.Batch
	if lockTimeout > 0 {
		q.Queue("SELECT set_config('lock_timeout', $1, true)", strconv.FormatInt(lockTimeout.Milliseconds(), 10))
	}
	// Also where all roots are known: by the lock that this takes on the table of plans,
	// before any other, DeletePlan keeps writers out.
	unknown := slices.DeleteFunc(slices.Clone(roots), func(root string) bool { return s.known.has(rootKey(root)) })
	q.Queue(db.PlanRoots, int32(s.config.PartitionDays), unknown)
	for _, kind := range record.Kinds {
		rows := sorted[kind]
		if kind == record.KindAgentExecution {
			if lock := b.toLock(); len(lock) > 0 {
				q.Queue(db.AgentExecutionLock, keyColumns(lock)...)
			}
		}
		if len(rows) == 0 {
			continue
		}
		slices.SortFunc(rows, func(x, y *record.Row) int { return x.Change.Key().Compare(y.Change.Key()) })
		sql, args, err := s.upsert(kind, rows)
		if err != nil {
			return err
		}
		q.Queue(sql, args...)
	}
	if len(b.steps) > 0 {
		q.Queue(db.AgentExecutionRollUp, keyColumns(slices.SortedFunc(maps.Keys(b.steps), record.Key.Compare))...)
	}
	kinds := make([]string, len(roots))
	for i, root := range roots {
		var names []string
		for _, kind := range record.Kinds {
			if b.roots[root][kind] {
				names = append(names, string(kind))
			}
		}
		kinds[i] = strings.Join(names, ",")
	}
	q.Queue(db.ChangeAppend, roots, kinds)
	if err := s.pool.SendBatch(ctx, &q).Close(); err != nil {
		s.counters.lastError.Store(time.Now().UnixNano())
		s.known.forget()
		return err
	}
	s.known.add(b)
	s.counters.committed(b, time.Since(start))
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
	fewRows int

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
	if known[*shape] == "" && len(known) >= maxShapes {
		*shape = upsert.Whole(kind)
	}
	if sql := known[*shape]; sql != "" {
		return sql, nil
	}
	sql, err := upsert.Statement(kind, *shape)
	known[*shape] = sql
	return sql, err
}

// upsert gives the statement that writes rows, and its arguments: an array a
// column, then the cut fields and revisions.
func (s *Store) upsert(kind record.Kind, rows []*record.Row) (sql string, args []any, err error) {
	shape := upsert.Whole(kind)
	if len(rows) <= s.statements.fewRows {
		shape = shapeOf(kind, rows)
	}
	if sql, err = s.statements.of(kind, &shape); err != nil {
		return "", nil, err
	}
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
	return sql, args, nil
}

func shapeOf(kind record.Kind, rows []*record.Row) (shape upsert.Shape) {
	fields := record.Fields(kind)
	for _, r := range rows {
		shape.Revs = shape.Revs || r.Revs != nil
		shape.Cut = shape.Cut || len(r.Cut) > 0
		for i := range fields {
			if f := &fields[i]; !f.Key && f.Name != "rev" && !f.In(r.Change).IsZero() {
				shape.Fields |= 1 << i
				shape.Revs = shape.Revs || f.Rule == record.Attempt // a higher one forgets them
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
