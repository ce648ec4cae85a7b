package store

import (
	"encoding/hex"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/record"
)

// statements returns the statements that merge rows, and remembers those of each shape.
type statements struct {
	tuning        *tuning
	partitionDays int

	mu  sync.Mutex
	sql map[record.Kind]map[fieldsql.Shape]string
}

func newStatements(t *tuning, partitionDays int) *statements {
	return &statements{tuning: t, partitionDays: partitionDays, sql: map[record.Kind]map[fieldsql.Shape]string{}}
}

// merge queues the statements that merge rows of a kind into their table: one, but among many steps,
// those that are only rolled up, and whose latest tool call stays, have one of their own.
func (s *statements) merge(q *pgx.Batch, rows []*field.Row, a assumed) {
	kind := rows[0].Change.Kind()
	if len(rows) <= s.tuning.fewRows {
		shape := fieldsql.ShapeOf(kind, rows...)
		shape.Uncalled = !slices.ContainsFunc(rows, func(r *field.Row) bool { return !a.uncalled(r) })
		s.queue(q, shape, rows, a)
		return
	}

	var whole, uncalled []*field.Row
	for _, r := range rows {
		if a.uncalled(r) && keyOnly(r) {
			uncalled = append(uncalled, r)
		} else {
			whole = append(whole, r)
		}
	}

	if len(whole) > 0 {
		s.queue(q, fieldsql.WholeShape(kind), whole, a)
	}
	if len(uncalled) > 0 {
		s.queue(q, fieldsql.Shape{Uncalled: true}, uncalled, a)
	}
}

// uncalled reports whether a row is that of a step of which no tool call is written with it.
func (a assumed) uncalled(r *field.Row) bool {
	return a.called != nil && !a.grows && r.Change.Kind() == record.KindAgentExecution && !a.called[r.Change.Key()]
}

func (s *statements) queue(q *pgx.Batch, shape fieldsql.Shape, rows []*field.Row, a assumed) {
	kind := rows[0].Change.Kind()
	if kind != record.KindPlan && fieldsql.TableOf(kind).NamesPartition {
		shape.Placed, shape.Grows = !a.partition.IsZero(), a.grows
	}

	sql := s.of(kind, &shape)
	args := s.arguments(kind, shape, rows)
	if shape.Placed {
		args = append(args, a.partition)
	}
	q.Queue(sql, args...)
}

// latestTool queues the statement that finds the latest call of the steps of some calls.
func (s *statements) latestTool(q *pgx.Batch, calls []record.Key, a assumed) {
	steps := map[record.Key]bool{}
	var c keyColumns
	for _, call := range calls {
		if step := stepOf(call); !steps[step] {
			steps[step] = true
			c.add(step)
		}
	}

	if len(steps) > 0 {
		q.Queue(fieldsql.LatestTool, c.roots, c.ids, a.partition)
	}
}

// replace queues the statement that puts rows of a kind in place of those that traces made.
func (s *statements) replace(q *pgx.Batch, rows []*field.Row, a assumed) *pgx.QueuedQuery {
	kind := rows[0].Change.Kind()
	args := s.arguments(kind, fieldsql.TraceShape(kind), rows)
	if grows := a.grows && kind != record.KindPlan; grows {
		return q.Queue(growing[kind], append(args, a.partition)...)
	}
	return q.Queue(replacements[kind], args...)
}

// replacements are the statements for the kinds that traces make, growing those that grow roll-ups.
var replacements, growing = func() (all, grow map[record.Kind]string) {
	all, grow = map[record.Kind]string{}, map[record.Kind]string{}
	for _, kind := range []record.Kind{
		record.KindPlan, record.KindAgentExecution, record.KindThinkAct, record.KindActTool,
	} {
		all[kind], grow[kind] = fieldsql.Replace(kind, false), fieldsql.Replace(kind, true)
	}
	return all, grow
}()

// of returns the statement of a shape. If there are too many shapes, it is that of the whole
// shape, and shape becomes that.
func (s *statements) of(kind record.Kind, shape *fieldsql.Shape) string {
	s.mu.Lock()
	defer s.mu.Unlock()

	known := s.sql[kind]
	if known == nil {
		known = map[fieldsql.Shape]string{}
		s.sql[kind] = known
	}

	if known[*shape] == "" && len(known) >= s.tuning.maxShapes {
		whole := fieldsql.WholeShape(kind)
		whole.Placed, whole.Grows = shape.Placed, shape.Grows
		whole.Uncalled = shape.Uncalled
		*shape = whole
	}
	if known[*shape] == "" {
		known[*shape] = fieldsql.Merge(kind, *shape)
	}
	return known[*shape]
}

// arguments returns those of a statement of a shape: one array per column, then the cut fields,
// revisions and earlier attempts, and for plans the days of a period.
func (s *statements) arguments(kind record.Kind, shape fieldsql.Shape, rows []*field.Row) (args []any) {
	for _, f := range shape.Named(kind) {
		switch f.Type {
		case field.Int:
			args = append(args, column[int64](f, rows))
		case field.Float:
			args = append(args, column[float64](f, rows))
		case field.Bool:
			args = append(args, column[bool](f, rows))
		case field.Time:
			args = append(args, column[time.Time](f, rows))
		default:
			args = append(args, textColumn(f, rows))
		}
	}

	optional := func(literal func(*field.Row) (string, bool)) {
		texts := make([]*string, len(rows))
		for i, r := range rows {
			if text, ok := literal(r); ok {
				texts[i] = &text
			}
		}
		args = append(args, texts)
	}

	if shape.Cut {
		optional(func(r *field.Row) (string, bool) { return arrayLiteral(r.Cut), len(r.Cut) > 0 })
	}
	if shape.Revs {
		optional(func(r *field.Row) (string, bool) { return revsLiteral(r.Revs), r.Revs != nil })
	}
	if shape.Past(kind) {
		optional((*field.Row).PastJSON)
	}
	if kind == record.KindPlan {
		args = append(args, int32(s.partitionDays))
	}

	return args
}

// column returns the values of a field, nil for those that are not set.
func column[T any](f *field.Field, rows []*field.Row) []*T {
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

// textColumn is column for texts. Lists and JSON are sent as text.
func textColumn(f *field.Field, rows []*field.Row) []*string {
	out := make([]*string, len(rows))
	for i, r := range rows {
		switch v := f.In(r.Change); {
		case v.IsZero():
		case f.Type == field.Texts:
			out[i] = new(arrayLiteral(v.Interface().([]string)))
		case f.Type == field.Hashes:
			out[i] = new(hashesLiteral(v.Interface().([][]byte)))
		case f.Type == field.JSON:
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

func hashesLiteral(hashes [][]byte) string {
	b := make([]byte, 0, 2+len(hashes)*(2*content.HashBytes+6))
	b = append(b, '{')
	for i, hash := range hashes {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `"\\x`...)
		b = hex.AppendEncode(b, hash)
		b = append(b, '"')
	}
	return string(append(b, '}'))
}

func revsLiteral(revs []int64) string {
	b := []byte{'{'}
	for i, rev := range revs {
		if i > 0 {
			b = append(b, ',')
		}
		if rev == field.NoRevision {
			b = append(b, "NULL"...)
		} else {
			b = strconv.AppendInt(b, rev, 10)
		}
	}
	return string(append(b, '}'))
}

type keyColumns struct {
	roots, parents, ids []string
	seqs                []int64
}

func (c *keyColumns) add(key record.Key) {
	c.roots, c.parents = append(c.roots, key.Root), append(c.parents, key.Parent)
	c.seqs, c.ids = append(c.seqs, key.Seq), append(c.ids, key.ID)
}

func columnsOf(keys []record.Key) (c keyColumns) {
	for _, key := range keys {
		c.add(key)
	}
	return c
}
