package store

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/record"
)

// writes is the statement of each kind.
var writes = map[record.Kind]string{
	record.KindPlan:           db.PlanWrite,
	record.KindAgentExecution: db.AgentExecutionWrite,
	record.KindThinkAct:       db.ThinkActWrite,
	record.KindActTool:        db.ActToolWrite,
	record.KindThought:        db.ThoughtWrite,
	record.KindArtifact:       db.ArtifactWrite,
	record.KindSource:         db.SourceWrite,
	record.KindWait:           db.WaitWrite,
}

// batch is what a transaction writes: what was told about each key, folded, and
// placeholders for parents that no one has told about.
type batch struct {
	rows  map[record.Key]*record.Row
	roots map[string]map[record.Kind]bool
	steps map[record.Key]bool // whose cycles or tool calls are written

	folded int // changes that met another one
}

func newBatch(entries []*entry) *batch {
	b := &batch{
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
	if _, told := b.rows[c.Key()]; !told {
		b.rows[c.Key()] = record.Placeholder(c)
	}
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
	b, start := newBatch(entries), time.Now()
	sorted := map[record.Kind][]*record.Row{}
	for key, r := range b.rows {
		sorted[key.Kind] = append(sorted[key.Kind], r)
	}
	roots := slices.Sorted(maps.Keys(b.roots))

	var q pgx.Batch
	if lockTimeout > 0 {
		q.Queue("SELECT set_config('lock_timeout', $1, true)", strconv.FormatInt(lockTimeout.Milliseconds(), 10))
	}
	q.Queue(db.PlanRoots, int32(s.config.PartitionDays), roots)
	for _, kind := range record.Kinds {
		rows := sorted[kind]
		if len(rows) == 0 {
			continue
		}
		slices.SortFunc(rows, func(x, y *record.Row) int { return x.Change.Key().Compare(y.Change.Key()) })
		q.Queue(writes[kind], columns(kind, rows)...)
	}
	if len(b.steps) > 0 {
		steps := slices.SortedFunc(maps.Keys(b.steps), record.Key.Compare)
		of := func(get func(record.Key) string) (out []string) {
			for _, k := range steps {
				out = append(out, get(k))
			}
			return out
		}
		q.Queue(db.AgentExecutionRollUp,
			of(func(k record.Key) string { return k.Root }),
			of(func(k record.Key) string { return k.ID }))
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
		return err
	}
	s.counters.committed(b, time.Since(start))
	return nil
}

// columns turns rows into the arguments of a kind's statement: an array a
// column, in the order of the kind's fields, then the cut fields and revisions.
func columns(kind record.Kind, rows []*record.Row) []any {
	var args []any
	fields := record.Fields(kind)
	for i := range fields {
		f := &fields[i]
		if f.Name == "rev" {
			continue
		}
		switch f.Type {
		case record.Int:
			args = append(args, column[int64](f, rows))
		case record.Float:
			args = append(args, column[float64](f, rows))
		case record.Time:
			args = append(args, column[time.Time](f, rows))
		default:
			args = append(args, texts(f, rows))
		}
	}
	cut, revs := make([]*string, len(rows)), make([]*string, len(rows))
	for i, r := range rows {
		if len(r.Cut) > 0 {
			cut[i] = new(arrayLiteral(r.Cut))
		}
		if r.Revs != nil {
			revs[i] = new(revsLiteral(r.Revs))
		}
	}
	return append(args, cut, revs)
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
