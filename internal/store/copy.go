package store

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/upsert"
	"github.com/actlog/actlog/record"
)

// Which door rows come through.
const (
	native = "native"
	otlp   = "otlp"
)

// newTrees gives where the detail of trees lies, by root, of those that a transaction
// has begun. Nothing is in them but plans, and no one else can write to them: should
// it be otherwise, as when two transactions begin in one microsecond, a key is refused.
type newTrees map[string]time.Time

// queueNew queues a statement that finds which of the roots are new, once they are
// written.
func (t newTrees) queueNew(q *pgx.Batch, roots []*record.Row) {
	ids := make([]string, len(roots))
	for i, r := range roots {
		ids[i] = r.Change.Key().Root
	}
	q.Queue(db.PlanNew, ids).Query(func(rows pgx.Rows) error {
		var root string
		var part time.Time
		_, err := pgx.ForEachRow(rows, []any{&root, &part}, func() error {
			t[root] = part
			return nil
		})
		return err
	})
}

// copy copies cycles and tool calls of new trees: nearly all bytes that there are, and
// nothing to merge them with. It gives the passes that are left.
func (t newTrees) copy(ctx context.Context, tx pgx.Tx, origin string, passes [][]*record.Row) (rest [][]*record.Row, err error) {
	for _, rows := range passes {
		table := upsert.TableOf(rows[0].Change.Kind())
		if !table.Partitioned {
			rest = append(rest, rows)
			continue
		}
		var fresh, known []*record.Row
		for _, r := range rows {
			if _, ok := t[r.Change.Key().Root]; ok {
				fresh = append(fresh, r)
			} else {
				known = append(known, r)
			}
		}
		if len(fresh) > 0 {
			c := copied{kind: table.Kind, origin: origin, trees: t, rows: fresh}
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"actlog", table.Name}, c.columns(), &c)
			if err != nil && !connectionLost(err) && !locked(err) {
				err = &copyError{err} // the client's own trouble looks like a cancelled statement
			}
			if err != nil {
				return nil, err
			}
		}
		if len(known) > 0 {
			rest = append(rest, known)
		}
	}
	return rest, nil
}

// copied is rows of a kind on their way into its table.
type copied struct {
	kind   record.Kind
	origin string
	trees  newTrees
	rows   []*record.Row // from the next one on
	values []any         // of a row
}

func (c *copied) columns() (names []string) {
	for _, f := range record.Fields(c.kind) {
		if f.Name != "rev" {
			names = append(names, f.Column)
		}
	}
	return append(names, "truncated", "revs", "part", "origin")
}

// Next implements [pgx.CopyFromSource].
func (c *copied) Next() bool { return len(c.rows) > 0 }

// Err implements [pgx.CopyFromSource].
func (c *copied) Err() error { return nil }

// Values implements [pgx.CopyFromSource].
func (c *copied) Values() ([]any, error) {
	r := c.rows[0]
	c.rows, c.values = c.rows[1:], c.values[:0]
	fields := record.Fields(c.kind)
	for i := range fields {
		f, v := &fields[i], fields[i].In(r.Change)
		switch {
		case f.Name == "rev":
		case v.IsZero() && !f.Key:
			c.values = append(c.values, nil)
		case f.Type == record.JSON:
			c.values = append(c.values, string(v.Bytes()))
		case numeric(f):
			told, err := exact(v.Elem().Float())
			if err != nil {
				return nil, err
			}
			c.values = append(c.values, told)
		default:
			c.values = append(c.values, v.Interface())
		}
	}
	var cut, revs any
	if len(r.Cut) > 0 {
		cut = r.Cut
	}
	if r.Revs != nil {
		revs = revisions(r.Revs)
	}
	return append(c.values, cut, revs, c.trees[r.Change.Key().Root], c.origin), nil
}

// numeric tells which fields have a column of that type: costs that were told, not prices.
func numeric(f *record.Field) bool { return f.Type == record.Float && f.Told() }

// exact rounds to the 15 digits that Postgres makes of a float that becomes a numeric:
// what is told once more is to be the same.
func exact(f float64) (float64, error) {
	return strconv.ParseFloat(strconv.FormatFloat(f, 'g', 15, 64), 64)
}

// revisions are those of a row, as an array of Postgres.
type revisions []int64

// Dimensions implements [pgtype.ArrayGetter].
func (r revisions) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(r)), LowerBound: 1}}
}

// Index implements [pgtype.ArrayGetter].
func (r revisions) Index(i int) any {
	if r[i] == record.NoRevision {
		return nil
	}
	return &r[i]
}

// IndexType implements [pgtype.ArrayGetter].
func (r revisions) IndexType() any { return new(int64) }
