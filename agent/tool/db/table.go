package db

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/actlog/actlog/agent/tool"
)

// table is the rows of a result, within their bounds.
type table struct {
	columns []string
	oids    []uint32
	text    []string
	rows    [][]json.RawMessage
	bytes   int
	more    bool   // there are more rows
	tag     string // what Postgres says of the statement: "INSERT 0 1"
}

// read reads rows until their bounds. If there are more, the rest is not read.
func (d *database) read(ctx context.Context, s *session, r *pgconn.ResultReader) (*table, error) {
	t := &table{}
	for _, f := range r.FieldDescriptions() {
		t.columns = append(t.columns, cutCell(f.Name))
		t.oids = append(t.oids, f.DataTypeOID)
		t.bytes += len(f.Name)
	}

	for r.NextRow() {
		if len(t.rows) == d.MaxRows || t.bytes >= d.MaxBytes {
			t.more = true
			_ = s.conn.CancelRequest(ctx) // else the server ends the statement when the connection has gone
			return t, nil
		}
		t.add(r.Values(), d.MaxBytes)
	}

	tag, err := r.Close()
	t.tag = tag.String()
	return t, err
}

// add adds a row, or notes that there is no room for it.
func (t *table) add(values [][]byte, most int) {
	var line strings.Builder
	row := make([]json.RawMessage, len(values))
	for i, v := range values {
		if i > 0 {
			line.WriteString(" | ")
		}
		line.WriteString(cellText(v))
		row[i] = cellJSON(t.oids[i], v)
	}

	if t.bytes += line.Len() + 1; t.bytes > most && len(t.rows) > 0 {
		t.more = true
		return
	}
	t.text = append(t.text, line.String())
	t.rows = append(t.rows, row)
}

// String returns the table for a model.
func (t *table) String() string {
	var text strings.Builder
	text.WriteString(strings.Join(t.columns, " | ") + "\n")
	for _, line := range t.text {
		text.WriteString(line + "\n")
	}
	return text.String()
}

func (t *table) count() string {
	rows := "rows"
	if len(t.rows) == 1 {
		rows = "row"
	}
	return fmt.Sprintf("%d %s", len(t.rows), rows)
}

// data is a table as JSON: rows are lists in the order of the columns.
type data struct {
	Columns   []string            `json:"columns"`
	Rows      [][]json.RawMessage `json:"rows"`
	Truncated bool                `json:"truncated,omitempty"`
	Command   string              `json:"command,omitempty"`
}

func (t *table) result(summary string) (tool.Result, error) {
	encoded, err := json.Marshal(data{
		Columns: append([]string{}, t.columns...), Rows: append([][]json.RawMessage{}, t.rows...), // [] and never null
		Truncated: t.more, Command: t.tag,
	})

	text := ""
	if len(t.columns) > 0 {
		text = t.String()
	}
	text += "(" + summary + ")"
	if t.more {
		text += "\n(There are more rows. Ask for less, by conditions, fewer columns, LIMIT and OFFSET, or aggregates.)"
	}
	return tool.Result{Text: text, Summary: summary, Data: encoded}, err
}
