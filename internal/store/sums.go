package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/actlog/actlog/internal/field"
	"github.com/actlog/actlog/internal/fieldsql"
	"github.com/actlog/actlog/internal/pg"
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
	all := field.Fields(k)
	for _, name := range summed[k] {
		i, _ := field.ByName(k, name)
		fields = append(fields, &all[i])
	}
	return fields
}

// Sums reads hashes of the texts of a tree, by row and field, in one statement. Postgres may take the given time: rows behind that have none.
func (r *Reader) Sums(ctx context.Context, rootPlanID string, within time.Duration) (map[record.Key]map[string]int64, error) {
	sums, err := pg.Read(ctx, r.db, func() (map[record.Key]map[string]int64, error) {
		rows, err := counted(ctx, r.db, r.within, sumsOfTexts, rootPlanID, within.Milliseconds())
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		all := map[record.Key]map[string]int64{}
		for rows.Next() {
			key := record.Key{Root: rootPlanID}
			var found []int64
			if err := rows.Scan(&key.Kind, &key.Parent, &key.Seq, &key.ID, &found); err != nil {
				return nil, err
			}
			if found == nil {
				continue
			}
			named := make(map[string]int64, len(found))
			for i, name := range summed[key.Kind] {
				named[name] = found[i]
			}
			all[key] = named
		}
		return all, rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read the texts of %s: %w", rootPlanID, err)
	}
	return sums, nil
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
			where += " AND " + partOfRoot
		}
		sections = append(sections, fmt.Sprintf(`SELECT '%s'::text, %s,
    CASE WHEN clock_timestamp() <= statement_timestamp() + $2::integer * interval '1 millisecond' THEN ARRAY[%s] END
FROM actlog.%s AS t
WHERE %s`, kind, keys[kind], strings.Join(sums, ", "), table.Name, where))
	}
	return strings.Join(sections, "\nUNION ALL\n")
}()
