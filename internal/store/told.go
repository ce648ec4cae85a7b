package store

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/db"
	"github.com/actlog/actlog/internal/upsert"
	"github.com/actlog/actlog/record"
)

// tolds is the statement of each kind that gives rows as they were told.
var tolds = map[record.Kind]string{
	record.KindPlan:           db.PlanTold,
	record.KindAgentExecution: db.AgentExecutionTold,
	record.KindThinkAct:       db.ThinkActTold,
	record.KindActTool:        db.ActToolTold,
	record.KindThought:        db.ThoughtTold,
	record.KindArtifact:       db.ArtifactTold,
	record.KindSource:         db.SourceTold,
	record.KindWait:           db.WaitTold,
}

// Told gives what was told of the whole tree that a plan, root or not, belongs to:
// changes that make it again, elsewhere or here. The root comes first, then kind by
// kind, parents before children, in the order of their keys. They are of one moment,
// and read row by row, so that a tree may be of any size.
//
// An exception, which is for one reader once, is not among them, nor is what is left
// of detail that was dropped, which no change can tell. [record.ErrNotFound] where there is
// no such plan; an error of each ends it.
func (s *Store) Told(ctx context.Context, planID string, each func(record.Change) error) error {
	// Closing rows that were not read to their end would read them: cancelling does
	// not.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tx, err := read(ctx, s, func(db.DBTX) (pgx.Tx, error) {
		return s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // there is nothing to keep
	home, err := s.reads.PlanHome(ctx, tx, planID)
	if err != nil {
		return translate(err)
	}
	for _, kind := range record.Kinds {
		args := []any{home.RootPlanID}
		if upsert.TableOf(kind).Partitioned {
			args = append(args, home.Part)
		}
		if err := told(ctx, tx, kind, args, cancel, each); err != nil {
			return fmt.Errorf("reading what was told: %s: %w", kind, err)
		}
	}
	return nil
}

// told gives what was told of the rows of a kind. stop ends the statement early.
func told(ctx context.Context, tx pgx.Tx, kind record.Kind, args []any, stop func(), each func(record.Change) error) error {
	rows, err := tx.Query(ctx, tolds[kind], args...)
	if err != nil {
		return translate(err)
	}
	defer rows.Close()
	for rows.Next() {
		row, err := toldRow(kind, rows)
		if err != nil {
			stop()
			return translate(err)
		}
		for _, c := range row.Changes() {
			if err := each(c); err != nil {
				stop()
				return err
			}
		}
	}
	return translate(rows.Err())
}

// toldRow reads a row, whose columns are in the order of the kind's fields.
func toldRow(kind record.Kind, rows pgx.CollectableRow) (*record.Row, error) {
	var revs []*int64
	row := &record.Row{Change: record.New(kind)}
	var columns []any
	fields := record.Fields(kind)
	for i := range fields {
		if f := &fields[i]; f.Name != "rev" {
			columns = append(columns, f.In(row.Change).Addr().Interface())
		}
	}
	if err := rows.Scan(append(columns, &row.Cut, &revs)...); err != nil {
		return nil, err
	}
	for i := range fields {
		if v := fields[i].In(row.Change); fields[i].Type == record.Time && !v.IsNil() {
			v.Set(reflect.ValueOf(new(v.Elem().Interface().(time.Time).UTC())))
		}
	}
	if revs != nil {
		row.Revs = make([]int64, record.Revisions(kind))
		for i := range row.Revs {
			row.Revs[i] = record.NoRevision
			if i < len(revs) && revs[i] != nil { // those of fields that are newer than the row are not there
				row.Revs[i] = *revs[i]
			}
		}
	}
	if p, ok := row.Change.(*record.Plan); ok {
		p.Exception = nil
	}
	return row, nil
}
