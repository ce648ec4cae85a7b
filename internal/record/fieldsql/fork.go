package fieldsql

import (
	"fmt"
	"strings"

	"github.com/actlog/actlog/internal/record/field"
	"github.com/actlog/actlog/record"
)

// fork says how rows of a kind are copied into another tree. In its SQL, r is a row of the original.
type fork struct {
	from    string            // which rows, and under which ids
	set     map[string]string // the columns that differ from those of the original
	opened  map[string]string // those that differ in rows with which the copy goes on
	address string            // of the original
	more    []string          // columns beside those of fields
}

// opened returns the columns of a row that goes on: its state, and those that are empty.
func opened(state string, empty ...string) map[string]string {
	all := map[string]string{"told_state": "'" + state + "'"}
	for _, column := range empty {
		all[column] = "NULL"
	}
	return all
}

// attached is what is attached to plans: p are these, each with the time from on which nothing is copied that belongs
// to no tool call, s are steps, c the tool calls that are copied. A row that names a step or a call is copied if they
// are; and, if its step is one with which the copy goes on, or it has none, if it is from before that time.
func attached(table, until string, ofCalls bool) string {
	from := "FROM unnest($3::text[], $4::text[], $5::timestamptz[]) AS p (id, new_id, until)\n" +
		"JOIN actlog." + table + " AS r ON r.root_plan_id = $1::text AND r.plan_id = p.id\n" +
		"LEFT JOIN unnest($6::text[], $7::text[]"
	if !ofCalls {
		return from + ", $8::boolean[]) AS s (id, new_id, opens) ON s.id = r.step_id\n" +
			"WHERE (r.step_id IS NULL OR s.id IS NOT NULL) AND (p.until IS NULL OR NOT s.opens OR " + until + ")"
	}

	return from + ") AS s (id, new_id) ON s.id = r.step_id\n" +
		"LEFT JOIN unnest($8::text[], $9::text[]) AS c (id, new_id) ON c.id = r.tool_call_id\n" +
		"WHERE (r.step_id IS NULL OR s.id IS NOT NULL) AND (r.tool_call_id IS NULL OR c.id IS NOT NULL)\n" +
		"    AND (p.until IS NULL OR c.id IS NOT NULL OR " + until + ")"
}

var forks = map[record.Kind]fork{
	record.KindPlan: {
		from: "FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[]) AS " +
			"u (id, new_id, parent_id, call_id, opens)\n" +
			"JOIN actlog.plan_execution_record AS r ON r.root_plan_id = $1::text AND r.current_plan_id = u.id",
		set: map[string]string{
			"current_plan_id": "u.new_id", "parent_plan_id": "u.parent_id", "tool_call_id": "u.call_id",
		},
		opened: opened("PENDING", "start_time", "end_time", "summary", "error_message", "error_kind", "attempt", "attempts",
			"last_seen_at", "forked_from"),
		address: "'plan:' || r.current_plan_id",
	},
	record.KindAgentExecution: {
		from: "FROM unnest($3::text[], $4::text[], $5::text[], $6::boolean[]) AS u (id, new_id, plan_id, opens)\n" +
			"JOIN actlog.agent_execution_record AS r ON r.root_plan_id = $1::text AND r.step_id = u.id",
		set: map[string]string{"step_id": "u.new_id", "plan_id": "u.plan_id"},
		opened: opened("PENDING", "start_time", "end_time", "result", "error_message", "error_kind", "attempt", "attempts",
			"current_step", "latest_round", "latest_tool_name", "latest_tool_args", "last_seen_at", "forked_from"),
		address: "'step:' || r.step_id",
		more:    []string{"latest_round", "latest_tool_name", "latest_tool_args", "last_seen_at"},
	},
	record.KindThinkAct: {
		from: "FROM unnest($3::text[], $4::bigint[], $5::text[], $6::boolean[]) AS u (step_id, seq, new_id, opens)\n" +
			"JOIN actlog.think_act_record AS r ON r.root_plan_id = $1::text AND r.step_id = u.step_id AND r.seq = u.seq\n" +
			"    AND r.part = " + partOf("$1"),
		set:     map[string]string{"step_id": "u.new_id"},
		opened:  opened("RUNNING", "act_start_time", "act_end_time", "action_result"),
		address: "concat('cycle:', r.step_id, '/', r.seq)",
	},
	record.KindActTool: {
		from: "FROM unnest($3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::boolean[]) AS " +
			"u (step_id, seq, id, new_step_id, new_id, opens)\n" +
			"JOIN actlog.act_tool_info AS r ON r.root_plan_id = $1::text AND r.step_id = u.step_id AND r.seq = u.seq AND " +
			"r.tool_call_id = u.id\n    AND r.part = " + partOf("$1"),
		set: map[string]string{"step_id": "u.new_step_id", "tool_call_id": "u.new_id"},
		opened: opened("RUNNING", "end_time", "result", "error_message", "error_kind", "attempt", "attempts", "metadata",
			"progress", "forked_from"),
		address: "concat('call:', r.step_id, '/', r.seq, '/', r.tool_call_id)",
	},
	record.KindThought: {
		from:    attached("thought", "COALESCE(r.time, r.first_seen_at) < p.until", false),
		set:     map[string]string{"plan_id": "p.new_id", "step_id": "s.new_id"},
		address: "'thought:' || r.thought_id",
	},
	record.KindWait: {
		from:    attached("wait_state", "r.end_time <= p.until", true) + " AND r.state <> 'WAITING'",
		set:     map[string]string{"plan_id": "p.new_id", "step_id": "s.new_id", "tool_call_id": "c.new_id"},
		address: "'wait:' || r.wait_id",
	},
	record.KindArtifact: {
		from:    attached("artifact", "false", true),
		set:     map[string]string{"plan_id": "p.new_id", "step_id": "s.new_id", "tool_call_id": "c.new_id"},
		address: "'artifact:' || r.name",
	},
	record.KindSource: {
		from:    attached("source_reference", "false", true),
		set:     map[string]string{"plan_id": "p.new_id", "step_id": "s.new_id", "tool_call_id": "c.new_id"},
		address: "'source:' || r.source_id",
	},
}

// Fork returns the statement that copies rows of a kind into another tree, whose root plan is on record. Its first
// parameters are the root plans of the original and of the copy. Then come arrays. Plans: the old and the new id, the
// new parent, the new call. Steps: the old and the new id, the new plan. Cycles: the old step, the seq, the new step.
// Tool calls: the old step, the seq, the old call, the new step, the new call. After these, whether the copy goes on
// with the row. What is attached takes plans, old and new, with the times until which it is copied; steps, old and new;
// and calls, old and new, but thoughts whether the copy goes on with the step.
//
// A copy has no figures. What only one reader gets is not copied.
func Fork(k record.Kind) string {
	t, f := TableOf(k), forks[k]
	columns := []string{"truncated", "revs", "origin"}
	if field.HasAttempts(k) {
		columns = append(columns, "attempts")
	}
	columns = append(columns, f.more...)

	var names, values []string
	add := func(name, value string) {
		if open, goesOn := f.opened[name]; goesOn {
			value = fmt.Sprintf("CASE WHEN u.opens THEN %s ELSE %s END", open, value)
		}
		names, values = append(names, name), append(values, value)
	}
	for _, of := range field.Fields(k) {
		if of.Stored() && of.Role != field.Once && of.Column != "root_plan_id" && of.Column != "forked_from" {
			columns = append(columns, of.Column)
		}
	}

	add("root_plan_id", "$2::text")
	add("forked_from", f.address)
	if t.NamesPartition {
		add("part", partOf("$2"))
	}
	for _, column := range columns {
		value, differs := f.set[column]
		if !differs {
			value = "r." + column
		}
		add(column, value)
	}

	return fmt.Sprintf("INSERT INTO actlog.%s (\n    %s\n)\nSELECT\n    %s\n%s", t.Name, wrapped(names), wrapped(values),
		f.from)
}

// partOf returns the expression of the part of a tree.
func partOf(root string) string {
	return fmt.Sprintf("(SELECT p.part FROM actlog.plan_execution_record AS p WHERE p.root_plan_id = %s::text AND "+
		"p.current_plan_id = %[1]s::text)", root)
}

// ForkContents is the statement that copies the contents that cycles name, each once. Its parameters are the root plans
// of the original and of the copy, and the steps and seqs of the cycles.
func ForkContents() string {
	var named []string
	for _, k := range record.Kinds {
		for _, f := range field.InPieces(k) {
			named = append(named, fmt.Sprintf(`SELECT unnest(r.%s)
        FROM unnest($3::text[], $4::bigint[]) AS u (step_id, seq)
        JOIN actlog.%s AS r ON r.root_plan_id = $1::text AND r.step_id = u.step_id AND r.seq = u.seq
            AND r.part = `+partOf("$1")+`
        WHERE %s`, f.Pieces.Column, TableOf(k).Name, inPieces(f, "r")))
		}
	}

	return `INSERT INTO actlog.content (root_plan_id, part, hash, parts, body)
SELECT $2::text, ` + partOf("$2") + `, c.hash, c.parts, c.body
FROM actlog.contents_of($1::text, ` + partOf("$1") + `, ARRAY(
        ` + strings.Join(named, "\n        UNION ALL\n        ") + `
    )) AS c
ON CONFLICT DO NOTHING`
}
