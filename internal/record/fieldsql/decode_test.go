package fieldsql_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/testkit/pgtest"
	"github.com/actlog/actlog/record"
)

// TestFailedBatch: the rows of a statement that failed inside a batch are an error. They have no
// columns.
func TestFailedBatch(t *testing.T) {
	t.Parallel()
	read := fieldsql.NewRead("SELECT 'no number'::text::bigint AS seq")
	var q pgx.Batch
	var got error
	q.Queue(read.SQL).Query(func(rows pgx.Rows) error {
		got = read.Rows(rows, func(record.Kind) ([]any, error) { return []any{new(record.ThinkAct)}, nil }, nil)
		return got
	})

	if err := pgtest.New(t).Pool.SendBatch(t.Context(), &q).Close(); err == nil || got == nil {
		t.Errorf("the batch returned %v, its rows %v", err, got)
	}
}

// TestSections: the rows of sections are decoded as they are written, sorted or not, whether Postgres sends them in
// its binary format or as text, which some poolers ask for. Sections of one kind may have different columns.
func TestSections(t *testing.T) {
	t.Parallel()
	sections := []fieldsql.Section{
		{
			Kind: record.KindActTool,
			Columns: []fieldsql.Column{
				{Name: "result", Type: "text", SQL: "v.result"},
				{Name: "name", Type: "text", SQL: "''::text"},
				{Name: "seq", Type: "integer", SQL: "v.seq"},
				{Name: "metadata", Type: "json", SQL: `'{"a": ["b", null]}'::json`},
				{Name: "start_time", Type: "timestamptz", SQL: "'2026-03-29 02:30:00.123456+02'::timestamptz"},
				{Name: "span_id", Type: "text", SQL: "NULL::text"},
			},
			From: `FROM (VALUES (1, E'a "quote", a \\ and (a)'), (3, E'\t\n')) AS v (seq, result)`,
			Sort: []fieldsql.Column{{Name: "by_seq", Type: "integer", SQL: "v.seq"}},
		},
		{
			Kind: record.KindThinkAct,
			Columns: []fieldsql.Column{
				{Name: "seq", Type: "integer", SQL: "2"},
				{Name: "cost_usd", Type: "numeric", SQL: "1.25::numeric"},
			},
			Sort: []fieldsql.Column{{Name: "by_seq", Type: "integer", SQL: "2"}},
		},
		{
			Kind:    record.KindActTool,
			Columns: []fieldsql.Column{{Name: "inferred", Type: "boolean", SQL: "true"}},
			Sort:    []fieldsql.Column{{Name: "by_seq", Type: "integer", SQL: "0"}},
		},
	}

	call := func(seq int64, result string) *record.ActTool {
		return &record.ActTool{
			Seq: seq, Result: &result, Name: new(""), Metadata: json.RawMessage(`{"a": ["b", null]}`),
			StartTime: new(time.Date(2026, 3, 29, 0, 30, 0, 123456000, time.UTC)),
		}
	}
	want := []record.Change{
		&record.ActTool{Inferred: new(true)}, call(1, `a "quote", a \ and (a)`),
		&record.ThinkAct{Seq: 2, CostUSD: new(1.25)}, call(3, "\t\n"),
	}

	pool := pgtest.New(t).Pool
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		for read, order := range map[*fieldsql.Read][]int{
			fieldsql.Union("", sections...):                   {1, 3, 2, 0},
			fieldsql.Sorted("", "r.by_seq DESC", sections...): {3, 2, 1, 0},
		} {
			rows, err := pool.Query(t.Context(), read.SQL, mode)
			if err != nil {
				t.Fatalf("%v: %v\n%s", mode, err, read.SQL)
			}

			var got, expected []record.Change
			if err := read.Rows(rows, func(kind record.Kind) ([]any, error) {
				got = append(got, record.New(kind))
				return []any{got[len(got)-1]}, nil
			}, nil); err != nil {
				t.Fatalf("%v: %v\n%s", mode, err, read.SQL)
			}
			for _, i := range order {
				expected = append(expected, want[i])
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("%v (-written +read):\n%s\n%s", mode, diff, read.SQL)
			}
		}
	}
}
