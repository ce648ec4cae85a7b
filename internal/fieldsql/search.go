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
		sections = append(sections, fmt.Sprintf(`SELECT p.root_plan_id, left(u.text, $2::integer) AS text
FROM actlog.plan_execution_record AS p
JOIN actlog.%s AS r ON r.root_plan_id = p.root_plan_id%s
CROSS JOIN unnest(ARRAY[%s]) AS u (text)
WHERE p.root_plan_id = ANY ($1::text[]) AND p.current_plan_id = p.root_plan_id AND u.text IS NOT NULL`,
			table.Name, part, strings.Join(columns, ", ")))
	}
	return strings.Join(sections, "\nUNION\n")
}
