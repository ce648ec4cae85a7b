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
	columns := rows.FieldDescriptions()
	for rows.Next() {
		of.once.Do(func() { of.into = columnsOf(columns) })
		if err := n.add(rows.RawValues(), of.into, columns, rows.TypeMap()); err != nil {
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
func (n *nodes) add(row [][]byte, into map[record.Kind][]target, columns []pgconn.FieldDescription, types *pgtype.Map) error {
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
		if err := setColumn(reflect.ValueOf(&n.part).Elem(), raw, &columns[partColumn], types); err != nil {
			return err
		}
	}
	v := reflect.ValueOf(node).Elem()
	for _, c := range into[kind] {
		if raw := row[c.at]; raw != nil {
			if err := setColumn(v.FieldByIndex(c.field), raw, &columns[c.at], types); err != nil {
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

// setColumn sets a field from a column that may be narrower, or of a plainer type.
// Times are UTC from here on. What comes as it does from Postgres in its own format
// is taken as it is; the rest, and what a pooler may send, is left to pgx.
func setColumn(field reflect.Value, raw []byte, c *pgconn.FieldDescription, types *pgtype.Map) error {
	to := field.Addr().Interface()
	switch {
	case c.DataTypeOID == pgtype.TextOID:
		if setText(to, string(raw)) {
			return nil
		}
	case c.DataTypeOID == pgtype.JSONOID:
		if j, ok := to.(*json.RawMessage); ok {
			*j = slices.Clone(raw)
			return nil
		}
	case c.Format != pgx.BinaryFormatCode:
	case c.DataTypeOID == pgtype.Int4OID && len(raw) == 4:
		if setInt(to, int64(int32(binary.BigEndian.Uint32(raw)))) {
			return nil
		}
	case c.DataTypeOID == pgtype.Int8OID && len(raw) == 8:
		if setInt(to, int64(binary.BigEndian.Uint64(raw))) {
			return nil
		}
	case c.DataTypeOID == pgtype.TimestamptzOID && len(raw) == 8:
		if micros := int64(binary.BigEndian.Uint64(raw)); setTime(to, time.UnixMicro(postgresEpoch+micros).UTC()) {
			return nil
		}
	}
	if err := types.Scan(c.DataTypeOID, c.Format, raw, to); err != nil {
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

func setTime(to any, t time.Time) bool {
	p, ok := to.(**time.Time)
	if ok {
		*p = &t
	}
	return ok
}

func setText(to any, s string) bool {
	switch to := to.(type) {
	case **string:
		*to = &s
	case *string:
		*to = s
	case **record.State:
		*to = new(record.State(s))
	case **record.WaitType:
		*to = new(record.WaitType(s))
	default:
		return false
	}
	return true
}

func setInt(to any, i int64) bool {
	switch to := to.(type) {
	case **int64:
		*to = &i
	case *int64:
		*to = i
	default:
		return false
	}
	return true
}
