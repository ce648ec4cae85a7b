// Package upsert owns the SQL that merges what is told about rows into their table,
// by the rules of record's table of fields: what two changes become does not depend
// on whether they meet in memory or in the database.
package upsert

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/actlog/actlog/record"
)

// Table says where a kind is kept.
type Table struct {
	Kind  record.Kind
	Name  string // in schema actlog
	Query string // begins the names of its queries
	File  string // begins the names of their files
	// Parted tells whether a row says where the detail of its tree lies; it takes that
	// from the root plan. Partitioned tells whether the row itself lies there.
	Parted, Partitioned bool
}

// Tables are those of all kinds.
var Tables = []Table{
	{Kind: record.KindPlan, Name: "plan_execution_record", Query: "Plan", File: "plan", Parted: true},
	{Kind: record.KindAgentExecution, Name: "agent_execution_record", Query: "AgentExecution", File: "agent_execution", Parted: true},
	{Kind: record.KindThinkAct, Name: "think_act_record", Query: "ThinkAct", File: "think_act", Parted: true, Partitioned: true},
	{Kind: record.KindActTool, Name: "act_tool_info", Query: "ActTool", File: "act_tool", Parted: true, Partitioned: true},
	{Kind: record.KindThought, Name: "thought", Query: "Thought", File: "thought"},
	{Kind: record.KindArtifact, Name: "artifact", Query: "Artifact", File: "artifact"},
	{Kind: record.KindSource, Name: "source_reference", Query: "Source", File: "source_reference"},
	{Kind: record.KindWait, Name: "wait_state", Query: "Wait", File: "wait_state"},
}

// TableOf gives the table of a kind.
func TableOf(k record.Kind) Table {
	return Tables[slices.IndexFunc(Tables, func(t Table) bool { return t.Kind == k })]
}

// Shape is what the rows of a statement tell. A statement names nothing else:
// Postgres sets each expression up anew, every time.
type Shape struct {
	// Fields is a set of places in record.Fields, a bit each; keys are in it anyhow.
	Fields uint64
	// Revs and Cut tell whether any row has revisions, or fields that were cut.
	Revs, Cut bool
	// Reopens tells whether any row may speak of a later attempt than the first: with it,
	// fields start anew though they are not told.
	Reopens bool
	// Placed tells that the part of all rows is a parameter, so that Postgres opens no
	// other partition. Else each takes it from its root plan. Each tool call then makes
	// sure that its cycle is on record there; where it is not, the statement fails,
	// dividing by zero.
	Placed bool
}

// Whole is the shape of everything.
func Whole(k record.Kind) Shape {
	return Shape{Fields: 1<<len(record.Fields(k)) - 1, Revs: true, Cut: true, Reopens: true}
}

// Args gives the places in record.Fields whose columns are the statement's
// parameters, an array each, in their order. Those of the names that were cut, and
// of the revisions, follow, where the shape has them.
func (s Shape) Args(k record.Kind) (places []int) {
	fields := record.Fields(k)
	at := func(name string) int {
		return slices.IndexFunc(fields, func(f record.Field) bool { return f.Name == name })
	}
	told := func(i int) bool { return s.Fields&(1<<i) != 0 }
	for i := range fields {
		switch f := &fields[i]; {
		case f.Name == "rev":
		case f.Key, told(i),
			f.Of != nil && told(at(f.Of.Name)), // comes and goes with it
			f.Scoped && s.Reopens:
			places = append(places, i)
		}
	}
	return places
}

// Statement gives the statement of a shape: it takes what is told about many rows,
// as one array a column, and merges it into the table, row by row; plans, which are
// locked first, in the order of their key. After the arrays of its fields come those
// of names that were cut and of revisions, then the part, where the shape has them.
//
// Where nothing is told but keys, it makes the rows that are missing. Plans are
// locked all the same: who writes to a tree has to have its root plan. A plan's
// statement takes the days of a period besides, for roots that are new. That of
// steps rolls up their cycles and tool calls, so it comes after these.
func Statement(k record.Kind, shape Shape) (string, error) { return execute("merge", "", k, shape) }

// Projected is the shape of what the spans of traces can tell: all but what is told
// to a reader, and signs of life.
func Projected(k record.Kind) Shape {
	shape := Shape{Cut: true, Revs: true, Reopens: true}
	for i, f := range record.Fields(k) {
		if f.Name != "rev" && f.Name != "exception" && f.Name != "lastSeenAt" {
			shape.Fields |= 1 << i
		}
	}
	return shape
}

// Replacement gives the statement that puts rows in place of those that the spans of
// traces made before, and gives the roots of what differed: it un-sets what is not
// told any more. Rows that others tell of, too, stay as they are, but where revisions
// come, empty ones: then the caller has merged them. Else it is as that of [Statement].
func Replacement(k record.Kind) (string, error) { return execute("replace", "otlp", k, Projected(k)) }

func execute(name, origin string, k record.Kind, shape Shape) (string, error) {
	d := data{Table: TableOf(k), Shape: shape, Origin: origin}
	fields := record.Fields(k)
	for _, i := range shape.Args(k) {
		d.Fields = append(d.Fields, fields[i])
	}
	d.all = fields
	var b bytes.Buffer
	if err := statement.ExecuteTemplate(&b, name, d); err != nil {
		return "", fmt.Errorf("statement of %s: %w", k, err)
	}
	return b.String(), nil
}

// data is what the template sees.
type data struct {
	Table
	Shape
	Origin string // of new rows; "": the table's default
	Fields []record.Field
	all    []record.Field
}

// Merges tells whether what is told may change a row on record.
func (d data) Merges() bool {
	return d.Cut || slices.ContainsFunc(d.Fields, func(f record.Field) bool { return !f.Key })
}

// Locks tells whether rows on record are locked though they do not change.
func (d data) Locks() bool { return d.Kind == record.KindPlan }

// RollUps are the columns that are rolled up from what is beneath.
func (d data) RollUps() []string {
	if d.Kind != record.KindAgentExecution {
		return nil
	}
	return rollUps
}

var rollUps = []string{
	"cycles", "completed_cycles", "model_calls", "tool_calls", "failures", "input_tokens", "output_tokens",
	"cache_read_input_tokens", "cache_creation_input_tokens", "reasoning_tokens", "cost_usd", "think_ms", "tool_ms",
	"latest_round", "latest_tool_name", "latest_tool_args", "last_seen_at",
}

// Params counts the arrays.
func (d data) Params() int {
	n := len(d.Fields)
	for _, more := range []bool{d.Cut, d.Revs} {
		if more {
			n++
		}
	}
	return n
}

// Part is that of a row.
func (d data) Part() string {
	if d.Placed {
		return fmt.Sprintf("$%d::date", d.Params()+1)
	}
	return "root.part"
}

// Tells tells whether a field is in the shape.
func (d data) Tells(name string) bool {
	return slices.ContainsFunc(d.Fields, func(f record.Field) bool { return f.Name == name })
}

// Named gives a field.
func (d data) Named(name string) record.Field {
	return d.Fields[slices.IndexFunc(d.Fields, func(f record.Field) bool { return f.Name == name })]
}

// Keys gives the key, as columns.
func (d data) Keys() string {
	var keys []string
	for _, f := range d.Fields {
		if f.Key {
			keys = append(keys, f.Column)
		}
	}
	return strings.Join(keys, ", ")
}

// statement: r is the row on record.
var statement = template.Must(template.New("").Funcs(template.FuncMap{
	"inc": func(n ...int) (sum int) {
		for _, n := range n {
			sum += n
		}
		return sum + 1
	},
	"param": param, "value": value,
}).Parse(`{{define "insert"}}INSERT INTO actlog.{{.Name}} AS r (
{{- range $i, $f := .Fields}}{{if $i}},{{end}}
    {{.Column}}
{{- end}}
{{- if .Cut}},
    truncated
{{- end}}
{{- if .Revs}},
    revs
{{- end}}
{{- if .Parted}},
    part
{{- end}}
{{- range .RollUps}},
    {{.}}
{{- end}}
{{- if .Origin}},
    origin
{{- end}}
{{- if .Tells "exception"}},
    exception_at
{{- end}}
{{- if .Tells "lastSeenAt"}},
    beat_at
{{- end}}
)
SELECT
{{- range $i, $f := .Fields}}{{if $i}},{{end}}
    {{value .}}
{{- end}}
{{- if .Cut}},
    u.truncated::text[]
{{- end}}
{{- if .Revs}},
    u.revs::bigint[]
{{- end}}
{{- if eq .Query "Plan"}},
    COALESCE(root.part, today.day - (today.day - DATE '2001-01-01') % ${{inc .Params}}::integer)
{{- else if .Parted}},
    {{.Part}}
{{- if and .Placed (eq .Query "ActTool")}} - 1 + 1 / ( -- by zero: a wrong guess which cycles are there, the same is written anew
        SELECT count(*)
        FROM actlog.think_act_record AS c
        WHERE c.root_plan_id = u.root_plan_id AND c.step_id = u.step_id AND c.seq = u.seq AND c.part = {{.Part}}
    )::integer
{{- end}}
{{- end}}
{{- range .RollUps}},
    rolled.{{.}}
{{- end}}
{{- if .Origin}},
    '{{.Origin}}'
{{- end}}
{{- if .Tells "exception"}},
    CASE WHEN u.exception IS NOT NULL THEN now() END
{{- end}}
{{- if .Tells "lastSeenAt"}},
    CASE WHEN u.last_seen_at IS NOT NULL THEN now() END
{{- end}}
FROM unnest(
{{- range $i, $f := .Fields}}{{if $i}},{{end}}
    {{param (inc $i) $f}}
{{- end}}
{{- if .Cut}},
    ${{inc (len .Fields)}}::text[]
{{- end}}
{{- if .Revs}},
    ${{if .Cut}}{{inc (len .Fields) 1}}{{else}}{{inc (len .Fields)}}{{end}}::text[]
{{- end}}
) AS u (
{{- range $i, $f := .Fields}}{{if $i}},{{end}}
    {{.Column}}
{{- end}}
{{- if .Cut}},
    truncated
{{- end}}
{{- if .Revs}},
    revs
{{- end}}
)
{{- if eq .Query "Plan"}}
CROSS JOIN (SELECT (now() AT TIME ZONE 'utc')::date AS day) AS today
{{- end}}
{{- if and .Parted (not .Placed)}}
LEFT JOIN actlog.plan_execution_record AS root
    ON root.root_plan_id = u.root_plan_id AND root.current_plan_id = u.root_plan_id
{{- end}}
{{- if .RollUps}}
LEFT JOIN LATERAL (
    SELECT
        c.cycles, c.completed_cycles, c.model_calls, c.input_tokens, c.output_tokens, c.cache_read_input_tokens,
        c.cache_creation_input_tokens, c.reasoning_tokens, c.cost_usd, c.think_ms, c.latest_round,
        t.tool_calls, t.tool_ms, c.failures + t.failures AS failures,
        GREATEST(c.last_seen_at, t.last_seen_at) AS last_seen_at,
        l.name AS latest_tool_name, l.args AS latest_tool_args
    FROM (
        SELECT
            count(*) AS cycles,
            count(*) FILTER (WHERE x.status = 'FINISHED') AS completed_cycles,
            count(*) FILTER (WHERE COALESCE(x.think_start_time, x.think_end_time) IS NOT NULL
                OR COALESCE(x.input_char_count, x.output_char_count, x.input_tokens, x.output_tokens) IS NOT NULL
                OR x.model_name IS NOT NULL) AS model_calls,
            count(*) FILTER (WHERE x.state = 'FAILED') AS failures,
            sum(x.input_tokens) AS input_tokens,
            sum(x.output_tokens) AS output_tokens,
            sum(x.cache_read_input_tokens) AS cache_read_input_tokens,
            sum(x.cache_creation_input_tokens) AS cache_creation_input_tokens,
            sum(x.reasoning_tokens) AS reasoning_tokens,
            sum(x.cost_usd) AS cost_usd,
            sum(GREATEST(0, round(1000 * extract(epoch FROM x.think_end_time - x.think_start_time))))::bigint AS think_ms,
            COALESCE(max(x.seq) + 1, 0) AS latest_round,
            GREATEST(max(x.think_start_time), max(x.think_end_time), max(x.first_token_time), max(x.act_start_time), max(x.act_end_time)) AS last_seen_at
        FROM actlog.think_act_record AS x
        WHERE x.root_plan_id = u.root_plan_id AND x.step_id = u.step_id AND x.part = {{.Part}}
    ) AS c
    CROSS JOIN (
        SELECT
            count(*) AS tool_calls,
            count(*) FILTER (WHERE x.state = 'FAILED') AS failures,
            sum(GREATEST(0, round(1000 * extract(epoch FROM x.end_time - x.start_time))))::bigint AS tool_ms,
            GREATEST(max(x.start_time), max(x.end_time)) AS last_seen_at
        FROM actlog.act_tool_info AS x
        WHERE x.root_plan_id = u.root_plan_id AND x.step_id = u.step_id AND x.part = {{.Part}}
    ) AS t
    LEFT JOIN (
        SELECT x.name, left(x.parameters, 1000) AS args
        FROM actlog.act_tool_info AS x
        WHERE x.root_plan_id = u.root_plan_id AND x.step_id = u.step_id AND x.part = {{.Part}}
        ORDER BY x.seq DESC, x.call_index DESC NULLS FIRST, x.start_time DESC NULLS FIRST, x.tool_call_id DESC
        LIMIT 1
    ) AS l ON true
-- What was rolled up before the detail of a period was dropped stays.
) AS rolled ON {{.Part}} >= COALESCE((
    SELECT d.to_day FROM actlog.dropped_detail AS d WHERE d.from_day <= {{.Part}} ORDER BY d.from_day DESC LIMIT 1
), '-infinity')
{{- end}}
{{- if .Locks}}
ORDER BY u.root_plan_id COLLATE "C", u.current_plan_id COLLATE "C"
{{- end}}
{{- end}}

{{- define "merge"}}{{template "insert" .}}
ON CONFLICT ({{.Keys}}{{if .Partitioned}}, part{{end}}) DO
{{- if or .Merges .RollUps}} UPDATE SET
{{- $d := .}}{{$sep := ""}}
{{- range .Fields}}{{if not .Key}}{{$sep}}
    {{.Column}} = {{$d.Set .}}{{$sep = ","}}
{{- end}}{{end}}
{{- if .Tells "exception"}},
    -- The same text again does not arm the exception anew.
    exception_at = CASE WHEN r.exception IS DISTINCT FROM excluded.exception AND {{.Takes (.Named "exception")}} THEN excluded.exception_at ELSE r.exception_at END,
    exception_served_at = CASE WHEN r.exception IS DISTINCT FROM excluded.exception AND {{.Takes (.Named "exception")}} THEN NULL ELSE r.exception_served_at END
{{- end}}
{{- if .Tells "lastSeenAt"}},
    -- By the clock of the database: those of clients differ.
    beat_at = CASE WHEN {{.Differs (.Named "lastSeenAt")}} THEN excluded.beat_at ELSE r.beat_at END
{{- end}}
{{- if .Cut}}{{$sep}}
    truncated = CASE
        WHEN excluded.truncated <@ COALESCE(r.truncated, '{}') THEN r.truncated
        WHEN excluded.truncated IS NULL THEN r.truncated
        ELSE r.truncated || excluded.truncated
    END{{$sep = ","}}
{{- end}}
{{- if .Revs}}{{$sep}}
    revs = CASE WHEN r.revs IS NULL AND excluded.revs IS NULL THEN {{.NoRevs}} ELSE ARRAY[
{{.Merged}}
    ] END{{$sep = ","}}
{{- else if .Parted}}{{$sep}}
    revs = COALESCE(r.revs, {{.NoRevs}}){{$sep = ","}}
{{- end}}
{{- range .RollUps}}{{$sep}}
    {{.}} = CASE WHEN excluded.cycles IS NULL THEN r.{{.}} ELSE excluded.{{.}} END{{$sep = ","}}
{{- end}}
WHERE {{if .Parted}}r.origin = 'otlp' AND r.revs IS NULL AND NOT {{.Silent}}
    OR {{end}}{{if .Cut}}NOT (excluded.truncated <@ COALESCE(r.truncated, '{}')){{else}}false{{end}}
{{- range .Fields}}{{if not .Key}}{{with $d.Differs .}}
    OR {{.}}
{{- end}}{{end}}{{end}}
{{- if .RollUps}}
    OR (excluded.cycles IS NOT NULL AND ({{range $i, $c := .RollUps}}{{if $i}}, {{end}}r.{{.}}{{end}})
        IS DISTINCT FROM ({{range $i, $c := .RollUps}}{{if $i}}, {{end}}excluded.{{.}}{{end}}))
{{- end}}
{{- else if .Locks}} UPDATE SET origin = r.origin
WHERE false
{{- else}} NOTHING{{end}}
{{- end}}

{{- define "replace"}}{{template "insert" .}}
ON CONFLICT ({{.Keys}}{{if .Partitioned}}, part{{end}}) DO UPDATE SET
{{- $d := .}}
{{- range .Fields}}{{if not .Key}}
    {{.Column}} = {{$d.Anew .}},
{{- end}}{{end}}
{{- range .RollUps}}
    {{.}} = CASE WHEN excluded.cycles IS NULL THEN r.{{.}} ELSE excluded.{{.}} END,
{{- end}}
    truncated = excluded.truncated
WHERE (r.origin = '{{.Origin}}' AND r.revs IS NULL OR excluded.revs IS NOT NULL) AND ((
{{- range .Fields}}{{if not .Key}}
    r.{{.Column}}{{if eq .Type 6}}::text{{end}},
{{- end}}{{end}}
    r.truncated
) IS DISTINCT FROM (
{{- range .Fields}}{{if not .Key}}
    {{$d.Anew .}}{{if eq .Type 6}}::text{{end}},
{{- end}}{{end}}
    excluded.truncated
)
{{- if .RollUps}} OR (excluded.cycles IS NOT NULL AND ({{range $i, $c := .RollUps}}{{if $i}}, {{end}}r.{{.}}{{end}})
    IS DISTINCT FROM ({{range $i, $c := .RollUps}}{{if $i}}, {{end}}excluded.{{.}}{{end}}))
{{- end}})
RETURNING r.root_plan_id
{{- end}}`))

// The arrays carry every column of a type in one element type; the cast to the
// column's own stands in the SELECT list.
func param(n int, f record.Field) string {
	switch f.Type {
	case record.Int:
		return fmt.Sprintf("$%d::bigint[]", n)
	case record.Float:
		return fmt.Sprintf("$%d::double precision[]", n)
	case record.Bool:
		return fmt.Sprintf("$%d::boolean[]", n)
	case record.Time:
		return fmt.Sprintf("$%d::timestamptz[]", n)
	default:
		return fmt.Sprintf("$%d::text[]", n)
	}
}

func value(f record.Field) string {
	switch f.Type {
	case record.Texts:
		return "u." + f.Column + "::text[]"
	case record.JSON:
		return "u." + f.Column + "::json"
	default:
		return "u." + f.Column
	}
}

// attempts compares the attempt that the change speaks of with the row's; first tells
// whether the row is at the first one.
const (
	attempts = "actlog.attempts(r.attempt, excluded.attempt)"
	first    = "COALESCE(r.attempt, 1) = 1"
)

// rev is the revision of what is told of a field.
func (d data) rev(f record.Field) string {
	if !d.Revs {
		return "NULL::bigint" // and Postgres leaves out what depends on it
	}
	return fmt.Sprintf("excluded.revs[%d]", f.Rev)
}

// Takes is true where what is told replaces what is on record.
func (d data) Takes(f record.Field) string {
	fn, cast := "actlog.takes", ""
	switch {
	case f.Rule == record.Forward:
		fn = "actlog.takes_state"
	case f.Type == record.JSON:
		cast = "::text"
	}
	return fmt.Sprintf("%s(r.%s%s, r.revs[%d], excluded.%[2]s%[3]s, %[5]s)", fn, f.Column, cast, f.Rev, d.rev(f))
}

func (d data) merged(f record.Field) string {
	switch f.Rule {
	case record.Least:
		return fmt.Sprintf("LEAST(r.%s, excluded.%[1]s)", f.Column)
	case record.Greatest, record.Attempt:
		return fmt.Sprintf("GREATEST(r.%s, excluded.%[1]s)", f.Column)
	case record.Follows:
		return fmt.Sprintf("CASE WHEN %s THEN excluded.%s ELSE r.%[2]s END", d.Takes(*f.Of), f.Column)
	default:
		return fmt.Sprintf("CASE WHEN %s THEN excluded.%s ELSE r.%[2]s END", d.Takes(f), f.Column)
	}
}

// Set is what becomes of a field.
func (d data) Set(f record.Field) string {
	return d.scope(f, "excluded."+f.Column, d.merged(f), "r."+f.Column)
}

// scope chooses by attempt: a higher one starts anew, a lower one says nothing.
func (d data) scope(f record.Field, anew, same, old string) string {
	switch {
	case !f.Scoped:
		return same
	case !d.Reopens:
		return fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", first, same, old)
	}
	return fmt.Sprintf("CASE %s WHEN 1 THEN %s WHEN 0 THEN %s ELSE %s END", attempts, anew, same, old)
}

// Merged is what becomes of the revisions: those of fields that are not told stay.
func (d data) Merged() string {
	var lines []string
	for _, f := range d.all {
		if f.Rev == 0 {
			continue
		}
		old := fmt.Sprintf("r.revs[%d]", f.Rev)
		line := old
		if d.Tells(f.Name) {
			told := d.rev(f)
			same := fmt.Sprintf("GREATEST(%s, %s)", old, told)
			if f.Rule == record.Forward {
				same = fmt.Sprintf("CASE WHEN %s THEN COALESCE(%s, %s) ELSE %[3]s END", d.Takes(f), told, old)
			}
			line = d.scope(f, told, same, old)
		}
		lines = append(lines, "        "+line)
	}
	return strings.Join(lines, ",\n")
}

// Anew is what becomes of a field that is told anew. A price stays for as long as its
// model does: it is of the day on which the model was told.
func (d data) Anew(f record.Field) string {
	if f.Rule == record.Follows && f.Type == record.Float {
		return fmt.Sprintf("CASE WHEN r.%s = excluded.%[1]s AND r.provider IS NOT DISTINCT FROM excluded.provider THEN COALESCE(r.%s, excluded.%[2]s) ELSE excluded.%[2]s END",
			f.Of.Column, f.Column)
	}
	return "excluded." + f.Column
}

// Silent is true where nothing is told but the key.
func (d data) Silent() string {
	var told []string
	for _, f := range d.Fields {
		if !f.Key {
			told = append(told, "excluded."+f.Column)
		}
	}
	if len(told) == 0 {
		return "true"
	}
	return "(" + strings.Join(told, ", ") + ") IS NULL"
}

// NoRevs is what stands for revisions where none was ever told: on a row that traces
// made, empty ones say that someone else told of it, too.
func (d data) NoRevs() string {
	if !d.Parted {
		return "NULL"
	}
	return fmt.Sprintf("CASE WHEN r.origin = 'otlp' AND NOT %s THEN '{}'::bigint[] END", d.Silent())
}

// Differs is true where the change would alter the field.
func (d data) Differs(f record.Field) string {
	var differs string
	switch f.Rule {
	case record.Follows:
		return ""
	case record.Least:
		differs = fmt.Sprintf("excluded.%s < COALESCE(r.%[1]s, 'infinity')", f.Column)
	case record.Greatest:
		differs = fmt.Sprintf("excluded.%s > COALESCE(r.%[1]s, '-infinity')", f.Column)
	case record.Attempt:
		return fmt.Sprintf("excluded.%s > COALESCE(r.%[1]s, 0)", f.Column)
	default:
		differs = d.Takes(f)
	}
	switch {
	case !f.Scoped:
		return differs
	case !d.Reopens:
		return fmt.Sprintf("(%s AND %s)", first, differs)
	}
	return fmt.Sprintf("(%s = 0 AND %s)", attempts, differs)
}
