// Package fieldsql owns every statement that follows from the table of fields: the merge and
// the replacement of rows, and the select lists of all reads. Statements are made at run time.
// It also owns the one decoder that reads rows into structs.
package fieldsql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/record/content"
	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// Table says where a kind is stored.
type Table struct {
	Kind record.Kind
	Name string // in schema actlog
	// NamesPartition rows say where the detail of their tree lies; they take that from the root plan.
	// Partitioned rows lie there themselves.
	NamesPartition, Partitioned bool
}

var tables = map[record.Kind]Table{
	record.KindPlan:           {Name: "plan_execution_record", NamesPartition: true},
	record.KindAgentExecution: {Name: "agent_execution_record", NamesPartition: true},
	record.KindThinkAct:       {Name: "think_act_record", NamesPartition: true, Partitioned: true},
	record.KindActTool:        {Name: "act_tool_info", NamesPartition: true, Partitioned: true},
	record.KindThought:        {Name: "thought"},
	record.KindArtifact:       {Name: "artifact"},
	record.KindSource:         {Name: "source_reference"},
	record.KindWait:           {Name: "wait_state"},
}

// TableOf returns the table of a kind.
func TableOf(k record.Kind) Table {
	t := tables[k]
	t.Kind = k
	return t
}

// Column is a column of a read.
type Column struct {
	Name string
	Type string // of Postgres
	SQL  string // its expression
}

// shownRollUps are the columns of a step that sum up its cycles and tool calls, for readers.
var shownRollUps = []Column{
	{Name: "completed_cycles", Type: "integer"}, {Name: "model_calls", Type: "integer"},
	{Name: "tool_calls", Type: "integer"},
	{Name: "failures", Type: "integer"}, {Name: "input_tokens", Type: "bigint"}, {Name: "output_tokens", Type: "bigint"},
	{Name: "cache_read_input_tokens", Type: "bigint"}, {Name: "cache_creation_input_tokens", Type: "bigint"},
	{Name: "reasoning_tokens", Type: "bigint"}, {Name: "cost_usd", Type: "numeric"}, {Name: "think_ms", Type: "bigint"},
	{Name: "tool_ms", Type: "bigint"}, {Name: "latest_round", Type: "integer"}, {Name: "latest_tool_name", Type: "text"},
	{Name: "latest_tool_args", Type: "text"},
}

// rollUps are all of them. The others serve reports.
var rollUps = append([]Column{{Name: "cycles"}, {Name: "last_seen_at"}}, shownRollUps...)

// uncalledRollUps are those that do not tell which tool call is the latest.
var uncalledRollUps = slices.DeleteFunc(slices.Clone(rollUps), func(c Column) bool {
	return strings.HasPrefix(c.Name, "latest_tool_")
})

// Readable returns the columns of a kind that every reader may see, as alias.column: the
// row's number, its fields, what was cut, its earlier attempts, and the roll-ups of a step.
func Readable(k record.Kind, alias string) []Column {
	columns := []Column{{Name: "id", Type: "bigint"}}
	for _, f := range field.Fields(k) {
		if f.Readable() {
			columns = append(columns, Column{Name: f.Shown, Type: columnType(f)})
		}
	}

	columns = append(columns, Column{Name: "truncated", Type: "text[]"})
	if field.HasAttempts(k) {
		columns = append(columns, Column{Name: "attempts", Type: "jsonb"})
	}
	if k == record.KindAgentExecution {
		columns = append(columns, shownRollUps...)
	}

	for i := range columns {
		columns[i].SQL = alias + "." + columns[i].Name
	}
	for _, f := range field.InPieces(k) {
		columns[slices.IndexFunc(columns, func(c Column) bool { return c.Name == f.Shown })].SQL = Whole(f, alias)
	}
	return columns
}

// Stored returns the columns of [Readable], but texts that are stored in pieces as they are stored: a mark in
// place of the text, and its pieces.
func Stored(k record.Kind, alias string) []Column {
	columns := Readable(k, alias)
	for _, f := range field.InPieces(k) {
		columns[slices.IndexFunc(columns, func(c Column) bool { return c.Name == f.Shown })].SQL = alias + "." + f.Column
		columns = append(columns, Column{
			Name: f.Pieces.Column, Type: parameterType(f.Pieces), SQL: alias + "." + f.Pieces.Column,
		})
	}
	return columns
}

// StoredOnce returns the columns of [Stored] for readers that do not put texts together: truncated names only
// the texts in pieces that are still cut, which a mark does not show. This takes Postgres longer to set up.
func StoredOnce(k record.Kind, alias string) []Column {
	columns := Stored(k, alias)
	columns[slices.IndexFunc(columns, func(c Column) bool { return c.Name == "truncated" })].SQL = stillCut(k, alias)
	return columns
}

// stillCut returns the expression of the fields of a row that were cut, without those in pieces whose text
// was replaced by a shorter one since. Few texts are cut, so few have to be looked at.
func stillCut(k record.Kind, alias string) string {
	cut := alias + ".truncated"
	for _, f := range field.InPieces(k) {
		cut = fmt.Sprintf("CASE WHEN '%s' = ANY (%s.truncated) AND %s AND octet_length(%s) < %d THEN array_remove(%s, "+
			"'%[1]s') ELSE %[6]s END",
			f.Name, alias, inPieces(f, alias), Whole(f, alias), f.FullBytes(), cut)
	}
	return cut
}

// Contents returns the statement that reads the contents that the rows of a tree name, pieces before
// pages, in the order of their hashes. One that is named in two ways comes twice. Its parameters are the
// root's id and the partition.
func Contents() string {
	var named []string
	for _, k := range record.Kinds {
		for _, f := range field.InPieces(k) {
			named = append(named, fmt.Sprintf("SELECT unnest(r.%s) FROM actlog.%s AS r WHERE r.root_plan_id = $1::text AND "+
				"r.part = $2::date AND %s",
				f.Pieces.Column, TableOf(k).Name, inPieces(f, "r")))
		}
	}

	return "SELECT c.hash, c.parts, c.body\nFROM actlog.contents_of($1::text, $2::date, ARRAY(\n    " +
		strings.Join(named, "\n    UNION ALL\n    ") +
		"\n)) AS c\nORDER BY c.parts IS NOT NULL, c.hash"
}

// Whole returns the expression of the whole text of a field, of rows of a table or with all its columns.
func Whole(f *field.Field, alias string) string {
	text := alias + "." + f.Column
	if f.Pieces == nil {
		return text
	}
	return fmt.Sprintf("CASE WHEN %s THEN actlog.text_of(%s.root_plan_id, %[2]s.part, %[2]s.%[3]s) ELSE %[4]s END",
		inPieces(f, alias), alias, f.Pieces.Column, text)
}

// InRow returns the expression of the text of a field that may be stored in pieces; null if it is. alias is empty, or
// ends with a dot.
func InRow(f *field.Field, alias string) string {
	return fmt.Sprintf("CASE WHEN %[1]s%[2]s IS NULL OR NOT starts_with(%[1]s%[3]s, '%[4]s') THEN %[1]s%[3]s END", alias,
		f.Pieces.Column, f.Column, content.MarkPrefix)
}

// inPieces is true of a row whose text is stored in pieces. A server of the release before does not know
// of them: its text may stand beside the pieces of an earlier one.
func inPieces(f *field.Field, alias string) string {
	return fmt.Sprintf("%s.%s IS NOT NULL AND starts_with(%[1]s.%[3]s, '%[4]s')", alias, f.Pieces.Column, f.Column,
		content.MarkPrefix)
}

// Lean returns the columns of [Readable] without long texts and JSON. Of the fields with the given columns it
// has the beginnings, of so many characters.
func Lean(k record.Kind, alias string, chars int, beginnings ...string) []Column {
	long := map[string]bool{"truncated": true}
	for _, f := range field.Fields(k) {
		long[f.Shown] = f.Long()
	}

	var columns []Column
	for _, c := range Readable(k, alias) {
		switch {
		case !long[c.Name]:
			columns = append(columns, c)
		case slices.Contains(beginnings, c.Name):
			c.SQL = fmt.Sprintf("left(%s, %d)", c.SQL, chars)
			columns = append(columns, c)
		}
	}
	return columns
}

func columnType(f *field.Field) string {
	switch {
	case f.Small:
		return "integer"
	case f.Decimal:
		return "numeric"
	}
	return parameterType(f)
}

// parameterType is the type in which values of a field are sent.
func parameterType(f *field.Field) string {
	switch f.Type {
	case field.Int:
		return "bigint"
	case field.Float:
		return "double precision"
	case field.Bool:
		return "boolean"
	case field.Time:
		return "timestamptz"
	case field.Texts:
		return "text[]"
	case field.Hashes:
		return "bytea[]"
	case field.JSON:
		return "json"
	default:
		return "text"
	}
}

func keys(k record.Kind) (columns []string) {
	for _, f := range field.Fields(k) {
		if f.Key {
			columns = append(columns, f.Column)
		}
	}
	return columns
}

func param(n int, of string) string { return fmt.Sprintf("$%d::%s", n, of) }

// assignment is a column and the expression that it is set to.
type assignment struct{ column, value string }

func list[T any](items []T, separator string, text func(T) string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = text(item)
	}
	return strings.Join(texts, separator)
}

const newLine = ",\n    "
