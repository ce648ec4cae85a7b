package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// fillCalls adds tool calls by SQL: plans with 5 steps, each with 2 cycles, each with 5 calls. The
// plans are spread over whole weeks; the last one was ago weeks ago. The texts are short, because
// neither reports nor retention read them. Some names are those that docs/reporting.md asks for.
func (b *bench) fillCalls(ctx context.Context, db *database, calls, weeks, ago int) error {
	err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "CREATE TEMPORARY TABLE sample ON COMMIT DROP AS SELECT n - 1 AS n, value FROM "+
			"unnest($1::text[]) WITH ORDINALITY AS u (value, n)", b.text.sample(100)); err != nil {
			return err
		}

		for _, s := range []struct {
			sql  string
			args []any
		}{
			{`CREATE TEMPORARY TABLE week ON COMMIT DROP AS
				SELECT i AS n, date_trunc('week', now() AT TIME ZONE 'utc')::date - 7 * (i + $2::integer) AS day FROM generate_series(0, $1::integer - 1) AS i`, []any{weeks, ago}},
			{`SELECT actlog.add_partition(t, day, day + 7) FROM week, unnest(ARRAY['think_act_record', 'act_tool_info']) AS t
				WHERE to_regclass('actlog.' || t || '_p' || to_char(day, 'YYYYMMDD')) IS NULL`, nil},
			{`INSERT INTO actlog.plan_execution_record (root_plan_id, current_plan_id, part, first_seen_at, name, title, user_id, project, told_state, start_time, end_time)
				SELECT id, id, day, seen, CASE i % 20 WHEN 1 THEN 'answer-ticket' ELSE 'kind-' || i % 20 END, value, CASE i % 100 WHEN 1 THEN 'ada' ELSE 'user-' || i % 100 END, 'project-' || i % 3, CASE WHEN i % 20 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, seen, seen + interval '10 minutes'
				FROM generate_series(0, $1::integer / 50 - 1) AS i
				JOIN week ON week.n = i % (SELECT count(*) FROM week)
				JOIN sample ON sample.n = 1 + 4 * (i % 100)
				CROSS JOIN LATERAL (SELECT 'plan-' || md5(i::text) AS id, (day + make_interval(secs => i * 7919 % 590000)) AT TIME ZONE 'utc' AS seen) AS x`, []any{calls}},
			{`INSERT INTO actlog.agent_execution_record (root_plan_id, step_id, plan_id, part, step_index, agent_name, agent_version, model_name, told_state, start_time, end_time,
					cycles, completed_cycles, model_calls, tool_calls, failures, input_tokens, output_tokens, cost_usd, think_ms, tool_ms)
				SELECT root_plan_id, 'step-' || substr(root_plan_id, 6) || '-' || s, root_plan_id, part, s, CASE s WHEN 1 THEN 'researcher' ELSE 'agent-' || s END, 'v' || s % 2, 'large-1', state, start_time + make_interval(mins => 2 * s), start_time + make_interval(mins => 2 * s + 2),
					2, 2, 2, 10, CASE state WHEN 'FAILED' THEN 1 ELSE 0 END, 3000, 300, 0.012, 6000, 4000
				FROM actlog.plan_execution_record, generate_series(0, 4) AS s`, nil},
			{`INSERT INTO actlog.think_act_record (root_plan_id, step_id, seq, part, think_input, think_output, told_state, model_name, input_tokens, output_tokens, told_cost_usd, think_start_time, think_end_time)
				SELECT a.root_plan_id, a.step_id, c, a.part, left(input.value, 1000), output.value, 'COMPLETED', 'large-1', 1500, 150, 0.006, a.start_time + make_interval(mins => c), a.start_time + make_interval(mins => c, secs => 3)
				FROM actlog.agent_execution_record AS a CROSS JOIN generate_series(0, 1) AS c
				JOIN sample AS input ON input.n = 4 * (a.id % 100) JOIN sample AS output ON output.n = 1 + 4 * (a.id % 100)`, nil},
			{`INSERT INTO actlog.act_tool_info (root_plan_id, step_id, seq, tool_call_id, part, call_index, name, parameters, result, told_state, error_kind, start_time, end_time)
				SELECT c.root_plan_id, c.step_id, c.seq, 'toolcall-' || c.id || '-' || t, c.part, t, 'tool-' || (c.id + t) % 30, args.value, left(result.value, 500),
					CASE WHEN (c.id + t) % 19 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, CASE WHEN (c.id + t) % 19 = 0 THEN 'timeout' END,
					c.think_end_time + make_interval(secs => t), c.think_end_time + make_interval(secs => t + (c.id + t) % 700 / 1000.0)
				FROM actlog.think_act_record AS c CROSS JOIN generate_series(0, 4) AS t
				JOIN sample AS args ON args.n = 2 + 4 * ((c.id + t) % 100) JOIN sample AS result ON result.n = 3 + 4 * ((c.id + t) % 100)`, nil},
		} {
			if _, err := tx.Exec(ctx, s.sql, s.args...); err != nil {
				return err
			}
		}

		return nil
	})
	if err != nil {
		return fmt.Errorf("fill in tool calls: %w", err)
	}
	return db.settle(ctx)
}
