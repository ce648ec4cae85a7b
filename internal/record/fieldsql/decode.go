package fieldsql

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// Read is a statement whose rows fill structs. A column fills the field of its name: of a
// record, the field that it holds or shows; of another struct, the field with the same name
// in any case and without underscores. Columns without a field are skipped, and so is NULL.
// Rows go from the wire into the structs, in few allocations.
type Read struct {
	SQL     string
	kinds   map[record.Kind]map[string]int // where the columns of a kind are; nil: the rows name their columns
	targets sync.Map                       // []target by record.Kind
}

// NewRead returns a read whose columns have the names of the fields. One of several kinds of rows is a [Union].
func NewRead(sql string) *Read { return &Read{SQL: sql} }

// target is a column and the field that it fills: of which struct, and at which place.
type target struct{ column, into, field int }

// Rows decodes all rows and closes them. into returns the structs that the next row fills, as
// pointers: of one name, the first that has it. kind is the row's, in a statement of sections. done is
// called when a row is decoded. Both may end the reading with an error.
func (r *Read) Rows(rows pgx.Rows, into func(kind record.Kind) ([]any, error), done func() error) error {
	defer rows.Close()

	var d decoder
	var kind, last record.Kind
	var targets []target
	var structs []reflect.Value
	for first := true; rows.Next(); first = false {
		if first { // a failed batch has no columns to ask for
			d = decoder{columns: rows.FieldDescriptions(), types: rows.TypeMap()}
		}

		raw := rows.RawValues()
		if r.kinds != nil && string(raw[0]) != string(kind) {
			kind = record.Kind(raw[0])
		}
		pointers, err := into(kind)
		if err != nil {
			return err
		}

		structs = structs[:0]
		for _, p := range pointers {
			structs = append(structs, reflect.ValueOf(p).Elem())
		}
		if first || kind != last {
			targets, last = r.targetsOf(kind, d.columns, structs), kind
		}

		if err := d.decode(raw, targets, structs); err != nil {
			return err
		}
		if done != nil {
			if err := done(); err != nil {
				return err
			}
		}
	}
	return rows.Err()
}

func (r *Read) targetsOf(kind record.Kind, columns []pgconn.FieldDescription, structs []reflect.Value) []target {
	if known, ok := r.targets.Load(kind); ok {
		return known.([]target)
	}

	names := map[string]int{}
	if r.kinds == nil {
		for column, c := range columns {
			names[c.Name] = column
		}
	}
	for name, place := range r.kinds[kind] {
		names[name] = place + 1 // the first column is kind
	}

	var targets []target
	for name, column := range names {
		for into, s := range structs {
			if place, ok := fieldOf(s.Type(), name); ok {
				targets = append(targets, target{column, into, place})
				break
			}
		}
	}
	slices.SortFunc(targets, func(a, b target) int { return cmp.Compare(a.column, b.column) })
	r.targets.Store(kind, targets)
	return targets
}

var kinds = func() map[reflect.Type]record.Kind {
	all := map[reflect.Type]record.Kind{}
	for _, k := range record.Kinds {
		all[reflect.TypeOf(record.New(k)).Elem()] = k
	}
	return all
}()

func fieldOf(t reflect.Type, column string) (place int, ok bool) {
	if k, isRecord := kinds[t]; isRecord {
		for _, f := range field.Fields(k) {
			if f.Stored() && (f.Column == column || f.Shown == column) {
				return f.Index(), true
			}
		}
		return 0, false
	}

	name := strings.ReplaceAll(column, "_", "")
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && strings.EqualFold(f.Name, name) {
			return i, true
		}
	}
	return 0, false
}

// decoder sets fields from columns.
type decoder struct {
	columns []pgconn.FieldDescription
	types   *pgtype.Map
	row     strings.Builder // the texts of a row share an allocation
	texts   slab[string]
	ints    slab[int64]
	times   slab[time.Time]
}

func (d *decoder) decode(raw [][]byte, targets []target, structs []reflect.Value) error {
	size := 0
	for _, t := range targets {
		if d.columns[t.column].DataTypeOID == pgtype.TextOID {
			size += len(raw[t.column])
		}
	}
	d.row.Reset()
	d.row.Grow(size)

	for _, t := range targets {
		if b := raw[t.column]; b != nil {
			if err := d.set(structs[t.into].Field(t.field), b, &d.columns[t.column]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *decoder) text(raw []byte) *string {
	from := d.row.Len()
	d.row.Write(raw)
	return d.texts.add(d.row.String()[from:])
}

// set sets a field from a column, which may be narrower or of a plainer type. Times become
// UTC. The usual binary formats are decoded here; pgx decodes the rest, and the text format
// that some poolers ask for.
func (d *decoder) set(to reflect.Value, raw []byte, c *pgconn.FieldDescription) error {
	p := to.Addr().Interface()
	switch {
	case c.DataTypeOID == pgtype.TextOID:
		if setText(p, d.text(raw)) {
			return nil
		}
	case c.DataTypeOID == pgtype.JSONOID:
		if j, ok := p.(*json.RawMessage); ok {
			*j = slices.Clone(raw)
			return nil
		}
	case c.Format != pgx.BinaryFormatCode:
	case c.DataTypeOID == pgtype.JSONBOID && len(raw) > 0: // after a byte with its version
		if j, ok := p.(*json.RawMessage); ok {
			*j = slices.Clone(raw[1:])
			return nil
		}
	case c.DataTypeOID == pgtype.ByteaArrayOID:
		if list, ok := p.(*[][]byte); ok {
			if values, ok := byteaArray(raw); ok {
				*list = values
				return nil
			}
		}
	case c.DataTypeOID == pgtype.Int4OID && len(raw) == 4:
		if d.setInt(p, int64(int32(binary.BigEndian.Uint32(raw)))) {
			return nil
		}
	case c.DataTypeOID == pgtype.Int8OID && len(raw) == 8:
		if d.setInt(p, int64(binary.BigEndian.Uint64(raw))) {
			return nil
		}
	case c.DataTypeOID == pgtype.TimestamptzOID && len(raw) == 8:
		if t, ok := p.(**time.Time); ok {
			micros := int64(binary.BigEndian.Uint64(raw))
			*t = d.times.add(time.UnixMicro(postgresEpoch + micros).UTC())
			return nil
		}
	}

	if err := d.types.Scan(c.DataTypeOID, c.Format, raw, p); err != nil {
		return fmt.Errorf("column %s: %w", c.Name, err)
	}

	switch t := p.(type) {
	case *time.Time:
		*t = t.UTC()
	case **time.Time:
		**t = (**t).UTC()
	}
	return nil
}

// byteaArray decodes an array of one dimension without NULL. Its values share an allocation.
func byteaArray(raw []byte) (values [][]byte, ok bool) {
	const head = 20 // dimensions, whether there are NULLs, type, length, first index
	if len(raw) < head || binary.BigEndian.Uint32(raw) != 1 || binary.BigEndian.Uint32(raw[4:]) != 0 {
		return nil, false
	}

	values = make([][]byte, 0, binary.BigEndian.Uint32(raw[12:]))
	for rest := slices.Clone(raw[head:]); len(rest) >= 4; {
		n := binary.BigEndian.Uint32(rest)
		if int(n) > len(rest)-4 {
			return nil, false
		}
		values, rest = append(values, rest[4:4+n:4+n]), rest[4+n:]
	}
	return values, true
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
	case **record.ThoughtType:
		*to = (*record.ThoughtType)(s)
	case **record.SourceType:
		*to = (*record.SourceType)(s)
	default:
		return false
	}
	return true
}

func (d *decoder) setInt(to any, i int64) bool {
	switch to := to.(type) {
	case **int64:
		*to = d.ints.add(i)
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

func (s *slab[T]) add(v T) *T {
	if len(*s) == cap(*s) {
		*s = make(slab[T], 0, slabSize)
	}
	*s = append(*s, v)
	return &(*s)[len(*s)-1]
}
