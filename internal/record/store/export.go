package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// exports reads the rows of a kind as they were written, storedExports with texts as they are stored.
var (
	exports        = exportsOf(true)
	storedExports  = exportsOf(false)
	exportContents = fieldsql.NewRead(fieldsql.Contents())
)

func exportsOf(whole bool) map[record.Kind]*fieldsql.Read {
	all := map[record.Kind]*fieldsql.Read{}
	for _, kind := range record.Kinds {
		all[kind] = fieldsql.NewRead(fieldsql.Export(kind, whole))
	}
	return all
}

// Export calls each with changes that make the whole tree of a plan, root or not, again, here
// or elsewhere. The root comes first, then kind by kind, parents before children, in the order
// of their keys. The root is chosen as by [Store.PlanTree]. The changes are of one moment and are
// read row by row, so a tree may be of any size.
//
// They do not hold an exception, which is for one reader, nor what remains of detail that was
// dropped. The error is [record.ErrNotFound] if there is no such plan. An error of each ends
// the export.
func (r *Reader) Export(ctx context.Context, rootPlanID, planID string, each func(record.Change) error) error {
	return r.export(ctx, rootPlanID, planID, exporting{each: each, reads: exports})
}

// ExportOnce is Export with texts as they are kept, for readers that put them together themselves: such a text
// is not there, but its parts. The contents of the tree of this root come before the changes that name them,
// each once, and pieces before pages.
func (r *Reader) ExportOnce(
	ctx context.Context, rootPlanID, planID string, contents func(root string,
		c content.Content) error, each func(record.Change) error,
) error {
	return r.export(ctx, rootPlanID, planID, exporting{each: each, contents: contents, reads: storedExports})
}

type exporting struct {
	each     func(record.Change) error
	contents func(root string, c content.Content) error // nil: texts are whole
	reads    map[record.Kind]*fieldsql.Read
	home     db.PlanHomeRow
	added    map[content.Hash]bool // contents that are not on record
	refused  error                 // of each or contents, which is not Postgres'
}

func (r *Reader) export(ctx context.Context, rootPlanID, planID string, x exporting) error {
	// Closing rows that were not read to their end would read them. Cancelling does not.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	return pg.ReadTx(ctx, r.db, func(tx pgx.Tx) (err error) {
		if x.home, err = r.queries.PlanHome(ctx, tx,
			db.PlanHomeParams{PlanID: planID, RootPlanID: orNil(rootPlanID)}); err != nil {
			return pg.Translate(err)
		}

		refuse := func(err error) error {
			if x.refused = err; err != nil {
				cancel()
			}
			return err
		}

		if x.contents != nil {
			if err := x.exportContents(ctx, tx, refuse); err != nil {
				cancel()
				return fmt.Errorf("export contents: %w", err)
			}
		}
		for _, kind := range record.Kinds {
			if err := x.exportKind(ctx, tx, kind, refuse); err != nil {
				cancel()
				return fmt.Errorf("export %s: %w", kind, err)
			}
		}
		return nil
	})
}

// ended returns the error that ended the reading of rows.
func (x *exporting) ended(err error) error {
	if x.refused != nil {
		return x.refused
	}
	return pg.Translate(err)
}

func (x *exporting) exportContents(ctx context.Context, tx pgx.Tx, refuse func(error) error) error {
	rows, err := tx.Query(ctx, exportContents.SQL, x.home.RootPlanID, x.home.Part)
	if err != nil {
		return pg.Translate(err)
	}

	row := new(contentRow)
	return x.ended(exportContents.Rows(rows, func(record.Kind) ([]any, error) {
		*row = contentRow{}
		return []any{row}, nil
	}, func() error {
		c, _ := row.content()
		return refuse(x.contents(x.home.RootPlanID, c))
	}))
}

func (x *exporting) exportKind(ctx context.Context, tx pgx.Tx, kind record.Kind, refuse func(error) error) error {
	args := []any{x.home.RootPlanID}
	if fieldsql.TableOf(kind).Partitioned {
		args = append(args, x.home.Part)
	}

	rows, err := tx.Query(ctx, x.reads[kind].SQL, args...)
	if err != nil {
		return pg.Translate(err)
	}
	return x.ended(readWritten(x.reads[kind], rows, kind, func(row *field.Row) error { return refuse(x.give(row)) }))
}

// give gives the changes of a row away, after what they name that is not on record.
func (x *exporting) give(row *field.Row) error {
	changes := row.Changes()
	for _, c := range row.Contents {
		if x.added[c.Hash] {
			continue
		}

		if x.added == nil {
			x.added = map[content.Hash]bool{}
		}
		x.added[c.Hash] = true
		if err := x.contents(x.home.RootPlanID, c); err != nil {
			return err
		}
	}

	for _, c := range changes {
		field.HideMarks(c)
		if err := x.each(c); err != nil {
			return err
		}
	}
	return nil
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
		written.Truncated = nil
		written.Revs, written.Attempts = nil, nil
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
