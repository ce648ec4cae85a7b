package store

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/internal/record/tree"
	"github.com/actlog/actlog/record"
)

// Row is a row of the record as it stands.
type Row struct {
	ID int64
	// Record has the state that reads show. The plan of a step is the one it is shown under.
	Record    record.Change
	Truncated []string
	// PastAttempts are those before the record's own, in their order.
	PastAttempts []record.Attempt
	// RollUps holds those of a step, and nothing else of it; nil for other kinds.
	RollUps *tree.Step
}

const (
	// rowsPage and rowsPageBytes bound what is read of a kind at once.
	rowsPage      = 500
	rowsPageBytes = 512 << 10
)

// RowFilter says which rows of a tree to read, and how far the reading has come. The zero
// value selects none.
type RowFilter struct {
	// XIDs are the transactions that wrote the rows; nil for all.
	XIDs []uint32
	// Kinds are those that are still to be read.
	Kinds []record.Kind

	after map[record.Kind][]any // keys of the last rows that were read
}

// Primary names the server that is read, see [pg.DB.Primary].
func (r *Reader) Primary() string { return r.db.Primary() }

// Rows reads the next rows of a tree, in the order of their kinds and keys, and moves the
// filter on. All are read when the filter has no kinds left. The rows of one call are of one
// moment: what was committed together is read together. What changes meanwhile comes with the feed.
func (r *Reader) Rows(ctx context.Context, rootPlanID string, f *RowFilter) ([]Row, error) {
	var rows []Row
	after, left := map[record.Kind][]any{}, []record.Kind(nil)

	_, err := pg.Read(ctx, r.db, func() (struct{}, error) {
		rows, left = nil, nil
		var q pgx.Batch
		q.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
		for _, kind := range f.Kinds {
			page := rowPages[kind]
			from := f.after[kind]
			if from == nil {
				from = page.first
			}

			q.Queue(page.SQL, append([]any{rootPlanID, f.XIDs}, from...)...).Query(func(found pgx.Rows) error {
				read, n, err := readPage(&page.Read, found, kind)
				if n == rowsPage || len(read) < n {
					left, after[kind] = append(left, kind), keyArgs(read[len(read)-1].Record.Key())[1:]
				}
				rows = append(rows, read...)
				return err
			})
		}
		q.Queue("COMMIT")
		return struct{}{}, r.db.Send(ctx, &q)
	})
	if err != nil {
		return nil, fmt.Errorf("read rows of %s: %w", rootPlanID, err)
	}
	f.Kinds, f.after = left, after
	return rows, nil
}

// readPage collects the rows of a page. kind is that of rows that name none. found is how many rows there are, up to
// the limit of the page; 0 also for a page without rows.
func readPage(page *fieldsql.Read, from pgx.Rows, kind record.Kind) (rows []Row, found int, err error) {
	count := new(struct{ Found *int64 })
	var row *Row
	var into []any
	var earlier earlierAttempts

	err = page.Rows(from, func(named record.Kind) ([]any, error) {
		kind := cmp.Or(named, kind)
		rows = append(rows, Row{Record: record.New(kind)})
		row = &rows[len(rows)-1]
		into = append(into[:0], row.Record, row, count, earlier.of(kind, &row.PastAttempts))
		if kind == record.KindAgentExecution {
			row.RollUps = new(tree.Step)
			into = append(into, row.RollUps, &row.RollUps.Figures)
		}
		return into, nil
	}, func() error {
		if step, ok := row.Record.(*record.AgentExecution); ok {
			row.RollUps.Figures.DurationMs = tree.Duration(step.StartTime, step.EndTime)
		}
		row.Truncated = field.StillCut(row.Record, row.Truncated)
		return earlier.read()
	})

	if count.Found != nil {
		found = int(*count.Found)
	}
	return rows, found, err
}

// rowPage reads a page of the rows of a kind in a tree. $1 is the root, $2 the transactions
// that wrote the rows, or NULL, and from $3 on the key behind which the page begins.
type rowPage struct {
	fieldsql.Read
	first []any // the key before all others
}

var rowPages = func() map[record.Kind]*rowPage {
	all := map[record.Kind]*rowPage{}
	for _, kind := range record.Kinds {
		page := new(rowPage)
		var order, after []string
		for i, key := range fieldsql.Keys(kind) {
			order = append(order, key.SQL)
			after = append(after, fmt.Sprintf("$%d::%s", i+3, key.Type))
			page.first = append(page.first, map[string]any{"text": "", "bigint": -1}[key.Type])
		}

		where := fmt.Sprintf("t.root_plan_id = $1::text AND (%s) > (%s) AND ($2::xid[] IS NULL OR t.xmin = ANY ($2::xid[]))",
			strings.Join(order, ", "), strings.Join(after, ", "))
		if fieldsql.TableOf(kind).Partitioned {
			where += " AND " + inRootPartition
		}

		rows := fieldsql.Page{
			Kind: kind, Where: where, Order: order, Limit: fmt.Sprint(rowsPage), Bytes: fmt.Sprint(rowsPageBytes),
		}
		page.SQL = "SELECT i.found, " + fieldsql.Select(fieldsql.Readable(kind, "i")) + "\nFROM (" + rows.SQL() +
			") AS i\nORDER BY i.place"
		all[kind] = page
	}
	return all
}()

const (
	// rootPartition is where the detail of the tree $1 lies.
	rootPartition = "(SELECT p.part FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = $1::text AND " +
		"p.current_plan_id = $1::text)"
	// inRootPartition selects the rows t of a partitioned kind that lie there.
	inRootPartition = "t.part = " + rootPartition
)

var rowByKey = func() map[record.Kind]*fieldsql.Read {
	all := map[record.Kind]*fieldsql.Read{}
	for _, kind := range record.Kinds {
		keys := []string{"t.root_plan_id = $1::text"}
		if fieldsql.TableOf(kind).Partitioned {
			keys = append(keys, inRootPartition)
		}
		for i, key := range fieldsql.Keys(kind) {
			keys = append(keys, fmt.Sprintf("%s = $%d::%s", key.SQL, i+2, key.Type))
		}

		all[kind] = fieldsql.NewRead("SELECT " + fieldsql.Select(fieldsql.Readable(kind, "t")) + " FROM actlog." +
			fieldsql.TableOf(kind).Name + " AS t WHERE " + strings.Join(keys, " AND "))
	}
	return all
}()

// Row reads a row by its key. It asks for no room: what was just written is shown even if there is none. The error is
// [record.ErrNotFound] if there is no such row.
func (r *Reader) Row(ctx context.Context, key record.Key) (record.Change, error) {
	rows, err := r.Within(nil).read(ctx, rowByKey[key.Kind], key.Kind, keyArgs(key)...)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s %s: %w", key.Kind, key.ID, err)
	case len(rows) == 0:
		return nil, record.ErrNotFound
	}
	return rows[0].Record, nil
}

// read collects the rows of a statement. kind is that of rows that name none.
func (r *Reader) read(ctx context.Context, of *fieldsql.Read, kind record.Kind, args ...any) ([]Row, error) {
	return pg.Read(ctx, r.db, func() ([]Row, error) {
		from, err := r.Query(ctx, of.SQL, args...)
		if err != nil {
			return nil, err
		}
		rows, _, err := readPage(of, from, kind)
		return rows, err
	})
}

func keyArgs(key record.Key) []any {
	switch key.Kind {
	case record.KindPlan, record.KindAgentExecution:
		return []any{key.Root, key.ID}
	case record.KindThinkAct:
		return []any{key.Root, key.Parent, key.Seq}
	case record.KindActTool:
		return []any{key.Root, key.Parent, key.Seq, key.ID}
	default:
		return []any{key.Root, key.Parent, key.ID}
	}
}
