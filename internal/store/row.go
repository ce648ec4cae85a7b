package store

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strings"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/tree"
	"github.com/actlog/actlog/internal/upsert"
	"github.com/actlog/actlog/record"
)

// Row is a row of the record as it stands.
type Row struct {
	ID int64
	// Record has the state that reads show. Its plan is the one that a step is shown under.
	Record    record.Change
	Truncated []string
	// RollUps are those of a step; of its other fields none is set. Nil for other kinds.
	RollUps *tree.Step
}

const (
	// rowsPage and rowsPageBytes bound what is read of a kind at once.
	rowsPage      = 500
	rowsPageBytes = 512 << 10
)

// RowFilter says which rows of a tree to read, and how far that has come. The zero
// value has none.
type RowFilter struct {
	// XIDs are the transactions that wrote them; nil: whichever did.
	XIDs []uint32
	// Kinds are those that are still to be read.
	Kinds []record.Kind

	after map[record.Kind][]any // keys of the last ones that were read
}

// Rows reads rows of a tree as they stand, some at a time, in the order of their kinds
// and keys, and moves the filter on: when it has no kinds left, all were read. They are
// not of one moment; but what changes meanwhile, the feed tells.
func (s *Store) Rows(ctx context.Context, rootPlanID string, f *RowFilter) ([]Row, error) {
	var rows []Row
	after, left := map[record.Kind][]any{}, []record.Kind(nil)
	_, err := read(ctx, s, func(db.DBTX) (struct{}, error) {
		rows, left = nil, nil
		var q pgx.Batch
		for _, kind := range f.Kinds {
			r := rowReaders[kind]
			from := f.after[kind]
			if from == nil {
				from = r.first
			}
			q.Queue(r.sql, append([]any{rootPlanID, f.XIDs}, from...)...).Query(func(found pgx.Rows) error {
				read, more, err := r.read(found)
				if more {
					left, after[kind] = append(left, kind), r.key(read[len(read)-1].Record)
				}
				rows = append(rows, read...)
				return err
			})
		}
		return struct{}{}, s.pool.SendBatch(ctx, &q).Close()
	})
	if err != nil {
		return nil, fmt.Errorf("reading rows of %s: %w", rootPlanID, err)
	}
	f.Kinds, f.after = left, after
	return rows, nil
}

// rowReader reads the rows of a kind.
type rowReader struct {
	kind   record.Kind
	sql    string
	fields []record.Field
	keys   []record.Field // but for the root
	first  []any          // stands before the first key
}

var rowReaders = func() map[record.Kind]*rowReader {
	all := map[record.Kind]*rowReader{}
	for _, t := range upsert.Tables {
		r := &rowReader{kind: t.Kind}
		var texts []string
		for _, f := range record.Fields(t.Kind) {
			if f.Name == "rev" || f.Name == "exception" {
				continue
			}
			if f.Key && f.Name != "rootPlanId" {
				r.keys = append(r.keys, f)
				r.first = append(r.first, map[record.Type]any{record.Text: "", record.Int: int64(-1)}[f.Type])
			}
			if f.Type == record.Text || f.Type == record.JSON {
				texts = append(texts, "COALESCE(octet_length(x."+f.Column+"::text), 0)")
			}
			switch f.Column { // as they are shown
			case "told_state":
				f.Column = "state"
			case "plan_id":
				if t.Kind == record.KindAgentExecution {
					f.Column = "shown_plan_id"
				}
			}
			r.fields = append(r.fields, f)
		}
		var b bytes.Buffer
		if err := rowSQL.Execute(&b, map[string]any{
			"Table": &t, "Fields": r.fields, "Keys": r.keys, "Bytes": strings.Join(texts, " + "), "RollUps": t.Kind == record.KindAgentExecution,
			"Page": rowsPage, "PageBytes": rowsPageBytes,
		}); err != nil {
			panic(fmt.Sprintf("store: %v", err))
		}
		r.sql = b.String()
		all[t.Kind] = r
	}
	return all
}()

// rowSQL reads a page of rows behind a key ($3 and on). A page ends before the row that
// would make it too large, but holds one at least.
var rowSQL = template.Must(template.New("").Funcs(template.FuncMap{
	"list": func(prefix string, fields []record.Field) string {
		var names []string
		for _, f := range fields {
			names = append(names, prefix+f.Column)
		}
		return strings.Join(names, ", ")
	},
	"params": func(fields []record.Field) string {
		var names []string
		for i, f := range fields {
			names = append(names, fmt.Sprintf("$%d::%s", i+3, map[record.Type]string{record.Text: "text", record.Int: "bigint"}[f.Type]))
		}
		return strings.Join(names, ", ")
	},
}).Parse(`
SELECT r.found, r.id, r.truncated, {{list "r." .Fields}}
	{{- if .RollUps}}, COALESCE(r.completed_cycles, 0), COALESCE(r.model_calls, 0), COALESCE(r.tool_calls, 0), COALESCE(r.failures, 0),
	COALESCE(r.input_tokens, 0), COALESCE(r.output_tokens, 0), COALESCE(r.cache_read_input_tokens, 0), COALESCE(r.cache_creation_input_tokens, 0),
	COALESCE(r.reasoning_tokens, 0), r.cost_usd, COALESCE(r.think_ms, 0), COALESCE(r.tool_ms, 0), COALESCE(r.latest_round, 0),
	r.latest_tool_name, r.latest_tool_args{{end}}
FROM (
	SELECT x.*, count(*) OVER () AS found, sum({{.Bytes}}) OVER w AS bytes, row_number() OVER w AS place
	FROM (
		SELECT t.*
		FROM actlog.{{.Table.Name}} AS t
		WHERE t.root_plan_id = $1::text AND ({{list "t." .Keys}}) > ({{params .Keys}}) AND ($2::xid[] IS NULL OR t.xmin = ANY ($2::xid[]))
			{{- if .Table.Partitioned}}
			AND t.part = (SELECT p.part FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = $1::text AND p.current_plan_id = $1::text){{end}}
		ORDER BY {{list "t." .Keys}}
		LIMIT {{.Page}}
	) AS x
	WINDOW w AS (ORDER BY {{list "x." .Keys}})
) AS r
WHERE r.bytes <= {{.PageBytes}} OR r.place = 1
ORDER BY r.place`))

// read collects a page; more: there may be others.
func (r *rowReader) read(found pgx.Rows) (rows []Row, more bool, err error) {
	for found.Next() {
		var inner int
		row := Row{Record: record.New(r.kind)}
		to := []any{&inner, &row.ID, &row.Truncated}
		for i := range r.fields {
			to = append(to, r.fields[i].In(row.Record).Addr().Interface())
		}
		if r.kind == record.KindAgentExecution {
			row.RollUps = new(tree.Step)
			to = append(to, rollUpColumns(row.RollUps)...)
		}
		if err := found.Scan(to...); err != nil {
			return nil, false, err
		}
		for i := range r.fields {
			if v := r.fields[i].In(row.Record); r.fields[i].Type == record.Time && !v.IsNil() {
				v.Set(reflect.ValueOf(new(v.Elem().Interface().(time.Time).UTC())))
			}
		}
		if step, ok := row.Record.(*record.AgentExecution); ok {
			row.RollUps.Figures.DurationMs = tree.Duration(step.StartTime, step.EndTime)
		}
		row.Truncated = record.StillCut(row.Record, row.Truncated)
		rows = append(rows, row)
		more = inner == rowsPage || len(rows) < inner
	}
	return rows, more, found.Err()
}

// key gives the key of a row, but for its root.
func (r *rowReader) key(c record.Change) (key []any) {
	for i := range r.keys {
		key = append(key, r.keys[i].In(c).Interface())
	}
	return key
}

// rollUpColumns gives what the columns of the roll-ups are read into.
func rollUpColumns(st *tree.Step) []any {
	f := &st.Figures
	return []any{
		&st.CompletedCycles, &f.ModelCalls, &f.ToolCalls, &f.Failures, &f.InputTokens, &f.OutputTokens, &f.CacheReadInputTokens,
		&f.CacheCreationInputTokens, &f.ReasoningTokens, &f.CostUSD, &f.ThinkMs, &f.ToolMs, &st.LatestRound, &st.LatestToolName, &st.LatestToolArgs,
	}
}
