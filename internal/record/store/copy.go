package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// The origins of rows.
const (
	native = "native"
	otlp   = "otlp"
)

// newTrees are the trees that a transaction has begun: by root, where their detail lies.
// Nothing is in them but plans, and nobody else can write to them. If that is wrong, as when
// two transactions begin in one microsecond, Postgres refuses a duplicate key.
type newTrees map[string]time.Time

// queueNew queues a statement that finds which of the roots are new, once they are written.
func (t newTrees) queueNew(q *pgx.Batch, roots []*field.Row) {
	ids := make([]string, len(roots))
	for i, r := range roots {
		ids[i] = r.Change.Key().Root
	}

	var root string
	var partition time.Time
	forEach(q.Queue(db.PlanNew, ids), []any{&root, &partition}, func() { t[root] = partition })
}

// forEach calls do for each row of a statement, once it is sent and the row is scanned into some variables.
func forEach(statement *pgx.QueuedQuery, into []any, do func()) {
	statement.Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, into, func() error {
			do()
			return nil
		})
		return err
	})
}

// copy copies the cycles and tool calls of new trees. They are nearly all bytes that there
// are, and there is nothing to merge them with. It returns the passes that remain.
func (t newTrees) copy(
	ctx context.Context, tx pgx.Tx, origin string, passes [][]*field.Row,
) (rest [][]*field.Row, err error) {
	for _, rows := range passes {
		table := fieldsql.TableOf(rows[0].Change.Kind())
		if !table.Partitioned {
			rest = append(rest, rows)
			continue
		}

		var fresh, known []*field.Row
		for _, r := range rows {
			if _, ok := t[r.Change.Key().Root]; ok {
				fresh = append(fresh, r)
			} else {
				known = append(known, r)
			}
		}

		if len(fresh) > 0 {
			c := newCopied(table.Kind, origin, t, fresh)
			if err := copyRows(ctx, tx, table.Name, c.columns, c); err != nil {
				return nil, err
			}
		}
		if len(known) > 0 {
			rest = append(rest, known)
		}
	}
	return rest, nil
}

// copyRows copies rows into a table of schema actlog.
func copyRows(ctx context.Context, tx pgx.Tx, table string, columns []string, rows pgx.CopyFromSource) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"actlog", table}, columns, rows)
	if err == nil || pg.ConnectionLost(err) || pg.Locked(err) {
		return err
	}
	return &copyError{err} // the client's own trouble looks like a cancelled statement
}

// copyError is why rows could not be copied. A merge may put them on record, or finds which of
// them cannot be.
type copyError struct{ error }

func (e *copyError) Unwrap() error { return e.error }

func notCopied(err error) bool {
	var c *copyError
	return errors.As(err, &c)
}

// copied is rows of a kind on their way into its table. It is a [pgx.CopyFromSource].
type copied struct {
	origin  string
	trees   newTrees
	fields  []*field.Field
	columns []string
	rows    []*field.Row // from the next one on
	values  []any        // of a row
}

func newCopied(kind record.Kind, origin string, trees newTrees, rows []*field.Row) *copied {
	c := &copied{origin: origin, trees: trees, fields: fieldsql.WholeShape(kind).Named(kind), rows: rows}
	for _, f := range c.fields {
		c.columns = append(c.columns, f.Column)
	}
	c.columns = append(c.columns, "truncated", "revs", "attempts", "part", "origin") // kinds with detail have attempts
	return c
}

func (c *copied) Next() bool { return len(c.rows) > 0 }

func (c *copied) Err() error { return nil }

func (c *copied) Values() ([]any, error) {
	r := c.rows[0]
	c.rows, c.values = c.rows[1:], c.values[:0]
	for _, f := range c.fields {
		v := f.In(r.Change)
		switch {
		case v.IsZero() && !f.Key:
			c.values = append(c.values, nil)
		case f.Type == field.JSON:
			c.values = append(c.values, string(v.Bytes()))
		case f.Decimal:
			amount, err := numeric(v.Elem().Float())
			if err != nil {
				return nil, err
			}
			c.values = append(c.values, amount)
		default:
			c.values = append(c.values, v.Interface())
		}
	}

	var cut, revs, past any
	if len(r.Cut) > 0 {
		cut = r.Cut
	}
	if r.Revs != nil {
		revs = revisions(r.Revs)
	}
	if list, ok := r.PastJSON(); ok {
		past = list
	}

	return append(c.values, cut, revs, past, c.trees[r.Change.Key().Root], c.origin), nil
}

// numeric rounds to the 15 digits that Postgres keeps when it turns a float into a numeric: a
// repeated write has to find the same value.
func numeric(f float64) (float64, error) {
	return strconv.ParseFloat(strconv.FormatFloat(f, 'g', 15, 64), 64)
}

// revisions are those of a row, as an array of Postgres. They are a [pgtype.ArrayGetter].
type revisions []int64

func (r revisions) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(r)), LowerBound: 1}}
}

func (r revisions) Index(i int) any {
	if r[i] == field.NoRevision {
		return nil
	}
	return &r[i]
}

func (r revisions) IndexType() any { return new(int64) }
