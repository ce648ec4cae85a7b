-- Lists say why a run failed. The rows that failed are found without reading the others.

-- +goose Up

LOCK TABLE actlog.plan_execution_record IN EXCLUSIVE MODE; -- writers begin there, so none holds what is locked next

CREATE INDEX plan_failed_root ON actlog.plan_execution_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED');
CREATE INDEX agent_failed_root ON actlog.agent_execution_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED');
CREATE INDEX think_act_failed_root ON actlog.think_act_record (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED');
CREATE INDEX act_tool_failed_root ON actlog.act_tool_info (root_plan_id) WHERE told_state IN ('FAILED', 'INTERRUPTED');

-- A statement of its own that is planned once for all parts: to plan it within a list took 45 ms with a year of partitions.
-- With OFFSET 0, rows are looked up one by one, by their keys: else Postgres would read the tree, and join it.
-- +goose StatementBegin
CREATE FUNCTION actlog.failed_rows(root text, home date) RETURNS json
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET plan_cache_mode = force_generic_plan -- it opens the partition of the part only
SET jit = off
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM actlog.plan_execution_record AS q WHERE q.root_plan_id = root AND q.told_state IN ('FAILED', 'INTERRUPTED'))
        AND NOT EXISTS (SELECT FROM actlog.agent_execution_record AS a WHERE a.root_plan_id = root AND a.told_state IN ('FAILED', 'INTERRUPTED'))
        AND NOT EXISTS (SELECT FROM actlog.think_act_record AS c WHERE c.root_plan_id = root AND c.part = home AND c.told_state IN ('FAILED', 'INTERRUPTED'))
        AND NOT EXISTS (SELECT FROM actlog.act_tool_info AS t WHERE t.root_plan_id = root AND t.part = home AND t.told_state IN ('FAILED', 'INTERRUPTED'))
    THEN
        RETURN NULL;
    END IF;
    RETURN (
        WITH RECURSIVE
        calls AS (
            SELECT t.step_id, t.seq, t.tool_call_id
            FROM actlog.act_tool_info AS t
            WHERE t.root_plan_id = root AND t.part = home AND t.told_state IN ('FAILED', 'INTERRUPTED')
            ORDER BY COALESCE(t.end_time, t.start_time) DESC NULLS LAST, t.step_id DESC, t.seq DESC, t.tool_call_id DESC
            LIMIT 50
        ),
        cycles AS (
            SELECT c.step_id, c.seq, c.state, c.error_kind, c.error_message, c.think_start_time, c.think_end_time, c.act_start_time, c.act_end_time
            FROM actlog.think_act_record AS c
            WHERE c.root_plan_id = root AND c.part = home AND c.told_state IN ('FAILED', 'INTERRUPTED')
            ORDER BY COALESCE(GREATEST(c.think_end_time, c.act_end_time), c.act_start_time, c.think_start_time) DESC NULLS LAST, c.step_id DESC, c.seq DESC
            LIMIT 50
        ),
        failed_steps AS (
            SELECT a.step_id
            FROM actlog.agent_execution_record AS a
            WHERE a.root_plan_id = root AND a.told_state IN ('FAILED', 'INTERRUPTED')
            ORDER BY COALESCE(a.end_time, a.start_time) DESC NULLS LAST, a.step_id DESC
            LIMIT 50
        ),
        failed_plans AS (
            SELECT q.current_plan_id
            FROM actlog.plan_execution_record AS q
            WHERE q.root_plan_id = root AND q.told_state IN ('FAILED', 'INTERRUPTED')
            ORDER BY COALESCE(q.end_time, q.start_time) DESC NULLS LAST, q.current_plan_id DESC
            LIMIT 50
        ),
        known_steps AS (
            SELECT step_id FROM failed_steps UNION SELECT step_id FROM calls UNION SELECT step_id FROM cycles
        ),
        above (plan_id) AS ( -- the plans of these rows, and those above them
            SELECT f.plan_id
            FROM (
                SELECT current_plan_id AS plan_id FROM failed_plans
                UNION
                SELECT a.shown_plan_id
                FROM known_steps AS u
                CROSS JOIN LATERAL (SELECT x.shown_plan_id FROM actlog.agent_execution_record AS x WHERE x.root_plan_id = root AND x.step_id = u.step_id OFFSET 0) AS a
            ) AS f
            UNION
            SELECT q.parent_plan_id
            FROM above
            CROSS JOIN LATERAL (SELECT x.parent_plan_id FROM actlog.plan_execution_record AS x WHERE x.root_plan_id = root AND x.current_plan_id = above.plan_id OFFSET 0) AS q
            WHERE q.parent_plan_id IS NOT NULL
        ),
        plans AS (
            SELECT q.current_plan_id, q.parent_plan_id, q.tool_call_id, q.parent_step_id, COALESCE(NULLIF(q.title, ''), NULLIF(q.user_request, ''), q.name) AS name, q.state, q.error_kind, q.error_message, q.start_time, q.end_time
            FROM above
            CROSS JOIN LATERAL (SELECT x.* FROM actlog.plan_execution_record AS x WHERE x.root_plan_id = root AND x.current_plan_id = above.plan_id OFFSET 0) AS q
        ),
        starters AS ( -- the calls that started these plans
            SELECT t.step_id, t.seq, t.tool_call_id
            FROM plans
            CROSS JOIN LATERAL (
                SELECT x.step_id, x.seq, x.tool_call_id
                FROM actlog.act_tool_info AS x
                WHERE x.tool_call_id = plans.tool_call_id AND x.root_plan_id = root AND x.part = home
                OFFSET 0
            ) AS t
        )
        SELECT json_agg(r)
        FROM (
            SELECT 'plan' AS kind, current_plan_id AS plan, parent_plan_id AS parent, parent_step_id AS step, NULL::integer AS seq, tool_call_id AS call, NULL::integer AS place,
                left(name, 300) AS name, state, error_kind, left(error_message, 300) AS error_message,
                start_time AS began, start_time, end_time
            FROM plans
            UNION ALL
            SELECT 'agentExecution', a.shown_plan_id, NULL, a.step_id, NULL, NULL, a.step_index, left(a.agent_name, 300), a.state, a.error_kind, left(a.error_message, 300),
                LEAST(a.start_time, actlog.first_start(a.attempts)), a.start_time, a.end_time
            FROM (SELECT step_id FROM known_steps UNION SELECT step_id FROM starters UNION SELECT parent_step_id FROM plans) AS u
            CROSS JOIN LATERAL (SELECT x.* FROM actlog.agent_execution_record AS x WHERE x.root_plan_id = root AND x.step_id = u.step_id OFFSET 0) AS a
            UNION ALL
            SELECT 'thinkAct', NULL, NULL, step_id, seq, NULL, NULL, NULL, state, error_kind, left(error_message, 300),
                NULL, LEAST(think_start_time, act_start_time), GREATEST(think_end_time, act_end_time)
            FROM cycles
            UNION ALL
            SELECT 'actTool', NULL, NULL, t.step_id, t.seq, t.tool_call_id, t.call_index, left(t.name, 300), t.state, t.error_kind, left(t.error_message, 300),
                LEAST(t.start_time, actlog.first_start(t.attempts)), t.start_time, t.end_time
            FROM (SELECT step_id, seq, tool_call_id FROM calls UNION SELECT step_id, seq, tool_call_id FROM starters) AS u
            CROSS JOIN LATERAL (
                SELECT x.*
                FROM actlog.act_tool_info AS x
                WHERE x.root_plan_id = root AND x.part = home AND x.step_id = u.step_id AND x.seq = u.seq AND x.tool_call_id = u.tool_call_id
                OFFSET 0
            ) AS t
        ) AS r
    );
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION actlog.failed_rows(text, date) IS
    'The rows of a tree that failed, the last 50 of each kind, and the plans, steps and calls above them, without long texts; null: none failed.';

-- +goose Down
DROP FUNCTION actlog.failed_rows(text, date);
DROP INDEX actlog.act_tool_failed_root, actlog.think_act_failed_root, actlog.agent_failed_root, actlog.plan_failed_root;
