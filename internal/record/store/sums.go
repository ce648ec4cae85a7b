package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/internal/record/pg"
	"github.com/actlog/actlog/record"
)

// summed are the texts that say what a row was asked and what came of it.
var summed = map[record.Kind][]string{
	record.KindPlan:           {"errorMessage", "userRequest", "summary"},
	record.KindAgentExecution: {"errorMessage", "agentRequest", "result"},
	record.KindThinkAct:       {"errorMessage", "thinkInput", "thinkOutput"},
	record.KindActTool:        {"errorMessage", "parameters", "result"},
	record.KindWait:           {"formDescription", "decision", "decisionText"},
}

// Summed returns the fields of a kind whose texts [Reader.Sums] has.
func Summed(k record.Kind) (fields []*field.Field) {
	for _, name := range summed[k] {
		fields = append(fields, field.ByName(k, name))
	}
	return fields
}

// TextSums are hashes of the texts of the rows of a tree. They are kept in little memory: a tree may have hundreds of
// thousands of rows.
type TextSums struct {
	first map[sumKey]int32 // where those of a row begin
	all   []int64          // those of a row in the order of summed
}

type sumKey struct {
	kind   record.Kind
	parent string
	seq    int64
	id     string
}

// sumBytes is about what a row takes in them beside its values.
const sumBytes = 100

// Of returns the hashes of the texts of a row by the names of the fields. ok is false if the row was not read.
func (t *TextSums) Of(key record.Key) (sums map[string]int64, ok bool) {
	at, ok := t.first[sumKey{key.Kind, key.Parent, key.Seq, key.ID}]
	if !ok {
		return nil, false
	}

	names := summed[key.Kind]
	sums = make(map[string]int64, len(names))
	for i, name := range names {
		sums[name] = t.all[int(at)+i]
	}
	return sums, true
}

// Sums reads hashes of the texts of a tree, by row and field, in one statement. Postgres may take the given time: rows
// behind that have none.
func (r *Reader) Sums(ctx context.Context, rootPlanID string, within time.Duration) (*TextSums, error) {
	sums, err := pg.Read(ctx, r.db, func() (*TextSums, error) {
		rows, err := counted(ctx, r.db, r.within, sumsOfTexts, rootPlanID, within.Milliseconds())
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		rows.overhead = sumBytes

		t := &TextSums{first: map[sumKey]int32{}}
		parents := map[string]string{} // each once: many rows have the same
		for rows.Next() {
			var key sumKey
			var found []int64
			if err := rows.Scan(&key.kind, &key.parent, &key.seq, &key.id, &found); err != nil {
				return nil, err
			}
			if found == nil {
				continue
			}

			if parent, known := parents[key.parent]; known {
				key.parent = parent
			} else {
				parents[key.parent] = key.parent
			}
			t.first[key] = int32(len(t.all)) //nolint:gosec // a tree has fewer rows
			t.all = append(t.all, found...)
		}
		return t, rows.Err()
	})
	return sums, pg.Wrap(err, "read the texts of %s", rootPlanID)
}

// sumsOfTexts looks at the clock before each row. An empty text is as good as none.
var sumsOfTexts = func() string {
	keys := map[record.Kind]string{
		record.KindPlan:           "'', 0::bigint, t.current_plan_id",
		record.KindAgentExecution: "'', 0::bigint, t.step_id",
		record.KindThinkAct:       "t.step_id, t.seq::bigint, ''",
		record.KindActTool:        "t.step_id, t.seq::bigint, t.tool_call_id",
		record.KindWait:           "t.plan_id, 0::bigint, t.wait_id",
	}

	var sections []string
	for _, kind := range record.Kinds {
		if keys[kind] == "" {
			continue
		}

		var sums []string
		for _, f := range Summed(kind) {
			sums = append(sums, "hashtextextended(COALESCE(("+fieldsql.Whole(f, "t")+")::text, ''), 0)")
		}

		table := fieldsql.TableOf(kind)
		where := "t.root_plan_id = $1::text"
		if table.Partitioned {
			where += " AND " + inRootPartition
		}
		sections = append(sections, fmt.Sprintf(`SELECT '%s'::text, %s,
    CASE WHEN clock_timestamp() <= statement_timestamp() + $2::integer * interval '1 millisecond' THEN ARRAY[%s] END
FROM actlog.%s AS t
WHERE %s`, kind, keys[kind], strings.Join(sums, ", "), table.Name, where))
	}
	return strings.Join(sections, "\nUNION ALL\n")
}()
