package fieldsql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/record"
)

// The roll-ups of a step sum up its cycles and tool calls. Either the statement of steps sums up all
// that there is, or the statements of cycles and tool calls add what they change, see [Shape.Grows].
// The result is the same. To sum up costs by what a step has, to add by what is written.

// figure is what a row adds to a roll-up of its step, unless it is a copy. An optional one may be NULL.
type figure struct {
	column, sql string
	optional    bool
}

// added is the SQL of what a row r adds: a copy adds nothing.
func (f figure) added() string {
	if f.optional {
		return "CASE WHEN r.forked_from IS NULL THEN " + f.sql + " END"
	}
	return "CASE WHEN r.forked_from IS NULL THEN " + f.sql + " ELSE 0 END"
}

// figures of the kinds that are rolled up. Rows are r.
var figures = map[record.Kind][]figure{
	record.KindThinkAct: {
		{column: "cycles", sql: "1"},
		{column: "completed_cycles", sql: "(r.status = 'FINISHED')::integer"},
		{column: "model_calls", sql: "(COALESCE(r.think_start_time, r.think_end_time) IS NOT NULL\n" +
			"            OR COALESCE(r.input_char_count, r.output_char_count, r.input_tokens, r.output_tokens) IS NOT NULL\n" +
			"            OR r.model_name IS NOT NULL)::integer"},
		{column: "failures", sql: "(r.state = 'FAILED')::integer"},
		{column: "input_tokens", sql: "r.input_tokens", optional: true},
		{column: "output_tokens", sql: "r.output_tokens", optional: true},
		{column: "cache_read_input_tokens", sql: "r.cache_read_input_tokens", optional: true},
		{column: "cache_creation_input_tokens", sql: "r.cache_creation_input_tokens", optional: true},
		{column: "reasoning_tokens", sql: "r.reasoning_tokens", optional: true},
		{column: "cost_usd", sql: "r.cost_usd", optional: true},
		{column: "think_ms", sql: "GREATEST(0, round(1000 * extract(epoch FROM r.think_end_time - r.think_start_time)))"},
	},
	record.KindActTool: {
		{column: "tool_calls", sql: "1"},
		{column: "failures", sql: "(r.state = 'FAILED')::integer"},
		{column: "tool_ms", sql: "GREATEST(0, round(1000 * extract(epoch FROM r.end_time - r.start_time)))"},
	},
}

// lastSeen is when a row was last heard of.
var lastSeen = map[record.Kind]string{
	record.KindThinkAct: "GREATEST(r.think_start_time, r.think_end_time, r.first_token_time, r.act_start_time, " +
		"r.act_end_time)",
	record.KindActTool: "GREATEST(r.start_time, r.end_time)",
}

// counted are the roll-ups of a step without cycles that are not NULL.
var counted = []string{"cycles", "completed_cycles", "model_calls", "tool_calls", "failures", "latest_round"}

// rollUpJoin sums up all cycles and tool calls of each step that is written, and finds the latest call.
func rollUpJoin(partition string, latest bool) string {
	names, join := "", ""
	if latest {
		names, join = ",\n        l.name AS latest_tool_name, l.args AS latest_tool_args", `
    LEFT JOIN (
        `+latestTool(partition)+`
    ) AS l ON true`
	}

	sums := func(k record.Kind) string {
		return list(figures[k], ",\n            ", func(f figure) string {
			sum := "sum(" + f.added() + ")"
			if slices.Contains(counted, f.column) {
				sum = "COALESCE(" + sum + ", 0)"
			}
			return sum + " AS " + f.column
		})
	}

	return strings.NewReplacer("CYCLES", sums(record.KindThinkAct), "CALLS", sums(record.KindActTool),
		"CYCLE_SEEN", lastSeen[record.KindThinkAct], "CALL_SEEN", lastSeen[record.KindActTool], "LATEST_NAMES", names,
		"LATEST_JOIN", join, "PART", partition).Replace(`
LEFT JOIN LATERAL (
    SELECT
        c.cycles, c.completed_cycles, c.model_calls, c.input_tokens, c.output_tokens, c.cache_read_input_tokens,
        c.cache_creation_input_tokens, c.reasoning_tokens, c.cost_usd, c.think_ms, c.latest_round,
        t.tool_calls, t.tool_ms, c.failures + t.failures AS failures,
        GREATEST(c.last_seen_at, t.last_seen_at) AS last_seen_atLATEST_NAMES
    FROM (
        SELECT
            CYCLES,
            COALESCE(max(r.seq) + 1, 0) AS latest_round,
            max(CYCLE_SEEN) AS last_seen_at
        FROM actlog.think_act_record AS r
        WHERE r.root_plan_id = u.root_plan_id AND r.step_id = u.step_id AND r.part = PART
    ) AS c
    CROSS JOIN (
        SELECT
            CALLS,
            max(CALL_SEEN) AS last_seen_at
        FROM actlog.act_tool_info AS r
        WHERE r.root_plan_id = u.root_plan_id AND r.step_id = u.step_id AND r.part = PART
    ) AS tLATEST_JOIN
) AS rolled ON ` + detailKept("PART"))
}

// detailKept is true unless the detail of a part was dropped: then the roll-ups stay as they are.
func detailKept(partition string) string {
	return fmt.Sprintf(`%[1]s >= COALESCE((
    SELECT d.to_day FROM actlog.dropped_detail AS d WHERE d.from_day <= %[1]s ORDER BY d.from_day DESC LIMIT 1
), '-infinity')`, partition)
}

// growing makes a statement that writes cycles or tool calls, and whose rows are r, also add what it
// changes to the roll-ups of their steps. It returns the roots of the rows that it wrote.
func growing(k record.Kind, partition, upsert string) string {
	names := keys(k)

	return "WITH after AS (\n" + upsert + "\nRETURNING " + list(names, ", ", func(key string) string {
		return "r." + key
	}) + ", " + addends(k) + "\n)" +
		// A statement sees its tables as they were before it. LIMIT makes Postgres look up each row by
		// its key, even if it has no statistics.
		grow(k, partition, "a", "after", fmt.Sprintf(`after AS a
    LEFT JOIN LATERAL (
        SELECT %s
        FROM actlog.%s AS r
        WHERE %s AND r.part = %s
        LIMIT 1
    ) AS b ON true`, addends(k), TableOf(k).Name, list(names, " AND ", func(key string) string { return "r." + key + " = a." + key }), partition))
}

func addends(k record.Kind) string {
	return "r.seq + 1 AS latest_round,\n        " +
		list(figures[k], ",\n        ", func(f figure) string { return f.added() + " AS " + f.column }) +
		",\n        " + lastSeen[k] + " AS last_seen_at"
}

// grow adds to the roll-ups what rows are now, a, without what they were before, b. What is the
// greatest of all can only be told without looking at all if it does not shrink, and a sum of nothing
// only if nothing became unknown.
func grow(k record.Kind, partition, keys, written, from string) string {
	change := func(f figure) string {
		now := "sum(a." + f.column + ")"
		if !f.optional {
			now = "COALESCE(" + now + ", 0)"
		}
		return fmt.Sprintf("%s - COALESCE(sum(b.%[2]s), 0) AS %[2]s", now, f.column)
	}

	forgotten := []string{"false"}
	var set []assignment
	for _, f := range figures[k] {
		value := fmt.Sprintf("COALESCE(s.%[1]s, 0) + d.%[1]s", f.column)
		if f.optional {
			forgotten = append(forgotten, fmt.Sprintf("bool_or(b.%[1]s IS NOT NULL AND a.%[1]s IS NULL)", f.column))
			value = fmt.Sprintf("COALESCE(s.%[1]s + d.%[1]s, d.%[1]s, s.%[1]s)", f.column)
		}
		set = append(set, assignment{f.column, value})
	}

	if k == record.KindThinkAct {
		set = append(set, assignment{"latest_round", "GREATEST(s.latest_round, d.latest_round)"})
	}
	set = append(set, assignment{"last_seen_at", `CASE
            WHEN d.forgotten OR d.lost >= s.last_seen_at AND COALESCE(d.last_seen_at, '-infinity') < d.lost
            THEN actlog.stale_guess('the roll-ups of a step have to be summed up')
            ELSE GREATEST(s.last_seen_at, d.last_seen_at)
        END`})

	return fmt.Sprintf(`,
change AS MATERIALIZED (
    SELECT %[1]s.root_plan_id, %[1]s.step_id,
        %[2]s,
        max(a.latest_round) AS latest_round, max(a.last_seen_at) AS last_seen_at,
        max(b.last_seen_at) FILTER (WHERE b.last_seen_at > COALESCE(a.last_seen_at, '-infinity')) AS lost,
        %[3]s AS forgotten
    FROM %[4]s
    WHERE %[5]s
    GROUP BY %[1]s.root_plan_id, %[1]s.step_id
),
grown AS (
    UPDATE actlog.agent_execution_record AS s SET
        %[6]s
    FROM change AS d
    WHERE s.root_plan_id = d.root_plan_id AND s.step_id = d.step_id
    RETURNING s.step_id
)
SELECT DISTINCT root_plan_id
FROM %[7]s
WHERE CASE WHEN (SELECT count(*) FROM grown) <> (SELECT count(*) FROM change) THEN actlog.stale_guess('a step is not on record') IS NULL ELSE true END`,
		keys, list(figures[k], ",\n        ", change), strings.Join(forgotten, " OR "), from, detailKept(partition),
		list(set, ",\n        ", func(a assignment) string { return a.column + " = " + a.value }), written)
}

// RemoveCalls is the statement that deletes tool calls that only spans made, and takes them out of the
// roll-ups of their steps. It returns the roots of the deleted rows, and fails with [StaleGuess] as
// other statements that change the roll-ups do, see [Shape.Grows]. A call stays if a plan below it is
// native, unless it stands elsewhere now. Its parameters are the roots, steps, cycles and ids of the
// calls, which of them stand elsewhere, and the part of their detail.
var RemoveCalls = `WITH gone AS (
    DELETE FROM actlog.act_tool_info AS r
    USING unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::boolean[]) AS u (root_plan_id, step_id, seq, tool_call_id, moved)
    WHERE r.root_plan_id = u.root_plan_id AND r.step_id = u.step_id AND r.seq = u.seq AND r.tool_call_id = u.tool_call_id AND r.part = $6::date
        AND r.origin = 'otlp' AND r.revs IS NULL
        AND (u.moved OR NOT EXISTS (
            SELECT FROM actlog.plan_execution_record AS p
            WHERE p.root_plan_id = u.root_plan_id AND p.tool_call_id = u.tool_call_id AND (p.origin = 'native' OR p.revs IS NOT NULL)
            OFFSET 0
        ))
    RETURNING r.root_plan_id, r.step_id, ` + addends(record.KindActTool) + `
)` + grow(record.KindActTool, "$6::date", "b", "gone", "(SELECT * FROM gone LIMIT 0) AS a RIGHT JOIN gone AS b ON false")

func latestTool(partition string) string {
	return `SELECT r.name, left(r.parameters, 1000) AS args
        FROM actlog.act_tool_info AS r
        WHERE r.root_plan_id = u.root_plan_id AND r.step_id = u.step_id AND r.part = ` + partition + `
        ORDER BY r.seq DESC, r.call_index DESC NULLS FIRST, LEAST(r.start_time, actlog.first_start(r.attempts)) DESC NULLS FIRST, r.tool_call_id DESC
        LIMIT 1`
}

// LatestTool is the statement that finds the latest tool call of steps anew. It follows statements that
// grow the roll-ups. Its parameters are the roots and the ids of the steps, and the part of their
// detail.
var LatestTool = `UPDATE actlog.agent_execution_record AS s
SET latest_tool_name = l.name, latest_tool_args = l.args
FROM unnest($1::text[], $2::text[]) AS u (root_plan_id, step_id)
LEFT JOIN LATERAL (
        ` + latestTool("$3::date") + `
) AS l ON true
WHERE s.root_plan_id = u.root_plan_id AND s.step_id = u.step_id
    AND (s.latest_tool_name, s.latest_tool_args) IS DISTINCT FROM (l.name, l.args)
    AND ` + detailKept("$3::date")
