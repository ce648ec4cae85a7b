package fieldsql_test

import (
	"testing"

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
