package fieldsql

import (
	"fmt"
	"strings"

	"github.com/actlog/actlog/internal/field"
	"github.com/actlog/actlog/record"
)

// Searched returns the statement that reads the texts of trees that the search finds, each once
// per tree: the root's id and the text. Its parameters are the ids of the roots, and how many
// characters of a text are read.
func Searched() string {
	var sections []string
	for _, kind := range record.Kinds {
		fields, table := field.Searched(kind), TableOf(kind)
		if len(fields) == 0 {
			continue
		}
		columns := make([]string, len(fields))
		for i, f := range fields {
			columns[i] = "r." + f.Column
		}
		part := ""
		if table.Partitioned {
			part = " AND r.part = p.part"
		}
		// One by one, by the primary keys: a plan made while the tables were small would read all.
		sections = append(sections, fmt.Sprintf(`SELECT asked.root_plan_id, left(u.text, $2::integer) AS text
FROM unnest($1::text[]) AS asked (root_plan_id)
CROSS JOIN LATERAL (
    SELECT x.part
    FROM actlog.plan_execution_record AS x
    WHERE x.root_plan_id = asked.root_plan_id AND x.current_plan_id = asked.root_plan_id
    OFFSET 0
) AS p
CROSS JOIN LATERAL (
    SELECT %s
    FROM actlog.%s AS r
    WHERE r.root_plan_id = asked.root_plan_id%s
    OFFSET 0
) AS r
CROSS JOIN unnest(ARRAY[%s]) AS u (text)
WHERE u.text IS NOT NULL`, strings.Join(columns, ", "), table.Name, part, strings.Join(columns, ", ")))
	}
	return strings.Join(sections, "\nUNION\n")
}
