package fieldsql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// Merge returns the statement of a shape. It takes many rows, as one array per column, and
// merges each into the row on record by the rules of its fields. After the arrays of
// [Shape.Named] come the names of cut fields and the revisions, if the shape has them, the
// earlier attempts, if it has [Shape.Past], then the part, if the shape is placed.
//
// A shape of keys only makes the rows that are missing. Plans are locked even then, in the
// order of their keys: a writer to a tree has to hold its root plan. The statement of plans
// also takes the days of a period, for new root plans. The statement of steps rolls up their
// cycles and tool calls, so it runs after those, unless the shape grows the roll-ups.
func Merge(k record.Kind, shape Shape) string {
	s := newStatement(k, shape, "")
	upsert := s.insert() + s.onConflict() + s.merge()
	if s.Grows && s.Partitioned {
		return growing(k, s.partition(), upsert)
	}
	return upsert
}

// Replace returns the statement that puts rows in place of those that spans made before, and
// returns the roots of the rows that differed. It clears fields that are not set any more.
// Rows that a native record wrote to stay as they are, unless they come with revisions: then
// the caller has merged them. Its parameters are those of Merge for [TraceShape], which may be placed
// and grow the roll-ups.
func Replace(k record.Kind, grows bool) string {
	shape := TraceShape(k)
	shape.Placed, shape.Grows = grows && k != record.KindPlan, grows && k != record.KindPlan
	s := newStatement(k, shape, "otlp")
	upsert := s.insert() + s.onConflict() + s.onConflictReplace()
	if s.Grows && s.Partitioned {
		return growing(k, s.partition(), upsert)
	}
	return upsert + "\nRETURNING r.root_plan_id"
}

// statement is a statement in the making. In its SQL r is the row on record, u the row that
// is written, and rolled its roll-ups.
type statement struct {
	Table
	Shape
	origin string // of new rows; empty for the table's default
	named  []*field.Field
	body   []*field.Field // named, without keys
	rolled []Column
	params int // arrays
}

func newStatement(k record.Kind, shape Shape, origin string) *statement {
	s := &statement{Table: TableOf(k), Shape: shape, origin: origin, named: shape.Named(k)}
	for _, f := range s.named {
		if !f.Key {
			s.body = append(s.body, f)
		}
	}

	if k == record.KindAgentExecution && !shape.Grows {
		s.rolled = rollUps
		if shape.Uncalled {
			s.rolled = uncalledRollUps
		}
	}

	s.params = len(s.named)
	for _, more := range []bool{s.Cut, s.Revs, s.Past(k)} {
		if more {
			s.params++
		}
	}
	return s
}

// partition is where the detail of a row's tree lies.
func (s *statement) partition() string {
	if s.Placed {
		return param(s.params+1, "date")
	}
	return "root.part"
}

func (s *statement) insert() string {
	columns := s.columns()
	var from strings.Builder

	if s.Kind == record.KindPlan {
		from.WriteString("\nCROSS JOIN (SELECT (now() AT TIME ZONE 'utc')::date AS day) AS today")
	}
	if s.NamesPartition && !s.Placed {
		from.WriteString("\nLEFT JOIN actlog.plan_execution_record AS root" +
			"\n    ON root.root_plan_id = u.root_plan_id AND root.current_plan_id = u.root_plan_id")
	}
	if s.rolled != nil {
		from.WriteString(rollUpJoin(s.partition(), !s.Uncalled))
	}
	if s.Kind == record.KindPlan { // locked in this order
		from.WriteString("\nORDER BY u.root_plan_id COLLATE \"C\", u.current_plan_id COLLATE \"C\"")
	}

	arrays, names := s.arrays()
	return "INSERT INTO actlog." + s.Name + " AS r (\n    " +
		list(columns, newLine, func(a assignment) string { return a.column }) +
		"\n)\nSELECT\n    " + list(columns, newLine, func(a assignment) string { return a.value }) +
		"\nFROM unnest(\n    " + strings.Join(arrays, newLine) + "\n) AS u (\n    " + strings.Join(names, newLine) + "\n)" +
		from.String()
}

// columns returns what a new row is made of.
func (s *statement) columns() (out []assignment) {
	add := func(column, value string) { out = append(out, assignment{column, value}) }
	for _, f := range s.named {
		switch f.Type {
		case field.Texts, field.JSON, field.Hashes:
			add(f.Column, "u."+f.Column+"::"+parameterType(f))
		default:
			add(f.Column, "u."+f.Column)
		}
	}

	if s.Cut {
		add("truncated", "u.truncated::text[]")
	}
	if s.Revs {
		add("revs", "u.revs::bigint[]")
	}
	if s.Past(s.Kind) {
		add("attempts", "u.attempts::jsonb")
	}

	switch {
	case s.Kind == record.KindPlan: // periods begin as in store.PeriodStart
		add("part", fmt.Sprintf("COALESCE(root.part, today.day - (today.day - DATE '2001-01-01') %% %s)",
			param(s.params+1, "integer")))
	case s.Placed && s.Kind == record.KindActTool:
		add("part", fmt.Sprintf(`CASE WHEN EXISTS (
        SELECT FROM actlog.think_act_record AS c
        WHERE c.root_plan_id = u.root_plan_id AND c.step_id = u.step_id AND c.seq = u.seq AND c.part = %[1]s
        OFFSET 0 -- else Postgres may read the whole partition, to look the cycles up in memory
    ) THEN %[1]s ELSE actlog.stale_guess('the cycle of a tool call is not on record') END`, s.partition()))
	case s.NamesPartition:
		add("part", s.partition())
	}

	for _, c := range s.rolled {
		add(c.Name, "rolled."+c.Name)
	}
	if s.Grows && s.Kind == record.KindAgentExecution {
		for _, c := range counted {
			add(c, "0") // as if nothing were summed up
		}
	}

	if s.origin != "" {
		add("origin", "'"+s.origin+"'")
	}
	for _, f := range s.body {
		switch f.Role {
		case field.Once:
			add(f.Column+"_at", "CASE WHEN u."+f.Column+" IS NOT NULL THEN now() END")
		case field.Heartbeat:
			add("beat_at", "CASE WHEN u."+f.Column+" IS NOT NULL THEN now() END")
		}
	}
	return out
}

// arrays returns the parameters, and the names of the columns that they unnest to. Lists and
// JSON are sent as text.
func (s *statement) arrays() (params, names []string) {
	add := func(name, of string) {
		params, names = append(params, param(len(params)+1, of+"[]")), append(names, name)
	}

	for _, f := range s.named {
		switch f.Type {
		case field.Texts, field.JSON, field.Hashes:
			add(f.Column, "text")
		default:
			add(f.Column, parameterType(f))
		}
	}

	if s.Cut {
		add("truncated", "text")
	}
	if s.Revs {
		add("revs", "text")
	}
	if s.Past(s.Kind) {
		add("attempts", "text")
	}
	return params, names
}

func (s *statement) onConflict() string {
	target := keys(s.Kind)
	if s.Partitioned {
		target = append(target, "part")
	}
	return "\nON CONFLICT (" + strings.Join(target, ", ") + ") DO "
}

func updateSet(set []assignment) string {
	return "UPDATE SET\n    " + list(set, newLine, func(a assignment) string { return a.column + " = " + a.value })
}

func (s *statement) merge() string {
	switch {
	case len(s.body) > 0 || s.Cut || s.rolled != nil:
	case s.Kind == record.KindPlan: // locked although nothing changes
		return "UPDATE SET origin = r.origin\nWHERE false"
	default:
		return "NOTHING"
	}

	var set []assignment
	add := func(column, value string) { set = append(set, assignment{column, value}) }
	for _, f := range s.body {
		add(f.Column, s.byAttempt(f, "excluded."+f.Column, s.merged(f), "r."+f.Column))
	}
	for _, f := range s.body {
		switch f.Role {
		case field.Once: // the same value again does not arm it again
			armed := fmt.Sprintf("CASE WHEN r.%s IS DISTINCT FROM excluded.%[1]s AND %s THEN", f.Column, s.takes(f))
			add(f.Column+"_at", fmt.Sprintf("%s excluded.%s_at ELSE r.%[2]s_at END", armed, f.Column))
			add(f.Column+"_served_at", fmt.Sprintf("%s NULL ELSE r.%s_served_at END", armed, f.Column))
		case field.Heartbeat: // by the database's clock: those of clients differ
			add("beat_at", "CASE WHEN "+s.differs(f)+" THEN excluded.beat_at ELSE r.beat_at END")
		}
	}

	if s.Cut {
		add("truncated", `CASE
        WHEN excluded.truncated <@ COALESCE(r.truncated, '{}') THEN r.truncated
        WHEN excluded.truncated IS NULL THEN r.truncated
        ELSE r.truncated || excluded.truncated
    END`)
	}
	switch {
	case s.Revs:
		add("revs", "CASE WHEN r.revs IS NULL AND excluded.revs IS NULL THEN "+s.noRevs()+" ELSE ARRAY[\n        "+
			s.mergedRevs()+"\n    ] END")
	case s.NamesPartition:
		add("revs", "COALESCE(r.revs, "+s.noRevs()+")")
	}

	if untouched, past := s.past(); past != "" {
		add("attempts", "CASE WHEN "+untouched+" THEN r.attempts ELSE "+past+" END")
	}
	return updateSet(append(set, s.keepRollups()...)) + "\nWHERE " + s.changes()
}

// changes is true if the row on record would differ afterwards: a repeated write writes
// nothing.
func (s *statement) changes() string {
	var any []string
	if s.NamesPartition { // the row becomes a shared one, see noRevs
		any = append(any, "r.origin = 'otlp' AND r.revs IS NULL AND NOT "+s.silent())
	}
	if s.Cut {
		any = append(any, "NOT (excluded.truncated <@ COALESCE(r.truncated, '{}'))")
	}

	for _, f := range s.body {
		if f.Rule != field.Follows {
			any = append(any, s.differs(f))
		}
	}
	if s.rolled != nil {
		any = append(any, s.rollupsDiffer())
	}
	if untouched, past := s.past(); past != "" {
		any = append(any, "NOT ("+untouched+") AND r.attempts IS DISTINCT FROM "+past)
	}
	return strings.Join(any, "\n    OR ")
}

// keepRollups keeps the roll-ups of a row whose detail was dropped.
func (s *statement) keepRollups() (set []assignment) {
	for _, c := range s.rolled {
		set = append(set, assignment{
			c.Name, fmt.Sprintf("CASE WHEN excluded.cycles IS NULL THEN r.%s ELSE excluded.%[1]s END", c.Name),
		})
	}
	return set
}

func (s *statement) rollupsDiffer() string {
	of := func(alias string) string {
		return list(s.rolled, ", ", func(c Column) string { return alias + "." + c.Name })
	}
	return "(excluded.cycles IS NOT NULL AND (" + of("r") + ")\n        IS DISTINCT FROM (" + of("excluded") + "))"
}

// onConflictReplace returns the SET and WHERE of the upsert by which a trace replaces its own row. A row is replaced
// only if it comes from this origin and has no native revisions (or the new version has some), and only if a value
// differs.
func (s *statement) onConflictReplace() string {
	var set []assignment
	var current, next []string
	for _, f := range s.body {
		value, cast := s.replaced(f), ""
		if f.Type == field.JSON { // json has no equality
			cast = "::text"
		}
		set = append(set, assignment{f.Column, value})
		current, next = append(current, "r."+f.Column+cast), append(next, value+cast)
	}

	set = append(set, s.keepRollups()...)
	copied := []string{"truncated"}
	if s.Past(s.Kind) {
		copied = append(copied, "attempts")
	}
	for _, column := range copied {
		set = append(set, assignment{column, "excluded." + column})
		current, next = append(current, "r."+column), append(next, "excluded."+column)
	}

	differs := "(\n    " + strings.Join(current, newLine) + "\n) IS DISTINCT FROM (\n    " + strings.Join(next, newLine) +
		"\n)"
	if s.rolled != nil {
		differs += " OR " + s.rollupsDiffer()
	}
	return updateSet(set) + "\nWHERE (r.origin = '" + s.origin +
		"' AND r.revs IS NULL OR excluded.revs IS NOT NULL) AND (" + differs + ")"
}

// replaced is the value of a field that replaces another. A price stays as long as its model
// does: it is the price of the day on which the model was written. So does what is kept with a price.
func (s *statement) replaced(f *field.Field) string {
	if f.Rule != field.Follows || f.Type != field.Float && f.With == nil {
		return "excluded." + f.Column
	}

	stays := fmt.Sprintf("r.%s = excluded.%[1]s AND r.provider IS NOT DISTINCT FROM excluded.provider", f.Of.Column)
	old := fmt.Sprintf("COALESCE(r.%s, excluded.%[1]s)", f.Column)
	if f.With != nil {
		stays, old = stays+" AND r."+f.With.Column+" IS NOT NULL", "r."+f.Column
	}
	return fmt.Sprintf("CASE WHEN %s THEN %s ELSE excluded.%s END", stays, old, f.Column)
}

// byAttempt chooses by attempt: a higher one resets the field, a lower one says nothing.
// Unless the shape reopens, what is written belongs to the first attempt.
func (s *statement) byAttempt(f *field.Field, higher, same, lower string) string {
	switch {
	case !f.Scoped:
		return same
	case !s.Reopens:
		return fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", firstAttempt, same, lower)
	}
	return fmt.Sprintf("CASE %s WHEN 1 THEN %s WHEN 0 THEN %s ELSE %s END", compareAttempts, higher, same, lower)
}

// past returns the earlier attempts after the merge, and when they stay as they are without
// it: always, if nothing is attempted again. past is empty if the statement names nothing that
// belongs to an attempt.
func (s *statement) past() (untouched, past string) {
	if !slices.ContainsFunc(s.body, func(f *field.Field) bool { return f.Scoped || f.Rule == field.Attempt }) {
		return "", ""
	}
	if !s.Reopens { // what is written may belong to an earlier attempt than the row's
		return firstAttempt, s.mergedAttempts("jsonb_build_object('attempt', r.attempt)", "NULL", s.ownAttempt("excluded"))
	}
	return compareAttempts + " = 0 AND excluded.attempts IS NULL",
		s.mergedAttempts(s.ownAttempt("r"), "excluded.attempts", s.ownAttempt("excluded"))
}

func (s *statement) mergedAttempts(own, sent, sentOwn string) string {
	return fmt.Sprintf("actlog.merge_attempts(r.attempts, %s, %s, %s, %s)", own, sent, sentOwn, attemptRules[s.Kind])
}

// ownAttempt is what a row says about its own attempt. The function leaves out what is NULL.
func (s *statement) ownAttempt(row string) string {
	members := []string{"'attempt', " + row + ".attempt", "'revs', " + row + ".revs"}
	for _, f := range s.body {
		if f.Scoped {
			members = append(members, fmt.Sprintf("'%s', %s.%s", f.Name, row, f.Column))
		}
	}
	return "jsonb_build_object(" + strings.Join(members, ", ") + ")"
}

// attemptRules says for actlog.merge_attempts what belongs to an attempt: by name, the rule
// of the field, its place among the revisions, and whether it is a time.
var attemptRules = func() map[record.Kind]string {
	all := map[record.Kind]string{}
	for _, k := range record.Kinds {
		var members []string
		for _, f := range field.Fields(k) {
			if f.Scoped {
				rule := map[field.Rule]string{
					field.Newest: "newest", field.Forward: "forward", field.Least: "least", field.Greatest: "greatest",
				}[f.Rule]
				members = append(members, fmt.Sprintf(`"%s": {"rule": "%s", "rev": %d, "time": %t}`, f.Name, rule, f.Rev,
					f.Type == field.Time))
			}
		}
		all[k] = "'{" + strings.Join(members, ", ") + "}'::jsonb"
	}
	return all
}()

const (
	firstAttempt    = "COALESCE(r.attempt, 1) = 1" // the row is at the first attempt
	compareAttempts = "actlog.attempts(r.attempt, excluded.attempt)"
)

// rev is the revision of what is written to a field.
func (s *statement) rev(f *field.Field) string {
	if !s.Revs {
		return "NULL::bigint" // Postgres leaves out what depends on it
	}
	return fmt.Sprintf("excluded.revs[%d]", f.Rev)
}

// takes is true if the value that is written replaces the one on record.
func (s *statement) takes(f *field.Field) string {
	function, cast := "actlog.takes", ""
	switch {
	case f.Rule == field.Forward:
		function = "actlog.takes_state"
	case f.Type == field.JSON:
		cast = "::text"
	}
	return fmt.Sprintf("%s(r.%s%s, r.revs[%d], excluded.%[2]s%[3]s, %[5]s)", function, f.Column, cast, f.Rev, s.rev(f))
}

// merged is the value of a field after the merge, within one attempt.
func (s *statement) merged(f *field.Field) string {
	decides := f
	switch f.Rule {
	case field.Least:
		return fmt.Sprintf("LEAST(r.%s, excluded.%[1]s)", f.Column)
	case field.Greatest, field.Attempt:
		return fmt.Sprintf("GREATEST(r.%s, excluded.%[1]s)", f.Column)
	case field.Follows:
		decides = f.Of
	}
	return fmt.Sprintf("CASE WHEN %s THEN excluded.%s ELSE r.%[2]s END", s.takes(decides), f.Column)
}

// mergedRevs are the revisions after the merge. Those of fields that are not named stay.
func (s *statement) mergedRevs() string {
	var revs []string
	for _, f := range field.Fields(s.Kind) {
		if f.Rev == 0 {
			continue
		}

		old := fmt.Sprintf("r.revs[%d]", f.Rev)
		rev := old
		if slices.Contains(s.named, f) {
			same := fmt.Sprintf("GREATEST(%s, %s)", old, s.rev(f))
			if f.Rule == field.Forward {
				same = fmt.Sprintf("CASE WHEN %s THEN COALESCE(%s, %s) ELSE %[3]s END", s.takes(f), s.rev(f), old)
			}
			rev = s.byAttempt(f, s.rev(f), same, old)
		}
		revs = append(revs, rev)
	}
	return strings.Join(revs, ",\n        ")
}

// silent is true if a row says nothing but its key.
func (s *statement) silent() string {
	if len(s.body) == 0 {
		return "true"
	}
	return "(" + list(s.body, ", ", func(f *field.Field) string { return "excluded." + f.Column }) + ") IS NULL"
}

// noRevs stands for revisions if none were ever written. On a row that a trace made, an empty
// list marks that a native record wrote to it: the row is shared.
func (s *statement) noRevs() string {
	if !s.NamesPartition {
		return "NULL"
	}
	return "CASE WHEN r.origin = 'otlp' AND NOT " + s.silent() + " THEN '{}'::bigint[] END"
}

// differs is true if the merge would change the field. A field that follows another has no
// say of its own.
func (s *statement) differs(f *field.Field) string {
	var differs string
	switch f.Rule {
	case field.Least:
		differs = fmt.Sprintf("excluded.%s < COALESCE(r.%[1]s, 'infinity')", f.Column)
	case field.Greatest:
		differs = fmt.Sprintf("excluded.%s > COALESCE(r.%[1]s, '-infinity')", f.Column)
	case field.Attempt:
		return fmt.Sprintf("excluded.%s > COALESCE(r.%[1]s, 0)", f.Column)
	default:
		differs = s.takes(f)
	}

	switch {
	case !f.Scoped:
		return differs
	case !s.Reopens:
		return fmt.Sprintf("(%s AND %s)", firstAttempt, differs)
	}
	return fmt.Sprintf("(%s = 0 AND %s)", compareAttempts, differs)
}
