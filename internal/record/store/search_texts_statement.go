package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/internal/record/fieldsql"
	"github.com/actlog/actlog/record"
)

// The statements of the search in texts.

// The sections of a run are searched in this order. Of prompts, the first that has the text counts: those after it
// repeat it.
const (
	sectionPlans = iota
	sectionSteps
	sectionCycles
	sectionPrompts
	sectionCalls
	sectionThoughts
	sectionArtifacts
	sectionSources
	sectionWaits
	sectionEnd
)

var sectionKinds = [sectionEnd]record.Kind{
	record.KindPlan, record.KindAgentExecution, record.KindThinkAct, record.KindThinkAct, record.KindActTool,
	record.KindThought, record.KindArtifact, record.KindSource, record.KindWait,
}

var sectionFields = func() (all [sectionEnd][]*field.Field) {
	for i, kind := range sectionKinds {
		for _, f := range field.Worded(kind) {
			if inSection(f, i) {
				all[i] = append(all[i], f)
			}
		}
	}
	return all
}()

func inDetail(section int) bool { return fieldsql.TableOf(sectionKinds[section]).Partitioned }

// inSection reports whether a field, or the earlier attempts, of the kind of a section belong to it.
func inSection(f *field.Field, section int) bool {
	return (f != nil && f.Pieces != nil) == (section == sectionPrompts)
}

// SearchedTables are those whose partitions have an index for the search in texts once their period is over, with
// what is indexed of a row t.
var SearchedTables = map[string]string{
	"content":          "actlog.search_piece_fold(body)",
	"think_act_record": indexed(record.KindThinkAct),
	"act_tool_info":    indexed(record.KindActTool),
}

// SearchIndexSuffix follows the name of a partition in that of its index. Another number makes all indexes again.
const SearchIndexSuffix = "_search1"

// indexed returns what is indexed of a row: all its words but those in pieces.
func indexed(kind record.Kind) string {
	return "actlog.search_fold(" + strings.Join(words(kind, "", func(*field.Field) bool { return true }), ", ") + ")"
}

// words returns the expressions of the texts of a row that hold words, of some fields, and of its earlier attempts.
// Texts in pieces are not among them.
func words(kind record.Kind, alias string, of func(*field.Field) bool) (texts []string) {
	for _, f := range field.Worded(kind) {
		if !of(f) {
			continue
		}

		text := alias + f.Column
		if f.Pieces != nil {
			text = fieldsql.InRow(f, alias)
		}
		texts = append(texts, "("+text+")::text")
	}

	if field.HasAttempts(kind) && of(nil) {
		texts = append(texts, alias+"attempts::text")
	}
	return texts
}

// runSettings make Postgres plan a statement for any runs once, and look each up by its key: it may think that a table
// is small.
const runSettings = "set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', " +
	"'off', true)"

// indexSettings leave Postgres nothing but the indexes for the search, whatever it knows of the tables. It has to plan
// the statement for the given word.
const indexSettings = "set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_indexscan', " +
	"'off', true), set_config('enable_indexonlyscan', 'off', true)"

// searchKnown returns the statement for the roots of rows in some partitions that may have a word. The partitions stand
// in the order of the names of their tables. Its parameters are a pattern of the word, the word, and how many it
// returns.
func searchKnown(partitions []string) string {
	var parts []string
	of := func(i int, expression, rest string) {
		parts = append(parts, fmt.Sprintf("    SELECT root_plan_id FROM actlog.%s WHERE %s%s",
			pgx.Identifier{partitions[i]}.Sanitize(), expression, rest))
	}

	for i, table := range slices.Sorted(maps.Keys(SearchedTables)) {
		of(i, SearchedTables[table], " LIKE $1::text")
		if table == "content" {
			of(i, SearchedTables[table], " LIKE '%qzxjkvwqy%' AND actlog.search_begins(convert_to(body, 'UTF8'), $2::text)")
		}
	}
	return "SELECT u.root_plan_id FROM (\n" + strings.Join(parts, "\n    UNION ALL\n") + "\n    LIMIT $3::integer\n) AS u"
}

// searchLikely returns the places of those of some runs, in their order, that may have the word in some section. It
// takes less time than searchTexts, because it does not say where, and stops at the first row of a run. Its parameters
// are: roots and partitions of runs, and whether their detail is read; which sections are read; for how many
// milliseconds it reads; the word, its bare part, and what is like it. After the time a run is late, which means that
// it was not read; the first one never is.
var searchLikely = func() string {
	const late = "clock_timestamp() > (SELECT until FROM bound)"
	// What search_has says of a text x, without a call for each row. Postgres finds one byte faster than two. What is like
	// the word is not ASCII.
	const has = `x.text IS NOT NULL AND ($7::text = '' OR strpos(x.text, $7::text) > 0)
            AND (strpos(lower(x.text), $6::text) > 0 OR cardinality($8::text[]) > 0 AND octet_length(x.text) > length(x.text)
                AND EXISTS (SELECT FROM unnest($8::text[]) AS a (alike) WHERE strpos(x.text, a.alike) > 0))
            OR strpos(x.text, '\') > 0 AND strpos(x.text, '\u') > 0 AND actlog.search_rare(x.text)`

	var sections []string
	exists := func(asked, table, text, cut string, detail bool) {
		where := "t.root_plan_id = u.root"
		if detail {
			asked, where = "u.detail AND ("+asked+")", where+" AND t.part = u.part"
		}

		// OFFSET keeps Postgres from reading the whole table at once, and from making the text several times.
		sections = append(sections, fmt.Sprintf(`    (%s) AND EXISTS (
        SELECT FROM actlog.%s AS t CROSS JOIN LATERAL (SELECT %s COLLATE "C" AS text OFFSET 0) AS x
        WHERE %s AND (%s OR %s%s)
        OFFSET 0)`, asked, table, text, where, late, has, cut))
	}
	asked := func(section int) string { return fmt.Sprintf("($4::boolean[])[%d]", section+1) }

	for i, kind := range sectionKinds {
		table, of := fieldsql.TableOf(kind), asked(i)
		switch i {
		case sectionCycles: // with their prompts, as far as these are in the row
			of += " OR " + asked(sectionPrompts)
		case sectionPrompts:
			exists(of, "content", "t.body",
				"\n            OR actlog.search_cut(convert_to(x.text, 'UTF8')) AND actlog.search_begins(convert_to(x.text, "+
					"'UTF8'), $6::text)", true)
			continue
		}

		all := words(kind, "t.", func(*field.Field) bool { return true })
		exists(of, table.Name, "array_to_string(ARRAY["+strings.Join(all, ", ")+`], E'\n')`, "", table.Partitioned)
	}

	return `WITH bound AS MATERIALIZED ( -- made when it is first read
    SELECT clock_timestamp() + $5::integer * interval '1 millisecond' AS until
)
SELECT u.place, u.late
FROM (
    SELECT (k.n - 1)::integer AS place, k.root, k.part, k.detail, k.n > 1 AND ` + late + ` AS late
    FROM unnest($1::text[], $2::date[], $3::boolean[]) WITH ORDINALITY AS k (root, part, detail, n)
    OFFSET 0
) AS u
WHERE u.late OR
` + strings.Join(sections, "\n    OR\n") + "\nORDER BY u.place"
}()

// searchTexts reads the rows of runs whose texts may have a word, section by section, in the order of their keys. Its
// parameters are: roots and partitions of runs, and whether their detail is read; which sections are read; in the first
// run, the section and the key of the first row; for how many milliseconds it reads; how many rows of a section, and
// how many prompts, it returns of a run; the word, its bare part, and what is like it. After the time it returns the
// place of the row that would be next, without texts. It reads at least one row: the time begins when a row is first
// compared with it.
var searchTexts = func() string {
	const late = "clock_timestamp() > (SELECT until FROM bound)"
	// The columns of the key: what stands in record.Key as Parent, Seq and ID.
	keys := [sectionEnd][3]string{
		{"''", "0", "current_plan_id"}, {"''", "0", "step_id"}, {"step_id", "seq", "''"}, {"step_id", "seq", "''"},
		{"step_id", "seq", "tool_call_id"},
		{"plan_id", "0", "thought_id"}, {"plan_id", "0", "name"}, {"plan_id", "0", "source_id"}, {"plan_id", "0", "wait_id"},
	}
	const ofAgent = "(SELECT a.%s FROM actlog.agent_execution_record AS a WHERE a.root_plan_id = t.root_plan_id AND " +
		"a.step_id = t.step_id)"
	of := [sectionEnd][3]string{ // plan, step, and the name of an agent or a tool
		{"t.current_plan_id", "NULL", "NULL"}, {"t.shown_plan_id", "t.step_id", "t.agent_name"},
		sectionCycles:  {fmt.Sprintf(ofAgent, "shown_plan_id"), "t.step_id", fmt.Sprintf(ofAgent, "agent_name")},
		sectionPrompts: {fmt.Sprintf(ofAgent, "shown_plan_id"), "t.step_id", fmt.Sprintf(ofAgent, "agent_name")},
		sectionCalls:   {fmt.Sprintf(ofAgent, "shown_plan_id"), "t.step_id", "t.name"},
	}

	var sections []string
	for i, kind := range sectionKinds {
		table := fieldsql.TableOf(kind)
		in := func(f *field.Field) bool { return inSection(f, i) }
		whole, attempts := []string{}, "NULL"
		for _, f := range sectionFields[i] {
			whole = append(whole, "("+fieldsql.Whole(f, "t")+")::text")
		}
		if field.HasAttempts(kind) && in(nil) {
			attempts = "t.attempts::text"
		}

		has := has("convert_to(array_to_string(ARRAY[" + strings.Join(words(kind, "t.", in), ", ") + `], E'\n'), 'UTF8')`)
		from, most := "", "$10::integer"
		where := fmt.Sprintf("u.section <= %d AND ($4::boolean[])[%d] AND t.root_plan_id = u.root", i, i+1)
		if table.Partitioned {
			where += " AND u.detail AND t.part = u.part"
		}
		if i == sectionPrompts {
			from, most = searchPieces(late), "$11::integer"
			has = "cardinality(named.hashes) > 0 AND t.think_input_parts && named.hashes OR " +
				fieldsql.InRow(sectionFields[i][0], "t.") + " IS NOT NULL AND " + has
		}

		var left, right, order []string
		for j, column := range keys[i] {
			if column == "''" || column == "0" {
				continue
			}
			left, order = append(left, "t."+column), append(order, "t."+column)
			right = append(right, fmt.Sprintf("CASE WHEN u.section = %d THEN %s", i,
				[3]string{"u.parent ELSE '' END", "u.seq ELSE -1 END", "u.id ELSE '' END"}[j]))
		}

		shown := func(j int) string {
			if column := keys[i][j]; column != "''" && column != "0" {
				return "t." + column
			}
			return keys[i][j]
		}

		names := of[i]
		if names[0] == "" { // it stands beside a plan
			names = [3]string{"t.plan_id", "t.step_id", "NULL"}
		}
		isLate := late
		if i == sectionPrompts {
			isLate = "p.late OR " + late
		}

		sections = append(sections, fmt.Sprintf(`    (SELECT %d AS section, %s::text AS parent, %s::bigint AS seq, %s::text AS id, %s::text AS plan, %s::text AS step, %s::text AS name,
        CASE WHEN NOT x.late THEN ARRAY[%s] END AS texts, %s::text AS attempts
    FROM %sactlog.%s AS t
    CROSS JOIN LATERAL (SELECT t.root_plan_id IS NOT NULL AND (%s) AS late OFFSET 0) AS x -- once a row
    WHERE NOT u.late AND %s AND (%s) >= (%s)
        AND (x.late OR %s)
    ORDER BY %s
    LIMIT %s)`,
			i, shown(0), shown(1), shown(2), names[0], names[1], names[2], strings.Join(whole, ", "), attempts, from,
			table.Name, isLate, where,
			strings.Join(left, ", "), strings.Join(right, ", "), has, strings.Join(order, ", "), most))
	}

	return `WITH bound AS MATERIALIZED ( -- made when it is first read
    SELECT clock_timestamp() + $9::integer * interval '1 millisecond' AS until
)
SELECT u.place, r.section, r.parent, r.seq, r.id, r.plan, r.step, r.name, r.texts, r.attempts
FROM (
    SELECT (k.n - 1)::integer AS place, k.root, k.part, k.detail, k.n > 1 AND ` + late + ` AS late,
        CASE WHEN k.n = 1 THEN $5::integer ELSE 0 END AS section, CASE WHEN k.n = 1 THEN $6::text ELSE '' END AS parent,
        CASE WHEN k.n = 1 THEN $7::bigint ELSE -1 END AS seq, CASE WHEN k.n = 1 THEN $8::text ELSE '' END AS id
    FROM unnest($1::text[], $2::date[], $3::boolean[]) WITH ORDINALITY AS k (root, part, detail, n)
    OFFSET 0
) AS u
LEFT JOIN LATERAL (
` + strings.Join(sections, "\n    UNION ALL\n") + `
    OFFSET 0
) AS r ON true
WHERE u.late OR r.section IS NOT NULL`
}()

// has returns a condition: bytes of text may have the word.
func has(raw string) string {
	return "actlog.search_has(" + raw + ", $12::text, $13::bytea, $14::bytea[])"
}

// searchPieces returns what finds the pieces of a run that may have a word, p, and the contents that a prompt may name
// them by. Those of the first run are read to their end.
func searchPieces(late string) string {
	late = "(u.place > 0 AND " + late + ")"
	of := "c.root_plan_id = u.root AND c.part = u.part AND u.detail AND NOT u.late AND u.section <= " +
		fmt.Sprint(sectionPrompts) + " AND ($4::boolean[])[" + fmt.Sprint(sectionPrompts+1) + "]"

	return `(
        SELECT COALESCE(array_agg(c.hash), '{}') AS hashes, COALESCE(bool_or(c.hash IS NOT NULL AND ` + late + `), false) AS late
        FROM actlog.content AS c
        CROSS JOIN LATERAL (SELECT convert_to(c.body, 'UTF8') AS raw OFFSET 0) AS x -- once a piece
        WHERE ` + of + ` AND c.body IS NOT NULL
            AND (` + late + ` OR ` + has("x.raw") + ` OR actlog.search_cut(x.raw) AND actlog.search_begins(x.raw, $12::text))
    ) AS p
    CROSS JOIN LATERAL (
        SELECT p.hashes || COALESCE(array_agg(c.hash), '{}') AS hashes
        FROM actlog.content AS c
        WHERE ` + of + ` AND cardinality(p.hashes) > 0 AND c.parts && p.hashes
    ) AS named
    CROSS JOIN `
}
