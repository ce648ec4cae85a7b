package fieldsql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// Section selects rows of one kind in a statement that reads several.
type Section struct {
	Kind    record.Kind
	Columns []Column
	From    string // what follows the select list: FROM, WHERE
	// Sort has columns by which a sorted statement orders its rows, with names of their own. Sections share them by name.
	Sort []Column
}

// Union returns a read of the rows of sections, in no order. before is what stands before them: WITH, or nothing.
//
// The first column, kind, names the kind of a row. Sections share the other columns by type, whatever their names: most
// of what a small read takes is to set up its columns. So each kind has its columns in places of its own, which the
// read knows, and NULL in the other places.
func Union(before string, sections ...Section) *Read {
	sql, kinds := union(sections, nil)
	return &Read{SQL: before + sql, kinds: kinds}
}

// Sorted is Union with an order by the columns for sorting, of the row r.
func Sorted(before, order string, sections ...Section) *Read {
	var sort []Column
	for _, section := range sections {
		sort = withColumns(sort, section.Sort)
	}

	sql, kinds := union(sections, sort)
	return &Read{SQL: before + "SELECT *\nFROM (\n" + sql + "\n) AS r\nORDER BY " + order, kinds: kinds}
}

func union(sections []Section, sort []Column) (sql string, kinds map[record.Kind]map[string]int) {
	places, kinds := placed(sections)
	selects := make([]string, len(sections))
	for i, section := range sections {
		values := make([]string, len(places))
		for place, typ := range places {
			values[place] = "NULL"
			if i == 0 { // its types are those of the whole
				values[place] += "::" + typ
			}
		}
		for _, c := range section.Columns {
			values[kinds[section.Kind][c.Name]] = c.SQL
		}

		for _, c := range sort {
			value := "NULL::" + c.Type
			if own := slices.IndexFunc(section.Sort, func(o Column) bool { return o.Name == c.Name }); own >= 0 {
				value = section.Sort[own].SQL
			}
			values = append(values, value+" AS "+c.Name)
		}
		selects[i] = fmt.Sprintf("SELECT '%s'::text AS kind,\n    %s\n%s", section.Kind, wrapped(values), section.From)
	}
	return strings.Join(selects, "\nUNION ALL\n"), kinds
}

// placed returns the types of the places behind kind in the rows of sections, and in which of them each kind has its
// columns. Sections of one kind share theirs by name.
func placed(sections []Section) (types []string, kinds map[record.Kind]map[string]int) {
	kinds = map[record.Kind]map[string]int{}
	for _, section := range sections {
		taken := kinds[section.Kind]
		if taken == nil {
			taken = map[string]int{}
			kinds[section.Kind] = taken
		}

		for _, c := range section.Columns {
			if _, has := taken[c.Name]; has {
				continue
			}
			place := 0
			for ; place < len(types); place++ {
				if types[place] == c.Type && !slices.Contains(slices.Collect(maps.Values(taken)), place) {
					break
				}
			}
			if place == len(types) {
				types = append(types, c.Type)
			}
			taken[c.Name] = place
		}
	}
	return types, kinds
}

// withColumns appends the columns whose names are new.
func withColumns(all, more []Column) []Column {
	for _, c := range more {
		if !slices.ContainsFunc(all, func(known Column) bool { return known.Name == c.Name }) {
			all = append(all, c)
		}
	}
	return all
}

// wrapped returns a list of expressions in lines that can be read.
func wrapped(values []string) string {
	const width = 110
	var text strings.Builder
	line := 0
	for i, value := range values {
		switch first, _, _ := strings.Cut(value, "\n"); {
		case i == 0:
		case line+len(first) > width:
			text.WriteString(newLine)
			line = 0
		default:
			text.WriteString(", ")
		}

		text.WriteString(value)
		line += len(value) + len(", ")
		if last := strings.LastIndexByte(value, '\n'); last >= 0 {
			line = len(value) - last
		}
	}
	return text.String()
}

// Select returns the select list of columns.
func Select(columns []Column) string {
	return list(columns, newLine, func(c Column) string { return c.SQL + " AS " + c.Name })
}

// Only returns the columns with these names, in their order. An unknown name is a mistake in
// the program and panics.
func Only(columns []Column, names ...string) (out []Column) {
	for _, name := range names {
		i := slices.IndexFunc(columns, func(c Column) bool { return c.Name == name })
		if i < 0 {
			panic("fieldsql: no column " + name)
		}
		out = append(out, columns[i])
	}
	return out
}

// Written returns the statement that reads the rows of a kind as they were written: without
// defaults, and without what is served once. Texts that are kept in parts are whole, or as they are
// kept. Rows of that table are r. truncated is the expression of the fields that were cut, and rest the rest of
// the statement: WHERE, ORDER BY.
func Written(k record.Kind, whole bool, truncated, rest string) string {
	var columns []string
	for _, f := range field.Fields(k) {
		switch {
		case !f.Stored() || f.Role == field.Once || whole && f.Type == field.Hashes:
		case whole && f.Pieces != nil:
			columns = append(columns, Whole(f, "r")+" AS "+f.Column)
		default:
			columns = append(columns, "r."+f.Column)
		}
	}

	columns = append(columns, truncated+" AS truncated", "r.revs")
	if field.HasAttempts(k) {
		columns = append(columns, "r.attempts")
	}
	return "SELECT\n    " + strings.Join(columns, newLine) + "\nFROM actlog." + TableOf(k).Name + " AS r\n" + rest
}

// Export returns the statement that reads what was written to a tree, in the order of keys,
// the root plan first. Texts that are kept in parts are whole, or as they are kept. Its parameters are
// the root's id and, of partitioned kinds, the part.
func Export(k record.Kind, whole bool) string {
	table := TableOf(k)
	where := "WHERE r.root_plan_id = $1::text"
	if table.Partitioned {
		where += " AND r.part = $2::date"
	}

	order := list(keys(k)[1:], ", ", func(key string) string { return "r." + key })
	if k == record.KindPlan {
		order = "r.current_plan_id <> r.root_plan_id, " + order
	}
	cut := "r.truncated"
	if !whole {
		cut = stillCut(k, "r")
	}
	return Written(k, whole, cut, where+"\nORDER BY "+order)
}

// ByKey returns the statement that reads what was written to one row, as it is kept. Its parameters
// are the row's key.
func ByKey(k record.Kind) string {
	var where []string
	for _, f := range field.Fields(k) {
		if f.Key {
			where = append(where, "r."+f.Column+" = "+param(len(where)+1, parameterType(f)))
		}
	}
	return Written(k, false, "r.truncated", "WHERE "+strings.Join(where, " AND "))
}

// Page describes a page of rows of a kind: those behind a place in an order, up to a number
// and a size.
type Page struct {
	Kind record.Kind
	// Where selects rows. In it and in Order, the row is t.
	Where string
	// Order is the order of the rows: expressions without NULL.
	Order []string
	// Limit and Bytes bound the page. It ends before the row that would make it larger than
	// Bytes, but has one row at least. They are SQL.
	Limit, Bytes string
}

// SQL returns a query of the page's rows, with all their columns, found (how many rows there
// are within Limit), and place, by which they are to be sorted.
func (p Page) SQL() string {
	var sizes []string
	for _, f := range field.Fields(p.Kind) {
		if f.Readable() && (f.Type == field.Text || f.Type == field.JSON) {
			size := "octet_length(t." + f.Column + "::text)"
			if f.Pieces != nil { // in characters, which is near enough
				size = fmt.Sprintf("CASE WHEN %s THEN LEAST(t.%s, %d) ELSE %s END", inPieces(f, "t"),
					field.CharsOf(p.Kind, f).Column, record.MaxTextBytes, size)
			}
			sizes = append(sizes, "COALESCE("+size+", 0)")
		}
	}
	if field.HasAttempts(p.Kind) {
		sizes = append(sizes, "COALESCE(octet_length(t.attempts::text), 0)")
	}

	order := strings.Join(p.Order, ", ")
	return fmt.Sprintf(`SELECT y.*
FROM (
    SELECT t.*, count(*) OVER () AS found, sum(%s) OVER w AS bytes, row_number() OVER w AS place
    FROM (SELECT t.* FROM actlog.%s AS t WHERE %s ORDER BY %s LIMIT %s) AS t
    WINDOW w AS (ORDER BY %[4]s)
) AS y
WHERE y.bytes <= %[6]s OR y.place = 1`, strings.Join(sizes, " + "), TableOf(p.Kind).Name, p.Where, order, p.Limit, p.Bytes)
}

// Keys returns the columns of a kind's key below its root, with the type of each.
func Keys(k record.Kind) (columns []Column) {
	for _, f := range field.Fields(k) {
		if f.Key && f.Index() > 0 {
			columns = append(columns, Column{Name: f.Column, Type: parameterType(f), SQL: "t." + f.Column})
		}
	}
	return columns
}
