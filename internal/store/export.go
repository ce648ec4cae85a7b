package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/field"
	"github.com/actlog/actlog/internal/fieldsql"
	"github.com/actlog/actlog/internal/pg"
	"github.com/actlog/actlog/record"
)

// exports reads the rows of a kind as they were written.
var exports = func() map[record.Kind]*fieldsql.Read {
	all := map[record.Kind]*fieldsql.Read{}
	for _, kind := range record.Kinds {
		all[kind] = fieldsql.NewRead(fieldsql.Export(kind))
	}
	return all
}()

// Export calls each with changes that make the whole tree of a plan, root or not, again, here
// or elsewhere. The root comes first, then kind by kind, parents before children, in the order
// of their keys. The root is chosen as by [Store.PlanTree]. The changes are of one moment and are
// read row by row, so a tree may be of any size.
//
// They do not hold an exception, which is for one reader, nor what remains of detail that was
// dropped. The error is [record.ErrNotFound] if there is no such plan. An error of each ends
// the export.
func (r *Reader) Export(ctx context.Context, rootPlanID, planID string, each func(record.Change) error) error {
	// Closing rows that were not read to their end would read them. Cancelling does not.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return pg.ReadTx(ctx, r.db, func(tx pgx.Tx) error {
		home, err := r.queries.PlanHome(ctx, tx, db.PlanHomeParams{PlanID: planID, RootPlanID: orNil(rootPlanID)})
		if err != nil {
			return pg.Translate(err)
		}
		for _, kind := range record.Kinds {
			if err := exportKind(ctx, tx, kind, home, func(c record.Change) error {
				err := each(c)
				if err != nil {
					cancel()
				}
				return err
			}); err != nil {
				cancel()
				return fmt.Errorf("export %s: %w", kind, err)
			}
		}
		return nil
	})
}

// exportKind calls each with the changes of one kind.
func exportKind(ctx context.Context, tx pgx.Tx, kind record.Kind, home db.PlanHomeRow, each func(record.Change) error) error {
	args := []any{home.RootPlanID}
	if fieldsql.TableOf(kind).Partitioned {
		args = append(args, home.Part)
	}
	rows, err := tx.Query(ctx, exports[kind].SQL, args...)
	if err != nil {
		return pg.Translate(err)
	}
	var failed error // each's own, which is not Postgres'
	err = readWritten(exports[kind], rows, kind, func(row *field.Row) error {
		for _, c := range row.Changes() {
			if failed = each(c); failed != nil {
				return failed
			}
		}
		return nil
	})
	if failed != nil {
		return failed
	}
	return pg.Translate(err)
}

// readWritten calls each with the rows of a kind as they were written.
func readWritten(from *fieldsql.Read, rows pgx.Rows, kind record.Kind, each func(*field.Row) error) error {
	var row *field.Row
	written := new(struct {
		Truncated []string
		Revs      []*int64
		Attempts  json.RawMessage
	})
	return from.Rows(rows, func(record.Kind) ([]any, error) {
		row = &field.Row{Change: record.New(kind)}
		written.Truncated, written.Revs, written.Attempts = nil, nil, nil
		return []any{row.Change, written}, nil
	}, func() (err error) {
		if row.Past, err = field.ParsePast(kind, written.Attempts); err != nil {
			return err
		}
		row.Cut = written.Truncated
		if written.Revs != nil {
			row.Revs = make([]int64, field.Revisions(kind))
			for i := range row.Revs {
				row.Revs[i] = field.NoRevision
				if i < len(written.Revs) && written.Revs[i] != nil { // fields newer than the row have none
					row.Revs[i] = *written.Revs[i]
				}
			}
		}
		return each(row)
	})
}
