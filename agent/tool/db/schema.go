package db

import (
	"context"
	"fmt"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

type schemaArguments struct {
	Table string `json:"table,omitempty" jsonschema:"part of the names of tables; empty: all"`
}

const maxColumns = 1000

// columnsSQL lists the columns that the role may read, table by table.
const columnsSQL = `SELECT n.nspname, c.relname,
	CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table' ELSE 'table' END,
	a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
	COALESCE((SELECT string_agg(pg_get_constraintdef(k.oid), '; ' ORDER BY k.conname) FROM pg_constraint k
		WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'f')), '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE n.nspname = ANY (string_to_array($1, E'\x01')) AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
	AND a.attnum > 0 AND NOT a.attisdropped AND ($2 = '' OR position(lower($2) IN lower(c.relname)) > 0)
	AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
ORDER BY n.nspname, c.relname, a.attnum LIMIT $3`

func (d *database) schema(ctx context.Context, in schemaArguments) (tool.Result, error) {
	s, err := d.open(ctx, mode{"READ ONLY", d.Role})
	if err != nil {
		return tool.Result{}, err
	}
	defer s.close()

	values := [][]byte{[]byte(strings.Join(d.Schemas, "\x01")), []byte(in.Table), fmt.Append(nil, maxColumns)}
	r := s.conn.ExecParams(ctx, columnsSQL, values, nil, nil, nil).Read()
	if r.Err != nil {
		return tool.Result{}, readable(r.Err, "")
	}

	var text strings.Builder
	tables, last := 0, ""
	for _, row := range r.Rows {
		name := cellText(row[0]) + "." + cellText(row[1])
		if name != last {
			tables++
			fmt.Fprintf(&text, "%s %s\n", cellText(row[2]), name)
			if keys := cellText(row[6]); keys != "" {
				fmt.Fprintf(&text, "  keys: %s\n", keys)
			}
		}

		last = name
		fmt.Fprintf(&text, "  %s %s", cellText(row[3]), cellText(row[4]))
		if string(row[5]) == "t" {
			text.WriteString(" not null")
		}
		text.WriteByte('\n')
		if text.Len() > d.MaxBytes {
			break
		}
	}

	if text.Len() > d.MaxBytes || len(r.Rows) == maxColumns {
		text.WriteString("(There is more. Name a table.)\n")
	}
	summary := fmt.Sprintf("%d tables", tables)
	if tables == 0 {
		text.WriteString("There is no such table that the role may read, in: " + strings.Join(d.Schemas, ", ") + "\n")
	}
	return tool.Result{Text: text.String(), Summary: summary}, nil
}
