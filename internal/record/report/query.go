package report

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/loosejson"
	"github.com/actlog/actlog/internal/record/pg"
)

// Bounds say how much of an answer is read.
type Bounds struct {
	Rows  int           // at most
	Bytes int           // of the values of all rows, as JSON
	Cell  int           // of one value; a longer one is cut
	Time  time.Duration // that Postgres may take
	After pg.Mark       // the answer has what is before it
}

// Column is a column of a result.
type Column struct{ Name, Type string }

// Result is the answer to a statement.
type Result struct {
	Columns []Column
	// Rows have a JSON value per column: a number, true or false, null, or a text.
	Rows [][]json.RawMessage
	// Complete reports that there are no other rows.
	Complete bool
	// Cut is how many values are cut.
	Cut int
}

// refused is what is wrong with a statement that Postgres would take.
func refused(message string) error { return &StatementError{Message: message} }

// Query runs one statement that returns rows. It reads no further than the bounds, and ends the statement there. The
// error is a
// [*StatementError] if the statement is at fault, [ErrOversized], or that of the database.
func (r *Reports) Query(ctx context.Context, sql string, b Bounds) (*Result, error) {
	if c, err := r.connectToReplica(ctx, b.After); err == nil {
		result, err := c.query(ctx, sql, b)
		if err == nil || ctx.Err() != nil || !elsewhere(err) {
			return result, err
		}
	}

	c, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	return c.query(ctx, sql, b)
}

// elsewhere reports whether a statement that failed at a replica may succeed at the primary.
func elsewhere(err error) bool {
	statement := new(StatementError)
	// ended, so that the replica can follow the primary
	return pg.Elsewhere(err) || errors.As(err, &statement) && statement.State == "40001"
}

// query runs a statement, and closes the connection.
func (c connection) query(ctx context.Context, sql string, b Bounds) (_ *Result, err error) {
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.transaction(ctx, b.Time); err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(ctx, b.Time+grace)
	defer end()

	// The extended protocol takes one statement only. What it describes as returning no rows would change something.
	statement, err := c.Prepare(ctx, "", sql, nil)
	switch {
	case err != nil:
		return nil, refusal(err)
	case len(statement.ParamOIDs) > 0:
		return nil, refused("the statement has parameters such as $1, and there are no values for them")
	case len(statement.Fields) == 0:
		return nil, refused("the statement returns no rows: only a SELECT can be run")
	}

	result := &Result{Rows: [][]json.RawMessage{}, Complete: true}
	for i := range statement.Fields {
		result.Columns = append(result.Columns, Column{statement.Fields[i].Name, typeName(statement.Fields[i].DataTypeOID)})
	}

	rows := c.ExecPrepared(ctx, "", nil, nil, nil)
	for left := b.Bytes; rows.NextRow(); {
		row, size := result.row(statement.Fields, rows.Values(), b.Cell)
		if left -= size; left < 0 || len(result.Rows) == b.Rows {
			result.Complete = false
			end() // cancels the statement
			break
		}
		result.Rows = append(result.Rows, row)
	}

	_, err = rows.Close()
	if oversized := new(pgproto3.ExceededMaxBodyLenErr); errors.As(err, &oversized) {
		c.drop()
		return nil, ErrOversized
	}
	if err != nil && result.Complete {
		return nil, refusal(err)
	}
	return result, nil
}

// row returns a row as JSON values, and how long they are.
func (r *Result) row(fields []pgconn.FieldDescription, values [][]byte, most int) (row []json.RawMessage, size int) {
	for i, value := range values {
		cell, cut := cellOf(fields[i].DataTypeOID, value, most)
		if cut {
			r.Cut++
		}
		row = append(row, cell)
		size += len(cell) + 1
	}
	return row, size
}

// cellOf returns a value, which Postgres wrote as a text, as JSON.
func cellOf(oid uint32, value []byte, most int) (cell json.RawMessage, cut bool) {
	if value == nil {
		return json.RawMessage("null"), false
	}

	switch oid {
	case pgtype.BoolOID:
		if string(value) == "t" {
			return json.RawMessage("true"), false
		}
		return json.RawMessage("false"), false
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID,
		pgtype.OIDOID:
		if len(value) <= most && json.Valid(value) { // not NaN
			return json.RawMessage(strings.Clone(string(value))), false
		}
	}

	text := strings.ToValidUTF8(string(value), "\uFFFD")
	if cut = len(text) > most; cut {
		text = field.Shorten(text, most) + "…"
	}
	return loosejson.AppendString(nil, text), cut
}

// types know the names of the types that come with Postgres.
var types = pgtype.NewMap()

func typeName(oid uint32) string {
	if t, ok := types.TypeForOID(oid); ok {
		return t.Name
	}
	return "other"
}

// View is a view of schema report.
type View struct {
	Name    string
	Comment string
	Columns []string
}

// ViewColumn is a column of a view.
type ViewColumn struct{ Name, Type, Comment string }

// visible are the relations that the role may read in schema report.
const visible = `FROM pg_class AS v
WHERE v.relnamespace = 'report'::regnamespace AND v.relkind IN ('v', 'm', 'r', 'p') AND has_table_privilege(v.oid, 'SELECT')`

// Views returns the views that the role may read, in the order of their names.
func (r *Reports) Views(ctx context.Context) (views []View, err error) {
	rows, err := r.catalog(ctx, `SELECT v.relname, COALESCE(obj_description(v.oid, 'pg_class'), ''),
    array_to_json(ARRAY(SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid = v.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum))
`+visible+`
ORDER BY v.relname`)

	for _, row := range rows {
		v := View{Name: string(row[0]), Comment: string(row[1])}
		if err := json.Unmarshal(row[2], &v.Columns); err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, err
}

// Columns returns the columns of a view. There are none if there is no such view.
func (r *Reports) Columns(ctx context.Context, view string) (columns []ViewColumn, err error) {
	rows, err := r.catalog(ctx, `SELECT a.attname, format_type(a.atttypid, a.atttypmod), COALESCE(col_description(a.attrelid, a.attnum), '')
FROM pg_attribute AS a
WHERE a.attrelid = (SELECT v.oid `+visible+` AND v.relname = $1::text) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`, view)
	for _, row := range rows {
		columns = append(columns, ViewColumn{string(row[0]), string(row[1]), string(row[2])})
	}
	return columns, err
}

// catalog reads what Postgres knows of the views.
func (r *Reports) catalog(ctx context.Context, sql string, args ...string) (rows [][][]byte, err error) {
	c, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.transaction(ctx, 10*time.Second); err != nil {
		return nil, err
	}

	rows, err = c.read(ctx, sql, args...)
	return rows, pg.Translate(err)
}
