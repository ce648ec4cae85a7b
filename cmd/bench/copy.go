package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// copiers is the number of connections that run COPY: as many as a store has writers.
const copiers = 2

// ceiling is the fastest way to write rows into the tables of the record: COPY. It does not look
// at earlier rows, parents, sums or the feed. The keys, the indexes, the partitions and every byte
// of the rows are the same.
type ceiling struct {
	db     *database
	halves [copiers][]copied // whole trees, parents first
	rows   int
	bytes  int // size of the content
}

// copied has rows of one table.
type copied struct {
	table   string
	columns []string
	rows    [][]any
}

// ceilingOf reads all rows of the record, to COPY them later.
func ceilingOf(ctx context.Context, db *database) (*ceiling, error) {
	c := &ceiling{db: db}
	for _, table := range recordTables {
		columns, selected, err := columnsOf(ctx, db, table)
		if err != nil {
			return nil, err
		}

		var halves [copiers][][]any
		rows, err := db.pool.Query(ctx, fmt.Sprintf(`
			SELECT %s, root.n %% %d FROM actlog.%s AS r
			JOIN (SELECT root_plan_id, row_number() OVER (ORDER BY root_plan_id) AS n
				FROM actlog.plan_execution_record WHERE current_plan_id = root_plan_id) AS root USING (root_plan_id)
			ORDER BY r.root_plan_id`, selected, copiers, table))
		if err != nil {
			return nil, err
		}

		for rows.Next() {
			row, err := c.scan(rows)
			if err != nil {
				rows.Close()
				return nil, err
			}

			half := **row[len(row)-1].(**int64)
			for i := range columns {
				row[i] = valueIn(row[i])
			}
			halves[half] = append(halves[half], row[:len(columns)])
			c.rows++
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}

		for i := range halves {
			c.halves[i] = append(c.halves[i], copied{table, columns, halves[i]})
		}
	}

	return c, nil
}

// columnsOf returns the columns of a table that are not generated, and the select list for them.
func columnsOf(ctx context.Context, db *database, table string) (columns []string, selected string, err error) {
	rows, err := db.pool.Query(ctx, `SELECT column_name::text, data_type FROM information_schema.columns
		WHERE table_schema = 'actlog' AND table_name = $1 AND is_generated = 'NEVER' AND is_identity = 'NO' ORDER BY ordinal_position`, table)
	if err != nil {
		return nil, "", err
	}

	var name, kind string
	var read []string
	_, err = pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		expression := "r." + name
		switch {
		case name == "think_input_parts":
			return nil
		case name == "think_input": // COPY writes it whole
			expression = "CASE WHEN r.think_input_parts IS NULL THEN r.think_input ELSE actlog.text_of(r.root_plan_id, " +
				"r.part, r.think_input_parts) END"
		case kind == "json":
			expression += "::text"
		}

		columns, read = append(columns, name), append(read, expression)
		return nil
	})
	return columns, strings.Join(read, ", "), err
}

// scan reads a row into pointers to pointers, nil for NULL, and counts the bytes of its content:
// the length of a text, 8 for a number or a time. It does not count revisions, which are internal,
// nor parts, which follow from the day.
func (c *ceiling) scan(rows pgx.Rows) ([]any, error) {
	fields := rows.FieldDescriptions()
	row := make([]any, len(fields))
	for i, f := range fields {
		switch f.DataTypeOID {
		case pgtype.Int4OID:
			row[i] = new(*int32)
		case pgtype.Int8OID:
			row[i] = new(*int64)
		case pgtype.TimestamptzOID, pgtype.DateOID:
			row[i] = new(*time.Time)
		case pgtype.NumericOID:
			row[i] = new(*pgtype.Numeric)
		case pgtype.Int8ArrayOID:
			row[i] = new([]*int64)
		case pgtype.TextArrayOID:
			row[i] = new([]string)
		default:
			row[i] = new(*string)
		}
	}

	if err := rows.Scan(row...); err != nil {
		return nil, err
	}

	for i, f := range fields[:len(fields)-1] {
		switch v := row[i].(type) {
		case **string:
			if *v != nil {
				c.bytes += len(**v)
			}
		case *[]string:
			for _, s := range *v {
				c.bytes += len(s)
			}
		case *[]*int64:
		default:
			if rows.RawValues()[i] != nil && f.DataTypeOID != pgtype.DateOID {
				c.bytes += 8
			}
		}
	}
	return row, nil
}

// valueIn returns the value that Scan wrote to a pointer.
func valueIn(scanned any) any {
	switch v := scanned.(type) {
	case **int32:
		return *v
	case **int64:
		return *v
	case **time.Time:
		return *v
	case **pgtype.Numeric:
		return *v
	case *[]*int64:
		return *v
	case *[]string:
		return *v
	case **string:
		return *v
	}
	return nil
}

// copy empties the tables and copies the rows. It returns the time from the first row to the last
// commit.
func (c *ceiling) copy(ctx context.Context) (time.Duration, error) {
	if err := c.db.empty(ctx); err != nil {
		return 0, err
	}

	var conns [copiers]*pgx.Conn
	for i := range conns {
		conn, err := pgx.Connect(ctx, c.db.url)
		if err != nil {
			return 0, err
		}
		defer func() { _ = conn.Close(ctx) }()
		conns[i] = conn
	}

	start := time.Now()
	err := concurrently(copiers, func(i int) error {
		for _, t := range c.halves[i] {
			n, err := conns[i].CopyFrom(ctx, pgx.Identifier{"actlog", t.table}, t.columns, pgx.CopyFromRows(t.rows))
			if err == nil && int(n) != len(t.rows) {
				err = fmt.Errorf("%d of %d rows were copied", n, len(t.rows))
			}
			if err != nil {
				return fmt.Errorf("copy into %s: %w", t.table, err)
			}
		}
		return nil
	})
	return time.Since(start), err
}

// perSecond returns the rate in MB of content per second for the time of writing all rows.
func (c *ceiling) perSecond(took time.Duration) float64 {
	return float64(c.bytes) / 1e6 / took.Seconds()
}

// note describes the rows behind the rates.
func (c *ceiling) note(ours *value) string {
	each := float64(c.bytes) / float64(c.rows)
	return fmt.Sprintf("%d rows of %.0f bytes; %.0f rows/s", c.rows, each, ours.Median*1e6/each)
}
