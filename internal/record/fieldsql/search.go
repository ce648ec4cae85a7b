package fieldsql

import (
	"fmt"
	"strings"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// Searched returns the statement that reads the texts of trees that the search finds, each once
// per tree: the root's id and the text. Those of the root plan come first. Its parameters are the ids
// of the roots, and how many characters of a text are read.
func Searched() string {
	var sections []string
	for place, kind := range record.Kinds {
		fields, table := field.Searched(kind), TableOf(kind)
		if len(fields) == 0 {
			continue
		}

		var columns, past []string
		for _, f := range fields {
			columns = append(columns, "r."+f.Column)
			if f.Scoped {
				past = append(past, "e.attempt ->> '"+f.Name+"'")
			}
		}

		texts := "unnest(ARRAY[" + strings.Join(columns, ", ") + "]) AS u (text)"
		if field.HasAttempts(kind) {
			texts = "LATERAL (\n    SELECT unnest(ARRAY[" + strings.Join(columns, ", ") +
				"])\n    UNION ALL\n    SELECT unnest(ARRAY[" + strings.Join(past, ", ") +
				"]) FROM jsonb_array_elements(r.attempts) AS e (attempt)\n) AS u (text)"
			columns = append(columns, "r.attempts")
		}

		order, part := fmt.Sprint(place+1), ""
		if kind == record.KindPlan {
			order = "CASE WHEN r.current_plan_id = r.root_plan_id THEN 0 ELSE " + order + " END"
		}
		if table.Partitioned {
			part = " AND r.part = p.part"
		}

		// One by one, by the primary keys: a plan made while the tables were small would read all.
		sections = append(sections, fmt.Sprintf(`SELECT asked.root_plan_id, r.place, left(u.text, $2::integer) AS text
FROM unnest($1::text[]) AS asked (root_plan_id)
CROSS JOIN LATERAL (
    SELECT x.part
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = asked.root_plan_id AND x.current_plan_id = asked.root_plan_id
    OFFSET 0
) AS p
CROSS JOIN LATERAL (
    SELECT %s AS place, %s
    FROM actlog.%s AS r
    WHERE r.root_plan_id = asked.root_plan_id%s
    OFFSET 0
) AS r
CROSS JOIN %s
WHERE u.text IS NOT NULL`, order, strings.Join(columns, ", "), table.Name, part, texts))
	}
	return "SELECT s.root_plan_id, s.text\nFROM (\n" + strings.Join(sections, "\nUNION ALL\n") +
		"\n) AS s\nGROUP BY s.root_plan_id, s.text\nORDER BY s.root_plan_id, min(s.place), s.text COLLATE \"C\""
}
