package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/record"
)

// sectioned is a statement that reads a tree, or a part of one, in rows of several
// kinds: the first column tells the kind, the others are named after the fields of
// all of them. Rows go straight from the wire into the nodes of the tree.
type sectioned struct {
	sql  string
	once sync.Once
	into map[record.Kind][]target
}

// target is a column that the node of a kind has a field for.
type target struct {
	at    int
	field []int
}

// nodes is what such a statement gave, in no order.
type nodes struct {
	part   time.Time // of the tree; zero where there is none
	plans  []*planNode
	steps  []*tree.Step
	cycles []*tree.Cycle
	calls  []*tree.ToolCall
	waits  []*record.Wait
}

type planNode struct {
	tree.Plan
	ExceptionWaits bool
}

// nodes runs the statement for an id. It wants to know where the detail of the tree
// lies, so that it need not look for it in every partition: where the likely place
// was not the right one, it runs once more.
func (s *Store) nodes(ctx context.Context, of *sectioned, id string) (*nodes, error) {
	part := likelyPart(id, time.Now(), s.config.PartitionDays)
	n, err := read(ctx, s, func(conn db.DBTX) (*nodes, error) { return of.read(ctx, conn, id, part) })
	if err == nil && !n.part.IsZero() && !n.part.Equal(part) {
		part = n.part
		n, err = read(ctx, s, func(conn db.DBTX) (*nodes, error) { return of.read(ctx, conn, id, part) })
	}
	return n, err
}

// likelyPart is the period of the time that ids of ours begin with, else the
// present one.
func likelyPart(id string, now time.Time, periodDays int) time.Time {
	if _, v7, _ := strings.Cut(id, "-"); len(v7) >= 36 && v7[8] == '-' && v7[14] == '7' {
		if ms, err := strconv.ParseInt(v7[:8]+v7[9:13], 16, 64); err == nil {
			now = time.UnixMilli(ms)
		}
	}
	return periodStart(now.UTC().Truncate(24*time.Hour), periodDays)
}

func (of *sectioned) read(ctx context.Context, conn db.DBTX, id string, part time.Time) (*nodes, error) {
	rows, err := conn.Query(ctx, of.sql, id, part)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	n := new(nodes)
	d := decoder{columns: rows.FieldDescriptions(), types: rows.TypeMap()}
	for rows.Next() {
		of.once.Do(func() { of.into = columnsOf(d.columns) })
		if err := n.add(rows.RawValues(), of.into, &d); err != nil {
			return nil, err
		}
	}
	return n, rows.Err()
}

// The first two columns of every such statement.
const (
	kindColumn = iota
	partColumn // null where another row tells it
)

// add makes the node of a row.
func (n *nodes) add(row [][]byte, into map[record.Kind][]target, d *decoder) error {
	kind := record.Kind(row[kindColumn])
	var node any
	switch kind {
	case record.KindPlan:
		node = appended(&n.plans)
	case record.KindAgentExecution:
		node = appended(&n.steps)
	case record.KindThinkAct:
		node = appended(&n.cycles)
	case record.KindActTool:
		node = appended(&n.calls)
	case record.KindWait:
		node = appended(&n.waits)
	default:
		return fmt.Errorf("a row of kind %q", kind)
	}
	if raw := row[partColumn]; raw != nil {
		if err := d.set(reflect.ValueOf(&n.part).Elem(), raw, partColumn); err != nil {
			return err
		}
	}
	v := reflect.ValueOf(node).Elem()
	d.nextRow(row, into[kind])
	for _, c := range into[kind] {
		if raw := row[c.at]; raw != nil {
			if err := d.set(v.FieldByIndex(c.field), raw, c.at); err != nil {
				return err
			}
		}
	}
	return nil
}

func appended[T any](to *[]*T) *T {
	node := new(T)
	*to = append(*to, node)
	return node
}

var nodeTypes = map[record.Kind]reflect.Type{
	record.KindPlan:           reflect.TypeFor[planNode](),
	record.KindAgentExecution: reflect.TypeFor[tree.Step](),
	record.KindThinkAct:       reflect.TypeFor[tree.Cycle](),
	record.KindActTool:        reflect.TypeFor[tree.ToolCall](),
	record.KindWait:           reflect.TypeFor[record.Wait](),
}

// columnsOf finds the fields that columns are named after.
func columnsOf(columns []pgconn.FieldDescription) map[record.Kind][]target {
	into := map[record.Kind][]target{}
	for kind, node := range nodeTypes {
		for at := partColumn + 1; at < len(columns); at++ {
			if field := fieldOf(node, strings.ReplaceAll(columns[at].Name, "_", "")); field != nil {
				into[kind] = append(into[kind], target{at, field})
			}
		}
	}
	return into
}

// fieldOf finds a field of a node, of its record or of its figures by its name, in
// whatever case.
func fieldOf(node reflect.Type, name string) []int {
	same := func(s string) bool { return strings.EqualFold(s, name) }
	if f, ok := node.FieldByNameFunc(same); ok {
		return f.Index
	}
	for _, part := range []string{"Record", "Figures"} {
		outer, ok := node.FieldByName(part)
		if !ok {
			continue
		}
		if f, ok := outer.Type.FieldByNameFunc(same); ok {
			return append(slices.Clone(outer.Index), f.Index...)
		}
	}
	return nil
}

// decoder sets fields from columns. What it makes comes in few allocations: the texts
// of a row in one.
type decoder struct {
	columns []pgconn.FieldDescription
	types   *pgtype.Map
	row     strings.Builder
	texts   slab[string]
	ints    slab[int64]
	times   slab[time.Time]
}

// nextRow makes room for the texts of a row.
func (d *decoder) nextRow(row [][]byte, into []target) {
	size := 0
	for _, c := range into {
		if d.columns[c.at].DataTypeOID == pgtype.TextOID {
			size += len(row[c.at])
		}
	}
	d.row.Reset()
	d.row.Grow(size)
}

// text gives the text of a column, in the room that was made for it.
func (d *decoder) text(raw []byte) *string {
	from := d.row.Len()
	d.row.Write(raw)
	return d.texts.keep(d.row.String()[from:])
}

// set sets a field from a column that may be narrower, or of a plainer type.
// Times are UTC from here on. What comes as it does from Postgres in its own format
// is taken as it is; the rest, and what a pooler may send, is left to pgx.
func (d *decoder) set(field reflect.Value, raw []byte, at int) error {
	to := field.Addr().Interface()
	c := &d.columns[at]
	switch {
	case c.DataTypeOID == pgtype.TextOID:
		if setText(to, d.text(raw)) {
			return nil
		}
	case c.DataTypeOID == pgtype.JSONOID:
		if j, ok := to.(*json.RawMessage); ok {
			*j = slices.Clone(raw)
			return nil
		}
	case c.Format != pgx.BinaryFormatCode:
	case c.DataTypeOID == pgtype.Int4OID && len(raw) == 4:
		if d.setInt(to, int64(int32(binary.BigEndian.Uint32(raw)))) {
			return nil
		}
	case c.DataTypeOID == pgtype.Int8OID && len(raw) == 8:
		if d.setInt(to, int64(binary.BigEndian.Uint64(raw))) {
			return nil
		}
	case c.DataTypeOID == pgtype.TimestamptzOID && len(raw) == 8:
		if p, ok := to.(**time.Time); ok {
			micros := int64(binary.BigEndian.Uint64(raw))
			*p = d.times.keep(time.UnixMicro(postgresEpoch + micros).UTC())
			return nil
		}
	}
	if err := d.types.Scan(c.DataTypeOID, c.Format, raw, to); err != nil {
		return fmt.Errorf("column %s: %w", c.Name, err)
	}
	switch t := to.(type) {
	case *time.Time:
		*t = t.UTC()
	case **time.Time:
		**t = (**t).UTC()
	}
	return nil
}

// postgresEpoch is the year 2000, in microseconds since 1970.
const postgresEpoch = 946_684_800_000_000

func setText(to any, s *string) bool {
	switch to := to.(type) {
	case **string:
		*to = s
	case *string:
		*to = *s
	case **record.State:
		*to = (*record.State)(s)
	case **record.WaitType:
		*to = (*record.WaitType)(s)
	default:
		return false
	}
	return true
}

func (d *decoder) setInt(to any, i int64) bool {
	switch to := to.(type) {
	case **int64:
		*to = d.ints.keep(i)
	case *int64:
		*to = i
	default:
		return false
	}
	return true
}

// slab is room for values that are pointed to.
type slab[T any] []T

// slabSize is how many values share an allocation.
const slabSize = 64

func (s *slab[T]) keep(v T) *T {
	if len(*s) == cap(*s) {
		*s = make(slab[T], 0, slabSize)
	}
	*s = append(*s, v)
	return &(*s)[len(*s)-1]
}
