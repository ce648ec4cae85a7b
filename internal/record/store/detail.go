package store

import (
	"context"
	"fmt"

	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// Detail is a row with what explains it.
type Detail struct {
	Row
	// Before is the cycle before a cycle, with what was asked and answered in it alone; nil: there is none.
	Before *record.ThinkAct
	// Calls are the tool calls of a cycle, in no order. Of their parameters, results and errors they have the beginnings:
	// of what is longer than [BriefChars] characters, one more than that.
	Calls []Row
}

// BriefChars is how much of a text is read of what a row is explained with.
const BriefChars = 2_000

// cycleDetail reads a cycle, what was asked and answered in the one before it, and its tool calls. Its parameters are
// those of rowByKey.
var cycleDetail = fieldsql.Union("",
	fieldsql.Section{
		Kind:    record.KindThinkAct,
		Columns: fieldsql.Readable(record.KindThinkAct, "t"),
		From: `FROM actlog.think_act_record AS t
WHERE t.root_plan_id = $1::text AND t.step_id = $2::text AND t.seq = $3::bigint AND ` + inRootPartition,
	},
	fieldsql.Section{
		Kind: record.KindThinkAct,
		Columns: fieldsql.Only(fieldsql.Readable(record.KindThinkAct, "t"), "root_plan_id", "step_id", "seq", "think_input",
			"think_output", "message"),
		From: `FROM actlog.think_act_record AS t
WHERE t.root_plan_id = $1::text AND t.step_id = $2::text AND ` + inRootPartition + `
    AND t.seq = (SELECT max(t.seq) FROM actlog.think_act_record AS t WHERE t.root_plan_id = $1::text AND t.step_id = $2::text AND t.seq < $3::bigint AND ` + inRootPartition + `)`,
	},
	fieldsql.Section{
		Kind:    record.KindActTool,
		Columns: fieldsql.Lean(record.KindActTool, "t", BriefChars+1, "parameters", "result", "error_message"),
		From: `FROM actlog.act_tool_info AS t
WHERE t.root_plan_id = $1::text AND t.step_id = $2::text AND t.seq = $3::bigint AND ` + inRootPartition,
	},
)

// earlierCycles reads what was asked and answered in the cycles before a cycle, in their order, and before them each
// content that they name. $1 is the root, $2 the step and $3 the number of the cycle.
var earlierCycles = func() *fieldsql.Read {
	from := `FROM actlog.think_act_record AS c
WHERE c.root_plan_id = $1::text AND c.step_id = $2::text AND c.seq < $3::bigint AND c.part = ` + rootPartition
	return fieldsql.Sorted("", "r.by_seq NULLS FIRST", fieldsql.Section{
		Kind: record.KindThinkAct,
		Columns: fieldsql.Only(fieldsql.Stored(record.KindThinkAct, "c"), "seq", "think_input", "think_input_parts",
			"think_output", "message", "input_char_count"),
		From: from,
		Sort: cycleSection.Sort,
	}, contentSection("$1::text", rootPartition, from))
}()

// EarlierCycles calls each with the cycles of a step before one of them, in their order, with what was asked and
// answered in them alone. It reads them in one statement, each content once, and holds one of them at a time. If the
// connection is lost, it may begin again from the first. An error of each ends the read and is its error.
func (r *Reader) EarlierCycles(
	ctx context.Context, rootPlanID, stepID string, before int64, each func(*record.ThinkAct) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var refused error // of each
	_, err := pg.Read(ctx, r.db, func() (struct{}, error) {
		rows, err := r.Query(ctx, earlierCycles.SQL, rootPlanID, stepID, before)
		if err != nil {
			return struct{}{}, err
		}

		var held texts
		var cycle *record.ThinkAct
		return struct{}{}, earlierCycles.Rows(rows, func(kind record.Kind) ([]any, error) {
			if kind == kindContent {
				return []any{held.next()}, nil
			}
			cycle = &record.ThinkAct{RootPlanID: rootPlanID, StepID: stepID}
			return []any{cycle}, nil
		}, func() error {
			held.read()
			if cycle == nil {
				return nil
			}
			if err := held.fill(cycle, nil); err != nil {
				return err
			}
			if refused = each(cycle); refused != nil {
				cancel() // the rest is not read
			}
			return refused
		})
	})

	if refused != nil {
		return refused
	}
	return err
}

// Detail reads a row by its key, and what explains it, in one statement. The error is [record.ErrNotFound] if there is
// no such row.
func (r *Reader) Detail(ctx context.Context, key record.Key) (*Detail, error) {
	read := rowByKey[key.Kind]
	if key.Kind == record.KindThinkAct {
		read = cycleDetail
	}

	rows, err := r.read(ctx, read, key.Kind, keyArgs(key)...)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", key.Kind, key.ID, err)
	}

	d := new(Detail)
	for i := range rows {
		switch row := rows[i].Record.(type) {
		case *record.ActTool:
			if key.Kind == record.KindThinkAct {
				d.Calls = append(d.Calls, rows[i])
				continue
			}
		case *record.ThinkAct:
			if row.Seq != key.Seq {
				d.Before = row
				continue
			}
		}
		d.Row = rows[i]
	}

	if d.Record == nil {
		return nil, record.ErrNotFound
	}
	return d, nil
}
